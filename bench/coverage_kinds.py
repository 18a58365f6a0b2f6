"""The catalogue of `coverage.toml`: every kind of interval and every test that is printed, with what simulates it."""

import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any
from zlib import crc32

import coverage_intervals
import coverage_tests
import numpy as np

#: Every cell's data are drawn from this seed and its name. Methods were chosen on other seeds.
BASE_SEED = 2026
#: Kinds whose rule was changed after a run with that seed had failed them.
LATER_SEED = 2027
#: Of a test's level: above this a setting is measured again, on new and more data sets.
NEAR = 0.055


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """A kind of interval; `simulate` takes a generator, a number of data sets, and a setting's values by name."""

    name: str
    method: str
    fewest: str
    settings: tuple[dict[str, Any], ...]
    simulate: Callable[..., coverage_intervals.Found]
    base_seed: int = BASE_SEED


@dataclass(frozen=True, slots=True, eq=False)
class Test:
    """A test: `simulate` returns `alarms` under the null, and where an exact test exists `power` and `exact_power`."""

    name: str
    how: str
    settings: tuple[dict[str, Any], ...]
    simulate: Callable[..., dict[str, float]]

    def measure(self, setting: dict[str, Any], datasets: int) -> dict[str, Any]:
        """Measure one setting."""
        seed = crc32(repr((BASE_SEED, self.name, setting)).encode())
        found = self.simulate(np.random.default_rng(seed), datasets, **setting)
        if found["alarms"] > NEAR:  # the least and the most of many settings lie far out by chance: more data sets
            datasets *= 8
            found = self.simulate(np.random.default_rng(seed + 1), datasets, **setting)
        if found.get("exact_power"):
            found["relative_power"] = found["power"] / found["exact_power"]
        numbers = {name: round(float(value), 4) for name, value in found.items()}
        return {"setting": setting, "datasets": datasets, **numbers}


_CATALOGUE: dict[str, Any] = tomllib.loads(Path(__file__).with_name("coverage.toml").read_text(encoding="utf-8"))


def _settings(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for grid in row.pop("grids"):
        axes = [_CATALOGUE["axes"][axis[1:]] if isinstance(axis, str) else axis for axis in grid.values()]
        yield from (dict(zip(grid, values, strict=True)) for values in product(*axes))


KINDS = {
    row["name"]: Kind(
        settings=tuple(_settings(row)),
        simulate=getattr(coverage_intervals, row.pop("simulate")),
        base_seed=LATER_SEED if row.pop("later", False) else BASE_SEED,
        **row,
    )
    for row in _CATALOGUE["kinds"]
}
TESTS = {
    row["name"]: Test(settings=tuple(_settings(row)), simulate=getattr(coverage_tests, row.pop("simulate")), **row)
    for row in _CATALOGUE["tests"]
}
