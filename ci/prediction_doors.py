"""Doors of predictions: the files of every task, as `tellapart score` reads them, and the numbers that they come to."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from doors import Door, door_of
from reshape import FIELDS, ROWS

from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.prediction_field import watch_field
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
    ImageLabel,
    LabelSet,
    Moment,
    MomentSet,
    Question,
    QuestionSet,
    Ranking,
    RankingSet,
    RetrievalSet,
    Statement,
    StatementSet,
)
from tellapart.tasks.registry import TASKS

_IMAGES = ("a.png", "b.png", "c.png", "d.png")

#: Task -> records of four, of which the predictions below get some right and some wrong.
_RECORDS: dict[str, Any] = {
    "yes-no": BinaryQuestionSet(
        "pope",
        tuple(
            BinaryQuestion(str(k), (image,), "Is there a cat?", gold)
            for k, (image, gold) in enumerate(zip(_IMAGES, ("yes", "no", "yes", "no"), strict=True))
        ),
    ),
    "nlvr2": StatementSet(
        "nlvr2", tuple(Statement(str(k), f"Both show a dog {k % 2}.", "a.png", "b.png", k < 2) for k in range(4))
    ),
    "vqa": QuestionSet("vqa", tuple(Question(str(k), f"How many {k}?", _IMAGES[k], ("two",)) for k in range(4))),
    "vqa2": QuestionSet(
        "vqa2", tuple(Question(str(k), f"How many {k}?", _IMAGES[k], ("two",) * 4 + ("3",) * 6) for k in range(4))
    ),
    "captions": CaptionSet(
        "captions",
        ("0", "1", "2", "3"),
        _IMAGES,
        tuple((f"a {word} sits", "it") for word in ("cat", "dog", "cow", "owl")),
    ),
    "grounding": BoxSet(
        "refs", tuple(Box(str(k), f"man {k}", _IMAGES[k], (10.0 * k, 5.0, 20.0, 20.0), (99, 99)) for k in range(4))
    ),
    "classification": ClassificationSet(
        "pets",
        ("cat", "dog", "owl"),
        ("a photo of a {}.",),
        tuple(ClassifiedImage(str(k), _IMAGES[k], k % 3) for k in range(4)),
    ),
    "choice": ChoiceSet(
        "cups", tuple(Choice(str(k), _IMAGES[k], f"a red cup {k}", f"a blue cup {k}") for k in range(2))
    ),
    "pairing": PairSet(
        "cups",
        tuple(
            Item(id=str(k), images=_IMAGES[:2], texts=(f"a cup {k}", f"no cup {k}"), cluster=str(k)) for k in range(2)
        ),
        Path(),
    ),
    "ranking": RankingSet(
        "houses",
        tuple(
            Ranking(str(k), "the house on the right", "the house on the left", _IMAGES[:3], (1, 2, 3)) for k in range(2)
        ),
    ),
    "moments": MomentSet(
        "falls",
        tuple(Moment(f"v_{k}", "v", 0.3 * (k + 1), "a man", f"stands {k}", "sits", "Change", 1.2) for k in range(2)),
    ),
    "labels": LabelSet(
        "plates",
        _IMAGES[:3],
        tuple(ImageLabel(str(k), f"plate {k}", (0, 1, 2), (k == 0, True, False)) for k in range(2)),
    ),
    "retrieval": RetrievalSet.of("gallery", _IMAGES[:3], [["a cat", "one cat"], ["a dog"], ["an owl"]]),
}


def _rows(key: str, name: str, values: Sequence[Any], number: Callable[[Any], Any] = str) -> list[dict[str, Any]]:
    return [{key: number(k), name: value} for k, value in enumerate(values)]


#: Name of a file -> its task and its rows, under the names that the task's tools give.
_FILES: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "pope.jsonl": ("yes-no", _rows("id", "prediction", ("Yes, it is.", "no", "No.", "yes"))),
    "pope.json": ("yes-no", _rows("question_id", "answer", ("yes", "no", "no", "yes"), int)),
    "pope.csv": ("yes-no", _rows("id", "prediction", ("yes", "no", "no", "yes"))),
    "nlvr2.jsonl": ("nlvr2", _rows("id", "prediction", (True, False, True, False))),
    "nlvr2.csv": ("nlvr2", _rows("identifier", "label", ("True", "False", "True", "False"))),
    "vqa.json": ("vqa", _rows("question_id", "answer", ("two", "3", "two dogs", "2"), int)),
    "vqa.csv": ("vqa", _rows("id", "prediction", ("two", "three", "two dogs", "four"))),
    "vqa2.json": ("vqa2", _rows("question_id", "answer", ("two", "3", "2", "four"), int)),
    "captions.results.json": ("captions", _rows("image_id", "caption", ("a cat sits", "a dog", "it", "an owl"), int)),
    "captions.csv": ("captions", _rows("id", "prediction", ("a cat sits", "a dog", "it", "an owl"))),
    "grounding.json": (
        "grounding",
        _rows("ref_id", "bbox", ([0, 5, 20, 20], [10.5, 5, 9, 9], [1, 2, 3, 4], [30, 5, 20, 19]), int),
    ),
    "grounding.csv": (
        "grounding",
        _rows("id", "prediction", ("[0, 5, 20, 20]", "[10.5, 5, 9, 9]", "[1, 2, 3, 4]", "[30, 5, 20, 19]")),
    ),
    "classes.jsonl": ("classification", _rows("id", "prediction", ("cat", "owl", "owl", "dog"))),
    "classes.csv": ("classification", _rows("id", "prediction", ("cat", "owl", "owl", "dog"))),
    "choices.jsonl": ("choice", [{"id": f"{k}/{order}", "prediction": str(order)} for k in (0, 1) for order in (1, 2)]),
    "pairing.json": (
        "pairing",
        [{"id": f"{k}/{order}", "prediction": f"{order};{3 - order}"} for k in (0, 1) for order in (1, 2)],
    ),
    "ranking.jsonl": ("ranking", [{"id": str(k), "scores": [0.5, 0.25, k], "edited": [1, 0.5, 0]} for k in (0, 1)]),
    "moments.jsonl": (
        "moments",
        [{"id": f"v_{k}", "times": [0, 0.5, 1], "before": [0.9, k, 0.2], "after": [0.1, 0.3, 0.7]} for k in (0, 1)],
    ),
}

#: The same of arrays.
_ARRAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "classes.npz": (
        "classification",
        {"image_ids": list("0123"), "classes": ["cat", "dog", "owl"], "scores": np.arange(12).reshape(4, 3) % 5 / 8},
    ),
    "labels.npz": (
        "labels",
        {"image_ids": list("012"), "label_ids": list("01"), "scores": np.arange(6).reshape(3, 2) % 4 / 8},
    ),
    "gallery.npz": (
        "retrieval",
        {"image_ids": list("012"), "caption_ids": list("0123"), "scores": np.arange(12).reshape(3, 4) % 5 / 8},
    ),
}


def open_prediction_doors(folder: Path) -> dict[str, Door]:
    """Write a valid file of each format below a folder, and return its door by a name."""
    home, doors = folder / "predicted", {}
    home.mkdir()
    for name, (task, rows) in _FILES.items():
        path = home / name
        read = partial(read_outcomes, task, path)
        # A cell holds any text, and an empty one is an answer, too.
        knows = (FIELDS | ROWS) - ({"null", "type"} if path.suffix == ".csv" else set())
        doors[f"predictions: {name}"] = door_of(path, read, _write_rows(path.suffix, rows), knows=knows)
    for name, (task, arrays) in _ARRAYS.items():
        np.savez(home / name, **arrays)
        doors[f"predictions: {name}"] = door_of(home / name, partial(read_outcomes, task, home / name), whole=False)
    return doors


def _write_rows(suffix: str, rows: Sequence[dict[str, Any]]) -> str:
    if suffix == ".json":
        return json.dumps(rows)
    if suffix == ".jsonl":
        return "".join(json.dumps(row) + "\n" for row in rows)
    lines = [list(rows[0]), *(list(row.values()) for row in rows)]
    return "".join(",".join(f'"{cell}"' if "," in cell else cell for cell in line) + "\n" for line in lines)


def read_outcomes(task: str, path: Path) -> Any:
    """Read a file of predictions of one of the records above, and return all that is measured of it."""
    declared, records = TASKS[task], _RECORDS[task]
    with watch_field():
        predictions = declared.read(path, records)
    return [
        (
            measured.noun,
            [(unit.id, unit.output) for unit in measured.units],
            [
                (value.name, value.strict.tolist(), None if value.neutral is None else value.neutral.tolist())
                for value in measured.values
            ],
        )
        for measured in declared.measure(records, predictions)
    ]
