"""The first look on the terminal: short for any benchmark, nothing hidden, and everything one option away."""

from __future__ import annotations

import io
import math
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from rich.table import Table

import tellapart as ta
from facts import raises
from tellapart.catalog import REFERENCES
from tellapart.errors import RunError
from tellapart.report.numbers import percent, score
from tellapart.report.tables import first_table, first_tables, tag_table

RIGHT, WRONG = [[0.9, 0.1], [0.1, 0.9]], [[0.1, 0.9], [0.9, 0.1]]


def printed(table: Table, width: int = 100) -> str:
    target = io.StringIO()
    Console(file=target, width=width).print(table)
    return target.getvalue()


def row(text: str, start: str) -> list[str]:
    (found,) = [line for line in text.splitlines() if line.startswith(start)]
    return found.split()


@pytest.mark.slow
def test_the_demo_fits_thirty_lines_of_a_hundred_columns_and_the_rest_is_one_option_away(command) -> None:
    ran = command("run", "--out", "r")
    assert ran.code == 0, ran.err
    assert sum(max(1, math.ceil(len(line.rstrip()) / 100)) for line in ran.out.splitlines()) <= 30
    for said in ("group_score", "attribute", "counting", "location", "show r --all", "aspect|change|held_out"):
        assert said in ran.out
    assert ran.out.endswith("\nreport: r/report.html\n")
    assert "tellapart run -m" in ran.out, "how to measure a model of one's own"
    (about,) = [line for line in ran.out.splitlines() if line.startswith("references: ")]
    assert all(name in about for name in REFERENCES)
    every = command("show", "r", "--all").out
    assert about in every
    for said in ("text_score", "image_score", "micro: all items", "held_out = yes", "v2_text", "tied comparisons"):
        assert said in every and said not in ran.out


def test_models_stand_by_the_main_metric_with_its_interval_and_by_the_values_of_a_tag(make_run) -> None:
    runs = [make_run(model="strong", skill=3.0, seed=1), make_run(model="weak", skill=0.1, seed=2)]
    text = printed(first_table([run.result for run in runs], "shapes"))
    assert row(text, "model") == ["model", "group_score", "left", "right"]
    for run in runs:
        record = run.result.benchmarks["shapes"]
        value, groups = record.metrics["group_score"], record.by["side"]
        shares = [percent(groups[name].metrics["group_score"].value, 1) for name in ("left", "right")]
        assert row(text, run.result.model.name) == [run.result.model.name, *score(value).split(), *shares]
    assert row(text, "chance") == ["chance", "16.67", "16.7", "16.7"]
    assert row(text, "items") == ["items", "30", "10", "10"]
    assert "tie" not in text


def test_ties_of_the_main_metric_are_never_hidden(make_run) -> None:
    run = make_run(model="constant", scores=np.full((30, 2, 2), 0.5, np.float32))
    text = " ".join(printed(first_table([run.result], "shapes")).split())
    assert "constant 16.67 (30 tied)" in text


@pytest.mark.parametrize(("width", "columns"), [(60, ["group_score", "left", "right"]), (40, ["text_score"])])
def test_a_table_that_is_too_wide_has_the_metrics_as_columns(make_run, width, columns) -> None:
    table = first_table([make_run().result], "shapes", width=width)
    assert [str(column.header) for column in table.columns][1:][: len(columns)] == columns


def test_a_tag_of_many_values_and_a_set_without_tags_have_the_metrics_as_columns(make_run) -> None:
    many = make_run(tags=[{"type": f"value {k}"} for k in range(9)], n=36)
    for run in (many, make_run(tags=())):
        text = printed(first_table([run.result], "shapes"))
        assert row(text, "model") == ["model", "text_score", "image_score", "group_score", "match_score"]


def test_a_long_name_is_folded_and_every_column_stays(make_run) -> None:
    run = make_run(model="open_clip:" + "ViT-B-32/laion2b_s34b_b79k" * 4)
    text = printed(first_table([run.result], "shapes"))
    assert "left   right" in text and "…" not in text
    assert max(map(len, text.splitlines())) <= 100


def test_many_benchmarks_share_one_table_of_a_line_for_each_model(make_run) -> None:
    names = [f"set-{k}" for k in range(5)]
    groups = [(name, [make_run(benchmark=name, model=model).result for model in ("a", "b")]) for name in names]
    groups[0][1][1] = make_run(benchmark="set-0", model="b", scores=np.full((30, 2, 2), 0.5, np.float32)).result
    (table,) = first_tables(groups)
    text = printed(table, 120)
    assert table.row_count == 10
    assert all(name in text for name in names)
    first, second = groups[0][1]
    metrics = first.benchmarks["set-0"].metrics["group_score"]
    assert row(text, "set-0") == ["set-0", "30", "group_score", "a", *score(metrics).split(), "16.67"]
    tied = second.benchmarks["set-0"].metrics["group_score"]
    assert next(line for line in text.splitlines() if " b " in line).split() == [
        "b",
        *score(tied).split(),
        "30",
        "16.67",
    ]
    assert len(first_tables(groups[:3])) == 3


def test_a_tag_s_table_has_its_values_down_and_models_across(make_run) -> None:
    runs = [make_run(model=f"m{k}", skill=k, seed=k) for k in range(3)]
    records = [run.result.benchmarks["shapes"] for run in runs]
    text = printed(tag_table([run.result for run in runs], "shapes", "side"))
    left = [record.by["side"]["left"].metrics["group_score"] for record in records]
    assert row(text, "left") == ["left", "10", *" ".join(map(score, left)).split()]
    many = tag_table([run.result for run in runs * 4], "shapes", "side")
    assert row(printed(many, 300), "left")[1:5] == ["10", *(percent(value.value) for value in left)], "no room"


def test_a_tag_that_is_not_there_is_refused_with_those_that_are(command, made_set, tmp_path: Path) -> None:
    run = ta.evaluate("random", "demo", limit=20, out=tmp_path / "r")
    with raises(RunError, "'aspects'", "aspect, change, held_out"):
        run.show(by="aspects")
    assert "counting" in command("show", str(tmp_path / "r"), "--by", "aspect").out
    for option in ("--all", "--by=aspect"):
        refused = command("show", str(tmp_path / "r"), "--json", option)
        assert refused.code == 2 and "--all" in refused.err and "--by" in refused.err
