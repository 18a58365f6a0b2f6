"""Averages over items, and the items that carry a tag's values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellapart.metrics.per_item import PerItem, by_tag, mean

TAGS = st.lists(st.dictionaries(st.sampled_from(["type", "subset"]), st.sampled_from("abc")), max_size=12)


@given(TAGS)
def test_an_item_belongs_to_the_one_value_it_carries_or_to_none(tags):
    masks = by_tag(tags)
    assert set(masks) == {tag for carried in tags for tag in carried}
    for tag, values in masks.items():
        assert list(values) == sorted(values)
        for item, carried in enumerate(tags):
            assert [value for value, mask in values.items() if mask[item]] == ([carried[tag]] if tag in carried else [])


def test_a_tag_with_too_many_values_is_left_out():
    tags = [{"id": str(k), "type": "ab"[k % 2]} for k in range(4)]
    assert list(by_tag(tags)) == ["id", "type"]
    assert list(by_tag(tags, most=3)) == ["type"]
    assert list(by_tag(tags, most=4)) == ["id", "type"]


@given(st.lists(st.floats(-1e9, 1e9), min_size=1), st.randoms(use_true_random=False))
def test_a_mean_does_not_depend_on_the_order_of_items(values, random):
    shuffled = list(values)
    random.shuffle(shuffled)
    assert mean(values) == mean(shuffled)
    assert float(mean(values)) == pytest.approx(np.mean(values), abs=1e-3)
    two = np.stack([values, values], axis=1)
    np.testing.assert_array_equal(mean(two), [mean(values), mean(values)])


def test_ties_are_the_items_whose_neutral_value_differs():
    strict = np.zeros(3)
    assert PerItem(name="a", strict=strict).ties.tolist() == [False] * 3
    assert PerItem(name="a", strict=strict, neutral=np.array([0.0, 0.5, 0.0])).ties.tolist() == [False, True, False]
    pairs = PerItem(name="a", strict=np.zeros((3, 2)), neutral=np.array([[0.0, 0.0], [0.0, 0.5], [0.5, 0.5]]))
    assert pairs.ties.tolist() == [False, True, True]


def test_the_metric_of_some_items_is_their_mean_or_reduced_from_the_means():
    values = np.array([[1.0, 0.0], [1.0, 1.0]])
    assert PerItem(name="a", strict=values[:, 1]).over(values[:, 1]) == 0.5
    least = PerItem(name="a", strict=values, reduce=lambda means: means.min(axis=-1))
    assert least.over(values) == 0.5
    assert not least.binary
    assert not least.deviation
