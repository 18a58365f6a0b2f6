"""How often the gate stops a model that is as good as the base, and how often it sees the fall that it states.

Items lie in clusters; two benchmarks have three headlines each, correlated as text, image and group score are.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from record import run_bench

from tellapart.evaluation.compare import GateResult, judge
from tellapart.evaluation.systems import SharedBenchmark, System
from tellapart.records.result import BenchmarkResult, ModelRecord, Result, RunRecord

HEADLINES = ("text_score", "image_score", "group_score")

#: Shares of items that one of the two models alone gets right, and that both do.
DISCORDANCE, BOTH = 0.2, 0.35


class Setting(NamedTuple):
    """How items are drawn: clusters of each benchmark, items of the largest (sizes are uniform from 1), correlation."""

    clusters: int
    largest: int
    icc: float


SETTINGS = (Setting(400, 1, 0.0), Setting(150, 8, 0.2), Setting(40, 8, 0.4))


def _benchmark(rng: np.random.Generator, setting: Setting, name: str, fall: float) -> SharedBenchmark:
    codes = np.repeat(np.arange(setting.clusters), rng.integers(1, setting.largest + 1, setting.clusters))
    text = _outcomes(rng, codes, setting.icc, fall)
    image = _outcomes(rng, codes, setting.icc)
    if fall == 0:
        image = _mixed(rng, image, text)
    group = _mixed(rng, _outcomes(rng, codes, setting.icc), image)
    record = BenchmarkResult(title=name, fingerprint="0", metrics={}, origin="drawn")
    columns = zip(HEADLINES, (text, image, group), strict=True)
    return SharedBenchmark(name, {0: record, 1: record}, codes.astype(str), (), dict(columns))


def _outcomes(rng: np.random.Generator, codes: NDArray[np.int64], icc: float, fall: float = 0.0) -> NDArray[np.float64]:
    """Draw 0/1 `(item, model)`: shares of only base, only new, both and none are Dirichlet over the clusters."""
    shares = np.array([(DISCORDANCE + fall) / 2, (DISCORDANCE - fall) / 2, BOTH, 1 - DISCORDANCE - BOTH])
    clusters = int(codes.max()) + 1
    inside = rng.dirichlet(shares * (1 - icc) / icc, clusters) if icc else np.tile(shares, (clusters, 1))
    kind = (rng.random(len(codes))[:, None] > inside.cumsum(axis=1)[codes][:, :-1]).sum(axis=1)
    return np.column_stack([np.isin(kind, (0, 2)), np.isin(kind, (1, 2))]).astype(np.float64)


def _mixed(rng: np.random.Generator, outcomes: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return outcomes of which half are another headline's, as those of one item are."""
    return np.where(rng.random(len(outcomes))[:, None] < 0.5, other, outcomes)


def gates(setting: Setting, count: int, fall: float = 0.0, seed: int = 0) -> list[GateResult]:
    """Judge so many drawn pairs of runs; the first benchmark's text score falls by so much, the rest does not."""
    rng = np.random.default_rng(seed)
    run = RunRecord(started="2026-01-01T00:00:00+00:00", seed=0, command="", versions={})
    results = (Result(run=run, model=ModelRecord(name=name), benchmarks={}) for name in ("base", "new"))
    systems = [System(result.model.name, {}, result) for result in results]
    falls = {"first": fall, "second": 0.0}
    return [
        judge(systems, [_benchmark(rng, setting, *each) for each in falls.items()], seed=number)
        for number in range(count)
    ]


def measure_setting(setting: Setting, count: int) -> dict[str, float | int | str]:
    """Measure false alarms, the stated fall, and how often a true fall of that size stops the gate."""
    equal = gates(setting, count)
    fall = float(np.mean([one.rows[0].could_see for one in equal if one.rows[0].could_see is not None]))
    fallen = gates(setting, count, fall, seed=1)
    clusters = f"{setting.clusters} clusters of 1 to {setting.largest} items, correlation {setting.icc:g}"
    return {
        "setting": f"{setting.clusters} items" if setting.largest == 1 else clusters,
        "gates": count,
        "headlines": 2 * len(HEADLINES),
        "false_alarms": round(float(np.mean([not one.passed for one in equal])), 4),
        "stated_points": round(100 * fall, 2),
        "seen": round(float(np.mean([one.rows[0].verdict == "regression" for one in fallen])), 4),
    }


def measure(gates: int = 500) -> list[dict[str, float | int | str]]:
    """Measure each setting."""
    return [measure_setting(setting, gates) for setting in SETTINGS]


if __name__ == "__main__":
    run_bench(measure)
