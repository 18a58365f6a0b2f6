"""Prediction-powered means: the published estimate, its laws, and refusals."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellapart.stats.prediction_powered import prediction_powered


def _draw(seed: int, n: int = 60, others: int = 400) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    people = (rng.random(n) < 0.8).astype(float)
    judge = np.where(rng.random(n) < 0.85, people, 1 - people)
    return people, judge, (rng.random(others) < 0.7).astype(float)


def test_the_estimate_is_that_of_ppi_python():
    """`ppi_mean_pointestimate` of ppi-python 0.2.3, on the same draws, gives 0.8100004272."""
    powered = prediction_powered(*_draw(7))
    assert powered.mean == pytest.approx(0.8100004272, abs=1e-9)
    assert powered.interval.low < powered.mean < powered.interval.high


@given(st.integers(0, 1000))
def test_a_judge_without_information_changes_nothing(seed):
    people, _, others = _draw(seed)
    powered = prediction_powered(people, np.zeros_like(people), np.zeros_like(others))
    assert (powered.mean, powered.weight, powered.worth) == (people.mean(), 0, len(people))


@given(st.integers(0, 1000))
def test_single_items_as_clusters_are_no_clusters(seed):
    people, judge, others = _draw(seed)
    alone = prediction_powered(people, judge, others)
    named = prediction_powered(people, judge, others, [f"a{k}" for k in range(60)], [f"b{k}" for k in range(400)])
    assert named.mean == alone.mean and named.interval.low == pytest.approx(alone.interval.low)


def test_a_perfect_judge_is_worth_all_items():
    rng = np.random.default_rng(0)
    right = (rng.random(2100) < 0.6).astype(float)
    powered = prediction_powered(right[:100], right[:100], right[100:])
    assert powered.mean == pytest.approx(right.mean(), abs=0.02)
    assert powered.worth > 800


def test_items_in_clusters_make_it_wider():
    people, judge, others = _draw(3, 120, 800)
    groups, rest = np.arange(120) // 4, np.arange(800) // 4
    tied = prediction_powered(np.repeat(people[:30], 4), np.repeat(judge[:30], 4), others, groups, rest)
    loose = prediction_powered(np.repeat(people[:30], 4), np.repeat(judge[:30], 4), others)
    assert tied.interval.high - tied.interval.low > loose.interval.high - loose.interval.low


def test_few_items_have_no_interval():
    powered = prediction_powered([1, 0, 1], [1, 0, 1], [1, 0, 1, 1])
    assert powered.interval.low is None and "3 items" in powered.interval.reason


def test_the_interval_holds_in_all_cells_of_the_simulation():
    record = json.loads((Path(__file__).parents[2] / "bench/records/prediction_powered.json").read_text())
    assert record["draws"] >= 2000 and record["lowest"] >= 0.92
    assert all(cell["shorter"] < 0.75 for cell in record["cells"] if cell["agrees"] == 0.95 and cell["p"] == 0.5)
