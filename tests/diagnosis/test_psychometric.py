"""Psychometric functions against an independent fit, on simulated models, and at the ends of the values."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit

from tellapart.diagnosis import psychometric
from tellapart.diagnosis.psychometric import Psychometric, fit_psychometric
from tellapart.errors import MetricError

Floats = NDArray[np.float64]


def draw(
    seed: int, thresholds: tuple[float, ...], guess: float, lapse: float = 0.02, n: int = 800
) -> tuple[Floats, Floats]:
    """Draw values from 0 to 1, and outcomes of models with a slope of 12, as exactly as so many items allow."""
    rng = np.random.default_rng(seed)
    values = np.resize(np.linspace(0, 1, 41), n)
    p = guess + (1 - guess - lapse) * expit(12 * (values[:, None] - np.array(thresholds)))
    return values, (rng.random(p.shape) < p).astype(np.float64)


def test_without_guesses_and_lapses_it_is_logistic_regression(monkeypatch):
    """The same by iterated weighted least squares, which shares no line with the fit."""
    monkeypatch.setattr(psychometric, "_LAPSES", np.zeros(1))
    values, right = draw(1, (0.45,), guess=0.0, lapse=0.0)
    rows, weights = np.column_stack([np.ones(len(values)), values]), np.zeros(2)
    for _ in range(30):
        p = expit(rows @ weights)
        weights += np.linalg.solve((rows.T * (p * (1 - p))) @ rows, rows.T @ (right[:, 0] - p))
    fitted = fit_psychometric(values, right, guess=0.0, resamples=50)[0]
    assert fitted.slope == pytest.approx(weights[1], rel=1e-3)
    assert fitted.threshold == pytest.approx(-weights[0] / weights[1], abs=1e-4)
    assert fitted.at([0.2, 0.7]) == pytest.approx(expit(weights[0] + weights[1] * np.array([0.2, 0.7])), abs=1e-4)


@pytest.mark.parametrize("guess", [0.5, 0.25, 0.0])
def test_parameters_of_a_simulated_model_come_back(guess):
    fitted = fit_psychometric(*draw(2, (0.4,), guess, lapse=0.05, n=8000), guess=guess, resamples=200)[0]
    assert fitted.threshold == pytest.approx(0.4, abs=0.02)
    assert fitted.slope == pytest.approx(12, rel=0.2) and fitted.lapse == pytest.approx(0.05, abs=0.02)
    assert fitted.interval.low < 0.4 < fitted.interval.high < fitted.interval.low + 0.08
    assert fitted.p_fit is not None and fitted.p_fit > 0.01


def test_values_that_make_items_harder_give_a_falling_curve_of_the_same_threshold():
    values, right = draw(3, (0.4, 0.6), 0.5)
    rising, falling = (fit_psychometric(each, right, guess=0.5, resamples=200) for each in (values, 10 - 10 * values))
    assert [each.threshold for each in falling] == pytest.approx(
        [10 - 10 * each.threshold for each in rising], abs=1e-3
    )
    assert all(down.slope == pytest.approx(-up.slope / 10, rel=1e-3) for up, down in zip(rising, falling, strict=True))
    up, down = rising[0].minus(rising[1])[1], falling[0].minus(falling[1])[1]
    assert up.low is not None and up.high is not None
    assert (down.low, down.high) == pytest.approx((-10 * up.high, -10 * up.low))


def test_differences_are_paired_and_of_the_right_sign():
    values, right = draw(4, (0.3, 0.5), 0.25)
    near, far = fit_psychometric(values, right, guess=0.25, resamples=400)
    value, interval, p = near.minus(far)
    assert value == near.threshold - far.threshold < 0
    assert interval.high is not None and interval.high < 0 and p is not None and p < 0.01
    same = fit_psychometric(values, right[:, [0, 0]], guess=0.25, resamples=200)
    value, _, p = same[0].minus(same[1])
    assert value == 0 and p is not None and p > 0.9


def test_a_threshold_outside_of_the_values_is_said_to_be_there():
    values = np.resize(np.linspace(2, 4, 9), 180)
    rng = np.random.default_rng(5)
    right = np.column_stack([np.ones(180), rng.random(180) < 0.5, values > 3]).astype(np.float64)
    all_right, guessing, middle = fit_psychometric(values, right, guess=0.5, resamples=400)
    assert (all_right.outside, guessing.outside, middle.outside) == ("below the smallest", "above the largest", None)
    assert all_right.interval.low is None and guessing.interval.high is None
    value, interval, _ = all_right.minus(guessing)
    assert value is None and interval.low is None


def test_between_two_levels_the_interval_is_as_wide_as_the_gap():
    values = np.resize(np.arange(5.0), 200)
    fitted = fit_psychometric(values, (values > 2)[:, None], guess=0.0, resamples=100)[0]
    assert fitted.threshold == pytest.approx(2.5, abs=0.1)
    assert fitted.interval.low is not None and 2 < fitted.interval.low < 2.2
    assert fitted.interval.high is not None and 2.8 < fitted.interval.high < 3


def test_items_of_one_cluster_count_as_one():
    values, right = draw(6, (0.5,), 0.5, n=410)
    copies = np.repeat(np.arange(410), 4)
    alone = fit_psychometric(values, right, guess=0.5, resamples=400)[0]
    copied = fit_psychometric(values[copies], right[copies], copies, guess=0.5, resamples=400)[0]
    assert width(copied) == pytest.approx(width(alone), rel=0.1)
    assert width(copied) > 1.5 * width(fit_psychometric(values[copies], right[copies], guess=0.5, resamples=400)[0])


def width(fitted: Psychometric) -> float:
    low, high = fitted.interval.low, fitted.interval.high
    return high - low


def test_a_curve_that_turns_is_not_described():
    values = np.resize(np.linspace(0, 1, 20), 400)
    p = np.where(np.abs(values - 0.5) < 0.25, 1.0, 0.5)
    right = (np.random.default_rng(7).random(400) < p)[:, None]
    found = fit_psychometric(values, right, guess=0.5, resamples=50)[0].p_fit
    assert found is not None and found < 1e-6


def test_the_order_of_items_changes_nothing():
    values, right = draw(8, (0.5,), 0.5, n=200)
    values[:150] = np.linspace(0, 1, 150)  # more than 100 different ones, some of them twice
    clusters, order = np.arange(200) // 4, np.random.default_rng(0).permutation(200)
    straight, mixed = (
        fit_psychometric(values[items], right[items], clusters[items], guess=0.5, resamples=100)[0]
        for items in (np.arange(200), order)
    )
    assert straight.threshold == mixed.threshold and straight.interval == mixed.interval


def test_few_items_clusters_or_levels_are_said():
    values, right = draw(9, (0.5,), 0.5, n=100)
    assert "12 clusters" in fit_psychometric(values, right, np.arange(100) % 12, guess=0.5)[0].interval.reason
    few = fit_psychometric(values[:41], right[:41], guess=0.5)[0]
    assert "41 items" in few.interval.reason and few.minus(few)[2] is None
    with pytest.raises(MetricError, match="12 items"):
        fit_psychometric(values[:12], right[:12], guess=0.5)
    with pytest.raises(MetricError, match="2 values"):
        fit_psychometric(np.round(values), right, guess=0.5)
    with pytest.raises(MetricError, match="guess"):
        fit_psychometric(values, right, guess=1.0)
    with pytest.raises(MetricError, match="0 and 1"):
        fit_psychometric(values, right / 2, guess=0.5)
