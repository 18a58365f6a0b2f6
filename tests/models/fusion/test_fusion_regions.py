"""Files of regions, which LXMERT and VisualBERT read."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_fusion_encoders import DIMENSIONS, REGIONS, TEXTS, lxmert, pictures, region_arrays, regions, save, scorer

from facts import raises
from tellapart.data.images import pixel_hash
from tellapart.errors import DataError, ModelError
from tellapart.models.fusion.region_file import RegionFile


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("lxmert") / "model", lxmert)


def test_images_may_be_named_by_their_path_and_the_file_may_be_safetensors(folder, tmp_path):
    from PIL import Image
    from safetensors.numpy import save_file

    names = [f"images/{k}.png" for k in range(len(REGIONS))]
    (tmp_path / "images").mkdir()
    for name, picture in zip(names, pictures(), strict=True):
        Image.fromarray(picture).save(tmp_path / name)
    save_file(region_arrays(names), tmp_path / "detector.safetensors")
    named, texts = scorer(folder, regions=tmp_path / "detector.safetensors"), TEXTS[: len(REGIONS)]
    scores = named.score_pairs(pictures()[::-1], texts[::-1])[::-1]
    np.testing.assert_array_equal(scores, scorer(folder).score_pairs(pictures(), texts))


def test_the_fingerprint_is_of_the_file_that_regions_names(folder, tmp_path):
    arrays = region_arrays()
    np.savez(tmp_path / "same.npz", **arrays)
    next(iter(arrays.values()))[0, 0] += 1
    np.savez(tmp_path / "changed.npz", **arrays)
    same, changed = (scorer(folder, regions=tmp_path / f"{name}.npz").fingerprint for name in ("same", "changed"))
    assert scorer(folder).fingerprint == same != changed


def test_without_region_features_the_error_says_what_to_do(tmp_path: Path) -> None:
    (save(tmp_path / "bare", lxmert) / "regions.npz").unlink()
    with raises(ModelError, "bare", "regions=", "regions.safetensors", "regions.npz"):
        scorer(tmp_path / "bare")
    with raises(ModelError, "gone.npz", "region"):
        scorer(tmp_path / "bare", regions=tmp_path / "gone.npz")


def test_an_image_without_regions_and_one_that_is_gone_are_named(folder, tmp_path):
    stranger = np.zeros((5, 5, 3), np.uint8)
    with raises(ModelError, "hash", pixel_hash(stranger), "regions"):
        scorer(folder).score_pairs([stranger], ["a cup"])
    np.savez(tmp_path / "r.npz", **region_arrays([f"{k}.png" for k in range(len(REGIONS))]))
    with raises(DataError, "r.npz", "0.png", "image"):
        RegionFile(tmp_path / "r.npz", DIMENSIONS).inputs(pictures()[0])


@pytest.mark.parametrize(
    ("part", "change", "facts"),
    [
        ("boxes", lambda boxes: boxes * 100, ("boxes", "shares")),  # pixels
        ("boxes", lambda boxes: boxes[:, ::-1], ("boxes", "left")),
        ("boxes", lambda boxes: boxes[1:], ("(4, 4)", "(3, 4)")),
        ("features", lambda features: features[:, 1:], ("(regions, 6)", "(4, 5)")),
        ("features", lambda features: features / 0, ("boxes", "finite")),
        ("features", lambda features: features.astype(int), ("got int64", "features")),
        ("features", lambda _: np.array([None, "pickled"]), ("Python objects", "features")),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
def test_regions_that_are_not_what_they_must_be_are_refused(tmp_path: Path, part: str, change: Any, facts: Any) -> None:
    content: dict[str, Any] = region_arrays()
    picture = pictures()[0]
    name = f"{pixel_hash(picture)}/{part}"
    np.savez(tmp_path / "r.npz", **content | {name: change(content[name])})
    with raises(ModelError, facts):
        RegionFile(tmp_path / "r.npz", DIMENSIONS).inputs(picture)


def test_half_an_image_and_damaged_files_are_refused(tmp_path: Path) -> None:
    half = region_arrays()
    lost = f"{pixel_hash(pictures()[1])}/boxes"
    del half[lost]
    np.savez(tmp_path / "half.npz", **half)
    with raises(ModelError, "KEY/features", "KEY/boxes", f"'{lost}'"):
        RegionFile(tmp_path / "half.npz", DIMENSIONS)
    for name in ("damaged.npz", "damaged.safetensors"):
        (tmp_path / name).write_bytes(b"\x93NUMPY nonsense")
        with raises(ModelError, name, "plain"):
            RegionFile(tmp_path / name, DIMENSIONS)


@pytest.mark.parametrize("first", [0, 1])
def test_two_images_with_the_same_pixels_and_other_regions_are_an_error(first, tmp_path):
    from PIL import Image

    picture, (one, other, *_) = pictures()[0], regions()
    for name in ("a.png", "b.png"):
        Image.fromarray(picture).save(tmp_path / name)
    Image.fromarray(pictures()[1]).save(tmp_path / "c.png")
    held = {"a.png": one, "b.png": (one, other)[first], "c.png": other}
    parts = [(f"{key}/features", one) for key, (one, _) in held.items()]
    parts += [(f"{key}/boxes", one) for key, (_, one) in held.items()]
    np.savez(tmp_path / "regions.npz", **dict(parts))
    file = RegionFile(tmp_path / "regions.npz", DIMENSIONS)
    if first:
        with raises(ModelError, "a.png", "b.png", "same pixels"):
            file.inputs(picture)
    else:
        assert file.inputs(picture)["mask"].sum() == REGIONS[0]
    assert file.inputs(pictures()[1])["mask"].sum() == REGIONS[1]
