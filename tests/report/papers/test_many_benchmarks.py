"""One table over many benchmarks: a system is one row, a benchmark one column, in every format."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from facts import raises
from tellapart.benchmarks.find import find_benchmark
from tellapart.cli.main import app
from tellapart.errors import RunError
from tellapart.evaluation.verified import read_result
from tellapart.records.result import Result
from tellapart.records.run_folder import write_result
from tellapart.records.samples import read_samples, write_samples
from tellapart.report.paper_tables.layouts import lay_out
from tellapart.report.paper_tables.table import write_csv, write_json, write_latex, write_markdown
from tellapart.stats.paired import tiers

Save = Callable[..., Path]

PLANS: dict[str, dict[str, object]] = {
    "sugarcrepe": {
        "shape": (1, 2),
        "tags": [{"subset": f"{kind}_{of}"} for kind in ("replace", "swap", "add") for of in ("obj", "att")],
    },
    "bivlc": {"tags": [{"type": kind} for kind in ("replace", "swap", "add")]},
    "winoground": {"tags": []},
}
#: What stands for each of them.
METRICS = {"sugarcrepe": "choice_score", "bivlc": "group_score", "winoground": "group_score"}


@pytest.fixture
def systems(save: Save) -> list[Path]:
    """Two systems, each measured on three benchmarks, a run folder for every file of scores."""
    return [
        save(model, skill=skill, seed=10 * k + j, benchmark=benchmark, n=60, **plan)
        for k, (model, skill) in enumerate({"mine": 2.5, "theirs": 0.3}.items())
        for j, (benchmark, plan) in enumerate(PLANS.items())
    ]


def together(folders: list[Path], out: Path) -> Path:
    """Write runs of one model into one run folder."""
    results = [read_result(folder) for folder in folders]
    benchmarks = {name: record for result in results for name, record in result.benchmarks.items()}
    write_result(out, Result(run=results[0].run, model=results[0].model, benchmarks=benchmarks))
    for folder, result in zip(folders, results, strict=True):
        for name in result.benchmarks:
            write_samples(out, name, read_samples(folder, name))
    return out


def test_three_files_of_one_system_are_one_row_whether_in_one_run_folder_or_in_three(systems, tmp_path) -> None:
    table = lay_out(systems)
    assert table.title == "sugarcrepe, bivlc, winoground, percent"
    assert [row.label for row in table.rows] == ["mine", "theirs", "chance"]
    assert [(one.group, one.name) for one in table.columns] == [
        (name, metric.replace("_", " ")) for name, metric in METRICS.items()
    ]
    for k, row in enumerate(table.rows[:2]):
        for folder, cell, (name, metric) in zip(systems[3 * k :], row.cells, METRICS.items(), strict=False):
            value = read_result(folder).benchmarks[name].metrics[metric]
            assert (cell.value, cell.low, cell.high) == (100 * value.value, 100 * value.low, 100 * value.high)
    assert [cell.value for cell in table.rows[2].cells] == pytest.approx([50, 100 / 6, 100 / 6])
    assert "sugarcrepe: 60 items, bivlc: 60 items, winoground: 60 items" in table.notes
    folders = [together(systems[:3], tmp_path / "mine"), together(systems[3:], tmp_path / "theirs")]
    assert lay_out(folders) == table == lay_out([folders[0], *systems[3:]])
    chosen = lay_out(systems, benchmarks=("winoground", "sugarcrepe"))
    assert [one.group for one in chosen.columns] == ["winoground", "sugarcrepe"]


def test_the_best_and_its_tier_are_marked_in_every_column_by_the_test(save: Save) -> None:
    folders = [
        save(f"m{k}", skill=skill, seed=j + 5 * k, benchmark=name, n=60, **PLANS[name])
        for k, skill in enumerate((3.0, 2.8, 0.0))
        for j, name in enumerate(("bivlc", "winoground"))
    ]
    table = lay_out(folders)
    for number, name in enumerate(("bivlc", "winoground")):
        outcomes = {
            f"m{k}": [one.outcomes["group_score"] for one in read_samples(folders[2 * k + number], name)]
            for k in range(3)
        }
        first = tiers(outcomes, None)[0].names
        marked = {row.label for row in table.rows if row.cells[number].best or row.cells[number].near}
        assert marked == set(first) == {"m0", "m1"}
    assert table.notes[1].startswith("dagger: not significantly different")
    without = lay_out(folders, with_tiers=False)
    assert not any(cell.near for row in without.rows for cell in row.cells)
    assert not any(note.startswith("dagger") for note in without.notes)


def test_an_average_stands_where_the_papers_have_one(save: Save, publish: Callable[..., Path]) -> None:
    subsets = ("youcook2", "gebc", "ag", "kubric_location", "kubric_attribute", "kubric_counting", "sd")
    eqben = save("m", benchmark="eqben", tags=[{"subset": value} for value in subsets], n=70)
    recalls = {f"{side}_recall@{k}": k / 20 for side in ("i2t", "t2i") for k in (1, 5, 10)} | {"mean_recall": 0.27}
    numbers = {("coco-retrieval", name): value for name, value in recalls.items()}
    numbers[("vlue-nlvr2", "accuracy")], numbers[("vlue-nlvr2", "consistency")] = 0.7, 0.4
    table = lay_out([eqben, publish("m", numbers, fingerprint=read_result(eqben).model.fingerprint)])
    assert [(one.group, one.name) for one in table.columns] == [
        ("eqben", "Avg"),
        ("coco-retrieval", "Mean"),
        ("vlue-nlvr2", "accuracy"),
    ]
    record = read_result(eqben).benchmarks["eqben"]
    _, row_of = find_benchmark("eqben").paper
    numbers_of = {
        value: {k: one.value for k, one in group.metrics.items()} for value, group in record.by["subset"].items()
    }
    first, *others = table.rows[0].cells
    assert first.value == row_of(numbers_of)["Avg"] and first.low is None  # a mean of fifteen numbers
    assert [cell.value for cell in others] == pytest.approx([27, 70])
    assert "Avg below a benchmark: as its paper averages" in table.notes


def test_the_mean_of_the_columns_is_of_models_that_have_them_all(systems) -> None:
    table = lay_out(systems[:5], average=True)
    assert table.columns[-1].name == "Avg" and "Avg: the plain mean of the columns" in table.notes
    mine, theirs, chance = table.rows
    assert mine.cells[-1].value == pytest.approx(np.mean([cell.value for cell in mine.cells[:-1]]))
    assert theirs.cells[-2].value is None and theirs.cells[-1].value is None
    assert chance.cells[-1].value == pytest.approx((50 + 100 / 6 + 100 / 6) / 3)
    with raises(RunError, "average=True", "bivlc"):
        lay_out(systems, benchmarks=("bivlc",), average=True)


def test_every_format_has_every_number(systems) -> None:
    table = lay_out(systems)
    rows = list(csv.DictReader(io.StringIO(write_csv(table, intervals=True))))
    assert [float(rows[0][f"{name} {metric.replace('_', ' ')}"]) for name, metric in METRICS.items()] == [
        cell.value for cell in table.rows[0].cells
    ]
    read = json.loads(write_json(table))
    assert [[cell["value"] for cell in row["cells"]] for row in read["rows"]] == [
        [cell.value for cell in row.cells] for row in table.rows
    ]
    assert read["columns"][0] == {"group": "sugarcrepe", "name": "choice score", "reference": False}
    assert read["notes"] == list(table.notes)
    latex, markdown = write_latex(table), write_markdown(table)
    assert r" & \multicolumn{1}{c}{sugarcrepe} & \multicolumn{1}{c}{bivlc} & " in latex
    assert "| model | sugarcrepe choice score | bivlc group score | winoground group score |" in markdown
    for cell in table.rows[0].cells:
        assert f"{cell.value:.2f}" in latex and f"{cell.value:.2f}" in markdown


def test_the_command_lays_out_all_that_was_measured_or_what_is_named(systems, tmp_path) -> None:
    folders = ["table", *map(str, systems)]
    assert CliRunner().invoke(app, folders).output.startswith("**sugarcrepe, bivlc, winoground, percent**")
    named = CliRunner().invoke(app, [*folders, "-b", "winoground", "-b", "bivlc", "--average", "--json"])
    assert [column["group"] for column in json.loads(named.output)["columns"]] == ["winoground", "bivlc", ""]
    one = CliRunner().invoke(app, [*folders, "-b", "winoground"])
    assert one.output.startswith("**winoground, 60 items, percent**")
    assert "choose one" in str(CliRunner().invoke(app, [*folders, "--csv", "--json"]).exception)


def test_what_cannot_be_one_table_is_said(systems, save: Save) -> None:
    with raises(RunError, "'valse'", "sugarcrepe", "bivlc", "winoground"):
        lay_out(systems, benchmarks=("bivlc", "valse"))
    again = save("mine", benchmark="bivlc", n=60, seed=9, tags=PLANS["bivlc"]["tags"])
    twice = lay_out([*systems, again])
    assert [row.label for row in twice.rows] == ["mine (run 1)", "theirs", "mine (run 2)", "chance"]
    other = save("third", benchmark="winoground", n=50, tags=[])
    with raises(RunError, "winoground"):
        lay_out([*systems, other])


def test_ties_and_another_tools_numbers_are_said_with_their_benchmark(systems, save: Save, publish) -> None:
    flat = save("flat", scores=np.full((60, 2, 2), 0.5, np.float32), benchmark="winoground", n=60, tags=[])
    table = lay_out([*systems, flat])
    assert table.notes[-1].endswith("winoground group_score flat 16.67 (60 tied)")
    foreign = publish("foreign", {("winoground", "group_score"): 0.5})
    result = read_result(foreign)
    record = result.benchmarks["winoground"].model_copy(update={"fingerprint": "imported-1"})
    write_result(foreign, result.model_copy(update={"benchmarks": {"winoground": record}}))
    beside = lay_out([*systems, foreign], benchmarks=("bivlc", "winoground"))
    assert any(note.startswith("imported:") and "not tested" in note for note in beside.notes)
    assert [row.label for row in beside.rows if "imported" in row.label] == ["foreign (imported)"]


def test_rows_are_sorted_by_a_column(systems) -> None:
    table = lay_out(systems, sort="bivlc")
    assert [row.label for row in table.rows] == ["mine", "theirs", "chance"]
    turned = lay_out([*systems[3:], *systems[:3]], sort="Avg", average=True)
    assert [row.label for row in turned.rows] == ["mine", "theirs", "chance"]
    with raises(RunError, "sort=", "sugarcrepe", "bivlc", "winoground"):
        lay_out(systems, sort="bivcl")
