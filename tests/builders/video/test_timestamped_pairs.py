"""Any captions with times become pairs of moments, under the rules that the options state."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from facts import raises
from tellapart.builders.builder import Made, Rejected, Start
from tellapart.builders.pipeline import build
from tellapart.builders.video.footage import FramePair, differing_words
from tellapart.builders.video.gebplus import GebPlus
from tellapart.builders.video.timestamped import TimestampedCaptions
from tellapart.builders.video.youcook2 import YouCook2
from tellapart.data.folder import read_pair_set
from tellapart.data.images import decode
from tellapart.errors import DataError

ROWS = [
    {"video": "v", "start": 0.0, "end": 0.8, "caption": "a red box"},
    {"video": "v", "start": 0.8, "end": 1.6, "caption": "a blue box"},
    {"video": "v", "start": 2.0, "end": 3.0, "caption": "a blue box on a table"},
    {"video": "w", "start": 0.0, "end": 1.0, "caption": "a cat"},
]


@pytest.fixture
def builder(tmp_path):
    (tmp_path / "videos").mkdir()

    def make(rows, seed=1, **options):
        (tmp_path / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        values = TimestampedCaptions.Options(captions="captions.jsonl", videos="videos", **options)
        return TimestampedCaptions(Start(values, seed, tmp_path))

    return make


def seconds(pairs: dict[str, FramePair]) -> dict[str, list[float | None]]:
    return {name: [still.seconds for still in pair.stills] for name, pair in pairs.items()}


@pytest.mark.parametrize(
    ("frame", "times"), [("start", [0.0, 0.8, 2.0]), ("middle", [0.4, 1.2, 2.5]), ("end", [0.799, 1.599, 2.999])]
)
def test_the_option_says_which_frame_of_a_stretch_is_taken(builder, frame, times):
    first, second, third = times
    pairs = builder(ROWS, frame=frame).pairs
    assert seconds(pairs) == {"1-2": [first, second], "1-3": [first, third], "2-3": [second, third]}


def test_moments_of_a_time_need_no_stretch_and_csv_serves_as_well(builder, tmp_path):
    pairs = builder(
        [{"video": "v", "time": 2, "caption": "b", "id": "x"}, {"video": "v", "time": 1, "caption": "a", "id": "y"}]
    )
    assert seconds(pairs.pairs) == {"y-x": [1.0, 2.0]}
    (tmp_path / "captions.csv").write_text("video,time,caption,id\nv,2,b,x\nv,1.0,a,y\n")
    options = TimestampedCaptions.Options(captions="captions.csv", videos="videos")
    assert TimestampedCaptions(Start(options, 1, tmp_path)).pairs == pairs.pairs


def test_groups_keep_moments_apart(builder):
    rows = [row | {"group": group} for row, group in zip(ROWS, ("one", "two", "one", "one"), strict=True)]
    pairs = builder(rows).pairs
    assert list(pairs) == ["1-3"]
    assert pairs["1-3"].tags == {"group": "one"}


def test_gaps_and_words_reject_pairs_before_a_frame_is_read(builder):
    expected = [("moments", "less than 1.0 s apart"), None, None]
    assert [pair.fault for pair in builder(ROWS, min_gap=1.0).pairs.values()] == expected
    faults = [pair.fault for pair in builder(ROWS, min_words=3).pairs.values()]
    assert faults == [("captions", "differ by fewer than 3 words"), None, None]
    twins = [ROWS[0], ROWS[0] | {"start": 5.0, "end": 6.0}]
    assert builder(twins, min_words=0).pairs["1-2"].fault == ("captions", "both are the same")


def test_words_that_differ_are_counted_without_case_and_punctuation():
    assert differing_words("A red box.", "a red box") == 0
    assert differing_words("a red box", "a blue box") == 2
    assert differing_words("the dog and the cat", "the dog and a cat") == 2
    assert differing_words("", "one two") == 2


def test_pairs_of_a_video_are_drawn_by_the_seed_among_those_that_will_do(builder):
    many = [{"video": "v", "time": t, "caption": f"caption {t}"} for t in range(8)]
    many += [{"video": "w", "time": t, "caption": f"caption {t}"} for t in range(2)]

    def drawn(seed, rows):
        pairs = builder(rows, seed, max_pairs=3, min_gap=2.0).pairs
        counts = Counter(pair.fault for name, pair in pairs.items() if pair.video == "v")
        expected = {None: 3, ("moments", "less than 2.0 s apart"): 7, ("draw", "more than 3 pairs of its video"): 18}
        assert counts == expected
        return {name for name, pair in pairs.items() if pair.fault is None and pair.video == "v"}

    assert drawn(1, many) == drawn(1, many[:8])  # another video has no say
    assert len({frozenset(drawn(seed, many)) for seed in range(5)}) > 1


def test_frames_that_look_alike_or_are_the_same_are_rejected(film, builder, tmp_path):
    def paint(number):
        return np.full((48, 64, 3), 60 if number < 50 else 180, np.uint8)

    film(tmp_path / "videos" / "v.mp4", [40 * n for n in range(100)], paint=paint)
    rows = [{"video": "v", "time": time, "caption": f"at {time}"} for time in (0.0, 1.0, 1.01, 3.0)]
    made = builder(rows, min_difference=0.2)
    outcomes = {candidate.id: made.make(candidate) for candidate in made.candidates()}
    alike = Rejected("frames", "differ by less than 0.2")
    expected = {"1-2": alike, "1-3": alike, "2-3": Rejected("frames", "both moments are the same frame")}
    assert {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, Rejected)} == expected
    good = outcomes["1-4"]
    assert isinstance(good, Made)
    assert good.item.provenance["difference"] == pytest.approx(120 / 255, abs=0.01)


@pytest.mark.parametrize(("image_format", "suffix"), [("png", ".png"), ("jpeg", ".jpg"), ("webp", ".webp")])
def test_frames_are_written_as_asked_and_shared_by_pairs(film, numbered, builder, tmp_path, image_format, suffix):
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
        ({"video": "v", "caption": "a"}, ("captions.jsonl:2", "'start'", "'time'", "'start'", "'end'")),
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
def test_a_wrong_row_is_named(builder, row, message):
    with raises(DataError, message):
        builder([{"video": "v", "caption": "b", "time": 0, "id": "x"}, row]).pairs  # noqa: B018


def test_ids_that_make_one_pair_id_are_refused(builder):
    rows = [
        {"video": "v", "caption": c, "time": t, "id": c, "group": g}
        for c, t, g in [("a", 0, "1"), ("b-c", 1, "1"), ("a-b", 0, "2"), ("c", 1, "2")]
    ]
    with raises(DataError, "id", "'a-b-c'"):
        builder(rows).pairs  # noqa: B018


def test_no_captions_are_refused(builder):
    with raises(DataError, "captions.jsonl", "captions"):
        builder([]).pairs  # noqa: B018


def test_a_video_that_is_not_there_is_named_with_a_name_like_it(film, builder, tmp_path, caplog):
    film(tmp_path / "videos" / "kitchen.mp4", [0, 40])
    rows = [{"video": name, "time": time, "caption": f"at {time}"} for name in ("kitchen", "kichen") for time in (0, 1)]
    builder(rows).candidates()
    (line,) = caplog.messages
    assert all(fact in line for fact in ("1 of the 2", "kichen", "'kitchen"))


def test_a_video_that_is_there_twice_is_not_guessed_at(builder, tmp_path):
    for name in ("v.mp4", "v.webm"):
        (tmp_path / "videos" / name).write_bytes(b"")
    with raises(DataError, "'v'", "v.mp4", "v.webm"):
        builder(ROWS).candidates()


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
def kitchen(tmp_path):
    (tmp_path / "videos").mkdir()

    def make(database, **options):
        (tmp_path / "steps.json").write_text(json.dumps(database))
        values = {"annotations": "steps.json", "videos": "videos", "faces": "none"} | options
        return YouCook2(Start(YouCook2.Options(**values), 1, tmp_path))

    return make


def test_all_pairs_of_a_video_are_tried_in_order_of_time(kitchen):
    backwards = annotated(STEPS[::-1])
    pairs = kitchen({"database": {"v": backwards, "w": annotated(STEPS[:2], "validation")}}).pairs
    assert list(pairs) == ["v-3-2", "v-3-1", "v-3-0", "v-2-1", "v-2-0", "v-1-0", "w-0-1"]
    assert [still.seconds for still in pairs["v-3-1"].stills] == [0.5, 2.4]
    assert pairs["v-2-0"].fault == ("captions", "both are the same")
    assert [name for name, pair in pairs.items() if pair.fault] == ["v-2-0"]


def test_subsets_choose_videos(kitchen):
    database = {"database": {"v": annotated(STEPS[:2]), "w": annotated(STEPS[:2], "validation")}}
    assert list(kitchen(database, subsets=["validation"]).pairs) == ["w-0-1"]


def test_frames_with_a_face_are_rejected_and_the_others_are_the_middle_ones(
    film, numbered, recipe, magenta_model, tmp_path
):
    def paint(number):
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


def test_a_damaged_video_and_one_that_is_too_short_are_counted(film, kitchen, tmp_path):
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
        ({"database": {"v": annotated([([2, 1], "chop")])}}, ("0", "'segment'", "1.0", "2.0")),
    ],
)
def test_wrong_annotations_are_named(kitchen, database, message):
    with raises(DataError, message):
        kitchen(database).pairs  # noqa: B018


def test_two_segments_of_one_id_are_refused(kitchen):
    twice = annotated(STEPS[:2])
    twice["annotations"][1]["id"] = 0
    with raises(DataError, "'v'", "id"):
        kitchen({"database": {"v": twice}}).pairs  # noqa: B018


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


def test_skip_pairs_the_state_before_a_boundary_with_the_one_after_the_next(tmp_path):
    assert moments_of(pairs_of(tmp_path, THREE)) == {
        "v_0A-1A": ((1.0, "a man stands"), (6.0, "a man sits")),
        "v_1A-2A": ((3.0, "a man walks"), (8.5, "a man walks")),
    }


def test_adjacent_pairs_the_states_before_and_after_one_boundary(tmp_path):
    assert moments_of(pairs_of(tmp_path, THREE, reading="adjacent")) == {
        "v_0A": ((1.0, "a man stands"), (3.0, "a man walks")),
        "v_1A": ((3.0, "a man walks"), (6.0, "a man sits")),
        "v_2A": ((6.0, "a man sits"), (8.5, "a man walks")),
    }


def test_all_annotators_of_a_boundary_have_their_pairs(tmp_path):
    assert list(pairs_of(tmp_path, THREE, annotators="all")) == ["v_0A-1A", "v_0B-1A", "v_1A-2A"]
    assert list(pairs_of(tmp_path, THREE, annotators="all", reading="adjacent")) == ["v_0A", "v_0B", "v_1A", "v_2A"]


def test_edges_lie_beside_the_boundary_and_never_beyond_the_middle(tmp_path):
    near = pairs_of(tmp_path, THREE, frame="edge", margin=0.25, reading="adjacent")
    expected = [[1.75, 2.25], [3.75, 4.25], [7.75, 8.25]]
    assert [[still.seconds for still in pair.stills] for pair in near.values()] == expected
    far = pairs_of(tmp_path, THREE, frame="edge", margin=30.0)
    assert moments_of(far) == moments_of(pairs_of(tmp_path, THREE))


def test_what_the_annotations_rule_out_is_counted(tmp_path):
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
def test_directions_are_whole_words_in_any_case(tmp_path, word, fault):
    rows = {"v": [row("v", 0, "A", 2.0, (0, 4.0), ("stands", f"looks {word}"))]}
    (pair,) = pairs_of(tmp_path, rows, reading="adjacent").values()
    assert (pair.fault == ("captions", "a word of direction")) is fault


@needs_real
def test_what_each_rule_leaves_of_the_real_annotations(tmp_path):
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
def test_the_set_holds_the_frames_of_the_real_boundaries(film, numbered, recipe, tmp_path, reading):
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


def test_wrong_boundaries_are_named(tmp_path):
    with raises(DataError, "geb.json", "'v'", "0", "'boundary_id'"):
        pairs_of(tmp_path, {"v": [row("w", 0, "A", 2.0, (0, 4.0), ("stands", "sits"))]})
    (tmp_path / "geb.json").unlink()
    with raises(DataError, "geb.json", "No such file or directory"):
        GebPlus(Start(GebPlus.Options(annotations="geb.json", videos="."), 1, tmp_path))


def test_a_folder_without_any_of_the_videos_is_the_wrong_folder(recipe, tmp_path):
    (tmp_path / "geb.json").write_text(json.dumps(THREE))
    path = recipe("geb-plus", 'annotations = "geb.json"')
    with raises(DataError, "1", "v"):
        build(path, tmp_path / "set")
    path.write_text(path.read_text().replace('videos = "videos"', 'videos = "gone"'))
    with raises(DataError, "[options]", "folder"):
        build(path, tmp_path / "set")
