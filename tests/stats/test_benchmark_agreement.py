"""Agreement of benchmarks: against scipy, and on tables whose structure is known."""

import numpy as np
import pytest
from scipy import stats

from tellapart.stats.benchmark_agreement import agree, items_to_tell_apart


@pytest.fixture(scope="module")
def two_skills() -> np.ndarray:
    """Sixty models; the even benchmarks measure one skill, the odd ones another."""
    rng = np.random.default_rng(5)
    skills = rng.normal(size=(60, 2))
    return np.stack([skills[:, k % 2] + 0.3 * rng.normal(size=60) for k in range(6)], axis=1)


def test_correlations_are_scipys_and_neighbours_measure_one_skill(two_skills):
    found = agree(two_skills)
    np.testing.assert_allclose(found.spearman, stats.spearmanr(two_skills).statistic, atol=1e-12)
    assert found.dimensions == 2
    assert found.shares.sum() == pytest.approx(1)
    assert found.shares[:2].sum() > 0.85
    assert {k % 2 for k in found.order[:3]} in ({0}, {1})
    assert found.nearest(0) in {2, 4}
    assert found.mean(1) == pytest.approx(np.delete(found.spearman[1], 1).mean())


def test_ties_and_monotone_changes_of_scale_count_as_ranks_do(two_skills):
    tied = np.round(two_skills, 1)
    np.testing.assert_allclose(agree(tied).spearman, stats.spearmanr(tied).statistic, atol=1e-12)
    np.testing.assert_allclose(agree(np.exp(two_skills)).spearman, agree(two_skills).spearman, atol=1e-12)


def test_unrelated_benchmarks_are_said_to_have_no_dimension_in_common():
    found = [agree(np.random.default_rng(seed).normal(size=(80, 5))).dimensions for seed in range(20)]
    assert sum(number > 0 for number in found) <= 4  # 1 in 20 is expected


def test_as_many_items_as_said_rank_drawn_models_that_reliably():
    rng = np.random.default_rng(2)
    skill = rng.uniform(0.3, 0.7, size=4000)
    needed = items_to_tell_apart(rng.binomial(5000, skill) / 5000, 5000)
    few = rng.binomial(round(needed), skill) / round(needed)
    assert np.corrcoef(few, skill)[0, 1] ** 2 == pytest.approx(0.9, abs=0.01)
