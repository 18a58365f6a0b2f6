"""Doors of predictions: the files of every task, as `tellapart score` reads them, and the numbers that they come to."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from doors import DECLARED, Door, door_of
from reshape import FIELDS, ROWS

from tellapart.data import task_records as sets
from tellapart.data.answer_text import watch_reading
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.tasks.registry import TASKS

_IMAGES = ("a.png", "b.png", "c.png", "d.png")


def _rows(count: int, make: Callable[[int], tuple[Any, ...]], **facts: Any) -> tuple[sets.Record, ...]:
    """Return records of numbered images, texts and gold answers."""
    return tuple(sets.Record(str(k), *make(k), facts=facts) for k in range(count))


def _questions(name: str, answers: tuple[str, ...]) -> sets.QuestionSet:
    return sets.QuestionSet(name, _rows(4, lambda k: ((_IMAGES[k],), (f"How many {k}?",), answers)))


_PAIRS = [Item(id=str(k), images=_IMAGES[:2], texts=(f"a cup {k}", f"no cup {k}"), cluster=str(k)) for k in range(2)]
_BOX = {"size": (99, 99), "candidates": ()}
_HOUSES = ("the house on the right", "the house on the left")
_MOMENTS = [
    sets.make_moment(f"v_{k}", "v", 0.3 * (k + 1), ("a man", f"stands {k}", "sits"), "Change", 1.2) for k in (0, 1)
]

#: Task -> records of four, of which the predictions below get some right and some wrong.
RECORDS: dict[str, Any] = {
    "yes-no": sets.BinaryQuestionSet(
        "pope", _rows(4, lambda k: ((_IMAGES[k],), ("Is there a cat?",), ("yes", "no")[k % 2]))
    ),
    "nlvr2": sets.StatementSet("nlvr2", _rows(4, lambda k: (_IMAGES[:2], (f"Both show a dog {k % 2}.",), k < 2))),
    "vqa": _questions("vqa", ("two",)),
    "vqa2": _questions("vqa2", ("two",) * 4 + ("3",) * 6),
    "captions": sets.CaptionSet(
        "captions", _rows(4, lambda k: ((_IMAGES[k],), (), (f"a {('cat', 'dog', 'cow', 'owl')[k]} sits", "it")))
    ),
    "grounding": sets.BoxSet(
        "refs", _rows(4, lambda k: ((_IMAGES[k],), (f"man {k}",), (10.0 * k, 5.0, 20.0, 20.0)), **_BOX)
    ),
    "classification": sets.ClassificationSet(
        "pets", _rows(4, lambda k: ((_IMAGES[k],), (), k % 3)), ("cat", "dog", "owl"), ("a photo of a {}.",)
    ),
    "choice": sets.ChoiceSet("cups", _rows(2, lambda k: ((_IMAGES[k],), (f"a red cup {k}", f"a blue cup {k}")))),
    "pairing": PairSet("cups", tuple(_PAIRS), Path()),
    "ranking": sets.RankingSet("houses", _rows(2, lambda _: (_IMAGES[:3], _HOUSES, (1, 2, 3)))),
    "moments": sets.MomentSet("falls", tuple(_MOMENTS)),
    "labels": sets.LabelSet(
        "plates", _rows(2, lambda k: ((), (f"plate {k}",), (k == 0, True, False)), counted=(0, 1, 2)), _IMAGES[:3]
    ),
    "retrieval": sets.RetrievalSet.of("gallery", _IMAGES[:3], [["a cat", "one cat"], ["a dog"], ["an owl"]]),
}


#: Files of arrays: the task, and the arrays.
ARRAYS: dict[str, tuple[str, dict[str, Any]]] = {
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


def open_prediction_doors(folder: Path) -> Iterator[Door]:
    """Yield the doors of the files that `open_doors` has copied below a folder."""
    home = folder / "predicted"
    for name, task in ((name, task) for task, names in DECLARED["predicted"].items() for name in names):
        # A cell holds any text, and an empty one is an answer, too.
        knows = (FIELDS | ROWS) - ({"null", "type"} if name.endswith(".csv") else set())
        yield door_of(home / name, partial(read_outcomes, task), name=f"predictions: {name}", knows=knows)
    for name, (task, arrays) in ARRAYS.items():
        np.savez(home / name, **arrays)
        yield door_of(home / name, partial(read_outcomes, task), name=f"predictions: {name}", whole=False)


def read_outcomes(task: str, path: Path) -> Any:
    """Read a file of predictions of one of the records above, and return all that is measured of it."""
    declared, records = TASKS[task], RECORDS[task]
    with watch_reading():
        predictions = declared.read(path, records)
    found = []
    for measured in declared.measure(records, predictions):
        values = [(one.name, *(_numbers(side) for side in (one.strict, one.neutral))) for one in measured.values]
        found.append((measured.noun, [(unit.id, unit.output) for unit in measured.units], values))
    return found


def _numbers(values: Any) -> Any:
    return None if values is None else values.tolist()
