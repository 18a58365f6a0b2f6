"""The linear head: what it learns, and the features and labels that it refuses."""

import numpy as np
import pytest

from facts import raises
from tellapart.errors import DataError
from tellapart.stats.held_out import fit_head

ROWS = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0], [3.0, 1.0]])
LABELS = np.array([0, 0, 1, 1])


def test_a_head_tells_classes_apart_that_a_line_separates():
    head = fit_head(ROWS, LABELS, penalty=0.01)
    assert ((head.probabilities(ROWS) > 0.5) == LABELS).all()
    assert head.weights[1] == 0, "a feature that never varies says nothing"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": ROWS[:, 0]}, ("(4,)", "(4,)")),
        ({"labels": LABELS[:3]}, ("(entry, dimensions)", "(entry,)")),
        ({"features": ROWS * np.nan}, ("finite", "features")),
        ({"labels": np.ones(4, int)}, ("[1]", "labels")),
        ({"penalty": 0.0}, ("0", "0")),
    ],
)
def test_what_no_head_can_be_fitted_to_is_refused(change, message):
    with raises(DataError, message):
        fit_head(**({"features": ROWS, "labels": LABELS, "penalty": 1.0} | change))


def test_features_of_another_encoder_are_refused():
    with raises(DataError, "2", "3", "encoder"):
        fit_head(ROWS, LABELS).probabilities(np.ones((1, 3)))
