"""Thoughts of reasoning models: no reader of answers reads them, whether a file holds them or a model writes them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from facts import raises
from tellapart.data.answer_text import count_thoughts
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.task_records import (
    BinaryQuestion,
    BinaryQuestionSet,
    Box,
    BoxSet,
    CaptionSet,
    Choice,
    ChoiceSet,
    ClassificationSet,
    ClassifiedImage,
    Question,
    QuestionSet,
    Statement,
    StatementSet,
)
from tellapart.errors import ScoreError
from tellapart.evaluation.verified import read_result
from tellapart.models.generative.answers_grammar import parse_box
from tellapart.models.generative.prompts import CAPTION, GROUNDING_SENTENCE, NLVR2, SHORT_ANSWER, Prompt
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.tasks.registry import TASKS
from tellapart.tasks.task import Session

#: A thought that holds the other answer of every task.
THOUGHT = (
    "<think>Yes or no? True or false? 1 or 2, A or B? 1;2. [0, 0, 9, 9]. I think no: false, 2, B, a dog.</think>\n"
)
#: Task -> records, and the answers of two records.
ASKED: dict[str, tuple[Any, tuple[str, str]]] = {
    "yes-no": (
        BinaryQuestionSet("q", tuple(BinaryQuestion(k, (f"{k}.png",), "A cup?", "yes") for k in "01")),
        ("Yes", "yes."),
    ),
    "nlvr2": (
        StatementSet("s", tuple(Statement(k, f"{k} cups.", f"{k}.png", f"{k}.png", True) for k in "01")),
        ("True", "true."),
    ),
    "vqa": (QuestionSet("v", tuple(Question(k, "What?", f"{k}.png", ("cup",)) for k in "01")), ("cup", "a cup")),
    "open": (QuestionSet("o", tuple(Question(k, "What?", f"{k}.png", ("cup",)) for k in "01")), ("cup", "{cup}")),
    "vqa2": (
        QuestionSet("v", tuple(Question(k, "What?", f"{k}.png", ("cup", "mug", "cup")) for k in "01")),
        ("cup", "mug"),
    ),
    "captions": (CaptionSet("c", ("0", "1"), ("0.png", "1.png"), (("a cup",), ("a mug",))), ("a cup", "a mug")),
    "grounding": (
        BoxSet("b", tuple(Box(k, "cup", f"{k}.png", (1.0, 1.0, 4.0, 4.0), (9, 9)) for k in "01")),
        ("[1, 1, 5, 5]", "[2, 2, 5, 5]"),
    ),
}
#: Tasks that are answered in files alone, or with two answers an item.
FILED: dict[str, tuple[Any, dict[str, str]]] = {
    **{name: (records, dict(zip("01", answers, strict=True))) for name, (records, answers) in ASKED.items()},
    "choice": (ChoiceSet("c", (Choice("0", "0.png", "a cup", "a mug"),)), {"0/1": "1", "0/2": "a cup"}),
    "classification": (
        ClassificationSet("c", ("cat", "dog"), ("a {}",), (ClassifiedImage("0", "0.png", 0),)),
        {"0": "cat"},
    ),
    "pairing": (
        PairSet("p", (Item(id="0", images=("0.png", "1.png"), texts=("a", "b")),), Path()),
        {"0/1": "1;2", "0/2": "2;1"},
    ),
}


def test_every_task_that_is_answered_in_words_is_here() -> None:
    assert {name for name, one in TASKS.items() if one.output in ("text", "label", "box")} <= {*FILED}


def picture(_reference: str) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (9, 9)).save(stream, "PNG")
    return stream.getvalue()


def outcomes(task: str, records: Any, predictions: Any) -> dict[str, list[float]]:
    return {
        one.name: one.strict.tolist() for units in TASKS[task].measure(records, predictions) for one in units.values
    }


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv"])
@pytest.mark.parametrize("task", FILED)
def test_a_file_is_read_without_its_thoughts(task: str, suffix: str, tmp_path: Path) -> None:
    records, answers = FILED[task]
    found = []
    for thought in ("", THOUGHT, "I begin without a mark: no." + THOUGHT.removeprefix("<think>")):
        path = tmp_path / f"answers{suffix}"
        rows = [{"id": key, "prediction": f"{thought}{answer}"} for key, answer in answers.items()]
        if suffix == ".csv":
            cells = (row["prediction"].replace('"', '""') for row in rows)
            lines = (f'{row["id"]},"{cell}"' for row, cell in zip(rows, cells, strict=True))
            path.write_text("\n".join(("id,prediction", *lines)) + "\n")
        else:
            path.write_text(json.dumps(rows) if suffix == ".json" else "".join(json.dumps(row) + "\n" for row in rows))
        with count_thoughts() as thoughts:
            found.append(outcomes(task, records, TASKS[task].read(path, records)))
        assert (thoughts.stripped, thoughts.cut) == (len(answers) * bool(thought), 0)
    assert found[0] == found[1] == found[2]


class Says:
    """Gives answers that it was given, in turn."""

    name, fingerprint, kind = "says", "says-1", "probability"

    def __init__(self, answers: Sequence[str]) -> None:
        self.answers = list(answers)

    def task_prompt(self, task: str) -> Prompt:
        return {"vqa": SHORT_ANSWER, "nlvr2": NLVR2, "caption": CAPTION, "grounding": GROUNDING_SENTENCE}[task]

    def answer(self, images: Any, prompts: Sequence[str], *, max_new_tokens: int = 32) -> list[str]:
        return [self.answers.pop(0) for _ in prompts]

    def read_box(self, answer: str, pixels: np.ndarray) -> Any:
        return parse_box(answer, "pixels", (9, 9), (9, 9))


@pytest.mark.parametrize("task", ASKED)
def test_a_model_is_read_without_its_thoughts(task: str) -> None:
    records, answers = ASKED[task]
    session = Session(pictures=picture, store=EmbeddingStore(None))
    found = []
    for thought in ("", THOUGHT):
        model: Any = Says([f"{thought}{answer}" for answer in answers])
        run = TASKS[task].runner(model)
        assert run is not None
        with count_thoughts() as thoughts:
            found.append(outcomes(task, records, run(model, records, session)))
        assert thoughts.stripped == 2 * bool(thought)
    assert found[0] == found[1]


def test_the_record_and_its_notes_count_thoughts(command: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(json.dumps([{"image": f"{k}.png", "label": k % 2} for k in range(6)]))
    (tmp_path / "own.toml").write_text(
        'name = "o"\ntitle = "o"\nsource = "o"\nfiles = ["rows.json"]\n'
        '[[question]]\nid = "{row}"\nimages = "{image}"\nquestion = "A cup?"\nanswer = "{label}"\n'
    )
    said = [f"{THOUGHT}{['no', 'yes'][k % 2]}" for k in range(5)]
    rows = [{"id": k, "prediction": answer} for k, answer in enumerate([*said, "<think>I think it is a yes"])]
    (tmp_path / "said.json").write_text(json.dumps(rows))
    assert command("score", "own.toml", "--scores", "said.json", "--out", "run").code == 0
    ((_, record),) = read_result(tmp_path / "run").benchmarks.items()
    assert (record.thoughts, record.thoughts_cut) == (6, 1)
    assert record.metrics["a_acc"].value == pytest.approx(5 / 6)
    assert [note.split()[0] for note in record.notes] == ["6", "1", "1"]
    assert all(note in command("show", "run").out for note in record.notes)
    for row in rows[:5]:
        row["prediction"] = "<think>I think"
    (tmp_path / "said.json").write_text(json.dumps(rows))
    refused = command("score", "own.toml", "--scores", "said.json", "--out", "cut")
    assert refused.code != 0 and "said.json" in refused.err and "thought" in refused.err


def test_a_label_that_a_thought_swallowed_is_named(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"id": "0", "prediction": "True."}\n{"id": "1", "prediction": "<think>It is true"}\n')
    with raises(ScoreError, "p.jsonl:2", "'prediction'", "thought"):
        TASKS["nlvr2"].read(path, ASKED["nlvr2"][0])
