"""Agreement: kappa against scikit-learn, its corner cases, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from facts import raises
from tellapart.errors import MetricError
from tellapart.stats.agreement import cohens_kappa, percent_agreement

labelled = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=50)


@given(labelled)
def test_kappa_equals_scikit_learn(rows):
    first, second = (list(column) for column in zip(*rows, strict=True))
    assume(len({*first, *second}) > 1)
    assert cohens_kappa(first, second) == pytest.approx(cohen_kappa_score(first, second))
    words = [["bad", "fair", "good", "odd"][code] for code in first], [f"{code}" for code in second]
    assert cohens_kappa(*words) == pytest.approx(cohen_kappa_score(*words))


@given(labelled)
def test_agreement_is_symmetric_and_full_with_oneself(rows):
    first, second = (list(column) for column in zip(*rows, strict=True))
    assert percent_agreement(first, second) == percent_agreement(second, first)
    assert cohens_kappa(first, second) == cohens_kappa(second, first)
    assert percent_agreement(first, first) == 1
    assert cohens_kappa(first, first) == (1 if len(set(first)) > 1 else None)


def test_luck_alone_has_kappa_zero():
    assert cohens_kappa([0, 0, 1, 1], [0, 1, 0, 1]) == 0


def test_percent_agreement_by_hand():
    assert percent_agreement(["a", "b", "c"], ["a", "c", "c"]) == pytest.approx(2 / 3)


@pytest.mark.parametrize("measure", [cohens_kappa, percent_agreement])
@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ([], [], ("(0,)", "(0,)")),
        ([1, 2], [1], ("(2,)", "(1,)")),
        (["1"], [1], "strings"),
        (["a", None], ["a", "b"], ("object", "<U1", "labels")),
        ([[1]], [[1]], ("label", "pass")),
    ],
)
def test_bad_labels_are_refused(measure, first, second, message):
    with raises(MetricError, measure.__name__, message):
        measure(np.array(first), np.array(second))
