"""The table of every system of the papers, from `systems.toml`; figures come from the benchmarks' records."""

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
GOLDEN = HERE.parent / "bench" / "records" / "native_golden.json"

CHECKED = {
    "golden": "authors' code: {}",
    "library": "its library",
    "laws": "formulas, laws, shapes",
    "made": "a made file",
    "": "",
}


@dataclass(frozen=True, slots=True)
class System:
    """One system; `systems.toml` says what each field is."""

    name: str
    where: str
    commands: tuple[str, ...]
    checked: str
    note: str
    type: str = ""
    golden: tuple[str, ...] = ()
    presets: tuple[str, ...] = ()


def read_systems() -> list[System]:
    """Read `systems.toml`, in its order."""
    content = tomllib.loads((HERE / "systems.toml").read_text(encoding="utf-8"))
    lists = ("commands", "golden", "presets")
    return [
        System(**{key: tuple(value) if key in lists else value for key, value in row.items()})
        for row in content["system"]
    ]


def systems_table() -> str:
    """Every system: where it occurs, how it is measured, how that was checked."""
    record = json.loads(GOLDEN.read_text(encoding="utf-8"))
    largest = {name: f"{max(found.values()):.0e}".replace("e-0", "e-") for name, found in record.items()}
    rows = ["| system | in | command | checked against | weights |", "|---|---|---|---|---|"]
    for one in read_systems():
        commands = "<br>".join(f"`{command}`" for command in one.commands)
        figures = max((largest[name] for name in one.golden), key=float, default="")
        checked, note = CHECKED[one.checked].format(figures), one.note.format(**largest)
        rows.append(f"| {one.name} | {one.where} | {commands} | {checked} | {note} |")
    return "\n".join(rows) + "\n"
