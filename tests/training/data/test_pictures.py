"""Pictures are changed by the seed, the step and the row alone, as each family's authors change them."""

import warnings
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from PIL import Image
from training_sets import check_resumed, config, logged, moved, squares

from facts import raises
from pictures import noise
from sets import write_file
from tellapart.data.folder import read_pair_set
from tellapart.errors import DataError, TellapartWarning
from tellapart.training.data import pictures
from tellapart.training.data.pictures import ImageLoader, draw_joined, join_captions, warn_of_flips
from tellapart.training.data.rows import TrainingRows, read_rows, write_rows
from tellapart.training.training_run import run_training

SIDE = 12


def loader(augment: str, seed: int = 0, *, shape: tuple[int, ...] = (3, SIDE, SIDE)) -> ImageLoader:
    trainable = SimpleNamespace(image=lambda _: {"pixel_values": np.zeros(shape)})
    settings = SimpleNamespace(data=SimpleNamespace(keep_images=False, augment=augment), seed=seed)
    return ImageLoader(TrainingRows(()), cast(Any, trainable), cast(Any, settings))


def picture(height: int = 64, width: int = 60) -> np.ndarray[Any, Any]:
    return noise(height, width)


AUGMENTED = [("meter", (64, 60, 3)), ("fiber", (12, 12, 3)), ("open-clip", (12, 12, 3))]


@pytest.mark.parametrize(("name", "shape"), AUGMENTED)
def test_draws_depend_on_the_seed_the_step_and_the_row_alone(name, shape):
    one, again, other = (loader(name, seed).augment for seed in (0, 0, 1))
    for step, row in ((3, 5), (0, 0)):
        again(picture(), 9, 9)  # what was drawn before changes nothing
        drawn = one(picture(), step, row)
        assert drawn.dtype == np.uint8 and drawn.shape == shape
        assert np.array_equal(drawn, again(picture(), step, row))
    many = [one(picture(), step, row).tobytes() for step in range(4) for row in range(4)]
    assert len(set(many)) >= 12
    assert many != [other(picture(), step, row).tobytes() for step in range(4) for row in range(4)]
    assert np.array_equal(loader("none").augment(picture(), 0, 0), picture())
    # The side is read where colours come last, too.
    assert loader("open-clip", shape=(SIDE, SIDE, 3)).augment(picture(), 0, 0).shape == (SIDE, SIDE, 3)


def test_every_operation_acts_and_only_the_plain_one_does_not():
    pixels = np.random.default_rng(0).integers(60, 120, (64, 64, 3)).astype(np.uint8)
    before = Image.fromarray(pixels)

    def changed(recipe, name, share):
        return np.asarray(pictures._OPERATIONS[name](recipe, before, share))

    for recipe in (pictures._METER, pictures._FIBER):
        after = {name: changed(recipe, name, recipe.magnitude) for name in recipe.names}
        assert {name for name, pixels_of in after.items() if np.array_equal(pixels_of, pixels)} <= {"identity"}
    # The amounts: 9 of 30 of 100 pixels; 7 of 10 of 10 pixels, on grey.
    moved = changed(pictures._METER, "move-x", 0.3)
    assert np.array_equal(moved[:, :34], pixels[:, 30:]) and moved[:, 34:].max() == 0
    moved = changed(pictures._FIBER, "move-y", -0.7)
    assert np.array_equal(moved[7:], pixels[:-7]) and set(moved[:7].ravel()) == {128}
    darker, lighter = (changed(recipe, "brightness", 0.0) for recipe in (pictures._METER, pictures._FIBER))
    assert darker.mean() / pixels.mean() == pytest.approx(0.64, abs=0.01)
    assert lighter.mean() / pixels.mean() == pytest.approx(1.36, abs=0.01)


def test_a_crop_keeps_its_share_of_the_area_and_its_shape():
    place = np.stack(np.broadcast_arrays(np.arange(200)[:, None], np.arange(200), 0), axis=-1).astype(np.uint8)
    generator, shares, shapes = np.random.default_rng(0), [], []
    for _ in range(60):
        crop = np.asarray(pictures._make_crop(0.5)(Image.fromarray(place), generator, 64))
        rows, columns, _blue = np.moveaxis(crop, 2, 0)
        height, width = (float(np.ptp(side)) * 64 / 63 for side in (rows.astype(int), columns.astype(int)))
        shares.append(height * width / 200**2)
        shapes.append(width / height)
    assert 0.47 < min(shares) < 0.6 and 0.85 < max(shares) <= 1.03
    assert 0.72 < min(shapes) < 0.85 and 1.2 < max(shapes) < 1.36


def test_a_flip_is_warned_of_where_captions_say_left_or_right(tmp_path):
    rows = read_rows([str(squares(tmp_path / "train"))], tmp_path)
    with pytest.warns(TellapartWarning, match=r'"fiber".* 24 of 24 .*0_0\.png'):
        warn_of_flips("fiber", rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_flips("open-clip", rows)
        warn_of_flips("meter", rows)


@pytest.mark.slow
def test_a_run_that_stops_draws_the_same_pictures(tmp_path):
    settings = config(tmp_path, data={"augment": "meter"}, validation={"every": 1}, optimiser={"steps": 3})
    check_resumed(settings, tmp_path)
    plain = config(tmp_path, validation={"every": 1}, optimiser={"steps": 3})
    run_training(plain, tmp_path, tmp_path / "plain")
    assert logged(tmp_path / "plain")[0]["total"] != logged(tmp_path / "whole")[0]["total"]
    with raises(ValueError, "keep_images", "augment"):
        config(tmp_path, data={"augment": "meter", "keep_images": True})


@pytest.fixture
def settings(tmp_path):
    """CLIC on squares, whose captions are told in two other ways as well."""
    optimiser = {"steps": 16, "learning_rate": 3e-3, "epsilon": 1e-8, "tower": "text"}
    made = config(tmp_path, loss={"name": "clic"}, data={"train": ["rows.jsonl"]}, optimiser=optimiser)
    items = read_pair_set(tmp_path / "train").items
    told = [(f"train/{item.images[k]}", item.texts[k]) for item in items for k in (0, 1)]
    rows = [
        {"image": image, "caption": text, "positive_captions": [f"{way} {text}" for way in ("here", "we see")]}
        for image, text in told
    ]
    write_file(tmp_path / "rows.jsonl", rows)
    return made


def test_what_is_drawn_names_both_pictures(tmp_path, settings):
    rows = read_rows(["rows.jsonl"], tmp_path)
    assert rows.rows[0].positives[0].startswith("here a")
    write_rows(tmp_path / "again.jsonl", rows, tmp_path)
    assert read_rows(["again.jsonl"], tmp_path).rows == rows.rows
    seen = []
    for step in range(30):
        drawn = draw_joined(rows, 3, 3, seed=0, step=step)
        own, other = rows.rows[3], rows.rows[drawn.second]
        assert own.image != other.image
        both = own.caption, other.caption
        assert drawn.captions[:2] == (join_captions(*both), join_captions(*both[::-1]))
        for text in drawn.captions[2:]:
            first, second = (part.strip() for part in text.rstrip(".").split(". "))
            one, two = own.positives, other.positives
            assert (first in one and second in two) or (first in two and second in one)
        if drawn.false is not None:  # it has the words of both captions, and is neither order of them
            assert sorted(drawn.false.replace(".", "").split()) == sorted(drawn.captions[0].replace(".", "").split())
            assert drawn.false not in drawn.captions
        assert drawn == draw_joined(rows, 3, 3, seed=0, step=step)
        seen.append(drawn)
    assert len({one.second for one in seen}) > 10
    assert {one.swapped for one in seen} == {True, False}
    assert any(one.false for one in seen)
    joined = next(one for one in seen if one.swapped)
    whole = SimpleNamespace(image=lambda pixels: {"pixels": pixels if len(pixels) == 16 else np.zeros((16, 16, 3))})
    plain = SimpleNamespace(data=SimpleNamespace(keep_images=False, augment="none"), seed=0)
    picture = ImageLoader(rows, cast(Any, whole), cast(Any, plain))(3, joined, 0)["pixels"]
    assert picture.shape == (16, 16, 3)
    # Squares count as wide: the second picture, shrunk to half its height, is above the first.
    for half, number in ((picture[:8], joined.second), (picture[8:], 3)):
        assert np.abs(np.asarray(half, float) - rows.pixels(number).reshape(8, 2, 16, 3).mean(1)).mean() < 12


@pytest.mark.slow
def test_clic_learns_with_its_text_tower_alone_and_a_gradient_cache_changes_no_loss(tmp_path, settings):
    run_training(settings, tmp_path, tmp_path / "whole")
    cached = settings.model_copy(update={"batch": settings.batch.model_copy(update={"micro": 3, "chunk": 2})})
    run_training(cached, tmp_path, tmp_path / "cached")
    steps = [one for one in logged(tmp_path / "whole") if "total" in one]
    for one, other in zip(steps, (one for one in logged(tmp_path / "cached") if "total" in one), strict=True):
        assert one == pytest.approx(other, rel=1e-3, abs=1e-5)
    joined, plain = steps[::2], steps[1::2]
    assert all(one["choice"] > 0 < one["paraphrase"] for one in joined)
    assert all(one["choice"] == one["paraphrase"] == 0 for one in plain)
    assert np.mean([one["total"] for one in joined[-3:]]) < np.mean([one["total"] for one in joined[:3]]) - 0.1
    changed = moved(tmp_path / "whole")
    assert changed and not [name for name in changed if name.startswith("visual.")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"data": {"train": ["folder:train"]}}, ("'clic'", "0", "positive_captions")),
        ({"data": {"join": "always"}, "loss": {"name": "itc"}}, ("data.join", "'itc'")),
    ],
)
def test_what_cannot_be_joined_is_refused(tmp_path, settings, changes, says):
    with raises(DataError, says):
        run_training(config(tmp_path, **({"loss": {"name": "clic"}} | changes)), tmp_path, tmp_path / "run")
