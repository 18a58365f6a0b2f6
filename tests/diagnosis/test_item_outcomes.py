"""Items through many systems: from runs, score files and predictions; the analysis, and refusals."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tellapart as ta
from facts import check_facts, raises
from sets import put, write_file
from tellapart.diagnosis.item_analysis import ItemOutcomes, analyse_items
from tellapart.errors import RunError, TellapartError
from tellapart.records.result import Sample
from tellapart.records.run_folder import write_result
from tellapart.records.samples import read_samples, write_samples

WINOGROUND = Path(__file__).parents[3] / "shared" / "data" / "winoground_scores"


@pytest.fixture
def systems(made_set, tmp_path):
    """A set of 20 items and the score files of eight systems, each better than the one before."""
    folder, scores = made_set(n=20), tmp_path / "scores"
    scores.mkdir()
    rng = np.random.default_rng(0)
    noise, hard = rng.standard_normal((20, 2, 2)), rng.uniform(0, 2, (20, 1, 1))
    for k in range(8):
        own = noise + 0.5 * rng.standard_normal((20, 2, 2))
        np.save(scores / f"{'ab'[k % 2]}_{k}.npy", own + k * hard * np.eye(2) / 2)
    return f"folder:{folder}", scores


@pytest.fixture
def runs(systems, tmp_path) -> list[ta.Run]:
    """The same systems as runs."""
    name, scores = systems
    return [ta.score(name, path, out=tmp_path / "runs" / path.stem) for path in sorted(scores.iterdir())]


def test_the_same_systems_from_files_and_from_runs_are_analysed_alike(systems, runs):
    name, scores = systems
    files = sorted(scores.iterdir())
    of_files, of_runs = ta.items(scores=scores, benchmark=name), ta.items(*runs)
    assert of_files.record.items == of_runs.record.items and of_files.record.tags == of_runs.record.tags
    assert of_files.record.systems == of_runs.record.systems == tuple(path.stem for path in files)
    mixed = ta.items(*runs[:4], scores=files[4:], benchmark=name)
    assert mixed.record.items == of_runs.record.items
    values = [ta.open_run(run).value(of_runs.record.metric) for run in runs]
    assert of_runs.record.scores == pytest.approx(values)
    assert {(row.tag, row.value, row.n) for row in of_runs.record.tags} >= {("type", "swap", 7), ("side", "left", 10)}
    assert sum(row.share for row in of_runs.record.tags if row.tag == "type") == pytest.approx(1)


def test_a_tags_numbers_are_those_of_its_items_and_of_the_others():
    values = (np.random.default_rng(4).random((24, 7)) < np.linspace(0.2, 0.9, 7)).astype(float)
    values[0], values[1], kinds = 0, 1, np.array(["swap", "add", "add"] * 8)
    items = tuple(Sample(id=f"{k}", cluster=f"{k}", tags={"type": kind}, outcomes={}) for k, kind in enumerate(kinds))
    record = analyse_items(ItemOutcomes("made", "text_score", tuple("abcdefg"), items, values))
    assert (record.nobody, record.everybody) == (sum(values.max(axis=1) == 0), sum(values.min(axis=1) == 1))
    assert [row.solved for row in record.items] == values.sum(axis=1).tolist()
    found = {row.value: row for row in record.tags}
    for kind, row in found.items():
        inside, outside = values[kinds == kind], values[kinds != kind]
        own = [item.discrimination for item in record.items if item.tags["type"] == kind]
        assert (row.n, row.right) == (len(inside), pytest.approx(inside.mean()))
        assert row.discrimination == pytest.approx(np.mean([number for number in own if number is not None]))
        assert row.with_rest == pytest.approx(np.corrcoef(inside.sum(axis=0), outside.sum(axis=0))[0, 1])
        assert row.share == pytest.approx(
            np.cov(inside.sum(axis=0), values.sum(axis=0))[0, 1] / values.sum(0).var(ddof=1)
        )
        columns = inside.var(axis=1, ddof=1).sum() / inside.sum(axis=0).var(ddof=1)
        assert row.alpha == pytest.approx(len(inside) / (len(inside) - 1) * (1 - columns))


def test_a_folder_s_packed_and_parquet_files_are_systems_too(systems):
    pandas = pytest.importorskip("pandas")
    name, scores = systems
    before = ta.items(scores=scores, benchmark=name).record
    ids = [item.id for item in before.items]
    for k, path in enumerate(sorted(scores.iterdir())[:2]):
        rows = [(ids[n], image, text, score) for (n, image, text), score in np.ndenumerate(np.load(path))]
        table = pandas.DataFrame(rows, columns=["id", "image", "text", "score"])
        path.unlink()
        if k:
            table.to_parquet(path.with_suffix(".parquet"))
        else:
            table.to_csv(path.with_suffix(".csv.gz"), index=False)
    assert ta.items(scores=scores, benchmark=name).record == before
    assert ta.score(name, scores / "a_0.csv.gz").models == ["a_0"]


def test_a_tag_of_which_two_systems_have_other_values_has_no_numbers(systems, tmp_path):
    name, scores = systems
    listed, runs = Path(name.partition(":")[2]) / "pairs.jsonl", []
    for path in sorted(scores.iterdir()):
        runs.append(ta.score(name, path, out=tmp_path / "runs" / path.stem))
        listed.write_text(listed.read_text().replace('"swap"', '"other"'))
    assert {row.tag for row in ta.items(*runs).record.tags} == {"side"}
    assert {row.tag for row in ta.items(*runs[1:]).record.tags} == {"side", "type"}


def test_runs_on_other_content_are_refused_also_where_the_first_has_ids_alone(made_set, tmp_path):
    folder = made_set()
    np.save(tmp_path / "file.npy", np.random.default_rng(0).random((12, 2, 2)))
    elsewhere, here = ta.score(f"folder:{folder}", tmp_path / "file.npy"), ta.evaluate("random", f"folder:{folder}")
    listed = folder / "pairs.jsonl"
    listed.write_text(listed.read_text().replace('"texts": ["', '"texts": ["another '))
    changed = ta.evaluate("oracle", f"folder:{folder}")
    with raises(RunError, "folder:set", "captions"):
        ta.items(elsewhere, here, changed)


def change_record(run: ta.Run, **changes: object) -> None:
    result = ta.read_result(run)
    changed = {name: record.model_copy(update=changes) for name, record in result.benchmarks.items()}
    write_result(run.folder, result.model_copy(update={"benchmarks": changed}))


def test_items_of_a_limited_run_are_counted_with_the_benchmarks(runs):
    for run in runs:
        change_record(run, limited_from=300, limited_to=7)
    found = ta.items(*runs)
    assert found.record.limited_from == 300
    assert "20 (7 of 300) items" in repr(found) and "measured, 7 of 300" in repr(found)


def test_items_without_a_value_of_a_system_are_left_out_and_counted(runs):
    for run, lost in ((runs[0], 4), (runs[3], 9)):  # the first system, too
        ((name, record),) = ta.read_result(run).benchmarks.items()
        samples = list(read_samples(run.folder, name, record))
        samples[lost] = replace(samples[lost], outcomes={})
        change_record(run, samples=write_samples(run.folder, name, samples))
    found = ta.items(*runs).record
    assert (found.unmeasured, len(found.items)) == (2, 18)
    assert not {"item-4", "item-9"} & {row.id for row in found.items}


ASKED = """
name = "cups"
title = "Which cup?"
source = "drawn here"
files = ["asked.csv"]

[[question]]
id = "{id}"
images = "{id}.png"
question = "Which cup is it?"
options = ["a red cup", "a green cup"]
answer = "{answer}"
"""


def test_answers_to_questions_are_a_third_kind_of_input(tmp_path):
    (tmp_path / "cups.toml").write_text(ASKED)
    write_file(tmp_path / "asked.csv", [{"id": k, "answer": "a red cup"} for k in range(12)])
    files = [
        write_file(tmp_path / f"s{n}.jsonl", [{"id": str(k), "prediction": "AB"[k > 2 * n]} for k in range(12)])
        for n in range(6)
    ]
    found = ta.items(scores=files, benchmark=str(tmp_path / "cups.toml")).record
    assert (found.metric, found.nobody, found.everybody) == ("a_acc", 1, 1)
    assert [row.solved for row in found.items] == [6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0]


RATED = """
name = "rated"
title = "Which size?"
source = "drawn here"
files = ["rows.csv"]

[[{}]]
id = "{{row}}"
image = "{{size}}.png"
tags = {{ size = "{{size}}" }}
"""


def test_graded_outcomes_have_a_table_and_no_curve(tmp_path):
    (tmp_path / "rows.csv").write_text("size\n" + "".join(f"{k % 6}\n" for k in range(24)))
    (tmp_path / "rated.toml").write_text(RATED.format("rating") + 'text = "{size} cups"\nratings = ["{size}"]\n')
    subject = str(tmp_path / "rated.toml")
    sizes, noise = np.arange(24) % 6, np.random.default_rng(0).random((6, 24))
    for k, values in enumerate(noise):
        np.save(tmp_path / f"s{k}.npy", (sizes + k * values)[:, None, None])
    files = sorted(tmp_path.glob("s*.npy"))
    found, runs = ta.items(scores=files, benchmark=subject).record, [ta.score(subject, path) for path in files]
    assert (found.metric, found.scores[0]) == ("pairwise_accuracy", 1)
    assert found.scores == pytest.approx([run.value(found.metric) for run in runs])
    assert [any(word in note for note in found.notes) for word in ("right or wrong", "clusters")] == [True, True]
    with raises(RunError, "pairwise_accuracy", "graded"):
        ta.curve(runs[-1], over="size")
    with raises(RunError, "adaptive=20", "'ratings'"):
        ta.curve(model="demo-encoder", benchmark=subject, over="size", adaptive=20)
    (tmp_path / "rated.toml").write_text(RATED.format("open") + 'question = "How many?"\nanswer = "{size}"\n')
    (tmp_path / "said.jsonl").write_text("".join(f'{{"id": "{k}", "prediction": "3"}}\n' for k in range(24)))
    run = ta.score(subject, tmp_path / "said.jsonl")
    assert run.value("answer_match") == 4 / 24
    with raises(RunError, "answer_match", "chance"):
        ta.curve(run, over="size")


def test_families_are_those_of_a_file_a_mapping_or_the_names(systems, tmp_path):
    name, scores = systems
    names = [path.stem for path in sorted(scores.iterdir())]
    table = tmp_path / "families.csv"
    table.write_text("system,family\n" + "".join(f"{each},{each[0]}\n" for each in names))
    one, two, three = (
        ta.items(scores=scores, benchmark=name, family=each).record
        for each in ("name", table, {each: each[0] for each in names})
    )
    assert one == two == three and set(one.families) == {"a", "b"} and one.low is None
    for text, *facts in (
        ("system,family\na_0,a\n", "a_2"),
        ("system\na_0\n", "columns", "family"),
        ("system,family\na_0,a\na_0,b\n", ":3", "'a_0'"),
    ):
        table.write_text(text)
        with raises(RunError, *facts, path=table):
            ta.items(scores=scores, benchmark=name, family=table)


def test_refusals_name_what_is_there_and_the_command_prints_tables_json_and_csv(systems, command):
    name, scores = systems
    files, empty = sorted(scores.iterdir()), scores.parent / "empty"
    empty.mkdir()
    for options, *facts in (
        ({"scores": files[:4]}, "4", "5"),
        ({"without": "c_9"}, "without=", "c_9", "a_0"),
        ({"metric": "group_scor"}, "metric=", "group_scor", "group_score"),
        ({"benchmark": None}, "benchmark="),
        ({"scores": scores / "none"}, "scores=", scores / "none"),
        ({"scores": empty}, "scores=", empty, ".npz"),
        ({"scores": files[0], "without": files[0].stem}, "no system"),
        ({"family": {"b_1": "b"}}, "family=", "a_0"),
        ({"family": scores / "none.csv"}, "family=", "none.csv"),
        ({"to": scores / "short.txt"}, "to=", "short="),
        ({"short": 20}, "short=20", 19),
    ):
        with raises(RunError, *facts):
            ta.items(**{"scores": scores, "benchmark": name} | options)
    assert ta.items(scores=scores, benchmark=name, without=["a_0", "b_1"]).record.systems[0] == "a_2"
    typed = ("items", "--scores", str(scores), "-b", name)
    found = ta.items(scores=scores, benchmark=name)
    shown = command(*typed)
    assert shown.code == 0 and "20 items, 8 systems" in shown.out and "type = swap" in shown.out
    assert command(*typed, "--json").json == json.loads(found.record.model_dump_json())
    rows = list(csv.DictReader(io.StringIO(command(*typed, "--csv").out)))
    assert [row["id"] for row in rows] == found["id"] and float(rows[0]["right"]) == found["right"][0]
    found.columns["tag:type"][0] = "=HYPERLINK(1)"
    assert next(csv.DictReader(io.StringIO(found.to_csv())))["tag:type"] == "'=HYPERLINK(1)"
    check_facts(command(*typed, "--csv", "--json", code=2).err, "--csv", "--json")


@pytest.mark.slow
def test_winogrounds_55_systems():
    if not WINOGROUND.is_dir():
        pytest.skip("the Winoground score files are not beside this checkout")
    found = ta.items(scores=WINOGROUND, benchmark="winoground", without="human", family="name").record
    assert (len(found.items), len(found.systems), len(set(found.families)), found.pairs) == (400, 55, 14, 1485)
    assert found.scores[found.systems.index("clip")] == 0.08
    right = {row.id: row.solved for row in found.items}
    assert found.nobody == sum(solved == 0 for solved in right.values()) == 110


def test_a_short_form_is_a_file_that_run_takes(systems, tmp_path):
    name, scores = systems
    files, form = sorted(scores.iterdir()), tmp_path / "short.txt"
    with raises(TellapartError, 8, 10):  # too few systems to try it on others
        ta.items(scores=scores, benchmark=name, short=4)
    for k, path in enumerate(files[:4]):
        np.save(scores / f"c_{k}.npy", np.load(path) + np.random.default_rng(k).standard_normal((20, 2, 2)))
    found = ta.items(scores=scores, benchmark=name, short=4, to=form).record
    assert tuple(form.read_text().split()) == found.short and len(set(found.short)) == 4
    assert [row.size for row in found.short_forms] == [4, 10]
    run = ta.evaluate("oracle", name, items=form)
    assert set(run.items()["id"]) == set(found.short)
    assert (run.record("group_score").n, run.result().benchmarks[run.benchmarks[0]].limited_from) == (4, 20)
    assert ta.evaluate("oracle", name, items=form, limit=2).record("group_score").n == 2


def test_a_file_of_ids_that_does_not_fit_or_is_not_of_one_benchmark_is_refused(made_set, tmp_path):
    path, pairs = tmp_path / "short.txt", f"folder:{made_set()}"
    with raises(RunError, "items=", path=path):
        ta.evaluate("oracle", pairs, items=path)
    for text, *facts in (("\n",), ("item-3\nitem-99\n", "item-99"), ("item-3\nitem-3\n", "item-3")):
        path.write_text(text)
        with raises(RunError, "items=", *facts, path=path):
            ta.evaluate("oracle", pairs, items=path)
    path.write_text("item-3\n")
    with raises(RunError, "items=", "demo"):
        ta.evaluate("oracle", ["demo", pairs], items=path)
    head = 'name = "shelf"\ntitle = "Shelf"\nsource = "made"\nfiles = ["rows.csv"]\n'
    (tmp_path / "shelf.toml").write_text(head + '[gallery]\nimage = "{image}"\ncaptions = ["{caption}"]\n')
    (tmp_path / "rows.csv").write_text("image,caption\na.png,a cup\nb.png,a box\n")
    with raises(RunError, "items=", "set:shelf.toml", "limit="):
        ta.evaluate("demo-encoder", str(tmp_path / "shelf.toml"), items=path)


def test_the_page_has_a_point_and_a_card_of_each_item_with_its_pictures_and_captions(systems, runs, tmp_path):
    name, scores = systems
    page = tmp_path / "items.html"
    found = ta.items(scores=scores, benchmark=name, page=page).record
    text = page.read_text()
    known = sum(row.discrimination is not None for row in found.items)
    assert text.count("<circle") == known and text.count('<article class="card"') == 20
    assert text.count('src="data:image/png') == 40 and "<script" not in text
    first = ta.load_pairs(name.removeprefix("folder:")).items[0]
    assert all(caption in text for caption in first.texts)
    ta.items(*runs[:5], page=page)
    assert page.read_text().count('src="data:image/png') == 40


def test_a_page_escapes_ids_and_does_without_files(tmp_path):
    rows = [{"id": f"<b>{k}</b>", "images": ["a.png", "b.png"], "texts": ["x", "y"]} for k in range(4)]
    folder = put(tmp_path / "pairs", rows, images={"a.png": b"not an image", "b.png": b"not an image"})
    files, page = [tmp_path / f"s{k}.npy" for k in range(6)], tmp_path / "items.html"
    for k, file in enumerate(files):
        np.save(file, np.random.default_rng(k).random((4, 2, 2)))
    ta.items(scores=files, benchmark=f"folder:{folder}", page=page)
    text = page.read_text()
    assert "<b>0</b>" not in text and "&lt;b&gt;0" in text and "data:image" not in text
