"""Exact answers, labels that are strings, and groups that must be right as a whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from facts import raises
from tellapart.errors import MetricError
from tellapart.metrics.answers import exact_match, group_accuracy, label_accuracy


def test_an_exact_answer_is_stripped_and_nothing_else() -> None:
    gold = ["yes", "2", " red", "no"]
    assert exact_match([" yes\n", "two", "red", "No"], gold).tolist() == [1, 0, 1, 0]


def test_the_label_false_is_not_true() -> None:
    predictions: list[bool | str] = ["False", "False", True, False, np.True_]
    assert label_accuracy(predictions, ["False", "True", "True", "False", "True"]).tolist() == [1, 0, 1, 1, 1]


@settings(deadline=None)
@given(st.lists(st.booleans(), min_size=1), st.data())
def test_a_constant_judge_is_right_as_often_as_its_label_occurs(labels: list[bool], data: Any) -> None:
    own = data.draw(st.booleans())
    names = ["True" if label else "False" for label in labels]
    assert label_accuracy([str(own)] * len(labels), names).sum() == labels.count(own)


@pytest.mark.parametrize("wrong", ["true", "yes", "", 1, None, 0.0])
def test_what_is_no_label_raises(wrong: Any) -> None:
    with raises(MetricError, "1", "1", "'True'", "'False'"):
        label_accuracy(["True", wrong], ["True", "False"])
    with raises(MetricError, "0", "label"):
        label_accuracy([True], [wrong])


@settings(deadline=None)
@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=4), min_size=1, max_size=8))
def test_a_group_is_right_if_all_of_it_is(groups: list[list[bool]]) -> None:
    flat = [right for group in groups for right in group]
    rows = iter(range(len(flat)))
    indexes = [[next(rows) for _ in group] for group in groups]
    assert group_accuracy(flat, indexes).tolist() == [float(all(group)) for group in groups]


def test_a_blind_model_wins_no_complementary_pair() -> None:
    gold = ["yes", "no", "2", "3"]
    for blind in (["yes", "yes", "2", "2"], ["no", "no", "3", "3"]):
        correct = exact_match(blind, gold)
        assert correct.mean() == 0.5
        assert not group_accuracy(correct, [(0, 1), (2, 3)]).any()


def test_bad_arguments_raise() -> None:
    with raises(MetricError, "exact_match", "1", "2"):
        exact_match(["a"], ["a", "b"])
    with raises(MetricError, "label_accuracy", "0", "0"):
        label_accuracy([], [])
    with raises(MetricError, "5", "2", "rows"):
        group_accuracy([1, 0], [[0, 5]])
    with raises(MetricError, "-1", "2", "2"):
        group_accuracy([1, 0], [[0, 2], [-1, 1]])
    with raises(MetricError, "2", "groups", "row"):
        group_accuracy([1, 0], [[0], []])
    with raises(MetricError, "0", "1", "row"):
        group_accuracy([0.5, 1], [[0]])
    with raises(MetricError, "0", "1", "row"):
        group_accuracy(["1"], [[0]])
