"""Laws that every metric obeys, and wrong metrics that each law rejects.

A law is a function of a metric and a batch of scores (item, image, text) that asserts. Each runs on every pattern
of ties exhaustively, and on batches that hypothesis draws; then on deliberately wrong metrics, which must fail.
"""

import dataclasses
from collections.abc import Callable, Iterator
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from tellapart.errors import ScoreError
from tellapart.metrics.metric import PROBABILITY, Metric
from tellapart.metrics.per_item import PerItem
from tellapart.metrics.registry import METRICS

Law = Callable[[Metric, NDArray[Any]], None]
LEVELS = (0.125, 0.25, 0.5, 0.75, 0.875)  # hold every pattern of ties of four scores, and the threshold 1/2

# What a metric becomes when both images and both texts change places: its partner and a sign.
RELABELLED = {
    **{name: (name, 1) for name in ("text_score", "image_score", "group_score", "i2t", "t2i")},
    **{name: (name, 1) for name in ("match_score", "match_score_of_probabilities")},
    **{"ipos_2t": ("ineg_2t", 1), "ineg_2t": ("ipos_2t", 1), "tpos_2i": ("tneg_2i", 1), "tneg_2i": ("tpos_2i", 1)},
    **{name: (name, -1) for name in ("v1", "v2_text", "v2_image")},
}
# What a metric becomes when images and texts change roles.
TRANSPOSED = {
    **{"text_score": ("image_score", 1), "image_score": ("text_score", 1), "i2t": ("t2i", 1), "t2i": ("i2t", 1)},
    **{"ipos_2t": ("tpos_2i", 1), "tpos_2i": ("ipos_2t", 1), "ineg_2t": ("tneg_2i", 1), "tneg_2i": ("ineg_2t", 1)},
    **{"group_score": ("group_score", 1), "choice_score": ("choice_score", 1)},
    **{"v1": ("v1", -1), "v2_text": ("v2_image", 1), "v2_image": ("v2_text", 1)},
    **{name: (name, 1) for name in ("match_score", "match_score_of_probabilities")},
}
# Where caption and foil change roles and every probability p becomes 1 - p.
MIRRORED = {"acc": "acc", "p_c": "p_f", "p_f": "p_c", "min_pc_pf": "min_pc_pf"}
PARTS = {
    "group_score": ("text_score", "image_score"),
    "text_score": ("ipos_2t", "ineg_2t"),
    "image_score": ("tpos_2i", "tneg_2i"),
    "i2t": ("ipos_2t", "ineg_2t"),
    "t2i": ("tpos_2i", "tneg_2i"),
}


def has_chance(metric: Metric) -> bool:
    return metric.chance_level is not None


def uses_threshold(metric: Metric) -> bool:
    return metric.kinds == PROBABILITY and not metric.additive


def adds(metric: Metric) -> bool:
    return metric.additive


def ranks(metric: Metric) -> bool:
    return has_chance(metric) and not uses_threshold(metric) and not metric.additive


def compares_scores(metric: Metric) -> bool:
    return has_chance(metric) and not metric.additive


def items(rows: list[Any], shape: tuple[int, int]) -> NDArray[np.float32]:
    return np.array(rows, dtype=np.float32).reshape(-1, *shape)


def orders_of(item: NDArray[Any]) -> Iterator[list[int]]:
    """All strict orders that break the ties of one item, each as often as any other."""
    entries = list(enumerate(item.ravel().tolist()))
    for preference in permutations(range(len(entries))):
        rank = {e: k for k, (e, _) in enumerate(sorted(entries, key=lambda x: (x[1], preference[x[0]])))}
        yield [rank[e] for e in range(len(entries))]


def sides_of(item: NDArray[Any]) -> Iterator[list[float]]:
    """All ways of moving the scores that lie at 1/2 to one side of it."""
    yield from product(*([0.4375, 0.5625] if p == 0.5 else [p] for p in item.ravel().tolist()))


def broken(metric: Metric, item: NDArray[Any]) -> NDArray[np.float64]:
    """The strict values of one item under every way of breaking its ties."""
    ways = sides_of(item) if uses_threshold(metric) else orders_of(item)
    return metric.per_item(items(list(ways), item.shape))


def chance_is_the_mean_over_all_orders(metric: Metric, scores: NDArray[Any]) -> None:
    shape = scores.shape[1:]
    entries = shape[0] * shape[1]
    levels = [2**k for k in range(entries)] if metric.additive else range(entries)  # no two sums of powers are equal
    every = product((0.25, 0.75), repeat=entries) if uses_threshold(metric) else permutations(levels)
    means = metric.per_item(items(list(every), shape)).mean(axis=0)
    np.testing.assert_allclose(means.min(), metric.chance(shape), rtol=1e-15)


def a_constant_model_is_never_right_and_tie_neutral_at_chance(metric: Metric, scores: NDArray[Any]) -> None:
    level = 0.5 if uses_threshold(metric) else scores.flat[0]
    constant = np.full_like(scores, level)
    assert not metric.per_item(constant).any()
    assert (metric.tie_neutral(constant) == metric.chance(scores.shape[1:])).all()
    assert metric.measure(constant).ties.all()


def relabelling_changes_nothing(metric: Metric, scores: NDArray[Any]) -> None:
    if metric.name in RELABELLED:
        partner, sign = RELABELLED[metric.name]
        changed = scores[:, ::-1, ::-1]
    elif metric.name in MIRRORED:
        partner, sign = MIRRORED[metric.name], 1
        changed = 1 - scores[:, :, ::-1]
    else:
        partner, sign = metric.name, 1
        flat = scores.reshape(len(scores), -1)
        changed = np.concatenate([flat[:, :1], np.roll(flat[:, 1:], 1, axis=1)], axis=1).reshape(scores.shape)
    expected = sign * (metric if partner == metric.name else METRICS[partner]).per_item(changed)
    if metric.name == "min_pc_pf":
        expected = expected[:, ::-1]
    np.testing.assert_array_equal(metric.per_item(scores), expected)


def transposing_swaps_images_and_texts(metric: Metric, scores: NDArray[Any]) -> None:
    partner, sign = TRANSPOSED[metric.name]
    np.testing.assert_array_equal(metric.per_item(scores), sign * METRICS[partner].per_item(scores.transpose(0, 2, 1)))


def only_the_order_inside_an_item_counts(metric: Metric, scores: NDArray[Any]) -> None:
    _, rank = np.unique(scores, return_inverse=True)
    position = np.arange(len(scores)).reshape(-1, 1, 1)
    moved = rank.reshape(scores.shape) * (position + 1) - 3 * position  # increasing, another map for each item
    np.testing.assert_array_equal(metric.per_item(scores), metric.per_item(moved))
    np.testing.assert_array_equal(metric.tie_neutral(scores), metric.tie_neutral(moved))


def an_oracle_gets_all_and_its_opposite_nothing(metric: Metric, scores: NDArray[Any]) -> None:
    truth = np.zeros_like(scores)
    truth[:, range(min(scores.shape[1:])), range(min(scores.shape[1:]))] = 1
    best, worst = metric.bounds if has_chance(metric) else (0, 0)  # an oracle is perfectly equivariant
    for value in (metric.per_item, metric.tie_neutral):
        assert (value(truth) == worst).all()
        assert (value(1 - truth) == best).all()
    assert not metric.measure(truth).ties.any()


def scores_that_are_not_finite_raise(metric: Metric, scores: NDArray[Any]) -> None:
    some = scores[:3]
    for place in np.ndindex(some.shape):
        for bad in (np.nan, np.inf, -np.inf):
            poisoned = some.copy()
            poisoned[place] = bad
            for value in (metric.per_item, metric.tie_neutral, metric.measure):
                try:
                    value(poisoned)
                except ScoreError as error:
                    assert f"items: {place[0]};" in str(error)
                else:
                    raise AssertionError(f"{bad} at {place} was measured")


def a_conjunction_is_right_where_all_its_parts_are(metric: Metric, scores: NDArray[Any]) -> None:
    parts = [METRICS[part].per_item(scores) for part in PARTS[metric.name]]
    assert (metric.per_item(scores) <= np.minimum(*parts)).all()
    np.testing.assert_array_equal(metric.per_item(scores), parts[0] * parts[1])


def an_item_does_not_depend_on_its_batch(metric: Metric, scores: NDArray[Any]) -> None:
    for value in (metric.per_item, metric.tie_neutral):
        together = value(scores)
        np.testing.assert_array_equal(together, np.concatenate([value(item[None]) for item in scores]))
        np.testing.assert_array_equal(together[::-1], value(scores[::-1]))


def the_tie_neutral_value_is_the_mean_over_broken_ties(metric: Metric, scores: NDArray[Any]) -> None:
    strict, neutral = metric.per_item(scores), metric.tie_neutral(scores)
    assert (strict <= neutral).all()
    expected = np.stack([broken(metric, item).mean(axis=0) for item in scores])
    np.testing.assert_allclose(neutral, expected, rtol=1e-15)


def ties_are_where_breaking_them_changes_the_value(metric: Metric, scores: NDArray[Any]) -> None:
    strict = metric.per_item(scores)
    matters = [bool((broken(metric, item) != own).any()) for item, own in zip(scores, strict, strict=True)]
    assert metric.measure(scores).ties.tolist() == matters


def scores_are_compared_in_float32(metric: Metric, scores: NDArray[Any]) -> None:
    narrow = scores.astype(np.float32)
    for wide in (np.nextafter(narrow.astype(np.float64), 9), np.nextafter(narrow.astype(np.float64), -9)):
        mixed = np.where(np.arange(scores.shape[2]) == 0, wide, narrow.astype(np.float64))
        np.testing.assert_array_equal(metric.per_item(narrow), metric.per_item(mixed))
        np.testing.assert_array_equal(metric.tie_neutral(narrow), metric.tie_neutral(mixed))


def values_are_as_declared(metric: Metric, scores: NDArray[Any]) -> None:
    before = scores.copy()
    components = (len(metric.components),) if metric.components else ()
    for value in (metric.per_item(scores), metric.tie_neutral(scores)):
        assert value.dtype == np.float64
        assert value.shape == (len(scores), *components)
        assert ((value >= metric.bounds[0]) & (value <= metric.bounds[1])).all()
    assert metric.measure(scores).ties.shape == (len(scores),)
    assert not metric.binary or set(metric.per_item(scores)) <= {0.0, 1.0}
    np.testing.assert_array_equal(scores, before)


def a_constant_on_a_picture_or_a_caption_changes_nothing(metric: Metric, scores: NDArray[Any]) -> None:
    _, rank = np.unique(scores, return_inverse=True)
    whole = rank.reshape(scores.shape).astype(np.float32)  # sums of small integers are exact
    _, pictures, captions = whole.shape
    moved = whole + 5 * np.arange(pictures)[:, None] - 7 * np.arange(captions)
    for value in (metric.per_item, metric.tie_neutral):
        np.testing.assert_array_equal(value(whole), value(moved))


def everywhere(metric: Metric) -> bool:
    return True


LAWS: dict[Law, Callable[[Metric], bool]] = {
    chance_is_the_mean_over_all_orders: has_chance,
    a_constant_model_is_never_right_and_tie_neutral_at_chance: has_chance,
    relabelling_changes_nothing: everywhere,
    transposing_swaps_images_and_texts: lambda metric: metric.name in TRANSPOSED,
    only_the_order_inside_an_item_counts: ranks,
    an_oracle_gets_all_and_its_opposite_nothing: everywhere,
    scores_that_are_not_finite_raise: everywhere,
    a_conjunction_is_right_where_all_its_parts_are: lambda metric: metric.name in PARTS,
    an_item_does_not_depend_on_its_batch: everywhere,
    the_tie_neutral_value_is_the_mean_over_broken_ties: compares_scores,
    ties_are_where_breaking_them_changes_the_value: compares_scores,
    a_constant_on_a_picture_or_a_caption_changes_nothing: adds,
    scores_are_compared_in_float32: everywhere,
    values_are_as_declared: everywhere,
}


def shapes_of(metric: Metric) -> list[tuple[int, int]]:
    return [shape for shape in ((2, 2), (1, 2), (1, 3), (1, 5), (2, 1), (4, 1)) if metric.defined_for(shape)]


CASES = [(metric, shape) for metric in METRICS.values() for shape in shapes_of(metric)]


def case_name(value: object) -> str | None:
    if isinstance(value, Metric):
        return value.name
    if isinstance(value, tuple):
        return f"{value[0]}x{value[1]}"
    return getattr(value, "__name__", None)


def every_pattern(shape: tuple[int, int]) -> NDArray[np.float32]:
    entries = shape[0] * shape[1]
    return items(list(product(LEVELS[: 3 if entries > 4 else 5], repeat=entries)), shape)


@pytest.mark.parametrize(
    ("metric", "shape", "law"),
    [(metric, shape, law) for metric, shape in CASES for law, applies in LAWS.items() if applies(metric)],
    ids=case_name,
)
def test_every_metric_obeys_every_law_on_every_pattern_of_ties(metric, shape, law):
    law(metric, every_pattern(shape))


@pytest.mark.slow
@pytest.mark.parametrize(("metric", "shape"), CASES, ids=case_name)
@settings(max_examples=30)
@given(data=st.data())
def test_every_metric_obeys_every_law_on_drawn_scores(metric, shape, data):
    few = st.integers(0, 16).map(lambda k: k / 16)  # ties are common, and 1 - p is exact
    wide = st.floats(width=32, allow_nan=False, allow_infinity=False)
    elements = few if uses_threshold(metric) else data.draw(st.sampled_from([few, wide]))
    scores = data.draw(arrays(np.float32, (data.draw(st.integers(1, 5)), *shape), elements=elements))
    for law, applies in LAWS.items():
        if applies(metric):
            law(metric, scores)


def wrong(name: str, **changes) -> Metric:
    return dataclasses.replace(METRICS[name], **changes)


def of(compare: Callable[[NDArray[np.float32]], NDArray[Any]]) -> Callable[[Any], NDArray[np.float64]]:
    """A wrong per-item function; it refuses what is not finite, so that only its own mistake can fail a law."""

    def strict(scores) -> NDArray[np.float64]:
        METRICS["choice_score" if 1 in np.shape(scores)[1:] else "group_score"].per_item(scores)
        return compare(np.asarray(scores, dtype=np.float32)).astype(np.float64)

    return strict


class AnyEqualScores(Metric):
    """Counts every equal pair of scores of an item as a tie, also one that no comparison sees."""

    def measure(self, scores, true: int = 1) -> PerItem:
        equal = np.array([len(set(item.ravel().tolist())) < item.size for item in np.asarray(scores)])
        return dataclasses.replace(Metric.measure(self, scores, true), touched=equal)


def sorts_in_place(scores) -> NDArray[np.float64]:
    value = METRICS["choice_score"].per_item(scores)
    scores[:, 0].sort(axis=-1)
    return value


def chosen_before_rounding(scores) -> NDArray[np.float64]:
    METRICS["choice_score"].per_item(scores)
    return (scores[:, 0, 0] > scores[:, 0, 1:].max(axis=1)).astype(np.float64)


def first(s: NDArray[Any]) -> NDArray[np.bool_]:
    return s[:, 0, 0] > s[:, 0, 1]


def second(s: NDArray[Any]) -> NDArray[np.bool_]:
    return s[:, 1, 1] > s[:, 1, 0]


def gap(s: NDArray[Any]) -> NDArray[Any]:
    return s[:, 0, 0] - s[:, 0, 1]


CONSTANT = a_constant_model_is_never_right_and_tie_neutral_at_chance
CONJUNCTION = a_conjunction_is_right_where_all_its_parts_are
BROKEN = the_tie_neutral_value_is_the_mean_over_broken_ties
IMAGE, CHOICE, ACCEPTED, LEAST = (METRICS[name] for name in ("image_score", "choice_score", "p_c", "min_pc_pf"))
FIELDS = {field.name: getattr(IMAGE, field.name) for field in dataclasses.fields(Metric)}
WRONG: list[tuple[str, Metric, Law]] = [
    ("a tie is right", wrong("pairwise", strict=of(lambda s: gap(s) >= 0)), CONSTANT),
    ("argmax, truth first", wrong("choice_score", strict=of(lambda s: s[:, 0].argmax(axis=1) == 0)), CONSTANT),
    ("a foil at 1/2 is rejected", wrong("p_f", strict=of(lambda s: s[:, 0, 1] <= 0.5)), CONSTANT),
    ("ties broken one by one", wrong("group_score", neutral=of(lambda s: (gap(s) == 0) / 16)), CONSTANT),
    ("images for texts", wrong("text_score", strict=IMAGE.strict), transposing_swaps_images_and_texts),
    ("one direction", wrong("text_score", strict=of(first)), relabelling_changes_nothing),
    ("a distractor forgotten", wrong("choice_score", strict=of(first)), relabelling_changes_nothing),
    ("no sign", wrong("v1", strict=of(lambda s: abs(s[:, 0, 1] - s[:, 1, 0]))), relabelling_changes_nothing),
    ("a margin", wrong("pairwise", strict=of(lambda s: gap(s) > 0.2)), only_the_order_inside_an_item_counts),
    ("or for and", wrong("text_score", strict=of(lambda s: first(s) | second(s))), CONJUNCTION),
    ("the foil wins", wrong("pairwise", strict=of(lambda s: gap(s) < 0)), an_oracle_gets_all_and_its_opposite_nothing),
    ("NaN is wrong", wrong("p_c", strict=lambda s: 1.0 * (s[:, 0, 0] > 0.5)), scores_that_are_not_finite_raise),
    ("pooled", wrong("pairwise", strict=of(lambda s: gap(s) > gap(s).mean())), an_item_does_not_depend_on_its_batch),
    ("sorted items", wrong("pairwise", strict=of(lambda s: np.sort(first(s)))), an_item_does_not_depend_on_its_batch),
    ("another chance", wrong("group_score", chance_level=1 / 8), chance_is_the_mean_over_all_orders),
    (
        "the minimum within items",
        wrong("min_pc_pf", strict=lambda s: LEAST.strict(s).min(axis=1), components=()),
        chance_is_the_mean_over_all_orders,
    ),
    (
        "a half for any tie",
        wrong("choice_score", neutral=of(lambda s: (s[:, 0].argmax(axis=1) == 0) / (1 + CHOICE.measure(s).ties))),
        BROKEN,
    ),
    ("ties not broken", wrong("p_c", neutral=ACCEPTED.strict), BROKEN),
    ("any equal scores", AnyEqualScores(**FIELDS), ties_are_where_breaking_them_changes_the_value),
    ("float64", wrong("choice_score", strict=chosen_before_rounding), scores_are_compared_in_float32),
    ("percent", wrong("pairwise", strict=of(lambda s: 100 * first(s))), values_are_as_declared),
    (
        "the priors count",
        wrong("match_score", strict=METRICS["group_score"].strict, neutral=None),
        a_constant_on_a_picture_or_a_caption_changes_nothing,
    ),
    ("half right", wrong("text_score", strict=of(lambda s: (first(s) * 1 + second(s)) / 2)), values_are_as_declared),
    ("it changes its input", wrong("choice_score", strict=sorts_in_place), values_are_as_declared),
]


@pytest.mark.parametrize(
    ("mistake", "metric", "law"),
    [pytest.param(*one, id=one[0], marks=[pytest.mark.slow] if one[0] == "any equal scores" else []) for one in WRONG],
)
def test_a_wrong_metric_is_rejected_by_its_law(mistake, metric, law):
    shape = (1, 3) if metric.name == "choice_score" else shapes_of(metric)[0]
    assert LAWS[law](METRICS[metric.name])
    law(METRICS[metric.name], every_pattern(shape))
    with pytest.raises(AssertionError):
        law(metric, every_pattern(shape))


def test_every_law_rejects_some_wrong_metric():
    assert {law for _, _, law in WRONG} == set(LAWS)
