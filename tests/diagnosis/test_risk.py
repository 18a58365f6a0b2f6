"""Risk over coverage is that of the definition, whatever the order of items, and its interval holds its level."""

import math
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chi2

import tellapart as ta
from facts import raises
from tellapart.diagnosis.risk import MARGINS, area_bounds, draw_areas, draw_many, margin_of, risk_curve
from tellapart.errors import RunError
from tellapart.metrics.registry import METRICS
from tellapart.stats import bootstrap

DECISIONS = st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=6)


def split(decisions: list[tuple[int, bool]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    margins, wrong = zip(*decisions, strict=True)
    return np.array(margins, float), np.array(wrong, float)


@given(DECISIONS)
def test_the_curve_is_the_mean_over_all_orders_of_equal_margins(decisions):
    curves = []
    for order in permutations(range(len(decisions))):
        margins, wrong = split([decisions[k] for k in order])
        if (np.diff(margins) <= 0).all():
            curves.append([math.fsum(wrong[:k]) / k for k in range(1, len(wrong) + 1)])
    np.testing.assert_allclose(risk_curve(*split(decisions)), np.mean(curves, axis=0), atol=1e-12)


@given(DECISIONS, st.randoms())
def test_neither_order_nor_a_growing_function_of_the_margin_changes_the_curve(decisions, random):
    curve = risk_curve(*split(decisions))
    shuffled = random.sample(decisions, len(decisions))
    np.testing.assert_allclose(risk_curve(*split(shuffled)), curve, atol=1e-12)
    margins, wrong = split(decisions)
    np.testing.assert_allclose(risk_curve(np.exp(margins), wrong), curve, atol=1e-12)
    assert curve[-1] == pytest.approx(wrong.mean())
    assert risk_curve(1 - wrong, wrong).mean() <= curve.mean() + 1e-12
    np.testing.assert_allclose(risk_curve(np.zeros(len(wrong)), wrong), wrong.mean(), atol=1e-12)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.integers(0, 2)), min_size=2, max_size=12), st.integers(0, 9)
)
def test_a_draw_is_the_area_of_the_items_as_often_as_their_clusters_were_drawn(rows, seed):
    margins, wrong, names = (np.array(column, float) for column in zip(*rows, strict=True))
    codes = np.unique(names, return_inverse=True)[1]
    clusters = int(codes.max()) + 1
    drawn = draw_areas(margins, wrong, codes, seed)
    times = np.concatenate(list(bootstrap.yield_times(clusters, len(drawn), seed))).astype(int)
    for k in (0, 1, 77):
        copies = np.repeat(np.arange(len(codes)), times[k][codes])
        assert drawn[k] == pytest.approx(risk_curve(margins[copies], wrong[copies]).mean(), abs=1e-9)


@given(st.lists(st.floats(-5, 5, width=32), min_size=4, max_size=4))
def test_a_margin_is_the_smallest_gap_of_the_metrics_comparisons(scores):
    table = np.array(scores).reshape(2, 2)
    rows, columns = np.abs(np.diff(table, axis=1)).min(), np.abs(np.diff(table, axis=0)).min()
    assert margin_of(table, "text_score") == margin_of(table.T, "image_score") == rows
    assert margin_of(table, "group_score") == min(rows, columns)
    assert margin_of(table[:1], "choice_score") == abs(table[0, 0] - table[0, 1])
    assert margin_of(table[:1].T, "choice_score") == abs(table[0, 0] - table[0, 1])


@pytest.mark.parametrize("metric", sorted(MARGINS))
def test_an_outcome_changes_only_where_the_margin_is_gone(metric):
    """An item's outcome stays while every score moves by less than half of its margin."""
    rng = np.random.default_rng(3)
    shape = {"itt": (1, 3), "choice_score": (1, 4), "pairwise": (1, 2), "set_score": (3, 3)}.get(metric, (2, 2))
    scores = rng.random((200, *shape))
    reach = np.array([margin_of(item, metric) for item in scores])[:, None, None] * 0.49
    moved = scores + reach * rng.choice([-1, 1], scores.shape)
    per_item = METRICS[metric].per_item
    np.testing.assert_array_equal(per_item(scores), per_item(moved))


def scored(tmp_path: Path, name: str, gap: float, n: int = 400) -> ta.Run:
    rng = np.random.default_rng(len(name))
    return ta.score("demo", rng.random((n, 2, 2)) + gap * np.eye(2), name=name, out=tmp_path / name)


def test_models_are_compared_on_the_same_items(tmp_path, command):
    found = ta.risk(scored(tmp_path, "keen", 0.6), scored(tmp_path, "dull", 0.1), metric="text_score")
    keen, dull = found.record.rows
    assert keen.area < keen.risk < dull.risk and keen.least < keen.low < keen.area < keen.high < dull.low
    (pair,) = found.record.differences
    assert pair.low < pair.difference == dull.area - keen.area < pair.high
    assert found["model"] == ["keen", "dull"]
    shown = command("risk", str(tmp_path / "keen"), str(tmp_path / "dull"))
    assert shown.code == 0 and "area" in shown.out


def test_the_picture_names_the_models(tmp_path):
    pytest.importorskip("matplotlib", reason="pictures need the extra 'plot'")
    picture = tmp_path / "risk.svg"
    ta.risk(scored(tmp_path, "keen", 0.6), out=picture)
    assert "coverage" in picture.read_text() and "keen" in picture.read_text()


def test_few_errors_have_the_interval_of_a_weighted_count(tmp_path):
    sure, worse = scored(tmp_path, "sure", 0.95), scored(tmp_path, "worse", 0.5)
    record = ta.risk(sure, worse).record
    row, other = record.rows
    assert row.risk * 400 < 10 < other.risk * 400
    assert 0 < row.low < row.area < row.high < 0.1
    (pair,) = record.differences
    assert pair.low == pytest.approx(pair.difference - math.hypot(other.area - other.low, row.high - row.area))
    assert pair.high == pytest.approx(pair.difference + math.hypot(other.high - other.area, row.area - row.low))


def test_bounds_of_a_count_of_equal_weights_are_those_of_poisson():
    """Items of one margin weigh 1/n each: the area is a count of errors over n, its bounds Garwood's exact ones."""
    margins, codes = np.zeros(50), np.arange(50)
    for errors in range(8):
        wrong = (codes < errors).astype(float)
        low, high = area_bounds(margins, wrong, codes, None)
        assert low == pytest.approx(chi2.ppf(0.025, 2 * errors) / 100 if errors else 0)
        assert high == pytest.approx(chi2.ppf(0.975, 2 * errors + 2) / 100)
        # Where few are right, these are counted; even of none the area is not known to be 1.
        assert draw_many(margins, 1 - wrong, codes, 0) is None
        assert area_bounds(margins, 1 - wrong, codes, None) == pytest.approx((1 - high, 1 - low))
    assert area_bounds(np.zeros(19), np.zeros(19), np.arange(19), None) == (None, None)


def test_what_has_no_margin_is_refused(tmp_path):
    run = scored(tmp_path, "keen", 0.5)
    with raises(RunError, "match_score", "text_score"):
        ta.risk(run, metric="match_score")
    with raises(RunError, "benchmark"):
        ta.risk(run, benchmark="")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "size", "rate"), [(100, 1, 0.1), (400, 2, 0.3), (400, 1, 0.05), (60, 3, 0.3), (30, 1, 0.1), (90, 3, 0.05)]
)
def test_the_interval_holds_its_level(n, size, rate):
    """Of 300 sets of items, the interval contains the area of many more sets as often as it says, but for chance."""
    rng = np.random.default_rng(1)

    def draw():
        codes = np.repeat(np.arange(n // size), size)
        margins = (0.5 * rng.normal(size=n // size)[codes] + 0.87 * rng.normal(size=n)).round(2)
        chance = 1 / (1 + np.exp(1.2 * margins) * (1 - rate) / rate)
        return margins, (rng.random(n) < chance).astype(float), codes

    truth = np.mean([risk_curve(*draw()[:2]).mean() for _ in range(3000)])
    held = []
    for seed in range(300):
        margins, wrong, codes = draw()
        low, high = area_bounds(margins, wrong, codes, draw_many(margins, wrong, codes, seed))
        held.append(low <= truth <= high)
    assert np.mean(held) > 0.91
