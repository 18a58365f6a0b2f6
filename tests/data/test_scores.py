"""Scores are float32, finite, of one shape and named by distinct ids; every other array is refused."""

from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray

from facts import raises
from tellapart.data.scores import Scores, join_names
from tellapart.errors import ScoreError

PAIR = [[0.9, 0.1], [0.2, 0.8]]

arrays = npst.arrays(
    st.sampled_from([np.float16, np.float32, np.float64]),
    st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 3)),
    elements=st.floats(allow_nan=False, allow_infinity=False, width=16),
)


@given(arrays)
def test_scores_are_a_read_only_float32_copy(values):
    before = values.copy()
    scores = Scores([str(k) for k in range(len(values))], values, "logit")
    np.testing.assert_array_equal(scores.values, values.astype(np.float32))
    assert (scores.values.dtype, scores.shape) == (np.float32, values.shape[1:])
    assert len(scores) == len(values)
    values += 1
    np.testing.assert_array_equal(scores.values, before.astype(np.float32))
    with pytest.raises(ValueError, match="read-only"):
        scores.values[0, 0, 0] = 1
    with pytest.raises(FrozenInstanceError):
        scores.kind = "similarity"


@given(arrays, st.data())
def test_selecting_follows_the_ids(values, data):
    ids = [f"item {k}" for k in range(len(values))]
    chosen = data.draw(st.lists(st.sampled_from(ids), unique=True))
    scores = Scores(ids, values, "similarity").select(chosen)
    assert (scores.ids, scores.kind) == (tuple(chosen), "similarity")
    for item, row in zip(scores.ids, scores.values, strict=True):
        np.testing.assert_array_equal(row, values[ids.index(item)].astype(np.float32))


@pytest.mark.parametrize("pair", [[0, 1], [False, True], [1e-300, 1.0]])
def test_whole_numbers_and_truth_values_are_numbers_and_those_below_float32_are_zero(pair):
    with np.errstate(all="raise"):
        assert Scores(("a",), [[pair]], "probability").values.tolist() == [[[0, 1]]]


class Tensor:
    """Stands for a tensor that numpy cannot look into: one that needs a gradient."""

    def __array__(self, dtype=None, copy: bool | None = None) -> NDArray[Any]:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad")


#: Values that are no scores of one item, the facts of their refusal.
BAD_VALUES: list[tuple[Any, tuple[str, ...]]] = [
    ([[[1.0, 2.0], [3.0]]], ("(item, image, text)", "array")),
    ([[["0.9", "0.1"]]], ("<U3", "scores", "array")),
    ([[[None, 0.1]]], ("object", "scores", "array")),
    (np.ones((1, 2, 2), np.complex128), ("complex128", "scores", "array")),
    (0.5, ("(item, image, text)", "0")),
    (PAIR, ("(item, image, text)", "2", "(2, 2)")),
    ([[PAIR]], ("4", "(1, 1, 2, 2)")),
    (np.ones((1, 2, 0)), ("(1, 2, 0)",)),
    ([PAIR, PAIR], ("1", "2", "id")),
    ([[[0.5, float("nan")]]], ("NaN", "1", "1", "a")),
    ([[[0.5, float("-inf")]]], ("NaN", "1", "1", "a")),
    ([[[0.5, 1e300]]], ("NaN", "1", "1", "a")),
    (Tensor(), ("grad", "requires")),
]


@pytest.mark.parametrize(("values", "says"), BAD_VALUES, ids=range(len(BAD_VALUES)))
def test_values_that_are_no_scores_are_refused(values, says):
    with np.errstate(all="raise"), raises(ScoreError, says):
        Scores(("a",), values, "similarity")


@pytest.mark.parametrize("value", [-1e-6, 1.0001, 7.0])
def test_a_probability_lies_between_zero_and_one(value):
    values = np.full((3, 1, 2), 0.5)
    values[1, 0, 1] = value
    assert Scores("abc", values, "similarity").kind == "similarity"
    with raises(ScoreError, "[0, 1]", "1", "3", "b", "similarity"):
        Scores("abc", values, "probability")


def test_the_items_that_are_not_finite_are_named_up_to_ten():
    values = np.zeros((30, 2, 2))
    values[5:17, 1, 0] = np.nan
    with raises(ScoreError, "12", "30", "5, 6, 7, 8, 9, 10, 11, 12, 13, 14", "2"):
        Scores([str(k) for k in range(30)], values, "similarity")
    assert join_names([]) == ""


def test_ids_are_distinct_strings_the_kind_is_known_and_those_that_are_selected_have_scores():
    scores = Scores(("a", "b"), [PAIR, PAIR], "similarity")
    for make, facts in (
        (lambda: Scores("abcab", np.zeros((5, 1, 2)), "similarity"), ("distinct", "a, b", "ids")),
        (lambda: Scores((1,), [PAIR], "similarity"), ("1", "ids")),
        (lambda: Scores(("a",), [PAIR], "distance"), ("'distance'", "similarity")),
        (lambda: scores.select(["a", "c", "d"]), ("2", "3", "c, d")),
        (lambda: scores.select(["a", "a"]), ("distinct", "a", "repeated")),
    ):
        with raises(ScoreError, *facts):
            make()
