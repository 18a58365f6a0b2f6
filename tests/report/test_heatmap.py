"""Heat maps for HTML pages: a table of the records' numbers, whatever names hold."""

from __future__ import annotations

import re

import pytest

from tellapart.records.result import Value
from tellapart.report.numbers import percent
from tellapart.report.page import page_environment
from tellapart.report.plots.heatmap import HeatMap, breakdown_tag, heat_map


def heat_table(heat: HeatMap) -> str:
    """The table as the report's template writes it."""
    return str(page_environment().get_template("shared.html.j2").module.heat(heat))


HOSTILE = """<script>alert(1)</script>"'&"""


def test_the_table_has_a_row_a_value_with_its_items_and_a_shade_for_every_tenth(make_run) -> None:
    runs = {
        name: make_run(model=name, skill=skill, seed=k, n=90)
        for k, (name, skill) in enumerate({"a": 3, HOSTILE: 0}.items())
    }
    records = {name: run.result.benchmarks["shapes"] for name, run in runs.items()}
    table = str(heat_table(heat_map(records, "shapes", "text_score", "type")))
    rows = re.findall(r'<tr><th scope="row">(.*?)</th><td>(\d+)</td>(.*?)</tr>', table)
    assert [(name, n) for name, n, _ in rows] == [("colour", "30"), ("place", "30"), ("all items", "90")]
    for name, _, cells in rows:
        metrics = [one.metrics if name == "all items" else one.by["type"][name].metrics for one in records.values()]
        values = [own["text_score"] for own in metrics]
        for value, (shade, text) in zip(values, re.findall(r"<td(.*?) title=.*?>(.*?)</td>", cells), strict=True):
            tenth = int(10 * value.value)
            assert shade == (f' class="shade" style="--share: {10 * tenth}%"' if tenth else "")
            assert text == (percent(value.value) if value.low > value.chance else f"({percent(value.value)})")
    assert "<script" not in table and "&lt;script&gt;" in table
    assert "in brackets: not above chance (25.00)" in table


def test_a_model_without_the_metric_has_dashes(make_run) -> None:
    plan = {"shape": (1, 2), "n": 30}
    records = {kind: make_run(kind=kind, **plan).result.benchmarks["shapes"] for kind in ("similarity", "probability")}
    heat = heat_map(records, "shapes", "acc", "type")
    assert [row.values[0] for row in heat.rows] == [None] * 3
    assert all(isinstance(row.values[1], Value) for row in heat.rows)
    assert str(heat_table(heat)).count("<td>–</td>") == 3


@pytest.mark.parametrize(
    ("benchmark", "tags", "expected"),
    [
        ("bivlc", [{"type": "swap", "subtype": "swap obj"}, {"type": "add", "subtype": "add obj"}], "type"),
        ("shapes", [{"type": "a"}, {"type": "b"}], "type"),
        ("shapes", [{"type": "a", "side": "left"}, {"type": "b", "side": "right"}], None),
        ("shapes", [], None),
    ],
    ids=["its paper's", "the only one", "several", "none"],
)
def test_the_tag_of_a_benchmark_is_its_papers_or_the_only_one(make_run, benchmark, tags, expected) -> None:
    record = make_run(benchmark=benchmark, tags=tags).result.benchmarks[benchmark]
    assert breakdown_tag({"m": record}, benchmark) == expected
