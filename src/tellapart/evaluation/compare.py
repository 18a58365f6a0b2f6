"""Comparison of models on the same items: paired differences, tests corrected for their number, tiers and a verdict.

A gate judges a new run of a model against a base run. A headline that fell significantly (Holm over all headlines)
stops it, as does one that fell by more than a limit. So does everything that could hide a fall: a benchmark that the
new run lacks, items that differ from the base's, and a benchmark with too few items to show any fall.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from tellapart.data.progress import Progress
from tellapart.errors import RunError, counted, nearest
from tellapart.evaluation.systems import (
    SharedBenchmark,
    System,
    expect_same_tag,
    expect_tag,
    gather,
    match_benchmarks,
    omit_references,
    read_shared,
)
from tellapart.metrics.per_item import by_tag
from tellapart.metrics.tabulate import MOST_VALUES
from tellapart.records.run_folder import RESULTS
from tellapart.stats.clusters import ClusterTotals, is_binary
from tellapart.stats.multiple import holm
from tellapart.stats.paired import Tier, at_floor, enough_flips, paired, tiers, write_p
from tellapart.stats.power import detectable_fall, power_of_difference
from tellapart.tasks.registry import METRICS, headline, is_higher_better, main_metric

#: The error over all tests of a comparison, a gate or an analysis of items (Holm).
ALPHA = 0.05

#: Items beyond which a difference is not looked for.
_MOST_ITEMS = 100_000


class MetricComparison(BaseModel, frozen=True):
    """One metric of one benchmark in both runs; further numbers are those of `stats.paired.Paired`.

    Attributes:
        subset: the tag's value that all these items carry; None for all items.
        clusters: of the items that were tested; None if that is not known.
        limited_from, limited_to: the benchmark's number of records and that of the part, if the runs measured a part.
        a, b: the metric's values in the two runs; a tie counts as wrong.
        difference, low, high, method: b minus a, new minus old, and its paired interval.
        reason: why there is no interval; None if there is one.
        p_holm: p, adjusted for all rows of the comparison (Holm).
    """

    benchmark: str
    metric: str
    subset: str | None = None
    n: int
    clusters: int | None = None
    limited_from: int | None = None
    limited_to: int | None = None
    a: float
    b: float
    difference: float
    low: float | None
    high: float | None
    method: str
    reason: str | None = None
    only_a: int
    only_b: int
    p: float
    p_holm: float
    test: str
    flips: int | None = None
    detectable: float | None

    @property
    def at_floor(self) -> bool:
        """Whether no drawn sign vector was as extreme as the data, so p is the smallest that the draws can give."""
        return at_floor(self.p, self.flips)

    @property
    def p_text(self) -> str:
        """The p as it is printed."""
        return write_p(self.p, at_most=self.at_floor)

    @property
    def p_holm_text(self) -> str:
        """The adjusted p as it is printed; if p is an upper bound, so is this."""
        return write_p(self.p_holm, at_most=self.at_floor)


class MetricTiers(BaseModel, frozen=True):
    """The ranking of the models by one metric of one benchmark, as tiers (Holm over its pairs of models, 5 %)."""

    benchmark: str
    metric: str
    n: int
    clusters: int | None = None
    limited_from: int | None = None
    limited_to: int | None = None
    tiers: tuple[Tier, ...]


class Verdict(BaseModel, frozen=True):
    """The outcome of a comparison on a benchmark, by its main metric.

    Attributes:
        best: the better of two models, none if they are not shown to differ; of many, the model with the highest value
            and those that are not shown to differ from it.
        sentence: the outcome in words.
    """

    benchmark: str
    metric: str
    best: tuple[str, ...]
    sentence: str


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


class ModelsComparison(BaseModel, frozen=True):
    """The comparison of several models.

    Attributes:
        models: all of them, in the order given.
        baseline: the model that each other one is compared with; None if each is compared with each.
        pairs: two models that share a benchmark; with a baseline, that is `a` of each. p is corrected over all rows of
            all pairs (Holm).
        tiers: rankings, if each is compared with each.
        verdicts: the outcome in words, of each benchmark's main metric: of each pair with a baseline or of two models,
            else the best tier; at every look, the models not shown to differ from the first.
    """

    models: tuple[str, ...]
    baseline: str | None = None
    pairs: tuple[Comparison, ...]
    tiers: tuple[MetricTiers, ...] = ()
    verdicts: tuple[Verdict, ...] = ()


def compare(
    first: Path | System, second: Path | System, *, by: str | None = None, anytime: bool = False, seed: int = 0
) -> Comparison:
    """Compare two run folders, or systems, on every benchmark that both measured, by its headline metrics."""
    runs = [System.of(run) if isinstance(run, Path) else run for run in (first, second)]
    shared = read_shared(runs, match_benchmarks([run.result for run in runs]))
    return compare_pairs(runs, shared, [(0, 1)], by=by, anytime=anytime, seed=seed)[0]


def compare_models(
    runs: Sequence[System],
    *,
    baseline: str | None = None,
    by: str | None = None,
    anytime: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> ModelsComparison:
    """Compare two models or more, with distinct labels, as `tellapart.compare` does."""
    labels = [run.label for run in runs]
    if len(runs) < 2:
        raise RunError(f"got {', '.join(labels) or 'no model'}: a comparison takes two models or more")
    if baseline is not None and baseline not in labels:
        hint = nearest(baseline, labels) or ";"
        raise RunError(f"no model {baseline!r} to compare with{hint} the models are {', '.join(labels)}")
    pairs = list(combinations(range(len(runs)), 2))
    matched = match_benchmarks([run.result for run in runs])
    if baseline is not None:
        base = labels.index(baseline)
        pairs = [(base, number) for number in range(len(runs)) if number != base]
        matched = {name: names for name, names in matched.items() if base in names}
    shared = read_shared(runs, matched)
    compared = tuple(compare_pairs(runs, shared, pairs, by=by, anytime=anytime, seed=seed, progress=progress))
    rankings = () if baseline is not None or anytime else tuple(_rank_models(labels, shared, seed))
    if baseline is not None or len(runs) == 2:
        verdicts = tuple(verdict for pair in compared for verdict in pair.verdicts)
    else:
        leaders = judge_leaders([(pair.a, pair.b, pair.rows) for pair in compared])
        verdicts = tuple(judge_tiers(rankings) if rankings else leaders)
    return ModelsComparison(models=tuple(labels), baseline=baseline, pairs=compared, tiers=rankings, verdicts=verdicts)


def _rank_models(labels: Sequence[str], shared: Sequence[SharedBenchmark], seed: int) -> Iterator[MetricTiers]:
    for benchmark in shared:
        for metric in filter(is_higher_better, benchmark.outcomes):
            values, clusters = benchmark.values(metric, list(benchmark.records))
            if len(values):
                outcomes = {labels[run]: column for run, column in zip(benchmark.records, values.T, strict=True)}
                yield MetricTiers(
                    benchmark=benchmark.name,
                    metric=metric,
                    n=len(values),
                    clusters=len({*clusters}),
                    **benchmark.limits,
                    tiers=tuple(rank_outcomes(outcomes, clusters, seed=seed)),
                )


def rank_outcomes(
    outcomes: Mapping[str, NDArray[np.floating]],
    clusters: Sequence[str] | NDArray[np.str_],
    *,
    most: int | None = None,
    seed: int = 0,
) -> list[Tier]:
    """Return the tiers of models over the items that all of them have a value of (not NaN); none without such an item.

    With `most`, the first models alone are ranked if pairs are tested by sign flips, which take time.

    >>> rank_outcomes({"a": np.array([1.0, 1.0, np.nan]), "b": np.array([1.0, 0.0, 0.0])}, ["x", "y", "z"])[0].means
    (1.0, 0.5)
    """
    values = np.column_stack([*outcomes.values()]).astype(np.float64)
    complete = ~np.isnan(values).any(axis=1)
    values, groups = values[complete], np.asarray(clusters)[complete]
    if not len(values):
        return []
    flipped = len(np.unique(groups)) < len(groups) or not is_binary(values)
    ranked = list(zip(outcomes, values.T, strict=True))[: most if flipped else None]
    return tiers(dict(ranked), groups, seed=seed)


def compare_pairs(
    runs: Sequence[System],
    shared: Sequence[SharedBenchmark],
    pairs: Sequence[tuple[int, int]],
    *,
    by: str | None = None,
    anytime: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[Comparison]:
    """Compare pairs of runs, by their positions; p is corrected over all rows of all pairs.

    A pair that shares no benchmark is left out.
    """
    parts = _choose_parts(shared, by)
    tests: list[_Test] = [
        (pair, benchmark, metric, subset, items)
        for pair in pairs
        for benchmark in shared
        if {*pair} <= benchmark.records.keys()
        for metric in benchmark.outcomes
        for subset, items in parts.get(benchmark.name, ())
        # A metric of some items may be no mean of their values among all items.
        if subset is None or not (metric in METRICS and METRICS[metric].together)
        if len(benchmark.values(metric, pair, items)[0])
    ]
    if not tests:
        names = ", ".join(benchmark.name for benchmark in shared)
        raise RunError(f"{' and '.join(run.place for run in runs)} share no metric of right and wrong on {names}")
    tested, flips = [], None if anytime else enough_flips(len(tests))
    for number, test in enumerate(tests, 1):
        tested.append(_test_row(test, flips, seed))
        if progress is not None:
            progress("tests", number, len(tests))
    rows = correct(tested)
    matched = match_benchmarks([run.result for run in runs])
    compared: dict[tuple[int, int], list[MetricComparison]] = {}
    for row, (pair, *_) in zip(rows, tests, strict=True):
        compared.setdefault(pair, []).append(row)
    comparisons = []
    for pair, rows_of_pair in compared.items():
        a, b = (runs[number] for number in pair)
        measured = [benchmark for benchmark in shared if {*pair} <= benchmark.records.keys()]
        contents = {benchmark.name: {benchmark.records[run].fingerprint for run in pair} for benchmark in measured}
        comparisons.append(
            Comparison(
                a=a.label,
                b=b.label,
                by=by,
                rows=tuple(rows_of_pair),
                unshared=tuple(sorted(name for name, runs_of in matched.items() if len({*pair} & runs_of.keys()) == 1)),
                untagged=tuple(name for name in contents if name not in parts),
                # Contents that differ are not refused if one run has ids and scores only.
                on_trust=tuple(name for name, prints in contents.items() if len(prints) > 1),
                dtypes=_differing_dtypes(a, b),
                verdicts=tuple(judge_pair(a.label, b.label, rows_of_pair, len(rows))),
            )
        )
    return comparisons


#: A record with a field `p`, a number or None, that `correct` can adjust.
_Tested = TypeVar("_Tested", bound=Any)


def correct(tests: Sequence[_Tested]) -> list[_Tested]:
    """Return copies of the tests with `p_holm`: each p adjusted for their number (Holm); a row without p stays."""
    p_values = [test.p for test in tests if test.p is not None]
    adjusted = iter(holm(p_values).tolist() if p_values else ())
    return [test if test.p is None else test.model_copy(update={"p_holm": next(adjusted)}) for test in tests]


def _differing_dtypes(a: System, b: System) -> tuple[str, str] | None:
    """Return the two runs' precisions if they differ; None also if scores were made elsewhere, in an unknown one."""
    first, second = (run.result.model.dtype or "float32" for run in (a, b))
    computed = a.result.model.fingerprint and b.result.model.fingerprint
    return (first, second) if computed and first != second else None


#: A value of the tag, and the items that carry it; (None, None) for all items.
_Part = tuple[str | None, NDArray[np.bool_] | None]

#: One row before it is tested: the pair of runs, the benchmark, the metric, and a part.
_Test = tuple[tuple[int, int], SharedBenchmark, str, str | None, NDArray[np.bool_] | None]


def _choose_parts(shared: Sequence[SharedBenchmark], by: str | None) -> dict[str, list[_Part]]:
    """Choose the parts of each benchmark that are compared: all its items, then the items of each of a tag's values."""
    if by is None:
        return {benchmark.name: [(None, None)] for benchmark in shared}
    for benchmark in shared:
        expect_same_tag(benchmark.name, by, benchmark.retagged)
    masks = {benchmark.name: by_tag(benchmark.tags) for benchmark in shared}
    expect_tag(by, list(dict.fromkeys(tag for tags in masks.values() for tag in tags)))
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


def _test_row(test: _Test, flips: int | None, seed: int) -> MetricComparison:
    """Test one row, at every look if `flips` is None."""
    pair, benchmark, metric, subset, items = test
    values, clusters = benchmark.values(metric, pair, items)
    tested = paired(values[:, 0], values[:, 1], clusters, flips=flips or 0, anytime=flips is None, seed=seed)
    change, numbers = tested.difference, asdict(tested)
    numbers |= {"difference": change.value, "method": change.method, "reason": change.reason or None}
    numbers |= {"subset": subset, "low": change.low, "high": change.high, **benchmark.limits}
    return MetricComparison(benchmark=benchmark.name, metric=metric, p_holm=1.0, **numbers)


def judge_pair(a: str, b: str, rows: Sequence[MetricComparison], tests: int) -> Iterator[Verdict]:
    """Yield the verdict on two models for each benchmark, from rows of b minus a, corrected over so many tests."""
    for row in _main_rows(rows):
        significant, higher = row.p_holm <= ALPHA, is_higher_better(row.metric)
        is_judged = significant and higher is not None
        sign = -1 if is_judged and row.difference < 0 else 1
        better, worse = (b, a) if (sign > 0) == (higher is not False) else (a, b)
        points, bounds = (
            100 * sign * row.difference,
            sorted(100 * sign * end for end in (row.low, row.high) if end is not None),
        )
        on = f"in {row.metric} of {count_items(row)}"
        p = f"p {'' if '<=' in row.p_holm_text else '= '}{row.p_holm_text}, Holm{_at_every_look(row)}"
        if is_judged:
            between = f" [{', '.join(f'{end:.1f}' for end in bounds)}]" if bounds else ""
            sentence = f"{better} is better than {worse} by {points:.1f} points{between} {on} ({p})"
        else:
            between = f" [{', '.join(f'{end:+.1f}' for end in bounds)}]" if bounds else ""
            differs = "differs from" if significant else "is not shown to differ from"
            sentence = f"{b} {differs} {a} {on}: {points:+.1f} points{between} ({p})"
            if not significant and row.detectable is not None and row.only_a != row.only_b:
                needed = count_needed(row, ALPHA / tests)
                sentence += f"; {needed} independent items would show {abs(points):.1f} points"
        best = (better,) if is_judged else ()
        yield Verdict(benchmark=row.benchmark, metric=row.metric, best=best, sentence=sentence)


def judge_tiers(rankings: Sequence[MetricTiers]) -> Iterator[Verdict]:
    """Yield the verdict on many models for each benchmark: the best tier."""
    for name in dict.fromkeys(ranking.benchmark for ranking in rankings):
        of = {ranking.metric: ranking for ranking in rankings if ranking.benchmark == name}
        ranking = of[main_metric(list(of))]
        first, *later = (tier.names for tier in ranking.tiers)
        models = len(first) + sum(map(len, later))
        size = count_items(ranking)
        test = f"Holm over {counted(models * (models - 1) // 2, 'pair')}, {ALPHA:.0%}"
        yield _judge_many(name, ranking.metric, size, first, models, test)


def judge_leaders(pairs: Sequence[tuple[str, str, Sequence[MetricComparison]]]) -> Iterator[Verdict]:
    """Yield the verdict on many models for each benchmark by their paired tests: the highest value, and those near."""
    tests = sum(len(rows) for *_, rows in pairs)
    tested = [(a, b, row) for a, b, rows in pairs for row in _main_rows(rows)]
    for name in dict.fromkeys(row.benchmark for *_, row in tested):
        rows = [(a, b, row) for a, b, row in tested if row.benchmark == name]
        values = {model: value for a, b, row in rows for model, value in ((a, row.a), (b, row.b))}
        some = rows[0][2]
        if (higher := is_higher_better(some.metric)) is None:
            continue
        leader = (max if higher else min)(values, key=values.__getitem__)
        near = [b if a == leader else a for a, b, row in rows if leader in (a, b) and row.p_holm > ALPHA]
        how = f"Holm over {counted(tests, 'test')}, {ALPHA:.0%}{_at_every_look(some)}"
        size = count_items(some)
        yield _judge_many(name, some.metric, size, (leader, *near), len(values), how)


def _judge_many(benchmark: str, metric: str, size: str, best: Sequence[str], models: int, how: str) -> Verdict:
    first, near = best[0], ", ".join(best[1:])
    others = models - len(best)
    on = f"in {metric} of {size} ({how})"
    if not near:
        sentence = (
            f"{first} is better than { {1: 'the other', 2: 'both others'}.get(others, f'all {others} others') } {on}"
        )
    elif not others:
        sentence = f"no model is shown to differ from {first}, the first of {models}, {on}"
    else:
        rest = "the other is" if others == 1 else f"the other {others} are"
        sentence = f"{first} is first of {models}; not shown to differ from it: {near}; {rest} worse {on}"
    return Verdict(benchmark=benchmark, metric=metric, best=tuple(best), sentence=sentence)


def count_needed(row: MetricComparison, alpha: float) -> str:
    """Count the independent items on which McNemar finds the row's difference at `alpha` with a power of 0.8."""
    difference, discordance = (count / row.n for count in (row.only_a - row.only_b, row.only_a + row.only_b))

    def suffice(items: int) -> bool:
        return power_of_difference(difference, items, discordance, alpha=alpha) >= 0.8

    enough = 60 * discordance / difference**2  # far more than by the normal approximation, however small alpha is
    sizes = range(1, int(min(_MOST_ITEMS, enough)) + 1)
    place = bisect_left(sizes, True, key=suffice)
    return f"{sizes[place]:,}" if place < len(sizes) else f"over {_MOST_ITEMS:,}"


def _main_rows(rows: Sequence[MetricComparison]) -> Iterator[MetricComparison]:
    """Return the row of each benchmark's main metric, of all its items."""
    overall = [row for row in rows if row.subset is None]
    for name in dict.fromkeys(row.benchmark for row in overall):
        of = {row.metric: row for row in overall if row.benchmark == name}
        yield of[main_metric(list(of))]


def _at_every_look(row: MetricComparison) -> str:
    return ", at every look" if row.test == "anytime" else ""


def count_items(of: MetricComparison | MetricTiers) -> str:
    """Write the number of items of a row, of how many a limit left them, and their clusters if those are fewer."""
    full = None if isinstance(of, MetricComparison) and of.subset is not None else of.limited_from
    items = counted(of.n, "item") if full is None else f"{of.n:,} of {counted(full, 'item')}"
    if full is not None and of.limited_to not in (None, of.n):  # units of other size than the set's records
        items = f"{counted(of.n, 'item')} ({of.limited_to:,} of {full:,})"
    return items if of.clusters is None or of.clusters == of.n else f"{items} in {counted(of.clusters, 'cluster')}"


GateVerdict = Literal[
    "regression", "improvement", "no difference seen", "too few items", "not tested", "missing", "not comparable",
    "not within the margin",
]  # fmt: skip


class GateRow(BaseModel, frozen=True):
    """One headline of one benchmark, or a benchmark that cannot be judged.

    Attributes:
        metric: None if the row is about the benchmark itself.
        verdict: `too few items` if even a fall to 0 would not be significant; `not tested` if the metric has no value
            per item, so that only the limit can judge it.
        fails: whether the gate stops for this row.
        reason: why it stops, or why it cannot judge; empty if the numbers are enough.
        n, limited_from, limited_to, low, high, p, p_holm, test: as of `MetricComparison`, for all headlines together.
        base, new: the values of the metric; a tie counts as wrong.
        change: new minus base.
        p_holm_text: the adjusted p, for print.
        could_see: the smallest true fall (of a metric that is best low, rise) that would be significant here in four
            cases out of five; None if none would.
        no_interval: why the change has no interval.
    """

    benchmark: str
    metric: str | None = None
    verdict: GateVerdict
    fails: bool = False
    reason: str = ""
    n: int = 0
    limited_from: int | None = None
    limited_to: int | None = None
    base: float | None = None
    new: float | None = None
    change: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    p_holm: float | None = None
    p_holm_text: str = ""
    test: str | None = None
    could_see: float | None = None
    no_interval: str | None = None

    @property
    def says(self) -> str:
        """The verdict in words; if no difference was seen, with the smallest fall that could have been."""
        if self.reason:
            return f"{self.verdict}: {self.reason}"
        if self.verdict == "no difference seen" and self.could_see is not None:
            return f"no difference seen (could have seen {100 * self.could_see:.1f} points)"
        return self.verdict


class GateResult(BaseModel, frozen=True):
    """A new run judged against a base run.

    Attributes:
        base, new: the models; of `tellapart compare`, with their folders if both have one name.
        max_drop: the limit, in points; None if there is none.
        margin: the points within which every headline of new is shown to be; None if that was not asked.
        by_chance: an upper bound on the probability that the limit stops a model as good as the base by a headline with
            a value per item; None without a limit.
        rows: every headline, in the base's order; then the benchmarks that cannot be judged.
        added: benchmarks that only the new run measured.
        on_trust: benchmarks on which one run has scores made elsewhere: only the ids are known to agree.
        dtypes: the precisions of base and new, if they differ.
    """

    base: str
    new: str
    max_drop: float | None = None
    margin: float | None = None
    by_chance: float | None = None
    rows: tuple[GateRow, ...]
    added: tuple[str, ...] = ()
    on_trust: tuple[str, ...] = ()
    dtypes: tuple[str, str] | None = None

    @property
    def passed(self) -> bool:
        """Whether no row stops the gate."""
        return not any(row.fails for row in self.rows)


def regression_gate(
    base: Path, new: Path, *, max_drop: float | None = None, margin: float | None = None, seed: int = 0
) -> GateResult:
    """Judge a new run against a base run by the headline metrics of every benchmark of the base.

    Each folder is a run of one model. No headline may fall by more than `max_drop` points, whether significantly or
    not. With a `margin` the gate is a test of non-inferiority: the low end of each headline's paired 95% interval has
    to be above it. All headlines must pass, so none is corrected for the others. Of a metric that is best low, such as
    `bias_rate`, a rise counts as a fall.

    Source: Berger (1982), Technometrics 24, 295-300, on tests of which all must reject.
    """
    for name, limit in (("max_drop", max_drop), ("margin", margin)):
        if limit is not None and not 0 <= limit < 100:
            raise RunError(f"{name}={limit:g}: expected points from 0 to below 100; a point is 0.01 of a score")
    systems = [_only_model(base), _only_model(new)]
    matched = match_benchmarks([system.result for system in systems])
    shared: list[SharedBenchmark] = []
    unjudged: list[GateRow] = []
    for name, sides in matched.items():
        if 1 not in sides:
            reason = f"{new} did not measure it"
            unjudged.append(GateRow(benchmark=name, verdict="missing", fails=True, reason=reason))
        elif 0 in sides:
            try:
                shared += read_shared(systems, {name: sides})
            except RunError as error:
                row = GateRow(benchmark=name, verdict="not comparable", fails=True, reason=str(error))
                unjudged.append(row)
    added = [name for name, sides in matched.items() if 0 not in sides]
    result = judge(systems, shared, max_drop=max_drop, seed=seed, unjudged=unjudged, added=added)
    if margin is None:
        return result
    return result.model_copy(update={"margin": margin, "rows": tuple(_hold_to(row, margin) for row in result.rows)})


def judge(
    systems: Sequence[System],
    shared: Sequence[SharedBenchmark],
    *,
    max_drop: float | None = None,
    seed: int = 0,
    unjudged: Sequence[GateRow] = (),
    added: Sequence[str] = (),
) -> GateResult:
    """Judge the second of two systems by the benchmarks that both measured."""
    shared = [
        replace(entry, outcomes={metric: values for metric, values in entry.outcomes.items() if _sign(metric)})
        for entry in shared
    ]
    testable = [entry for entry in shared if entry.outcomes]
    compared = compare_pairs(systems, testable, [(0, 1)], seed=seed)[0] if testable else None
    tests = compared.rows if compared else ()
    by_name = {entry.name: entry for entry in shared}
    rows = [_judge_row(row, by_name[row.benchmark], len(tests), max_drop) for row in tests]
    seeing = {row.benchmark for row in rows if row.verdict != "too few items"}
    # A benchmark on which no headline rose, and none could have shown a fall, does not pass.
    rows = [row if row.benchmark in seeing else row.model_copy(update={"fails": True}) for row in rows]
    for entry in shared:
        rows += _judge_untested(entry, max_drop)
    tested = [by_name[row.benchmark].values(row.metric, (0, 1)) for row in tests]
    return GateResult(
        base=systems[0].label,
        new=systems[1].label,
        max_drop=max_drop,
        by_chance=None if max_drop is None else _by_chance(max_drop / 100, tested),
        rows=(*rows, *unjudged),
        added=tuple(added),
        on_trust=compared.on_trust if compared else (),
        dtypes=compared.dtypes if compared else None,
    )


def _hold_to(row: GateRow, margin: float) -> GateRow:
    """Return a row that stops the gate unless its fall is shown to be below the margin."""
    sign = 0 if row.metric is None else _sign(row.metric)
    end, side, begins = (row.low, "above", "begins") if sign > 0 else (row.high, "below", "ends")
    if row.fails or not sign or (end is not None and 100 * sign * end > -margin):
        return row
    why = row.no_interval or "no interval" if end is None else f"the interval {begins} at {100 * end:+.1f} points"
    reason = f"{why}; --margin {margin:g} takes one {side} {-sign * margin:g}"
    return row.model_copy(update={"verdict": "not within the margin", "fails": True, "reason": reason})


def _only_model(folder: Path) -> System:
    """Read the subject of a run folder, without its further models, or the only model of a folder of runs."""
    if (folder / RESULTS).is_file():
        return System.of(folder)
    systems = gather([folder])
    models = omit_references(systems)
    if len(models) != 1:
        names = ", ".join(system.label for system in models)
        raise RunError(f"{folder} holds {len(models)} models ({names}), and a gate judges one; name one run folder")
    return models[0]


def _sign(metric: str) -> int:
    """Return the sign of an improvement: -1 of a metric that is best low; 0 if neither more nor less is better."""
    return {True: 1, False: -1, None: 0}[is_higher_better(metric)]


#: What a gate's row has of a comparison's.
_OF_ROW = ("benchmark", "metric", "n", "limited_from", "limited_to", "low", "high", "p", "p_holm", "test")


def _judge_row(row: MetricComparison, benchmark: SharedBenchmark, tests: int, max_drop: float | None) -> GateRow:
    values, clusters = benchmark.values(row.metric, (0, 1))
    sign = _sign(row.metric)
    values = values if sign > 0 else 1 - values  # metrics that are best low are shares
    could_see = detectable_fall(values[:, 0], values[:, 1], clusters, tests=tests, alpha=ALPHA)
    significant = row.p_holm <= ALPHA
    verdict: GateVerdict = "no difference seen"
    reason = ""
    if significant:
        verdict = "regression" if sign * row.difference < 0 else "improvement"
    elif could_see is None:
        verdict = "too few items"
        few = f"{int((values[:, 0] > 0).sum())} of {row.n}"
        reason = f"the base is right on so few ({few}) that no {'fall' if sign > 0 else 'rise'} could be seen"
    if verdict != "regression" and _exceeds_drop(-sign * row.difference, max_drop):
        verdict, reason = "regression", f"not significant, but beyond --max-drop {max_drop:g}"
    return GateRow(
        verdict=verdict,
        fails=verdict == "regression",
        reason=reason,
        base=row.a,
        new=row.b,
        change=row.difference,
        p_holm_text=row.p_holm_text,
        could_see=could_see,
        no_interval=row.reason,
        **row.model_dump(include={*_OF_ROW}),
    )


def _judge_untested(benchmark: SharedBenchmark, max_drop: float | None) -> Iterator[GateRow]:
    """Judge by the limit the headline metrics that have no value per item, such as BLEU or `min_pc_pf`."""
    base, new = (benchmark.records[run] for run in (0, 1))
    for metric in headline(base.metrics):
        if metric in benchmark.outcomes:
            continue
        if metric not in new.metrics:
            reason = "the new run did not measure it"
            yield GateRow(benchmark=benchmark.name, metric=metric, verdict="missing", fails=True, reason=reason)
            continue
        before, after = base.metrics[metric], new.metrics[metric]
        beyond = _exceeds_drop(_sign(metric) * (before.value - after.value), max_drop)
        why = "it has no value per item" if _sign(metric) else "neither more nor less is better"
        yield GateRow(
            benchmark=benchmark.name,
            metric=metric,
            verdict="regression" if beyond else "not tested",
            fails=beyond,
            reason=f"beyond --max-drop {max_drop:g}" if beyond else why,
            n=before.n,
            limited_from=base.limited_from,
            limited_to=base.limited_to,
            base=before.value,
            new=after.value,
            change=after.value - before.value,
        )


def _exceeds_drop(fall: float, max_drop: float | None) -> bool:
    # Values are quotients: without the margin, a rounding error could make a fall of exactly the limit exceed it.
    return max_drop is not None and 100 * fall > max_drop + 1e-9


def _by_chance(limit: float, tests: Sequence[tuple[NDArray[np.float64], NDArray[np.str_]]]) -> float:
    """Return an upper bound on the probability that any headline falls beyond the limit without a true change."""
    from scipy.special import ndtr

    totals = [ClusterTotals.of("regression_gate", values[:, 0] - values[:, 1], groups) for values, groups in tests]
    errors = [float(np.sqrt(total.variance())) for total in totals if len(total) > 1]
    return min(1.0, sum(float(ndtr(-limit / error)) for error in errors if error > 0))
