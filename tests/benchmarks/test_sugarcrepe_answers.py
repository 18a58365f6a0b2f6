"""GPT-4V's published answers: a recount gives the published table, in both caption orders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from facts import raises
from tellapart.errors import DataError
from tellapart.metrics.order_bias import order_bias
from tellapart.tasks.choice import read_both_orders, read_given_choices

FOLDER = Path(__file__).parents[2].parent / "shared" / "data" / "sugarcrepe" / "gpt-4v-results"
TABLE = {  # items, right with the true caption first, right with it second: SugarCrepe's gpt-4v-results/readme.md
    "swap_att": (666, 607, 593),
    "swap_obj": (246, 211, 198),
    "add_att": (692, 604, 666),
    "add_obj": (2062, 1859, 1918),
    "replace_att": (788, 734, 740),
    "replace_obj": (1652, 1578, 1604),
    "replace_rel": (1406, 1240, 1298),
}


def item(**change: Any) -> dict[str, Any]:
    answer = {"free_form_answer": "(1)", "multiple_choice_answer": "a red cup"}
    plain = {"caption": "a red cup", "negative_caption": "a blue cup", "filename": "a.jpg", "correct": True}
    return {**plain, "answer": answer, **change}


def other(chosen: str) -> dict[str, Any]:
    return item(answer={"free_form_answer": "", "multiple_choice_answer": chosen}, correct=chosen == "a red cup")


def write(folder: Path, found: Any, name: str = "gpt4v-add_att.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(found), encoding="utf-8")
    return path


@pytest.mark.parametrize("subset", TABLE)
def test_a_recount_gives_the_published_table(subset: str) -> None:
    paths = [FOLDER / f"{order}-first" / f"gpt4v-{subset}.json" for order in ("positive", "negative")]
    if not all(path.is_file() for path in paths):
        pytest.skip("SugarCrepe's GPT-4V answers are not beside this checkout")
    items, right_first, right_second = TABLE[subset]
    both = read_both_orders(*paths)
    bias = order_bias(*zip(*both.values(), strict=True))
    assert len(both) == items
    assert (bias.true_first.sum(), bias.true_second.sum()) == (right_first, right_second)
    assert bias.difference.sum() == right_first - right_second
    assert bias.both.sum() <= min(right_first, right_second)


def test_the_bias_of_gpt_4v_goes_both_ways() -> None:
    found = {}
    for subset in ("add_att", "swap_obj"):
        paths = [FOLDER / f"{order}-first" / f"gpt4v-{subset}.json" for order in ("positive", "negative")]
        if not all(path.is_file() for path in paths):
            pytest.skip("SugarCrepe's GPT-4V answers are not beside this checkout")
        bias = order_bias(*zip(*read_both_orders(*paths).values(), strict=True))
        found[subset] = tuple(round(float(v.mean()), 3) for v in (bias.true_first, bias.true_second, bias.difference))
    assert found == {"add_att": (0.873, 0.962, -0.09), "swap_obj": (0.858, 0.805, 0.053)}


def test_choices_are_the_captions_that_answers_repeat(tmp_path: Path) -> None:
    path = write(tmp_path, {"0": item(), "7": other("a blue cup"), "9": other(""), "accuracy": 0.3333})
    answers = read_given_choices(path)
    assert {key: answer.choice for key, answer in answers.items()} == {"0": 1, "7": -1, "9": 0}
    assert answers["0"].captions == ("a red cup", "a blue cup")


def test_the_second_file_is_put_in_the_order_of_the_first(tmp_path: Path) -> None:
    first = write(tmp_path, {"0": item(), "7": other("")}, "first.json")
    second = write(tmp_path, {"7": other("a blue cup"), "0": item()}, "second.json")
    assert read_both_orders(first, second) == {"0": (1, 1), "7": (0, -1)}


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"0": item(correct=False)}, ("'0'", "'correct'", "False", "'a red cup'")),
        ({"0": item(), "accuracy": 0.9}, ("'accuracy'", "0.9", "1.0000")),
        ({"0": item(), "accuracy": "1.0"}, ("'accuracy'", "'1.0'")),
        ({"0": item(), "accurracy": 1.0}, ("'accurracy'", "object")),
        ({"accuracy": 1.0}, "items"),
        ({"0": {**item(), "answer": "(1)"}}, ("'0'", "'answer'")),
        ({"0": item(caption=None)}, ("'0'", "'caption'", "None")),
        ([item()], ("object", "rows", "key")),
    ],
)
def test_a_bad_file_raises(tmp_path: Path, found: Any, message: str | tuple[str, ...]) -> None:
    with raises(DataError, "gpt4v-add_att.json", message):
        read_given_choices(write(tmp_path, found))


def test_files_that_do_not_ask_the_same_raise(tmp_path: Path) -> None:
    first = write(tmp_path, {"0": item()}, "first.json")
    with raises(DataError, "'3'"):
        read_both_orders(first, write(tmp_path, {"0": item(), "3": item()}, "second.json"))
    with raises(DataError, "second.json", "'0'", "first.json"):
        read_both_orders(first, write(tmp_path, {"0": item(filename="b.jpg")}, "second.json"))
