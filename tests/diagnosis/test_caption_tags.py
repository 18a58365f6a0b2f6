"""Tags of numbers from the captions of a run: which words differ, and how many, on one image and on two."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import tellapart as ta
from facts import raises
from tellapart.diagnosis.curve import count_edits, find_difference, tag_captions
from tellapart.diagnosis.item_analysis import outcomes_of, read_systems
from tellapart.errors import RunError
from tellapart.evaluation.systems import choose_models

TRUE = "a b c d e f g h"
CAPTIONS = [("caption", "negative_caption"), ("caption_0", "caption_1")]


@pytest.mark.parametrize(
    ("first", "second", "edits", "place"),
    [
        ("A cat and a dog.", "a dog and a cat", 2, 2),
        ("Two cats", "two cats, two dogs", 2, 3),
        ("The cat sleeps", "Today the cat sleeps", 1, 1),
        ("An owl!", "an owl", 0, None),
        ("", "a cat", 2, 1),
    ],
)
def test_words_that_differ_are_counted_from_both_sides(first, second, edits, place):
    assert count_edits(first, second) == count_edits(second, first) == edits
    assert find_difference(first, second) == find_difference(second, first) == place


def make_run(folder: Path, *, images: int, tag: str = "") -> Path:
    """A run of 80 items whose captions differ from word 1 to 8 on; a late difference is lost."""
    Image.new("RGB", (8, 8)).save(folder / "a.png")
    columns = ["image_0", "image_1"] if images == 2 else ["image"]
    lines = [",".join(["id", *columns, *CAPTIONS[images - 1], "tag:first_difference" if tag else "cluster"])]
    words = TRUE.split()
    for k in range(80):
        false = " ".join([*words[: k % 8], "x", *words[k % 8 + 1 :]])
        lines.append(",".join([f"{k}", *["a.png"] * images, TRUE, false, tag or f"{k}"]))
    (folder / "pairs.csv").write_text("\n".join(lines) + "\n")
    scores = np.zeros((80, images, 2))
    scores[:, range(images), range(images)] = (np.arange(80) % 8 < 5)[:, None]
    return ta.score(f"table:{folder / 'pairs.csv'}", scores, name="m", kind="similarity", out=folder / "run").folder


@pytest.mark.parametrize("images", [1, 2])
def test_a_run_without_such_a_tag_has_a_curve_over_it(images, tmp_path):
    make_run(tmp_path, images=images)
    found = ta.curve(tmp_path / "run", over="first_difference").record
    assert (found.n, found.smallest, found.largest) == (80, 1, 8)
    threshold = found.curves[0].threshold
    assert threshold is not None and 5 < threshold < 6
    with raises(RunError, "caption_edits", "1", "3"):  # one word differs in all items
        ta.curve(tmp_path / "run", over="caption_edits")


def test_a_tag_that_items_carry_is_kept(tmp_path):
    make_run(tmp_path, images=1, tag="3")
    items = outcomes_of(*read_systems(choose_models([tmp_path / "run"]).runs)).items
    assert tag_captions(items, "first_difference") == items
    assert {item.tags["caption_edits"] for item in tag_captions(items, "caption_edits")} == {"1"}
