"""Hidden tasks: published files tell nothing, sent ones are measured as any file is, wrong ones are refused."""

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tiny_tasks import CASES, EACH, N, hidden_task, lines, made, unique, write_json

from facts import check_facts, raises
from pictures import plain
from sets import file_bytes
from steps import steps_of
from tellapart.benchmarks.find import find_benchmark
from tellapart.board.submissions.hidden import HiddenBenchmark
from tellapart.board.submissions.prepared import (
    HiddenRows,
    hide,
    measure_sent,
    new_id,
    prepare,
    published_metrics,
    read_truth,
    suffix_for,
)
from tellapart.board.submissions.service import as_result
from tellapart.board.submissions.worker import read_published, read_sent, round_to
from tellapart.data.task_records import ChoiceSet, Record
from tellapart.errors import DataError, ScoreError
from tellapart.evaluation.run import run_scores
from tellapart.records.samples import read_samples
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
        assert truth.task
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
    assert HIDEABLE[task].send in readme
    assert all(json.loads(line)["prediction"] is None for line in listing.splitlines())
    told = (*case.gold, "label", "answer", "bbox", "true", "COCO_", "tags", "cluster")
    assert [word for word in told if word in listing] == []
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
    found, records = path.read_text(), read_published(path, task)
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
    records = find_benchmark(CASES[task].benchmark, made(task, tmp_path / "data")).records()
    # 20 copies, so that a correlation would show; the labels in the file's order are sorted on purpose.
    rows = sorted(records.rows, key=repr)
    many = tuple(replace(row, id=f"{copy}-{k}") for copy in range(20) for k, row in enumerate(rows))
    hidden = hide(TASKS[task], replace(records, rows=many), b"key", 0.5, ".png")
    places = {new_id(b"key", row.id): k for k, row in enumerate(many)}
    order = [places[row.id] for row in hidden.records.rows]
    assert abs(np.corrcoef(order, range(len(order)))[0, 1]) < 0.16  # 5 standard deviations of 960 rows
    clusters = list(HIDEABLE[task].clusters(hidden.records.rows))
    assert len(set(clusters)) == len(set(zip(clusters, hidden.public, strict=True)))
    assert HiddenRows.from_json(json.loads(json.dumps(hidden.to_json()))) == hidden


def test_questions_on_two_images_share_a_split_whether_their_answers_differ_or_not(tmp_path):
    records = find_benchmark("vlue-vqa", made("vqa", tmp_path / "data")).records()
    hidden = hide(TASKS["vqa"], records, b"key", 0.5, ".png")
    asked: dict[tuple[str, ...], list[bool]] = {}
    for row, public in zip(hidden.records.rows, hidden.public, strict=True):
        asked.setdefault(row.texts, []).append(public)
    assert all(len(own) == 2 and len(set(own)) == 1 for own in asked.values())


def test_one_image_that_has_lost_something_makes_all_of_them_jpeg():
    lossless = [b"\x89PNG\r\n\x1a\n", b"\x93NUMPY", plain(size=(4, 4), form="WEBP")]
    assert (suffix_for(lossless), suffix_for([*lossless, b"\xff\xd8\xff"])) == (".png", ".jpg")


@pytest.mark.slow
@EACH
def test_a_file_gets_on_each_split_what_tellapart_score_gives_its_units(hosted, task, tmp_path):
    case, metrics = CASES[task], HIDEABLE[task].metrics
    board, rng = hosted(task, step=0.001, metrics=metrics), np.random.default_rng(3)
    known, published, own = board.known(), {}, {}
    for row, record in known:
        said = case.right(record, row) if rng.random() < 0.6 else case.wrong(record, row)
        published[row["id"]] = said
        # `tellapart score` reads a choice with the true caption first, then second.
        order = "" if task != "choice" else "/1" if row["1"] == record.texts[0] else "/2"
        own[record.id + order] = said
    (tmp_path / "own.jsonl").write_bytes(lines(own))
    run_scores({case.benchmark: tmp_path / "own.jsonl"}, tmp_path / "run", place=board.place)
    samples, seen = read_samples(tmp_path / "run", case.benchmark), board.send(published)
    assert (seen["state"], seen["private"]) == ("done", None), seen["error"]
    board.service.close("mine", by="test")
    submission = board.see(f"/submissions/{seen['id']}")
    sides = {record.id: public for (_, record), public in zip(unique(known), board.truth.public, strict=True)}
    clusters = {sample.cluster: sides[sample.id] for sample in samples if sample.id in sides}
    for split, side in (("public", True), ("private", False)):
        assert submission[split]["items"] == sum(public is side for public in sides.values())
        for metric in metrics:
            outcomes = [s.outcomes[metric] for s in samples if metric in s.outcomes and clusters[s.cluster] is side]
            assert submission[split]["values"][metric] == round_to(float(np.mean(outcomes)), 0.001)
            counted = submission[split]["units"].get(metric, [submission[split]["items"], None])[0]
            assert counted == len(outcomes)
    # No unit joins the two splits: its cluster is whole in one of them.
    assert all(clusters[sample.cluster] is sides[sample.id] for sample in samples if sample.id in sides)


@pytest.mark.few(2)
@EACH
def test_who_knows_the_labels_gets_everything_and_who_says_one_thing_gets_chance(hosted, task, tmp_path):
    case, board = CASES[task], hosted(task)
    known, truth, headline = board.known(), board.truth, HIDEABLE[task].metrics[:1]

    def numbers(said: Mapping[str, Any]) -> list[float]:
        (tmp_path / "sent.jsonl").write_bytes(lines(said))
        sent = read_sent(tmp_path / "sent.jsonl", truth.bare(), task)
        return [split.values[headline[0]] for split in measure_sent(sent, truth, headline, 0.001)]

    right = numbers({row["id"]: case.right(record, row) for row, record in known})
    assert min(right) > 0.9 if task == "vqa2" else right == [1.0, 1.0]  # ten people do not all agree
    assert numbers({row["id"]: case.wrong(record, row) for row, record in known}) == [0.0, 0.0]
    low, high = case.chance
    assert all(low <= value <= high for value in numbers({row["id"]: case.constant for row, _ in known}))


@EACH
def test_a_file_takes_the_same_steps_whether_one_answer_is_right_or_wrong(hosted, task, tmp_path):
    board, metrics = hosted(task), HIDEABLE[task].metrics
    case, known, truth = CASES[task], board.known(), board.truth
    words = {"vqa": "numbat", "vqa2": "numbat", "grounding": [0, 0, 1, 1]}  # as long to read as a right answer
    wrong, steps = {row["id"]: words.get(task, case.wrong(record, row)) for row, record in known}, []
    for row, record in [(None, None), *known[:6], *known[-6:]]:
        said = wrong if row is None else {**wrong, row["id"]: case.right(record, row)}
        (tmp_path / "sent.jsonl").write_bytes(lines(said))
        sent = read_sent(tmp_path / "sent.jsonl", truth.bare(), task)

        def measure(sent=sent) -> None:
            measure_sent(sent, truth, metrics, 0.5)

        measure()
        steps.append(steps_of(measure))
    assert sum(steps[0].values()) > 1000
    assert all(one == steps[0] for one in steps)


@pytest.mark.slow
def test_csv_json_and_the_filled_in_task_file_get_the_same_numbers(hosted):
    board = hosted("nlvr2", step=0.001)
    known = board.known()
    said = {row["id"]: k % 3 == 0 for k, (row, _) in enumerate(known)}
    filled = "".join(json.dumps({**row, "prediction": said[row["id"]]}) + "\n" for row, _ in known)
    table = "id,prediction\n" + "".join(f"{id_},{p}\n" for id_, p in reversed(said.items()))
    listed = json.dumps([{"id": id_, "prediction": p} for id_, p in said.items()])
    files = {"a.jsonl": filled, "a.csv": table, "a.json": listed}
    first, *others = (board.send(data.encode(), file=name)["public"]["values"] for name, data in files.items())
    assert others == [first] * 2


@pytest.mark.slow
def test_the_boards_pages_show_a_hidden_tasks_record_like_any_other(hosted):
    board = hosted("nlvr2", title="Statements of ours", metrics=("consistency", "accuracy"))
    known = board.known()
    for model, share in (("better", 5), ("worse", 2)):
        said = {row["id"]: r.gold if k % (share + 1) else not r.gold for k, (row, r) in enumerate(known)}
        board.send(said, model=model)
    (standing, _) = board.service.standings("mine")
    best = as_result(standing, board.service.prepared["mine"])
    found = best.benchmarks["mine"]
    assert (best.model.name, found.task, found.output, found.shape) == ("better", "nlvr2", "label", None)
    assert found.metrics["accuracy"].chance == 0.5
    public = board.service.prepared["mine"].public
    # Two statements a sentence: the mean of consistency is over half as many units.
    assert (found.metrics["accuracy"].n, found.metrics["consistency"].n) == (public, public // 2)
    problems: list[str] = []
    board.shown.read_in(problems.append)
    assert problems == []
    page = {"Accept": "text/html"}
    about, what = board.client.get("/hidden/mine").json()["benchmark"], "a sentence about two images: true or false"
    assert (about["task"], about["items"], about["what"]) == ("nlvr2", N, f"48 statements ({what})")
    assert about["what"] in board.client.get("/hidden/mine", headers=page).text
    for at in ("/", "/benchmarks/mine", "/models/better", "/hidden", "/ranks"):
        answer = board.client.get(at, headers=page)
        assert answer.status_code == 200 and str(board.folder) not in answer.text, at
    shown = board.client.get("/benchmarks/mine", headers=page).text
    assert "better" in shown and f">{100 * found.metrics['accuracy'].value:g}<" in shown
    assert "Statements of ours" in board.client.get("/hidden", headers=page).text


def test_a_sender_sees_which_field_predictions_were_read_from(hosted):
    case, board = CASES["yes-no"], hosted("yes-no")
    right = {row["id"]: case.right(record, row) for row, record in board.known()}

    def rows(*fields: str) -> bytes:
        return file_bytes("p.jsonl", [{"id": id_, **dict.fromkeys(fields, said)} for id_, said in right.items()])

    sent = board.send(rows("answer"))
    assert (sent["state"], sent["field"]) == ("done", "answer")
    page = board.client.get(f"/submissions/{sent['id']}", headers={**board.head, "Accept": "text/html"}).text
    refreshed = page.partition('id="state"')[2].partition("<dl")[0]  # while a file waits, only this part is replaced
    assert "Predictions from <code>answer</code>" in refreshed
    refused = board.send(rows("answer", "output"))
    assert (refused["state"], refused["field"]) == ("refused", "")
    check_facts(refused["error"], ("p.jsonl", "answer", "output"))


@pytest.mark.few(2)
@EACH
def test_a_file_that_is_not_right_is_refused_precisely(hosted, task, tmp_path):
    case, board = CASES[task], hosted(task)
    known, truth = board.known(), board.truth
    right, first = {row["id"]: case.right(record, row) for row, record in known}, known[5][0]["id"]
    for spoilt, why in (
        ({id_: said for id_, said in right.items() if id_ != first}, ("1", len(right), first)),
        ({**right, "zz": right[first]}, ("1", "zz", "ids")),
        ({**right, first: {"a": 1}}, ("sent.jsonl:6", "'prediction'", WRONG_TYPE[task], "{'a'", "1}")),
    ):
        (tmp_path / "sent.jsonl").write_bytes(lines(spoilt))
        with raises(ScoreError, why) as caught:
            read_sent(tmp_path / "sent.jsonl", truth.bare(), task)
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
        ("grounding", "[0, 0, 1e999, 4]", ("1e999", "large")), ("grounding", f"[0, 0, {'9' * 5000}, 4]", "large"),
        ("nlvr2", '"maybe"', ("'maybe'", "label")), ("nlvr2", "null", "no prediction"), ("vqa", "1.5", ("1.5", "text")),
        ("vqa", "[" * 100_000, "100"),
    ],
)  # fmt: skip
def test_a_prediction_that_is_none_is_refused(task, said, why, tmp_path):
    records = find_benchmark(CASES[task].benchmark, made(task, tmp_path)).records()
    hidden = hide(TASKS[task], records, b"key", 0.5, ".png")
    rows = [(row.id, json.dumps(CASES[task].right(row, {}))) for row in hidden.records.rows]
    rows[3] = (rows[3][0], said)
    data = "".join(f'{{"id": "{id_}", "prediction": {prediction}}}\n' for id_, prediction in rows)
    (tmp_path / "sent.jsonl").write_text(data)
    with raises((ScoreError, DataError), why):
        read_sent(tmp_path / "sent.jsonl", hidden.bare(), task)


@pytest.mark.slow
def test_an_id_that_comes_twice_a_template_without_predictions_and_another_suffix_are_refused(hosted):
    board = hosted("vqa")
    with board.archive() as archive:
        empty = archive.read("items.jsonl")
    assert "no prediction" in board.send(empty)["error"]
    right = lines({row["id"]: CASES["vqa"].right(record, row) for row, record in board.known()})
    assert "a second prediction for id" in board.send(right + right.splitlines(keepends=True)[0])["error"]
    params = {"model": "mine", "file": "scores.npz"}
    answer = board.client.post("/hidden/mine/submissions", params=params, content=right, headers=board.head)
    assert (answer.status_code, ".jsonl" in answer.json()["detail"]) == (422, True)


@pytest.mark.slow
def test_predictions_that_grow_without_measure_as_they_are_handed_on_are_refused(hosted):
    board = hosted("vqa")
    rows = "".join(f"{row['id']}," + "\x01" * 1000 + "\n" for row, _ in board.known())
    seen = board.send(f"id,prediction\n{rows}".encode(), file="mine.csv")
    said = "mine.csv holds control characters without end; send predictions without them"
    assert (seen["state"], seen["error"]) == ("refused", said)
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


def test_sizes_answers_and_files_that_do_not_fit_are_refused_by_name(tmp_path):
    place = made("grounding", tmp_path)
    Image.new("RGB", (16, 12)).save(tmp_path / "images" / "3.png")
    with raises(DataError, "'3.png'", "16", "x", "12", "32", "x", "24"):
        prepare(hidden_task("grounding", place), tmp_path / "hidden", b"key")
    assert list((tmp_path / "hidden").iterdir()) == []
    place, rows = made("vqa", tmp_path), json.loads((tmp_path / "vqa_vlue_test.json").read_text())
    write_json(tmp_path / "vqa_vlue_test.json", [{**row, "answer": ["yes", "no"]} for row in rows])
    with raises(DataError, "benchmark", "'mine'", "2"):
        prepare(hidden_task("vqa", place), tmp_path / "hidden", b"key")
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
