"""Hidden tasks through the board's own addresses: sent, measured and shown."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from tiny_tasks import CASES, EACH, N, lines, unique

from facts import check_facts
from steps import steps_of
from tellapart.board.submissions.prepared import measure_sent
from tellapart.board.submissions.service import as_result
from tellapart.board.submissions.worker import read_sent, round_to
from tellapart.evaluation.run import run_scores
from tellapart.records.samples import read_samples
from tellapart.tasks.registry import HIDEABLE

Hosted = Any  # as conftest.py makes it


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
    samples = read_samples(tmp_path / "run", case.benchmark)
    seen = board.send(published)
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
    wrong = {row["id"]: words.get(task, case.wrong(record, row)) for row, record in known}
    steps = []
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
    numbers = [
        board.send(data.encode(), file=file)["public"]["values"]
        for data, file in ((filled, "a.jsonl"), (table, "a.csv"), (listed, "a.json"))
    ]
    assert numbers[0] == numbers[1] == numbers[2]


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
    about = board.client.get("/hidden/mine").json()["benchmark"]
    assert (about["task"], about["items"], about["what"]) == (
        "nlvr2", N, "48 statements (a sentence about two images: true or false)",
    )  # fmt: skip
    assert about["what"] in board.client.get("/hidden/mine", headers=page).text
    for at in ("/", "/benchmarks/mine", "/models/better", "/hidden", "/ranks"):
        answer = board.client.get(at, headers=page)
        assert answer.status_code == 200, at
        assert str(board.folder) not in answer.text, at
    shown = board.client.get("/benchmarks/mine", headers=page).text
    assert "better" in shown
    assert f">{100 * found.metrics['accuracy'].value:g}<" in shown
    assert "Statements of ours" in board.client.get("/hidden", headers=page).text


def test_a_sender_sees_which_field_predictions_were_read_from(hosted):
    case, board = CASES["yes-no"], hosted("yes-no")
    right = {row["id"]: case.right(record, row) for row, record in board.known()}

    def rows(*fields: str) -> bytes:
        return "".join(
            f"{json.dumps({'id': id_, **dict.fromkeys(fields, said)})}\n" for id_, said in right.items()
        ).encode()

    sent = board.send(rows("answer"))
    assert (sent["state"], sent["field"]) == ("done", "answer")
    page = board.client.get(f"/submissions/{sent['id']}", headers={**board.head, "Accept": "text/html"}).text
    refreshed = page.partition('id="state"')[2].partition("<dl")[0]  # while a file waits, only this part is replaced
    assert "Predictions from <code>answer</code>" in refreshed
    refused = board.send(rows("answer", "output"))
    assert (refused["state"], refused["field"]) == ("refused", "")
    check_facts(refused["error"], ("p.jsonl", "answer", "output"))
