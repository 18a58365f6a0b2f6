"""YouCook2's steps: the middle frame of each, all pairs of a video, and none with a face."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from facts import raises
from tellapart.builders.builder import Rejected, Start
from tellapart.builders.pipeline import build
from tellapart.builders.video.youcook2 import YouCook2
from tellapart.data.folder import read_pair_set
from tellapart.data.images import decode
from tellapart.errors import DataError

STEPS = [
    ([0, 1.0], "chop the onions"),
    ([1.2, 2.0], "Fry the onions"),
    ([2.0, 2.8], "serve"),
    ([3, 3.4], "fry the onions"),
]


def annotated(steps: list[tuple[list[float], str]], subset: str = "training") -> dict:
    rows = [{"id": k, "segment": segment, "sentence": text} for k, (segment, text) in enumerate(steps)]
    return {"duration": 4.0, "subset": subset, "recipe_type": "113", "video_url": "a", "annotations": rows}


@pytest.fixture
def kitchen(tmp_path: Path) -> Callable[..., YouCook2]:
    (tmp_path / "videos").mkdir()

    def make(database: object, **options: object) -> YouCook2:
        (tmp_path / "steps.json").write_text(json.dumps(database))
        values = {"annotations": "steps.json", "videos": "videos", "faces": "none"} | options
        return YouCook2(Start(YouCook2.Options(**values), 1, tmp_path))

    return make


def test_all_pairs_of_a_video_are_tried_in_order_of_time(kitchen: Callable[..., YouCook2]) -> None:
    backwards = annotated(STEPS[::-1])
    pairs = kitchen({"database": {"v": backwards, "w": annotated(STEPS[:2], "validation")}}).pairs
    assert list(pairs) == ["v-3-2", "v-3-1", "v-3-0", "v-2-1", "v-2-0", "v-1-0", "w-0-1"]
    assert [still.seconds for still in pairs["v-3-1"].stills] == [0.5, 2.4]
    assert pairs["v-2-0"].fault == ("captions", "both are the same")
    assert [name for name, pair in pairs.items() if pair.fault] == ["v-2-0"]


def test_subsets_choose_videos(kitchen: Callable[..., YouCook2]) -> None:
    database = {"database": {"v": annotated(STEPS[:2]), "w": annotated(STEPS[:2], "validation")}}
    assert list(kitchen(database, subsets=["validation"]).pairs) == ["w-0-1"]


def test_frames_with_a_face_are_rejected_and_the_others_are_the_middle_ones(
    film, numbered, recipe, magenta_model, tmp_path: Path
) -> None:
    def paint(number: int) -> np.ndarray:
        bits = np.array([number >> bit & 1 for bit in range(12)], np.uint8).reshape(3, 4)
        pixels = np.repeat(np.kron(bits * 160 + 48, np.ones((48, 48), np.uint8))[:, :, None], 3, axis=2).astype(
            np.uint8
        )
        if number >= 50:  # from 2 s on
            pixels[:] = (255, 0, 255)
        return pixels

    film(tmp_path / "videos" / "v.mp4", [40 * n for n in range(100)], paint=paint)
    magenta_model(tmp_path / "yunet.onnx")
    (tmp_path / "steps.json").write_text(json.dumps({"database": {"v": annotated(STEPS)}}))
    path = recipe(
        "youcook2", 'annotations = "steps.json"\nface_model = "yunet.onnx"\nface_score = 0.6\nimage_format = "jpeg"'
    )
    built = build(path, tmp_path / "set")
    assert built.funnel.rejected == {("frames", "shows a face"): 4, ("captions", "both are the same"): 1}
    (item,) = (pairs := read_pair_set(built.folder)).items
    assert item.texts == ("chop the onions", "Fry the onions")
    assert item.images == ("images/v/0.480000.jpg", "images/v/1.600000.jpg")
    assert [numbered(decode(pairs.read_bytes(image), image)) for image in item.images] == [12, 40]
    assert item.provenance["segments"] == [[0, 1.0], [1.2, 2.0]]
    assert sorted(item.provenance["inputs"]) == ["steps.json", "yunet.onnx"]
    assert sorted(item.provenance["models"]) == ["av", "opencv", "pillow"]
    assert build(path.with_name("youcook2.toml"), tmp_path / "set").resumed == 6


def test_a_damaged_video_and_one_that_is_too_short_are_counted(
    film, kitchen: Callable[..., YouCook2], tmp_path: Path
) -> None:
    whole = film(tmp_path / "videos" / "short.mp4", [40 * n for n in range(40)])
    (tmp_path / "videos" / "damaged.mp4").write_bytes(whole.read_bytes()[:700])
    builder = kitchen({"database": {name: annotated(STEPS[:3:2]) for name in ("short", "damaged", "missing")}})
    outcomes = {candidate.id: builder.make(candidate) for candidate in builder.candidates()}
    assert outcomes["short-0-1"] == Rejected("video", "ends before the frame: short.mp4 ends after 1.600 s")
    assert outcomes["missing-0-1"] == Rejected("video", "not in the folder of videos")
    damaged = outcomes["damaged-0-1"]
    assert isinstance(damaged, Rejected)
    assert damaged.reason.startswith("damaged.mp4 cannot be decoded (")


@pytest.mark.parametrize(
    ("database", "message"),
    [
        ({"v": annotated(STEPS)}, ("steps.json", "object", "'database'")),
        ({"database": {"v": {"subset": "training"}}}, ("'v'", "object", "'subset'")),
        ({"database": {"v": annotated([([1.0], "chop")])}}, ("'v'", "0", "'segment'")),
        ({"database": {"v": annotated([([1.0, -2.0], "chop")])}}, ("0", "'segment[1]'")),
        ({"database": {"v": annotated([([0, 1], "chop"), ([1, 2], " ")])}}, ("1", "'sentence'")),
        (
            {"database": {"v": annotated([([2, 1], "chop")])}},
            ("0", "'segment'", "1.0", "2.0"),
        ),
    ],
)
def test_wrong_annotations_are_named(
    kitchen: Callable[..., YouCook2], database: object, message: str | tuple[str, ...]
) -> None:
    with raises(DataError, message):
        kitchen(database).pairs  # noqa: B018


def test_two_segments_of_one_id_are_refused(kitchen: Callable[..., YouCook2]) -> None:
    twice = annotated(STEPS[:2])
    twice["annotations"][1]["id"] = 0
    with raises(DataError, "'v'", "id"):
        kitchen({"database": {"v": twice}}).pairs  # noqa: B018
