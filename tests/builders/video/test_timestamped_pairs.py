"""Any captions with times become pairs of moments, under the rules that the options state."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from facts import raises
from tellapart.builders.builder import Made, Rejected, Start
from tellapart.builders.video.footage import FramePair, differing_words
from tellapart.builders.video.timestamped import TimestampedCaptions
from tellapart.data.images import decode
from tellapart.errors import DataError

ROWS = [
    {"video": "v", "start": 0.0, "end": 0.8, "caption": "a red box"},
    {"video": "v", "start": 0.8, "end": 1.6, "caption": "a blue box"},
    {"video": "v", "start": 2.0, "end": 3.0, "caption": "a blue box on a table"},
    {"video": "w", "start": 0.0, "end": 1.0, "caption": "a cat"},
]


@pytest.fixture
def builder(tmp_path: Path) -> Callable[..., TimestampedCaptions]:
    (tmp_path / "videos").mkdir()

    def make(rows: list[dict], seed: int = 1, **options: object) -> TimestampedCaptions:
        (tmp_path / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        values = TimestampedCaptions.Options(captions="captions.jsonl", videos="videos", **options)
        return TimestampedCaptions(Start(values, seed, tmp_path))

    return make


def seconds(pairs: dict[str, FramePair]) -> dict[str, list[float | None]]:
    return {name: [still.seconds for still in pair.stills] for name, pair in pairs.items()}


@pytest.mark.parametrize(
    ("frame", "times"), [("start", [0.0, 0.8, 2.0]), ("middle", [0.4, 1.2, 2.5]), ("end", [0.799, 1.599, 2.999])]
)
def test_the_option_says_which_frame_of_a_stretch_is_taken(builder, frame: str, times: list[float]) -> None:
    first, second, third = times
    pairs = builder(ROWS, frame=frame).pairs
    assert seconds(pairs) == {"1-2": [first, second], "1-3": [first, third], "2-3": [second, third]}


def test_moments_of_a_time_need_no_stretch_and_csv_serves_as_well(builder, tmp_path: Path) -> None:
    pairs = builder(
        [{"video": "v", "time": 2, "caption": "b", "id": "x"}, {"video": "v", "time": 1, "caption": "a", "id": "y"}]
    )
    assert seconds(pairs.pairs) == {"y-x": [1.0, 2.0]}
    (tmp_path / "captions.csv").write_text("video,time,caption,id\nv,2,b,x\nv,1.0,a,y\n")
    options = TimestampedCaptions.Options(captions="captions.csv", videos="videos")
    assert TimestampedCaptions(Start(options, 1, tmp_path)).pairs == pairs.pairs


def test_groups_keep_moments_apart(builder) -> None:
    rows = [row | {"group": group} for row, group in zip(ROWS, ("one", "two", "one", "one"), strict=True)]
    pairs = builder(rows).pairs
    assert list(pairs) == ["1-3"]
    assert pairs["1-3"].tags == {"group": "one"}


def test_gaps_and_words_reject_pairs_before_a_frame_is_read(builder) -> None:
    assert [pair.fault for pair in builder(ROWS, min_gap=1.0).pairs.values()] == [
        ("moments", "less than 1.0 s apart"),
        None,
        None,
    ]
    faults = [pair.fault for pair in builder(ROWS, min_words=3).pairs.values()]
    assert faults == [("captions", "differ by fewer than 3 words"), None, None]
    twins = [ROWS[0], ROWS[0] | {"start": 5.0, "end": 6.0}]
    assert builder(twins, min_words=0).pairs["1-2"].fault == ("captions", "both are the same")


def test_words_that_differ_are_counted_without_case_and_punctuation() -> None:
    assert differing_words("A red box.", "a red box") == 0
    assert differing_words("a red box", "a blue box") == 2
    assert differing_words("the dog and the cat", "the dog and a cat") == 2
    assert differing_words("", "one two") == 2


def test_pairs_of_a_video_are_drawn_by_the_seed_among_those_that_will_do(builder) -> None:
    many = [{"video": "v", "time": t, "caption": f"caption {t}"} for t in range(8)]
    many += [{"video": "w", "time": t, "caption": f"caption {t}"} for t in range(2)]

    def drawn(seed: int, rows: list[dict]) -> set[str]:
        pairs = builder(rows, seed, max_pairs=3, min_gap=2.0).pairs
        counts = Counter(pair.fault for name, pair in pairs.items() if pair.video == "v")
        assert counts == {
            None: 3,
            ("moments", "less than 2.0 s apart"): 7,
            ("draw", "more than 3 pairs of its video"): 18,
        }
        return {name for name, pair in pairs.items() if pair.fault is None and pair.video == "v"}

    assert drawn(1, many) == drawn(1, many[:8])  # another video has no say
    assert len({frozenset(drawn(seed, many)) for seed in range(5)}) > 1


def test_frames_that_look_alike_or_are_the_same_are_rejected(film, builder, tmp_path: Path) -> None:
    def paint(number: int) -> np.ndarray:
        return np.full((48, 64, 3), 60 if number < 50 else 180, np.uint8)

    film(tmp_path / "videos" / "v.mp4", [40 * n for n in range(100)], paint=paint)
    rows = [{"video": "v", "time": time, "caption": f"at {time}"} for time in (0.0, 1.0, 1.01, 3.0)]
    made = builder(rows, min_difference=0.2)
    outcomes = {candidate.id: made.make(candidate) for candidate in made.candidates()}
    alike = Rejected("frames", "differ by less than 0.2")
    assert {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, Rejected)} == {
        "1-2": alike,
        "1-3": alike,
        "2-3": Rejected("frames", "both moments are the same frame"),
    }
    good = outcomes["1-4"]
    assert isinstance(good, Made)
    assert good.item.provenance["difference"] == pytest.approx(120 / 255, abs=0.01)


@pytest.mark.parametrize(("image_format", "suffix"), [("png", ".png"), ("jpeg", ".jpg"), ("webp", ".webp")])
def test_frames_are_written_as_asked_and_shared_by_pairs(
    film, numbered, builder, tmp_path: Path, image_format, suffix
) -> None:
    film(tmp_path / "videos" / "v.mp4", [40 * n for n in range(100)])
    made = builder(ROWS[:3], image_format=image_format, max_side=32, frame="end")
    outcomes = [made.make(candidate) for candidate in made.candidates()]
    images = {reference: data for made in outcomes if isinstance(made, Made) for reference, data in made.images.items()}
    assert list(images) == [f"images/v/{time}0000{suffix}" for time in ("0.76", "1.56", "2.96")]
    for (reference, data), number in zip(images.items(), (19, 39, 74), strict=True):
        pixels = decode(data, reference)
        assert pixels.shape == (24, 32, 3)
        assert numbered(pixels) == number


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"video": "v", "caption": "a"},
            ("captions.jsonl:2", "'start'", "'time'", "'start'", "'end'"),
        ),
        ({"video": "v", "caption": "a", "start": 1}, ("captions.jsonl:2", "'end'")),
        ({"video": "v", "caption": "a", "start": 2, "end": 1}, ("'end'", "1.0", "2.0")),
        ({"video": "v", "caption": "a", "time": "soon"}, ("'time'", "0", "'soon'")),
        ({"video": "v", "caption": "a", "time": -1}, ("'time'", "0", "-1")),
        ({"video": "v", "caption": "a", "time": True}, ("'time'", "0", "True")),
        ({"video": "v", "captions": "a", "time": 1}, ("'caption'", "'captions'")),
        ({"video": "../v", "caption": "a", "time": 1}, ("'video'", "'../v.png'")),
        ({"video": "v", "caption": "a", "time": 1, "id": "x"}, ("captions.jsonl:2", "id", "'x'")),
    ],
)
def test_a_wrong_row_is_named(builder, row: dict, message: str | tuple[str, ...]) -> None:
    with raises(DataError, message):
        builder([{"video": "v", "caption": "b", "time": 0, "id": "x"}, row]).pairs  # noqa: B018


def test_ids_that_make_one_pair_id_are_refused(builder) -> None:
    rows = [
        {"video": "v", "caption": c, "time": t, "id": c, "group": g}
        for c, t, g in [("a", 0, "1"), ("b-c", 1, "1"), ("a-b", 0, "2"), ("c", 1, "2")]
    ]
    with raises(DataError, "id", "'a-b-c'"):
        builder(rows).pairs  # noqa: B018


def test_no_captions_are_refused(builder) -> None:
    with raises(DataError, "captions.jsonl", "captions"):
        builder([]).pairs  # noqa: B018


def test_a_video_that_is_not_there_is_named_with_a_name_like_it(film, builder, tmp_path: Path, caplog) -> None:
    film(tmp_path / "videos" / "kitchen.mp4", [0, 40])
    rows = [{"video": name, "time": time, "caption": f"at {time}"} for name in ("kitchen", "kichen") for time in (0, 1)]
    builder(rows).candidates()
    (line,) = caplog.messages
    assert all(fact in line for fact in ("1 of the 2", "kichen", "'kitchen"))


def test_a_video_that_is_there_twice_is_not_guessed_at(builder, tmp_path: Path) -> None:
    for name in ("v.mp4", "v.webm"):
        (tmp_path / "videos" / name).write_bytes(b"")
    with raises(DataError, "'v'", "v.mp4", "v.webm"):
        builder(ROWS).candidates()
