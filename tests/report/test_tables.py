"""Tables on the terminal and in a pipe."""

import csv
import io
import json
import math
from collections.abc import Sequence

import numpy as np
import pytest
from aro_rule import original_choice
from rich.console import Console

import tellapart as ta
from facts import check_facts, raises
from tellapart.catalog import REFERENCES
from tellapart.diagnosis import probes
from tellapart.errors import RunError, plain
from tellapart.metrics.choice import choice_score
from tellapart.records.result import BenchmarkResult, Value
from tellapart.records.run_folder import write_result
from tellapart.records.samples import write_samples
from tellapart.report.benchmark_runs import BenchmarkRuns, ReportRun, arrange_runs
from tellapart.report.conclusions import conclude, rivals_of
from tellapart.report.numbers import count_text, deviation, items_text, percent, score
from tellapart.report.paper_tables.table import write_csv, write_json, write_latex, write_markdown
from tellapart.report.show import (
    breakdown_table,
    equivariance_table,
    first_table,
    first_tables,
    result_tables,
    tag_table,
)
from tellapart.report.tables import MODEL_COLUMNS, Cell, Column, Row, Table
from tellapart.tasks.registry import headline
from tellapart.training.train import SeedRow


def printed(table: Table | None, width: int = 100) -> str:
    target = io.StringIO()
    Console(file=target, width=width).print(table)
    return target.getvalue()


def same(*runs: ReportRun) -> BenchmarkRuns:
    (group,) = arrange_runs(runs)
    return group


def result_table(*runs: ReportRun, names: Sequence[str] = ()) -> Table:
    (table,) = result_tables(same(*runs), names)
    return table


def with_record(run: ReportRun, **changes: object) -> ReportRun:
    record = run.result.benchmarks["shapes"].model_copy(update=changes)
    return ReportRun(run.result.model_copy(update={"benchmarks": {"shapes": record}}), run.samples)


def row(text: str, start: str) -> str:
    found = [line for line in text.splitlines() if line.startswith(start)]
    assert len(found) == 1, text
    return found[0]


def test_each_column_names_the_number_that_it_is_of(make_run):
    run = make_run(n=30)
    metrics = run.result.benchmarks["shapes"].metrics
    assert "percent of 30 items" in printed(result_table(run))
    groups = metrics["group_score"].model_copy(update={"n": 10, "clusters": 10})
    run = with_record(run, metrics={**metrics, "group_score": groups})
    text = printed(result_table(run, names=["group_score", "text_score"]))
    assert "30 items, percent of n" in text and row(text, "n").split() == ["n", "10", "30"]
    assert "of 10" in printed(breakdown_table(same(run)), 160)
    first = printed(first_table(same(run), width=200), 200)
    assert "30 items, percent of n" in first and row(first, "n").split()[1] == "10"


@pytest.fixture
def strong_and_weak(make_run) -> list[ReportRun]:
    return [make_run(model="strong", skill=3.0, seed=1), make_run(model="weak", skill=0.1, seed=2)]


def test_first_look_has_a_row_for_each_model_and_chance_last(strong_and_weak):
    text = printed(result_table(*strong_and_weak))
    for run in strong_and_weak:
        metrics = run.result.benchmarks["shapes"].metrics
        line = row(text, run.result.model.name)
        assert all(score(metrics[name]) in line for name in ("text_score", "image_score", "group_score"))
    assert text.rstrip().splitlines()[-1].split() == ["chance", "25.00", "25.00", "16.67", "50.00"]
    assert "text_score" in text and "ipos_2t" not in text


def test_tables_fit_100_columns_and_hold_no_escape_when_piped(make_run):
    run = make_run(model="open_clip:ViT-B-32/laion2b_s34b_b79k", skill=9.0)
    runs = [run, make_run(model="constant", scores=np.full((30, 2, 2), 0.5, np.float32))]
    for table in (result_table(*runs), equivariance_table(same(*runs)), breakdown_table(same(run))):
        text = printed(table)
        assert max(map(len, text.splitlines())) <= 100
        assert "\x1b" not in text and "…" not in text  # nothing is cut
    assert "100.00 [88.4, 100.0]" in printed(result_table(*runs))


def test_ties_show_only_where_a_tie_occurred(make_run):
    scores = np.tile(np.float32([[0.9, 0.1], [0.2, 0.95]]), (30, 1, 1))
    clean = make_run(scores=scores)
    scores[:6, 0, 1] = 0.9  # six items tie image 0 with both texts
    tied = make_run(scores=scores, model="tied")
    assert "ties broken at random" not in printed(result_table(clean))
    text = printed(result_table(clean, tied, names=("text_score", "image_score", "group_score")))
    # The image score has no tie: its cell stays empty, between the two others.
    assert row(text, "  ties").split("random")[1].split() == ["90.00", "(6", "tied)"] * 2


def orders(n: int = 50, equal: int = 2) -> np.ndarray:
    """Scores of captions and four permutations, some of which equal their caption, and so have its score."""
    scores = np.random.default_rng(0).permuted(np.tile(np.float32(range(5)), (n, 1)), axis=1)[:, None, :]
    scores[:equal, 0, 3], scores[:equal, 0, 0] = 9, 9
    return scores


def test_aros_own_rule_stands_under_the_strict_one(make_run):
    def measured(benchmark: str, scores: np.ndarray) -> str:
        run = make_run(benchmark=benchmark, shape=scores.shape[1:], n=50, tags=(), scores=scores)
        return printed(result_table(run))

    scores = orders()
    original, strict = (100 * rule(scores).mean() for rule in (original_choice, choice_score))
    assert original == strict + 4
    text = measured("aro-coco-order", scores)
    assert f"{strict:.2f}" in row(text, "plain")
    assert row(text, "  ties as its authors count").split("count")[1].split() == [f"{original:.2f}"]
    # Not of another set, not without ties, nor where it is the strict one.
    zeros = np.zeros((50, 1, 2), np.float32)
    for unlike in (("mine", scores), ("aro-coco-order", orders(equal=0)), ("aro-relation", zeros)):
        assert "authors" not in measured(*unlike)


def test_breakdown_labels_macro_and_micro_and_leaves_a_tag_of_many_values_to_the_report(make_run):
    run = make_run(n=30)
    record = run.result.benchmarks["shapes"]
    text = printed(breakdown_table(same(run)), 140)
    assert score(record.by["type"]["colour"].metrics["group_score"]) in row(text, "type = colour")
    assert score(record.macro["type"].metrics["group_score"]) in row(text, "macro: mean of type's 2 values")
    assert score(record.metrics["group_score"]) in row(text, "micro: all items")
    values = {f"value {k}": record.by["type"]["colour"] for k in range(13)}
    text = printed(breakdown_table(same(with_record(run, by={"type": values}))), 140)
    assert "type = " not in text and "macro: mean of type's 13 values" in text
    assert breakdown_table(same(make_run(tags=()))) is None


def test_macro_and_micro_of_values_of_one_size_are_one_number_and_one_row(make_run):
    types = ({"type": "colour"}, {"type": "place"})
    tags = (types[0] | {"side": "left"}, types[1] | {"side": "right"}, *types)
    text = printed(breakdown_table(same(make_run(n=40, tags=tags))), 140)
    assert "macro: mean of type's" not in text and "macro: mean of side's" in text  # half of the items have a side
    assert "micro: all items (= macro of" in text and "type)" in text


def test_equivariance_is_shown_as_mean_spread_and_size_of_2x2_items(make_run):
    run = make_run()
    value = run.result.benchmarks["shapes"].metrics["v2_text"]
    (line,) = (line for line in printed(equivariance_table(same(run))).splitlines() if "v2_text" in line)
    assert line.split() == ["v2_text", *map(deviation, (value.value, value.sd, value.mean_absolute)), "30"]
    assert equivariance_table(same(make_run(shape=(1, 3)))) is None


def test_headline_follows_shape_and_kind(make_run):
    for shape, kind, *names in (
        ((2, 2), "logit", "text_score", "image_score", "group_score", "match_score"),
        ((1, 2), "probability", "pairwise", "acc", "min_pc_pf"),
        ((1, 2), "similarity", "choice_score"),
        ((1, 5), "similarity", "choice_score"),
        ((3, 1), "probability", "choice_score"),
    ):
        assert [*headline(make_run(shape=shape, kind=kind).result.benchmarks["shapes"].metrics)] == names


def test_a_name_is_neither_markup_nor_a_terminal_escape(make_run):
    text = printed(result_table(make_run(model="[bold red]x[/] \x1b[2J")), 140)
    assert "[bold red]x[/] \\x1b[2J" in text
    assert plain("a\u202eb\n") == "a\\u202eb\\n"


def cells(text: str, start: str) -> list[str]:
    return row(text, start).split()


@pytest.mark.slow
def test_the_demo_fits_thirty_lines_of_a_hundred_columns_and_the_rest_is_one_option_away(command):
    ran = command("run", "--out", "r", code=0)
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


def test_models_stand_by_the_main_metric_with_its_interval_and_by_the_values_of_a_tag(strong_and_weak):
    text = printed(first_table(same(*strong_and_weak)))
    assert cells(text, "model") == ["model", "group_score", "left", "right"]
    for run in strong_and_weak:
        record = run.result.benchmarks["shapes"]
        shares = [percent(record.by["side"][name].metrics["group_score"].value, 1) for name in ("left", "right")]
        name = run.result.model.name
        assert cells(text, name) == [name, *score(record.metrics["group_score"]).split(), *shares]
    assert cells(text, "chance") == ["chance", "16.67", "16.7", "16.7"]
    assert cells(text, "items") == ["items", "30", "10", "10"]
    assert "tie" not in text


def test_ties_of_the_main_metric_are_never_hidden(make_run):
    run = make_run(model="constant", scores=np.full((30, 2, 2), 0.5, np.float32))
    assert "constant 16.67 (30 tied)" in " ".join(printed(first_table(same(run))).split())


def test_a_table_that_is_too_wide_has_many_values_or_no_tags_has_the_metrics_as_columns(make_run):
    scores = ["text_score", "image_score", "group_score", "match_score"]
    for plan, width, columns in (
        ({}, 60, ["group_score", "left", "right"]),
        ({}, 40, scores),
        ({"tags": [{"type": f"value {k}"} for k in range(9)], "n": 36}, 100, scores),
        ({"tags": ()}, 100, scores),
    ):
        assert [*first_table(same(make_run(**plan)), width=width).headings] == ["model", *columns]


def test_a_long_name_is_folded_and_every_column_stays(make_run):
    text = printed(first_table(same(make_run(model="open_clip:" + "ViT-B-32/laion2b_s34b_b79k" * 4))))
    assert "left   right" in text and "…" not in text
    assert max(map(len, text.splitlines())) <= 100


def test_many_benchmarks_share_one_table_of_a_line_for_each_model(make_run):
    names = [f"set-{k}" for k in range(5)]
    runs = [make_run(benchmark=name, model=model) for name in names for model in ("a", "b")]
    runs[1] = make_run(benchmark="set-0", model="b", scores=np.full((30, 2, 2), 0.5, np.float32))
    groups = arrange_runs(runs, ["a", "b"] * 5)
    (table,) = first_tables(groups)
    text = printed(table, 120)
    assert len(table.rows) == 10 and all(name in text for name in names)
    of_a, of_b = (score(run.result.benchmarks["set-0"].metrics["group_score"]).split() for run in runs[:2])
    assert cells(text, "set-0") == ["set-0", "30", "group_score", "a", *of_a, "16.67"]
    assert next(line for line in text.splitlines() if " b " in line).split() == ["b", *of_b, "30", "16.67"]
    assert len(first_tables(groups[:3])) == 3


def test_a_tag_s_table_has_its_values_down_and_models_across(make_run):
    runs = [make_run(model=f"m{k}", skill=k, seed=k) for k in range(3)]
    records = [run.result.benchmarks["shapes"] for run in runs]
    text = printed(tag_table(same(*runs), "side"))
    left = [record.by["side"]["left"].metrics["group_score"] for record in records]
    assert cells(text, "left") == ["left", "10", *" ".join(map(score, left)).split()]
    many = tag_table(same(*runs * 4), "side")
    assert cells(printed(many, 300), "left")[1:5] == ["10", *(percent(value.value) for value in left)], "no room"


def test_a_tag_that_is_not_there_is_refused_with_those_that_are(command, made_set, tmp_path):
    run = ta.evaluate("random", "demo", limit=20, out=tmp_path / "r")
    with raises(RunError, "'aspects'", "aspect, change, held_out"):
        run.show(by="aspects")
    assert "counting" in command("show", str(tmp_path / "r"), "--by", "aspect").out
    for option in ("--all", "--by=aspect"):
        check_facts(command("show", str(tmp_path / "r"), "--json", option, code=2).err, "--all", "--by")


REASON = "too few for an interval: 3 items in the group 'a_b'"


def test_a_papers_table_has_the_reason_in_every_format():
    missing = Value(value=0.5, method="none: 3 items", reason=REASON, n=3, clusters=3, average="macro")
    cells = (Cell.with_interval(50.0, missing), Cell(60.0, 40.0, 70.0))
    table = Table("t", ("model",), (Column("", "x"), Column("", "y")), (Row(("m",), cells),))
    latex, markdown = (write(table, intervals=True) for write in (write_latex, write_markdown))
    assert r"50.00 {\scriptsize [-]} & 60.00 {\scriptsize [40.0, 70.0]}" in latex
    assert r"{[}-]: too few for an interval: 3 items in the group 'a\_b'." in latex
    assert "| m | 50.00 [-] | 60.00 [40.0, 70.0] |" in markdown
    assert r"[-\]: too few for an interval: 3 items in the group 'a\_b'." in markdown
    (row,) = csv.DictReader(io.StringIO(write_csv(table, intervals=True)))
    assert (row["x low"], row["x no interval"], row["y no interval"]) == ("", REASON, "")
    assert [cell["reason"] for cell in json.loads(write_json(table))["rows"][0]["cells"]] == [REASON, ""]


def test_the_table_and_the_sentence_of_a_run_have_the_reason(make_run):
    scores, bare = (
        np.tile(np.float32([[0.9, 0.1], [0.1, 0.9]]), (8, 1, 1)),
        {"low": None, "high": None, "reason": REASON},
    )
    run = make_run(scores=scores, n=8, tags=(), with_images=False, model="m")
    metrics = run.result.benchmarks["shapes"].metrics
    run = with_record(run, metrics={name: value.model_copy(update=bare) for name, value in metrics.items()})
    assert f"100.00 ({REASON})" in printed(result_table(run), 300)
    assert f"({REASON})" in conclude(same(run), rivals_of(same(run))).sentences[0]


def test_a_difference_over_seeds_has_the_reason():
    numbers = {"mean": 0.5, "sd": None, "other": 0.4, "difference": 0.1, "p": None, "p_holm": None, "p_ranks": None}
    seeds = ((1, None), (3, None), (3, 0.0))
    one, alike, known = (SeedRow("b", "m", count, low=low, high=low, **numbers) for count, low in seeds)
    assert "1 seed" in one.reason and "alike" in alike.reason and known.reason == ""


def test_the_probes_of_a_run_are_compared_once_for_its_tables_its_page_and_its_json(monkeypatch, capsys):
    compared: list[str] = []

    def count(system, seed: int):
        compared.append(system.label)
        return rows_of(system, seed)

    run = ta.evaluate(["demo-encoder", "random"], ["demo", "blank:demo"], limit=20)
    rows_of = probes._rows_of
    monkeypatch.setattr(probes, "_rows_of", count)
    run.show()
    printed_table = capsys.readouterr().out.split("what is left")[1]
    assert "demo-encoder" in printed_table and "what is left" in (run.folder / "report.html").read_text().lower()
    assert {row["model"] for row in run.to_json()["probes"]} == {"demo-encoder", "random"}
    assert compared == ["demo-encoder", "random"]


def test_a_column_of_models_is_one_line_and_stands_in_all_tables_of_models(monkeypatch, capsys):
    run = ta.evaluate("demo-encoder", "demo", limit=20)
    monkeypatch.setitem(MODEL_COLUMNS, "scores", lambda label, result: f"{label} gives {result.model.kind}")
    said = "demo-encoder gives similarity"
    for every in (False, True):
        run.show(every=every)
        printed_tables = " ".join(capsys.readouterr().out.split())
        assert "model scores" in printed_tables and said in printed_tables
    assert f">{said}</th>" in (run.folder / "report.html").read_text()
    assert f">{said}</td>" in run._repr_html_()
    for form in ("markdown", "latex", "csv", "json"):
        assert said in ta.table(run, form), form
    assert "scores" in first_tables(arrange_runs([ReportRun(run.result()) for _ in range(4)]) * 4)[0].headings


def test_two_runs_of_a_model_are_numbered_and_runs_of_other_sets_may_lie_beside_them(make_run, tmp_path, capsys):
    for name, plan in {"a": {"seed": 1}, "b": {"seed": 2}, "c": {"model": "other", "benchmark": "places"}}.items():
        made = make_run(**plan)
        write_result(tmp_path / name, made.result)
        write_samples(tmp_path / name, *made.samples.popitem())
    run = ta.open_run(tmp_path)
    assert run.models == ["plain (run 1)", "plain (run 2)", "other"]
    for options in ({}, {"every": True}, {"by": "side"}):
        run.show(**options)
        shown = capsys.readouterr().out
        assert all(text in shown and text in repr(run) for text in (*run.models, "places"))
        assert ("runs: plain (run 1) is a; plain (run 2) is b" in shown) == ("by" not in options)
    with raises(RunError, "places"):
        run.picture("places", "places-0000/0.png")


def test_a_limit_counts_records_whatever_units_a_metric_has():
    recall = Value(value=0.5, method="wilson", n=20, clusters=20, average="micro: captions")
    record = BenchmarkResult(title="", fingerprint="", metrics={"t2i_recall@1": recall}, origin="")
    assert items_text(record) == "20 items"
    assert items_text(record.model_copy(update={"limited_from": 24, "limited_to": 10})) == "10 of 24 items"
    assert (count_text(20, 24, 10), count_text(10, 24, 10)) == ("20 (10 of 24)", "10 of 24")
