"""The linear head: what it learns, and the features and labels that it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tellapart.errors import DataError
from tellapart.stats.sigmoid_head import fit_head

ROWS = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0], [3.0, 1.0]])
LABELS = np.array([0, 0, 1, 1])


def test_a_head_tells_classes_apart_that_a_line_separates() -> None:
    head = fit_head(ROWS, LABELS, penalty=0.01)
    assert ((head.probabilities(ROWS) > 0.5) == LABELS).all()
    assert head.weights[1] == 0, "a feature that never varies says nothing"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": ROWS[:, 0]}, r"features \(4,\) and labels \(4,\)"),
        ({"labels": LABELS[:3]}, r"give \(entry, dimensions\) and \(entry,\)"),
        ({"features": ROWS * np.nan}, "features that are not finite; look for the entry"),
        ({"labels": np.ones(4, int)}, r"labels are \[1\]: give entries of both classes"),
        ({"penalty": 0.0}, "penalty 0: give a number above 0"),
    ],
)
def test_what_no_head_can_be_fitted_to_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        fit_head(**({"features": ROWS, "labels": LABELS, "penalty": 1.0} | change))


def test_features_of_another_encoder_are_refused() -> None:
    with pytest.raises(DataError, match="fitted on features of 2 dimensions and is given 3; use the same encoder"):
        fit_head(ROWS, LABELS).probabilities(np.ones((1, 3)))
