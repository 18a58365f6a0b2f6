"""Comparison of two runs on the same items: paired differences with intervals, and tests corrected for many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from tellapart.data.scores import join_names
from tellapart.errors import RunError
from tellapart.metrics.registry import METRICS
from tellapart.records.result import IDS_ONLY, IMPORTED, BenchmarkResult
from tellapart.records.run_folder import read_result, read_samples
from tellapart.stats.multiple import holm
from tellapart.stats.paired import mcnemar, paired_difference, paired_permutation
from tellapart.stats.power import detectable_difference
from tellapart.tasks.registry import headline

__all__ = ["Comparison", "MetricComparison", "compare"]


class MetricComparison(BaseModel, frozen=True):
    """One metric of one benchmark in both runs.

    Attributes:
        a, b: the values, strict rule.
        difference, low, high, method: a minus b, and its paired interval.
        only_a, only_b: items that one run alone got right; both and neither make up the rest.
        p: of the test; two-sided.
        p_holm: p, adjusted for all rows of the comparison (Holm).
        test: `exact McNemar` where items are independent, else `cluster sign flips`.
        detectable: the smallest difference that this many items show in four cases out of five, given how often the
            two runs disagree; None where none is.
    """

    benchmark: str
    metric: str
    n: int
    a: float
    b: float
    difference: float
    low: float | None
    high: float | None
    method: str
    only_a: int
    only_b: int
    p: float
    p_holm: float
    test: str
    detectable: float | None


class Comparison(BaseModel, frozen=True):
    """Two runs beside each other.

    Attributes:
        a, b: the models.
        rows: a benchmark's headline metrics, for every benchmark that both runs measured.
        unshared: benchmarks that one run alone measured.
        on_trust: benchmarks of which one run holds scores made elsewhere: their ids are the same, their captions and
            pixels are taken to be.
    """

    a: str
    b: str
    rows: tuple[MetricComparison, ...]
    unshared: tuple[str, ...] = ()
    on_trust: tuple[str, ...] = ()


def compare(first: Path, second: Path, *, seed: int = 0) -> Comparison:
    """Compare two run folders on every benchmark that both measured, by its headline metrics.

    Raises:
        RunError: a folder is no run, the runs share no benchmark, another tool measured one of them, or a benchmark's
            items or clusters differ between them.
    """
    a, b = read_result(first), read_result(second)
    shared = [name for name in a.benchmarks if name in b.benchmarks]
    if not shared:
        raise RunError(
            f"{first} and {second} share no benchmark: the first has {', '.join(a.benchmarks) or 'none'}, "
            f"the second {', '.join(b.benchmarks) or 'none'}"
        )
    rows: list[MetricComparison] = []
    for name in shared:
        _check_same(name, first, a.benchmarks[name], second, b.benchmarks[name])
        columns = _outcomes(first, second, name, _shared_headline(a.benchmarks[name], b.benchmarks[name]))
        rows += [_row(name, metric, column, seed) for metric, column in columns.items()]
    if not rows:
        raise RunError(f"{first} and {second} share no metric of right and wrong on {', '.join(shared)}")
    adjusted = holm([row.p for row in rows])
    rows = [row.model_copy(update={"p_holm": float(p)}) for row, p in zip(rows, adjusted, strict=True)]
    return Comparison(
        a=a.model.name,
        b=b.model.name,
        rows=tuple(rows),
        unshared=tuple(sorted({*a.benchmarks} ^ {*b.benchmarks})),
        on_trust=tuple(name for name in shared if a.benchmarks[name].fingerprint != b.benchmarks[name].fingerprint),
    )


def _shared_headline(a: BenchmarkResult, b: BenchmarkResult) -> list[str]:
    """Choose the headline metrics that both runs have, one value an item."""
    return [
        name
        for name in headline({*a.metrics} & {*b.metrics})
        if name not in METRICS or (METRICS[name].binary and not METRICS[name].components)
    ]


def _check_same(name: str, first: Path, a: BenchmarkResult, second: Path, b: BenchmarkResult) -> None:
    for folder, record in ((first, a), (second, b)):
        if record.fingerprint.startswith(IMPORTED):
            raise RunError(
                f"{folder} holds numbers of {name} that another tool measured ({record.origin}): there are no outcomes "
                "of items to pair, and its ties count otherwise; measure that model with `tellapart run`"
            )
    elsewhere = [run.fingerprint.startswith(IDS_ONLY) for run in (a, b)]
    if a.fingerprint != b.fingerprint and elsewhere[0] == elsewhere[1]:
        raise RunError(
            f"{name} is not the same in both runs: {first} measured content {a.fingerprint[:12]}, {second} "
            f"{b.fingerprint[:12]} (other items, captions, pixels or --limit); measure both on the same pairs"
        )


@dataclass(frozen=True, slots=True)
class _Column:
    """One metric in both runs, item by item."""

    clusters: list[str]
    a: NDArray[np.float64]
    b: NDArray[np.float64]

    @property
    def binary(self) -> bool:
        return bool(np.isin(self.a, (0, 1)).all() and np.isin(self.b, (0, 1)).all())


def _outcomes(first: Path, second: Path, benchmark: str, metrics: Sequence[str]) -> dict[str, _Column]:
    """Read both runs' per-item outcomes: metric -> the items that have it, the same in both."""
    a = read_samples(first, benchmark)
    of = {(sample.unit, sample.id): sample for sample in read_samples(second, benchmark)}
    if alone := sorted(id_ for _, id_ in of.keys() ^ {(sample.unit, sample.id) for sample in a}):
        raise RunError(
            f"{benchmark} is not the same in both: {first} and {second} hold samples of different items "
            f"({join_names(alone)} in one alone); measure both on the same pairs"
        )
    pairs = [(sample, of[sample.unit, sample.id]) for sample in a]
    if moved := [x.id for x, y in pairs if x.cluster != y.cluster]:
        raise RunError(
            f"{benchmark}: items have other clusters in {first} than in {second}: {join_names(moved)}; measure both "
            "anew"
        )
    columns = {}
    for metric in metrics:
        own = [(x, y) for x, y in pairs if metric in x.outcomes and metric in y.outcomes]
        if own:  # a metric of the whole corpus (BLEU) has no value of an item
            values = np.array([(x.outcomes[metric], y.outcomes[metric]) for x, y in own])
            columns[metric] = _Column([x.cluster for x, _ in own], values[:, 0], values[:, 1])
    return columns


def _row(benchmark: str, metric: str, column: _Column, seed: int) -> MetricComparison:
    """Compare one metric; of graded values (soft accuracy, CIDEr) `only_a` and `only_b` count where one is higher."""
    a, b, clusters, binary = column.a, column.b, column.clusters, column.binary
    difference = paired_difference(a, b, clusters, binary=binary, seed=seed)
    exact = mcnemar(a, b) if binary and len(set(clusters)) == len(clusters) else None
    only_a, only_b = int((a > b).sum()), int((b > a).sum())
    discordance = (only_a + only_b) / len(a)
    return MetricComparison(
        benchmark=benchmark,
        metric=metric,
        n=len(a),
        a=float(a.mean()),
        b=float(b.mean()),
        difference=difference.value,
        low=difference.low,
        high=difference.high,
        method=difference.method,
        only_a=only_a,
        only_b=only_b,
        p=exact.p if exact else paired_permutation(a, b, clusters, seed=seed),
        p_holm=1.0,
        test="exact McNemar" if exact else "cluster sign flips",
        detectable=detectable_difference(len(a), discordance) if binary and discordance > 0 else None,
    )
