"""Forced choice of captions in words: in both orders, of one image and of two."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tellapart as ta
from facts import check_facts, raises
from pictures import plain
from published import published
from sets import write_file
from tellapart.benchmarks.find import find_benchmark
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.task_records import ChoiceSet, Record
from tellapart.errors import DataError
from tellapart.evaluation.evaluate import prepare
from tellapart.models.generative.answers import BothOrders
from tellapart.models.generative.prompts import SUGARCREPE_CHOICE, Prompt
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.tasks.choice import CHOICE, PAIRING, Chosen, measure_choices, parse_choice, read_choices
from tellapart.tasks.task import Session

CUPS = ChoiceSet("cups", tuple(Record(str(k), (f"{k}.png",), (f"{k} red cups", f"{k} blue cups")) for k in range(4)))


def rows(said: list[str]) -> list[dict[str, str]]:
    return [{"id": f"{k // 2}/{k % 2 + 1}", "prediction": answer} for k, answer in enumerate(said)]


def test_gpt4vs_free_answers_are_read_as_their_authors_read_them():
    found: Counter[tuple[int, int]] = Counter()
    for path in published("sugarcrepe").glob("gpt-4v-results/*/*.json"):
        rows = json.loads(path.read_text())
        rows.pop("accuracy", None)
        for row in rows.values():
            captions = row["caption"], row["negative_caption"]
            order = captions if path.parent.name == "positive-first" else captions[::-1]
            chosen = row["answer"]["multiple_choice_answer"]
            place = order.index(chosen) + 1 if chosen in order else 0
            found[parse_choice(row["answer"]["free_form_answer"], *order), place] += 1
    # They took 17 answers that begin with "Neither caption" for a choice, and two numbers alone for none.
    assert found == {(2, 2): 7522, (1, 1): 7206, (0, 0): 277, (0, 1): 9, (0, 2): 8, (1, 0): 1, (2, 0): 1}


#: The caption that answers name, 1 or 2; 0 if they name neither.
SAID = {
    1: ("1", " Option 1.", "A RED CUP.", "A", "1. A red cup.", "The answer is (1), since the cup is red."),
    2: (
        *("-B", "Answer:-B", "(2)", "Answer: 2", "a blue cup", "**(b)**", '{"answer": 2}', "(2): a blue cup"),
        *("Caption 2 best describes the image.", r"So it is $\boxed{\text{B}}$.", r'{"answer": "\boxed{2}"}'),
        *(r"\boxed{} (2)", "Caption-2", "Caption 2 is right; the other is wrong.", "(2). The other one doesn't fit"),
    ),
    0: (
        *("(1) a blue cup", "It is not (1).", "(1) and (2)", "A cup that is red", "1.5", "." * 100_000, "both", "12"),
        *("1 or 2", "", "(1) is incorrect.", "Caption 1 is wrong.", "It cannot be (1)", "It isn\u2019t (1)"),
        *(r"\boxed{1} or \boxed{2}", r"\boxed{\frac{1}{2}}", "-1", "--2", "\u22122", "Answer: -1", "The answer is -1"),
        *(
            "Caption 1 is wrong; the other is right.",
            "Neither (1) nor the other is right.",
            "The other is not wrong, (1) is",
        ),
    ),
}


@pytest.mark.parametrize("place", SAID)
def test_an_answer_names_a_place_or_a_caption_or_neither(place):
    assert [said for said in SAID[place] if parse_choice(said, "a red cup", "a blue cup") != place] == []


def test_answers_are_read_by_order_and_letter_and_a_folder_without_them_is_refused(tmp_path):
    assert [parse_choice(answer, "a cup", "A cup.") for answer in ("a cup", "A cup.", "A CUP", "2")] == [1, 2, 0, 2]
    assert parse_choice("a cup", "a cup", "a cup") == 0
    said = rows(["1", "2", "2", "1", "1", "1", "neither", "0 blue cups"])
    chosen = read_choices(write_file(tmp_path / "a.jsonl", said), CUPS)
    assert (chosen.true_first, chosen.true_second) == ((1, -1, 1, 0), (1, -1, -1, 0))
    with raises(DataError, "positive-first/*.json", "SugarCrepe", "gpt-4v-results"):
        read_choices(tmp_path, CUPS)


#: The caption that each published answer repeats, by order; the benchmark has dropped the last item.
REPEATED = {"positive-first": ("red", "blue", "no", "red"), "negative-first": ("red", "red", "blue", "blue")}


def write_published(folder: Path, change: Callable[[dict[str, Any], dict[str, Any]], object]) -> Path:
    """Write answers of four items in the form of SugarCrepe's, after a change of the files of the two orders."""
    files: list[dict[str, Any]] = []
    for chosen in REPEATED.values():
        items = {
            str(k): {"caption": f"{k} red cups", "negative_caption": f"{k} blue cups", "filename": f"{k}.png"}
            | {"answer": {"free_form_answer": "", "multiple_choice_answer": f"{k} {word} cups"}}
            | {"correct": word == "red"}
            for k, word in enumerate(chosen)
        }
        files.append({"accuracy": chosen.count("red") / 4, **items})
    change(*files)
    files[1] = dict(reversed(files[1].items()))  # answers are matched by their keys
    for order, content in zip(REPEATED, files, strict=True):
        write_file(folder / order / "gpt4v-swap_obj.json", content)
    return folder


def test_published_answers_are_counted_by_order_without_items_that_were_dropped(tmp_path):
    records = ChoiceSet("cups", tuple(replace(row, id=f"swap_obj/{row.id}") for row in CUPS.rows[:3]))
    chosen = read_choices(write_published(tmp_path, lambda *_: None), records)
    assert (chosen.true_first, chosen.true_second) == ((1, -1, 0), (1, 1, -1))
    assert any("swap_obj/3" in note for note in CHOICE.notes(records, chosen))
    (units,) = measure_choices(records, chosen)
    expected = {"both_orders": 1 / 3, "true_first": 1 / 3, "true_second": 2 / 3}
    found = {one.name: one.strict.mean() for one in units.values if one.name in expected}
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        (lambda first, second: first["1"].update(correct=True), ("positive-first", "'1'", "correct", "1 blue cups")),
        (lambda first, second: first.update(accuracy=0.75), ("accuracy", "0.75", "0.5000")),
        (lambda first, second: second.pop("2") and second.pop("accuracy"), ("'2'", "one of them")),
        (lambda first, second: second["2"].update(filename="3.png"), ("negative-first", "'2'", "image")),
        (lambda first, second: [second.pop(key) for key in "0123"], ("negative-first", "no items")),
    ],
)
def test_published_answers_that_contradict_each_other_are_refused(tmp_path, change, facts):
    with raises(DataError, *facts):
        read_choices(write_published(tmp_path, change), CUPS)


class Person:
    """Sees the colour of a picture; answers by its habit."""

    name, fingerprint, kind = "person", "1", "probability"

    def __init__(self, habit: str = "knowing") -> None:
        self.habit = habit

    def task_prompt(self, task: str) -> Prompt:
        return {"choice": SUGARCREPE_CHOICE}[task]

    def answer(self, images, prompts: Sequence[str], *, max_new_tokens: int = 32) -> list[str]:
        answers = []
        for (picture,), prompt in zip(images, prompts, strict=True):
            question, first, second, rest = prompt.split("\n")
            assert (question, rest) == ("Which caption best describes the image?", "Output (1) or (2).")
            colour = "red" if picture[0, 0, 0] > 128 else "blue"
            seen = [colour in first, colour in second].index(True) + 1
            guess = seen if picture[0, 0, 1] < 50 else 1  # a pale picture shows it nothing
            answers.append({"knowing": f"({seen})", "first": "(1)", "unsure": f"({guess})"}.get(self.habit, "Cups!"))
        return answers


@pytest.fixture
def pairs(tmp_path) -> PairSet:
    """Four pictures; the true caption is the first of two of them, and the second of the others."""
    items = []
    for k, colour in enumerate([(255, 0, 0), (0, 0, 255), (255, 99, 99), (99, 99, 255)]):
        write_file(tmp_path / f"{k}.png", plain(colour, (4, 4)))
        texts = (f"{k} red", f"{k} blue")
        items.append(Item(id=str(k), images=(f"{k}.png",), texts=texts, true=(k % 2,), cluster=f"scene {k // 2}"))
    return PairSet("cups", tuple(items), tmp_path)


def ask(habit: str, pairs: PairSet, batch_size: int | None = None) -> tuple[Any, dict[str, float]]:
    person, records = Person(habit), ChoiceSet.of_pairs(pairs)
    session = Session(pictures=pairs.read_bytes, store=EmbeddingStore(None), batch_size=batch_size)
    chosen = CHOICE.runner(person)(person, records, session)
    (units,) = measure_choices(records, chosen)
    return chosen, {one.name: float(one.strict.mean()) for one in units.values}


@pytest.mark.parametrize(
    ("habit", "both", "mean", "bias", "first"),
    [("knowing", 1, 1, 0, 0.5), ("first", 0, 0.5, 1, 1), ("unsure", 0.5, 0.75, 0.5, 0.75), ("chatting", 0, 0, 0, 0.5)],
)
def test_a_model_is_asked_in_both_orders_and_exchanging_the_captions_changes_nothing(
    pairs, habit, both, mean, bias, first
):
    chosen, found = ask(habit, pairs)
    assert (found["both_orders"], found["mean_of_orders"]) == (both, mean)
    assert (found["order_bias"], found["chose_first"]) == (bias, first)
    notes = CHOICE.notes(ChoiceSet.of_pairs(pairs), chosen)
    assert "sugarcrepe-choice/1: Which caption best" in notes[0]
    unread = [note for note in notes if "8 of 8" in note and "'Cups!'" in note and "1, 2" in note]
    assert len(unread) == (habit == "chatting")
    turned = [item.model_copy(update={"texts": item.texts[::-1], "true": (1 - item.true[0],)}) for item in pairs.items]
    exchanged = PairSet("cups", tuple(turned), pairs.root)
    assert ask(habit, exchanged, batch_size=3) == (chosen, found)
    one, other = map(ChoiceSet.of_pairs, (pairs, exchanged))
    assert CHOICE.digest(one) == CHOICE.digest(other)


def test_a_stated_cluster_is_kept_and_else_the_picture_is_one(pairs):
    (units,) = measure_choices(ChoiceSet.of_pairs(pairs), Chosen((1,) * 4, (1,) * 4))
    assert [unit.cluster for unit in units.units] == ["scene 0", "scene 0", "scene 1", "scene 1"]
    alone = [item.model_copy(update={"cluster": item.id, "images": ("0.png",)}) for item in pairs.items]
    (units,) = measure_choices(ChoiceSet.of_pairs(PairSet("c", tuple(alone), Path())), Chosen((1,) * 4, (1,) * 4))
    assert {unit.cluster for unit in units.units} == {"0.png"}


def test_any_set_of_a_picture_and_two_captions_is_asked_without_a_loader(command, score_file):
    rows = [{"image": f"{k}.png", "caption": f"{k} red", "negative_caption": f"{k} blue"} for k in range(4)]
    write_file(Path("cups.csv"), rows)
    for k in range(4):
        write_file(Path(f"{k}.png"), plain(60 * k, (4, 4)))
    command("export", "choice:cups.csv", "--to", "asked.jsonl", code=0)
    asked = [json.loads(line) for line in Path("asked.jsonl").read_text().splitlines()]
    assert [(row["1"], row["2"]) for row in asked[:2]] == [("0 red", "0 blue"), ("0 blue", "0 red")]
    Path("ids.txt").write_text("row-3\nrow-1\n")
    part = prepare(find_benchmark("choice:cups.csv"), store=EmbeddingStore(None), items=Path("ids.txt"))
    assert [row.id for row in part.records.rows] == ["row-1", "row-3"] and part.available == 4
    ids = [" 7", "7", "a\u2028b"]  # each is a line as it is, or else without the blanks around it
    write_file(Path("odd.csv"), [row | {"id": id_} for row, id_ in zip(rows, ids, strict=False)])
    for line, id_ in zip([*ids, "7 \r"], [*ids, "7"], strict=True):
        Path("ids.txt").write_text(f"{line}\n", newline="")
        part = prepare(find_benchmark("odd.csv"), store=EmbeddingStore(None), items=Path("ids.txt"))
        assert [item.id for item in part.records.items] == [id_]
    for end in ("\n", "\r\n", "\r"):  # of any system
        Path("ids.txt").write_text(end.join(ids), newline="")
        assert len(prepare(find_benchmark("odd.csv"), store=EmbeddingStore(None), items=Path("ids.txt")).records) == 3
    filled = [{**row, "prediction": "A" if number < 6 else "who knows"} for number, row in enumerate(asked)]
    record = score_file("choice:cups.csv", write_file(Path("answers.jsonl"), filled))
    assert record["metrics"]["chose_first"]["value"] == (6 + 2 / 2) / 8
    assert record["metrics"]["mean_of_orders"]["low"] >= 0 and record["metrics"]["chose_first"]["high"] <= 1
    assert any("2 of 8" in note and "'who knows'" in note for note in record["notes"])
    assert "neither: who knows" in Path("run/report.html").read_text(encoding="utf-8")


def test_a_table_whose_columns_have_other_names_is_asked_and_shown(command, score_file):
    write_file(Path("a.png"), plain(0, (4, 4)))
    write_file(Path("cups.csv"), "foto,right,wrong\na.png,a red cup,a blue cup\n")
    columns = ("--columns", "image_0=foto,caption_0=right,caption_1=wrong")
    answers = write_file(Path("answers.csv"), "id,prediction\nrow-1/1,(1)\nrow-1/2,2\n")
    record = score_file("choice:cups.csv", answers, *columns)
    assert record["metrics"]["both_orders"]["value"] == 1
    assert "data:image" in Path("run/report.html").read_text(encoding="utf-8")
    assert " 0 different" in command("verify", "run").out


# Which caption belongs to which image, in words: any set of 2x2 pairs, from a file of answers.


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("1;2", "2;1", (1.0, 0.0, 0.5, 0.0)),
        ("1;2", "1;2", (0.0, 1.0, 1.0, 0.0)),
        ("2;1", "1;2", (0.0, 0.0, 0.5, 0.0)),
        ("1;2", "both fit", (0.0, 1.0, 0.75, 0.5)),
    ],
)
def test_items_are_asked_in_both_orders_and_answers_come_to_what_they_must(
    command, score_file, first, second, expected
):
    command("export", "pairing:demo", "--to", "questions.jsonl", code=0)
    questions = [json.loads(line) for line in Path("questions.jsonl").read_text().splitlines()]
    assert len(questions) == 800
    one, other = questions[:2]
    assert (one["caption 1"], one["caption 2"]) == (other["caption 2"], other["caption 1"])
    assert (one["left"], one["right"]) == (other["left"], other["right"])
    filled = [{**row, "prediction": first if row["id"].endswith("/1") else second} for row in questions]
    found = score_file("pairing:demo", write_file(Path("answers.jsonl"), filled))["metrics"]
    names = ("group_score_both_orders", "pairing_bias", "followed_list", "unparseable")
    assert tuple(found[name]["value"] for name in names) == expected
    page = Path("run/report.html").read_text(encoding="utf-8")
    assert "data:image/webp" in page  # the pairs' own images are shown


def test_a_bias_is_noted_with_what_it_leans_to():
    cups = tuple(Item(id=name, images=("0.png", "1.png"), texts=("a cup", "a mug")) for name in "ab")
    (note,) = PAIRING.notes(PairSet("cups", cups, Path()), BothOrders(("1;2", "1;2"), ("1;2", "2;1")))
    check_facts(note, "pairing_bias +50.00", "leans to the order of the list", "100.00% of 2 items", "50.00%")


def test_questions_of_another_task_and_a_model_of_scores_are_told_what_the_task_asks_for(command):
    check_facts(command("score", "pairing:vlue-nlvr2", "--scores", "x.jsonl").err, "task")
    check_facts(command("run", "-m", "oracle", "-b", "pairing:demo", code=2).err, "oracle", "task", "model")


# The notes of minimal pairs: items that no model can get right are named.


def test_items_with_a_caption_or_a_picture_twice_are_named(tmp_path):
    rows = [("a", "0", "1", "a cat", "a dog"), ("b", "0", "1", "a cat", "a cat"), ("c", "0", "0", "a cat", "a dog")]
    for name in "01":
        write_file(tmp_path / f"{name}.png", plain((200 * int(name), 0, 0)))
    lines = ["id,image_0,image_1,caption_0,caption_1", *(f"{i},{a}.png,{b}.png,{x},{y}" for i, a, b, x, y in rows)]
    for name, count in (("good", 2), ("bad", 4)):
        write_file(tmp_path / f"{name}.csv", "\n".join(lines[:count]) + "\n")
        run = ta.evaluate("blind", f"table:{tmp_path / name}.csv", out=tmp_path / name)
        said = [note for note in run.result().benchmarks[f"table:{name}.csv"].notes if "twice" in note]
        assert len(said) == (name == "bad")
        assert all("2 of 3 items" in note and "'b'" in note for note in said)
