"""Intervals of ratios, of the smallest mean and of means of groups."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tellapart.stats.combined import MeanOfGroups, RatioOfCounts, SmallestMean, macro_bounds
from tellapart.stats.intervals import Column, interval_for, intervals_for, wilson

answers = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=80)


def yes_columns(rows):
    said, true = np.array(rows).T
    return np.stack([said & true, said, true], axis=1).astype(float)


@given(answers)
def test_precision_is_a_share_of_what_was_answered(rows):
    table = yes_columns(rows)
    found = interval_for(table, None, binary=True, reduce=RatioOfCounts(1))
    if not table[:, 1].any():
        assert found.low is None
        assert found.reason
        return
    among = interval_for(table[table[:, 1] == 1, 0], None, binary=True)
    assert (found.low, found.high) == (among.low, among.high)


@given(answers)
def test_f1_lies_in_its_interval_and_grows_with_the_share_that_it_is_of(rows):
    table, f1 = yes_columns(rows), RatioOfCounts(1, 2)
    found = interval_for(table, None, binary=True, reduce=f1)
    if found.low is None:
        return
    assert 0 <= found.low <= float(f1(table.mean(axis=0))) + 1e-12
    assert float(f1(table.mean(axis=0))) - 1e-12 <= found.high <= 1


def test_the_smallest_has_the_lowest_low_and_the_lowest_high():
    rng = np.random.default_rng(0)
    values = (rng.random((90, 2)) < (0.5, 0.6)).astype(float)
    found = interval_for(values, None, binary=True, reduce=SmallestMean())
    parts = [wilson(int(column.sum()), 90) for column in values.T]
    assert found.low == min(part.low for part in parts)
    # Either high end may be too low, so each has half the error.
    assert found.high == min(wilson(int(column.sum()), 90, level=0.975).high for column in values.T)


def grouped(sizes, rights):
    """Sums and counts `(item, group)` of independent items."""
    owner = np.repeat(np.arange(len(sizes)), sizes)
    counts = np.eye(len(sizes))[owner]
    right = np.concatenate([np.arange(size) < min(size, k) for size, k in zip(sizes, rights, strict=True)])
    return counts * right[:, None], counts


groups = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 30)), min_size=2, max_size=12)


@settings(max_examples=60)
@given(groups, st.randoms(use_true_random=False))
def test_a_macro_mean_depends_on_no_order_and_lies_in_its_interval(rows, random):
    sums, counts = grouped(*zip(*rows, strict=True))
    low, high = macro_bounds(sums, counts, 0.95, binary=True)
    mean = float((sums.sum(axis=0) / counts.sum(axis=0)).mean())
    assert 0 <= low <= mean + 1e-12
    assert mean - 1e-12 <= high <= 1
    mixed = random.sample(rows, len(rows))
    again = macro_bounds(*grouped(*zip(*mixed, strict=True)), 0.95, binary=True)
    assert again == pytest.approx((float(low), float(high)), abs=1e-9)


@settings(max_examples=60)
@given(groups)
def test_right_and_wrong_groups_are_mirrored(rows):
    sums, counts = grouped(*zip(*rows, strict=True))
    low, high = macro_bounds(sums, counts, 0.95, binary=True)
    mirrored = macro_bounds(counts - sums, counts, 0.95, binary=True)
    assert (float(low), float(high)) == pytest.approx((1 - float(mirrored[1]), 1 - float(mirrored[0])), abs=1e-6)


def test_a_tiny_group_widens_the_mean_of_groups():
    """One item all right beside 300: the bootstrap of their mean has no idea of the one."""
    sums, counts = grouped((1, 300), (1, 240))
    low, high = macro_bounds(sums, counts, 0.95, binary=True)
    assert low < 0.55  # the group of one may as well have a share of 0.1
    assert high <= 1


def test_a_group_of_one_measured_item_reaches_as_far_as_one_trial_s_exact_interval():
    # The item is 0 with 12 %: Wilson's interval of one trial ends at .79, so that the mean of both missed .88 as often.
    sums = np.where(np.arange(301)[:, None] == 0, [[0.0, 0.0]], [[0.0, 0.88]])
    counts = np.where(np.arange(301)[:, None] == 0, [[1.0, 0.0]], [[0.0, 1.0]])
    low, high = macro_bounds(sums, counts, 0.95, binary=False)
    assert low <= 0.44 < 0.88 < high
    assert high == pytest.approx(0.44 + 0.975 / 2, abs=0.02)


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("groups", [2, 3, 4])
def test_a_few_groups_of_one_item_reach_together(groups, binary):
    # With a share of .69 in both of two groups, both items are wrong in 9.6 % of data sets.
    low, high = macro_bounds(np.zeros((groups, groups)), np.eye(groups), 0.95, binary=binary)
    assert (low, high) == (0, pytest.approx(1 - 0.025 ** (1 / groups)))
    mirrored = macro_bounds(np.eye(groups), np.eye(groups), 0.95, binary=binary)
    assert mirrored == (pytest.approx(1 - high), 1)


def test_a_cluster_in_all_groups_widens_the_mean_of_groups():
    rng = np.random.default_rng(1)
    shared = (rng.random(40) < 0.5).astype(float)
    sums, counts = np.tile(shared[:, None], (1, 4)), np.ones((40, 4))
    apart = macro_bounds(*grouped((40,) * 4, (int(shared.sum()),) * 4), 0.95, binary=True)
    together = macro_bounds(sums, counts, 0.95, binary=True)
    assert together[1] - together[0] > 1.8 * (apart[1] - apart[0])


def test_a_group_too_small_for_an_interval_is_named():
    values = np.random.default_rng(2).normal(size=33)
    member = np.repeat(np.eye(2), (30, 3), axis=0)
    table = np.concatenate([values[:, None] * member, member], axis=1)
    column = Column(table, binary=False, reduce=MeanOfGroups(2, None, ("swap", "add")))
    found = intervals_for([column], None)[0]
    assert found.low is None
    assert "3 items" in found.reason
    assert "'add'" in found.reason


def test_a_mean_of_groups_ratios_combines_their_intervals():
    rng = np.random.default_rng(3)
    table = yes_columns(rng.random((80, 2)) < 0.5)
    member = np.repeat(np.eye(2), 40, axis=0)
    layout = (table[:, None, :] * member[:, :, None]).reshape(80, -1)
    macro = MeanOfGroups(2, RatioOfCounts(1))
    both = interval_for(np.concatenate([layout, member], axis=1), None, binary=True, reduce=macro)
    parts = [interval_for(table[k : k + 40], None, binary=True, reduce=RatioOfCounts(1)) for k in (0, 40)]
    assert both.high - both.low < max(part.high - part.low for part in parts)
    assert both.low < both.high
