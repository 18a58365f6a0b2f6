"""Broken ties: exact, equal to closed forms, and counted as they are in the human scores of Winoground."""

from fractions import Fraction
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tellapart.metrics.choice import choice_score
from tellapart.metrics.pairs import group_score, text_score
from tellapart.metrics.registry import METRICS
from tellapart.metrics.ties import TieRule, break_ties, tie_neutral_by_enumeration, tied_comparisons

LEVELS = st.integers(0, 2).map(float)


@given(arrays(np.float32, st.tuples(st.integers(1, 5), st.just(1), st.integers(2, 6)), elements=LEVELS))
def test_the_closed_form_of_the_choice_score_is_the_enumeration(scores):
    expected = tie_neutral_by_enumeration(choice_score, scores)
    np.testing.assert_array_equal(METRICS["choice_score"].tie_neutral(scores), expected)
    np.testing.assert_array_equal(METRICS["choice_score"].tie_neutral(scores.transpose(0, 2, 1)), expected)


@pytest.mark.parametrize(
    ("item", "text", "group"),
    [
        ([[1, 1], [1, 1]], Fraction(1, 4), Fraction(1, 6)),
        ([[1, 1], [0, 1]], Fraction(1, 2), Fraction(1, 3)),  # s00, s01, s11 tied: s01 must be last of three
        ([[1, 1], [0, 2]], Fraction(1, 2), Fraction(1, 2)),
        ([[1, 1], [1, 0]], Fraction(0), Fraction(0)),
        ([[1, 0], [0, 1]], Fraction(1), Fraction(1)),
        ([[1, 1], [2, 2]], Fraction(1, 4), Fraction(0)),
    ],
)
def test_tied_quadruples_have_the_values_worked_out_by_hand(item, text, group):
    assert tie_neutral_by_enumeration(text_score, [item])[0] == float(text)
    assert tie_neutral_by_enumeration(group_score, [item])[0] == float(group)


def test_a_large_batch_of_ties_is_enumerated_in_blocks_with_the_same_result():
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 3, (3000, 1, 5)).astype(np.float32)  # 120 orders each: more than one block
    np.testing.assert_array_equal(
        tie_neutral_by_enumeration(choice_score, scores), METRICS["choice_score"].tie_neutral(scores)
    )


def test_more_than_six_scores_are_not_enumerated_unless_nothing_is_tied():
    distinct = np.arange(7, dtype=np.float32)[::-1].reshape(1, 1, 7)
    assert tie_neutral_by_enumeration(choice_score, distinct)[0] == 1
    assert METRICS["choice_score"].tie_neutral(np.zeros((1, 1, 100)))[0] == 1 / 100


def test_a_broken_tie_stays_within_its_item():
    scores = [[[0.5, 0.5]], [[0.2, 0.5]], [[0.9, 0.1]]]
    assert break_ties(scores, "right").tolist() == [[[1, 0]], [[1, 3]], [[4, 0]]]
    assert break_ties(scores, "last").tolist() == [[[0, 1]], [[0, 4]], [[3, 1]]]
    assert break_ties(scores, "first").tolist() == [[[0, -1]], [[0, 2]], [[3, -1]]]
    assert break_ties(np.full((1, 2, 2), 0.5), "right").tolist() == [[[1, 0], [0, 1]]]
    assert get_args(TieRule) == ("wrong", "right", "first", "last")


@given(arrays(np.float32, (3, 2, 2), elements=LEVELS))
def test_a_quadruple_has_four_comparisons_and_each_tie_counts_once(scores):
    s = scores
    pairs = [(s[:, i, i], other) for i in (0, 1) for other in (s[:, i, 1 - i], s[:, 1 - i, i])]
    np.testing.assert_array_equal(tied_comparisons(scores), sum((a == b).astype(int) for a, b in pairs))


def test_tied_comparisons_of_a_choice_are_with_the_truth_alone():
    assert tied_comparisons([[[1, 1, 1, 0]], [[1, 2, 2, 2]]]).tolist() == [2, 0]
    assert tied_comparisons(np.zeros((1, 5, 1))).tolist() == [4]


def test_a_single_quadruple_has_both_its_true_pairs_compared():
    assert tied_comparisons([[[0.9, 0.1], [0.8, 0.8]]]).tolist() == [1]


def test_of_two_true_texts_both_come_first_where_all_tie():
    broken = break_ties(np.full((1, 1, 3), 0.5), "right", true=2)
    assert broken[0, 0, 0] == broken[0, 0, 1] > broken[0, 0, 2]
