"""Metrics of pairs: published scores, the authors' rules, ties broken in every way, matches, and deviations."""

import json
from itertools import permutations, product
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import logit

from published import winoground
from tellapart.metrics.choice import choice_score
from tellapart.metrics.equivariance import histogram, summary
from tellapart.metrics.matching import (
    Reason,
    best_assignments,
    contrasts,
    match_bounds,
    match_score,
    reasons,
    share_of_squares,
    sums_of_squares,
)
from tellapart.metrics.metric import Metric
from tellapart.metrics.pairs import group_score, image_score, text_score
from tellapart.metrics.per_item import mean
from tellapart.metrics.registry import METRICS, defined_for
from tellapart.metrics.ties import TieRule, break_ties, tie_neutral_by_enumeration, tied_comparisons

NAMES = ("text_score", "image_score", "group_score")
PUBLISHED = {  # per cent: text, image, group; the strict rule of the Winoground paper
    "clip_b32": (30.75, 10.25, 8.25),
    "clip_l14": (28.5, 11.0, 8.0),
    "blip_itm_b16": (40.5, 20.5, 16.5),
    "blip_itc_b16": (29.75, 14.5, 9.5),
    "vilt": (27.5, 8.75, 6.0),
    "flava_itm": (32.25, 20.5, 14.25),
    "flava_itc": (25.25, 13.5, 9.0),
    "ofa_medium": (22.75, 9.0, 5.5),
    "human": (89.5, 88.5, 85.5),
}


def scores_of(model: str) -> np.ndarray:
    scores = np.full((400, 2, 2), np.nan)
    for line in winoground(model).read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        item, text, image = record["label"].split("_")
        scores[int(item), int(image[1]), int(text[1])] = record["score"]
    return scores


@pytest.mark.parametrize("model", PUBLISHED)
def test_the_strict_scores_are_the_published_ones(model):
    scores = scores_of(model)
    assert tuple(METRICS[name].per_item(scores).sum() / 4 for name in NAMES) == PUBLISHED[model]


@pytest.mark.parametrize(
    ("model", "comparisons", "items"), [("human", 35, 28), ("ofa_medium", 11, 7), ("flava_itm", 1, 1), ("vilt", 0, 0)]
)
def test_ties_are_counted_by_comparison_and_by_item(model, comparisons, items):
    tied = tied_comparisons(scores_of(model))
    assert (tied.sum(), (tied > 0).sum()) == (comparisons, items)


def test_ties_of_people_count_as_their_mask_says_and_broken_at_random_lie_between():
    scores = scores_of("human")
    lenient = [float(mean(METRICS[name].per_item(scores) + METRICS[name].measure(scores).ties)) * 100 for name in NAMES]
    assert lenient == [93.0, 91.75, 88.25]
    neutral = [METRICS[name].tie_neutral(scores) for name in NAMES]
    assert [float(mean(values)) * 100 for values in neutral] == pytest.approx([91.0, 90.0625, 86.75], abs=1e-9)
    # The two comparisons of a text score share no entry, so random breaks of both are independent.
    won = [np.sign(scores[:, i, i] - scores[:, i, 1 - i]) / 2 + 0.5 for i in (0, 1)]
    np.testing.assert_array_equal(neutral[0], won[0] * won[1])


acc, p_c, p_f, min_pc_pf, pairwise = (METRICS[name].per_item for name in ("acc", "p_c", "p_f", "min_pc_pf", "pairwise"))
LOGITS = arrays(np.float64, (20, 2, 2), elements=st.integers(-3, 3).map(float))  # (item, caption/foil, no-fit/fit)


@given(LOGITS)
def test_valse_metrics_are_those_of_the_official_script_where_the_foil_is_not_tied(logits):
    logits = logits[logits[:, 1, 0] != logits[:, 1, 1]]  # the script leaves these items out
    if len(logits) == 0:
        return
    fit = 1 / (1 + np.exp(logits[:, :, 0] - logits[:, :, 1]))
    scores = fit[:, None, :]
    caption = foil = 0
    for (no, yes), (foil_no, foil_yes) in logits.tolist():
        caption += no < yes
        foil += foil_no >= foil_yes
    assert (p_c(scores).sum(), p_f(scores).sum()) == (caption, foil)
    assert acc(scores).sum() * 2 == caption + foil
    assert min_pc_pf(scores).mean(axis=0).min() == min(caption, foil) / len(logits)
    raw = logits[:, None, :, 1]
    assert pairwise(raw).sum() == (logits[:, 0, 1] > logits[:, 1, 1]).sum()


def rows_right(item: NDArray[np.float32], order: tuple[tuple[int, ...], ...]) -> list[bool]:
    """Whether each image's own text is above all others, ties of its row broken by an order of its texts."""
    ranked = [[(score, rank[k]) for k, score in enumerate(row)] for row, rank in zip(item.tolist(), order, strict=True)]
    return [max(row) == row[k] for k, row in enumerate(ranked)]


@pytest.mark.parametrize(("name", "value"), [("individual_score", np.mean), ("set_score", all)])
def test_squares_are_the_mean_over_all_orders_of_tied_scores(name, value):
    metric = METRICS[name]
    items = np.random.default_rng(0).integers(0, 3, (12, 3, 3)).astype(np.float32)
    orders = list(product(permutations(range(3)), repeat=3))
    for item, strict, neutral in zip(items, metric.per_item(items), metric.tie_neutral(items), strict=True):
        outcomes = [float(value(rows_right(item, order))) for order in orders]
        assert neutral == pytest.approx(np.mean(outcomes), abs=1e-12)
        top = [row[k] > max(np.delete(row, k)) for k, row in enumerate(item)]
        assert strict == float(value(top))


@pytest.mark.parametrize(
    ("name", "strict", "neutral"),
    [
        ("individual_score", [1, 0.75, 0.75, 0, 0], [1, 0.875, 0.875, 0, 1 / 4]),
        ("pair_score", [1, 0.5, 0.5, 0, 0], [1, 0.75, 0.75, 0, 1 / 16]),
        ("set_score", [1, 0, 0, 0, 0], [1, 0.5, 0.5, 0, 1 / 256]),
    ],
)
def test_pairs_are_of_the_first_two_images_and_of_the_last_two(name, strict, neutral):
    metric, right = METRICS[name], np.eye(4, dtype=np.float32)
    wrong_0, wrong_3 = right.copy(), right.copy()
    wrong_0[0, 1] = wrong_3[3, 0] = 1  # a tie is never right
    scores = np.stack([right, wrong_0, wrong_3, 1 - right, np.ones((4, 4))])
    assert (metric.per_item(scores).tolist(), metric.tie_neutral(scores).tolist()) == (strict, neutral)
    assert metric.chance((4, 4)) == neutral[-1]  # of a constant model


def broken(item: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    orders = [np.array(order) for order in permutations(range(item.size))]
    return [np.lexsort((order, item.ravel())).argsort().astype(np.float32).reshape(item.shape) for order in orders]


@pytest.mark.parametrize("texts", [3, 4])
def test_every_true_text_must_beat_the_false_one(texts):
    metric: Metric = METRICS["itt"]
    itt = metric.per_item
    every = np.array(list(product((0, 1, 2), repeat=texts)), np.float32).reshape(-1, 1, texts)
    assert itt(every).tolist() == [float(item[0, :-1].min() > item[0, -1]) for item in every]
    for item, neutral in zip(every, metric.tie_neutral(every), strict=True):
        assert neutral == pytest.approx(itt(np.stack(broken(item))).mean(), abs=1e-12)
    orders = np.array(list(permutations(range(texts))), np.float32).reshape(-1, 1, texts)
    assert itt(orders).mean() == pytest.approx(metric.chance((1, texts), texts - 1), abs=1e-15)


def test_true_texts_have_metrics_of_their_number_and_are_compared_with_false_ones_alone():
    assert [one.name for one in defined_for((1, 3), true=2)] == ["itt"]
    assert "itt" not in {one.name for one in defined_for((1, 3))} | {one.name for one in defined_for((1, 2))}
    assert defined_for((1, 4), true=2) == ()
    scores = [[[1, 1, 0]], [[1, 0, 0]], [[1, 1, 1]]]
    assert tied_comparisons(scores, true=2).tolist() == [0, 1, 2]
    assert tied_comparisons(scores).tolist() == [1, 0, 2]
    assert tied_comparisons([[[1, 2, 2, 1]]], true=2).tolist() == [2]  # each with each of the false ones
    assert tied_comparisons([[[1, 1, 1, 0]], [[1, 2, 2, 2]]]).tolist() == [2, 0]
    assert tied_comparisons(np.zeros((1, 5, 1))).tolist() == [4]
    assert tied_comparisons([[[0.9, 0.1], [0.8, 0.8]]]).tolist() == [1]


def test_many_ties_are_enumerated_in_blocks_and_a_broken_tie_stays_within_its_item():
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 3, (3000, 1, 5)).astype(np.float32)  # 120 orders each: more than one block
    np.testing.assert_array_equal(
        tie_neutral_by_enumeration(choice_score, scores), METRICS["choice_score"].tie_neutral(scores)
    )
    distinct = np.arange(7, dtype=np.float32)[::-1].reshape(1, 1, 7)
    assert tie_neutral_by_enumeration(choice_score, distinct)[0] == 1
    assert METRICS["choice_score"].tie_neutral(np.zeros((1, 1, 100)))[0] == 1 / 100
    assert tie_neutral_by_enumeration(choice_score, np.zeros((1, 1, 6)))[0] == pytest.approx(1 / 6)
    scores = [[[0.5, 0.5]], [[0.2, 0.5]], [[0.9, 0.1]]]
    assert break_ties(scores, "right").tolist() == [[[1, 0]], [[1, 3]], [[4, 0]]]
    assert break_ties(scores, "last").tolist() == [[[0, 1]], [[0, 4]], [[3, 1]]]
    assert break_ties(scores, "first").tolist() == [[[0, -1]], [[0, 2]], [[3, -1]]]
    assert break_ties(np.full((1, 2, 2), 0.5), "right").tolist() == [[[1, 0], [0, 1]]]
    assert get_args(TieRule) == ("wrong", "right", "first", "last")
    broken = break_ties(np.full((1, 1, 3), 0.5), "right", true=2)
    assert broken[0, 0, 0] == broken[0, 0, 1] > broken[0, 0, 2]


MATCH = METRICS["match_score"]


def drawn(shape: tuple[int, int]) -> st.SearchStrategy[NDArray[np.float32]]:
    few = st.integers(-8, 8).map(lambda k: k / 8)  # ties are common, and sums are exact
    return arrays(np.float32, (8, *shape), elements=few)


@given(drawn((2, 2)))
def test_the_contrasts_decide_the_scores_exactly_and_outcomes_alone_bound_the_match(scores):
    match, caption, picture = contrasts(scores).T
    np.testing.assert_array_equal(text_score(scores), match > abs(caption))
    np.testing.assert_array_equal(image_score(scores), match > abs(picture))
    np.testing.assert_array_equal(group_score(scores), match > np.maximum(abs(caption), abs(picture)))
    np.testing.assert_array_equal(match_score(scores), match > 0)
    (a, b), (c, d) = scores[:, 0].T, scores[:, 1].T
    sure, may = match_bounds(np.stack([a > b, d > c, a > c, d > b], axis=1)).T
    match = match_score(scores) == 1
    assert not (sure & ~match).any()
    assert not (match & ~may).any()


@given(st.sampled_from([2, 3, 4, 5]).flatmap(lambda k: drawn((k, k))))
def test_the_match_is_the_single_best_assignment_of_scipy(scores):
    size = scores.shape[1]
    for item, right, neutral in zip(scores, match_score(scores), MATCH.tie_neutral(scores), strict=True):
        rows, columns = linear_sum_assignment(item, maximize=True)
        best = item[rows, columns].sum(dtype=np.float64)
        sums = [sum(float(item[k, order[k]]) for k in range(size)) for order in permutations(range(size))]
        true = float(np.trace(item.astype(np.float64)))
        winners = sum(each == best for each in sums)
        assert right == (true == best and winners == 1)
        assert neutral == (1 / winners if true == best else 0)


@given(drawn((2, 2)))
def test_the_reasons_are_of_the_contrasts(scores):
    for (match, caption, picture), reason in zip(contrasts(scores), reasons(scores), strict=True):
        lost = [Reason.RIGHT, Reason.CAPTION, Reason.PICTURE, Reason.BOTH]
        expected = lost[(abs(caption) >= match) + 2 * (abs(picture) >= match)]
        assert reason is (expected if match > 0 else Reason.NO_MATCH)


@given(st.sampled_from([2, 3, 4]).flatmap(lambda k: drawn((k, k))))
def test_an_item_right_on_a_side_matches_and_the_squares_add_up_and_are_orthogonal(scores):
    for reason, match in zip(reasons(scores), match_score(scores), strict=True):
        assert (reason is not Reason.NO_MATCH) == bool(match)
    wide = scores.astype(np.float64)
    centred = wide - wide.mean(axis=(1, 2), keepdims=True)
    np.testing.assert_allclose(sums_of_squares(scores).sum(axis=1), (centred**2).sum(axis=(1, 2)), atol=1e-12)
    moved = wide + np.arange(scores.shape[1])[:, None] * 3  # pictures alone
    np.testing.assert_allclose(sums_of_squares(moved)[:, :2], sums_of_squares(scores)[:, :2], atol=1e-9)
    if scores.shape[1] == 2:
        np.testing.assert_allclose(sums_of_squares(scores), contrasts(scores) ** 2 / 4, atol=1e-12)


def test_the_shares_are_those_of_the_mean_squares_of_the_last_axis():
    np.testing.assert_allclose([share_of_squares([1, 2, 5], part) for part in range(3)], [1 / 8, 2 / 8, 5 / 8])
    np.testing.assert_allclose(share_of_squares([[1.0, 2.0, 5.0], [6.0, 3.0, 1.0]], 1), [0.25, 0.3])
    assert np.isnan(share_of_squares([0, 0, 0], 0))


def test_the_best_assignment_and_its_lead_are_those_of_all_assignments():
    scores = np.random.default_rng(0).normal(size=(20, 3, 3)).astype(np.float32)
    best, lead = best_assignments(scores)
    for item, order, margin in zip(scores.astype(np.float64), best, lead, strict=True):
        assert order.tolist() == linear_sum_assignment(item, maximize=True)[1].tolist()
        sums = sorted(sum(item[k, text] for k, text in enumerate(texts)) for texts in permutations(range(3)))
        np.testing.assert_allclose(margin, sums[-1] - sums[-2], atol=1e-12)


def test_records_and_people_get_these_words():
    assert {str(reason): reason.label for reason in Reason} == {
        "right": "right",
        "caption_prior": "lost to the caption's prior",
        "picture_prior": "lost to the picture's prior",
        "both_priors": "lost to both priors",
        "no_match": "no match",
    }


def test_a_probability_is_taken_as_its_logit_and_as_it_is():
    item = np.array([[[0.99, 0.9], [0.5, 0.45]]], np.float32)  # 1.44 < 1.40 is false; as logits 4.595 - 0.2 > 2.197
    assert METRICS["match_score_of_probabilities"].per_item(item) == 1
    scaled = MATCH.check(item, "probability")
    np.testing.assert_allclose(scaled, logit(item.astype(np.float64)), rtol=1e-6)
    assert MATCH.per_item(scaled) == (logit(0.99) + logit(0.45) > logit(0.9) + logit(0.5))
    other = np.array([[[0.999, 0.9], [0.6, 0.5]]], np.float32)  # 1.499 < 1.5; as logits 6.9 > 2.6
    assert METRICS["match_score_of_probabilities"].per_item(other) == 0
    assert MATCH.per_item(MATCH.check(other, "probability")) == 1
    np.testing.assert_array_equal(MATCH.check(item, "logit"), item)
    sure = MATCH.check([[[1.0, 0.0], [0.0, 1.0]]], "probability")
    assert np.isfinite(sure).all()
    assert MATCH.per_item(sure) == 1


def test_one_right_of_each_side_may_match_and_need_not():
    # Sides, and not places, are what a match follows from: image 0 and text 0 are right here, image 1 and text 1 wrong.
    assert match_bounds([[1, 0, 1, 0]]).tolist() == [[False, True]]
    assert match_score([[[3, 2], [2, 1.5]], [[3, 2], [2, 0]]]).tolist() == [1, 0]


v1, v2_text, v2_image = (METRICS[name].per_item for name in ("v1", "v2_text", "v2_image"))
FINITE = st.floats(-1e6, 1e6, width=32)
DEVIATIONS = arrays(np.float64, st.integers(1, 40), elements=FINITE)
EIGHTHS = st.integers(-800, 800).map(lambda k: k / 8)  # differences of these are exact
QUADRUPLES = arrays(np.float32, (5, 2, 2), elements=EIGHTHS)


@given(QUADRUPLES)
def test_the_deviations_are_the_papers_over_entries_image_by_text(scores):
    (s11, s12), (s21, s22) = scores.transpose(1, 2, 0)
    np.testing.assert_array_equal(v1(scores), s12 - s21)
    np.testing.assert_array_equal(v2_text(scores), (s11 - s12) - (s22 - s21))
    np.testing.assert_array_equal(v2_image(scores), (s11 - s21) - (s22 - s12))


@given(DEVIATIONS, st.randoms(use_true_random=False))
def test_the_summary_is_numpys_and_does_not_depend_on_order(values, random):
    got = summary(values)
    assert (got.n, got.mean) == (len(values), pytest.approx(values.mean(), abs=1e-6))
    assert got.mean_absolute == pytest.approx(np.abs(values).mean(), abs=1e-6)
    assert (got.sd is None) == (len(values) == 1)
    if got.sd is not None:
        assert got.sd == pytest.approx(values.std(ddof=1), abs=1e-6)
    shuffled = values.tolist()
    random.shuffle(shuffled)
    assert summary(shuffled) == got


@given(DEVIATIONS, st.sampled_from([1, 3, 41]), st.one_of(st.none(), st.floats(1e-3, 1e6)))
def test_every_item_is_in_one_bin_or_below_or_above(values, bins, limit):
    h = histogram(values, bins, limit)
    assert (len(h.counts), len(h.edges)) == (bins, bins + 1)
    assert h.below + h.counts.sum() + h.above == len(values)
    if limit is None:
        assert (h.below, h.above) == (0, 0)
    inside = h.counts.sum() / len(values)
    assert (h.density * np.diff(h.edges)).sum() == pytest.approx(inside)


def test_the_bins_are_equal_their_edges_the_farther_ones_and_they_hold_what_numpys_hold():
    assert histogram([-3.0, -1.0, 0.0, 1.0, 3.0], bins=3, limit=3.0).counts.tolist() == [2, 1, 2]
    zeros = histogram(np.zeros(4), bins=3)
    assert (zeros.counts.tolist(), zeros.edges[-1]) == ([0, 4, 0], 1)
    for limit in (1e-300, 1 / 1e-300):  # the least and the greatest
        assert histogram([0.0, limit], bins=3, limit=limit).counts.tolist() == [0, 1, 1]
    values = np.random.default_rng(0).normal(scale=3, size=500)
    for bins in (1, 5, 41):
        h = histogram(values, bins, limit=5.0)
        np.testing.assert_allclose(h.edges, np.linspace(-5, 5, bins + 1), atol=1e-12)
        np.testing.assert_array_equal(h.counts, np.histogram(values, np.linspace(-5, 5, bins + 1))[0])
        assert (h.below, h.above) == ((values < -5).sum(), (values > 5).sum())
