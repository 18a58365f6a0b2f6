"""The geometry of equivariance curves, and of the dots of few items."""

from __future__ import annotations

import numpy as np
import pytest

from tellapart.report.plots.curves import FEW, RADIUS, Trace, plot, share_a_scale


def trace(style: int, values, kind: str = "similarity") -> Trace:
    return Trace(f"m{style}", style, kind, {"v1": np.asarray(values, np.float64)})


def xy(points: str) -> np.ndarray:
    return np.array([[float(number) for number in point.split(",")] for point in points.split()])


def test_a_tighter_model_has_the_higher_peak_on_a_shared_axis() -> None:
    normal = np.random.default_rng(0).normal(size=500)
    drawn = plot("v1", [trace(0, normal), trace(1, 0.4 * normal)])
    wide, tight = (xy(line.points) for line in drawn.lines)
    assert np.array_equal(wide[:, 0], tight[:, 0])  # the same bins
    assert tight[:, 1].min() < wide[:, 1].min()  # SVG's y points down


def test_the_area_under_a_curve_is_its_share_of_items_inside() -> None:
    values = np.random.default_rng(1).normal(size=4000)
    drawn = plot("v1", [trace(0, values), trace(1, 0.5 * values)])
    areas = [np.trapezoid(drawn.height - xy(line.points)[:, 1], xy(line.points)[:, 0]) for line in drawn.lines]
    assert areas[1] == pytest.approx(areas[0], rel=0.03)


def test_a_model_of_one_value_is_a_spike_and_leaves_the_scale_alone() -> None:
    values = np.random.default_rng(2).normal(size=300)
    alone = plot("v1", [trace(0, values)])
    beside = plot("v1", [trace(0, values), trace(1, np.zeros(300))])
    assert beside.lines[0] == alone.lines[0]
    assert (beside.lines[1].spike, beside.lines[1].points) == (beside.zero, "")


def test_only_a_model_of_one_value_can_be_drawn_alone() -> None:
    drawn = plot("v1", [trace(0, np.zeros(FEW))])
    assert drawn.lines[0].spike == drawn.zero


def test_below_thirty_items_each_item_is_a_dot() -> None:
    values = np.random.default_rng(4).normal(size=FEW - 1)
    few = plot("v1", [trace(0, values), trace(1, np.zeros(FEW - 1))])
    assert [len(line.dots) for line in few.lines] == [FEW - 1, FEW - 1]
    assert {(line.points, line.spike) for line in few.lines} == {("", None)}
    places = np.array([x for x, _ in few.lines[0].dots])
    # The axis is linear in the values, with 0 at its mark.
    scale = (places[-1] - few.zero) / values.max()
    assert np.allclose(places, few.zero + scale * np.sort(values), atol=0.02)
    assert plot("v1", [trace(0, np.append(values, 0.5))]).lines[0].dots == ()


@pytest.mark.parametrize("models", [1, 4, 12])
def test_dots_stay_in_their_models_band_and_cover_no_other_where_there_is_room(models) -> None:
    rng = np.random.default_rng(5)
    drawn = plot("v1", [trace(k, rng.normal(size=20)) for k in range(models)])
    band = drawn.height / models
    for k, line in enumerate(drawn.lines):
        at = np.array(line.dots)
        assert (at[:, 1] >= k * band + RADIUS - 0.01).all() and (at[:, 1] <= (k + 1) * band - RADIUS + 0.01).all()
    if models == 1:
        apart = np.hypot(*(at[:, None] - at[None]).transpose(2, 0, 1))[~np.eye(len(at), dtype=bool)]
        assert apart.min() >= 2 * RADIUS - 0.05


def test_dots_beyond_the_axis_are_counted() -> None:
    drawn = plot("v1", [trace(0, [*np.linspace(-1, 1, 20), 1e6])])
    assert (len(drawn.lines[0].dots), drawn.beyond) == (20, 1)


def test_extreme_items_are_counted_rather_than_stretching_the_axis() -> None:
    values = np.concatenate([np.random.default_rng(3).normal(size=200), np.full(8, 1e6)])
    drawn = plot("v1", [trace(0, values)])
    assert drawn.beyond == 8
    assert all(abs(float(label)) < 20 for _, label in drawn.ticks)


def test_ticks_are_symmetric_and_stay_inside() -> None:
    for size in (3e-4, 0.7, 1.0, 42.0, 9e5):
        drawn = plot("v1", [trace(0, size * np.linspace(-1, 1, 101))])
        places = np.array([x for x, _ in drawn.ticks])
        assert len(places) >= 3
        assert np.allclose(places + places[::-1], drawn.width)
        assert places.min() >= 0


def test_scales_far_apart_and_kinds_that_differ_share_no_axis() -> None:
    spread = np.linspace(-1, 1, 50)
    traces = [
        trace(0, 100 * spread),
        trace(1, spread),
        trace(2, 2 * spread),
        trace(3, spread, kind="probability"),
        trace(4, 0 * spread),
    ]
    groups = [[one.style for one in group] for group in share_a_scale(traces)]
    assert groups == [[3], [1, 2], [0, 4]]
