"""Tables: the papers' columns, what is bold and what is marked, and text that the three formats' readers take."""

import csv
import io
import re
import shutil
import subprocess
from collections.abc import Callable
from itertools import accumulate
from unittest.mock import Mock

import numpy as np
import pytest
from aro_rule import original_choice
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from facts import raises
from tellapart.cli.main import app
from tellapart.errors import RunError, UnknownNameError
from tellapart.evaluation.verified import read_result
from tellapart.metrics.choice import choice_score
from tellapart.metrics.per_item import mean
from tellapart.records.run_folder import write_result
from tellapart.records.samples import read_samples
from tellapart.report.measured import gather, title_of
from tellapart.report.paper_tables import table as written
from tellapart.report.paper_tables.layouts import lay_out
from tellapart.report.paper_tables.table import (
    fit_width,
    latex_packages,
    latex_text,
    write_csv,
    write_latex,
    write_markdown,
)
from tellapart.report.tables import Cell, Column, Row, Table
from tellapart.stats.paired import tiers

SUGARCREPE = ("replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj", "add_att")
BIVLC = ("replace", "swap", "add")
VALSE = (
    *("existence", "plurals", "counting-hard", "counting-small-quant", "counting-adversarial", "relations"),
    *("action-replacement", "actant-swap", "coreference-standard", "coreference-hard", "foil-it"),
)


def tagged(tag: str, values: tuple[str, ...]) -> list[dict[str, str]]:
    return [{tag: value} for value in values]


def rows_of_latex(text: str) -> list[list[str]]:
    """Parse a tabular: a row's cells, one that spans several counted as often; every brace and environment closes."""
    bare = re.sub(r"\\[\\&%$#_{}]", lambda found: "\\\\" if found[0] == "\\\\" else "", text)
    depths = [*accumulate({"{": 1, "}": -1}.get(letter, 0) for letter in bare)]
    assert min(depths) >= 0 == depths[-1]
    opened, closed = (re.findall(rf"\\{action}\{{(\w+)\}}", text) for action in ("begin", "end"))
    assert opened == closed[::-1]
    body = text.partition(r"\toprule")[2].partition(r"\bottomrule")[0]
    rows = []
    for line in body.splitlines():
        if line.endswith(r"\\"):
            rows.append([])
            for cell in re.split(r"(?<!\\) ?& ?", line.removesuffix(r" \\")):
                span = re.match(r"\\multicolumn\{(\d+)\}", cell)
                rows[-1] += [cell] * (int(span[1]) if span else 1)
    return rows


def test_eqben_is_laid_out_as_table_3_and_only_its_mean_has_no_interval(save_eqben):
    folder = save_eqben("m")
    table = lay_out([folder])
    groups = ["Eq-YouCook2", "Eq-GEBC", "Eq-AG", "Eq-Kubric", "Eq-SD"]
    assert [column.group for column in table.columns] == [group for group in groups for _ in range(3)] + [""]
    assert [column.name for column in table.columns] == ["text", "image", "group"] * 5 + ["Avg"]
    record = read_result(folder).benchmarks["eqben"]
    by = {value: group.metrics for value, group in record.by["subset"].items()}
    subsets = [["youcook2"], ["gebc"], ["ag"], ["kubric_location", "kubric_attribute", "kubric_counting"], ["sd"]]
    names = ("text_score", "image_score", "group_score")
    expected = [100 * float(mean([by[value][name].value for value in of])) for of in subsets for name in names]
    expected.append(float(mean(expected)))
    assert [cell.value for cell in table.rows[0].cells] == expected
    means = {place for place, column in enumerate(table.columns) if column.group == "Eq-Kubric" or column.name == "Avg"}
    assert {place for place, cell in enumerate(table.rows[0].cells) if cell.low is None} == means
    youcook = record.by["subset"]["youcook2"].metrics["text_score"]
    assert (table.rows[0].cells[0].low, table.rows[0].cells[0].high) == (100 * youcook.low, 100 * youcook.high)
    assert table.rows[-1].label == "chance" and table.rows[-1].cells[2].value == pytest.approx(100 / 6)


def test_valse_sets_its_metrics_under_each_other(save):
    tags = tagged("instrument", VALSE)
    table = lay_out([save("m", benchmark="valse", shape=(1, 2), kind="probability", tags=tags, n=55)])
    assert (table.heads, [column.name for column in table.columns]) == (("metric", "model"), [*VALSE, "Avg"])
    assert [row.block for row in table.rows] == ["acc_r", "acc_r", "acc", "acc", "min(p_c, p_f)", "min(p_c, p_f)"]
    assert len(rows_of_latex(write_latex(table))) == 7


@pytest.mark.parametrize(
    ("plan", "heading"),
    [
        ({"benchmark": "bivlc", "tags": tagged("type", BIVLC)}, ["I2T", "T2I", "Group", "replace I2T"]),
        (
            {"benchmark": "sugarcrepe", "shape": (1, 2), "tags": tagged("subset", SUGARCREPE)},
            ["REPLACE object", "REPLACE attribute", "REPLACE relation", "SWAP object"],
        ),
        ({"benchmark": "shapes"}, ["text score", "image score", "group score"]),
        # A subset is missing: then the paper's row means nothing, and the first look stands there.
        ({"benchmark": "eqben", "tags": tagged("subset", ("youcook2", "gebc", "ag"))}, ["text score", "image score"]),
    ],
)
def test_other_benchmarks_have_their_papers_columns_or_the_first_look(save, plan, heading):
    table = lay_out([save("m", n=42, **plan)])
    assert [f"{column.group} {column.name}".strip() for column in table.columns][: len(heading)] == heading
    assert all(cell.value is not None for cell in table.rows[0].cells)


def test_aros_orders_have_a_column_of_their_authors_rule(save, tmp_path):
    rng = np.random.default_rng(0)
    expected, folders = {"chance": [20, 20]}, []
    for model, equal in (("a", 3), ("b", 0), ("constant", 50)):
        scores = rng.permuted(np.tile(np.float32(range(5)), (50, 1)), axis=1)[:, None, :]
        scores[:equal] = 9
        folders.append(save(model, benchmark="aro-flickr-order", shape=(1, 5), n=50, tags=(), scores=scores))
        expected[model] = [100 * choice_score(scores).mean(), 100 * original_choice(scores).mean()]
    table = lay_out(folders)
    assert [column.name for column in table.columns] == ["choice score", "choice score (authors)"]
    assert {row.label: pytest.approx([cell.value for cell in row.cells]) for row in table.rows} == expected
    assert expected["constant"] == [0, 100]
    assert "authors: ties as the benchmark's own code counts them" in table.notes
    printed = CliRunner().invoke(app, ["table", *map(str, folders), "--csv"]).output
    assert printed.splitlines()[0] == "model,choice score,choice score (authors)"


def test_retrieval_is_laid_out_as_in_coco_counterfactuals(publish):
    # COCO-Counterfactuals, Table 5: CLIP as pre-trained, and trained on COCO-CFs.
    clip = (50.96, 79.33, 86.45, 47.89, 77.19, 85.73, 71.26)
    trained = (65.03, 90.26, 94.99, 64.09, 89.52, 94.62, 83.09)
    names = [*(f"{side}_recall@{k}" for side in ("i2t", "t2i") for k in (1, 5, 10)), "mean_recall"]
    folders = [
        publish(model, {("coco-retrieval", name): of / 100 for name, of in zip(names, row, strict=True)}, "retrieval")
        for model, row in (("CLIP", clip), ("CLIP + COCO-CFs", trained))
    ]
    table = lay_out(folders, with_tiers=False)
    heads = [(f"{side} retrieval", f"R@{k}") for side in ("Text", "Image") for k in (1, 5, 10)]
    assert [(column.group, column.name) for column in table.columns] == [*heads, ("", "Mean")]
    assert tuple(round(cell.value, 2) for cell in table.rows[0].cells) == clip
    assert [cell.best for cell in table.rows[1].cells] == [True] * 7


@pytest.mark.parametrize("benchmarks", [("shapes",), ("bivlc", "winoground")], ids=["a set", "several"])
def test_the_best_is_bold_and_its_tier_is_marked_by_the_test(save, benchmarks):
    folders = [
        save(f"m{k}", skill=skill, seed=j + 5 * k, benchmark=name, n=60, tags=tagged("type", BIVLC))
        for k, skill in enumerate((3.0, 2.8, 0.0))
        for j, name in enumerate(benchmarks)
    ]
    table = lay_out(folders)
    for j, name in enumerate(benchmarks):
        runs = [read_samples(folder, name) for folder in folders[j :: len(benchmarks)]]
        outcomes = {f"m{k}": np.array([one.outcomes["group_score"] for one in of]) for k, of in enumerate(runs)}
        first = tiers(outcomes, None)[0].names
        cells = {row.label: row.cells[2 if len(benchmarks) == 1 else j] for row in table.rows if not row.plain}
        assert {label for label, cell in cells.items() if cell.best or cell.near} == set(first) == {"m0", "m1"}
        assert [label for label, cell in cells.items() if cell.best] == [first[0]]
    assert table.notes[1].startswith("dagger: not significantly different")
    without = lay_out(folders, with_tiers=False)
    assert not any(cell.near for row in without.rows for cell in row.cells)
    assert not any(note.startswith("dagger") for note in without.notes)


def test_the_items_of_a_run_are_read_once_however_many_columns_are_tested(save_eqben, monkeypatch):
    folders, note = [save_eqben(name, seed=seed) for seed, name in enumerate("ab")], Mock(side_effect=read_samples)
    for module in ("evaluation.systems", "report.measured"):
        monkeypatch.setattr(f"tellapart.{module}.read_samples", note)
    lay_out(folders)
    assert [call.args[0] for call in note.call_args_list] == folders


def test_tiers_of_a_subset_are_those_of_its_items_and_a_tag_that_two_runs_have_otherwise_has_none(save):
    tags = [tagged("type", BIVLC), tagged("type", BIVLC[::-1]), tagged("type", BIVLC)]
    plan = {"n": 90, "benchmark": "bivlc"}
    runs = [save(f"m{k}", skill=skill, seed=k, tags=tags[k], **plan) for k, skill in enumerate((3.0, 2.8, 0.0))]
    for table in (lay_out(runs), lay_out([runs[1], runs[0], runs[2]])):
        tested = [n for n, column in enumerate(table.columns) if column.full_name.startswith(BIVLC)]
        assert len(tested) > 3 and not any(row.cells[n].near for row in table.rows for n in tested)
    plan |= {"tags": tagged("type", BIVLC)}
    table = lay_out([save(f"m{k}", skill=skill, seed=k, **plan) for k, skill in enumerate((0.1, 4.0))])
    swap = [column.full_name for column in table.columns].index("swap Group")
    assert [(row.cells[swap].near, row.cells[swap].best) for row in table.rows[:2]] == [(False, False), (False, True)]


def test_ties_are_said_under_the_table(save):
    table = lay_out([save("flat", scores=np.full((30, 2, 2), 0.5, np.float32))])
    for tied in ("text_score flat 25.00", "image_score flat 25.00", "group_score flat 16.67"):
        assert f"{tied} (30 tied)" in table.notes[-1]


def test_vlues_tables_are_the_papers(vlue, vlue_costs, vlue_published, publish):
    tasks = lay_out(vlue, "vlue")
    assert [column.name for column in tasks.columns] == list(vlue_published)
    assert [(row.block, row.label) for row in tasks.rows] == [("NLVR2", "Test-OOD"), ("VQA", "Test-OOD")]
    assert [cell.best for cell in tasks.rows[0].cells].index(True) == list(vlue_published).index("X-VLM")
    cost = lay_out(vlue, "vlue-cost", costs=vlue_costs)
    performance = {model: row[2] for model, row in vlue_published.items()}
    assert {row.label: round(row.cells[0].value, 3) for row in cost.rows} == pytest.approx(performance, abs=0.0051)
    assert [row.label for row in cost.rows if row.cells[1].best] == ["ALBEF"]  # the lowest time
    numbers = {("coco-captions", "bleu_4"): 0.399, ("coco-captions", "cider"): 1.34, ("vlue-captions", "cider"): 0.674}
    captions = lay_out([publish("X-VLM", numbers, "captions")], "vlue-captions")
    assert [cell.value and round(cell.value, 6) for cell in captions.rows[0].cells] == [39.9, 134.0, None, 67.4]


def test_reference_models_are_never_best_in_vlues_tables(publish, tmp_path):
    numbers = {("vlue-nlvr2", "accuracy"): 0.7, ("vlue-vqa", "exact_match"): 0.5, ("vlue-captions", "cider"): 0.6}
    gains = {"a": 0.0, "b": 0.1, "oracle": 0.3}
    runs = [publish(name, {key: of + more for key, of in numbers.items()}) for name, more in gains.items()]
    (tmp_path / "costs.csv").write_text("model,ms\na,3\nb,2\noracle,1\n")
    for layout, settings, best in (
        ("vlue", {}, [[False, True, False]] * 2),
        ("vlue-cost", {"costs": tmp_path / "costs.csv"}, [[False, False], [True, True], [False, False]]),
        ("vlue-captions", {}, [[False] * 4, [False, False, False, True], [False] * 4]),
    ):
        table = lay_out(runs, layout, **settings)
        assert [[cell.best for cell in row.cells] for row in table.rows] == best
        assert any("reference models" in note for note in table.notes)
    assert not any("reference models" in note for note in lay_out(runs[2:], "vlue").notes)


def test_runs_of_one_model_fill_one_column(publish):
    runs = [publish("m", {("nlvr2", "accuracy"): 0.8}), publish("m", {("vlue-nlvr2", "accuracy"): 0.7})]
    table = lay_out(runs, "vlue")
    assert [(row.label, row.cells[0].value) for row in table.rows] == [("Test-P", 80.0), ("Test-OOD", 70.0)]
    with_dev = lay_out([*runs, publish("m", {("nlvr2-dev", "accuracy"): 0.9})], "vlue")
    assert [row.label for row in with_dev.rows] == ["Dev", "Test-P", "Test-OOD"]
    twice = lay_out([*runs, publish("m", {("nlvr2", "accuracy"): 0.6})], "vlue")
    assert [column.name for column in twice.columns] == ["m (run 1)", "m (run 2)"]
    assert [[cell.value for cell in row.cells] for row in twice.rows] == [[80.0, 60.0], [70.0, None]]


def test_a_note_on_other_files_stands_once_however_many_rows_a_set_has(publish, tmp_path):
    result = read_result(publish("m", {("coco-retrieval", f"i2t_recall@{k}"): 0.5 for k in (1, 5)}, "retrieval"))
    record = result.benchmarks["coco-retrieval"].model_copy(update={"published_items": 5000})
    write_result(tmp_path / "run", result.model_copy(update={"benchmarks": {"coco-retrieval": record}}))
    (note,) = (note for note in lay_out([tmp_path / "run"], "vlue").notes if "does not compare" in note)
    assert "5,000 records: m" in note


@pytest.mark.parametrize("intervals", [False, True])
def test_latex_has_as_many_cells_in_every_row_as_its_tabular_says(save_eqben, vlue, intervals):
    names = (r"a_b & 100% \ {x}", "~^#$")
    eqben = [save_eqben(name, seed=seed, skill=3.0) for seed, name in enumerate(names, start=1)]
    tables = [lay_out(eqben), lay_out(vlue, "vlue")]
    for table in tables:
        text = write_latex(table, intervals=intervals)
        (columns,) = re.findall(r"\\begin\{tabular\}\{(l+r*)\}", text)
        assert {len(row) for row in rows_of_latex(text)} == {len(columns)}
        assert text.count(r"\textbf{") >= len(table.columns if table.best_of == "column" else table.rows)
    assert (r"\scriptsize" in write_latex(tables[0], intervals=intervals)) == intervals


@given(st.text(st.characters(max_codepoint=0x17E, exclude_categories=("Cc", "Cf", "Zs"))))
def test_what_latex_prints_is_the_text_again(text):
    written = latex_text(text)
    commands = {"textbackslash": "\\", "textasciitilde": "~", "textasciicircum": "^", "char34": '"'}
    commands |= {"textless": "<", "textgreater": ">", "textbar": "|"}
    foreign = r"\\ifdefined\\Umathcode (.*?)\\else.*?\\fi\{\}"
    marks = re.compile(foreign + r"|\\([a-z]+\d*)\{\}|\\([&%$#_{}])|\{([\[*])\}|(\{\})")
    assert marks.sub(lambda of: commands[of[2]] if of[2] else of[1] or of[3] or of[4] or "", written) == text
    assert not re.search(r"(?<!\\)[&%$#_]", re.sub(r"\\[a-z]+\{\}", "", written))
    assert not re.search(r"--|``|''|,,|[?!]`|^[\[*]", written)


@given(st.text())
def test_two_names_of_which_one_is_not_printable_stay_two(text):
    assert latex_text(f"{text}\u200b") not in {latex_text(text), latex_text(f"{text}\u200c")}


def test_markdown_cells_hold_no_bar_and_no_markup_of_their_own(save):
    table = lay_out([save("a|b*c_d <i> &lt; R&D", seed=1), save("e", seed=2)])
    lines = [line for line in write_markdown(table, intervals=True).splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1
    assert r"a\|b\*c\_d \<i\> \&lt; R&D" in lines[2]
    assert re.search(r"\*\*\d+\.\d\d\*\* \[\d+\.\d, \d+\.\d\]", "\n".join(lines))


def test_a_name_that_a_spreadsheet_would_run_is_text_in_csv_and_numbers_stay_numbers():
    rows = (Row(('=HYPERLINK("u")',), (Cell(-1.5),)), Row(("b;-1",), (Cell(None),)))
    written = write_csv(Table("t", ("model",), (Column("", "=x"),), rows))
    assert [*csv.reader(io.StringIO(written))] == [["model", "'=x"], ['\'=HYPERLINK("u")', "-1.5"], ["b;'-1", ""]]


def test_intervals_of_many_columns_stand_below_their_numbers():
    cells = (Cell(50.0, 40.0, 60.0, near=True),) * 5
    few, many = (Table("t", ("model",), (Column("", "x"),) * k, (Row(("a",), cells[:k]),)) for k in (4, 5))
    beside, below = (rows_of_latex(write_latex(table, intervals=True)) for table in (few, many))
    assert beside[1][1] == r"50.00$^\dagger$ {\scriptsize [40.0, 60.0]}"
    assert below[1][1] == r"50.00\rlap{$^\dagger$}" and below[2] == ["", *[r"{\scriptsize [40.0, 60.0]}"] * 5]
    assert r"95\% intervals" in write_latex(few, intervals=True)
    assert "95% intervals" in write_markdown(few, intervals=True)
    assert "intervals" not in write_latex(few) + write_markdown(few)


def test_a_number_that_was_not_measured_is_a_dash_and_never_best():
    rows = (Row(("a",), (Cell(None), Cell(1.0))), Row(("b",), (Cell(2.0), Cell(None))))
    table = Table("t", ("model",), (Column("", "x"), Column("", "y")), rows)
    assert "a & -- & 1.00" in write_latex(table) and "| b | 2.00 | – |" in write_markdown(table)
    assert write_csv(table).splitlines()[1] == "a,,1.0"


def test_the_command_prints_or_writes_one_format(save, tmp_path):
    folder = str(save("m"))
    assert CliRunner().invoke(app, ["table", folder, "--latex"]).output.startswith("% \\usepackage{booktabs}")
    out = tmp_path / "t.md"
    assert CliRunner().invoke(app, ["table", folder, "--out", str(out)]).output == f"table: {out}\n"
    assert out.read_text().startswith("**shapes, 30 items, percent**")
    assert CliRunner().invoke(app, ["table", folder, "--csv"]).output.startswith("model,text score")
    assert "choose one" in str(CliRunner().invoke(app, ["table", folder, "--csv", "--latex"]).exception)


def test_what_a_table_cannot_show_is_said(save, vlue, tmp_path):
    (path := tmp_path / "some.csv").write_text("model,ms\nLXMERT,1\n")
    folders = [save("m")]
    refused = [
        (folders, {"layout": "vlue"}, ("any", "coco-retrieval", "vlue-retrieval", "nlvr2")),
        (folders, {"layout": "vlue-captions"}, ("any", "coco-captions", "vlue-captions")),
        (folders, {"benchmarks": ("x",)}, ("'x'", "run")),
        (folders, {"labels": {"string": "x"}}, ("labels=", "string", "model")),
        (folders, {"sort": "grup_score"}, ("'grup_score'", "shapes")),
        (vlue, {"layout": "vlue-cost"}, ("models", "vlue-cost")),
        (vlue, {"layout": "vlue-cost", "costs": path}, ("ViLBERT", "LXMERT")),
    ]
    for runs, settings, facts in refused:
        with raises(RunError, *facts):
            lay_out(runs, **settings)
    with raises(UnknownNameError, "'vleu'", "'vlue'"):
        lay_out(folders, "vleu")


def test_the_best_is_bold_only_above_chance(save):
    """Two models that guess: the higher is no winner; one that is right stays the winner."""
    guessing = [save("a", skill=0.0, seed=1, n=60), save("b", skill=0.0, seed=2, n=60)]
    rows = [row for row in lay_out(guessing).rows if not row.plain]
    assert not any(cell.best for row in rows for cell in row.cells if cell.low is not None and cell.low <= 25)
    assert "bold: the best of its column, if it is above chance" in lay_out(guessing).notes
    winner = lay_out([*guessing, save("c", skill=4.0, seed=3, n=60)]).rows[2]
    assert winner.label == "c" and all(cell.best for cell in winner.cells)


def test_labels_rename_models_and_rows_keep_the_order_or_are_sorted(save):
    folders = [save("weak", skill=0.2, seed=1, n=60), save("strong", skill=4.0, seed=2, n=60)]
    for options, labels in (
        ({"labels": {"strong": "Ours, 12 layers"}}, ["weak", "Ours, 12 layers"]),
        ({"sort": "group_score"}, ["strong", "weak"]),
    ):
        assert [row.label for row in lay_out(folders, **options).rows if not row.plain] == labels


def test_a_limited_run_says_so_in_every_table_and_picture_and_is_no_rival_of_a_full_one(save):
    folder, whole = save("m", n=20), save("m", n=30)
    result = read_result(folder)
    cut = {name: part.model_copy(update={"limited_from": 30}) for name, part in result.benchmarks.items()}
    write_result(folder, result.model_copy(update={"benchmarks": cut}))
    table = lay_out([folder])
    assert table.title == "shapes, 20 of 30 items, percent"
    assert r"\caption{shapes, 20 of 30 items, percent}" in write_latex(table)
    (run,) = gather([folder])
    assert title_of([run], "shapes").startswith("shapes, 20 of 30 items")
    with raises(RunError, "30", "20", "30", "limit="):
        lay_out([whole, folder])


ENGINES = [
    pytest.param(engine, marks=pytest.mark.skipif(shutil.which(engine) is None, reason=f"no {engine} on the PATH"))
    for engine in ("pdflatex", "xelatex")
]
NAMES = (
    "".join(map(chr, range(32, 127))), "[new] model", "*best*", "--- a--b ``c'' ?` !` ,, 'd'", "β-CLIP: ΑΩω",
    "Čelišće, naïve, Øre, ş, ț – “it’s” → 5 €", "Dąb « þing »", "模型-7B Кот 🤖 x̂ é",
    "z\u200bw \u202e\x07\ufeff \ue000\ufffd", "two\nlines\u00a0and\ttabs", "",
)  # fmt: skip


@pytest.fixture
def typeset(tmp_path) -> Callable[..., None]:
    """Compile a table as its first lines say; an error or a sign without a glyph fails."""

    def compile_(latex: str, engine: str = "pdflatex") -> None:
        preamble = re.findall(r"^% (\\usepackage.*)$", latex, re.MULTILINE)
        lines = [r"\documentclass{article}", *preamble, r"\begin{document}", latex, r"\end{document}", ""]
        (tmp_path / "paper.tex").write_text("\n".join(lines), encoding="utf-8")
        command = [engine, "-halt-on-error", "-interaction=nonstopmode", "paper.tex"]
        done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, timeout=120)
        assert done.returncode == 0, done.stdout[-3000:]
        log = (tmp_path / "paper.log").read_text(encoding="utf-8", errors="replace")
        assert "Overfull \\hbox" not in log
        if engine == "pdflatex":  # another engine says so where its font has no such letter
            assert "Missing character" not in log

    return compile_


def table_of(names: tuple[str, ...], columns: int = 3) -> Table:
    numbers = np.random.default_rng(0).uniform(10, 90, (len(names), columns))
    rows = [
        Row((name,), tuple(Cell(n, n - 5, n + 5, best=not k, near=k > 1) for k, n in enumerate(row)))
        for name, row in zip(names, numbers, strict=True)
    ]
    rows.append(Row(("chance",), (Cell(None),) * columns, plain=True))
    heads = tuple(Column(f"{names[0]} {place // 3}", f"small-quant_{place}") for place in range(columns))
    # A caption breaks between words, and the first name has none.
    return Table(" ".join(names[1:]), ("model",), heads, tuple(rows), notes=("dagger: a", *names[1:]))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("columns", [3, 6, 16])
def test_a_table_compiles_and_fits_whatever_its_models_are_called(typeset, engine, columns):
    for intervals in (False, True):
        typeset(write_latex(table_of(NAMES, columns), intervals=intervals), engine)


@pytest.mark.parametrize("engine", ENGINES[:1])
def test_every_letter_that_is_left_as_it_is_has_a_glyph(typeset, engine):
    letters = sorted(written._KNOWN | written._T1 | set(written._GREEK))
    rows = [rf"{latex_text(''.join(letters[place : place + 40]))} \\" for place in range(0, len(letters), 40)]
    lines = fit_width([r"\begin{tabular}{l}", *rows, r"\end{tabular}"])
    typeset("\n".join([*latex_packages("\n".join(lines)), *lines]), engine)


@pytest.mark.parametrize("engine", ENGINES[:1])
@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="no pdftotext on the PATH")
def test_what_a_reader_sees_is_the_name(typeset, engine, tmp_path):
    names = ("a & 50% of $x$ #1 {y}", "*best*", "[new] a--b ?", "模型 z\u200bw", "C:\\d")
    typeset(write_latex(table_of(names)), engine)
    command = ["pdftotext", "-layout", "paper.pdf", "-"]
    seen = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True).stdout.decode()
    lines = [line.strip() for line in seen.splitlines()]
    for name in (*names[:3], "[U+6A21 U+578B] z[U+200B]w", "C:\\d"):
        assert any(re.match(rf"{re.escape(name)}  +\d", line) for line in lines), seen


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES[:1])
def test_every_layout_compiles(typeset, engine, save, save_eqben, vlue, vlue_costs, publish):
    numbers = {("coco-captions", "bleu_4"): 0.399, ("coco-captions", "cider"): 1.34}
    recalls = {("coco-retrieval", f"{side}_recall@{k}"): k / 20 for side in ("i2t", "t2i") for k in (1, 5, 10)}
    several = [save(f"m_{k}", seed=k, benchmark=name) for name in ("winoground", "a_b") for k in range(2)]
    tables = [
        lay_out([save_eqben(name, seed=k) for k, name in enumerate("ab")]),
        lay_out([save("flat", scores=np.full((30, 2, 2), 0.5, np.float32)), save("b_c")]),
        lay_out([publish("m", recalls, "retrieval")]),
        lay_out(vlue, "vlue"),
        lay_out([publish("m_1", numbers, "captions")], "vlue-captions"),
        lay_out(vlue, "vlue-cost", costs=vlue_costs),
        lay_out(several, average=True),
    ]
    for table in tables:
        typeset("\n".join(write_latex(table, intervals=intervals) for intervals in (False, True)), engine)


def test_the_first_lines_name_the_packages_and_what_pdflatex_cannot_print():
    plain, polish, chinese = (write_latex(table_of((name,))).splitlines() for name in ("a", "ą", "模"))
    assert plain[:3] == [r"% \usepackage{booktabs}", r"% \usepackage{graphicx}", r"\begin{table}[t]"]
    assert polish[2] == r"% \usepackage[T1]{fontenc}"
    assert chinese[2].startswith("% pdflatex prints code points")
