"""GEB+'s real boundaries over videos that say which frame is which: both readings take the frames they should."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from facts import raises
from tellapart.builders.builder import Start
from tellapart.builders.pipeline import build
from tellapart.builders.video.footage import FramePair
from tellapart.builders.video.gebplus import GebPlus
from tellapart.data.folder import read_pair_set
from tellapart.data.images import decode
from tellapart.errors import DataError

REAL = Path(__file__).parents[4] / "shared" / "data" / "gebplus"
needs_real = pytest.mark.skipif(not REAL.is_dir(), reason="needs GEB+'s annotations in ../shared/data/gebplus")

#: Two with two annotators at one boundary, and one whose video is missing.
IDS = ("slqr8Kf5HHc", "FzyoBb6MWE0", "7phNAPITvdM")


def row(
    video: str, number: int, letter: str, time: float, around: tuple[float, float], states: tuple[str, str]
) -> dict:
    row = {"boundary_id": f"{video}_{number}{letter}", "timestamp": time, "prev_timestamp": around[0]}
    row |= {"next_timestamp": around[1], "label": "Change of Action", "subject": "a man", "status_before": states[0]}
    row |= {"status_after": states[1], "action_of_cause": None}
    return row | {"caption": f"Subject: a man //Status_Before: {states[0]} //Status_After: {states[1]}"}


THREE = {
    "v": [
        row("v", 0, "A", 2.0, (0, 4.0), ("stands", "walks")),
        row("v", 0, "B", 2.0, (0, 4.0), ("waits", "goes up")),
        row("v", 1, "A", 4.0, (2.0, 8.0), ("walks", "sits")),
        row("v", 2, "A", 8.0, (4.0, 9.0), ("sits", "walks")),
    ]
}


def pairs_of(folder: Path, annotations: object, **options: object) -> dict[str, FramePair]:
    (folder / "geb.json").write_text(json.dumps(annotations))
    start = Start(GebPlus.Options(annotations="geb.json", videos=".", **options), 1, folder)
    return dict(GebPlus(start).pairs)


def moments_of(pairs: dict[str, FramePair]) -> dict[str, tuple[tuple[float | None, str], ...]]:
    return {name: tuple((still.seconds, still.caption) for still in pair.stills) for name, pair in pairs.items()}


def test_skip_pairs_the_state_before_a_boundary_with_the_one_after_the_next(tmp_path: Path) -> None:
    assert moments_of(pairs_of(tmp_path, THREE)) == {
        "v_0A-1A": ((1.0, "a man stands"), (6.0, "a man sits")),
        "v_1A-2A": ((3.0, "a man walks"), (8.5, "a man walks")),
    }


def test_adjacent_pairs_the_states_before_and_after_one_boundary(tmp_path: Path) -> None:
    assert moments_of(pairs_of(tmp_path, THREE, reading="adjacent")) == {
        "v_0A": ((1.0, "a man stands"), (3.0, "a man walks")),
        "v_1A": ((3.0, "a man walks"), (6.0, "a man sits")),
        "v_2A": ((6.0, "a man sits"), (8.5, "a man walks")),
    }


def test_all_annotators_of_a_boundary_have_their_pairs(tmp_path: Path) -> None:
    assert list(pairs_of(tmp_path, THREE, annotators="all")) == ["v_0A-1A", "v_0B-1A", "v_1A-2A"]
    assert list(pairs_of(tmp_path, THREE, annotators="all", reading="adjacent")) == ["v_0A", "v_0B", "v_1A", "v_2A"]


def test_edges_lie_beside_the_boundary_and_never_beyond_the_middle(tmp_path: Path) -> None:
    near = pairs_of(tmp_path, THREE, frame="edge", margin=0.25, reading="adjacent")
    assert [[still.seconds for still in pair.stills] for pair in near.values()] == [
        [1.75, 2.25],
        [3.75, 4.25],
        [7.75, 8.25],
    ]
    far = pairs_of(tmp_path, THREE, frame="edge", margin=30.0)
    assert moments_of(far) == moments_of(pairs_of(tmp_path, THREE))


def test_what_the_annotations_rule_out_is_counted(tmp_path: Path) -> None:
    every = pairs_of(tmp_path, THREE, annotators="all", min_segment=1.5)
    assert {name: pair.fault for name, pair in every.items()} == {
        "v_0A-1A": None,
        "v_0B-1A": None,  # "goes up" is the state in between
        "v_1A-2A": ("captions", "both are the same"),
    }
    adjacent = pairs_of(tmp_path, THREE, annotators="all", min_segment=1.5, reading="adjacent")
    assert adjacent["v_0B"].fault == ("captions", "a word of direction")
    assert adjacent["v_2A"].fault == ("segments", "shorter than 1.5 s")
    assert pairs_of(tmp_path, THREE, annotators="all", reading="adjacent", words=[])["v_0B"].fault is None


@pytest.mark.parametrize(("word", "fault"), [("Upwards", True), ("toward the wall", True), ("cupboard", False)])
def test_directions_are_whole_words_in_any_case(tmp_path: Path, word: str, fault: bool) -> None:
    rows = {"v": [row("v", 0, "A", 2.0, (0, 4.0), ("stands", f"looks {word}"))]}
    (pair,) = pairs_of(tmp_path, rows, reading="adjacent").values()
    assert (pair.fault == ("captions", "a word of direction")) is fault


@needs_real
def test_what_each_rule_leaves_of_the_real_annotations(tmp_path: Path) -> None:
    direction, same = ("captions", "a word of direction"), ("captions", "both are the same")
    wanted = {
        ("val", "skip", "first"): {None: 1784, direction: 2680, same: 205},
        ("val", "adjacent", "all"): {None: 3236, direction: 4043},
    }
    for (split, reading, annotators), counts in wanted.items():
        options = GebPlus.Options(annotations=f"{split}.json", videos=".", reading=reading, annotators=annotators)
        pairs = GebPlus(Start(options, 1, REAL)).pairs
        assert Counter(pair.fault for pair in pairs.values()) == counts


@needs_real
@pytest.mark.parametrize("reading", ["skip", "adjacent"])
def test_the_set_holds_the_frames_of_the_real_boundaries(film, numbered, recipe, tmp_path: Path, reading: str) -> None:
    annotations = json.loads((REAL / "val.json").read_text())
    (tmp_path / "few.json").write_text(json.dumps({video: annotations[video] for video in IDS}))
    film(tmp_path / "videos" / f"{IDS[0]}.mp4", [40 * n for n in range(250)], g="30", bf="2")
    film(tmp_path / "videos" / f"{IDS[1]}_000010_000020.mkv", [480 + 40 * n for n in range(250)], g="30", bf="2")
    built = build(recipe("geb-plus", f'annotations = "few.json"\nreading = "{reading}"'), tmp_path / "set")
    pairs = read_pair_set(built.folder)
    for item in pairs.items:
        asked = item.provenance["asked_times"]
        shown = [numbered(decode(pairs.read_bytes(image), image)) for image in item.images]
        assert shown == [int(seconds * 25 + 0.0125) for seconds in asked]
        assert item.provenance["frame_times"] == pytest.approx([n / 25 for n in shown], abs=1e-3)
    texts_and_times = {item.id: (item.texts, item.provenance["asked_times"]) for item in pairs.items}
    if reading == "skip":
        texts = ("human hands holding the ribbons", "human hands tie a knot")
        assert texts_and_times["FzyoBb6MWE0_0A-1A"] == (texts, pytest.approx([1.2914 / 2, (2.50757 + 4.38824) / 2]))
    else:
        texts = ("human hands holding the ribbons", "human hands rotate the ribbon")
        assert texts_and_times["FzyoBb6MWE0_0A"] == (texts, pytest.approx([1.2914 / 2, (1.2914 + 2.50757) / 2]))
    assert {item.cluster for item in pairs.items} == set(IDS[:2])
    assert built.funnel.rejected["video", "not in the folder of videos"] == (2 if reading == "skip" else 3)


def test_wrong_annotations_are_named(tmp_path: Path) -> None:
    with raises(DataError, "geb.json", "'v'", "0", "'boundary_id'"):
        pairs_of(tmp_path, {"v": [row("w", 0, "A", 2.0, (0, 4.0), ("stands", "sits"))]})
    (tmp_path / "geb.json").unlink()
    with raises(DataError, "geb.json", "No such file or directory"):
        GebPlus(Start(GebPlus.Options(annotations="geb.json", videos="."), 1, tmp_path))


def test_a_folder_without_any_of_the_videos_is_the_wrong_folder(recipe: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "geb.json").write_text(json.dumps(THREE))
    path = recipe("geb-plus", 'annotations = "geb.json"')
    with raises(DataError, "1", "v"):
        build(path, tmp_path / "set")
    path.write_text(path.read_text().replace('videos = "videos"', 'videos = "gone"'))
    with raises(DataError, "[options]", "folder"):
        build(path, tmp_path / "set")
