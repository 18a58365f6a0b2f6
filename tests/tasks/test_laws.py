"""A law for every task that is answered in files of rows: a filled template is measured, compared and read again."""

import csv
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from film_annotations import films
from sets import write_file
from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.locations import Locations
from tellapart.metrics.moments import frame_times
from tellapart.tasks.registry import TASKS

Row = dict[str, Any]


class Case(NamedTuple):
    """A made file, the first row of its template, two systems' predictions, and what is measured and compared."""

    file: str
    content: Any
    noun: str
    first: Row
    systems: dict[str, list[Row]]
    metrics: dict[str, dict[str, tuple[Any, int, int]]]  # system -> metric -> value, units and clusters
    compared: list[tuple[str, int, int]]  # metric, and units that the first system alone has right, and the second
    notes: dict[str, tuple[str, ...]] | None = None


def predicted(*values) -> list[Row]:
    return [{"prediction": value} for value in values]


def turning_at(*times: float) -> list[Row]:
    """Similarities of frames by which the moments are best at these times."""
    frames = frame_times(4.0)
    return [{"before": (frames < time).astype(int).tolist(), "after": (frames >= time).astype(int).tolist()}
            for time in times]  # fmt: skip


MAN = {"text": "man", "height": 80, "width": 100}
CAPTIONS = ["A dog runs on the mat.", "Two red cats sit.", "The mat is red.", "A cat runs on the mat."]
ASKED = [("One cup?", "a.png", "yes"), ("one cup? ", "b.png", "no"), ("How many?", "a.png", "2")]
CASES = {
    "vlue-grounding": Case(
        "refcoco+_vlue_test.json",
        [MAN | {"ref_id": k, "image": f"{k // 2}.jpg", "bbox": [10 * k, 10, 20, 20]} for k in range(4)],
        "phrases",
        {"id": "0", "phrase": "man", "image": "0.jpg", "width": 100, "height": 80},
        {"good": predicted([0, 10, 20, 20], [15, 10, 20, 20], [35, 10, 20, 20], [0, 0, 0, 0]),
         "bad": predicted([0, 10, 20, 20], *[[80, 60, 5, 5]] * 3)},
        {"good": {"box_accuracy": (0.5, 4, 2), "box_accuracy_plain": (0.5, 4, 2),
                  "mean_iou": (pytest.approx((1 + 0.6 + 1 / 7) / 4), 4, 2)}},
        [("box_accuracy", 1, 0)],
        {"good": ("1 of 4 boxes have no area, and are wrong",)},
    ),
    "vlue-captions": Case(
        "caption_vlue_test.json",
        [{"image": f"{k}.jpg", "caption": [caption], "image_id": k} for k, caption in enumerate(CAPTIONS)],
        "images",
        {"id": "0", "image": "0.jpg"},
        {"good": predicted(*CAPTIONS[:3], "a mat"), "bad": predicted(*["a mat"] * 4)},
        {},
        [("rouge_l", 3, 0), ("cider", 3, 0)],  # BLEU has no value of one image
        {"good": (), "bad": ("3 of 4 captions repeat another image's word for word",)},
    ),
    "vlue-nlvr2": Case(
        "nlvr2_vlue_test.json",
        [{"sentence": f"Sentence {k // 2}.", "images": [f"{k}a.jpg", f"{k}b.jpg"], "label": str(k % 2 == 0)}
         for k in range(8)],
        "statements",
        {"id": "0", "sentence": "Sentence 0.", "left": "0a.jpg", "right": "0b.jpg"},
        {"good": predicted(True, False, True, True, False, False, True, False),
         "bad": predicted(False, True, False, True, True, True, True, False)},
        {"good": {"accuracy": (0.75, 8, 4), "consistency": (0.5, 4, 4), "consistency_both_labels": (0.5, 4, 4)}},
        [("accuracy", 4, 1), ("consistency", 1, 0)],
    ),
    "vlue-vqa": Case(
        "vqa_vlue_test.json",
        [{"question_id": 5 + k, "question": question, "image": image, "answer": answer}
         for k, (question, image, answer) in enumerate(ASKED)],
        "questions",
        {"id": "5", "question": "One cup?", "image": "a.png"},
        {"good": predicted("yes", "no", "2"), "bad": predicted("yes", "yes", "Two.")},
        {"good": {"exact_match": (1, 3, 2), "exact_match_cleaned": (1, 3, 2), "pair_accuracy": (1, 1, 1)},
         "bad": {"exact_match": (1 / 3, 3, 2), "exact_match_cleaned": (2 / 3, 3, 2), "pair_accuracy": (0, 1, 1)}},
        [("exact_match", 2, 0), ("pair_accuracy", 1, 0)],
    ),
    "gebc-val": Case(
        "val.json",
        films(v0123456789=(1.1, 2.5), w0123456789=(0.7,)),
        "moments",
        {"id": "v0123456789_0A", "video": "v0123456789", "before_caption": "a man stands 0",
         "after_caption": "a man sits 0", "duration": 4.0, "frames": 20},
        {"good": turning_at(1.1, 2.5, 0.7), "bad": turning_at(1.1, 0.1, 3.7)},
        {"good": {"boundary_accuracy@0.5": (1, 3, 2)}, "bad": {"boundary_accuracy@0.5": (1 / 3, 3, 2)}},
        [(f"boundary_{name}", 2, 0) for name in ("accuracy", "f1", "accuracy_unmerged", "f1_unmerged")],
    ),
}  # fmt: skip
FILES = [*((name, ".jsonl") for name in CASES), ("vlue-grounding", ".csv"), ("vlue-nlvr2", ".csv")]


def read_template(path: Path) -> list[Row]:
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    with path.open(newline="") as source:
        return list(csv.DictReader(source))


@pytest.mark.parametrize(("name", "suffix"), FILES)
def test_a_filled_template_is_measured_compared_and_read_again(name, suffix, command, score_file, tmp_path):
    case = CASES[name]
    (tmp_path / case.file).write_text(json.dumps(case.content))
    template = tmp_path / f"t{suffix}"
    count = len(case.systems["good"])
    assert command("export", name, "--to", template, "--data", tmp_path, "--json").json[case.noun] == count
    refused = command("score", name, "--scores", template, "--data", tmp_path)
    assert refused.code == 2 and f"t{suffix}" in refused.err  # what is not filled in is no prediction
    rows = read_template(template)
    if suffix == ".jsonl":
        assert {key: value for key, value in rows[0].items() if value is not None} == case.first
    for system, said in case.systems.items():
        path = tmp_path / f"{system}{suffix}"
        write_file(path, [row | filled for row, filled in zip(rows, said, strict=True)][::-1])  # in any order
        result = score_file(name, path, "--data", tmp_path, out=tmp_path / system)
        for metric, (value, n, clusters) in case.metrics.get(system, {}).items():
            measured = result["metrics"][metric]
            assert measured["value"] == pytest.approx(value), metric
            assert (measured["n"], measured["clusters"]) == (n, clusters), metric
        if name != "gebc-val":  # whose samples hold the best moment alone
            benchmark = find_benchmark(name, Locations(tmp_path))
            read, samples = TASKS[benchmark.task].read, tmp_path / system / "samples" / f"{name}.jsonl"
            assert read(samples, benchmark.records()) == read(path, benchmark.records())
        assert tuple(result["notes"][1:]) == (case.notes or {}).get(system, tuple(result["notes"][1:]))
    compared = command("compare", tmp_path / "good", tmp_path / "bad", "--json").json["rows"]
    assert [(row["metric"], row["only_a"], row["only_b"]) for row in compared] == case.compared
