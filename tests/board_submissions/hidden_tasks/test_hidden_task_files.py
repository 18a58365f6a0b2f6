"""The published files of a hidden task hold no label, and nothing that is made of one."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tiny_tasks import CASES, EACH, N, hidden_task, made, unique, write_json

from facts import raises
from pictures import plain
from tellapart.benchmarks.find import find_benchmark
from tellapart.board.submissions.prepared import HiddenRecords, hide, new_id, prepare, read_truth, suffix_for
from tellapart.board.submissions.worker import read_published
from tellapart.data.task_records import ChoiceSet, Record
from tellapart.errors import DataError
from tellapart.tasks.registry import HIDEABLE, TASKS

Hosted = Any  # as conftest.py makes it


@EACH
def test_the_task_file_is_the_same_whatever_the_labels_are(task, tmp_path):
    files = []
    for seed in (1, 2):
        folder = tmp_path / str(seed)
        place = made(task, folder, seed)
        if task == "choice":  # its ids tell the label, which another's would not
            rows = json.loads((folder / "choices.json").read_text())
            write_json(folder / "choices.json", [[str(k), *row[1:]] for k, row in enumerate(rows)])
        ready = prepare(hidden_task(task, place), folder / "hidden", b"key")
        truth = read_truth(ready.truth)
        assert isinstance(truth, HiddenRecords)
        seen = ready.task_file.read_bytes(), ready.published.read_bytes()
        files.append((*seen, truth.public, truth.bare(), truth.records))
    assert files[0][:4] == files[1][:4]
    assert files[0][4] != files[1][4]


@EACH
def test_the_task_file_holds_no_label_no_name_and_no_metadata(hosted, task):
    case, board = CASES[task], hosted(task)
    with board.archive() as archive:
        readme, listing = (archive.read(name).decode() for name in ("README.txt", "items.jsonl"))
        pictures = [name for name in archive.namelist() if name.startswith("images/")]
        opened = [Image.open(io.BytesIO(archive.read(name))) for name in pictures]
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    rows = [json.loads(line) for line in listing.splitlines()]
    assert HIDEABLE[task].send in readme
    assert all(row["prediction"] is None for row in rows)
    for word in (*case.gold, "label", "answer", "bbox", "true", "COCO_", "tags", "cluster"):
        assert word not in listing
    assert {Path(name).suffix for name in pictures} == {case.suffix}
    assert not any(set(image.info) - {"jfif", "jfif_version", "jfif_unit", "jfif_density"} for image in opened)
    assert {image.format for image in opened} == {"JPEG" if case.suffix == ".jpg" else "PNG"}
    # Neither the rows' order nor the splits go with the file's own order.
    records = [record.id for record in board.records.rows]
    order = [records.index(record.id) for _, record in unique(board.known())]
    assert abs(np.corrcoef(order, range(N))[0, 1]) < 0.5


@EACH
def test_what_a_file_is_read_with_is_what_is_published(hosted, task):
    case, board = CASES[task], hosted(task)
    path = board.service.prepared["mine"].published
    found = path.read_text()
    records = read_published(path, task)
    assert records == board.truth.bare()
    with board.archive() as archive:
        listing = [json.loads(line) for line in archive.read("items.jsonl").decode().splitlines()]
    assert list(TASKS[task].template(records)) == listing
    assert set(json.loads(found)) == {"records"}  # no split, and no name of an image's own
    assert not any(gold in found for gold in case.gold)


def test_what_is_published_and_damaged_is_not_read_with(tmp_path):
    (tmp_path / "published.json").write_text('{"records": {"statements": 5}}')
    with raises(DataError, "benchmark", "open"):
        read_published(tmp_path / "published.json", "nlvr2")


def test_which_caption_stands_first_is_a_fair_coin_that_the_labels_do_not_turn():
    choices = ChoiceSet("c", tuple(Record(str(k), ("a.png",), (f"true {k}", f"false {k}")) for k in range(400)))
    hidden = hide(TASKS["choice"], choices, b"key", 0.5, ".png")
    first = [row["1"].startswith("true") for row in hidden.template_rows() if row["id"].endswith("/1")]
    assert 150 < sum(first) < 250  # 200 +- 5 standard deviations
    turned = ChoiceSet("c", tuple(replace(one, texts=one.texts[::-1]) for one in choices.rows))
    other = hide(TASKS["choice"], turned, b"key", 0.5, ".png")
    assert list(other.template_rows()) == list(hidden.template_rows())


@EACH
def test_the_order_goes_with_no_label_and_the_clusters_share_a_split(task, tmp_path):
    place = made(task, tmp_path / "data")
    records = find_benchmark(CASES[task].benchmark, place).records()
    how = HIDEABLE[task]
    rows = records.rows
    # 20 copies, so that a correlation would show; the labels in the file's order are sorted on purpose.
    many = tuple(replace(row, id=f"{copy}-{k}") for copy in range(20) for k, row in enumerate(sorted(rows, key=repr)))
    hidden = hide(TASKS[task], replace(records, rows=many), b"key", 0.5, ".png")
    places = {new_id(b"key", row.id): k for k, row in enumerate(many)}
    order = [places[row.id] for row in hidden.records.rows]
    assert abs(np.corrcoef(order, range(len(order)))[0, 1]) < 0.16  # 5 standard deviations of 960 rows
    sides: dict[str, set[bool]] = {}
    for cluster, public in zip(how.clusters(hidden.records.rows), hidden.public, strict=True):
        sides.setdefault(cluster, set()).add(public)
    assert {len(side) for side in sides.values()} == {1}
    assert HiddenRecords.from_json(json.loads(json.dumps(hidden.to_json()))) == hidden


def test_questions_on_two_images_share_a_split_whether_their_answers_differ_or_not(tmp_path):
    place = made("vqa", tmp_path / "data")
    records = find_benchmark("vlue-vqa", place).records()
    hidden = hide(TASKS["vqa"], records, b"key", 0.5, ".png")
    side = {row.id: public for row, public in zip(hidden.records.rows, hidden.public, strict=True)}
    asked: dict[str, list[bool]] = {}
    for row in hidden.records.rows:
        asked.setdefault(row.texts, []).append(side[row.id])
    assert all(len(own) == 2 and len(set(own)) == 1 for own in asked.values())


def test_one_image_that_has_lost_something_makes_all_of_them_jpeg():
    lossless = [b"\x89PNG\r\n\x1a\n", b"\x93NUMPY", plain(size=(4, 4), form="WEBP")]
    assert suffix_for(lossless) == ".png"
    assert suffix_for([*lossless, b"\xff\xd8\xff"]) == ".jpg"
