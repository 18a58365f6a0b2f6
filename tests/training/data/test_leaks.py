"""Training images that are pictures of a benchmark are found to the pixel, or by their looks if they were saved
anew."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from facts import raises
from tellapart.benchmarks.find import find_benchmark
from tellapart.errors import DataError
from tellapart.training.data.duplicates import Leak, find_leaks, hash_pictures, refuse_leaks
from tellapart.training.data.rows import TrainingRow, TrainingRows


def pictures(count: int) -> list[Image.Image]:
    demo = find_benchmark("demo")
    pairs = demo.records()
    return [Image.open(io.BytesIO(pairs.read_bytes(item.images[0]))).convert("RGB") for item in pairs.items[:count]]


def rows(folder: Path, **files: Image.Image) -> TrainingRows:
    for name, picture in files.items():
        folder.joinpath(name.replace("_", ".")).parent.mkdir(parents=True, exist_ok=True)
        picture.save(folder / name.replace("_", "."))
    return TrainingRows(tuple(TrainingRow(folder / name.replace("_", "."), "a caption") for name in files))


def noise(seed: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (64, 64, 3)).astype(np.uint8))


@pytest.mark.slow
def test_a_recompressed_picture_is_alike_and_a_copy_is_the_same(tmp_path: Path) -> None:
    copied, jpeg, smaller = pictures(3)
    result = find_leaks(
        rows(
            tmp_path,
            copied_png=copied,
            jpeg_jpg=jpeg,
            smaller_png=smaller.resize((smaller.width * 3 // 4, smaller.height * 3 // 4)),
            other_png=noise(0),
        ),
        ["demo"],
    )
    assert result == [Leak("demo", ("copied.png",), ("jpeg.jpg", "smaller.png"), result[0].images)]
    assert result[0].images == 800
    with raises(DataError, "1", "copied.png", "2"):
        refuse_leaks(result)


@pytest.mark.slow
def test_what_shares_nothing_is_let_through_and_all_benchmarks_are_looked_at(tmp_path: Path) -> None:
    own = rows(tmp_path, a_png=noise(1), b_png=noise(2))
    seen: list[tuple[str, int, int]] = []
    result = find_leaks(own, ["demo", "demo-objects"], lambda *settings: seen.append(settings))
    assert [(leak.benchmark, leak.same, leak.alike) for leak in result] == [("demo", (), ()), ("demo-objects", (), ())]
    refuse_leaks(result)
    assert ("training images", 2, 2) in seen
    assert find_leaks(own, []) == []


@pytest.mark.slow
def test_hashes_of_more_pictures_serve_for_some_and_no_file_is_read_again(tmp_path: Path) -> None:
    more = rows(tmp_path, c_png=noise(3), a_png=pictures(1)[0])
    hashes = hash_pictures(more)
    for row in more.rows:
        row.image.unlink()
    leaks = find_leaks(more.select([1]), ["demo"], hashes=hashes)
    assert [(leak.same, leak.alike) for leak in leaks] == [(("a.png",), ())]


def test_an_image_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with raises(DataError, "gone.png"):
        find_leaks(TrainingRows((TrainingRow(tmp_path / "gone.png", "a cat"),)), ["demo"])
    (tmp_path / "no.png").write_bytes(b"no picture")
    with raises(DataError, "no.png"):
        find_leaks(TrainingRows((TrainingRow(tmp_path / "no.png", "a cat"),)), ["demo"])
