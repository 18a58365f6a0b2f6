"""How often each printed interval covers the truth, and how often each printed test raises a false alarm (an hour).

    OPENBLAS_NUM_THREADS=1 nice python bench/coverage.py --pieces runs/coverage --out bench/records/coverage.json

Finished cells are kept in `--pieces`, so that the command can be stopped. `--kept RECORD` takes a record's cells, but
for the kinds of `--again`, whose rule was changed; `--only` measures some kinds.
"""

import argparse
import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from coverage_intervals import LEVEL, Found
from coverage_kinds import BASE_SEED, KINDS, TESTS, Kind, Test

#: Below this a cell is measured again on more data sets, the first ones included.
NEAR = 0.935
#: A cell that rarely prints an interval is measured on so many times the data sets at most.
MOST = 50
#: Cells that cover more than this at twice the best width are listed.
WIDE = 0.99


def summarise(found: Found) -> dict[str, Any]:
    """Return a cell's numbers; `best` is the width of equal intervals that cover 95 %, `flat` counts flat ones."""
    known = ~np.isnan(found.low)
    apart = np.abs(found.estimate - found.truth)
    best = 2 * float(np.quantile(apart[~np.isnan(apart)], LEVEL)) if (~np.isnan(apart)).any() else 0.0
    numbers: dict[str, Any] = {"datasets": len(known), "printed": round(float(known.mean()), 4), "best": round(best, 5)}
    if not known.any():
        return numbers | {"coverage": None, "width": None}
    low, high = found.low[known] - 1e-12, found.high[known] + 1e-12
    covered = (low <= found.truth) & (found.truth <= high)
    flat = int((found.high[known] <= found.low[known]).sum())
    return numbers | {
        "coverage": round(float(covered.mean()), 4),
        "width": round(float(np.median(high - low)), 5),
        **({"flat": flat} if flat else {}),
    }


def measure_cell(kind: Kind, setting: dict[str, Any], datasets: int) -> dict[str, Any]:
    """Simulate one cell; more data sets until enough of them print, and four times as many near the line."""
    # By the cell's name: no cell's data depend on which others are measured.
    seed = zlib.crc32(json.dumps([kind.base_seed, kind.name, setting]).encode())
    parts = [kind.simulate(np.random.default_rng(seed), datasets, **setting)]
    cell = summarise(parts[0])

    def draw_more() -> dict[str, Any]:
        parts.append(kind.simulate(np.random.default_rng([seed, len(parts)]), datasets, **setting))
        columns = (np.concatenate([getattr(part, name) for part in parts]) for name in ("estimate", "low", "high"))
        return summarise(Found(*columns, parts[0].truth))

    while cell["coverage"] is not None and not enough_printed(cell) and len(parts) < MOST:
        cell = draw_more()
    if cell["coverage"] is not None and cell["coverage"] < NEAR:
        for _ in range(3 * len(parts)):
            cell = draw_more()
    return {"setting": setting, **cell}


def measure_kept(
    kind: Kind | Test, file: Path, datasets: int, measured: Sequence[dict[str, Any]] = ()
) -> list[dict[str, Any]]:
    """Return a kind's cells in the order of its settings, measuring those that neither the file nor a record has."""
    kept = {
        json.dumps(cell["setting"]): {name: value for name, value in cell.items() if name != "wide"}
        for cell in measured
    }
    if file.is_file():
        for line in file.read_text(encoding="utf-8").splitlines():
            cell = json.loads(line)
            kept[json.dumps(cell["setting"])] = cell
    cells = []
    for setting in kind.settings:
        key = json.dumps(setting)
        if key not in kept:
            cell = kind.measure(setting, datasets) if isinstance(kind, Test) else measure_cell(kind, setting, datasets)
            kept[key] = json.loads(json.dumps(cell))
            with file.open("a", encoding="utf-8") as out:
                out.write(json.dumps(cell) + "\n")
        cells.append(kept[key])
    return cells


def enough_printed(cell: dict[str, Any]) -> bool:
    """Return whether a cell prints so many intervals that their coverage is known to about a hundredth."""
    return bool(cell["coverage"] is not None and cell["printed"] * cell["datasets"] >= 500)


def summary(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a kind's lowest and median coverage; `rare` cells print too few intervals to be ranked with the others."""
    rates = [cell["coverage"] for cell in cells if enough_printed(cell)]
    return {
        "cells": len(cells),
        "printing": len(rates),
        "lowest": min(rates, default=None),
        "median": round(float(np.median(rates)), 4) if rates else None,
        "rare": sum(cell["coverage"] is not None for cell in cells) - len(rates),
    }


def summarise_levels(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a test's highest and median level, and its power as a part of the exact test's."""
    levels, powers = ([cell[name] for cell in cells if name in cell] for name in ("alarms", "relative_power"))
    return {
        "cells": len(cells),
        "highest": max(levels),
        "median": round(float(np.median(levels)), 4),
        "least_power": min(powers, default=None),
        "median_power": round(float(np.median(powers)), 4) if powers else None,
    }


def record(kinds: dict[str, list[dict[str, Any]]], tests: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Join all cells to the record."""
    by_kind = {
        name: {
            "method": KINDS[name].method,
            "fewest": KINDS[name].fewest,
            "base_seed": KINDS[name].base_seed,
            **summary(cells),
        }
        for name, cells in kinds.items()
    }
    levels = {name: {"how": TESTS[name].how, **summarise_levels(cells)} for name, cells in tests.items()}
    wide = [
        {"kind": name, **cell}
        for name, cells in kinds.items()
        for cell in cells
        if enough_printed(cell) and cell["coverage"] > WIDE and cell["width"] > 2 * cell["best"]
    ]
    return {
        "command": "python bench/coverage.py --pieces runs/coverage --out bench/records/coverage.json",
        "base_seed": BASE_SEED,
        "nominal": LEVEL,
        "lowest": min(one["lowest"] for one in by_kind.values() if one["lowest"] is not None),
        "highest_alarms": max((one["highest"] for one in levels.values()), default=None),
        "kinds": by_kind,
        "tests": levels,
        "wide": len(wide),
        "rare": sum(one["rare"] for one in by_kind.values()),
        "cells": {
            name: [{**cell, "wide": {"kind": name, **cell} in wide} for cell in cells] for name, cells in kinds.items()
        },
        "test_cells": tests,
    }


def written(found: dict[str, Any]) -> str:
    """Return the record as JSON with one cell a line."""

    def block(groups: dict[str, list[Any]]) -> str:
        inner = (
            f"\n  {json.dumps(name)}: [" + ",".join(f"\n   {json.dumps(cell)}" for cell in cells) + "]"
            for name, cells in groups.items()
        )
        return "{" + ",".join(inner) + "}"

    parts = [
        f" {json.dumps(key)}: {block(value) if key.endswith('cells') else json.dumps(value)}"
        for key, value in found.items()
    ]
    return "{\n" + ",\n".join(parts) + "}"


def main() -> None:
    """Measure what is not measured yet, and write the record where every kind is done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", type=int, default=1000, help="of a cell; four times as many near the line")
    parser.add_argument("--pieces", type=Path, default=Path("runs/coverage"), help="folder of finished cells")
    parser.add_argument("--only", nargs="*", default=[""], help="first letters of kinds")
    parser.add_argument("--kept", type=Path, help="a record whose cells are not measured again")
    parser.add_argument("--again", nargs="*", default=[], help="first letters of kinds that are, all the same")
    parser.add_argument("--out", type=Path, help="the record; needs every kind")
    options = parser.parse_args()
    options.pieces.mkdir(parents=True, exist_ok=True)
    known = json.loads(options.kept.read_text(encoding="utf-8")) if options.kept else {"cells": {}, "test_cells": {}}
    measured = {**known["cells"], **known["test_cells"]}
    found: dict[str, list[dict[str, Any]]] = {}
    everything: list[Kind | Test] = [*KINDS.values(), *TESTS.values()]
    for kind in everything:
        if not kind.name.startswith(tuple(options.only)):
            continue
        file = options.pieces / (kind.name.replace(" ", "-").replace(",", "") + ".jsonl")
        earlier = () if kind.name.startswith(tuple(options.again)) else measured.get(kind.name, ())
        cells = found[kind.name] = measure_kept(kind, file, options.datasets, earlier)
        if isinstance(kind, Test):
            worst = max(cells, key=lambda cell: cell["alarms"])
            print(f"{kind.name}: alarms {worst['alarms']:.4f} at worst, {worst['setting']}", flush=True)
        else:
            print(f"{kind.name}: {summary(cells)}", flush=True)
            for cell in sorted(filter(enough_printed, cells), key=lambda cell: cell["coverage"])[:4]:
                print(f"  {cell}", flush=True)
    if options.out:
        kinds = {name: cells for name, cells in found.items() if name in KINDS}
        text = written(record(kinds, {name: cells for name, cells in found.items() if name in TESTS}))
        options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
