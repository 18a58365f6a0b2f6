"""Linear heads, and the folds in which they judge what they were not fitted to."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from tellapart.stats.held_out import fit_head, fold_of, held_out, in_order


def test_the_head_is_logistic_regression_on_standardised_features():
    rng = np.random.default_rng(0)
    features = rng.standard_normal((200, 6)) * [1, 10, 0.1, 3, 1, 1] + 5
    labels = (features[:, 0] + 0.3 * features[:, 1] + rng.standard_normal(200) > 6.5).astype(np.int64)
    scaled = (features - features.mean(axis=0)) / features.std(axis=0)
    for penalty in (1e-3, 1e-1):
        reference = LogisticRegression(C=1 / (penalty * len(labels)), tol=1e-10, max_iter=10_000)
        expected = reference.fit(scaled, labels).predict_proba(scaled)[:, 1]
        assert fit_head(features, labels, penalty=penalty).probabilities(features) == pytest.approx(expected, abs=1e-5)


def test_a_feature_that_never_moves_moves_nothing():
    rng = np.random.default_rng(1)
    features, labels = rng.standard_normal((40, 3)), np.arange(40) % 2
    with_constant = np.column_stack([features, np.full(40, 0.1) + 1e-15 * rng.standard_normal(40)])
    result = fit_head(with_constant, labels)
    assert result.weights[3] == 0
    assert result.probabilities(with_constant) == pytest.approx(fit_head(features, labels).probabilities(features))


@given(st.lists(st.sampled_from("abcdefghij"), min_size=12, max_size=60), st.integers(0, 5))
def test_folds_hold_whole_clusters_and_differ_by_one_at_most(names, seed):
    clusters = [*names, *"abcde"]
    result = fold_of(clusters, seed=seed)
    fold_by_cluster = {*zip(clusters, result.tolist(), strict=True)}
    assert len(fold_by_cluster) == len({*clusters})
    sizes = np.bincount([fold for _, fold in fold_by_cluster], minlength=5)
    assert sizes.max() - sizes.min() <= 1


def test_entries_without_a_difference_tie_and_are_half_told():
    features = np.repeat(np.random.default_rng(0).standard_normal((30, 1, 4)), 3, axis=1)
    assert in_order(held_out(features, [str(k) for k in range(30)])).tolist() == [0.5] * 30
