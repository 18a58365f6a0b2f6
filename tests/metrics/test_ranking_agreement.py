"""Agreement with people and movement under an edit, against counting pairs by hand."""

from __future__ import annotations

from itertools import combinations
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from facts import raises
from tellapart.errors import MetricError
from tellapart.metrics.ratings import Agreement, agreement_with_people, movement, places

TIED = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 5)), min_size=2, max_size=12)


@settings(deadline=None)  # the first use imports scipy
@given(TIED)
def test_kendall_is_the_count_of_pairs_in_the_same_order(pairs: list[tuple[int, int]]) -> None:
    scores, people = zip(*pairs, strict=True)
    found = agreement_with_people(scores, people)
    if len(set(scores)) == 1 or len(set(people)) == 1:
        assert found == Agreement(None, None)
        return
    sign = [(np.sign(b - a), np.sign(d - c)) for (a, d), (b, c) in combinations(pairs, 2)]  # people count downwards
    total = sum(s * p for s, p in sign)
    expected = total / sqrt(sum(s != 0 for s, _ in sign) * sum(p != 0 for _, p in sign))
    assert found.kendall == pytest.approx(expected, abs=1e-12)
    centred = [ranks - np.mean(ranks) for ranks in (places(scores), places([-p for p in people]))]
    rho = centred[0] @ centred[1] / sqrt((centred[0] @ centred[0]) * (centred[1] @ centred[1]))
    assert found.spearman == pytest.approx(rho, abs=1e-12)


def test_a_model_that_ranks_as_people_do_agrees_and_its_opposite_does_not() -> None:
    people = np.arange(1, 26)
    for sign in (1, -1):
        found = agreement_with_people(-sign * people, people)
        assert (found.kendall, found.spearman) == pytest.approx((sign, sign))


def test_finding_the_best_image_is_not_agreeing() -> None:
    # As in EqBen's Fig. 1: the first of 25 is found, the rest stands in the reverse of people's order.
    scores = [100, *range(24)]
    found = agreement_with_people(scores, range(1, 26))
    assert places(scores)[0] == 1
    assert found.kendall == pytest.approx((24 - 276) / 300)


@settings(deadline=None)
@given(st.lists(st.floats(-1, 1, width=32), min_size=2, max_size=25, unique=True))
def test_an_edit_that_is_ignored_moves_nothing_and_a_reversal_moves_the_most(scores: list[float]) -> None:
    values = np.array(scores)
    still, turned = movement(values, values * 2), movement(values, -values)
    assert (still.mean_shift, still.share_of_largest) == (0, 0)
    assert still.agreement.kendall == pytest.approx(1)
    assert turned.share_of_largest == 1
    assert turned.agreement.kendall == pytest.approx(-1)


@settings(deadline=None)
@given(TIED)
def test_no_movement_is_larger_than_the_largest(pairs: list[tuple[int, int]]) -> None:
    before, after = zip(*pairs, strict=True)
    there, back = movement(before, after), movement(after, before)
    assert 0 <= there.share_of_largest <= 1
    assert there.mean_shift == back.mean_shift
    assert places(before).sum() == len(before) * (len(before) + 1) / 2


def test_scores_that_differ_beyond_float32_are_tied() -> None:
    assert places([0.5, 0.5 + 1e-12]).tolist() == [1.5, 1.5]


def test_bad_arguments_raise() -> None:
    with raises(MetricError, "2", "3", "scores"):
        agreement_with_people([0.1, 0.2], [1, 2, 3])
    with raises(MetricError, "3", "2", "scores", "edit"):
        movement([0.1, 0.2, 0.3], [0.1, 0.2])
    with raises(MetricError, "candidates", "two"):
        places([0.1])
    with raises(MetricError, "candidates: 1"):
        places([0.1, np.nan])
