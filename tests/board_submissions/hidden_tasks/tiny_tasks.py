"""A tiny benchmark of each task that can be hidden, in real files, and right predictions for it."""

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tellapart.benchmarks.locations import Locations
from tellapart.board.submissions.hidden import HiddenBenchmark

N = 48
COLOURS = ("crimson", "teal", "ochre", "indigo")
GOLD = ("zwartbles", "quokka", "axolotl", "pangolin")  # answers that stand nowhere else
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """A task with a tiny benchmark of it, in the files of a benchmark of the catalogue.

    `find` returns whether a record is that of a published row; `right` predicts a row right, `wrong` wrong.
    """

    task: str
    benchmark: str
    suffix: str
    write: Callable[[Path, np.random.Generator], None]
    find: Callable[[Any, Mapping[str, str], Row], bool]
    right: Callable[[Any, Row], Any]
    wrong: Callable[[Any, Row], Any]
    constant: Any
    chance: tuple[float, float]
    gold: tuple[str, ...] = ()


def write_json(path: Path, content) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def write_statements(folder: Path, rng: np.random.Generator) -> None:
    labels = rng.permutation([True, False] * (N // 2))
    rows = [
        {"sentence": f"Sentence {k // 2}.", "label": str(bool(label))}
        | {"images": [f"{k % 20}.jpg", f"{(k + 7) % 20}.jpg"]}
        for k, label in enumerate(labels)
    ]
    write_json(folder / "nlvr2_vlue_test.json", rows)


def write_questions(folder: Path, rng: np.random.Generator) -> None:
    rows = [
        {"question_id": 100 + k, "question": f"What animal {k // 2}?", "image": f"{k % 20}.jpg"}
        | {"answer": GOLD[int(rng.integers(4))]}
        for k in range(N)
    ]
    write_json(folder / "vqa_vlue_test.json", rows)


def write_vqa2(folder: Path, rng: np.random.Generator) -> None:
    asked = [{"question_id": 100 + k, "image_id": k % 20, "question": f"What {k}?"} for k in range(N)]
    given = [
        {"question_id": row["question_id"], "image_id": row["image_id"]}
        | {"answers": [{"answer": GOLD[int(answer)]} for answer in rng.integers(0, 3, 10)]}
        for row in asked
    ]
    write_json(folder / "v2_OpenEnded_mscoco_val2014_questions.json", {"questions": asked})
    write_json(folder / "v2_mscoco_val2014_annotations.json", {"annotations": given})


def write_boxes(folder: Path, rng: np.random.Generator) -> None:
    rows = [
        {"ref_id": k, "text": f"thing {k}", "image": f"{k % 20}.png", "height": 24, "width": 32}
        | {"bbox": [*map(float, rng.integers(0, 16, 2)), *(float(side) + 0.8125 for side in rng.integers(4, 8, 2))]}
        for k in range(N)
    ]
    write_json(folder / "refcoco+_vlue_test.json", rows)


def write_choices(folder: Path, rng: np.random.Generator) -> None:
    rows = []
    for k in range(N):
        own = [f"a {COLOURS[k % 4]} cup {k}", f"a {COLOURS[(k + 1) % 4]} cup {k}"]
        swapped = bool(rng.integers(2))
        rows.append([f"gold-{int(swapped)}/{k}", f"{k % 20}.png", own[swapped], own[not swapped]])
    write_json(folder / "choices.json", rows)


def write_asked(folder: Path, rng: np.random.Generator) -> None:
    """Quadruples, as NaturalBench has them: two questions about each of two images, answered differently."""
    rows: list[list[Any]] = []
    for k in range(N // 4):
        turned = bool(rng.integers(2))
        for question, image in ((0, 0), (0, 1), (1, 0), (1, 1)):
            said = "yes" if (question == image) != turned else "no"
            rows.append([f"{k}/{question}{image}", [f"{(2 * k + image) % 20}.png"], f"Is it {question} of {k}?", said])
            rows[-1].append(f"group-{k}")
    write_json(folder / "asked.json", rows)


CASES = {
    case.task: case
    for case in (
        Case(
            "nlvr2", "vlue-nlvr2", ".jpg", write_statements,
            find=lambda r, seen, row: (*r.texts, *r.images) == (row["sentence"], seen["left"], seen["right"]),
            right=lambda r, _row: r.gold, wrong=lambda r, _row: not r.gold, constant=True, chance=(0.2, 0.8),
        ),
        Case(
            "vqa", "vlue-vqa", ".jpg", write_questions,
            find=lambda r, seen, row: (*r.texts, *r.images) == (row["question"], seen["image"]),
            right=lambda r, _row: r.gold[0], wrong=lambda _r, _row: "nothing", constant=GOLD[0], chance=(0.0, 0.6),
            gold=GOLD,
        ),
        Case(
            "vqa2", "vqa2", ".jpg", write_vqa2,
            find=lambda r, seen, row: (*r.texts, *r.images) == (row["question"], seen["image"]),
            right=lambda r, _row: max(r.gold, key=r.gold.count), wrong=lambda _r, _row: "nothing",
            constant=GOLD[3], chance=(0.0, 0.0), gold=GOLD[:3],
        ),
        Case(
            "grounding", "vlue-grounding", ".png", write_boxes,
            find=lambda r, seen, row: (*r.texts, *r.images) == (row["phrase"], seen["image"]),
            right=lambda r, _row: list(r.gold), wrong=lambda _r, _row: [0, 0, 0, 0], constant=[0, 0, 32, 24],
            chance=(0.0, 0.2), gold=(".8125",),
        ),
        Case(
            "choice", "tiny-choice", ".png", write_choices,
            find=lambda r, seen, row: r.images == (seen["image"],) and {*r.texts} == {row["1"], row["2"]},
            right=lambda r, row: 1 if row["1"] == r.texts[0] else 2,
            wrong=lambda r, row: 2 if row["1"] == r.texts[0] else 1,
            constant="1", chance=(0.0, 0.0), gold=("gold-",),
        ),
        Case(
            "yes-no", "tiny-yes-no", ".png", write_asked,
            find=lambda r, seen, row: (*r.texts, *r.images) == (row["question"], seen["image"]),
            right=lambda r, _row: r.gold, wrong=lambda r, _row: "no" if r.gold == "yes" else "yes",
            constant="Yes.", chance=(0.5, 0.5), gold=("tagged", "group-"),
        ),
    )
}  # fmt: skip

EACH = pytest.mark.parametrize("task", CASES)


def made(task: str, folder: Path, seed: int = 0) -> Locations:
    """Write a benchmark's files, and images that tell who took them."""
    case, rng = CASES[task], np.random.default_rng(7)
    for k in range(20):
        pixels = np.full((24, 32, 3), rng.integers(0, 256, 3)) // 2 + rng.integers(0, 128, (24, 32, 3)) // 4
        name = f"val2014/COCO_val2014_{k:012d}.jpg" if task == "vqa2" else f"{k}{case.suffix}"
        path = folder / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        exif = Image.Exif()
        exif[0x010E] = "the label is true"
        Image.fromarray(pixels.astype(np.uint8)).save(path, exif=exif, quality=90)
    case.write(folder, np.random.default_rng(seed))
    return Locations(folder, folder / "images")


def hidden_task(task: str, place: Locations, **limits: Any) -> HiddenBenchmark:
    """Declare the tiny benchmark of a task as a hidden one."""
    facts = {"benchmark": CASES[task].benchmark, "data": place.data, "images": place.images, "largest_share": 1000.0}
    return HiddenBenchmark(**{"name": "mine", **facts, **limits})


def lines(predictions: Mapping[str, Any]) -> bytes:
    return "".join(json.dumps({"id": id_, "prediction": p}) + "\n" for id_, p in predictions.items()).encode()


def unique(known: list[tuple[Row, Any]]) -> list[tuple[Row, Any]]:
    """The first row of each record: a choice is asked twice."""
    return list({record.id: (row, record) for row, record in reversed(known)}.values())[::-1]


def picture(data: bytes) -> np.ndarray[Any, Any]:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(float)
