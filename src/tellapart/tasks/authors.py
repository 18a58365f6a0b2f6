"""The numbers of a benchmark's authors that our metrics of items are not: their ties, their averages, their units.

A benchmark declares them (`tie_rule` and `authors` of `Benchmark`). They are printed next to our numbers under separate
names, and never in their place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.data.scores import ScoreKind
from tellapart.metrics.choice import choice_score
from tellapart.metrics.metric import ANY_KIND
from tellapart.metrics.per_item import PerItem
from tellapart.metrics.registry import METRICS
from tellapart.metrics.ties import TieRule, break_ties, tie_neutral_by_enumeration
from tellapart.tasks.declared import facts_of
from tellapart.tasks.task import Unit, Units, value_of

AUTHORS_METRICS = facts_of("authors")["metrics"]


def add_authors_numbers(benchmark: Benchmark, measured: Sequence[Units], kind: ScoreKind | None) -> Sequence[Units]:
    """Add the numbers of the benchmark's authors to measured pairs."""
    if benchmark.task != "pairs":
        return measured
    (of_items,) = measured
    if benchmark.tie_rule != "wrong":
        of_items = count_ties(of_items, benchmark.tie_rule)
    count = AUTHORS.get(benchmark.authors)
    return (of_items, *(count(of_items.units, kind) if count else ()))


def count_ties(measured: Units, rule: TieRule) -> Units:
    """Add to each metric of scores its values as a tie counts by a rule."""
    values = np.array([unit.scores for unit in measured.units], dtype=np.float32)
    if any(unit.true for unit in measured.units) and rule != "right":
        n, size = len(values), values[0].size
        # The place in the file of each entry, the true ones first: a tie is broken in the order of the file.
        places = np.array([[*u.true, *(k for k in range(size) if k not in u.true)] for u in measured.units])
        published = np.empty((n, size), np.float32)
        np.put_along_axis(published, places, values.reshape(n, -1), axis=1)
        broken = break_ties(published.reshape(values.shape), rule).reshape(n, -1)
        values = np.take_along_axis(broken, places, axis=1).reshape(values.shape)
    else:
        values = break_ties(values, rule, len(measured.units[0].true) or 1)
    return replace(measured, values=tuple(_with_official(value, values) for value in measured.values))


def _with_official(one: PerItem, broken: NDArray[np.float32]) -> PerItem:
    metric = METRICS.get(one.name)
    # Deviations, sums and comparisons with 1/2 are of scores as they are.
    if metric is None or one.neutral is None or metric.additive or metric.kinds != ANY_KIND:
        return one
    return replace(one, official=metric.per_item(broken))


def _average_groups(
    units: Sequence[Unit], tag: str, fewest: int = 1, without: Set[str] = frozenset()
) -> tuple[Units, ...]:
    """Average over the values of a tag that have so many items, and are none of some."""
    values = (unit.tags[tag] for unit in units if tag in unit.tags)
    counted = Counter[str | None](value for value in values if value not in without)
    tagged = tuple(unit for unit in units if counted[unit.tags.get(tag)] >= fewest)
    if not tagged:
        return ()
    scores = np.array([one.scores for one in tagged], dtype=np.float32)
    value = value_of(
        "macro_choice_score",
        choice_score(scores),
        neutral=METRICS["choice_score"].tie_neutral(scores),
        groups=[one.tags[tag] for one in tagged],
    )
    return (Units(f"item with {tag} that are averaged", tagged, (value,)),)


def rank_accuracy(scores: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the share of four captions that stand in the right half when all are ranked: float64 `(image,)`.

    Args:
        scores: float32 `(image, 1, 4)`: two true captions, then two false ones. A tie with the other half is wrong.

    >>> rank_accuracy(np.float32([[[4, 3, 2, 1]], [[4, 1, 3, 2]], [[2, 2, 2, 2]]]))
    array([1. , 0.5, 0. ])
    """
    flat = scores[:, 0, :]
    higher = (flat[:, None, :] >= flat[:, :, None]).sum(axis=2) - 1  # others that are not below
    lower = (flat[:, None, :] <= flat[:, :, None]).sum(axis=2) - 1
    return np.asarray(np.concatenate([higher[:, :2] < 2, lower[:, 2:] < 2], axis=1).mean(axis=1))


def _rank_captions(units: Sequence[Unit], _kind: ScoreKind | None) -> tuple[Units, ...]:
    """Rank the four captions of an image that are two items here, as BLA's authors do."""
    groups: dict[str, list[Unit]] = {}
    for unit in units:
        groups.setdefault(unit.id.rpartition("/")[0], []).append(unit)
    pairs = {id_: members for id_, members in groups.items() if len(members) == 2}
    if not pairs:
        return ()
    # (image, pair, caption)
    both = np.array([[one.scores[0] for one in pair] for pair in pairs.values()], dtype=np.float32)
    scores = np.swapaxes(both, 1, 2).reshape(len(pairs), 1, 4)
    neutral = tie_neutral_by_enumeration(rank_accuracy, scores)
    value = value_of("rank_acc", rank_accuracy(scores), neutral=neutral)
    ranked = tuple(
        replace(members[0], id=id_, texts=members[0].texts + members[1].texts, scores=(), true=())
        for id_, members in pairs.items()
    )
    return (Units("image with four captions", ranked, (value,)),)


def _decide_images(units: Sequence[Unit], kind: ScoreKind | None) -> tuple[Units, ...]:
    """Count each sentence with an image once, overall and in each part, as SVO-Probes' authors do."""
    if kind != "probability":
        return ()
    names = ("subject", "verb", "object")
    decided: dict[tuple[bool, str, str], tuple[float, Unit]] = {}
    for one in units:
        parts = {name: one.tags[name] for name in names if one.tags.get(name, "").lower() == "true"}
        if len(parts) != 1:  # its authors leave out rows in which several parts differ, or none
            continue
        sentence = (one.texts or (one.cluster,))[0]
        cluster = " ".join(sentence.lower().split())  # they score it so, and count another case as another sentence
        for place, image in enumerate(one.images or (f"{one.id}/0", f"{one.id}/1")):
            alone = replace(one, id=f"{one.id}/{place}", cluster=cluster, images=(image,), scores=())
            key = (place == 0, sentence, image)
            score, first = decided.get(key, (one.scores[place][0], alone))
            decided[key] = score, replace(first, tags={**first.tags, **parts})  # it counts in each part of its rows
    shows = np.array([key[0] for key in decided], dtype=np.bool_)
    if shows.all() or not shows.any():
        return ()
    scores = np.array([score for score, _ in decided.values()], dtype=np.float32)
    first_units = tuple(unit for _, unit in decided.values())
    right = np.where(shows, scores > 0.5, scores < 0.5).astype(np.float64)
    neutral = np.where(scores == 0.5, 0.5, right)
    sides = ["accepted" if flag else "rejected" for flag in shows.tolist()]
    decision = value_of("decision_acc", right, neutral=neutral, groups=sides)
    measured = [Units("sentence with an image", first_units, (decision,))]
    for metric, mask in (("accepted_images", shows), ("rejected_images", np.logical_not(shows))):
        subset = tuple(first_units[row] for row in np.flatnonzero(mask))
        value = value_of(metric, right[mask], neutral=neutral[mask])
        measured.append(Units(metric.replace("_", " "), subset, (value,)))
    return tuple(measured)


def _judge_texts(units: Sequence[Unit], kind: ScoreKind | None) -> tuple[Units, ...]:
    """Accept and reject each text alone at probability 1/2, as VELOCITI's strict entailment does."""
    if kind != "probability":
        return ()
    scores = np.array([unit.scores[0] for unit in units], dtype=np.float32)  # (item, text), the true one first
    sides = [(scores[:, 0], scores[:, 0] > 0.5), (scores[:, 1], scores[:, 1] < 0.5)]
    right = np.prod([side for _, side in sides], axis=0, dtype=np.float64)
    neutral = np.prod([np.where(values == 0.5, 0.5, side) for values, side in sides], axis=0)
    return (Units("item judged at 1/2", tuple(units), (value_of("strict_accuracy", right, neutral=neutral),)),)


AUTHORS: Mapping[str, Callable[[Sequence[Unit], ScoreKind | None], tuple[Units, ...]]] = MappingProxyType(
    {
        # Without the 157 relations that ARO's notebook leaves out: with their things exchanged they may hold, too.
        "aro-relation": lambda units, _kind: _average_groups(
            units, "relation", without={*Path(__file__).with_name("aro_symmetric.txt").read_text("utf-8").splitlines()}
        ),
        # Without pairs of attributes of fewer than 25 items.
        "aro-attribution": lambda units, _kind: _average_groups(units, "attributes", fewest=25),
        "bla": _rank_captions,
        "svo-probes": _decide_images,
        "velociti": _judge_texts,
    }
)
"""`Benchmark.authors` -> what counts it."""
