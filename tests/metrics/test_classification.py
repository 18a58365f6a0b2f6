"""Places of labels equal their definition, ties included, and recalls of classes are averaged as their definition
says."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score, top_k_accuracy_score

from tellapart.metrics import classification
from tellapart.metrics.classification import class_recall_table, rank_labels
from tellapart.stats.combined import MeanOfGroups


@st.composite
def tables(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Scores of few levels, so that ties are frequent, and labels."""
    classes, pictures = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    scores = draw(st.lists(st.integers(-1, 1), min_size=classes * pictures, max_size=classes * pictures))
    labels = draw(st.lists(st.integers(0, classes - 1), min_size=pictures, max_size=pictures))
    return np.array(scores, np.float32).reshape(pictures, classes), np.array(labels)


@given(tables())
def test_strict_and_neutral_are_the_worst_and_the_mean_of_every_way_to_break_ties(table):
    scores, labels = table
    ranks = rank_labels(scores, labels).ranks
    for row, (values, label) in enumerate(zip(scores, labels, strict=True)):
        for k in (1, 2, 5):
            hits = [
                label in sorted(range(len(values)), key=lambda c: (-values[c], order[c]))[:k]
                for order in permutations(range(len(values)))
            ]
            assert ranks.recall(k)[row] == min(hits)
            assert ranks.tie_neutral_recall(k)[row] == pytest.approx(np.mean(hits))


@given(tables())
def test_the_first_class_is_named_only_where_it_is_alone(table):
    scores, labels = table
    for values, first in zip(scores, rank_labels(scores, labels).first, strict=True):
        best = np.flatnonzero(values == values.max())
        assert first == (best[0] if len(best) == 1 else -1)


def test_without_ties_the_numbers_are_scikit_learns():
    rng = np.random.default_rng(0)
    labels = rng.choice(8, 300, p=[0.3, 0.2, 0.2, 0.1, 0.1, 0.05, 0.04, 0.01])
    scores = rng.normal(size=(300, 8)) + np.eye(8)[labels]
    found = rank_labels(scores, labels)
    for k in (1, 5):
        assert found.ranks.recall(k).mean() == pytest.approx(top_k_accuracy_score(labels, scores, k=k))
    recalls = class_recall_table(found.ranks.recall(1), labels, 8)
    assert MeanOfGroups(recalls.shape[-1] // 2)(recalls.mean(axis=0)) == pytest.approx(
        balanced_accuracy_score(labels, found.first)
    )


def test_a_class_without_a_picture_has_no_recall():
    table = class_recall_table(np.array([1.0, 0.0]), np.array([1, 1]), 3)
    assert table.shape == (2, 2)
    assert MeanOfGroups(table.shape[-1] // 2)(table.mean(axis=0)) == 0.5


def test_a_result_depends_on_neither_the_block_nor_the_order(monkeypatch):
    rng = np.random.default_rng(0)
    scores, labels = rng.integers(0, 4, (50, 6)).astype(np.float32), rng.integers(0, 6, 50)
    whole = rank_labels(scores, labels)
    order = rng.permutation(50)
    monkeypatch.setattr(classification, "_BLOCK", 20)
    blocks = rank_labels(scores[order], labels[order])
    assert np.array_equal(blocks.ranks.rank, whole.ranks.rank[order])
    assert np.array_equal(blocks.first, whole.first[order])


def test_scores_that_float32_cannot_tell_apart_tie():
    found = rank_labels(np.array([[1.0, 1.0 + 1e-12]]), [1])
    assert found.first.tolist() == [-1]
    assert found.ranks.tie_neutral_recall(1).tolist() == [0.5]


def test_means_over_classes_are_taken_of_each_resample():
    # Three resamples of two classes: sums of outcomes, then shares of pictures; the last drew none of the second class.
    means = np.array([[0.4, 0.2, 0.5, 0.5], [0.25, 0.0, 0.25, 0.75], [0.5, 0.0, 1.0, 0.0]])
    assert MeanOfGroups(means.shape[-1] // 2)(means).tolist() == pytest.approx([(0.8 + 0.4) / 2, (1.0 + 0.0) / 2, 0.5])
