"""The match score, the contrasts of an item, and the reasons why it is right or wrong."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import logit

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
from tellapart.metrics.pairs import group_score, image_score, text_score
from tellapart.metrics.registry import METRICS

MATCH = METRICS["match_score"]


def drawn(shape: tuple[int, int]) -> st.SearchStrategy[NDArray[np.float32]]:
    few = st.integers(-8, 8).map(lambda k: k / 8)  # ties are common, and sums are exact
    return arrays(np.float32, (8, *shape), elements=few)


@given(drawn((2, 2)))
def test_the_contrasts_decide_text_image_group_and_match_exactly(scores):
    match, caption, picture = contrasts(scores).T
    np.testing.assert_array_equal(text_score(scores), match > abs(caption))
    np.testing.assert_array_equal(image_score(scores), match > abs(picture))
    np.testing.assert_array_equal(group_score(scores), match > np.maximum(abs(caption), abs(picture)))
    np.testing.assert_array_equal(match_score(scores), match > 0)


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
        if match <= 0:
            assert reason is Reason.NO_MATCH
        else:
            by_prior = {
                (False, False): Reason.RIGHT,
                (True, False): Reason.CAPTION,
                (False, True): Reason.PICTURE,
                (True, True): Reason.BOTH,
            }
            assert reason is by_prior[bool(abs(caption) >= match), bool(abs(picture) >= match)]


@given(st.sampled_from([2, 3, 4]).flatmap(lambda k: drawn((k, k))))
def test_an_item_that_is_right_on_a_side_matches(scores):
    for reason, match in zip(reasons(scores), match_score(scores), strict=True):
        assert (reason is not Reason.NO_MATCH) == bool(match)


@given(st.sampled_from([2, 3, 4]).flatmap(lambda k: drawn((k, k))))
def test_the_squares_add_up_and_are_orthogonal(scores):
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


@pytest.mark.parametrize("size", [2, 3, 4, 6])
def test_equal_scores_match_by_chance(size):
    constant = np.full((3, size, size), 0.25)
    assert MATCH.per_item(constant).tolist() == [0, 0, 0]
    assert MATCH.tie_neutral(constant).tolist() == [MATCH.chance((size, size))] * 3
    assert set(reasons(constant)) == {Reason.NO_MATCH}
    drawn_scores = np.random.default_rng(0).random((4000, size, size))
    assert abs(match_score(drawn_scores).mean() - MATCH.chance((size, size))) < 0.03


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


def test_probabilities_of_zero_and_one_have_finite_logits():
    sure = MATCH.check([[[1.0, 0.0], [0.0, 1.0]]], "probability")
    assert np.isfinite(sure).all()
    assert MATCH.per_item(sure) == 1


@given(drawn((2, 2)))
def test_outcomes_alone_bound_the_match(scores):
    (a, b), (c, d) = scores[:, 0].T, scores[:, 1].T
    sure, may = match_bounds(np.stack([a > b, d > c, a > c, d > b], axis=1)).T
    match = match_score(scores) == 1
    assert not (sure & ~match).any()
    assert not (match & ~may).any()


def test_one_right_of_each_side_may_match_and_need_not():
    # Sides, and not places, are what a match follows from: image 0 and text 0 are right here, image 1 and text 1 wrong.
    assert match_bounds([[1, 0, 1, 0]]).tolist() == [[False, True]]
    assert match_score([[[3, 2], [2, 1.5]], [[3, 2], [2, 0]]]).tolist() == [1, 0]
