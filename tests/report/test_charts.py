"""The geometry of score bars."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellapart.records.result import Value
from tellapart.report.benchmark_runs import HeatMap, breakdown_tag, heat_map
from tellapart.report.charts import score_bar
from tellapart.report.numbers import percent
from tellapart.report.page import page_environment
from tellapart.report.plots.curves import FEW, RADIUS, Trace, plot, share_a_scale


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_a_bar_lies_within_0_and_100_and_spans_its_interval(low, value, high):
    low, value, high = sorted((low, value, high))
    drawn = ElementTree.fromstring(score_bar(value, low, high))  # noqa: S314  (made here)
    start, width = (float(drawn.find("rect").get(name)) for name in ("x", "width"))
    assert 0 <= start <= float(drawn.find("line[@class='point']").get("x1")) <= start + width + 0.02 <= 100.04
    assert width == pytest.approx(100 * (high - low), abs=0.02)


def trace(style: int, values, kind: str = "similarity") -> Trace:
    return Trace(f"m{style}", style, kind, {"v1": np.asarray(values, np.float64)})


def test_the_area_under_a_curve_is_its_share_of_items_inside():
    values = np.random.default_rng(1).normal(size=4000)
    drawn = plot("v1", [trace(0, values), trace(1, 0.5 * values)])
    points = (np.array([[*map(float, point.split(","))] for point in line.points.split()]) for line in drawn.lines)
    first, second = (np.trapezoid(drawn.height - y, x) for x, y in (of.T for of in points))
    assert second == pytest.approx(first, rel=0.03)


def test_a_model_of_one_value_is_a_spike_and_leaves_the_scale_alone():
    values = np.random.default_rng(2).normal(size=300)
    alone = plot("v1", [trace(0, values)])
    beside = plot("v1", [trace(0, values), trace(1, np.zeros(300))])
    assert beside.lines[0] == alone.lines[0]
    assert (beside.lines[1].spike, beside.lines[1].points) == (beside.zero, "")


def test_below_thirty_items_each_item_is_a_dot():
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
def test_dots_stay_in_their_models_band_and_cover_no_other_where_there_is_room(models):
    rng = np.random.default_rng(5)
    drawn = plot("v1", [trace(k, rng.normal(size=20)) for k in range(models)])
    band = drawn.height / models
    for k, line in enumerate(drawn.lines):
        at = np.array(line.dots)
        assert (at[:, 1] >= k * band + RADIUS - 0.01).all() and (at[:, 1] <= (k + 1) * band - RADIUS + 0.01).all()
    if models == 1:
        apart = np.hypot(*(at[:, None] - at[None]).transpose(2, 0, 1))[~np.eye(len(at), dtype=bool)]
        assert apart.min() >= 2 * RADIUS - 0.05


@pytest.mark.parametrize(("inside", "beyond", "dots"), [(20, 1, 20), (200, 8, 0)])
def test_extreme_items_are_counted_rather_than_stretching_the_axis(inside, beyond, dots):
    values = np.concatenate([np.random.default_rng(3).normal(size=inside), np.full(beyond, 1e6)])
    drawn = plot("v1", [trace(0, values)])
    assert (drawn.beyond, len(drawn.lines[0].dots)) == (beyond, dots)
    assert all(abs(float(label)) < 20 for _, label in drawn.ticks)


def test_ticks_are_symmetric_and_scales_far_apart_and_kinds_that_differ_share_no_axis():
    for size in (3e-4, 0.7, 1.0, 42.0, 9e5):
        drawn = plot("v1", [trace(0, size * np.linspace(-1, 1, 101))])
        places = np.array([x for x, _ in drawn.ticks])
        assert len(places) >= 3 and places.min() >= 0
        assert np.allclose(places + places[::-1], drawn.width)
    spread = np.linspace(-1, 1, 50)
    traces = [trace(style, factor * spread) for style, factor in ((0, 100), (1, 1), (2, 2), (4, 0))]
    traces.append(trace(3, spread, kind="probability"))
    assert [[one.style for one in group] for group in share_a_scale(traces)] == [[3], [1, 2], [0, 4]]


def heat_table(heat: HeatMap) -> str:
    """The table as the report's template writes it."""
    return str(page_environment().get_template("shared.html.j2").module.heat(heat))


def test_the_table_has_a_row_a_value_with_its_items_and_a_shade_for_every_tenth(make_run):
    names = ("a", """<script>alert(1)</script>"'&""")
    runs = [make_run(model=name, skill=3 - 3 * k, seed=k, n=90) for k, name in enumerate(names)]
    records = {run.result.model.name: run.result.benchmarks["shapes"] for run in runs}
    table = str(heat_table(heat_map(records, "shapes", "text_score", "type")))
    rows = re.findall(r'<tr><th scope="row">(.*?)</th><td>(\d+)</td>(.*?)</tr>', table)
    assert [(name, n) for name, n, _ in rows] == [("colour", "30"), ("place", "30"), ("all items", "90")]
    for name, _, cells in rows:
        parts = [one if name == "all items" else one.by["type"][name] for one in records.values()]
        found = zip(parts, re.findall(r"<td(.*?) title=.*?>(.*?)</td>", cells), strict=True)
        for value, (shade, text) in ((part.metrics["text_score"], cell) for part, cell in found):
            tenth = int(10 * value.value)
            assert shade == (f' class="shade" style="--share: {10 * tenth}%"' if tenth else "")
            assert text == (percent(value.value) if value.low > value.chance else f"({percent(value.value)})")
    assert "<script" not in table and "&lt;script&gt;" in table
    assert "in brackets: not above chance (25.00)" in table


def test_a_model_without_the_metric_has_dashes(make_run):
    plan = {"shape": (1, 2), "n": 30}
    records = {kind: make_run(kind=kind, **plan).result.benchmarks["shapes"] for kind in ("similarity", "probability")}
    heat = heat_map(records, "shapes", "acc", "type")
    assert all(row.values[0] is None and isinstance(row.values[1], Value) for row in heat.rows)
    assert str(heat_table(heat)).count("<td>–</td>") == 3


def test_the_tag_of_a_benchmark_is_its_papers_or_the_only_one(make_run):
    for benchmark, tags, expected in (
        ("bivlc", [{"type": "swap", "subtype": "swap obj"}, {"type": "add", "subtype": "add obj"}], "type"),
        ("shapes", [{"type": "a"}, {"type": "b"}], "type"),
        ("shapes", [{"type": "a", "side": "left"}, {"type": "b", "side": "right"}], None),
        ("shapes", [], None),
    ):
        record = make_run(benchmark=benchmark, tags=tags).result.benchmarks[benchmark]
        assert breakdown_tag({"m": record}, benchmark) == expected
