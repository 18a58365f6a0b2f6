"""Tests and intervals that hold at every look: against other formulas, and by simulation of looks."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import beta

from tellapart.stats.paired import _evidence_against, anytime_bounds, anytime_p, evidence, net_wins

COUNTS = st.integers(0, 60)


@given(COUNTS, COUNTS)
def test_the_evidence_is_a_mixture_over_a_fair_coin(b, c):
    expected = beta(b + 0.5, c + 0.5) / (beta(0.5, 0.5) * 0.5 ** (b + c))
    assert math.exp(float(evidence(b, c))) == pytest.approx(expected, rel=1e-9)
    assert anytime_p(b, c) == anytime_p(c, b) == pytest.approx(min(1, 1 / expected))


@given(COUNTS, COUNTS)
def test_the_evidence_is_a_martingale_of_a_fair_coin(b, c):
    """Its mean after one more item that differs is what it is now."""
    after = (math.exp(float(evidence(b + 1, c))) + math.exp(float(evidence(b, c + 1)))) / 2
    assert after == pytest.approx(math.exp(float(evidence(b, c))), rel=1e-9)


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
