"""COLA's average precision of labels equals scikit-learn's, label by label, over the images that count."""

import itertools

import numpy as np
import pytest

from tellapart.metrics.average_precision import average_precision

# Imported when tests are collected: it changes the environment.
metrics = pytest.importorskip("sklearn.metrics")


@pytest.mark.parametrize("levels", [3, 1000])
def test_it_is_the_librarys_over_the_hard_images(levels):
    rng = np.random.default_rng(levels)
    scores = rng.integers(0, levels, (60, 9)) / levels
    labels, hard = rng.random((60, 9)) < 0.3, rng.random((60, 9)) < 0.6
    for k in range(9):
        kept = hard[:, k]
        found = average_precision(scores[kept, k], labels[kept, k]).official
        assert found == pytest.approx(metrics.average_precision_score(labels[kept, k], scores[kept, k].astype("f4")))


def test_a_constant_gets_the_share_of_true_images():
    assert average_precision(np.zeros(4), [True, False, False, True]).official == 0.5


@pytest.mark.parametrize("right", [[1, 1, 0, 0, 1], [0, 1, 1, 1, 0], [1, 0, 0, 0, 0]])
def test_ties_broken_at_random_give_the_mean_over_all_orders(right):
    levels = np.array([1, 2, 2, 2, 3])
    orders = [levels + 0.1 * np.array([0, *order, 0]) for order in itertools.permutations((1, 2, 3))]
    exact = [metrics.average_precision_score(right, order) for order in orders]
    found = average_precision(levels, np.array(right, bool))
    assert (found.neutral, found.strict) == pytest.approx((np.mean(exact), min(exact)))
