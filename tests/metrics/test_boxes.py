"""Boxes: intersection over union equals counting pixels and areas, and the two rules differ where they should."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tellapart.metrics.boxes import box_accuracy, from_centres, intersection_over_union

WHOLE = st.tuples(st.integers(-3, 8), st.integers(-3, 8), st.integers(1, 8), st.integers(1, 8))


def pixels(box: tuple[int, int, int, int]) -> set[tuple[int, int]]:
    x, y, width, height = box
    return {(x + i, y + j) for i in range(width) for j in range(height)}


@given(WHOLE, WHOLE)
@example((-3, -2, 4, 4), (-2, -3, 5, 4))
def test_the_rules_count_pixels_and_the_inclusive_one_no_overlap_of_one_row_or_column(a, b):
    expected = len(pixels(a) & pixels(b)) / len(pixels(a) | pixels(b))
    assert intersection_over_union([a], [b], "plain")[0] == pytest.approx(expected, abs=1e-12)
    shared = pixels(a) & pixels(b)
    columns, rows = len({x for x, _ in shared}), len({y for _, y in shared})
    counted = len(shared) if columns > 1 and rows > 1 else 0
    expected = counted / (len(pixels(a)) + len(pixels(b)) - counted)
    assert intersection_over_union([a], [b], "inclusive")[0] == pytest.approx(expected, abs=1e-12)


def test_half_is_enough_and_half_a_column_more_than_one_is_a_whole_one_by_the_inclusive_rule():
    gold = [[0, 0, 10, 20]] * 3
    predicted = [[0, 0, 10, 10], [0, 0, 10, 9.99], [0, 0, 10, 20]]
    assert box_accuracy(predicted, gold).tolist() == [1, 0, 1]
    assert box_accuracy(predicted, gold, threshold=0.75).tolist() == [0, 0, 1]
    assert box_accuracy(predicted, gold, threshold=1).tolist() == [0, 0, 1]
    assert intersection_over_union([[0, 0, 4, 4]], [[2.5, 0, 4, 4]], "inclusive")[0] == 6 / 26
    np.testing.assert_allclose(from_centres([[0.25, 0.5, 0.5, 0.2]], [[640, 480]]), [[0, 192, 320, 96]])


@pytest.mark.parametrize("rule", ["inclusive", "plain"])
@pytest.mark.parametrize(
    ("box", "side"),
    [
        *(([2, 2, *sides], 10) for sides in ((0, 5), (5, 0), (-3, 4), (-3, -4), (0, 0))),
        # As an area it would be -16, and the union with a gold box of 16 would be 0.
        *(([0, 0, *sides], 4) for sides in ((-4, 4), (4, -4))),
    ],
)
def test_a_predicted_box_without_area_is_never_right(box, side, rule):
    assert intersection_over_union([box], [[0, 0, side, side]], rule)[0] == 0
