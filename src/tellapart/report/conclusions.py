"""A report's numbers in sentences, and models of one benchmark against each other: paired tests, corrected over all.

A sentence claims only as much as an interval or a test carries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tellapart.catalog import is_ranked
from tellapart.evaluation.compare import MetricComparison, compare_pairs, judge_leaders, judge_pair
from tellapart.evaluation.systems import SharedBenchmark, System, is_testable, lay_out_outcomes
from tellapart.metrics.per_item import by_tag
from tellapart.records.result import Value
from tellapart.report.numbers import percent, thousands
from tellapart.report.plots.heatmap import first_breakdown
from tellapart.report.sections import ModelEntry, Section
from tellapart.stats.interval import Interval
from tellapart.stats.intervals import interval_for, share_in_clusters
from tellapart.tasks.registry import METRICS

#: The family-wise error over all tests of a benchmark.
ALPHA = 0.05

#: Models that are tested: the first by the main metric, every two of them.
MOST_TESTED = 8

#: Clusters times tests, beyond which fewer models are tested: resampling so many takes about a minute and a half.
_MOST_FLIPPED = 250_000


class Duel(NamedTuple):
    """Two models, a test for each metric; b has the higher main metric, so that differences (b minus a) are gains."""

    a: ModelEntry
    b: ModelEntry
    rows: Mapping[str, MetricComparison]


@dataclass(frozen=True, slots=True)
class Rivals:
    """Models of one benchmark, references apart, the best first; tests of every two of the first, corrected for all."""

    ranking: tuple[ModelEntry, ...]
    metrics: tuple[str, ...] = ()
    duels: tuple[Duel, ...] = ()
    untested: int = 0
    tests: int = 0

    @property
    def kinds(self) -> list[str]:
        """The kinds of test that were made."""
        return list(dict.fromkeys(row.test for duel in self.duels for row in duel.rows.values()))

    @property
    def verdicts(self) -> tuple[str, ...]:
        """The outcome in words, with which `tellapart compare` ends, too."""
        pairs = [(duel.a.label, duel.b.label, [*duel.rows.values()]) for duel in self.duels]
        judged = judge_pair(*pairs[0], self.tests) if len(pairs) == 1 else judge_leaders(pairs)
        return tuple(verdict.sentence for verdict in judged)

    def distinct(self, metric: str) -> dict[int, bool]:
        """Return for each tested model but the first, by its number, whether it differs from the first."""
        if metric not in self.metrics:
            return {}
        first = self.ranking[0]
        return {duel.a.model: duel.rows[metric].p_holm <= ALPHA for duel in self.duels if duel.b is first}


def own_models(section: Section) -> tuple[ModelEntry, ...]:
    """Return the models without the reference models; all if all are reference models."""
    entries = tuple(entry for entry in section.entries if is_ranked(entry.run.result.model.name))
    return entries or section.entries


def rivals_of(section: Section, *, seed: int = 0) -> Rivals:
    """Rank models by the main metric, and test every two of the first as `tellapart compare` does."""
    main = section.main
    if not main:
        return Rivals(own_models(section))
    ranking = tuple(sorted(own_models(section), key=lambda entry: (-entry.record.metrics[main].value, entry.model)))
    metrics = [*filter(is_testable, section.headline)]
    tested = ranking[: _most_tested(section, len(metrics))]
    outcomes = lay_out_outcomes([entry.samples for entry in tested], metrics) if len(tested) > 1 else {}
    if not outcomes:
        return Rivals(ranking)
    clusters = np.array([sample.cluster for sample in section.samples])
    records = {number: entry.record for number, entry in enumerate(tested)}
    shared = SharedBenchmark(section.name, records=records, clusters=clusters, tags=(), outcomes=outcomes)
    pairs = [(low, high) for high, low in combinations(range(len(tested)), 2)]
    systems = [System(entry.label, {}, entry.run.result) for entry in tested]
    duels = tuple(
        Duel(tested[a], tested[b], {row.metric: row for row in comparison.rows})
        for (a, b), comparison in zip(pairs, compare_pairs(systems, [shared], pairs, seed=seed), strict=True)
    )
    return Rivals(ranking, tuple(outcomes), duels, len(ranking) - len(tested), len(duels) * len(outcomes))


def _most_tested(section: Section, metrics: int) -> int:
    """Return how many models are tested: fewer if the flips of very many clusters would take minutes."""
    clusters = len({sample.cluster for sample in section.samples})
    most = MOST_TESTED
    if clusters < len(section.samples):
        while most > 2 and clusters * metrics * most * (most - 1) // 2 > _MOST_FLIPPED:
            most -= 1
    return most


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
    if not looked_at or not samples:
        return ()
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
    subsets: dict[str, list[WeakSubset]] = {}
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
                subsets.setdefault(tag, []).append(WeakSubset(tag, value, *means))
    ordered = [sorted(of_tag, key=lambda subset: (subset.mean, -subset.n)) for of_tag in subsets.values()]
    lowest = min(ordered, key=lambda of_tag: (of_tag[0].mean, -of_tag[0].n), default=[])
    return tuple(lowest)


#: Benchmarks that each have their sentences at the head of a report; more are counted up.
MOST_SINGLE = 3

#: Models and subsets that a sentence names; more models are counted.
_MOST_NAMED, _MOST_SUBSETS = 4, 3

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


def conclude(section: Section, rivals: Rivals) -> Conclusion:
    """Put one benchmark's numbers into one to three sentences."""
    metric, labels = section.main, tuple(entry.label for entry in rivals.ranking)
    if not metric:
        return Conclusion(section.name, metric, (), {}, (), labels)
    models = [(entry.label, entry.record.metrics[metric]) for entry in rivals.ranking]
    standing = {label: said for label, value in models if (said := _describe_standing(metric, value))}
    distinct = rivals.distinct(metric)
    near = tuple(entry.label for entry in rivals.ranking[1:] if distinct.get(entry.model) is False)
    if len(models) == 1:
        sentences = [_describe_model(section, metric, *models[0], standing)]
    else:
        sentences = [_first_of(section, metric, rivals), *_chance_of_all(models[0][1], len(models), standing)]
    sentences += [*_describe_failures(metric, rivals.ranking[0]), *_describe_words_alone(section, metric)]
    first = (labels[0], *near) if len(labels) > 1 and distinct else ()
    return Conclusion(section.name, metric, tuple(sentences), standing, first, labels)


def conclude_all(conclusions: Sequence[Conclusion]) -> tuple[str, ...]:
    """Count many benchmarks up: on how many a model is above chance, and first or not distinguishable from it."""
    models = list(dict.fromkeys(name for conclusion in conclusions for name in conclusion.standing))
    sentences = []
    for model in models[:_MOST_NAMED]:
        measured = [each for each in conclusions if model in (*each.standing, *each.measured)]
        on = {each.name: each.standing.get(model, "") for each in measured}
        above = sum(state == ABOVE for state in on.values())
        parts = [f"{model} is above chance on {above} of {_write_count(len(on), 'benchmark')}"]
        for said, words in (
            (LEVEL, "not distinguishable from it on"),
            (BELOW, "below it on"),
            ("", "without a chance or an interval to judge by on"),
        ):
            if names := [name for name, state in on.items() if state == said]:
                parts.append(f"{words} {_join_names(names)}")
        sentences.append(f"{', '.join(parts)}.")
    if len(models) > _MOST_NAMED:
        sentences.append(f"The other {len(models) - _MOST_NAMED} models are told of with each benchmark.")
    ranked = [conclusion for conclusion in conclusions if conclusion.first]
    if firsts := Counter(model for ranking in ranked for model in ranking.first).most_common():
        named = _join_names([f"{model} on {count}" for model, count in firsts])
        of = _write_count(len(ranked), "benchmark")
        sentences.append(f"First, or not distinguishable from the first, of {of} with tests: {named}.")
    return tuple(sentences)


def answer_lines(conclusions: Sequence[Conclusion]) -> tuple[str, ...]:
    """Return a report's first lines, one a benchmark; many benchmarks are counted up."""
    if len(conclusions) > MOST_SINGLE:
        return conclude_all(conclusions)
    return tuple(f"{each.name}: {' '.join(each.sentences)}" for each in conclusions if each.sentences)


def _describe_standing(metric: str, value: Value) -> str:
    """Name the side of chance on which an interval lies; nothing without an interval, or if a guess is never right."""
    if value.chance is None or value.low is None or value.high is None:
        return ""
    can_be_negative = metric in METRICS and METRICS[metric].bounds[0] < 0
    if value.chance == 0 and not can_be_negative:
        return ""
    return ABOVE if value.low > value.chance else BELOW if value.high < value.chance else LEVEL


def _describe_model(section: Section, metric: str, label: str, value: Value, standing: dict[str, str]) -> str:
    interval = f" ({value.reason})" if value.reason else ""
    if value.low is not None and value.high is not None:
        interval = f" ({value.level:.0%} interval {100 * value.low:.1f} to {100 * value.high:.1f})"
    reached = f"{label} reaches {_write_percent(value.value)} by {_write_metric(metric)} on"
    reached = f"{reached} {_write_items(section, metric)}{interval}"
    if label not in standing:
        return f"{reached}."
    # The cost of ties, if they may be why a value lies below chance.
    ties = ""
    if standing[label] == BELOW and value.ties and value.tie_neutral is not None:
        neutral = f"{_write_percent(value.tie_neutral)} if they were broken at random"
        ties = f", with ties in {_write_count(value.ties, 'item')} counted as wrong ({neutral})"
    return f"{reached}: {standing[label]}, {_write_percent(value.chance or 0)}{ties}."


def _first_of(section: Section, metric: str, rivals: Rivals) -> str:
    first, *rest = rivals.ranking
    value_of = {entry.model: entry.record.metrics[metric].value for entry in rivals.ranking}
    written = {model: _write_percent(value) for model, value in value_of.items()}
    on = f"first of {len(rivals.ranking)} models on {_write_items(section, metric)}"
    start = f"{first.label} is {on}, with {written[first.model]} by {_write_metric(metric)}"
    if level := [entry for entry in rest if value_of[entry.model] == value_of[first.model]]:
        names = _name_few([entry.label for entry in (first, *level)], len(level) < _MOST_NAMED)
        start = f"{names} are level, {on}, each with {written[first.model]} by {_write_metric(metric)}"
        rest = [entry for entry in rest if entry not in level]
        if not rest:
            return f"{start}."
    distinct = rivals.distinct(metric)
    if not distinct:
        return f"{start}, {rest[0].label} second with {written[rest[0].model]}; they were not tested."
    parts = [start]
    for differs, words in ((False, "not distinguishable from it"), (True, "lower")):
        alike = [entry for entry in rest if distinct.get(entry.model) is differs]
        if named := [f"{entry.label} ({written[entry.model]})" for entry in alike]:
            parts.append(f"{_name_few(named)} {'is' if len(named) == 1 else 'are'} {words}")
    if rivals.untested:
        parts.append(f"{_write_count(rivals.untested, 'model')} after the first {MOST_TESTED} were not tested")
    return f"{'; '.join(parts)} (paired tests at {ALPHA:.0%}, Holm over {rivals.tests})."


def _chance_of_all(value: Value, count: int, standing: dict[str, str]) -> list[str]:
    """Name the models above, below and near chance; nothing if all allow no conclusion."""
    if not standing:
        return []
    chance = _write_percent(value.chance or 0)
    if len(standing) == count and len(set(standing.values())) == 1:
        return [f"{'Both' if count == 2 else 'All'} are {next(iter(standing.values()))}, {chance}."]
    parts: list[str] = []
    for said in (ABOVE, LEVEL, BELOW):
        if names := [name for name, state in standing.items() if state == said]:
            verb = "is" if len(names) == 1 else "are"
            parts.append(f"{_name_few(names)} {verb} {said}{'' if parts else f', {chance}'}")
    return [f"{'; '.join(parts)}."]


def _name_few(names: Sequence[str], few: bool | None = None, many: str = "models") -> str:
    """Name a few; of more, write their number."""
    named = len(names) <= _MOST_NAMED if few is None else few
    return _join_names(names) if named else f"{len(names)} {many}"


def _describe_failures(metric: str, entry: ModelEntry) -> list[str]:
    subsets = weak_subsets(entry, metric)
    if not subsets:
        return []
    worst, *more = subsets[:_MOST_SUBSETS]
    share = f"{_write_percent(worst.mean)} of {_write_count(worst.n, 'item')}"
    said = f"{entry.label} fails most at items tagged {worst.tag} = {worst.value}: {share}"
    then = _join_names([f"{subset.value} ({_write_percent(subset.mean)} of {thousands(subset.n)})" for subset in more])
    return [f"{said} against {_write_percent(worst.others)} of the others{f'; then {then}' if then else ''}."]


def _describe_words_alone(section: Section, metric: str) -> list[str]:
    """Describe what the best model without word order gets, if that differs clearly between two values of a tag."""
    entry = next((model for model in section.entries if model.run.result.model.name == "bag-of-words"), None)
    tag = None if entry is None else first_breakdown({entry.label: entry.record}, section.name)
    if entry is None or tag is None:
        return []
    values = {name: group.metrics[metric] for name, group in entry.record.by[tag].items() if metric in group.metrics}
    high, low = (extreme(values.values(), key=lambda value: value.value, default=None) for extreme in (max, min))
    if high is None or low is None or high.low is None or low.high is None or low.high >= high.low:
        return []
    said = []
    for end in (high, low):
        names = [name for name, candidate in values.items() if candidate.value == end.value]
        said.append(f"{100 * end.value:.4g}% of {_name_few(names, many=f'values of {tag}')}")
    lost = [
        sample.texts
        for sample in entry.samples
        if len(sample.texts) == 2 and values.get(sample.tags.get(tag, "")) == low and not sample.outcomes.get(metric)
    ]
    shortest = min(lost, key=lambda texts: len("".join(texts)), default=())
    example = " and ".join(f'"{text.removesuffix(".")}"' for text in shortest)
    such = f", such as {example}." if example else "."
    return [f"{entry.label}, which {WORDS_ALONE}, gets {said[0]}, and {said[1]}{such}"]


def _write_items(section: Section, metric: str) -> str:
    """Write how many units the metric is a mean of, of how many a limit left them, and their clusters."""
    noun = next((sample.unit for sample in section.samples if metric in sample.outcomes), "item")
    value, published = section.record.metrics[metric], section.record.limited_from
    cut = "" if published is None else f"{thousands(value.n)} of "
    items = f"{cut}{_write_count(value.n if published is None else published, noun)}"
    return items if value.clusters == value.n else f"{items} in {_write_count(value.clusters, 'cluster')}"


def _write_metric(metric: str) -> str:
    return f"{metric} ({METRICS[metric].title})" if metric in METRICS else metric


def _write_percent(fraction: float) -> str:
    return f"{percent(fraction)}%"


def _write_count(number: int, noun: str) -> str:
    """Write a count with its noun."""
    if number == 1:
        return f"1 {noun}"
    head, of, rest = noun.partition(" of ")
    plural = f"{head[:-1]}ies" if head.endswith("y") else f"{head}s"
    return f"{thousands(number)} {plural}{of}{rest}"


def _join_names(names: Sequence[str]) -> str:
    """Join names as people do."""
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)
