"""The table of every system of the papers, from `systems.toml`; figures come from the benchmarks' records."""

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter
from speed_tables import fill_table

HERE = Path(__file__).resolve().parent
GOLDEN = HERE.parent / "bench" / "records" / "native_golden.json"


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
    return TypeAdapter(list[System]).validate_python(content["system"])


def systems_table() -> str:
    """Every system: where it occurs, how it is measured, how that was checked."""
    record = json.loads(GOLDEN.read_text(encoding="utf-8"))
    largest = {name: f"{max(found.values()):.0e}".replace("e-0", "e-") for name, found in record.items()}
    return fill_table("systems", systems=read_systems(), largest=largest)
