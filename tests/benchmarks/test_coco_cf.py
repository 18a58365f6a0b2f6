"""COCO-Counterfactuals as published: counts, clusters, the pairs that its split tears apart, images in an archive."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest

from facts import raises
from tellapart.benchmarks.benchmark import Benchmark
from tellapart.data.rows import read_csv
from tellapart.errors import DataError

At = Callable[..., Benchmark]
Published = Callable[[str], Path]
NAME = "coco-counterfactuals"


def spread(*parts: Path, images: bool = False) -> list[str]:
    """Ids of pairs, or of COCO images, whose rows lie in several parts of a split (`image_path,caption`)."""
    places: dict[str, set[Path]] = {}
    for part in parts:
        for _, row in read_csv(part):
            name = PurePosixPath(row["image_path"]).stem
            places.setdefault(name.partition("_")[0] if images else name, set()).add(part)
    return [name for name, where in places.items() if len(where) > 1]


def test_the_published_file_holds_17410_pairs_of_4925_coco_images(at: At, published: Published) -> None:
    pairs = at(NAME, published("coco_counterfactuals")).records()
    assert (len(pairs), pairs.shape, len(set(pairs.outline.clusters))) == (17_410, (2, 2), 4925)
    assert pairs.items[0].images == ("158956_0_img_0.jpg", "158956_0_img_1.jpg")
    assert pairs.items[0].cluster == "158956"


def test_the_filter_of_images_kept_17410_of_24508_pairs_all_of_them_verbatim(at: At, published: Published) -> None:
    folder = published("coco_counterfactuals")
    made = {tuple(line.split("\t")) for line in (folder / "generated_sim_0.8_0.91.txt").read_text().splitlines()}
    kept = {(item.id, *item.texts) for item in at(NAME, folder).records().items}
    assert len(made) == 24_508
    assert kept < made


@pytest.mark.slow
def test_the_published_split_tears_3917_pairs_apart_between_train_and_dev(published: Published) -> None:
    train, dev, test = (published("coco_counterfactuals") / f"{part}-coco-cfs.csv" for part in ("train", "dev", "test"))
    assert len(spread(train, dev)) == 3917
    assert spread(train, test) == spread(dev, test) == []
    assert len(spread(train, dev, test)) == 3917


def test_captions_of_most_test_images_are_trained_on_too(published: Published, tmp_path: Path) -> None:
    folder = published("coco_counterfactuals")
    train, dev, test = ((folder / f"{part}-coco-cfs.csv").read_text() for part in ("train", "dev", "test"))
    (tmp_path / "seen.csv").write_text(train + dev.partition("\n")[2])
    (tmp_path / "test.csv").write_text(test)
    assert len(spread(tmp_path / "seen.csv", tmp_path / "test.csv", images=True)) == 3217


def test_images_are_read_from_the_archive_as_it_is(
    at: At, published: Published, tmp_path: Path, draw: Callable[..., bytes]
) -> None:
    lines = (published("coco_counterfactuals") / "metadata.jsonl").read_text()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "examples.jsonl").write_text(lines)
    with zipfile.ZipFile(tmp_path / "data" / "images.zip", "w") as archive:
        archive.writestr("images/158956_0_img_0.jpg", draw(3, kind="JPEG"))
    pairs = at(NAME, tmp_path).records()
    assert pairs.read_bytes("158956_0_img_0.jpg") == draw(3, kind="JPEG")
    with raises(DataError, "'images/158956_0_img_1.jpg'", "images.zip"):
        pairs.read_bytes("158956_0_img_1.jpg")
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "158956_0_img_1.jpg").write_bytes(draw(4, kind="JPEG"))
    assert at(NAME, tmp_path, tmp_path / "pictures").records().pixels("158956_0_img_1.jpg").shape == (4, 4, 3)


@pytest.mark.slow
def test_a_damaged_archive_is_an_error_of_the_data(at: At, published: Published, tmp_path: Path) -> None:
    (tmp_path / "examples.jsonl").write_bytes((published("coco_counterfactuals") / "metadata.jsonl").read_bytes())
    (tmp_path / "images.zip").write_bytes(b"PK\x03\x04 cut short")
    pairs = at(NAME, tmp_path).records()
    with raises(DataError, "examples.jsonl:1", "'images[0]'", "images.zip"):
        pairs.read_bytes("158956_0_img_0.jpg")


@pytest.mark.slow
def test_a_file_that_was_cut_between_two_lines_is_refused(at: At, published: Published, tmp_path: Path) -> None:
    lines = (published("coco_counterfactuals") / "metadata.jsonl").read_text().splitlines()
    (tmp_path / "metadata.jsonl").write_text("\n".join(lines[:-1]))
    with raises(DataError, "17,409", "benchmark", "17,410"):
        at(NAME, tmp_path).records()
    (tmp_path / "metadata.jsonl").write_text("\n".join([*lines[:-1], lines[0]]))
    with raises(DataError, "'158956_0'"):
        at(NAME, tmp_path).records()
    (tmp_path / "metadata.jsonl").write_text(json.dumps(json.loads(lines[0]) | {"image_1": None}))
    with raises(DataError, "metadata.jsonl:1", "'image_1'", "None"):
        at(NAME, tmp_path).records()
