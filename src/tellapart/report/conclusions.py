"""A report's numbers in sentences, and models of one benchmark against each other: paired tests, corrected over all.

A sentence, of `conclusions.txt.j2`, claims only as much as an interval or a test carries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tellapart.catalog import is_ranked
from tellapart.evaluation.compare import Comparison, compare_pairs, judge_leaders
from tellapart.evaluation.systems import SharedBenchmark, System, is_testable, lay_out_outcomes
from tellapart.metrics.per_item import by_tag
from tellapart.records.result import Value
from tellapart.report.benchmark_runs import BenchmarkRuns, ModelEntry, first_breakdown
from tellapart.report.numbers import MOST_NAMED
from tellapart.report.templates import write_lines
from tellapart.stats.interval import Interval
from tellapart.stats.intervals import interval_for, share_in_clusters
from tellapart.tasks.registry import METRICS

#: The family-wise error over all tests of a benchmark.
ALPHA = 0.05

#: Models that are tested: the first by the main metric, every two of them.
MOST_TESTED = 8

#: Clusters times tests, beyond which fewer models are tested: resampling so many takes about a minute and a half.
_MOST_FLIPPED = 250_000


@dataclass(frozen=True, slots=True)
class Rivals:
    """Models of one benchmark, references apart, the best first; tests of every two of the first, corrected for all.

    In a duel b has the higher main metric, so that differences (b minus a) are gains.
    """

    ranking: tuple[ModelEntry, ...]
    metrics: tuple[str, ...] = ()
    duels: tuple[Comparison, ...] = ()
    untested: int = 0
    tests: int = 0

    @property
    def verdicts(self) -> tuple[str, ...]:
        """The outcome in words, with which `tellapart compare` ends, too."""
        pairs = [(duel.a, duel.b, duel.rows) for duel in self.duels]
        judged = self.duels[0].verdicts if len(pairs) == 1 else judge_leaders(pairs)
        return tuple(verdict.sentence for verdict in judged)

    def distinct(self, metric: str) -> dict[str, bool]:
        """Return for each tested model but the first, by its label, whether it differs from the first."""
        rows = [(duel.a, row) for duel in self.duels for row in duel.rows if duel.b == self.ranking[0].label]
        return {label: row.p_holm <= ALPHA for label, row in rows if row.metric == metric}


def ranked_models(measured: BenchmarkRuns) -> tuple[ModelEntry, ...]:
    """Return the models without the reference models; all if all are reference models."""
    entries = tuple(entry for entry in measured.entries if is_ranked(entry.name))
    return entries or measured.entries


def rivals_of(measured: BenchmarkRuns, *, seed: int = 0) -> Rivals:
    """Rank models by the main metric, and test every two of the first as `tellapart compare` does."""
    main = measured.main
    if not main:
        return Rivals(ranked_models(measured))
    ranking = tuple(sorted(ranked_models(measured), key=lambda entry: (-entry.record.metrics[main].value, entry.model)))
    metrics = [*filter(is_testable, measured.headline)]
    tested = ranking[: _most_tested(measured, len(metrics))]
    outcomes = lay_out_outcomes([entry.samples for entry in tested], metrics) if len(tested) > 1 else {}
    if not outcomes:
        return Rivals(ranking)
    clusters = np.array([sample.cluster for sample in measured.samples])
    records = {number: entry.record for number, entry in enumerate(tested)}
    shared = SharedBenchmark(measured.name, records=records, clusters=clusters, tags=(), outcomes=outcomes)
    pairs = [(low, high) for high, low in combinations(range(len(tested)), 2)]
    systems = [System(entry.label, {}, entry.run.result) for entry in tested]
    duels = tuple(compare_pairs(systems, [shared], pairs, seed=seed))
    return Rivals(ranking, tuple(outcomes), duels, len(ranking) - len(tested), len(duels) * len(outcomes))


def _most_tested(measured: BenchmarkRuns, metrics: int) -> int:
    """Return how many models are tested: fewer if the flips of very many clusters would take minutes."""
    clusters, most = len({sample.cluster for sample in measured.samples}), MOST_TESTED
    if clusters == len(measured.samples):
        return most
    return next((of for of in range(most, 2, -1) if clusters * metrics * of * (of - 1) // 2 <= _MOST_FLIPPED), 2)


#: Of the intervals, together over all values that are looked at.
WEAK_LEVEL = 0.95


class WeakSubset(NamedTuple):
    """The mean over the `n` items of one value of a tag, and over those of the tag's other values."""

    tag: str
    value: str
    mean: float
    n: int
    others: float


def weak_subsets(entry: ModelEntry, metric: str, *, seed: int = 0) -> tuple[WeakSubset, ...]:
    """Return the values of one tag that lie clearly below its other values, the lowest first.

    Clearly: the value's interval lies below that of the others' items, both at a level that holds for all values of all
    tags together (Bonferroni). The tag is that of the lowest such value.
    """
    groups_of = {tag: groups for tag, groups in entry.record.by.items() if len(groups) > 1}
    looked_at = sum(map(len, groups_of.values()))
    samples = [sample for sample in entry.samples if metric in sample.outcomes]
    if not looked_at or not samples or (metric in METRICS and METRICS[metric].together):
        return ()  # a number of some items may be no mean of their values among all items
    values = np.array([sample.outcomes[metric] for sample in samples])
    clusters = np.array([sample.cluster for sample in samples])
    level = 1 - (1 - WEAK_LEVEL) / looked_at
    binary = bool(np.isin(values, (0, 1)).all())

    def interval(items: NDArray[np.bool_]) -> Interval:
        if binary:
            return share_in_clusters(values[items], clusters[items], level=level)
        return interval_for(values[items], clusters[items], binary=False, level=level, seed=seed)

    # A tag that names each item would have as many masks as items.
    masks_of = by_tag([{tag: value for tag, value in sample.tags.items() if tag in groups_of} for sample in samples])
    subsets: list[WeakSubset] = []
    for tag, groups in groups_of.items():
        masks = masks_of.get(tag, {})
        tagged: NDArray[np.bool_] = np.logical_or.reduce([*masks.values(), np.zeros(len(values), np.bool_)])
        for value, mask in masks.items():
            others = tagged & ~mask
            high = groups[value].metrics[metric].high if value in groups and metric in groups[value].metrics else None
            # A difference that the record's narrower interval does not show needs no wider one.
            if high is None or high >= values[tagged].mean() or not others.any():
                continue
            of_value, of_others = interval(mask).high, interval(others).low
            if of_value is not None and of_others is not None and of_value < of_others:
                means = float(values[mask].mean()), int(mask.sum()), float(values[others].mean())
                subsets.append(WeakSubset(tag, value, *means))
    subsets.sort(key=lambda subset: (subset.mean, -subset.n))
    return tuple(subset for subset in subsets if subset.tag == subsets[0].tag)


#: Benchmarks that each have their sentences at the head of a report; more are counted up.
MOST_SINGLE = 3

#: Subsets that a sentence names.
_MOST_SUBSETS = 3

#: About the reference model bag-of-words.
WORDS_ALONE = "is given the words of the true caption but not their order"

ABOVE, LEVEL, BELOW = "above chance", "not distinguishable from chance", "below chance"


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The conclusions from one benchmark's numbers.

    `standing` has the models that can be judged by chance; `first` the best one and those that no test distinguishes
    from it, if several were tested; `measured` all models but references.
    """

    name: str
    metric: str
    sentences: tuple[str, ...]
    standing: dict[str, str]
    first: tuple[str, ...]
    measured: tuple[str, ...] = ()


def conclude(measured: BenchmarkRuns, rivals: Rivals) -> Conclusion:
    """Put one benchmark's numbers into one to three sentences."""
    metric, labels = measured.main, tuple(entry.label for entry in rivals.ranking)
    if not metric:
        return Conclusion(measured.name, metric, (), {}, (), labels)
    models = [(entry, entry.record.metrics[metric]) for entry in rivals.ranking]
    standing = {entry.label: side for entry, value in models if (side := _side_of_chance(metric, value))}
    distinct = rivals.distinct(metric)
    near = tuple(label for label in labels[1:] if distinct.get(label) is False)
    level = [entry for entry, value in models[1:] if value.value == models[0][1].value]
    sentences = write_lines(
        "conclusions",
        models=[(entry.label, value) for entry, value in models],
        rest=[(entry.label, of.value, distinct.get(entry.label)) for entry, of in models[1:] if entry not in level],
        level=[labels[0], *(entry.label for entry in level)] if level else [],
        standing=standing,
        groups=[(side, [*names]) for side in (ABOVE, LEVEL, BELOW)
                if (names := [label for label, of in standing.items() if of == side])],
        is_tested=bool(distinct),
        rivals=rivals,
        metric=f"{metric} ({METRICS[metric].title})" if metric in METRICS else metric,
        noun=next((sample.unit for sample in measured.samples if metric in sample.outcomes), "item"),
        main=measured.record.metrics[metric],
        record=measured.record,
        weak=weak_subsets(rivals.ranking[0], metric)[:_MOST_SUBSETS],
        words=_measure_words(measured, metric),
        constants={"below": BELOW, "few": MOST_NAMED, "tested": MOST_TESTED, "alpha": ALPHA, "words": WORDS_ALONE},
    )  # fmt: skip
    first = (labels[0], *near) if len(labels) > 1 and distinct else ()
    return Conclusion(measured.name, metric, sentences, standing, first, labels)


def conclude_all(conclusions: Sequence[Conclusion]) -> tuple[str, ...]:
    """Count many benchmarks up: on how many a model is above chance, and first or not distinguishable from it."""
    models = list(dict.fromkeys(name for conclusion in conclusions for name in conclusion.standing))
    sides: dict[str, dict[str, list[str]]] = {model: {} for model in models}
    for model in models:
        for conclusion in conclusions:
            if model in (*conclusion.standing, *conclusion.measured):
                sides[model].setdefault(conclusion.standing.get(model, ""), []).append(conclusion.name)
    ranked = [conclusion.first for conclusion in conclusions if conclusion.first]
    firsts = Counter(model for first in ranked for model in first).most_common()
    words = {LEVEL: "not distinguishable from it on", BELOW: "below it on",
             "": "without a chance or an interval to judge by on"}  # fmt: skip
    return write_lines("overall", sides=sides, above=ABOVE, words=words, ranked=ranked, firsts=firsts, most=MOST_NAMED)


def answer_lines(conclusions: Sequence[Conclusion]) -> tuple[str, ...]:
    """Return a report's first lines, one a benchmark; many benchmarks are counted up."""
    if len(conclusions) > MOST_SINGLE:
        return conclude_all(conclusions)
    return tuple(f"{each.name}: {' '.join(each.sentences)}" for each in conclusions if each.sentences)


def _side_of_chance(metric: str, value: Value) -> str:
    """Name the side of chance on which an interval lies; nothing without an interval, or if a guess is never right."""
    if value.chance is None or value.low is None or value.high is None:
        return ""
    can_be_negative = metric in METRICS and METRICS[metric].bounds[0] < 0
    if value.chance == 0 and not can_be_negative:
        return ""
    return ABOVE if value.low > value.chance else BELOW if value.high < value.chance else LEVEL


def _measure_words(measured: BenchmarkRuns, metric: str) -> dict[str, Any] | None:
    """Return what the model without word order gets, if that differs clearly between two values of a tag.

    It is the label, the tag, the shares and values at its two ends, and the shortest captions that the model takes
    wrong.
    """
    entry = next((model for model in measured.entries if model.name == "bag-of-words"), None)
    tag = None if entry is None else first_breakdown({entry.label: entry.record}, measured.name)
    if entry is None or tag is None:
        return None
    values = {name: group.metrics[metric] for name, group in entry.record.by[tag].items() if metric in group.metrics}
    high, low = (extreme(values.values(), key=lambda value: value.value, default=None) for extreme in (max, min))
    if high is None or low is None or high.low is None or low.high is None or low.high >= high.low:
        return None
    ends = [(end.value, [name for name, of in values.items() if of.value == end.value]) for end in (high, low)]
    lost = [
        sample.texts
        for sample in entry.samples
        if len(sample.texts) == 2 and values.get(sample.tags.get(tag, "")) == low and not sample.outcomes.get(metric)
    ]
    shortest = min(lost, key=lambda texts: len("".join(texts)), default=())
    return {"label": entry.label, "tag": tag, "ends": ends, "lost": [text.removesuffix(".") for text in shortest]}
