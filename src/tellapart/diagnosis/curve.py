"""Thresholds of models: the smallest difference that they see, by a numeric tag of items."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from tellapart.builders.negatives.lexicon import words
from tellapart.data.scores import join_names
from tellapart.diagnosis.item_analysis import ItemOutcomes
from tellapart.diagnosis.psychometric import LEAST_ITEMS, LEAST_LEVELS, Psychometric, fit_psychometric
from tellapart.errors import RunError, counted, nearest, quote
from tellapart.evaluation.compare import correct
from tellapart.evaluation.systems import System, expect_same_tag, expect_tag, match_benchmarks
from tellapart.metrics.per_item import by_tag
from tellapart.metrics.tabulate import MOST_VALUES
from tellapart.records.result import Sample
from tellapart.stats.clusters import is_binary
from tellapart.stats.intervals import share_in_clusters


def count_edits(first: str, second: str) -> int:
    """Return how many words must be put in, left out or replaced to make one caption of the other.

    Case and punctuation do not count, and neither does "an" in place of "a".

    Source: Levenshtein (1966), Soviet Physics Doklady 10, 707-710, on words.

    >>> count_edits("A red box on a table.", "a blue box on the old table"), count_edits("An owl", "a cat")
    (3, 1)
    """
    row = list(range(len(words(second)) + 1))
    for start, word in enumerate(words(first)):
        before, row = row, [start + 1]
        for k, other in enumerate(words(second)):
            row.append(min(before[k] + (word != other), before[k + 1] + 1, row[k] + 1))
    return row[-1]


def find_difference(first: str, second: str) -> int | None:
    """Return the place of the first word in which two captions differ, from 1; None if no word does.

    If one caption is the beginning of the other, it is the place after its last word.

    >>> find_difference("A red box.", "a blue box"), find_difference("A box", "A box of tea"), find_difference("x", "X")
    (2, 3, None)
    """
    a, b = words(first), words(second)
    if a == b:
        return None
    return next((k for k, (x, y) in enumerate(zip(a, b, strict=False), 1) if x != y), min(len(a), len(b)) + 1)


#: Name of the tag -> its value for two captions; None if they have none.
CAPTION_TAGS: Mapping[str, Callable[[str, str], int | None]] = MappingProxyType(
    {"caption_edits": count_edits, "first_difference": find_difference}
)


def tag_captions(items: Sequence[Sample], tag: str) -> tuple[Sample, ...]:
    """Return items with a tag of `CAPTION_TAGS`, if they have two captions and none carries a tag of that name."""
    if tag not in CAPTION_TAGS or any(item.tags.get(tag) for item in items):
        return tuple(items)
    values = [CAPTION_TAGS[tag](*item.texts) if len(item.texts) == 2 else None for item in items]
    return tuple(
        item if value is None else replace(item, tags={**item.tags, tag: str(value)})
        for item, value in zip(items, values, strict=True)
    )


#: Levels of a curve that are drawn; of more values, neighbours are put together.
_MOST_LEVELS = 12

#: Points of a curve's line.
_POINTS = 101

#: A note warns if half of the items lie in less than this share of the values' range: a curve follows them badly.
_CROWDED = 0.05


class Level(BaseModel, frozen=True):
    """The share of right answers to `n` items of one value of the tag, or of neighbouring values: then their mean."""

    value: float
    n: int
    right: float
    low: float | None
    high: float | None


class Curve(BaseModel, frozen=True):
    """One model's psychometric function.

    Attributes:
        subset: the value of the second tag that these items carry; None for all items.
        chance: the guess rate on these items.
        threshold: the value at which P is half way from chance to its best; None if it lies outside.
        outside: `below the smallest` or `above the largest` value, if the threshold lies there.
        low, high: its 95% interval over clusters; an open end, beyond which there are no values, is None.
        reason: why there is no curve, or no interval; None if there are both.
        slope: of the logistic function, by unit of the tag; negative if P falls.
        lapse: the share of wrong answers that remains, 0 to 0.1.
        p_fit: the probability that items deviate so much from the curve by chance; None with too few levels for it.
        line: points of the curve, values and P, over all values of the tag.
        levels: what the curve was fitted to, in at most twelve groups.
    """

    model: str
    subset: str | None
    n: int
    clusters: int
    right: float
    chance: float
    threshold: float | None = None
    outside: str | None = None
    low: float | None = None
    high: float | None = None
    reason: str | None = None
    slope: float | None = None
    lapse: float | None = None
    p_fit: float | None = None
    line: tuple[tuple[float, float], ...] = ()
    levels: tuple[Level, ...] = ()


class ThresholdDifference(BaseModel, frozen=True):
    """The thresholds of two models on the same items, b minus a, with a paired 95% interval over clusters.

    The difference is None if a threshold lies outside of the values; an end is None if the values do not show it.
    Without an interval p is None. `p_holm` is adjusted for all rows.
    """

    a: str
    b: str
    subset: str | None
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    p_holm: float | None = None


class Curves(BaseModel, frozen=True):
    """Psychometric functions of models over a numeric tag.

    Attributes:
        over, by: the numeric tag, and the tag whose values get curves of their own.
        chance: the guess rate on all items.
        smallest, largest: the tag's values.
        limited_from, limited_to: the benchmark's number of records and that of the part, if the runs measured a part.
        drawn, seed: ids of items that were chosen one by one, in their order, and the seed; empty if all were measured.
    """

    benchmark: str
    metric: str
    over: str
    by: str | None
    n: int
    chance: float
    smallest: float
    largest: float
    curves: tuple[Curve, ...]
    differences: tuple[ThresholdDifference, ...]
    limited_from: int | None = None
    limited_to: int | None = None
    notes: tuple[str, ...] = ()
    drawn: tuple[str, ...] = ()
    seed: int | None = None


def read_chances(runs: Sequence[System], outcomes: ItemOutcomes, by: str | None) -> dict[str | None, float]:
    """Return the chance of the outcomes' metric for each value of the tag `by`; the key None has that of all items.

    It differs between values whose groups of questions differ in size.
    """
    run_number, name = next(iter(match_benchmarks([run.result for run in runs])[outcomes.benchmark].items()))
    record = runs[run_number].record(name)
    metrics = record.metrics
    chance = metrics[outcomes.metric].chance
    if chance is None:
        others = [other for other, value in metrics.items() if value.chance is not None]
        rest = f"name one that has: metric={join_names(others)}" if others else "none of its metrics has one"
        raise RunError(
            f"{outcomes.benchmark}: {outcomes.metric} has no chance, from which a curve of P(right) starts; {rest}"
        )
    groups = record.by.get(by or "", {}).items()
    chances = {
        value: group.metrics[outcomes.metric].chance for value, group in groups if outcomes.metric in group.metrics
    }
    return {None: chance} | {value: number for value, number in chances.items() if number is not None}


def measure_curves(
    outcomes: ItemOutcomes, over: str, *, chances: Mapping[str | None, float], by: str | None = None,
    direction: str | None = None, seed: int = 0, posterior: Psychometric | None = None,
) -> Curves:  # fmt: skip
    """Fit a curve of P(right) over a numeric tag to each model, and compare their thresholds.

    `over` is a numeric tag, or one of `CAPTION_TAGS`; items without it are left out. `chances` are those of
    `read_chances`. `direction` is passed to `fit_psychometric`. `posterior` replaces the fit: it is the function of a
    single model whose items were chosen one by one.
    """
    for tag in filter(None, (over, by)):
        expect_same_tag(outcomes.benchmark, tag, outcomes.retagged)
    values = read_values(outcomes, over)
    tagged = ~np.isnan(values)
    if not is_binary(outcomes.values):
        raise RunError(f"{outcomes.benchmark}: {outcomes.metric} is graded; a curve takes a metric of right and wrong")
    level_count, item_count = len(np.unique(values[tagged])), int(tagged.sum())
    if posterior is None and (level_count < LEAST_LEVELS or item_count < LEAST_ITEMS):
        raise RunError(
            f"{outcomes.benchmark}: {item_count} items have the tag {over!r}, with "
            f"{counted(level_count, 'different value')}; a curve takes at least {LEAST_ITEMS} items and {LEAST_LEVELS} "
            "values"
        )
    parts: list[tuple[str | None, NDArray[np.bool_]]] = [(None, tagged)]
    parts += [(name, mask & tagged) for name, mask in _list_parts(outcomes, by).items() if (mask & tagged).any()]
    clusters = np.array([item.cluster for item in outcomes.items])
    curves: list[Curve] = []
    differences: list[ThresholdDifference] = []
    unsure: list[str] = []
    for subset, mask in parts:
        x, right, groups = values[mask], outcomes.values[mask], clusters[mask]
        chance = chances.get(subset, chances[None])
        unfitted = [
            Curve(model=model, subset=subset, n=len(x), clusters=len(np.unique(groups)), right=float(column.mean()),
                  chance=chance, levels=_list_levels(x, column, groups))
            for model, column in zip(outcomes.systems, right.T, strict=True)
        ]  # fmt: skip
        if posterior is None and (len(x) < LEAST_ITEMS or len(np.unique(x)) < LEAST_LEVELS):
            reason = f"too few for a curve: {len(x)} items, {len(np.unique(x))} values"
            curves += [curve.model_copy(update={"reason": reason}) for curve in unfitted]
            continue
        fit_models = partial(fit_psychometric, guess=chance, direction=direction, seed=seed)
        fitted = [posterior] if posterior else fit_models(x, right, groups)
        if len(fitted[0].draws) > 1:  # rising and falling curves fit about as well
            unsure.append(subset or "all items")
        curves += [curve.model_copy(update=_describe(fit)) for curve, fit in zip(unfitted, fitted, strict=True)]
        for (a, first), (b, second) in combinations(zip(outcomes.systems, fitted, strict=True), 2):
            value, ends, p = second.minus(first)
            differences.append(
                ThresholdDifference(a=a, b=b, subset=subset, difference=value, low=ends.low, high=ends.high, p=p)
            )
    return Curves(
        benchmark=outcomes.benchmark, metric=outcomes.metric, over=over, by=by, n=item_count, chance=chances[None],
        smallest=float(values[tagged].min()), largest=float(values[tagged].max()), curves=tuple(curves),
        differences=tuple(correct(differences)), limited_from=outcomes.limited_from, limited_to=outcomes.limited_to,
        notes=tuple(_list_notes(outcomes, over, values, curves, unsure)),
    )  # fmt: skip


def _describe(fitted: Psychometric) -> dict[str, object]:
    grid = np.linspace(fitted.smallest, fitted.largest, _POINTS)
    parameters = {name: getattr(fitted, name) for name in ("outside", "slope", "lapse", "p_fit")}
    bounds = {"low": fitted.interval.low, "high": fitted.interval.high, "reason": fitted.interval.reason or None}
    line = tuple(zip(grid.tolist(), fitted.at(grid).tolist(), strict=True))
    return {"threshold": None if fitted.outside else fitted.threshold, "line": line, **parameters, **bounds}


def _list_levels(x: NDArray[np.float64], right: NDArray[np.float64], clusters: NDArray[np.str_]) -> tuple[Level, ...]:
    order = np.argsort(x, kind="stable")
    starts = np.flatnonzero(np.diff(x[order], prepend=-np.inf))
    if len(starts) > _MOST_LEVELS:  # as many items in each, but a value is never parted
        wanted = np.arange(_MOST_LEVELS) * len(x) / _MOST_LEVELS
        starts = np.unique(starts[np.searchsorted(starts, wanted, side="right") - 1])
    levels = []
    for items in np.split(order, starts[1:]):
        bounds = share_in_clusters(right[items], clusters[items])
        levels.append(
            Level(value=float(x[items].mean()), n=len(items), right=float(right[items].mean()), low=bounds.low,
                  high=bounds.high)
        )  # fmt: skip
    return tuple(levels)


def list_numeric_tags(items: Sequence[Sample]) -> list[str]:
    """Return the tags whose values are numbers, and not all the same."""
    values: dict[str, set[str]] = {}
    for tag, value in (pair for item in items for pair in item.tags.items() if pair[1]):
        values.setdefault(tag, set()).add(value)
    return [tag for tag, texts in values.items() if len(texts) > 1 and None not in map(_as_number, texts)]


def _as_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in text else None


def read_values(outcomes: ItemOutcomes, over: str) -> NDArray[np.float64]:
    """Return the tag's value of each item `(item,)`, NaN of those without it."""
    items = tag_captions(outcomes.items, over)
    numeric = list_numeric_tags(items)
    hint = (
        f"tags of numbers here: {join_names(numeric)}"
        if numeric
        else "no tag of these items is of numbers: name a column with --columns tag:NAME=COLUMN"
    )
    if all(len(item.texts) == 2 for item in items):
        hint += f"; from the captions: {join_names(list(CAPTION_TAGS))}"
    texts = [item.tags.get(over) or None for item in items]
    if not any(texts):
        raise RunError(f"{outcomes.benchmark}: no item has the tag over={quote(over)}{nearest(over, numeric)}; {hint}")
    values = [math.nan if text is None else _as_number(text) for text in texts]
    wrong = [item for item, value in zip(items, values, strict=True) if value is None]
    if wrong:
        raise RunError(
            f"{outcomes.benchmark}: over={quote(over)} is not a tag of numbers: {len(wrong)} of {len(texts)} items "
            f"have another value, the first is item {quote(wrong[0].id)} with {quote(wrong[0].tags[over])}; {hint}"
        )
    return np.array(values, np.float64)


def _list_parts(outcomes: ItemOutcomes, by: str | None) -> Mapping[str, NDArray[np.bool_]]:
    if by is None:
        return {}
    tags = by_tag([item.tags for item in outcomes.items])
    expect_tag(by, list(tags))
    if len(tags[by]) > MOST_VALUES:
        raise RunError(
            f"{outcomes.benchmark}: the tag by={quote(by)} has {len(tags[by]):,} values, and curves are of "
            f"{MOST_VALUES} at most; choose a tag of fewer"
        )
    return tags[by]


def _list_notes(
    outcomes: ItemOutcomes, over: str, values: NDArray[np.float64], curves: Sequence[Curve], unsure: Sequence[str]
) -> list[str]:
    notes = []
    if without := int(np.isnan(values).sum()):
        notes.append(f"{without:,} items without the tag {over} are left out")
    if outcomes.unmeasured:
        notes.append(f"{outcomes.unmeasured:,} items are left out: a model has no value of them")
    x = np.sort(values[~np.isnan(values)])
    half = len(x) // 2  # the narrowest window that holds half of the items decides
    if (x[half:] - x[: len(x) - half]).min() < _CROWDED * np.ptp(x):
        notes.append(
            f"half of the items lie in less than {_CROWDED:.0%} of the range of {over}; its logarithm may fit better"
        )
    if unsure:
        notes.append(
            f"rising and falling curves fit {join_names(unsure)} about as well, and intervals hold for both; name the "
            "direction, rising or falling, if you know it without these models"
        )
    if poor := [row for row in curves if row.p_fit is not None and row.p_fit < 0.05]:
        names = join_names([row.model if row.subset is None else f"{row.model} on {row.subset}" for row in poor])
        notes.append(f"the curve does not describe {names} (fit: p below 5%): read the shares of each level")
    return notes
