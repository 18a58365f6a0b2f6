"""How often each printed interval covers the truth, and how often each printed test raises a false alarm (an hour).

    OPENBLAS_NUM_THREADS=1 nice python bench/coverage.py --pieces runs/coverage --out bench/records/coverage.json

Finished cells are kept in `--pieces`, so that the command can be stopped. `--only` measures some kinds; the record
keeps its cells of the others.
"""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from coverage_intervals import LEVEL
from coverage_kinds import BASE_SEED, KINDS, TESTS, Cell, Kind, Test, enough_printed
from typer import Option

#: Cells that cover more than this at twice the best width are listed.
WIDE = 0.99


def measure_cells(kind: Kind | Test, file: Path, datasets: int) -> list[Cell]:
    """Return a kind's cells in the order of its settings, measuring those that the file lacks."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    cells = {json.dumps(cell["setting"]): cell for cell in map(json.loads, lines)}
    for setting in kind.settings:
        if (key := json.dumps(setting)) not in cells:
            line = json.dumps(kind.measure(setting, datasets))
            cells[key] = json.loads(line)
            with file.open("a", encoding="utf-8") as out:
                out.write(f"{line}\n")
    return [cells[json.dumps(setting)] for setting in kind.settings]


def is_wide(cell: Cell) -> bool:
    """Return whether a cell covers far more than it must, at more than twice the width that would do."""
    return enough_printed(cell) and cell["coverage"] > WIDE and cell["width"] > 2 * cell["best"]


def join_cells(cells: dict[str, list[Cell]]) -> dict[str, Any]:
    """Join all cells to the record."""
    kinds, levels = (
        {name: each.record(cells[name]) for name, each in group.items() if name in cells} for group in (KINDS, TESTS)
    )
    marked = {name: [{**cell, "wide": is_wide(cell)} for cell in cells[name]] for name in kinds}
    return {
        "command": "python bench/coverage.py --pieces runs/coverage --out bench/records/coverage.json",
        "base_seed": BASE_SEED,
        "nominal": LEVEL,
        "lowest": min((kind["lowest"] for kind in kinds.values() if kind["lowest"] is not None), default=None),
        "highest_alarms": max((test["highest"] for test in levels.values()), default=None),
        "kinds": kinds,
        "tests": levels,
        "wide": sum(cell["wide"] for of_kind in marked.values() for cell in of_kind),
        "rare": sum(kind["rare"] for kind in kinds.values()),
        "cells": marked,
        "test_cells": {name: cells[name] for name in levels},
    }


def write_lines(record: dict[str, Any]) -> str:
    """Return the record as JSON with one cell a line."""

    def block(groups: dict[str, list[Any]]) -> str:
        inner = (
            f"\n  {json.dumps(name)}: [" + ",".join(f"\n   {json.dumps(cell)}" for cell in cells) + "]"
            for name, cells in groups.items()
        )
        return "{" + ",".join(inner) + "}"

    parts = (
        f" {json.dumps(key)}: {block(value) if key.endswith('cells') else json.dumps(value)}"
        for key, value in record.items()
    )
    return "{\n" + ",\n".join(parts) + "}\n"


def main(
    datasets: Annotated[int, Option(help="of a cell; four times as many near the line")] = 1000,
    pieces: Annotated[Path, Option(help="folder of finished cells")] = Path("runs/coverage"),
    only: Annotated[list[str], Option(help="first letters of kinds")] = ("",),  # type: ignore[assignment]
    out: Annotated[Path | None, Option(help="the record")] = None,
) -> None:
    """Measure what is not measured yet, and write the record."""
    pieces.mkdir(parents=True, exist_ok=True)
    cells: dict[str, list[Cell]] = {}
    if out is not None and out.exists():
        before = json.loads(out.read_text(encoding="utf-8"))
        cells = {**before["cells"], **before["test_cells"]}
    for name, kind in {**KINDS, **TESTS}.items():
        if name.startswith(tuple(only)):
            file = pieces / (name.replace(" ", "-").replace(",", "") + ".jsonl")
            cells[name] = measure_cells(kind, file, datasets)
            print(f"{name}: {kind.record(cells[name])}", flush=True)
    if out is not None:
        out.write_text(write_lines(join_cells(cells)), encoding="utf-8")


main.__doc__ = __doc__

if __name__ == "__main__":
    typer.run(main)
