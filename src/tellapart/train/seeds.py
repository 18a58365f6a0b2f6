"""One configuration under several seeds: mean and spread over them, and tests paired by seed.

An interval over items says how sure one run's number is; it says nothing of how much another seed would have changed it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tellapart.data.scores import named
from tellapart.errors import RunError
from tellapart.stats.multiple import holm
from tellapart.train.config import TrainConfig
from tellapart.train.ranks import open_ranks
from tellapart.train.record import TrainRecord, read_record
from tellapart.train.start import Finished

__all__ = ["SeedRow", "between", "over_seeds", "paired_by_seed", "read_seeds", "train_seeds"]

_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class SeedRow:
    """One metric of one benchmark over seeds, paired with what it is compared with.

    Attributes:
        seeds: how many.
        mean, sd: of the trained models; the sd is that of a sample, None of one seed.
        other: mean of the start, or of the other configuration.
        difference, low, high: mean less other, with Student's 95 % interval over seeds; None of one seed, or where all
            seeds differ by the same.
        p: of the paired t-test, two-sided; None where there is no interval.
        p_holm: p, adjusted for all rows that have one (Holm).
        p_ranks: of Wilcoxon's signed ranks, which takes no normal distribution; None of one seed.

    >>> SeedRow("demo", "group_score", 1, 0.5, None, 0.4, 0.1, None, None, None, None, None).seeds
    1
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


def train_seeds(
    config: TrainConfig,
    out: Path,
    count: int,
    once: Callable[[TrainConfig, Path], Finished],
    *,
    resume: bool = False,
    limit: int | None = None,
) -> list[TrainRecord]:
    """Train under the configuration's seed and those after it, each to `out/seed-N`; return the records, to the first rank.

    Args:
        config: of all; its own seed is the first.
        out: the folder of the runs.
        count: of seeds.
        once: trains one configuration to one folder (`start`, the other arguments given).
        resume: whether seeds that are done are kept; `once` goes on with the others.
        limit: steps that `once` stops after, if it does.

    Raises:
        RunError: the folders hold runs on different data.
        TellapartError: as `start`.

    Source: COCO-Counterfactuals (Le et al. 2023), appendix B.4.2: 25 seeds, 107 to 131.

    >>> train_seeds.__name__
    'train_seeds'
    """
    ranks = open_ranks(config)
    records: list[TrainRecord] = []
    for seed in range(config.seed, config.seed + count):
        told, folder = config.model_copy(update={"seed": seed}), out / f"seed-{seed:03d}"
        done = ranks.first(partial(_done, told, folder, limit)) if resume else None
        record = done or once(told, folder).record
        if ranks.leads and record is not None:
            records.append(record)
    odd = [f"seed-{record.config['seed']:03d}" for record in records if record.data != records[0].data]
    with ranks.together():
        if odd:
            raise RunError(
                f"{out}: {named(odd)} trained on other data than the rest; delete what is out of date, and resume"
            )
    return records


def _done(config: TrainConfig, folder: Path, limit: int | None) -> TrainRecord | None:
    """The record of a run that is complete and was told all that this one is."""
    if not (folder / "record.json").is_file():
        return None
    record = read_record(folder)
    return record if (record.config, record.limit) == (config.model_dump(mode="json"), limit) else None


def read_seeds(out: Path) -> list[TrainRecord]:
    """Read the records of all seeds of a folder, in the order of the seeds.

    Raises:
        RunError: there is none, or one is damaged.

    >>> read_seeds(Path("no such folder"))
    Traceback (most recent call last):
    tellapart.errors.RunError: no such folder has no finished seeds; name a folder that `tellapart train --seeds N --out` wrote
    """
    found = [read_record(path.parent) for path in sorted(out.glob("seed-*/record.json"))]
    if not found:
        raise RunError(f"{out} has no finished seeds; name a folder that `tellapart train --seeds N --out` wrote")
    return sorted(found, key=_seed)


def over_seeds(records: Sequence[TrainRecord]) -> tuple[SeedRow, ...]:
    """Compare the trained models with their starts, seed by seed, on every metric that all seeds measured.

    >>> over_seeds([])
    ()
    """
    after, before = [_values(record) for record in records], [_values(record, start=True) for record in records]
    return _adjusted([_row(key, after, before) for key in _shared(after)])


def between(first: Sequence[TrainRecord], second: Sequence[TrainRecord]) -> tuple[SeedRow, ...]:
    """Compare two configurations' trained models on the seeds and metrics that both have; differences are the first's.

    Raises:
        RunError: they share no seed, or no metric.

    >>> between([], [])
    Traceback (most recent call last):
    tellapart.errors.RunError: the two share no seed: the first has none, the second none; train both with the same seeds
    """
    one, other = ({_seed(record): _values(record) for record in records} for records in (first, second))
    seeds = sorted(one.keys() & other.keys())
    if not seeds:
        listed = [", ".join(map(str, sorted(found))) or "none" for found in (one, other)]
        raise RunError(
            f"the two share no seed: the first has {listed[0]}, the second {listed[1]}; train both with the same seeds"
        )
    a, b = [one[seed] for seed in seeds], [other[seed] for seed in seeds]
    keys = [key for key in _shared(a) if key in set(_shared(b))]
    if not keys:
        raise RunError("the two report no benchmark in common; give both the same report.benchmarks")
    return _adjusted([_row(key, a, b) for key in keys])


def paired_by_seed(
    a: Sequence[float], b: Sequence[float]
) -> tuple[float | None, float | None, float | None, float | None]:
    """Return Student's 95 % interval of the mean of a - b, the paired t-test's p, and Wilcoxon's.

    Args:
        a: one value a seed.
        b: of the same seeds in the same order.

    >>> [round(number, 3) for number in paired_by_seed([0.5, 0.7, 0.6], [0.4, 0.5, 0.4])]
    [0.023, 0.31, 0.038, 0.25]
    >>> paired_by_seed([0.5], [0.4])
    (None, None, None, None)
    """
    from scipy.stats import ttest_rel, wilcoxon

    first, second = np.asarray(a, np.float64), np.asarray(b, np.float64)
    changes: NDArray[np.float64] = first - second
    if len(changes) < 2:
        return None, None, None, None
    moved = np.abs(changes) > 1e-12  # differences of rounded means are equal or are not
    ranks = float(wilcoxon(changes[moved]).pvalue) if moved.any() else 1.0
    if np.ptp(changes) < 1e-12:
        return None, None, None, ranks
    found = ttest_rel(first, second)
    low, high = found.confidence_interval(0.95)
    return float(low), float(high), float(found.pvalue), ranks


def _seed(record: TrainRecord) -> int:
    return int(str(record.config["seed"]))


def _values(record: TrainRecord, *, start: bool = False) -> dict[_Key, float]:
    rows = record.comparison.rows if record.comparison else ()
    return {(row.benchmark, row.metric): row.b if start else row.a for row in rows}


def _shared(found: Sequence[Mapping[_Key, float]]) -> Iterator[_Key]:
    return (key for key in (found[0] if found else {}) if all(key in each for each in found))


def _row(key: _Key, a: Sequence[Mapping[_Key, float]], b: Sequence[Mapping[_Key, float]]) -> SeedRow:
    first, second = [each[key] for each in a], [each[key] for each in b]
    low, high, p, ranks = paired_by_seed(first, second)
    mean, other = float(np.mean(first)), float(np.mean(second))
    sd = float(np.std(first, ddof=1)) if len(first) > 1 else None
    return SeedRow(*key, len(first), mean, sd, other, mean - other, low, high, p, None, ranks)


def _adjusted(rows: Sequence[SeedRow]) -> tuple[SeedRow, ...]:
    tested = [row.p for row in rows if row.p is not None]
    adjusted = iter(holm(tested) if tested else ())
    return tuple(row if row.p is None else replace(row, p_holm=float(next(adjusted))) for row in rows)
