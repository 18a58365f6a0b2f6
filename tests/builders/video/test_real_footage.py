"""The builder of captioned moments on real films: `python ci/real_footage.py scratch/real-footage` fetches them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tellapart.builders.builder import Made, Start
from tellapart.builders.video.timestamped import TimestampedCaptions
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


@pytest.mark.slow
def test_the_frames_of_real_films_are_those_on_the_screen_at_that_time(tmp_path: Path) -> None:
    if not (FOOTAGE / SEEN[0][0]).exists():
        pytest.skip("real films are fetched by python ci/real_footage.py scratch/real-footage")
    rows = [{"video": film, "time": time, "caption": caption} for film, time, caption in SEEN]
    (tmp_path / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = TimestampedCaptions.Options(captions="captions.jsonl", videos=str(FOOTAGE))
    builder = TimestampedCaptions(Start(options, 1, tmp_path))
    for key, (first, second) in zip(builder.candidates(), zip(SEEN[::2], SEEN[1::2], strict=True), strict=True):
        made = builder.make(key)
        assert isinstance(made, Made)
        assert made.item.texts == (first[2], second[2])
        for reference, (film, time, _) in zip(made.item.images, (first, second), strict=True):
            assert np.array_equal(decode(made.images[reference], reference), shown(FOOTAGE / film, time))


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
