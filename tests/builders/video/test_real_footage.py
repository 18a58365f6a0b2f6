"""The builders of captioned frames on real films: `python ci/parts.py real-footage` fetches them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tellapart.builders.builder import Made, Start
from tellapart.builders.pipeline import build
from tellapart.builders.video.timestamped import TimestampedCaptions
from tellapart.data.folder import read_pair_set
from tellapart.data.images import decode

av = pytest.importorskip("av", reason="needs the video extra: av")

FOOTAGE = Path(__file__).parents[3] / "scratch" / "real-footage"

#: Film, seconds, what its frame shows: looked at one by one.
SEEN = [
    ("bigbuckbunny.mp4", 0.0, "a grey rabbit lies in its burrow"),
    ("bigbuckbunny.mp4", 2.1, "a grey rabbit stretches its arms above its head"),
    ("bikes.mp4", 6.0, "a street behind an iron fence"),
    ("bikes.mp4", 8.0, "a man walks past a bicycle at a wall"),
    ("carphone_pristine.mp4", 0.0, "a man in a car looks ahead"),
    ("carphone_pristine.mp4", 3.9, "a man in a car opens his mouth wide"),
]

#: Film, its seconds, where something changes, who changes, and how that one is before and after each change.
CHANGES = {
    "bigbuckbunny": (
        5.3,
        "a grey rabbit",
        [(1.4, "crawls out of its burrow", "stretches its arms"), (4.8, "stretches its arms", "lets its arms hang")],
    ),
    "bikes": (
        10.0,
        "the camera",
        [(5.0, "shows cars", "shows a street behind a fence"), (7.0, "shows a street", "shows a bicycle at a wall")],
    ),
    "carphone_pristine": (
        4.0,
        "a man in a car",
        [(1.6, "keeps his mouth closed", "opens his mouth wide"), (2.4, "opens his mouth wide", "tilts his head")],
    ),
}


@pytest.fixture
def films() -> Path:
    if not (FOOTAGE / SEEN[0][0]).exists():
        pytest.skip("real films are fetched by python ci/parts.py real-footage")
    return FOOTAGE


def geb_plus(film: str) -> list[dict[str, Any]]:
    """Return a film's boundaries as GEB+'s `val.json` has them."""
    end, subject, changes = CHANGES[film]
    times = [0.0, *(time for time, _, _ in changes), end]
    rows = []
    for number, (time, before, after) in enumerate(changes):
        around = {"timestamp": time, "prev_timestamp": times[number], "next_timestamp": times[number + 2]}
        states = {"subject": subject, "status_before": before, "status_after": after}
        caption = f"Subject: {subject} //Status_Before: {before} //Status_After: {after}"
        row = {"boundary_id": f"{film}_{number}A", **around, "label": "Change of Action", **states}
        rows.append({**row, "action_of_cause": None, "caption": caption})
    return rows


def youcook2(film: str) -> dict[str, Any]:
    """Return a film's steps as YouCook2's annotations have them."""
    end, subject, changes = CHANGES[film]
    times = [0.0, *(time for time, _, _ in changes), end]
    done = [changes[0][1], *(after for _, _, after in changes)]
    steps = [
        {"id": k, "segment": [times[k], times[k + 1]], "sentence": f"{subject} {what}"} for k, what in enumerate(done)
    ]
    return {"duration": end, "subset": "validation", "recipe_type": "0", "video_url": film, "annotations": steps}


def middle(film: str, segment: int) -> float:
    times = [0.0, *(time for time, _, _ in CHANGES[film][2]), CHANGES[film][0]]
    return round((times[segment] + times[segment + 1]) / 2, 6)


@pytest.mark.slow
def test_the_frames_of_real_films_are_those_on_the_screen_at_that_time(films: Path, tmp_path: Path) -> None:
    rows = [{"video": film, "time": time, "caption": caption} for film, time, caption in SEEN]
    (tmp_path / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = TimestampedCaptions.Options(captions="captions.jsonl", videos=str(films))
    builder = TimestampedCaptions(Start(options, 1, tmp_path))
    for key, (first, second) in zip(builder.candidates(), zip(SEEN[::2], SEEN[1::2], strict=True), strict=True):
        made = builder.make(key)
        assert isinstance(made, Made)
        assert made.item.texts == (first[2], second[2])
        for reference, (film, time, _) in zip(made.item.images, (first, second), strict=True):
            assert np.array_equal(decode(made.images[reference], reference), shown(films / film, time))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("builder", "annotations", "segments"),
    [
        ("geb-plus", {film: geb_plus(film) for film in CHANGES}, {"_0A-1A": (0, 2)}),
        (
            "youcook2",
            {"database": {film: youcook2(film) for film in CHANGES}},
            {"-0-1": (0, 1), "-0-2": (0, 2), "-1-2": (1, 2)},
        ),
    ],
)
def test_annotated_segments_of_real_films_become_pairs_of_their_middle_frames(
    builder: str, annotations: object, segments: dict[str, tuple[int, int]], films: Path, recipe: Any, tmp_path: Path
) -> None:
    (tmp_path / "notes.json").write_text(json.dumps(annotations))
    faces = '\nfaces = "none"' if builder == "youcook2" else ""
    path = recipe(builder, f'annotations = "notes.json"\nimage_format = "png"{faces}')
    path.write_text(path.read_text().replace('videos = "videos"', f'videos = "{films.as_posix()}"'))
    pairs = read_pair_set(build(path, tmp_path / "set").folder)
    assert {item.id for item in pairs.items} == {f"{film}{pair}" for film in CHANGES for pair in segments}
    for item in pairs.items:
        film = item.cluster
        for image, text, segment in zip(item.images, item.texts, segments[item.id[len(film) :]], strict=True):
            frame = shown(films / f"{film}.mp4", middle(film, segment))
            assert np.array_equal(decode(pairs.read_bytes(image), image), frame)
            assert text == youcook2(film)["annotations"][segment]["sentence"]


def shown(path: Path, seconds: float) -> np.ndarray:
    """Return the last frame that begins by then, by a walk from the film's first one."""
    last, start = None, 0.0
    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            start = frame.time if last is None else start
            if frame.time - start > seconds + 1e-6:
                break
            last = frame
        return last.to_ndarray(format="rgb24")
