"""Comparison of runs on the same items: paired differences with intervals, and tests corrected for their number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from tellapart.catalog import nearest
from tellapart.errors import RunError
from tellapart.evaluation.metric_comparison import MetricComparison
from tellapart.evaluation.shared_benchmarks import SharedBenchmark, read_shared
from tellapart.evaluation.systems import System
from tellapart.evaluation.verdict import Verdict, judge_pair
from tellapart.metrics.per_item import by_tag
from tellapart.metrics.tabulate import MOST_VALUES
from tellapart.records.result import Result
from tellapart.stats.anytime import anytime_difference
from tellapart.stats.multiple import holm
from tellapart.stats.paired import enough_flips, mcnemar, paired_difference, paired_permutation
from tellapart.stats.power import detectable_difference
from tellapart.tasks.registry import METRICS


class _HasP(Protocol):
    """A row with a p that `correct` can adjust."""

    @property
    def p(self) -> float: ...

    def model_copy(self, *, update: dict[str, Any]) -> Self: ...


_Tested = TypeVar("_Tested", bound=_HasP)


class Comparison(BaseModel, frozen=True):
    """The comparison of two runs.

    Attributes:
        a, b: names of the models; differences are b minus a.
        by: the tag whose values get a row each, after the row of all items.
        rows: one for each headline metric of each benchmark that both runs measured.
        unshared: benchmarks that only one of the runs measured.
        untagged: benchmarks that both runs measured and whose items lack the tag `by`.
        on_trust: benchmarks for which one run has imported scores: the items' ids agree, and their captions and pixels
            are assumed to.
        dtypes: the precisions in which a and b were computed, if they differ; None otherwise.
        verdicts: the outcome in words, of each benchmark's main metric.
    """

    a: str
    b: str
    by: str | None = None
    rows: tuple[MetricComparison, ...]
    unshared: tuple[str, ...] = ()
    untagged: tuple[str, ...] = ()
    on_trust: tuple[str, ...] = ()
    dtypes: tuple[str, str] | None = None
    verdicts: tuple[Verdict, ...] = ()


def match_benchmarks(results: Sequence[Result]) -> dict[str, dict[int, str]]:
    """Match the benchmarks of runs: name in the comparison -> number of the run -> name in that run.

    A run that holds two sets `pairs` calls one of them `folder:pairs#1f0c9a2e`. It matches the `folder:pairs` of
    another run if the contents of the two agree.
    """
    matched: dict[str, dict[int, str]] = {}
    contents: dict[tuple[str, str], str] = {}
    for number, result in enumerate(results):
        for name, record in result.benchmarks.items():
            content = name.partition("#")[0], record.fingerprint
            key = name if name in matched else contents.setdefault(content, name)
            matched.setdefault(key, {})[number] = name
    return matched


def compare(first: Path, second: Path, *, by: str | None = None, anytime: bool = False, seed: int = 0) -> Comparison:
    """Compare two run folders on every benchmark that both measured, by its headline metrics.

    Args:
        first, second: the folders.
        by: a tag; the items of each of its values are also compared separately.
        anytime: p and intervals that hold however often the runs are compared while they grow.
        seed: of the bootstrap and of the sign flips.

    Raises:
        RunError: a folder is not a run, the runs share no benchmark, another tool measured one of them, a benchmark's
            items or clusters differ between them, or no item has that tag.
    """
    runs = [System.of(folder) for folder in (first, second)]
    shared = read_shared(runs, match_benchmarks([run.result for run in runs]))
    return compare_pairs(runs, shared, [(0, 1)], by=by, anytime=anytime, seed=seed)[0]


def compare_pairs(
    runs: Sequence[System],
    shared: Sequence[SharedBenchmark],
    pairs: Sequence[tuple[int, int]],
    *,
    by: str | None = None,
    anytime: bool = False,
    seed: int = 0,
) -> list[Comparison]:
    """Compare pairs of runs; p is corrected over all rows of all pairs.

    Args:
        runs: all runs.
        shared: the benchmarks that at least two of them measured.
        pairs: positions in `runs`; a pair that shares no benchmark is left out.
        by: a tag; the items of each of its values are also compared separately.
        anytime: as of `compare`.
        seed: of the bootstrap and of the sign flips.

    Raises:
        RunError: there is nothing to test, no item has the tag, or it has too many values.
    """
    parts = _choose_parts(shared, by)
    tests = [
        _Test(pair, benchmark, metric, subset, items)
        for pair in pairs
        for benchmark in shared
        if {*pair} <= benchmark.records.keys()
        for metric in benchmark.outcomes
        for subset, items in parts.get(benchmark.name, ())
        if subset is None or not _is_together(metric)
    ]
    tests = [test for test in tests if len(test.values()[0])]
    if not tests:
        names = ", ".join(benchmark.name for benchmark in shared)
        raise RunError(f"{' and '.join(run.place for run in runs)} share no metric of right and wrong on {names}")
    rows = correct([_test_row(test, None if anytime else enough_flips(len(tests)), seed) for test in tests])
    matched = match_benchmarks([run.result for run in runs])
    compared = dict.fromkeys(test.pair for test in tests)
    rows_of = {
        pair: tuple(row for row, test in zip(rows, tests, strict=True) if test.pair == pair) for pair in compared
    }
    return [
        Comparison(
            a=runs[pair[0]].label,
            b=runs[pair[1]].label,
            by=by,
            rows=rows_of[pair],
            unshared=tuple(sorted(name for name, held in matched.items() if len({*pair} & held.keys()) == 1)),
            untagged=tuple(one.name for one in _benchmarks_of(pair, shared) if one.name not in parts),
            on_trust=tuple(one.name for one in _benchmarks_of(pair, shared) if _on_trust(pair, one)),
            dtypes=_differing_dtypes(runs[pair[0]], runs[pair[1]]),
            verdicts=tuple(judge_pair(runs[pair[0]].label, runs[pair[1]].label, rows_of[pair], len(rows))),
        )
        for pair in compared
    ]


def _is_together(metric: str) -> bool:
    """Return whether a metric of some items is no mean of their values among all items."""
    return metric in METRICS and METRICS[metric].together


def correct(tests: Sequence[_Tested]) -> list[_Tested]:
    """Return copies of the tests with `p_holm`: each p adjusted for the number of tests (Holm)."""
    adjusted = holm([test.p for test in tests]) if tests else ()
    return [test.model_copy(update={"p_holm": float(p)}) for test, p in zip(tests, adjusted, strict=True)]


def _benchmarks_of(pair: tuple[int, int], shared: Sequence[SharedBenchmark]) -> Iterator[SharedBenchmark]:
    """Return the benchmarks that both runs of a pair measured."""
    return (benchmark for benchmark in shared if {*pair} <= benchmark.records.keys())


def _on_trust(pair: tuple[int, int], benchmark: SharedBenchmark) -> bool:
    """Return whether the runs' records differ in fingerprint: one has ids and scores only."""
    return len({benchmark.records[run].fingerprint for run in pair}) > 1


def _differing_dtypes(a: System, b: System) -> tuple[str, str] | None:
    """Return the two runs' precisions if they differ; None also if scores were made elsewhere, in an unknown one."""
    first, second = (run.result.model.dtype or "float32" for run in (a, b))
    computed = a.result.model.fingerprint and b.result.model.fingerprint
    return (first, second) if computed and first != second else None


#: A value of the tag, and the items that carry it; (None, None) for all items.
_Part = tuple[str | None, NDArray[np.bool_] | None]


def _choose_parts(shared: Sequence[SharedBenchmark], by: str | None) -> dict[str, list[_Part]]:
    """Choose the parts of each benchmark that are compared: all its items, then the items of each of a tag's values."""
    if by is None:
        return {benchmark.name: [(None, None)] for benchmark in shared}
    masks = {benchmark.name: by_tag(benchmark.tags) for benchmark in shared}
    if not any(by in tags for tags in masks.values()):
        known = list(dict.fromkeys(tag for tags in masks.values() for tag in tags))
        there = f"the tags are {', '.join(known)}" if known else "these items have no tags"
        raise RunError(f"no item has the tag {by!r}{nearest(by, known) or ';'} {there}")
    parts: dict[str, list[_Part]] = {}
    for name, tags in masks.items():
        if by not in tags:
            continue
        if len(tags[by]) > MOST_VALUES:
            raise RunError(
                f"{name}: the tag {by!r} has {len(tags[by]):,} values, more than a comparison by tag takes "
                f"({MOST_VALUES}); choose a tag of fewer"
            )
        parts[name] = [(None, None), *tags[by].items()]
    return parts


@dataclass(frozen=True, slots=True)
class _Test:
    """One row before it is tested."""

    pair: tuple[int, int]
    benchmark: SharedBenchmark
    metric: str
    subset: str | None
    items: NDArray[np.bool_] | None

    def values(self) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
        """Return both runs' values `(item, 2)`, and the items' clusters."""
        return self.benchmark.values(self.metric, self.pair, self.items)


def _test_row(test: _Test, flips: int | None, seed: int) -> MetricComparison:
    """Test one row, at every look if `flips` is None.

    Of graded values (soft accuracy, CIDEr) `only_a` and `only_b` count items where one is higher.
    """
    values, clusters = test.values()
    a, b = values.T
    binary = bool(np.isin(values, (0, 1)).all())
    groups = len(np.unique(clusters))
    if flips is None:
        difference, p, name = anytime_difference(b, a, clusters)
    else:
        difference = paired_difference(b, a, clusters, binary=binary, seed=seed)
        exact = binary and groups == len(clusters)
        p = mcnemar(a, b).p if exact else paired_permutation(a, b, clusters, resamples=flips, seed=seed)
        name = "exact McNemar" if exact else "cluster sign flips"
    only_a, only_b = int((a > b).sum()), int((b > a).sum())
    discordance = (only_a + only_b) / len(a)
    return MetricComparison(
        benchmark=test.benchmark.name,
        metric=test.metric,
        subset=test.subset,
        n=len(a),
        clusters=groups,
        limited_from=test.benchmark.limited_from,
        a=float(a.mean()),
        b=float(b.mean()),
        difference=difference.value,
        low=difference.low,
        high=difference.high,
        method=difference.method,
        reason=difference.reason or None,
        only_a=only_a,
        only_b=only_b,
        p=p,
        p_holm=1.0,
        test=name,
        flips=flips if name == "cluster sign flips" else None,
        # Of the fixed test: one that holds at every look needs more items.
        detectable=None
        if flips is None or not binary or discordance == 0
        else detectable_difference(len(a), discordance),
    )
