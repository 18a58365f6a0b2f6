"""Agreement: kappa against scikit-learn, its corner cases, and what is refused."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from facts import raises
from tellapart.errors import MetricError
from tellapart.stats.agreement import alpha_with_interval, kappa_with_interval, percent_agreement

labelled = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=50)


@given(labelled)
def test_kappa_equals_scikit_learn(rows):
    first, second = (list(column) for column in zip(*rows, strict=True))
    assume(len({*first, *second}) > 1)
    assert kappa_with_interval(first, second).value == pytest.approx(cohen_kappa_score(first, second))
    words = [["bad", "fair", "good", "odd"][code] for code in first], [f"{code}" for code in second]
    assert kappa_with_interval(*words).value == pytest.approx(cohen_kappa_score(*words))


@given(labelled)
def test_agreement_is_symmetric_and_full_with_oneself(rows):
    first, second = (list(column) for column in zip(*rows, strict=True))
    assert percent_agreement(first, second) == percent_agreement(second, first)
    assert kappa_with_interval(first, second).value == kappa_with_interval(second, first).value
    assert percent_agreement(first, first) == 1
    assert kappa_with_interval(first, first).value == (1 if len(set(first)) > 1 else None)


def test_luck_alone_has_kappa_zero():
    assert kappa_with_interval([0, 0, 1, 1], [0, 1, 0, 1]).value == 0


@pytest.mark.parametrize(("people", "least"), [(2, -1.0), (3, -0.5), (5, -0.25)])
def test_alpha_does_not_reach_below_the_least_that_so_many_people_can_have(people, least):
    # One of 30 items with two labels: expected disagreement is so small that the bound was -6.30 of two people.
    found = alpha_with_interval([["a"] * people] * 29 + [["a"] * (people - 1) + ["b"]])
    assert (found.interval.low, found.interval.high) == (least, pytest.approx(1.0, abs=1e-4))


def test_kappa_does_not_reach_below_minus_one():
    first, second = ["a"] * 28 + ["a", "b"], ["a"] * 28 + ["b", "a"]
    assert kappa_with_interval(first, second).interval.low == -1.0


@given(
    st.integers(2, 4).flatmap(
        lambda people: st.lists(st.lists(st.sampled_from("abc"), min_size=people, max_size=4), min_size=10, max_size=30)
    )
)
def test_alpha_lies_in_its_interval(rows):
    found = alpha_with_interval(rows)
    assume(found.value is not None and found.interval.low is not None)
    assert -1 <= found.interval.low <= found.value <= found.interval.high <= 1


def test_percent_agreement_by_hand():
    assert percent_agreement(["a", "b", "c"], ["a", "c", "c"]) == pytest.approx(2 / 3)


@pytest.mark.parametrize("measure", [kappa_with_interval, percent_agreement])
@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ([], [], ("(0,)", "(0,)")),
        ([1, 2], [1], ("(2,)", "(1,)")),
        (["1"], [1], "strings"),
        (["a", None], ["a", "b"], ("object", "<U1", "labels")),
        ([[1]], [[1]], ("label", "pass")),
    ],
)
def test_bad_labels_are_refused(measure, first, second, message):
    with raises(MetricError, measure.__name__, message):
        measure(np.array(first), np.array(second))
