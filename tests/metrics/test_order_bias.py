"""Order bias is nought for a model that reads, and everything for one that always takes one place."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellapart.metrics.order_bias import order_bias

CHOICES = st.lists(st.tuples(st.sampled_from([-1, 0, 1]), st.sampled_from([-1, 0, 1])), min_size=1, max_size=30)


@pytest.mark.parametrize(
    ("first", "second", "difference", "both", "chose_first"),
    [
        (1, 1, 0, 1, 0.5),  # follows the captions
        (-1, -1, 0, 0, 0.5),  # follows them, the wrong one
        (1, -1, 1, 0, 1.0),  # takes the first place
        (-1, 1, -1, 0, 0.0),  # takes the second place
        (0, 0, 0, 0, 0.5),  # takes none
        (1, 0, 1, 0, 0.75),
        (0, 1, -1, 0, 0.25),
        (-1, 0, 0, 0, 0.25),
    ],
)
def test_each_pair_of_answers(first, second, difference, both, chose_first):
    found = order_bias([first], [second])
    assert (found.difference[0], found.both[0], found.chose_first[0]) == (difference, both, chose_first)


@given(CHOICES)
def test_exchanging_the_orders_turns_the_bias_round(pairs):
    first, second = zip(*pairs, strict=True)
    one, other = order_bias(first, second), order_bias(second, first)
    np.testing.assert_array_equal(one.difference, -other.difference)
    np.testing.assert_array_equal(one.chose_first, 1 - other.chose_first)
    np.testing.assert_array_equal(one.both, other.both)
    np.testing.assert_array_equal(one.both, np.minimum(one.true_first, one.true_second))
