"""One table over many benchmarks: a system is one row, a benchmark one column, in every format."""

import csv
import io
import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from facts import raises
from published import published
from tellapart.cli.main import app
from tellapart.errors import RunError, TellapartWarning, UnknownNameError
from tellapart.evaluation.verified import read_result
from tellapart.records.result import BenchmarkResult, Metrics, ModelRecord, Result, RunRecord, Value
from tellapart.records.run_folder import write_result
from tellapart.records.samples import read_samples, write_samples
from tellapart.report.measured import gather
from tellapart.report.paper_tables.benchmarks import parts_of
from tellapart.report.paper_tables.layouts import AVERAGES, lay_out
from tellapart.report.paper_tables.table import write_csv, write_json, write_latex, write_markdown
from tellapart.report.plots import style
from tellapart.report.plots.prepare import prepare_plot
from tellapart.report.plots.style import write_picture

KINDS = ("replace", "swap", "add")
PLANS: dict[str, dict[str, object]] = {
    "sugarcrepe": {"shape": (1, 2), "tags": [{"subset": f"{kind}_{of}"} for kind in KINDS for of in ("obj", "att")]},
    "bivlc": {"tags": [{"type": kind} for kind in KINDS]},
    "winoground": {"tags": []},
}
#: What stands for each of them.
METRICS = {"sugarcrepe": "choice_score", "bivlc": "group_score", "winoground": "group_score"}


@pytest.fixture
def systems(save) -> list[Path]:
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


def test_three_files_of_one_system_are_one_row_whether_in_one_run_folder_or_in_three(systems, tmp_path):
    table = lay_out(systems)
    assert table.title == "sugarcrepe, bivlc, winoground, percent"
    assert [row.label for row in table.rows] == ["mine", "theirs", "chance"]
    heads = [(name, metric.replace("_", " ")) for name, metric in METRICS.items()]
    assert [(one.group, one.name) for one in table.columns] == heads
    cells = [cell for row in table.rows[:2] for cell in row.cells]
    for folder, cell, (name, metric) in zip(systems, cells, [*METRICS.items()] * 2, strict=True):
        value = read_result(folder).benchmarks[name].metrics[metric]
        assert (cell.value, cell.low, cell.high) == (100 * value.value, 100 * value.low, 100 * value.high)
    assert [cell.value for cell in table.rows[2].cells] == pytest.approx([50, 100 / 6, 100 / 6])
    assert "sugarcrepe: 60 items, bivlc: 60 items, winoground: 60 items" in table.notes
    folders = [together(systems[:3], tmp_path / "mine"), together(systems[3:], tmp_path / "theirs")]
    assert lay_out(folders) == table == lay_out([folders[0], *systems[3:]])
    chosen = lay_out(systems, benchmarks=("winoground", "sugarcrepe"))
    assert [one.group for one in chosen.columns] == ["winoground", "sugarcrepe"]


def test_an_average_stands_where_the_papers_have_one(save_eqben, publish):
    eqben = save_eqben("m")
    recalls = {f"{side}_recall@{k}": k / 20 for side in ("i2t", "t2i") for k in (1, 5, 10)} | {"mean_recall": 0.27}
    numbers = {("coco-retrieval", name): value for name, value in recalls.items()}
    numbers[("vlue-nlvr2", "accuracy")], numbers[("vlue-nlvr2", "consistency")] = 0.7, 0.4
    table = lay_out([eqben, publish("m", numbers, fingerprint=read_result(eqben).model.fingerprint)])
    heads = [("eqben", "Avg"), ("coco-retrieval", "Mean"), ("vlue-nlvr2", "accuracy")]
    assert [(one.group, one.name) for one in table.columns] == heads
    fifteen = [cell.value for cell in lay_out([eqben]).rows[0].cells[:-1]]
    first, *others = table.rows[0].cells
    assert first.value == pytest.approx(sum(fifteen) / 15) and first.low is None
    assert [cell.value for cell in others] == pytest.approx([27, 70])
    assert "Avg below a benchmark: as its paper averages" in table.notes


def test_the_mean_of_the_columns_is_of_models_that_have_them_all(systems):
    table = lay_out(systems[:5], average=True)
    assert table.columns[-1].name == "Avg" and "Avg: the plain mean of the columns" in table.notes
    mine, theirs, chance = table.rows
    assert mine.cells[-1].value == pytest.approx(np.mean([cell.value for cell in mine.cells[:-1]]))
    assert theirs.cells[-2].value is None and theirs.cells[-1].value is None
    assert chance.cells[-1].value == pytest.approx((50 + 100 / 6 + 100 / 6) / 3)
    with raises(RunError, "average=True", "bivlc"):
        lay_out(systems, benchmarks=("bivlc",), average=True)


def test_every_format_has_every_number(systems):
    table = lay_out(systems)
    rows = list(csv.DictReader(io.StringIO(write_csv(table, intervals=True))))
    for (name, metric), cell in zip(METRICS.items(), table.rows[0].cells, strict=True):
        head = f"{name} {metric.replace('_', ' ')}"
        assert [float(rows[0][head + end]) for end in ("", " low", " high")] == [cell.value, cell.low, cell.high]
        assert rows[-1]["model"] == "chance" and rows[-1][f"{head} low"] == ""
    read = json.loads(write_json(table))
    for written, row in zip(read["rows"], table.rows, strict=True):
        assert [cell["value"] for cell in written["cells"]] == [cell.value for cell in row.cells]
    assert read["columns"][0] == {"group": "sugarcrepe", "name": "choice score", "reference": False}
    assert read["notes"] == list(table.notes)
    latex, markdown = write_latex(table), write_markdown(table)
    assert r" & \multicolumn{1}{c}{sugarcrepe} & \multicolumn{1}{c}{bivlc} & " in latex
    assert "| model | sugarcrepe choice score | bivlc group score | winoground group score |" in markdown
    for cell in table.rows[0].cells:
        assert f"{cell.value:.2f}" in latex and f"{cell.value:.2f}" in markdown


def test_the_command_lays_out_all_that_was_measured_or_what_is_named(systems):
    folders = ["table", *map(str, systems)]
    assert CliRunner().invoke(app, folders).output.startswith("**sugarcrepe, bivlc, winoground, percent**")
    named = CliRunner().invoke(app, [*folders, "-b", "winoground", "-b", "bivlc", "--average", "--json"])
    assert [column["group"] for column in json.loads(named.output)["columns"]] == ["winoground", "bivlc", ""]
    one = CliRunner().invoke(app, [*folders, "-b", "winoground"])
    assert one.output.startswith("**winoground, 60 items, percent**")


def test_what_cannot_be_one_table_is_said(systems, save):
    with raises(RunError, "'valse'", "sugarcrepe", "bivlc", "winoground"):
        lay_out(systems, benchmarks=("bivlc", "valse"))
    twice = lay_out([*systems, save("mine", benchmark="bivlc", n=60, seed=9, tags=PLANS["bivlc"]["tags"])])
    assert [row.label for row in twice.rows] == ["mine (run 1)", "theirs", "mine (run 2)", "chance"]
    other = save("third", benchmark="winoground", n=50, tags=[])
    with raises(RunError, "winoground"):
        lay_out([*systems, other])


def test_rows_are_sorted_by_a_column_and_ties_are_said_with_their_benchmark(systems, save):
    for settings in ({"sort": "bivlc"}, {"sort": "Avg", "average": True}):
        table = lay_out([*systems[3:], *systems[:3]], **settings)
        assert [row.label for row in table.rows] == ["mine", "theirs", "chance"]
    with raises(RunError, "sort=", "sugarcrepe", "bivlc", "winoground"):
        lay_out(systems, sort="bivcl")
    tied = {"scores": np.full((60, 2, 2), 0.5, np.float32), "n": 60}
    flat = save("flat", benchmark="winoground", **PLANS["winoground"], **tied)
    assert [row.label for row in lay_out([systems[4], flat], sort="winoground").rows] == ["flat", "theirs", "chance"]
    assert lay_out([*systems, flat]).notes[-1].endswith("winoground group_score flat 16.67 (60 tied)")


pytest.importorskip("matplotlib")

SETS = tuple(f"folder:set_{letter}" for letter in "abcd")


@pytest.fixture
def runs(save) -> list[Path]:
    """Five models on four sets, of which the first did not measure the last."""
    plans = [(model, name) for model in range(5) for name in SETS[: 3 if model == 0 else 4]]
    return [save(f"m{model}", benchmark=name, skill=model, seed=model, n=20) for model, name in plans]


def test_five_models_on_four_sets_are_panels_with_shared_axes(runs):
    labels = {"folder:set_a": "Set A", "m1": "Mine"}
    figure = prepare_plot("bars", runs, benchmarks=SETS, labels=labels)()
    titles = [" ".join(axes.get_title().split()) for axes in figure.axes]
    assert [title.partition(":")[0] for title in titles] == ["Set A", "set b", "set c", "set d"]
    assert all("group score" in title for title in titles)
    first = figure.axes[0]
    assert all(first.get_shared_x_axes().joined(first, axes) for axes in figure.axes)
    assert [label.get_text() for label in first.get_yticklabels()] == ["m0", "Mine", "m2", "m3", "m4"]
    bars = [[bar.get_y() + bar.get_height() / 2 for bar in axes.containers[0]] for axes in figure.axes]
    assert list(map(len, bars)) == [5, 5, 5, 4]  # the line of m0 is empty in the last
    assert round(bars[3][0]) == 1
    for kind, metrics, *facts in (
        ("bars", ("text_score", "group_score"), "one metric", "folder:set_a", "text_score", "group_score"),
        ("bars", ("group_score", "acuracy"), "no model", "acuracy", "folder:set_d"),
        ("tiers", (), "tiers", "folder:set_a", "folder:set_b"),
    ):
        with raises(RunError, *facts):
            prepare_plot(kind, runs, benchmarks=SETS, metrics=metrics)()


def test_headings_have_no_prefix_and_take_labels(runs):
    table = lay_out(runs, labels={"folder:set_a": "Set A"}, with_tiers=False)
    assert [column.group for column in table.columns][:2] == ["Set A", "set b"]
    assert "folder:" not in write_latex(table)
    assert lay_out(runs, benchmarks=("folder:set_a",), labels={"folder:set_a": "Set A"}).title.startswith("Set A")
    with raises(RunError, "'folder:set_e'", "m0", "folder:set_d"):
        gather(runs, {"folder:set_e": "E"})


def test_a_dagger_that_every_model_has_becomes_a_note(save):
    table = lay_out([save(f"m{seed}", skill=1.0, seed=seed, n=12) for seed in range(4)])
    assert not any(cell.near for row in table.rows for cell in row.cells)
    assert any("distinguished from the best" in note for note in table.notes)
    assert "dagger" not in write_latex(table)


@pytest.mark.parametrize("names", [["shapes"], ["one", "two"]], ids=len)
def test_a_reference_model_beside_others_is_never_the_best_nor_near_it(save, names):
    skills = {"oracle": 9.0, "good": 4.0, "bad": -4.0}
    runs = [save(model, skill=skills[model], n=40, benchmark=name) for name in names for model in skills]
    table = lay_out(runs)
    assert {row.label for row in table.rows for cell in row.cells if cell.best or cell.near} == {"good"}
    assert any("reference models" in note for note in table.notes)
    alone = lay_out([runs[0], save("random", n=40, benchmark=names[0])])
    assert any(cell.best for row in alone.rows for cell in row.cells)


def test_names_that_the_font_lacks_take_another_one_or_are_one_sentence(save, tmp_path, monkeypatch):
    def draw(label: str, name: str) -> bytes:
        write_picture(tmp_path / name, prepare_plot("bars", [run], labels={"m": label}))
        return (tmp_path / name).read_bytes()

    run = save("m", n=12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        in_stix = draw("\U0001d49c and Ä", "a.svg")  # a letter that STIXGeneral has, which comes with matplotlib
        assert in_stix == draw("\U0001d49c and Ä", "b.svg") != draw("A and Ä", "c.svg")
    monkeypatch.setattr(style, "_find_fonts", lambda characters: [])
    with pytest.warns(TellapartWarning) as caught:
        draw("中文模型", "d.svg")
    (only,) = caught
    assert "中" in str(only.message) and "labels=" in str(only.message) and "\n" not in str(only.message)


SIX = {
    **{"whatsup-a": "whatsup::WhatsUp_A", "whatsup-b": "whatsup::WhatsUp_B"},
    **{f"whatsup-{of}-{k}": f"whatsup::{of.upper()}_QA_{k.upper()}" for of in ("coco", "vg") for k in ("one", "two")},
}

SEVEN = ("replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj", "add_att")


def value(number: float, chance: float | None = 0.5) -> Value:
    return Value(value=number, method="published", n=100, clusters=100, average="micro: items", chance=chance)


def record(folder: Path, model: str, numbers: dict[str, float], *, part: bool = False) -> Path:
    """Write a model's published numbers as a run: those of What'sUp's sets, and of SugarCrepe's subsets.

    Of a part of them, two sets and two subsets are left out.
    """
    benchmarks = {}
    for name, column in [*SIX.items()][2 * part :]:
        photographs = name in ("whatsup-a", "whatsup-b")
        metric, chance = ("individual_score", 1 / 4) if photographs else ("choice_score", 1 / 2)
        metrics = {metric: value(numbers[column], chance)}
        if photographs:
            metrics |= {"pair_score": value(numbers["pairs"] + 0.1 * (name[-1] == "b")), "set_score": value(0.125)}
        benchmarks[name] = BenchmarkResult(title=name, fingerprint=name, metrics=metrics, origin=name)
    hits = {subset: {"choice_score": value(numbers[f"sugarcrepe::{subset}"])} for subset in SEVEN[2 * part :]}
    by = {"subset": {subset: Metrics(metrics=of) for subset, of in hits.items()}}
    about = {"title": "s", "fingerprint": "s", "origin": "sugarcrepe"}
    benchmarks["sugarcrepe"] = BenchmarkResult(metrics={"choice_score": value(0.75)}, by=by, **about)
    run = RunRecord(started="2026-11-23T07:00:00+00:00", seed=0, versions={}, command="published")
    write_result(folder, Result(run=run, model=ModelRecord(name=model, fingerprint=model), benchmarks=benchmarks))
    return folder


@pytest.fixture(scope="module")
def averaged() -> dict[str, float]:
    with published("vl_compo", "individual_results.csv").open(encoding="utf-8") as file:
        rows = {(row["arch"], row["pretrained"]): row for row in csv.DictReader(file)}
    row = rows["ViT-B-32", "openai"]
    shares = {name: float(row[name]) / 100 for name in row if name.startswith(("whatsup::", "sugarcrepe::"))}
    return shares | {"pairs": 0.1}


@pytest.mark.slow
def test_the_averages_are_vl_compos_where_it_publishes_them(tmp_path, averaged):
    table = lay_out([record(tmp_path / "clip", "clip", averaged)], average_as=tuple(AVERAGES))
    (clip, chance), names = table.rows, [column.name for column in table.columns]
    found = {name: clip.cells[names.index(name)].value for name in AVERAGES}
    # Its `results.csv` has 41.46275226 for What'sUp and 73.02574342 for SugarCrepe.
    theirs = {"whatsup-six": 41.46275226, "sugarcrepe-three": 73.02574342}
    assert {name: found[name] for name in theirs} == pytest.approx(theirs)
    assert found["whatsup-all"] == pytest.approx(100 * 2121 / 4958, abs=1e-6)
    assert found["sugarcrepe-micro"] == pytest.approx(100 * 5750 / 7511, abs=1e-6)
    hits = {subset: averaged[f"sugarcrepe::{subset}"] for subset in SEVEN}
    assert found["sugarcrepe-macro"] == pytest.approx(100 * sum(hits.values()) / 7)
    groups = ({"a": 412, "b": 408}, {"coco-one": 2247, "coco-two": 440}, {"vg-one": 1160, "vg-two": 291})
    right = [sum(averaged[SIX[f"whatsup-{of}"]] * n for of, n in sizes.items()) for sizes in groups]
    pooled = [of / sum(sizes.values()) for of, sizes in zip(right, groups, strict=True)]
    assert found["whatsup-three"] == pytest.approx(100 * sum(pooled) / 3)
    assert (found["whatsup-pairs"], found["whatsup-sets"]) == (pytest.approx(15), pytest.approx(12.5))
    assert chance.cells[names.index("whatsup-six")].value == pytest.approx((2 * 25 + 4 * 50) / 6)
    assert f"whatsup-six: {AVERAGES['whatsup-six']}" in table.notes


def test_every_name_has_parts_and_every_part_a_size():
    sizes = {name: sum(part.weight for group in parts_of(name) for part in group) for name in AVERAGES}
    assert sizes["whatsup-six"] == sizes["whatsup-three"] == sizes["whatsup-all"] == 4958
    assert {sizes[f"sugarcrepe-{name}"] for name in ("micro", "macro", "three")} == {7511}
    assert [len(parts_of(name)) for name in AVERAGES] == [6, 3, 1, 2, 2, 1, 7, 3]


def test_a_model_without_all_parts_has_no_average(tmp_path):
    numbers = dict.fromkeys([*SIX.values(), *(f"sugarcrepe::{subset}" for subset in SEVEN), "pairs"], 0.5)
    folders = [record(tmp_path / "all", "all", numbers), record(tmp_path / "part", "part", numbers, part=True)]
    options = ["-b", "sugarcrepe", "--average-as", "sugarcrepe-three", "--no-tiers", "--json"]
    shown = CliRunner().invoke(app, ["table", *map(str, folders), *options])
    rows = {row["label"]: row["cells"][-1]["value"] for row in json.loads(shown.output)["rows"]}
    assert rows == {"all": 50.0, "part": None, "chance": 50.0}
    for runs, layout, name, error, *facts in (
        (folders[1:], None, "whatsup-six", RunError, "average_as=", "all", "whatsup-a", "whatsup-b"),
        (folders, None, "whatsup", UnknownNameError, "'whatsup'", "average"),
        (folders, "vlue", "whatsup-six", RunError, "average_as=", "column"),
    ):
        with raises(error, *facts):
            lay_out(runs, layout, average_as=(name,))
