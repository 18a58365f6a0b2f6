"""Forced choice in both orders: GPT-4V's published answers, answers in words, and what they come to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts import raises
from tellapart.data.choices import Choice, ChoiceSet
from tellapart.errors import DataError, ScoreError
from tellapart.tasks.choice import Chosen, measure_choices, parse_choice, read_choices

SHARED = Path(__file__).parents[3] / "shared" / "data" / "sugarcrepe"
CUPS = ChoiceSet("cups", tuple(Choice(str(k), f"{k}.png", f"{k} red cups", f"{k} blue cups") for k in range(4)))


def rows(said: list[str]) -> str:
    return "".join(
        json.dumps({"id": f"{item}/{order}", "prediction": said[2 * item + order - 1]}) + "\n"
        for item in range(4)
        for order in (1, 2)
    )


@pytest.mark.slow
def test_gpt4v_has_the_published_accuracies_in_both_orders(command) -> None:
    if not SHARED.is_dir():
        pytest.skip("SugarCrepe's annotations are not beside this checkout")
    answers = SHARED / "gpt-4v-results"
    ran = command("score", "sugarcrepe-choice", "--scores", answers, "--data", SHARED, "--out", "run", "--json")
    assert ran.code == 0, ran.err
    record = ran.json["runs"][0]["benchmarks"]["sugarcrepe-choice"]
    by = record["by"]["subset"]
    for order, metric in (("positive-first", "true_first"), ("negative-first", "true_second")):
        for subset, group in by.items():
            items = json.loads((answers / order / f"gpt4v-{subset}.json").read_text())
            items.pop("accuracy", None)
            if subset == "swap_obj":
                items.pop("108")  # the benchmark has dropped it since
            right = sum(item["correct"] for item in items.values()) / len(items)
            assert group["metrics"][metric]["value"] == pytest.approx(right, abs=1e-12)
    assert record["metrics"]["order_bias"]["value"] == pytest.approx(
        record["metrics"]["true_first"]["value"] - record["metrics"]["true_second"]["value"]
    )
    assert record["notes"][-1].endswith("were left out: swap_obj/108")


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ("1", 1),
        ("(2)", 2),
        (" Option 1.", 1),
        ("Answer: 2", 2),
        ("A RED CUP.", 1),
        ("a blue cup", 2),
        ("both", 0),
        ("12", 0),
        ("1 or 2", 0),
        ("", 0),
    ],
)
def test_an_answer_names_a_place_or_a_caption_or_neither(said: str, place: int) -> None:
    assert parse_choice(said, "a red cup", "a blue cup") == place


def test_captions_that_differ_in_case_and_marks_alone_are_chosen_letter_by_letter() -> None:
    assert [parse_choice(answer, "a cup", "A cup.") for answer in ("a cup", "A cup.", "A CUP")] == [1, 2, 0]
    assert parse_choice("a cup", "a cup", "a cup") == 0
    assert parse_choice("2", "a cup", "A cup.") == 2


def test_answers_are_read_by_order(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(rows(["1", "2", "2", "1", "1", "1", "neither", "0 blue cups"]))
    chosen = read_choices(path, CUPS)
    assert chosen.true_first == (1, -1, 1, 0)
    assert chosen.true_second == (1, -1, -1, 0)


@given(st.lists(st.sampled_from([1, -1, 0]), min_size=8, max_size=8))
def test_the_bias_is_the_difference_of_the_two_orders(said: list[int]) -> None:
    found = {one.name: one.strict for one in measure_choices(CUPS, Chosen(tuple(said[:4]), tuple(said[4:])))[0].values}
    assert (found["order_bias"] == found["true_first"] - found["true_second"]).all()
    assert (found["both_orders"] <= found["true_first"]).all()
    mirrored = {
        one.name: one.strict for one in measure_choices(CUPS, Chosen(tuple(said[4:]), tuple(said[:4])))[0].values
    }
    assert (mirrored["order_bias"] == -found["order_bias"]).all()
    assert (mirrored["both_orders"] == found["both_orders"]).all()


def test_a_model_that_always_takes_the_first_place_is_found_out(tmp_path: Path) -> None:
    path = tmp_path / "first.jsonl"
    path.write_text(rows(["1"] * 8))
    found = {one.name: one.strict.mean() for one in measure_choices(CUPS, read_choices(path, CUPS))[0].values}
    assert found == {"both_orders": 0, "order_bias": 1, "true_first": 1, "true_second": 0, "chose_first": 1}


def test_answers_that_are_missing_or_twice_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    whole = rows(["1"] * 8).splitlines(keepends=True)
    path.write_text("".join(whole[:-1]))
    with raises(ScoreError, "a.jsonl", "id", "1", "8", "3/2"):
        read_choices(path, CUPS)
    path.write_text("".join([*whole, whole[0]]))
    with raises(ScoreError, "a.jsonl:9", "id", "0/1"):
        read_choices(path, CUPS)


def test_a_folder_without_answers_is_refused(tmp_path: Path) -> None:
    with raises(DataError, "positive-first/*.json", "SugarCrepe", "gpt-4v-results"):
        read_choices(tmp_path, CUPS)
