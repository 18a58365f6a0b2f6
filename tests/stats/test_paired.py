"""Two runs and several: exact tests, sign flips, differences, tests at every look, power, and adjusted p-values."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import beta
from scipy.stats import binomtest, false_discovery_control, permutation_test

from tellapart.stats.bootstrap import cluster_bootstrap
from tellapart.stats.intervals import wilson
from tellapart.stats.multiple import benjamini_hochberg, holm
from tellapart.stats.paired import (
    _evidence_against,
    anytime_bounds,
    anytime_p,
    evidence,
    mcnemar,
    mcnemar_p,
    net_wins,
    pair_tests,
    paired,
    paired_difference,
    paired_permutation,
    sign_flip_p,
)
from tellapart.stats.power import detectable_above_chance, detectable_difference, find_root, power_of_difference

outcomes = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=60)
clustered = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 12)), min_size=1, max_size=60)


def columns(rows):
    return [list(column) for column in zip(*rows, strict=True)]


@given(outcomes)
def test_mcnemar_counts_what_differs_and_its_p_is_that_of_its_counts(rows):
    found = mcnemar(*columns(rows))
    only_a, only_b = sum(a > b for a, b in rows), sum(b > a for a, b in rows)
    assert (found.only_a, found.only_b, found.n) == (only_a, only_b, len(rows))
    assert found.p == mcnemar_p(only_a, only_b)


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 400)), min_size=1, max_size=8))
def test_each_exact_test_is_the_two_sided_binomial_test(counts):
    only_a, only_b = np.array(counts).T
    expected = [min(1.0, binomtest(a, a + b, 0.5).pvalue) if a + b else 1.0 for a, b in counts]
    assert mcnemar_p(only_a, only_b).tolist() == mcnemar_p(only_b, only_a).tolist()
    assert mcnemar_p(only_a, only_b) == pytest.approx(expected, rel=1e-12)  # last bits differ in scipy's versions


@given(outcomes.filter(lambda rows: sum(a != b for a, b in rows) <= 13))
def test_flipping_lone_outcomes_is_mcnemar(rows):
    a, b = columns(rows)
    assert paired_permutation(a, b, None) == pytest.approx(mcnemar(a, b).p)


def test_the_enumerated_sign_flip_equals_scipy_drawn_ones_come_near_and_a_chunk_does_not_show():
    change = np.random.default_rng(0).normal(size=9)
    reference = permutation_test(
        (change, np.zeros(9)), lambda x, y: (x - y).sum(), permutation_type="samples", n_resamples=np.inf
    )
    assert paired_permutation(change, np.zeros(9), None) == pytest.approx(reference.pvalue)
    rng = np.random.default_rng(1)
    a, b = rng.random(12) + 0.25, rng.random(12)
    exact, drawn = paired_permutation(a, b, None), paired_permutation(a, b, None, resamples=4000)
    assert exact != drawn
    assert drawn == pytest.approx(exact, abs=4 * (exact * (1 - exact) / 4000) ** 0.5)
    change = np.random.default_rng(2).integers(-9, 9, 700).astype(float)[:, None]
    sums = np.concatenate([change, np.zeros_like(change)], axis=1)
    pair = np.array([[0, 1]])
    alone = sign_flip_p(sums, pair, np.abs(change.sum(axis=0)), resamples=3000, seed=4)[0]
    rng, hits = np.random.default_rng(4), 0
    bits = rng.integers(0, 2, size=(3000, 700), dtype=np.int8)
    for row in bits:
        hits += abs(sum(np.where(row == 1, change[:, 0], -change[:, 0]))) >= abs(change.sum())
    assert alone == (1 + hits) / 3001


def test_mcnemar_finds_too_much_in_clusters_and_the_sign_flip_does_not():
    rng = np.random.default_rng(3)
    codes, hits = np.repeat(np.arange(30), 8), np.zeros(2)
    for _ in range(300):
        shared = rng.integers(0, 3, 30)[codes]  # a cluster's items are all the same: A, B or neither is right
        a, b = (shared == 0).astype(int), (shared == 1).astype(int)
        hits += mcnemar(a, b).p <= 0.05, paired_permutation(a, b, codes, resamples=1000) <= 0.05
    assert hits[0] / 300 > 0.3 and hits[1] / 300 < 0.08


def test_a_paired_interval_is_narrower_than_the_runs_own_where_they_agree_and_has_the_minima_s_difference():
    rng = np.random.default_rng(5)
    hard = rng.random(400)
    a, b = hard < 0.6, hard < 0.5
    found, own = paired_difference(a, b, None, binary=True), cluster_bootstrap(a, None)
    assert 0 < found.low < found.value < found.high
    assert found.high - found.low < own.high - own.low
    rng = np.random.default_rng(6)
    a, b = rng.integers(0, 2, (90, 2)), rng.integers(0, 2, (90, 2))
    found = paired_difference(a, b, None, binary=True, reduce=lambda means: means.min(axis=-1))
    assert found.value == pytest.approx(a.mean(axis=0).min() - b.mean(axis=0).min())
    assert found.low < found.value < found.high


def test_differences_that_hardly_vary_have_bonett_and_prices_interval_or_the_reason_why_not():
    # Closed form of the paper: pseudo-shares (1 + count) / (n + 2) of items only A and only B got right.
    a, b = np.zeros(50), np.zeros(50)
    a[:6], b[6:8] = 1, 1
    found = paired_difference(a, b, None, binary=True)
    only_a, only_b = 7 / 52, 3 / 52
    half = 1.959964 * ((only_a + only_b - (only_a - only_b) ** 2) / 52) ** 0.5
    assert (found.method, found.value) == ("bonett-price (8 clusters differ)", pytest.approx(4 / 50))
    assert (found.low, found.high) == pytest.approx((only_a - only_b - half, only_a - only_b + half), abs=1e-6)
    found = paired_difference(np.ones(40), np.ones(40), None, binary=True)
    assert found.value == 0 and found.low == pytest.approx(-found.high) and 0.02 < found.high < 0.1
    found = paired_difference([1.0] * 5, [-1.0] * 5, None, binary=False)
    assert found.low < 2 == found.value <= found.high
    codes = np.repeat(np.arange(30), 1 + np.arange(30) % 4)
    a = np.where(codes < 3, 0.2, 0.7)
    found = paired_difference(a, np.zeros(len(a)), codes, binary=False)
    assert (found.low, found.reason) == (None, "too few for an interval: 3 of 30 clusters differ from the others")
    found = paired_difference([1, 0, 1], [0, 0, 1], ["x"] * 3, binary=True)
    assert (found.value, found.low, found.high, found.method) == (pytest.approx(1 / 3), None, None, "none: 1 cluster")


@pytest.mark.parametrize(("per_cluster", "right"), [(1, 1), (2, 1), (2, 2)])
def test_a_difference_that_is_the_same_everywhere_still_has_a_width(per_cluster, right):
    a = np.tile(np.arange(per_cluster) < right, 24).astype(float)
    found = paired_difference(a, np.zeros(len(a)), np.repeat(np.arange(24), per_cluster), binary=True)
    assert found.value == right / per_cluster
    assert found.low < found.value <= found.high
    assert found.method == "bonett-price (0 clusters differ from the others)"


@settings(max_examples=50)
@given(clustered)
def test_no_difference_of_outcomes_is_without_a_width(rows):
    a, b, codes = columns(rows)
    found = paired_difference(a, b, codes, binary=True)
    assert found.low is None or found.low < found.high


@pytest.mark.parametrize(("items", "share"), [(24, 0.97), (50, 0.97), (100, 0.99), (7, 0.5)])
def test_a_difference_near_all_items_covers(items, share):
    # 24 items at .97: the bootstrap covered .50, since half of such sets have no item that differs from the others.
    rng = np.random.default_rng(14)
    hits, truth = 0, share if share > 0.5 else 0.0
    for _ in range(200):
        a = rng.random(items) < share
        found = paired_difference(a, np.zeros(items) if share > 0.5 else ~a, None, binary=True)
        hits += found.low <= truth <= found.high
    assert hits / 200 >= 0.92


@pytest.mark.parametrize("groups", [40, 13])
def test_a_comparison_is_its_parts_with_b_minus_a(groups):
    rng = np.random.default_rng(3)
    a, b = (rng.random((2, 40)) < [[0.4], [0.7]]).astype(float)
    clusters = [str(k % groups) for k in range(40)]
    found = paired(a, b, clusters, flips=2_000, seed=5)
    exact = groups == 40
    assert found.difference == paired_difference(b, a, clusters, binary=True, seed=5)
    assert (found.n, found.clusters, found.a, found.b) == (40, groups, a.mean(), b.mean())
    assert (found.only_a, found.only_b) == (int((a > b).sum()), int((b > a).sum()))
    assert found.p == (mcnemar(a, b).p if exact else paired_permutation(a, b, clusters, resamples=2_000, seed=5))
    assert (found.test, found.flips) == (("exact McNemar", None) if exact else ("cluster sign flips", 2_000))
    assert found.detectable == detectable_difference(40, (found.only_a + found.only_b) / 40)
    mirrored = paired(b, a, clusters, flips=2_000, seed=5)
    assert (mirrored.only_a, mirrored.only_b, mirrored.p) == (found.only_b, found.only_a, found.p)


def test_values_that_differ_by_rounding_tie_and_no_run_is_better_against_its_mean():
    a, b = [0.3, 0.5, 0.75], [0.1 + 0.2, 0.5, 0.5]
    assert a[0] != b[0]
    found = paired(a, b, None)
    assert (found.only_a, found.only_b, found.p) == (1, 0, paired_permutation(a, b, None))
    # A cluster whose gains and losses are the same has no winner.
    looked = paired([0.1, 0.2, 0.0, 1.0], [0.0, 0.0, 0.3, 0.0], ["x", "x", "x", "y"], anytime=True)
    assert looked.p == anytime_p(1, 0)
    groups = np.arange(2000) // 20
    a = np.where(groups < 90, 0, 1)
    b = np.where((groups < 90) & (np.arange(2000) % 20 == 0), 1, 0)  # one item of 90 clusters, none of 20 of ten
    found = paired(a, b, groups, anytime=True)
    assert (found.difference.value, found.p) == (pytest.approx(-0.055), 1.0)
    few = paired(a[:1840], b[:1840], groups[:1840], anytime=True)  # with two such clusters both point to b
    assert few.difference.value > 0 and few.p == anytime_p(90, 2)


def test_every_two_of_several_runs_are_tested_as_two_are():
    values = (np.random.default_rng(1).random((30, 4)) < [0.2, 0.4, 0.6, 0.8]).astype(float)
    for clusters, near in ((None, 0), ([str(k // 2) for k in range(30)], 0.02)):
        tests = pair_tests(values, clusters)
        assert len(tests.pairs) == 6
        for (a, b), p, difference in zip(tests.pairs, tests.p, tests.differences, strict=True):
            alone = paired(values[:, a], values[:, b], clusters)
            assert (difference, tests.test) == (pytest.approx(-alone.difference.value), alone.test)
            assert p == pytest.approx(alone.p, abs=near)


def test_items_in_clusters_detect_what_as_many_independent_ones_would():
    a, b = (np.random.default_rng(seed).integers(0, 2, 100) for seed in (0, 1))
    alone, repeated = paired(a, b, None), paired(np.repeat(a, 4), np.repeat(b, 4), np.repeat(np.arange(100), 4))
    assert alone.detectable is not None and repeated.detectable == pytest.approx(alone.detectable, rel=0.02)
    apart = paired(np.repeat(a, 4), np.repeat(b, 4), None)
    assert apart.detectable is not None and apart.detectable < 0.6 * alone.detectable
    same = paired(np.zeros(40), np.ones(40), np.repeat(np.arange(10), 4))  # the changes do not show what they are worth
    assert same.detectable == paired(np.zeros(10), np.ones(10), None).detectable


COUNTS = st.integers(0, 60)


@given(COUNTS, COUNTS)
def test_the_evidence_is_a_martingale_of_a_fair_coin(b, c):
    """Its mean after one more item that differs is what it is now."""
    after = (math.exp(float(evidence(b + 1, c))) + math.exp(float(evidence(b, c + 1)))) / 2
    assert after == pytest.approx(math.exp(float(evidence(b, c))), rel=1e-9)
    expected = beta(b + 0.5, c + 0.5) / (beta(0.5, 0.5) * 0.5 ** (b + c))
    assert math.exp(float(evidence(b, c))) == pytest.approx(expected, rel=1e-9)
    assert anytime_p(b, c) == anytime_p(c, b) == pytest.approx(min(1, 1 / expected))


def fortune(counts: tuple[int, int, int], difference: float) -> float:
    """The mean over stakes, by quadrature over the arcsine law's angle."""
    least, most = -1 / (1 - difference), 1 / (1 + difference)
    steps = (1 - difference, -1 - difference, -difference)

    def grown(angle: float) -> float:
        stake = (least + most) / 2 + (most - least) / 2 * math.cos(angle)
        return math.prod((1 + stake * step) ** n for n, step in zip(counts, steps, strict=True))

    return float(quad(grown, 0, math.pi, limit=200)[0] / math.pi)


@pytest.mark.parametrize("counts", [(30, 10, 60), (5, 0, 40), (0, 0, 30), (12, 12, 0), (1, 7, 2)])
def test_the_bounds_are_where_the_evidence_is_twenty(counts):
    low, high = anytime_bounds(*counts)
    assert -1 <= low <= (counts[0] - counts[1]) / sum(counts) <= high <= 1
    for bound in (low, high):
        assert fortune(counts, bound) == pytest.approx(20, rel=1e-4)
    turned = anytime_bounds(counts[1], counts[0], counts[2])
    assert turned == pytest.approx((-high, -low), abs=1e-8)


@given(COUNTS, COUNTS, COUNTS)
def test_the_bounds_leave_no_difference_out_exactly_where_p_is_small(b, c, same):
    assume(b + c + same > 0 and abs(anytime_p(b, c) - 0.05) > 1e-6)
    low, high = anytime_bounds(b, c, same)
    assert (low > 0 or high < 0) == (anytime_p(b, c) < 0.05)


def looks(rng: np.random.Generator, items: int, discordant: float, won: float) -> NDArray[np.int64]:
    """Counts after each item, int `(item, 2)`: A alone and B alone."""
    differs = rng.random(items) < discordant
    wins = rng.random(items) < won
    return np.stack([(differs & wins).cumsum(), (differs & ~wins).cumsum()], axis=1)


@pytest.mark.parametrize(("discordant", "won"), [(0.2, 0.5), (0.2, 0.75), (0.05, 0.9), (0.5, 0.4)])
def test_the_difference_is_inside_at_every_look(discordant, won):
    rng = np.random.default_rng(2)
    true, missed = discordant * (2 * won - 1), 0
    for _ in range(200):
        counts = looks(rng, 200, discordant, won)
        at = np.unique(np.geomspace(1, 200, 30).astype(int))
        against = [_evidence_against((*counts[n - 1], n - counts[n - 1].sum()), true) for n in at]
        missed += max(against) >= math.log(20)
    assert missed / 200 <= 0.05


def test_clusters_win_or_lose_as_one():
    a, b = [1, 1, 0, 1, 0, 0], [0, 0, 1, 1, 0, 1]
    assert net_wins(a, b, None) == (2, 2, 2)
    assert net_wins(a, b, ["x", "x", "x", "y", "y", "z"]) == (1, 1, 1)


TRIALS = 4000
# Four standard errors of a simulated power near 0.8.
NEAR = 4 * (0.8 * 0.2 / TRIALS) ** 0.5


def test_a_root_is_found_by_the_steps_of_brentq():
    for shift in np.linspace(-2.0, 2.0, 20):
        for curve in (lambda x, shift=shift: np.tanh(x - shift), lambda x, shift=shift: x - shift + np.sin(3 * x)):
            assert find_root(curve, -9.0, 10.0) == pytest.approx(brentq(curve, -9.0, 10.0, xtol=1e-9), abs=2e-9)


@pytest.mark.parametrize(("n", "chance"), [(300, 1 / 6), (100, 1 / 4), (60, 1 / 2)])
def test_the_detectable_margin_is_detected_by_wilson_as_often_as_said(n, chance):
    margin = detectable_above_chance(n, chance)
    right = np.random.default_rng(0).binomial(n, chance + margin, TRIALS)
    above = {successes: wilson(successes, n).low > chance for successes in range(n + 1)}
    assert np.mean([above[successes] for successes in right]) == pytest.approx(0.8, abs=NEAR)


@pytest.mark.parametrize(("n", "discordance"), [(400, 0.2), (100, 0.3), (1500, 0.05)])
def test_the_detectable_difference_is_detected_by_mcnemar_as_often_as_said(n, discordance):
    difference = detectable_difference(n, discordance)
    shares = [(discordance + difference) / 2, (discordance - difference) / 2, 1 - discordance]
    only_a, only_b, _ = np.random.default_rng(1).multinomial(n, shares, TRIALS).T
    assert (mcnemar_p(only_a, only_b) <= 0.05).mean() == pytest.approx(0.8, abs=NEAR)


@settings(max_examples=60)
@given(st.integers(1, 80), st.floats(0.05, 0.95))
def test_power_counts_exactly_the_outcomes_whose_interval_lies_above_chance(n, chance):
    from scipy.stats import binom

    above = [k for k in range(n + 1) if wilson(k, n).low > chance]
    margin = detectable_above_chance(n, chance, power=0.7)
    assert (margin is None) == (not above)
    if margin is not None:
        assert binom.pmf(above, n, chance + margin).sum() == pytest.approx(0.7, abs=1e-9)


@given(st.integers(1, 200), st.floats(0.02, 1.0), st.floats(0, 1))
def test_power_is_the_same_for_either_run_and_at_least_that_of_no_difference(n, discordance, part):
    difference = part * discordance
    power = power_of_difference(difference, n, discordance)
    assert power == pytest.approx(power_of_difference(-difference, n, discordance))
    assert power_of_difference(0, n, discordance) <= power + 1e-9
    assert power_of_difference(0, n, discordance) <= 0.05


def test_what_no_effect_could_show_is_none_and_what_chance_reaches_needs_no_difference():
    assert detectable_above_chance(2, 0.5) is None
    assert detectable_difference(20, 0.1) is None
    assert detectable_difference(1000, 0.5, alpha=0.5, power=0.1) == 0


p_lists = st.lists(st.floats(0, 1), min_size=1, max_size=30)
# Benjamini & Hochberg (1995), section 4.1: fifteen p-values of a thrombolysis trial. At 0.05, Bonferroni and Holm's
# kind of control reject three hypotheses, theirs rejects four.
THROMBOLYSIS = [
    *(0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344),
    *(0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000),
]


def test_the_published_example_rejects_what_the_paper_says():
    assert (holm(THROMBOLYSIS) <= 0.05).sum() == 3
    assert (benjamini_hochberg(THROMBOLYSIS) <= 0.05).sum() == 4


@given(p_lists)
def test_holm_lies_between_the_raw_p_and_bonferroni_and_benjamini_hochberg_is_scipys(p_values):
    raw, adjusted = np.array(p_values), holm(p_values)
    assert (adjusted >= raw).all()
    assert (adjusted <= np.minimum(1, raw * len(raw))).all()
    assert (np.diff(adjusted[np.argsort(raw, kind="stable")]) >= 0).all()
    adjusted = benjamini_hochberg(p_values)
    assert adjusted == pytest.approx(false_discovery_control(p_values))
    assert (adjusted <= holm(p_values) * (1 + 1e-12)).all()


@given(p_lists, st.floats(0.001, 0.5))
def test_holm_rejects_exactly_what_the_step_down_procedure_rejects(p_values, alpha):
    over = [p * (len(p_values) - step) > alpha for step, p in enumerate(sorted(p_values))]
    assert (holm(p_values) <= alpha).sum() == [*over, True].index(True)
