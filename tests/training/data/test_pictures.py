"""Pictures are changed by the seed, the step and the row alone, as each family's authors change them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from training_sets import config, logged, squares

from facts import raises
from tellapart.errors import TellapartWarning
from tellapart.models.torch.backend import import_torch
from tellapart.training.data import pictures
from tellapart.training.data.pictures import find_augmentation, warn_of_flips
from tellapart.training.data.rows import read_rows
from tellapart.training.encoders.trainable import Trainable
from tellapart.training.training_run import run_training

SIDE = 12


def model(shape: tuple[int, ...] = (3, SIDE, SIDE)) -> Trainable:
    def image(_pixels: Any) -> dict[str, Any]:
        return {"pixel_values": import_torch().zeros(shape)}

    return cast(Trainable, SimpleNamespace(image=image))


def picture(height: int = 64, width: int = 60) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3)).astype(np.uint8)


@pytest.mark.parametrize(
    ("name", "shape"), [("meter", (64, 60, 3)), ("fiber", (12, 12, 3)), ("open-clip", (12, 12, 3))]
)
def test_draws_depend_on_the_seed_the_step_and_the_row_alone(name: str, shape: tuple[int, ...]) -> None:
    one, again, other = (find_augmentation(name, seed, model()) for seed in (0, 0, 1))
    assert one is not None and again is not None and other is not None
    for step, row in ((3, 5), (0, 0)):
        again(picture(), 9, 9)  # what was drawn before changes nothing
        drawn = one(picture(), step, row)
        assert drawn.dtype == np.uint8 and drawn.shape == shape
        assert np.array_equal(drawn, again(picture(), step, row))
    many = [one(picture(), step, row).tobytes() for step in range(4) for row in range(4)]
    assert len(set(many)) >= 12
    assert many != [other(picture(), step, row).tobytes() for step in range(4) for row in range(4)]
    assert find_augmentation("none", 0, model()) is None


def test_the_side_is_read_where_colours_come_last_too() -> None:
    augment = find_augmentation("open-clip", 0, model((SIDE, SIDE, 3)))
    assert augment is not None and augment(picture(), 0, 0).shape == (SIDE, SIDE, 3)


def test_every_operation_acts_and_only_the_plain_one_does_not() -> None:
    from PIL import Image

    pixels = np.random.default_rng(0).integers(60, 120, (64, 64, 3)).astype(np.uint8)
    before = Image.fromarray(pixels)
    for recipe in (pictures._METER, pictures._FIBER):
        still = {
            name
            for name in recipe.names
            if np.array_equal(np.asarray(recipe._change_picture(before, name, 1.0)), np.asarray(before))
        }
        assert still <= {"identity"}
    # The amounts: 9 of 30 of 100 pixels; 7 of 10 of 10 pixels, on grey.
    moved = np.asarray(pictures._METER._change_picture(before, "move-x", 1.0))
    assert np.array_equal(moved[:, :34], pixels[:, 30:]) and moved[:, 34:].max() == 0
    moved = np.asarray(pictures._FIBER._change_picture(before, "move-y", -1.0))
    assert np.array_equal(moved[7:], pixels[:-7]) and set(moved[:7].ravel()) == {128}
    darker, lighter = (
        np.asarray(r._change_picture(before, "brightness", 1.0)) for r in (pictures._METER, pictures._FIBER)
    )
    assert darker.mean() / pixels.mean() == pytest.approx(0.64, abs=0.01)
    assert lighter.mean() / pixels.mean() == pytest.approx(1.36, abs=0.01)


def test_a_crop_keeps_its_share_of_the_area_and_its_shape() -> None:
    place = np.stack(np.broadcast_arrays(np.arange(200)[:, None], np.arange(200), 0), axis=-1).astype(np.uint8)
    from PIL import Image

    generator, shares, shapes = np.random.default_rng(0), [], []
    for _ in range(60):
        rows, columns, _blue = np.moveaxis(
            np.asarray(pictures._make_crop(0.5)(Image.fromarray(place), generator, 64)), 2, 0
        )
        height, width = (float(np.ptp(side)) * 64 / 63 for side in (rows.astype(int), columns.astype(int)))
        shares.append(height * width / 200**2)
        shapes.append(width / height)
    assert 0.47 < min(shares) < 0.6 and 0.85 < max(shares) <= 1.03
    assert 0.72 < min(shapes) < 0.85 and 1.2 < max(shapes) < 1.36


def test_a_flip_is_warned_of_where_captions_say_left_or_right(tmp_path: Path) -> None:
    rows = read_rows([str(squares(tmp_path / "train"))], tmp_path)
    with pytest.warns(TellapartWarning, match=r'"fiber".* 24 of 24 .*0_0\.png'):
        warn_of_flips("fiber", rows)
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_flips("open-clip", rows)
        warn_of_flips("meter", rows)


@pytest.mark.slow
def test_a_run_that_stops_draws_the_same_pictures(tmp_path: Path) -> None:
    settings = config(tmp_path, data={"augment": "meter"}, validation={"every": 1}, optimiser={"steps": 3})
    run_training(settings, tmp_path, tmp_path / "whole")

    def stop(stage: str, done: int, _total: int, _note: str = "") -> None:
        if (stage, done) == ("steps", 2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_training(settings, tmp_path, tmp_path / "stopped", progress=stop)
    run_training(settings, tmp_path, tmp_path / "stopped", resume=True)
    for name in ("log.jsonl", "model/open_clip_model.safetensors"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "stopped" / name).read_bytes()
    plain = config(tmp_path, validation={"every": 1}, optimiser={"steps": 3})
    run_training(plain, tmp_path, tmp_path / "plain")
    assert logged(tmp_path / "plain")[0]["total"] != logged(tmp_path / "whole")[0]["total"]
    with raises(ValueError, "keep_images", "augment"):
        config(tmp_path, data={"augment": "meter", "keep_images": True})
