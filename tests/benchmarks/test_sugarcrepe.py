"""SugarCrepe as published: counts, older copies, and the seven accuracies of its published per-item results."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from facts import raises
from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.minimal_pairs import SUBSETS, same_words
from tellapart.data.scores import Scores
from tellapart.errors import DataError
from tellapart.evaluation.evaluate import measure

At = Callable[..., Benchmark]
Published = Callable[[str], Path]
ACCURACY = {  # per cent, ViT-B-32
    "add_obj": 77.21,
    "add_att": 68.79,
    "replace_obj": 90.92,
    "replace_att": 80.08,
    "replace_rel": 69.20,
    "swap_obj": 61.38,
    "swap_att": 63.96,
}


@pytest.fixture
def older(published: Published, tmp_path: Path) -> tuple[Path, list[float]]:
    """The older copy with 7,512 items, made of the published results, and which of them the model got right."""
    files: dict[str, dict[str, object]] = {subset: {} for subset in SUBSETS}
    right: dict[str, list[float]] = {subset: [] for subset in SUBSETS}
    path = published("bivlc") / "SUGARCREPE_CORRECT_ViT-B-32.csv"
    with path.open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            subset = f"{row['type']}_{row['subtype']}"
            fields = {key: row[key] for key in ("filename", "caption", "negative_caption")}
            files[subset][str(len(files[subset]))] = fields
            right[subset].append(float(row["correct"]))
    for subset, rows in files.items():
        extra = {"accuracy": 0.8577} if subset == "swap_obj" else {}
        (tmp_path / f"{subset}.json").write_text(json.dumps({**rows, **extra}))
    return tmp_path, [one for subset in SUBSETS for one in right[subset]]


@pytest.mark.slow
def test_the_published_results_give_the_seven_accuracies(at: At, older: tuple[Path, list[float]]) -> None:
    folder, right = older
    outline = at("sugarcrepe", folder).outline()
    assert len(outline.ids) == 7512
    scores = Scores(outline.ids, [[[one, 1 - one]] for one in right], "similarity")
    found = measure(scores, outline).by["subset"]
    assert {name: round(100 * group.metrics["choice_score"].value, 2) for name, group in found.items()} == ACCURACY


def test_the_published_files_hold_7511_items_of_1560_images(at: At, published: Published) -> None:
    pairs = at("sugarcrepe", published("sugarcrepe")).records()
    outline = pairs.outline
    assert (len(pairs), pairs.shape, len(set(outline.clusters))) == (7511, (1, 2), 1560)
    counts = Counter(tags["subset"] for tags in outline.tags)
    assert counts == {subset: count[0] for subset, count in SUBSETS.items()}
    assert "swap_obj/108" not in outline.ids
    assert "swap_obj/245" in outline.ids


def test_pairs_of_the_same_words_are_counted_apart(at: At, published: Published) -> None:
    outline = at("sugarcrepe", published("sugarcrepe")).outline()
    same = Counter(tags["subset"] for tags in outline.tags if tags["bag_of_words"] == "same")
    assert same == {"swap_obj": 164, "swap_att": 408}


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("A cat, a dog.", "a DOG a cat", True),
        ("a cat and a dog", "a cat and dog", False),
        ("it's here", "its here", False),
        ("", "", True),
    ],
)
def test_the_same_words_are_so_whatever_order_case_and_punctuation(first: str, second: str, same: bool) -> None:
    assert same_words(first, second) is same


def test_images_are_read_from_the_folder_that_is_named(
    at: At, older: tuple[Path, list[float]], tmp_path: Path, draw: Callable[..., bytes]
) -> None:
    images = tmp_path / "elsewhere"
    images.mkdir()
    pairs = at("sugarcrepe", older[0], images).records()
    reference = pairs.items[0].images[0]
    with raises(DataError, f"'{reference}'", "images="):
        pairs.pixels(reference)
    (images / reference).write_bytes(draw(1, kind="JPEG"))
    assert pairs.pixels(reference).shape == (4, 4, 3)
