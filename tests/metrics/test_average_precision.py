"""COLA's average precision of labels equals scikit-learn's, label by label, over the images that count."""

from __future__ import annotations

import numpy as np
import pytest

from facts import raises
from tellapart.errors import MetricError
from tellapart.metrics.average_precision import label_average_precision

# Imported when tests are collected: it changes the environment.
metrics = pytest.importorskip("sklearn.metrics")


@pytest.mark.parametrize("levels", [3, 1000])
def test_it_is_the_librarys_over_the_hard_images(levels: int) -> None:
    rng = np.random.default_rng(levels)
    scores = rng.integers(0, levels, (60, 9)) / levels
    labels, hard = rng.random((60, 9)) < 0.3, rng.random((60, 9)) < 0.6
    labels[:, 4] = False
    found = label_average_precision(scores, labels, hard)
    assert np.isnan(found[4])
    for k in (0, 1, 2, 3, 5, 6, 7, 8):
        kept = hard[:, k]
        assert found[k] == pytest.approx(metrics.average_precision_score(labels[kept, k], scores[kept, k].astype("f4")))


def test_a_constant_gets_the_share_of_true_images() -> None:
    labels = np.array([[1], [0], [0], [1]])
    assert label_average_precision(np.zeros((4, 1)), labels, np.ones((4, 1))).tolist() == [0.5]


def test_what_is_no_table_of_marks_is_refused() -> None:
    with raises(MetricError, "(2, 2)", "(2, 3)"):
        label_average_precision(np.zeros((2, 2)), np.zeros((2, 3)), np.zeros((2, 2)))
    with raises(MetricError, "finite"):
        label_average_precision([[np.nan], [0.5]], [[1], [0]], [[1], [1]])
    with raises(MetricError, "0 or 1"):
        label_average_precision([[0.5]], [[2]], [[1]])
