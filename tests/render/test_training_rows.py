"""Training rows of rendered scenes: what they call false is false, and a mirrored picture has mirrored words."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from facts import raises
from tellapart.errors import DataError
from tellapart_render.captions.grammar import DEMO
from tellapart_render.training_rows import main, meaning, mirror, write_training_rows

SCENES = Path(__file__).parents[2] / "examples" / "eqsim_ablation" / "smoke_scenes"


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = shutil.copytree(SCENES, tmp_path_factory.mktemp("rows") / "scenes")
    lines = (folder / "pairs.jsonl").read_text().splitlines(keepends=True)
    (folder / "pairs.jsonl").write_text("".join(lines[::6]))  # two of each aspect
    assert main([str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def rows(scenes: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (scenes / "rows.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def said(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows in the grammar's own words."""
    return [row for number, row in enumerate(rows) if number % 4 < 2]


def test_each_picture_and_its_mirror_image_have_three_wordings_and_three_places(rows: list[dict[str, Any]]) -> None:
    assert len(rows) == 6 * 2 * 2 * 3 * 2
    assert len({row["image"] for row in rows}) == 6 * 2 * 2
    for number, row in enumerate(rows):
        (mate,) = row["negative_images"]
        assert rows[mate]["negative_images"] == [number]
        assert rows[mate]["cluster"] == row["cluster"]
        assert rows[mate]["image"] != row["image"]


def test_no_false_caption_is_true_of_the_picture_or_of_its_mate(
    rows: list[dict[str, Any]], said: list[dict[str, Any]]
) -> None:
    for row in rows:
        assert row["negative_captions"]
        assert not {row["caption"], rows[row["negative_images"][0]]["caption"]} & set(row["negative_captions"])
    for row in said:
        true = {row["caption"], rows[row["negative_images"][0]]["caption"]}
        # Sizes are no part of a meaning, so foils of another size are compared as they are written.
        other = [text for text in row["negative_captions"] if "small" not in text and "large" not in text]
        assert not {meaning(text) for text in true} & {meaning(text) for text in other}


def test_no_row_names_a_combination_that_the_demo_holds_out(rows: list[dict[str, Any]]) -> None:
    phrases = [each.phrase() for each in DEMO.objects if DEMO.holds_out(each)]
    assert phrases
    texts = {text for row in rows for text in (row["caption"], *row["negative_captions"])}
    assert not [phrase for phrase in phrases for text in texts if f" {phrase} " in f" {text}"]


def test_a_mirrored_picture_has_mirrored_words(scenes: Path, said: list[dict[str, Any]]) -> None:
    original = {(row["image"], meaning(row["caption"])) for row in said if row["image"].startswith("images/")}
    for row in said:
        if row["image"].startswith("mirrored/"):
            name = row["image"].replace("mirrored/", "images/")
            assert (name, meaning(mirror(row["caption"]))) in original
    name = "location-000_0.webp"
    first, second = (np.asarray(Image.open(scenes / part / name)) for part in ("images", "mirrored"))
    np.testing.assert_array_equal(first[:, ::-1], second)


def test_the_same_rows_come_again(scenes: Path) -> None:
    before = (scenes / "rows.jsonl").read_bytes()
    write_training_rows(scenes)
    assert (scenes / "rows.jsonl").read_bytes() == before


def test_a_set_of_another_grammar_is_refused(scenes: Path, tmp_path: Path) -> None:
    other = shutil.copytree(scenes, tmp_path / "other")
    card = json.loads((other / "card.json").read_text())
    card["recipe"]["seed"] = 4
    (other / "card.json").write_text(json.dumps(card))
    with raises(DataError, "attribute-000", "grammar"):
        write_training_rows(other)
    (other / "card.json").write_text("{}")
    with raises(DataError, "builder", "'scenes'"):
        write_training_rows(other)
