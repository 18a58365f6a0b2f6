"""Refusals of hidden tasks: invalid files, and benchmarks that cannot be hidden."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tiny_tasks import CASES, EACH, hidden_task, lines, made, write_json

from facts import check_facts, raises
from tellapart.benchmarks.find import find_benchmark
from tellapart.board.submissions.hidden import HiddenBenchmark
from tellapart.board.submissions.prepared import hide, prepare, published_metrics
from tellapart.board.submissions.worker import read_sent
from tellapart.errors import DataError, ScoreError
from tellapart.tasks.registry import HIDEABLE, TASKS

Hosted = Any  # as conftest.py makes it


@pytest.mark.few(2)
@EACH
def test_a_file_that_is_not_right_is_refused_precisely(hosted, task, tmp_path):
    case, board = CASES[task], hosted(task)
    known, truth = board.known(), board.truth
    right = {row["id"]: case.right(record, row) for row, record in known}
    first = known[5][0]["id"]
    for spoilt, why in (
        ({id_: said for id_, said in right.items() if id_ != first}, ("1", len(right), first)),
        ({**right, "zz": right[first]}, ("1", "zz", "ids")),
        ({**right, first: {"a": 1}}, ("sent.jsonl:6", "'prediction'", WRONG_TYPE[task], "{'a'", "1}")),
    ):
        (tmp_path / "sent.jsonl").write_bytes(lines(spoilt))
        with pytest.raises(ScoreError) as caught:
            read_sent(tmp_path / "sent.jsonl", truth.bare(), task)
        check_facts(str(caught.value), why)
        assert not any(gold in str(caught.value) for gold in case.gold)


WRONG_TYPE = {
    **dict.fromkeys(("vqa", "vqa2", "choice", "yes-no"), "a prediction here is a text"),
    "nlvr2": "a label is true or false",
    "grounding": "a box is [x, y, width, height] in pixels",
}


@pytest.mark.slow
def test_a_file_that_is_refused_is_not_counted_and_tells_nothing_of_the_server(hosted):
    board = hosted("nlvr2", total=1, daily=1)
    right = {row["id"]: record.gold for row, record in board.known()}
    seen = board.send({**right, "zz": True})
    assert (seen["state"], seen["public"]) == ("refused", None)
    assert str(board.folder) not in seen["error"]
    assert board.send(right)["state"] == "done"


@pytest.mark.parametrize(
    ("task", "said", "why"),
    [
        ("grounding", "[NaN, 0, 4, 4]", ("NaN", "JSON")),
        ("grounding", '"[NaN, 0, 4, 4]"', ("[x, y, width, height]", "box")),
        ("grounding", "[0, 0, 4]", ("[x, y, width, height]", "box")),
        ("grounding", "[0, 0, 1e999, 4]", ("1e999", "large")),
        ("grounding", f"[0, 0, {'9' * 5000}, 4]", "large"),
        ("nlvr2", '"maybe"', ("'maybe'", "label")),
        ("nlvr2", "null", "no prediction"),
        ("vqa", "1.5", ("1.5", "text")),
        ("vqa", "[" * 100_000, "100"),
    ],
)
def test_a_prediction_that_is_none_is_refused(task, said, why, tmp_path):
    records = find_benchmark(CASES[task].benchmark, made(task, tmp_path)).records()
    hidden = hide(TASKS[task], records, b"key", 0.5, ".png")
    rows = [(row.id, json.dumps(CASES[task].right(row, {}))) for row in hidden.records.rows]
    rows[3] = (rows[3][0], said)
    data = "".join(f'{{"id": "{id_}", "prediction": {prediction}}}\n' for id_, prediction in rows)
    (tmp_path / "sent.jsonl").write_text(data)
    with pytest.raises((ScoreError, DataError)) as caught:
        read_sent(tmp_path / "sent.jsonl", hidden.bare(), task)
    check_facts(str(caught.value), why)


@pytest.mark.slow
def test_an_id_that_comes_twice_a_template_without_predictions_and_another_suffix_are_refused(hosted):
    board = hosted("vqa")
    with board.archive() as archive:
        empty = archive.read("items.jsonl")
    assert "no prediction" in board.send(empty)["error"]
    known = board.known()
    right = lines({row["id"]: CASES["vqa"].right(record, row) for row, record in known})
    assert "a second prediction for id" in board.send(right + right.splitlines(keepends=True)[0])["error"]
    params = {"model": "mine", "file": "scores.npz"}
    answer = board.client.post("/hidden/mine/submissions", params=params, content=right, headers=board.head)
    assert (answer.status_code, ".jsonl" in answer.json()["detail"]) == (422, True)


@pytest.mark.slow
def test_predictions_that_grow_without_measure_as_they_are_handed_on_are_refused(hosted):
    board = hosted("vqa")
    rows = "".join(f"{row['id']}," + "\x01" * 1000 + "\n" for row, _ in board.known())
    seen = board.send(f"id,prediction\n{rows}".encode(), file="mine.csv")
    assert (seen["state"], seen["error"]) == (
        "refused",
        "mine.csv holds control characters without end; send predictions without them",
    )
    seen = board.send(lines({row["id"]: "\ud800" for row, _ in board.known()}))
    check_facts(seen["error"], ":1", "'\\ud800'", "half of a character")


@pytest.mark.parametrize("name", ["coco-captions", "vlue-retrieval", "cifar10", "gebc-val"])
def test_a_task_whose_numbers_are_of_everything_together_cannot_be_hidden(name):
    with raises(ValueError, "choice", "yes-no"):
        HiddenBenchmark(name="mine", benchmark=name)


def test_every_metric_that_may_be_told_is_its_tasks_and_a_mean_of_fractions():
    for name, how in HIDEABLE.items():
        assert set(how.metrics) <= {metric.name for metric in TASKS[name].metrics}
    with raises(DataError, "'pair_accuracy'", "exact_match", "exact_match_cleaned"):
        wanted = HiddenBenchmark(name="mine", benchmark="vlue-vqa", metrics=("pair_accuracy",))
        published_metrics(wanted, None, "vqa")


def test_images_of_another_size_than_the_boxes_are_refused(tmp_path):
    place = made("grounding", tmp_path)
    Image.new("RGB", (16, 12)).save(tmp_path / "images" / "3.png")
    with raises(DataError, "'3.png'", "16", "x", "12", "32", "x", "24"):
        prepare(hidden_task("grounding", place), tmp_path / "hidden", b"key")
    assert list((tmp_path / "hidden").iterdir()) == []


def test_questions_of_several_answers_are_refused_where_one_is_expected(tmp_path):
    place = made("vqa", tmp_path)
    rows = json.loads((tmp_path / "vqa_vlue_test.json").read_text())
    write_json(tmp_path / "vqa_vlue_test.json", [{**row, "answer": ["yes", "no"]} for row in rows])
    with raises(DataError, "benchmark", "'mine'", "2"):
        prepare(hidden_task("vqa", place), tmp_path / "hidden", b"key")


def test_files_that_are_not_there_are_named_and_nothing_is_fetched(tmp_path):
    with raises(DataError, "benchmark", "'mine'", "vlue-nlvr2", "nlvr2_vlue_test.json"):
        prepare(HiddenBenchmark(name="mine", benchmark="vlue-nlvr2", data=tmp_path), tmp_path / "hidden", b"key")
    with raises(DataError, "benchmark", "'mine'", "data="):
        prepare(HiddenBenchmark(name="mine", benchmark="vlue-nlvr2", data=tmp_path / "gone"), tmp_path, b"key")


@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "task"), [("scores", "pairs"), ("answers", "pairing")])
def test_pairs_of_the_catalogue_are_hidden_as_a_folders_are(tmp_path, protocol, task):
    benchmark = HiddenBenchmark(name="mine", benchmark="demo", protocol=protocol, largest_share=1000.0)
    ready = prepare(benchmark, tmp_path, b"key")
    assert (ready.task, ready.what) == (task, "400 items of 2 images and 2 texts")
    with zipfile.ZipFile(ready.task_file) as archive:  # the demo's files are lossy WebP
        assert {Path(name).suffix for name in archive.namelist()} == {".txt", ".jsonl", ".jpg"}


def test_a_name_that_stood_for_another_source_is_not_taken_over(tmp_path):
    prepare(hidden_task("nlvr2", made("nlvr2", tmp_path)), tmp_path / "hidden", b"key")
    with raises(DataError, "prepared"):
        prepare(HiddenBenchmark(name="mine", benchmark="demo", largest_share=1000.0), tmp_path / "hidden", b"key")
