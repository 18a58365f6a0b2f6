"""Item analysis and linear heads: against other formulas, laws, suspects that were planted, and folds."""

from functools import partial
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import pointbiserialr, t
from sklearn.linear_model import LogisticRegression

from tellapart.stats.held_out import fit_head, fold_of, held_out, in_order
from tellapart.stats.item_analysis import (
    expected_outcomes,
    fit_rasch,
    item_statistics,
    items_needed,
    order_items,
    reliability,
    shared_residuals,
    try_short_forms,
)
from tellapart.stats.paired import pair_tests
from tellapart.stats.power import power_of_difference


def draw(items=40, systems=30, seed=0, slope=1.0):
    rng = np.random.default_rng(seed)
    able, hard = rng.standard_normal(systems), rng.standard_normal(items)
    return (rng.random((items, systems)) < expit(slope * (able - hard[:, None]))).astype(float)


OUTCOMES = st.tuples(st.integers(3, 9), st.integers(6, 12), st.integers(0, 10_000)).map(lambda size: draw(*size))


def test_discrimination_and_alpha_are_those_of_the_textbooks():
    values = draw()
    found = item_statistics(values).discrimination
    for item, row in enumerate(values):
        if 0 < row.mean() < 1:
            others = np.delete(values, item, axis=0).mean(axis=0)
            assert found[item] == pytest.approx(pointbiserialr(row, others).statistic, abs=1e-12)
        else:
            assert np.isnan(found[item])
    found, count, share = reliability(values), len(values), values.mean(axis=1)
    total = values.sum(axis=0)
    assert found.alpha == pytest.approx(count / (count - 1) * (1 - (share * (1 - share)).sum() / total.var()))
    covariance = np.cov(values)
    off = covariance.sum() - np.trace(covariance)
    assert found.alpha == pytest.approx(count / (count - 1) * off / covariance.sum())
    assert found.measurement_error == pytest.approx(found.spread * np.sqrt(1 - found.alpha))


def alpha_among(values, families, without=None):
    """Cronbach's alpha, its variances taken from all pairs of systems of two families, without one family."""
    pairs = [
        pair
        for pair in combinations(range(len(families)), 2)
        if families[pair[0]] != families[pair[1]] and without not in families[list(pair)]
    ]
    first, second = np.array(pairs).T
    apart = np.vstack([values, values.sum(axis=0)])
    variances = ((apart[:, first] - apart[:, second]) ** 2).mean(axis=1) / 2
    return len(values) / (len(values) - 1) * (1 - variances[:-1].sum() / variances[-1])


@pytest.mark.parametrize("size", [1, 3])
def test_intervals_are_those_of_leaving_out_one_family_after_the_other(size):
    values = draw(systems=30)
    families = np.arange(30) // size
    found, whole, count = item_statistics(values, families), reliability(values, families), 30 // size
    quantile = t.ppf(0.975, count - 1)

    def left_out(statistic):
        return np.array([statistic(values[:, families != each]) for each in range(count)])

    def discriminate(item, kept):
        return item_statistics(kept).discrimination[item]

    for item in (0, 7, 20):
        draws = np.arctanh(left_out(partial(discriminate, item)))
        half = quantile * np.sqrt((count - 1) * draws.var())
        centre = np.arctanh(found.discrimination[item])
        assert np.tanh([centre - half, centre + half]) == pytest.approx([found.low[item], found.high[item]])
    draws = np.log(1 - np.array([alpha_among(values, families, each) for each in range(count)]))
    half = quantile * np.sqrt((count - 1) * draws.var())
    centre = np.log(1 - alpha_among(values, families))
    assert (size > 1) != (1 - np.exp(centre) == pytest.approx(whole.alpha))
    assert [1 - np.exp(centre + half), 1 - np.exp(centre - half)] == pytest.approx([whole.low, whole.high])


@given(OUTCOMES, st.integers(0, 1000))
@settings(max_examples=25)
def test_no_order_of_items_changes_an_item(values, seed):
    order = np.random.default_rng(seed).permutation(len(values))
    found, moved = item_statistics(values), item_statistics(values[order])
    for name in ("right", "discrimination", "low", "high", "p", "p_holm", "p_fdr"):
        np.testing.assert_allclose(getattr(moved, name), getattr(found, name)[order], atol=1e-9)
    assert reliability(values[order]).alpha == pytest.approx(reliability(values).alpha)


@given(OUTCOMES)
@settings(max_examples=25)
def test_copies_of_a_family_are_no_evidence_and_turned_labels_turn_difficulty_alone(values):
    systems = np.arange(values.shape[1])
    once, twice = item_statistics(values), item_statistics(np.hstack([values, values]), np.tile(systems, 2))
    for name in ("right", "discrimination", "low", "high", "p"):
        np.testing.assert_allclose(getattr(twice, name), getattr(once, name), atol=1e-9)
    one, two = reliability(values), reliability(np.hstack([values, values]), np.tile(systems, 2))
    if one.alpha is not None and one.low is not None:
        assert [two.alpha, two.low, two.high] == pytest.approx([one.alpha, one.low, one.high])
    found, turned = item_statistics(values), item_statistics(1 - values)
    np.testing.assert_allclose(turned.right, 1 - found.right)
    np.testing.assert_allclose(turned.discrimination, found.discrimination, atol=1e-9)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_systems_that_all_answer_alike_show_nothing(value):
    values = np.full((6, 8), value)
    found, whole = item_statistics(values), reliability(values)
    assert np.isnan(found.discrimination).all() and np.isnan(found.p).all() and found.right.tolist() == [value] * 6
    assert (whole.alpha, whole.low, whole.spread, whole.sampling_error) == (None, None, 0, 0)
    assert pair_tests(values, None).p.tolist() == [1.0] * 28 and shared_residuals(values) == []


def test_an_item_with_its_label_turned_round_is_the_suspect_and_noise_is_none():
    values = draw(items=100, systems=55, slope=2)
    best = int(np.nanargmax(item_statistics(values).discrimination))
    values[best] = 1 - values[best]
    found = item_statistics(values)
    assert np.flatnonzero(found.p_fdr <= 0.05).tolist() == np.flatnonzero(found.p_holm <= 0.05).tolist() == [best]
    rng = np.random.default_rng(1)
    values = np.vstack([draw(items=60, systems=40), rng.random((1000, 40)) < rng.uniform(0.1, 0.9, (1000, 1))])
    p = item_statistics(values).p[60:]
    assert 0.02 < (p <= 0.05).mean() < 0.075
    assert np.nanmin(item_statistics(values).p_holm) > 0.05


def test_fewer_than_five_families_or_an_alpha_of_one_give_no_interval_and_no_warning():
    values = draw(systems=12)
    found = item_statistics(values, np.arange(12) % 4)
    assert np.isnan(found.low).all() and reliability(values, np.arange(12) % 4).low is None
    rounded = np.ones((6, 6))
    rounded[:, 0] = rounded[0, 1] = 0  # without system 1 all items are alike
    exact = np.ones((2, 6))
    exact[:, :3] = exact[0, 3] = 0
    for values in (rounded, exact):
        found = reliability(values)
        assert (found.low, found.high) == (None, None) and 0.5 < found.alpha < 1


def test_items_needed_are_the_fewest_with_that_power():
    values = draw(items=200)
    right = values.T @ values
    only = right.diagonal()[:, None] - right
    both = np.median([min(only[a, b], only[b, a]) for a, b in combinations(range(values.shape[1]), 2)]) / 200
    needed = items_needed(values, 0.1)
    assert (
        power_of_difference(0.1, needed, 0.1 + 2 * both) >= 0.8 > power_of_difference(0.1, needed - 1, 0.1 + 2 * both)
    )


def test_items_that_share_an_answer_are_a_group_and_difficulty_alone_makes_none():
    values = draw(items=60, systems=80)
    assert shared_residuals(values) == []
    shared = np.random.default_rng(5).random(80) < 0.5
    assert shared_residuals(np.vstack([values, shared, shared, 1 - shared])) == [[60, 61]]


def test_a_rasch_model_is_the_maximum_of_its_likelihood_without_what_has_no_estimate():
    values = draw(items=12, systems=30, seed=3)
    values = values[:, (values.mean(axis=0) > 0) & (values.mean(axis=0) < 1)]
    items, systems = values.shape

    def loss(parameters):
        logit = parameters[items:] - parameters[:items, None]
        return np.logaddexp(0, logit).sum() - (values * logit).sum() + parameters[:items].sum() ** 2

    best = minimize(loss, np.zeros(items + systems), method="BFGS", options={"gtol": 1e-6}).x
    found = fit_rasch(values, least=2)
    np.testing.assert_allclose(found.difficulty * items / (items - 1), best[:items], atol=1e-4)
    np.testing.assert_allclose(found.ability * items / (items - 1), best[items:], atol=1e-4)
    expected = expected_outcomes(values)
    np.testing.assert_allclose(expected.sum(axis=0), values.sum(axis=0), atol=1e-6)
    np.testing.assert_allclose(expected.sum(axis=1), values.sum(axis=1), atol=1e-6)
    values = draw(systems=40)
    values[3], values[:, 5] = 1, 0
    values[3, 5] = 0
    found = fit_rasch(values)
    assert np.isnan(found.difficulty[3]) and np.isnan(found.ability[5]) and np.isfinite(found.difficulty).sum() >= 35


def test_short_forms_are_nested_and_each_step_adds_the_item_that_correlates_most_with_the_score_on_all():
    values = draw(items=25, systems=20)
    order = order_items(values)
    assert order[:8] == order_items(values, 8) and sorted(order) == list(range(25))
    total = values.sum(axis=0)

    def correlate(form):
        score = values[form].sum(axis=0)
        return np.corrcoef(score, total)[0, 1] if np.ptp(score) else -1

    for size in (1, 5, 9):
        best = max(correlate([*order[: size - 1], item]) for item in set(range(25)) - set(order[: size - 1]))
        assert correlate(order[:size]) == pytest.approx(best, abs=1e-8)


def test_short_forms_beat_random_items_if_items_differ_and_families_are_on_one_side():
    rng = np.random.default_rng(0)
    able = rng.standard_normal(60)
    useful = rng.random((30, 60)) < expit(3 * able - rng.standard_normal((30, 1)))
    noise = rng.random((60, 60)) < 0.5
    short = try_short_forms(np.vstack([useful, noise]), None, [15])[0]
    assert short.error < 0.8 * short.random_error and short.ordered > short.random_ordered + 0.05
    guessed = try_short_forms(rng.random((200, 60)) < 0.5, None, [15])[0]
    assert abs(guessed.ordered - guessed.random_ordered) < 0.06
    # Copies of a system: with them on both sides a form of two items would order them all.
    rng = np.random.default_rng(0)
    values = np.repeat(rng.random((80, 6)) < 0.5, 5, axis=1)
    copies = np.repeat(np.arange(6), 5)
    apart, mixed = try_short_forms(values, copies, [5])[0], try_short_forms(values, None, [5])[0]
    assert mixed.error < 0.3 * apart.error


def test_the_head_is_logistic_regression_on_standardised_features_and_one_that_never_moves_is_nothing():
    rng = np.random.default_rng(0)
    features = rng.standard_normal((200, 6)) * [1, 10, 0.1, 3, 1, 1] + 5
    labels = (features[:, 0] + 0.3 * features[:, 1] + rng.standard_normal(200) > 6.5).astype(np.int64)
    scaled = (features - features.mean(axis=0)) / features.std(axis=0)
    for penalty in (1e-3, 1e-1):
        reference = LogisticRegression(C=1 / (penalty * len(labels)), tol=1e-10, max_iter=10_000)
        expected = reference.fit(scaled, labels).predict_proba(scaled)[:, 1]
        assert fit_head(features, labels, penalty=penalty).probabilities(features) == pytest.approx(expected, abs=1e-5)
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
