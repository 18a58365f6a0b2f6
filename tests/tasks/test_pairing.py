"""Which caption belongs to which image, in words: any set of 2x2 pairs, from a file of answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from facts import check_facts, raises
from tellapart.benchmarks.find import find_benchmark
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.errors import DataError
from tellapart.models.generative.choice import BothOrders
from tellapart.tasks.choice import PAIRING


def fill(rows: list[dict], said: dict[str, str]) -> None:
    """Answer every question of the first order and of the second one alike."""
    filled = [{**row, "prediction": said[row["id"].rpartition("/")[2]]} for row in rows]
    Path("answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in filled))


@pytest.fixture
def rows(command) -> list[dict]:
    ran = command("export", "pairing:demo", "--to", "questions.jsonl")
    assert ran.code == 0, ran.err
    return [json.loads(line) for line in Path("questions.jsonl").read_text().splitlines()]


def metrics(command) -> dict[str, float]:
    ran = command("score", "pairing:demo", "--scores", "answers.jsonl", "--out", "run", "--json")
    assert ran.code == 0, ran.err
    record = ran.json["runs"][0]["benchmarks"]["pairing:demo"]
    return {name: value["value"] for name, value in record["metrics"].items()}


def test_every_item_is_asked_in_both_orders(rows: list[dict]) -> None:
    assert len(rows) == 800
    first, second = rows[:2]
    assert (first["caption 1"], first["caption 2"]) == (second["caption 2"], second["caption 1"])
    assert (first["left"], first["right"]) == (second["left"], second["right"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("said", "both", "bias", "followed", "unparseable"),
    [
        ({"1": "1;2", "2": "2;1"}, 1.0, 0.0, 0.5, 0.0),
        ({"1": "1;2", "2": "1;2"}, 0.0, 1.0, 1.0, 0.0),
        ({"1": "2;1", "2": "1;2"}, 0.0, 0.0, 0.5, 0.0),
        ({"1": "1;2", "2": "both fit"}, 0.0, 1.0, 0.75, 0.5),
    ],
    ids=["right", "repeats the list", "wrong", "cannot be read"],
)
def test_answers_come_to_what_they_must(
    command, rows: list[dict], said: dict[str, str], both: float, bias: float, followed: float, unparseable: float
) -> None:
    fill(rows, said)
    found = metrics(command)
    assert found["group_score_both_orders"] == both
    assert found["pairing_bias"] == bias
    assert found["followed_list"] == followed
    assert found["unparseable"] == unparseable
    page = Path("run/report.html").read_text(encoding="utf-8")
    assert "data:image/webp" in page  # the pairs' own images are shown


def test_a_bias_is_noted_with_what_it_leans_to() -> None:
    cups = tuple(Item(id=name, images=("0.png", "1.png"), texts=("a cup", "a mug")) for name in "ab")
    (note,) = PAIRING.notes(PairSet("cups", cups, Path()), BothOrders(("a", "b"), ("1;2", "1;2"), ("1;2", "2;1")))
    check_facts(note, "pairing_bias +50.00", "leans to the order of the list", "100.00% of 2 items", "50.00%")


def test_pairs_of_another_shape_are_refused(command) -> None:
    with raises(DataError, "2x2", "caption", "image"):
        find_benchmark("pairing:valse")
    with raises(DataError, "pairing", "pairing:NAME", "pairs"):
        find_benchmark("pairing:")
    check_facts(command("score", "pairing:vlue-nlvr2", "--scores", "x.jsonl").err, "task")


def test_a_model_that_gives_scores_is_told_what_the_task_asks_for(command) -> None:
    ran = command("run", "-m", "oracle", "-b", "pairing:demo")
    assert ran.code == 2
    check_facts(ran.err, "oracle", "task", "model")
