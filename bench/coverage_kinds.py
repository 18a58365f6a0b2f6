"""The catalogue of `coverage.toml`: every interval and every test that is printed, and how a cell is measured."""

import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from types import ModuleType
from typing import Any

import coverage_intervals
import coverage_tests
import numpy as np
from coverage_intervals import CATALOGUE, LEVEL, Found

#: Every cell's data are drawn from this seed and its name. Methods were chosen on other seeds.
BASE_SEED = 2026
#: Coverage below which, and a test's level above which, a cell is measured again on more data sets.
NEAR, NEAR_LEVEL = 0.935, 0.055
#: A cell that rarely prints an interval is measured on so many times the data sets at most.
MOST = 50
Cell = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """A kind of interval; `simulate` takes a generator, a number of data sets, and a setting's values by name."""

    name: str
    method: str
    fewest: str
    settings: tuple[dict[str, Any], ...]
    simulate: Callable[..., Found]
    base_seed: int = BASE_SEED

    def measure(self, setting: dict[str, Any], datasets: int) -> Cell:
        """Measure one cell; more data sets until enough of them print, and four times as many near the line."""
        # By the cell's name: no cell's data depend on which others are measured.
        seed = zlib.crc32(json.dumps([self.base_seed, self.name, setting]).encode())
        parts = [self.simulate(np.random.default_rng(seed), datasets, **setting)]
        cell = summarise(parts[0])

        def draw_more() -> Cell:
            parts.append(self.simulate(np.random.default_rng([seed, len(parts)]), datasets, **setting))
            return summarise(coverage_intervals.join(parts))

        while cell["coverage"] is not None and not enough_printed(cell) and len(parts) < MOST:
            cell = draw_more()
        if cell["coverage"] is not None and cell["coverage"] < NEAR:
            for _ in range(3 * len(parts)):
                cell = draw_more()
        return {"setting": setting, **cell}

    def record(self, cells: list[Cell]) -> dict[str, Any]:
        """Return the lowest and median coverage; `rare` cells print too few intervals to be ranked with the others."""
        rates = [cell["coverage"] for cell in cells if enough_printed(cell)]
        return {
            "method": self.method,
            "fewest": self.fewest,
            "base_seed": self.base_seed,
            "cells": len(cells),
            "printing": len(rates),
            "lowest": min(rates, default=None),
            "median": round(float(np.median(rates)), 4) if rates else None,
            "rare": sum(cell["coverage"] is not None for cell in cells) - len(rates),
        }


@dataclass(frozen=True, slots=True, eq=False)
class Test:
    """A test: `simulate` returns `alarms` under the null, and where an exact test exists `power` and `exact_power`."""

    name: str
    how: str
    settings: tuple[dict[str, Any], ...]
    simulate: Callable[..., dict[str, float]]

    def measure(self, setting: dict[str, Any], datasets: int) -> Cell:
        """Measure one setting."""
        seed = zlib.crc32(repr((BASE_SEED, self.name, setting)).encode())
        found = self.simulate(np.random.default_rng(seed), datasets, **setting)
        if found["alarms"] > NEAR_LEVEL:  # the most of many settings lies far out by chance: more data sets
            datasets *= 8
            found = self.simulate(np.random.default_rng(seed + 1), datasets, **setting)
        if found.get("exact_power"):
            found["relative_power"] = found["power"] / found["exact_power"]
        return {"setting": setting, "datasets": datasets} | {name: round(float(v), 4) for name, v in found.items()}

    def record(self, cells: list[Cell]) -> dict[str, Any]:
        """Return the highest and median level, and the power as a part of the exact test's."""
        levels, powers = ([cell[name] for cell in cells if name in cell] for name in ("alarms", "relative_power"))
        return {
            "how": self.how,
            "cells": len(cells),
            "highest": max(levels),
            "median": round(float(np.median(levels)), 4),
            "least_power": min(powers, default=None),
            "median_power": round(float(np.median(powers)), 4) if powers else None,
        }


def _settings(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for grid in row.pop("grids"):
        axes = [CATALOGUE["axes"][axis[1:]] if isinstance(axis, str) else axis for axis in grid.values()]
        yield from (dict(zip(grid, values, strict=True)) for values in product(*axes))


def _read_kinds(made: type[Any], simulations: ModuleType, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        row["name"]: made(settings=tuple(_settings(row)), simulate=getattr(simulations, row.pop("simulate")), **row)
        for row in rows
    }


KINDS: dict[str, Kind] = _read_kinds(Kind, coverage_intervals, CATALOGUE["kinds"])
TESTS: dict[str, Test] = _read_kinds(Test, coverage_tests, CATALOGUE["tests"])


def summarise(found: Found) -> Cell:
    """Return a cell's numbers; `best` is the width of equal intervals that cover 95 %, `flat` counts flat ones."""
    known = ~np.isnan(found.low)
    apart = np.abs(found.estimate - found.truth)
    best = 2 * float(np.quantile(apart[~np.isnan(apart)], LEVEL)) if (~np.isnan(apart)).any() else 0.0
    numbers: Cell = {"datasets": len(known), "printed": round(float(known.mean()), 4), "best": round(best, 5)}
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


def enough_printed(cell: Cell) -> bool:
    """Return whether a cell prints so many intervals that their coverage is known to about a hundredth."""
    return bool(cell["coverage"] is not None and cell["printed"] * cell["datasets"] >= 500)
