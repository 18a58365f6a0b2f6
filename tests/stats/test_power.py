"""Power: against simulated decisions, against the interval and the test themselves, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from tellapart.stats.intervals import wilson
from tellapart.stats.paired import mcnemar
from tellapart.stats.power import detectable_above_chance, detectable_difference, find_root, power_of_difference

TRIALS = 4000


def test_a_root_is_found_by_the_steps_of_brentq():
    for shift in np.linspace(-2.0, 2.0, 20):
        for curve in (lambda x, shift=shift: np.tanh(x - shift), lambda x, shift=shift: x - shift + np.sin(3 * x)):
            assert find_root(curve, -9.0, 10.0) == pytest.approx(brentq(curve, -9.0, 10.0, xtol=1e-9), abs=2e-9)


# Four standard errors of a simulated power near 0.8.
NEAR = 4 * (0.8 * 0.2 / TRIALS) ** 0.5


@pytest.mark.parametrize(("n", "chance"), [(300, 1 / 6), (100, 1 / 4), (60, 1 / 2)])
def test_the_detectable_margin_is_detected_by_wilson_as_often_as_said(n, chance):
    margin = detectable_above_chance(n, chance)
    right = np.random.default_rng(0).binomial(n, chance + margin, TRIALS)
    above = {successes: wilson(successes, n).low > chance for successes in range(n + 1)}
    assert np.mean([above[successes] for successes in right]) == pytest.approx(0.8, abs=NEAR)


@pytest.mark.parametrize(("n", "discordance"), [(400, 0.2), (100, 0.3), (1500, 0.05)])
def test_the_detectable_difference_is_detected_by_mcnemar_as_often_as_said(n, discordance):
    difference = detectable_difference(n, discordance)
    rng = np.random.default_rng(1)
    shares = [(discordance + difference) / 2, (discordance - difference) / 2, 1 - discordance]
    found = {}
    hits = 0
    for only_a, only_b, _ in rng.multinomial(n, shares, TRIALS):
        if (only_a, only_b) not in found:
            a, b = np.repeat([1, 0], [only_a, only_b]), np.repeat([0, 1], [only_a, only_b])
            found[only_a, only_b] = only_a + only_b > 0 and mcnemar(a, b).p <= 0.05
        hits += found[only_a, only_b]
    assert hits / TRIALS == pytest.approx(0.8, abs=NEAR)


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


def test_what_no_effect_could_show_is_none():
    assert detectable_above_chance(2, 0.5) is None
    assert detectable_difference(20, 0.1) is None


def test_a_power_that_chance_alone_reaches_needs_no_difference():
    assert detectable_difference(1000, 0.5, alpha=0.5, power=0.1) == 0
