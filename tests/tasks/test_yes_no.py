"""Yes-or-no quadruples: every number against a count by hand, and what an answer in words says."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from samples_again import remeasure

from facts import raises
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.task_records import BinaryQuestion, BinaryQuestionSet, read_gold
from tellapart.errors import DataError
from tellapart.evaluation.evaluate import tabulate_units
from tellapart.evaluation.verified import read_result
from tellapart.models.find import find_model
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.tasks.pairs import TRUE_TEXTS, tot, tot_one_sided
from tellapart.tasks.task import Session
from tellapart.tasks.words import YES_NO, measure_yes_no

GROUPS = 40


def quadruples() -> BinaryQuestionSet:
    rows = [
        BinaryQuestion(f"{k}/q{q}i{i}", (f"{k}{i}.png",), f"q{q} of {k}?", "yes" if q == i else "no", str(k))
        for k in range(GROUPS)
        for q in (0, 1)
        for i in (0, 1)
    ]
    return BinaryQuestionSet("made", tuple(rows))


def values(records: BinaryQuestionSet, answers: list[str]) -> dict[str, tuple[list[float], float | None]]:
    return {
        one.name: (one.strict.tolist(), one.chance)
        for units in measure_yes_no(records, answers)
        for one in units.values
    }


def test_ungrouped_yes_or_no_has_popes_five_numbers() -> None:
    """Against a count by hand, with the script's reading: what it cannot read it takes as yes."""
    drawn = random.Random(1)
    gold = [drawn.choice(("yes", "no")) for _ in range(60)]
    records = BinaryQuestionSet(
        "made", tuple(BinaryQuestion(str(k), (f"{k // 6}.png",), "Is there a cup?", one) for k, one in enumerate(gold))
    )
    answers = [drawn.choice(("Yes.", "No, there is none.", "A cup", "It is not")) for _ in gold]
    units = measure_yes_no(records, answers)
    found = tabulate_units(units).metrics
    said = ["n" if one[:2] in ("No", "It") else "y" for one in answers]
    true = sum(one == "y" and right == "yes" for one, right in zip(said, gold, strict=True))
    precision, recall = true / said.count("y"), true / gold.count("yes")
    assert {name: found[f"pope_{name}"].value for name in ("precision", "recall", "f1", "yes_rate", "accuracy")} == {
        "precision": pytest.approx(precision),
        "recall": pytest.approx(recall),
        "f1": pytest.approx(2 * precision * recall / (precision + recall)),
        "yes_rate": pytest.approx(said.count("y") / 60),
        "accuracy": pytest.approx(sum(one == right[0] for one, right in zip(said, gold, strict=True)) / 60),
    }
    assert found["pope_f1"].low < found["pope_f1"].value < found["pope_f1"].high
    assert found["pope_accuracy"].chance == 0.5 and found["pope_f1"].n == 60
    assert not any(name.startswith("pope") for name in values(quadruples(), ["no"] * 160))


def test_an_answer_of_neither_is_a_yes_by_popes_rule_and_the_note_says_by_which_it_counted() -> None:
    records = BinaryQuestionSet(
        "made", tuple(BinaryQuestion(str(k), (f"{k}.png",), "A cup?", ("yes", "no")[k % 2]) for k in range(40))
    )
    answers = ["maybe", "**No**"] * 20
    found = tabulate_units(measure_yes_no(records, answers)).metrics
    assert found["pope_accuracy"].value == 1 and found["pope_accuracy_official"].value == 0.5
    assert found["pope_f1"].value == 1 and found["pope_f1_official"].value == pytest.approx(2 / 3)
    assert found["pope_yes_rate"].value == 0.5 and found["pope_yes_rate_official"].value == 1
    assert found["a_acc"].value == 0.5 and found["unreadable"].value == 0.5
    (note,) = YES_NO.notes(records, answers)
    assert note.startswith("20 of 40 ") and "wrong in `a_acc`" in note and "in `pope_*` 20 of them count as yes" in note
    (note,) = YES_NO.notes(records, ["It is not there", *answers[1:]])
    assert "in `pope_*` 19 of them" in note


@pytest.mark.parametrize("suffix", [".json", ".csv"])
def test_labels_answer_questions_of_yes_and_no_whatever_their_form(suffix: str, tmp_path: Path) -> None:
    forms: list[Any] = ["True", "true.", "1.", "1", "**TRUE**", "1.0", "False", "0.", "FALSE", "0", "`false`", "0.0"]
    gold = ["yes"] * 6 + ["no"] * 6
    if suffix == ".json":
        forms += [True, 1.0, 1, False, 0.0, 0]
        gold += ["yes"] * 3 + ["no"] * 3
    records = BinaryQuestionSet(
        "made", tuple(BinaryQuestion(str(k), (f"{k}.png",), "A cup?", one) for k, one in enumerate(gold))
    )
    path = tmp_path / f"said{suffix}"
    if suffix == ".json":
        path.write_text(json.dumps([{"id": k, "label": form} for k, form in enumerate(forms)]))
    else:
        path.write_text("id,label\n" + "".join(f"{k},{form}\n" for k, form in enumerate(forms)))
    answers = YES_NO.read(path, records)
    found = tabulate_units(measure_yes_no(records, answers)).metrics
    assert [found[name].value for name in ("a_acc", "a_acc_strict", "pope_accuracy", "unreadable")] == [1, 1, 1, 0]
    assert YES_NO.notes(records, answers) == ()


def test_the_four_accuracies_are_those_of_a_count_by_hand() -> None:
    drawn = random.Random(0)
    answers = [drawn.choice(("Yes, it is", "no", "maybe")) for _ in range(4 * GROUPS)]
    found = values(quadruples(), answers)
    counts = dict.fromkeys(("a_acc", "q_acc", "i_acc", "g_acc"), 0)
    for k in range(GROUPS):
        (q0i0, q0i1, q1i0, q1i1) = (answer[:1].lower() for answer in answers[4 * k : 4 * k + 4])
        right = [q0i0 == "y", q0i1 == "n", q1i0 == "n", q1i1 == "y"]
        counts["a_acc"] += sum(right)
        counts["q_acc"] += (right[0] and right[1]) + (right[2] and right[3])
        counts["i_acc"] += (right[0] and right[2]) + (right[1] and right[3])
        counts["g_acc"] += all(right)
    assert {name: sum(found[name][0]) for name in counts} == counts
    assert {name: len(found[name][0]) for name in counts} == dict(zip(counts, (160, 80, 80, 40), strict=True))
    assert [found[name][1] for name in counts] == [0.5, 0.25, 0.25, 0.0625]
    assert sum(found["unreadable"][0]) == answers.count("maybe")
    assert sum(found["a_acc_strict"][0]) == sum(
        answer == "no" and row.answer == "no" for answer, row in zip(answers, quadruples().questions, strict=True)
    )
    assert YES_NO.notes(quadruples(), answers) == (
        f"{answers.count('maybe')} of 160 answers name neither option, and count as wrong, such as 'maybe'; "
        "expected: yes, no",
    )


def test_a_model_that_does_not_look_gets_half_the_answers_and_no_group() -> None:
    found = values(quadruples(), ["yes"] * 4 * GROUPS)
    assert np.mean(found["a_acc"][0]) == 0.5
    assert not any(sum(found[name][0]) for name in ("q_acc", "i_acc", "g_acc"))


def test_a_pair_that_asks_one_question_of_each_image_has_group_and_answer_accuracy_alone() -> None:
    rows = tuple(BinaryQuestion(str(k), (f"{k}.png",), f"{k // 2}?", "ab"[k % 2], str(k // 2)) for k in range(4))
    found = values(BinaryQuestionSet("mmvp", tuple(
        BinaryQuestion(one.id, one.images, f"{one.question} {one.id}", one.answer, one.group) for one in rows
    )), ["a", "b", "a", "a"])  # fmt: skip
    assert found["g_acc"] == ([1, 0], 0.25) and {"q_acc", "i_acc"}.isdisjoint(found)


@pytest.mark.parametrize("bad", ["maybe", "c", "", "2"])
def test_a_gold_answer_is_one_of_two(bad: str) -> None:
    with raises(ValueError, "yes", "no", "true", "false", "1", "0", "A", "B", "first", "second"):
        read_gold(bad)
    with raises(DataError, "0", "question", "answer"):
        BinaryQuestionSet("s", (BinaryQuestion("0", ("a.png",), "?", bad),))


def test_texts_alone_are_compared_from_both_sides_and_from_one() -> None:
    every = np.array(np.meshgrid(*[[0, 1, 2]] * 3)).reshape(3, -1).T[:, None, :]
    assert tot(every).tolist() == [float(s[0, 0] > s[0, 1] and s[0, 0] > s[0, 2]) for s in every]
    assert tot_one_sided(every).tolist() == [float(s[0, 0] > s[0, 1]) for s in every]
    items = tuple(
        Item(id=str(k), images=("no.png",), texts=(f"a cup {k}", f"no cup {k}", f"one cup {k}"), true=(0, 2))
        for k in range(3)
    )
    pairs, model = PairSet("t", items, Path()), find_model("demo-encoder")
    session = Session(pictures=lambda _: b"", store=EmbeddingStore(None))
    run = TRUE_TEXTS.runner(model)
    assert run is not None
    scores = run(model, pairs, session).scores.values
    vectors = model.encode_texts([text for item in items for text in item.texts]).reshape(3, 3, -1)
    vectors = vectors / np.linalg.norm(vectors, axis=2, keepdims=True)
    expected = np.einsum("ktd,kud->ktu", vectors, vectors)[:, (0, 0, 2), (2, 1, 1)]  # true ones are 0 and 2
    np.testing.assert_allclose(scores[:, 0], expected, rtol=1e-5)


# ---- all shapes, from a file of the user's to the report

MANY = range(8)
ROWS: dict[str, list[Any]] = {
    "true": [{"image": f"{k % 4}.png", "good": [f"cup {k}", f"a cup {k}"], "bad": f"plate {k} here"} for k in MANY],
    "anywhere": [{"image": f"{k % 4}.png", "keys": [f"{n} of {k}" for n in range(4)], "label": k % 4} for k in MANY],
    "images": [{"keys": [f"{(k + n) % 4}.png" for n in range(3)], "text": f"cup {k}", "label": k % 3} for k in MANY],
    "ordered": [{"image": f"{k % 4}.png", "keys": [f"{n} of {k}" for n in range(3)]} for k in MANY],
    "square": [{"images": [f"{n}.png" for n in range(4)], "texts": [f"{n} of {k}" for n in range(4)]} for k in MANY],
    "films": [{"texts": ["darker now", f"brighter {k}"]} for k in MANY],
    "questions": [[f"q{q}?", f"{i}.png", "Yes" if q == i else "No", k] for k in MANY for q in (0, 1) for i in (0, 1)],
}
ROWS["texts"] = ROWS["true"]
TABLES = {
    "true": 'images = "{image}"\ntexts = ["{good.0}", "{bad}", "{good.1}"]\ntrue = [0, 2]',
    "anywhere": 'images = "{image}"\ntexts = "{keys}"\ntrue = "{label}"',
    "images": 'images = "{keys}"\ntexts = "{text}"\ntrue = "{label}"',
    "ordered": 'images = "{image}"\ntexts = "{keys}"',
    "square": 'images = "{images}"\ntexts = "{texts}"',
    "films": 'images = ["down.mp4", "up.mp4"]\ntexts = "{texts}"',
    "questions": 'images = "{1}"\nquestion = "{0}"\nanswer = "{2}"\ngroup = "{3}"',
}
TABLES["texts"] = TABLES["true"]
FIRST = {"true": "itt", "anywhere": "choice_score", "images": "choice_score", "square": "set_score"}
FIRST |= {"films": "group_score", "questions": "g_acc", "texts": "tot", "ordered": "ordering_score"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ROWS)
def test_every_shape_goes_from_a_users_file_to_the_report(
    kind: str, command: Callable[..., Any], tmp_path: Path
) -> None:
    table = f'[[{"question" if kind == "questions" else "item"}]]\nid = "{{row}}"\n{TABLES[kind]}\n'
    ordered = "ordered = true\n" if kind == "ordered" else ""
    (tmp_path / "images").mkdir()
    for k in range(4):
        Image.fromarray(np.full((4, 4, 3), 60 * k, np.uint8)).save(tmp_path / "images" / f"{k}.png")
    if kind == "films":
        write_films(tmp_path / "images")
    (tmp_path / "rows.json").write_text(json.dumps(ROWS[kind]))
    (tmp_path / "own.toml").write_text(
        f'name = "o"\ntitle = "o"\nsource = "o"\nfiles = ["rows.json"]\n{ordered}{table}'
    )
    own = "texts:own.toml" if kind == "texts" else "own.toml"
    ran = lambda *words: ((done := command(*words)).code == 0 and done) or pytest.fail(done.err)  # noqa: E731
    ran("export", own, "--to", "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for name in ("good", "bad"):
        for number, row in enumerate(rows):
            right = is_true(kind, number, row) == (name == "good")
            row.update(
                {"prediction": "yes" if right else "no"} if kind == "questions" else {"score": str(float(right))}
            )
            if kind == "ordered":
                row["score"] = str(int(row["text"]) * (-1 if name == "good" else 1))
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        words = () if kind == "questions" else ("--kind", "similarity")
        ran("score", own, "--scores", f"{name}.csv", "--name", name, "--out", f"runs/{name}", *words)
    for name, expected in (("good", 1), ("bad", 0)):
        ((benchmark, record),) = read_result(tmp_path / "runs" / name).benchmarks.items()
        assert record.metrics[FIRST[kind]].value == expected
        if kind not in ("questions", "texts"):  # from the run's samples, without the file of scores
            assert remeasure(tmp_path / "runs" / name, benchmark).metrics[FIRST[kind]].value == expected
    assert FIRST[kind] in str(ran("compare", "runs/good", "runs/bad", "--json").json)
    assert "| good |" in ran("table", "runs/good", "runs/bad").out
    ran("plot", "bars", "runs/good", "--out", "bars.svg")
    assert "<svg" in (tmp_path / "bars.svg").read_text()
    ran("show", "runs/good")
    assert "own.toml" in (tmp_path / "runs/good/report.html").read_text("utf-8")
    if kind not in ("questions", "texts", "ordered"):  # no oracle knows an order
        ran("run", "-b", own, "-m", "oracle", "--out", "runs/own")
        best = read_result(tmp_path / "runs/own").benchmarks[benchmark]
        assert best.metrics[FIRST[kind]].value == 1
    if kind in ("films", "texts"):  # a dual encoder reads films frame by frame, and texts without images
        ran("run", "-b", own, "-m", "demo-encoder", "--out", "runs/encoder")
        assert read_result(tmp_path / "runs/encoder").benchmarks[benchmark].metrics[FIRST[kind]].n == len(MANY)


def write_films(folder: Path) -> None:
    """A film that becomes darker, and one that becomes brighter, of four frames."""
    av = pytest.importorskip("av", reason="films need the extra video")
    for name, greys in (("down", (200, 150, 100, 50)), ("up", (50, 100, 150, 200))):
        with av.open(str(folder / f"{name}.mp4"), "w") as container:
            stream = container.add_stream("libx264", rate=25)
            stream.width = stream.height = 32
            stream.pix_fmt = "yuv420p"
            for grey in greys:
                frame = av.VideoFrame.from_ndarray(np.full((32, 32, 3), grey, np.uint8), format="rgb24")
                container.mux(stream.encode(frame))
            container.mux(stream.encode())


def is_true(kind: str, number: int, row: dict[str, str]) -> bool:
    """Whether what a row of the exported file asks about belongs together; `number` is the row's."""
    if kind == "questions":
        return number % 4 in (0, 3)
    item, image, text = (int(row[name]) for name in ("id", "image", "text"))
    places = {
        "true": text in (0, 2),
        "texts": text == 0,  # the two true ones; the others are each with the false one
        "anywhere": text == item % 4,
        "images": image == item % 3,
        "square": image == text,
        "ordered": text == 0,
        "films": image == text,
    }
    return places[kind]
