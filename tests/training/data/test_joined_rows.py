"""Rows joined by two: what is drawn is true or false of both pictures, and a run on them learns with its text tower."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from training_sets import config, logged, weights

from facts import raises
from tellapart.data.folder import read_pair_set
from tellapart.errors import DataError
from tellapart.models.torch.checkpoint import read_state_dict
from tellapart.training.config import TrainConfig
from tellapart.training.data.pictures import ImageLoader, draw_joined, join_captions
from tellapart.training.data.rows import TrainingRows, read_rows, write_rows
from tellapart.training.training_run import run_training


@pytest.fixture
def settings(tmp_path: Path) -> TrainConfig:
    """CLIC on squares, whose captions are told in two other ways as well."""
    made = config(
        tmp_path,
        loss={"name": "clic"},
        data={"train": ["rows.jsonl"]},
        optimiser={"steps": 16, "learning_rate": 3e-3, "epsilon": 1e-8, "tower": "text"},
    )
    items = read_pair_set(tmp_path / "train").items
    told = [
        {
            "image": f"train/{item.images[k]}",
            "caption": item.texts[k],
            "positive_captions": [f"{way} {item.texts[k]}" for way in ("here", "we see")],
        }
        for item in items
        for k in (0, 1)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in told))
    return made


def rows_of(folder: Path) -> TrainingRows:
    return read_rows(["rows.jsonl"], folder)


def test_what_is_drawn_names_both_pictures(tmp_path: Path, settings: TrainConfig) -> None:
    rows = rows_of(tmp_path)
    assert rows.rows[0].positives[0].startswith("here a")
    write_rows(tmp_path / "again.jsonl", rows, tmp_path)
    assert read_rows(["again.jsonl"], tmp_path).rows == rows.rows
    seen = []
    for step in range(30):
        drawn = draw_joined(rows, 3, 3, seed=0, step=step)
        own, other = rows.rows[3], rows.rows[drawn.second]
        assert own.image != other.image
        assert drawn.captions[:2] == (
            join_captions(own.caption, other.caption),
            join_captions(other.caption, own.caption),
        )
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
    loader = ImageLoader(rows, lambda pixels: pixels, keep=False, threads=1, side=16)  # type: ignore[arg-type]
    try:
        (picture,) = (one.result() for one in loader.read([3], 0, [joined]))
    finally:
        loader.close()
    assert picture.shape == (16, 16, 3)
    # Squares count as wide: the second picture, shrunk to half its height, is above the first.
    for half, number in ((picture[:8], joined.second), (picture[8:], 3)):
        blocks = rows.pixels(number).reshape(8, 2, 16, 3).mean(1)
        assert np.abs(np.asarray(half, float) - blocks).mean() < 12


@pytest.mark.slow
def test_clic_learns_with_its_text_tower_alone_and_a_gradient_cache_changes_no_loss(
    tmp_path: Path, settings: TrainConfig
) -> None:
    run_training(settings, tmp_path, tmp_path / "whole")
    cached = settings.model_copy(update={"batch": settings.batch.model_copy(update={"micro": 3, "chunk": 2})})
    run_training(cached, tmp_path, tmp_path / "cached")
    steps = [one for one in logged(tmp_path / "whole") if "total" in one]
    for one, other in zip(steps, (one for one in logged(tmp_path / "cached") if "total" in one), strict=True):
        assert one == pytest.approx(other, rel=1e-3, abs=1e-5)
    joined, plain = steps[::2], steps[1::2]
    assert all(one["choice"] > 0 and one["paraphrase"] > 0 for one in joined)
    assert all(one["choice"] == one["paraphrase"] == 0 for one in plain)
    assert np.mean([one["total"] for one in joined[-3:]]) < np.mean([one["total"] for one in joined[:3]]) - 0.1
    before, after = (
        read_state_dict(tmp_path / "whole" / "start" / "open_clip_model.safetensors"),
        weights(tmp_path / "whole"),
    )
    moved = {name for name in before if float((after[name] - before[name]).abs().max()) > 0}
    assert moved
    assert not [name for name in moved if name.startswith("visual.")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"data": {"train": ["folder:train"]}},
            ("'clic'", "0", "positive_captions"),
        ),
        ({"data": {"join": "always"}, "loss": {"name": "itc"}}, ("loss", "'itc'")),
    ],
)
def test_what_cannot_be_joined_is_refused(
    tmp_path: Path, settings: TrainConfig, changes: dict[str, object], says: str | tuple[str, ...]
) -> None:
    with raises(DataError, says):
        run_training(config(tmp_path, **({"loss": {"name": "clic"}} | changes)), tmp_path, tmp_path / "run")
