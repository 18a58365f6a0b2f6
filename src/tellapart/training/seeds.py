"""One configuration under several seeds: mean and spread over them, and tests paired by seed.

An interval over items covers one run's number; it does not cover the change by another seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tellapart.data.scores import join_names
from tellapart.errors import RunError
from tellapart.stats.multiple import holm
from tellapart.training.config import TrainConfig
from tellapart.training.ranks import RankGroup, open_accelerator
from tellapart.training.record import RECORD, TrainRecord, read_record
from tellapart.training.training_run import FinishedRun

#: A record's value of each metric of each benchmark.
_Values = dict[tuple[str, str], float]


@dataclass(frozen=True, slots=True)
class SeedRow:
    """One metric of one benchmark over seeds, paired with the start or another configuration, whose mean is `other`.

    The sd is that of a sample, and `low` and `high` are Student's 95 % interval of the difference over seeds; None of
    one seed, or if all seeds differ by the same. `p` is of the paired t-test, two-sided, `p_holm` adjusted for all rows
    that have one, and `p_ranks` of Wilcoxon's signed ranks, which assumes no normal distribution.
    """

    benchmark: str
    metric: str
    seeds: int
    mean: float
    sd: float | None
    other: float
    difference: float
    low: float | None
    high: float | None
    p: float | None
    p_holm: float | None
    p_ranks: float | None

    @property
    def reason(self) -> str:
        """The reason why there is no interval; empty if there is one."""
        if self.low is not None:
            return ""
        return "too few for an interval: 1 seed" if self.seeds == 1 else "no interval: all seeds differ by the same"


def train_seeds(
    config: TrainConfig,
    out: Path,
    count: int,
    once: Callable[[TrainConfig, Path], FinishedRun],
    *,
    resume: bool = False,
    limit: int | None = None,
) -> list[TrainRecord]:
    """Train under the configuration's seed and those after it, each to `out/seed-N`; return the records, to rank 0.

    Source: COCO-Counterfactuals (Le et al. 2023), appendix B.4.2: 25 seeds, 107 to 131.
    """
    ranks, records = RankGroup(open_accelerator(config.device)), list[TrainRecord]()
    for seed in range(config.seed, config.seed + count):
        seeded, folder = config.model_copy(update={"seed": seed}), out / f"seed-{seed:03d}"
        done = ranks.first(lambda: read_record(folder) if resume and (folder / RECORD).is_file() else None)  # noqa: B023
        if done is None or (done.config, done.limit) != (seeded.model_dump(mode="json"), limit):
            done = once(seeded, folder).record
        records += [done] if ranks.leads and done is not None else []
    odd = [f"seed-{_seed_of(record):03d}" for record in records if record.data != records[0].data]
    with ranks.together():
        if odd:
            raise RunError(f"{out}: {join_names(odd)} trained on other data than the rest; delete them, and resume")
    ranks.leave()
    return records


def read_seeds(out: Path) -> list[TrainRecord]:
    """Read the records of all seeds of a folder, in the order of the seeds."""
    records = [read_record(path.parent) for path in sorted(out.glob(f"seed-*/{RECORD}"))]
    if not records:
        raise RunError(f"{out} has no finished seeds; name a folder that `tellapart train --seeds N --out` wrote")
    return sorted(records, key=_seed_of)


def over_seeds(records: Sequence[TrainRecord]) -> tuple[SeedRow, ...]:
    """Compare the trained models with their starts, seed by seed, on every metric that all seeds measured."""
    return _compare_values([_values_of(record) for record in records], [_values_of(r, start=True) for r in records])


def between(first: Sequence[TrainRecord], second: Sequence[TrainRecord]) -> tuple[SeedRow, ...]:
    """Compare two configurations on the seeds and metrics that both have; differences are the first's."""
    one, other = ({_seed_of(record): _values_of(record) for record in records} for records in (first, second))
    if not (seeds := sorted(one.keys() & other.keys())):
        listed = [", ".join(map(str, sorted(values))) or "none" for values in (one, other)]
        raise RunError(f"the two share no seed: {listed[0]} and {listed[1]}; train both with the same seeds")
    rows = _compare_values([one[seed] for seed in seeds], [other[seed] for seed in seeds])
    if not rows:
        raise RunError("the two report no benchmark in common; give both the same report.benchmarks")
    return rows


def paired_by_seed(
    a: Sequence[float], b: Sequence[float]
) -> tuple[float | None, float | None, float | None, float | None]:
    """Return Student's 95 % interval of the mean of a - b, the paired t-test's p, and Wilcoxon's."""
    from scipy.stats import ttest_rel, wilcoxon

    first, second = np.asarray(a, np.float64), np.asarray(b, np.float64)
    changes = first - second
    if len(changes) < 2:
        return None, None, None, None
    moved = np.abs(changes) > 1e-12  # differences of rounded means are equal or are not
    ranks = float(wilcoxon(changes[moved]).pvalue) if moved.any() else 1.0
    if np.ptp(changes) < 1e-12:
        return None, None, None, ranks
    test = ttest_rel(first, second)
    low, high = test.confidence_interval(0.95)
    return float(low), float(high), float(test.pvalue), ranks


def _seed_of(record: TrainRecord) -> int:
    return int(str(record.config["seed"]))


def _values_of(record: TrainRecord, *, start: bool = False) -> _Values:
    rows = record.comparison.rows if record.comparison else ()
    return {(row.benchmark, row.metric): row.a if start else row.b for row in rows}


def _compare_values(a: Sequence[_Values], b: Sequence[_Values]) -> tuple[SeedRow, ...]:
    """Compare, seed by seed, every metric that all have."""
    rows = []
    for key in a[0] if a else ():
        if all(key in values for values in (*a, *b)):
            first, second = [values[key] for values in a], [values[key] for values in b]
            low, high, p, ranks = paired_by_seed(first, second)
            mean, other = float(np.mean(first)), float(np.mean(second))
            sd = float(np.std(first, ddof=1)) if len(first) > 1 else None
            rows.append(SeedRow(*key, len(first), mean, sd, other, mean - other, low, high, p, None, ranks))
    tested = [row.p for row in rows if row.p is not None]
    adjusted = iter(holm(tested) if tested else ())
    return tuple(row if row.p is None else replace(row, p_holm=float(next(adjusted))) for row in rows)
