"""Builds from videos: all builders, Action Genome's pairs, and captions with times."""

import json
import pickle
import sys
from collections import Counter
from itertools import combinations, pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

from facts import raises
from film_annotations import boundary, cooking
from published import published
from sets import write_file
from tellapart.auditing.audit import audit
from tellapart.builders.builder import Made, Rejected, Start
from tellapart.builders.pipeline import build
from tellapart.builders.video.action_genome import (
    RELATIONS,
    ActionGenome,
    ObjectInFrame,
    person_boxes,
    read_scene_graphs,
    sentence,
    sparse_pairs,
)
from tellapart.builders.video.footage import FramePair, differing_words, read_frame_number
from tellapart.builders.video.gebplus import GebPlus
from tellapart.builders.video.timestamped import TimestampedCaptions
from tellapart.builders.video.youcook2 import YouCook2
from tellapart.data.folder import read_pair_set
from tellapart.data.images import decode
from tellapart.errors import DataError, MissingDependencyError

SAME, DIRECTION = ("captions", "both are the same"), ("captions", "a word of direction")

# Each builder from video, whole: audited, and the same bytes after `kill -9` and by any number of workers.

BUILDERS = ("action-genome", "geb-plus", "youcook2", "timestamped-captions")
NAMES = {"timestamped-captions": ("captions", "captions.jsonl")}


def thing(name: str, *labels: list[str] | str | None, visible: bool = True, bbox: object = (8, 9, 10, 20)) -> dict:
    """Return an object of Action Genome with labels of attention, place and contact."""
    kinds = ("attention_relationship", "spatial_relationship", "contacting_relationship")
    row = {"class": name, "bbox": bbox, "visible": visible, "metadata": {"set": "train"}}
    return row | dict(zip(kinds, labels, strict=True))


def annotations(builder: str) -> Any:
    """Return a file's content for 8 moments of the video `v`, 0.5 s apart, each of its own caption."""
    words = ("red", "blue", "green", "white", "black", "pink", "grey", "brown")
    if builder == "timestamped-captions":
        return [{"video": "v", "time": 0.25 + 0.5 * k, "caption": f"a {word} box"} for k, word in enumerate(words)]
    if builder == "youcook2":
        steps = [((0.5 * k, 0.5 * k + 0.5), f"add the {word} one") for k, word in enumerate(words)]
        return {"database": {"v": cooking(steps)}}
    if builder == "geb-plus":
        ends = [(0.5 * k, 0.5 * (k + 2)) for k in range(7)]
        return {"v": [boundary(f"v_{k}A", 0.5 * (k + 1), ends[k], words[k : k + 2], "box") for k in range(7)]}
    ways = product(("looking_at", "not_looking_at"), ("above", "behind", "beneath", "in_front_of"))
    contacts = ("holding", "touching", "wiping", "eating", "carrying", "wearing", "twisting", "lying_on")
    rows = [thing("box", [a], [s], [contact], bbox=None) for (a, s), contact in zip(ways, contacts, strict=True)]
    return {f"v.mp4/{7 + 12 * k:06d}.png": [row] for k, row in enumerate(rows)}


@pytest.fixture
def prepared(film, recipe, magenta_model, tmp_path):
    """Write the video, the annotations and the recipe of a builder."""

    def prepare(builder):
        film(tmp_path / "videos" / "v.mp4", [40 * n for n in range(102)], bf="2", g="25")
        key, name = NAMES.get(builder, ("annotations", "a.json"))
        write_file(tmp_path / name, annotations(builder))
        options = f'{key} = "{name}"\n'
        if builder == "youcook2":
            magenta_model(tmp_path / "yunet.onnx")
            options += 'face_model = "yunet.onnx"\n'
        return recipe(builder, options, '[[filters]]\nname = "same_pixels"')

    return prepare


@pytest.mark.slow
@pytest.mark.parametrize("builder", BUILDERS)
def test_a_build_that_stops_goes_on_with_other_workers_to_the_same_bytes(prepared, check_resumed, builder):
    check_resumed(prepared(builder), 4)


def test_a_build_that_goes_on_looks_again_for_videos_that_were_missing_or_damaged(
    prepared, interrupted, film, tmp_path
):
    rows = [{"video": video, "time": t, "caption": f"{video} {t}"} for video in "vwx" for t in (0.5, 2)]
    begun = prepared("timestamped-captions")
    write_file(tmp_path / "captions.jsonl", rows)
    (tmp_path / "videos" / "x.mp4").write_bytes(b"damaged")

    interrupted(begun, tmp_path / "set", "selections")
    for name in "wx":
        film(tmp_path / "videos" / f"{name}.mp4", [40 * n for n in range(102)])
    built = build(begun, tmp_path / "set")
    assert (built.resumed, built.funnel) == (1, build(begun, tmp_path / "fresh").funnel)
    assert built.funnel.items == 3
    white = np.full((48, 64, 3), 255, np.uint8)
    film(tmp_path / "videos" / "v.mp4", [40 * n for n in range(102)], paint=lambda number: white - number)
    with raises(DataError, "v.mp4", "item"):
        build(begun, tmp_path / "set")
    pairs = read_pair_set(build(begun, tmp_path / "again").folder)  # in the process that read the former video
    assert pairs.pixels(pairs.items[0].images[0]).min() > 200


@pytest.mark.parametrize("builder", BUILDERS)
def test_a_set_stands_its_audit_and_shares_frames(prepared, tmp_path, builder):
    built = build(prepared(builder), tmp_path / "set")
    pairs = read_pair_set(built.folder)
    assert len(pairs) == built.funnel.items >= 6
    assert {item.cluster for item in pairs.items} == {"v.mp4" if builder == "action-genome" else "v"}
    report = audit(pairs)
    assert (report.shape, report.clusters) == ((2, 2), 1)
    assert report.images == len(list(built.folder.glob("images/**/*.png"))) <= 8  # moments, however many pairs
    # Drawn numbers change many blocks at once, and eight captions are few; nothing else is wrong with the sets.
    warned = {finding.name for finding in report.warnings}
    assert "change: not minimal" in warned
    assert {name.partition(":")[0] for name in warned} <= {"change", "tag", "blind", "length"}
    assert all(change.change.share > 0 for change in report.changes)
    card = json.loads((built.folder / "card.json").read_text())
    assert card["builder"] == builder and {"title", "description", "licence", "source", "citation"} <= set(card)


def test_a_build_without_pyav_says_what_to_install(prepared, tmp_path, monkeypatch):
    path = prepared("youcook2")
    for module in ("av", "cv2"):
        with monkeypatch.context() as without, raises(MissingDependencyError, module, "tellapart[video]"):
            without.setitem(sys.modules, module, None)
            build(path, tmp_path / "set")


# Action Genome's scene graphs, as released or as JSON, become sentences that are false of the other frame.


CUP = "cup/glass/bottle"
UNSEEN = thing(CUP, None, None, None, visible=False, bbox=None)
GRAPHS = {
    "A1.mp4/000010.png": [
        thing(CUP, ["looking_at"], ["in_front_of"], ["holding"]),
        thing("bed", ["unsure"], ["behind"], ["sitting_on"]),
    ],
    "A1.mp4/000020.png": [UNSEEN, thing("bed", ["looking_at"], ["behind", "beneath"], ["lying_on"])],
    "A1.mp4/000030.png": [thing(CUP, ["not_looking_at"], ["in_front_of", "behind"], ["holding", "touching"])],
    "A1.mp4/000040.png": [thing(CUP, ["not_looking_at"], ["on_the_side_of"], ["drinking_from"])],
    "B2.mp4/000001.png": [thing("door", ["looking_at"], ["in_front_of"], ["not_contacting"])],
}


@pytest.fixture
def opened(tmp_path):
    """Open a builder of annotations, which are the content of a file of that name."""
    (tmp_path / "videos").mkdir(exist_ok=True)

    def start(builder, name, content, seed=1, **options):
        write_file(tmp_path / name, content)
        values = {"captions" if name == "captions.jsonl" else "annotations": name, "videos": "videos"} | options
        return builder(Start(builder.Options(**values), seed, tmp_path))

    return start


@pytest.fixture
def genome(opened):
    return lambda graphs=GRAPHS, **options: opened(ActionGenome, "graphs.json", graphs, **options)


def test_pairs_state_what_is_annotated_of_one_frame_alone(genome):
    pairs = genome(differ=2, skip=0).pairs
    cup = "A1.mp4-cup+glass+bottle"
    assert {name: pair.fault for name, pair in pairs.items()} == {
        f"{cup}-10-30": None,
        f"{cup}-10-40": None,
        f"{cup}-30-40": None,  # attention is the same, the other two differ
        "A1.mp4-bed-10-20": ("captions", "a relation that cannot be said"),
    }
    pair = pairs[f"{cup}-10-40"]
    assert [(still.number, still.caption) for still in pair.stills] == [
        (10, "The person is looking at the cup, glass or bottle which is in front of him/her."),
        (40, "The person is not looking at the cup, glass or bottle which is on the side of him/her."),
    ]
    assert dict(pair.tags) == {"object": "cup/glass/bottle", "changed": "attention+spatial+contacting"}
    assert pair.provenance["object_boxes"] == [[8.0, 9.0, 18.0, 29.0]] * 2


def test_a_caption_that_holds_for_both_frames_is_no_false_one(genome):
    fault = genome(verb="contacting").pairs["A1.mp4-cup+glass+bottle-10-30"].fault
    assert fault == SAME  # each takes the first label: holding, in front of
    graphs = {
        "A.mp4/000001.png": [thing("bed", ["looking_at"], ["behind"], ["holding"])],
        "A.mp4/000002.png": [thing("bed", ["not_looking_at"], ["above", "behind"], ["touching", "holding"])],
    }
    expected = ("captions", "one is annotated of both frames")
    assert genome(graphs, verb="contacting").pairs["A.mp4-bed-1-2"].fault == expected
    assert genome(graphs, verb="both").pairs["A.mp4-bed-1-2"].fault is None


def test_the_option_says_how_many_relations_differ(genome):
    assert [len(genome(differ=differ, skip=0).pairs) for differ in (1, 2, 3)] == [4, 4, 3]


def frame(number: int, labels: str) -> ObjectInFrame:
    return ObjectInFrame(number, {kind: (label,) for kind, label in zip(RELATIONS, labels, strict=True)}, None)


FRAMES = st.lists(st.text("ab", min_size=3, max_size=3), max_size=12).map(
    lambda all_: [frame(k, x) for k, x in enumerate(all_)]
)


@given(FRAMES, st.integers(1, 3), st.integers(0, 3))
@example([frame(0, "aaa"), *(frame(k, "bbb") for k in range(1, 6))], 2, 1)
@example([frame(0, "aaa"), *(frame(k, "bbb") for k in range(1, 6))], 2, 2)
def test_chosen_frames_differ_enough_and_have_no_chosen_neighbours(frames, differ, skip):
    pairs = [(first.number, second.number) for first, second in sparse_pairs(frames, differ, skip)]
    every = {(i.number, j.number) for i, j in combinations(frames, 2)
             if sum(i.relations[kind] != j.relations[kind] for kind in RELATIONS) >= differ}  # fmt: skip
    assert set(pairs) <= every
    assert len(pairs) == len(set(pairs))
    if skip == 0:
        assert set(pairs) == every
    firsts = sorted({i for i, _ in pairs})
    assert all(later - earlier > skip for earlier, later in pairwise(firsts))
    for first in firsts:
        seconds = [j for i, j in pairs if i == first]
        assert all(later - earlier > skip for earlier, later in pairwise(seconds))
        # Nothing else is passed over: a partner that was not taken stands within `skip` behind one that was.
        for i, j in every - set(pairs):
            assert i != first or any(0 < j - taken <= skip for taken in seconds)


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_the_released_pickle_is_read_as_plain_data(tmp_path, protocol):
    released = tmp_path / "object_bbox_and_relationship.pkl"
    released.write_bytes(pickle.dumps(GRAPHS, protocol=protocol))
    read = read_scene_graphs(released)
    assert read == read_scene_graphs(write_file(tmp_path / "graphs.json", GRAPHS))
    assert [frame.number for frame in read["A1.mp4"]["cup/glass/bottle"]] == [10, 30, 40]
    assert list(read["B2.mp4"]) == ["door"]


def test_a_pickle_that_would_run_code_is_refused(tmp_path):
    path = tmp_path / "object_bbox_and_relationship.pkl"
    path.write_bytes(pickle.dumps({"A.mp4/000001.png": [Path("x")]}))
    with raises(DataError, "plain", "runs"):
        read_scene_graphs(path)


def test_both_spellings_of_labels_are_one(tmp_path):
    row = thing("bed", ["lookingat"], ["infrontof"], ["haveitontheback"])
    (frame,) = read_scene_graphs(write_file(tmp_path / "a.json", {"A.mp4/000001.png": [row]}))["A.mp4"]["bed"]
    caption = sentence("bed", frame.relations, "both")
    assert caption.text == "The person is looking at and carrying on his/her back the bed which is in front of him/her."


def test_persons_boxes_stay_as_they_are_and_objects_are_turned_to_the_same(genome, tmp_path):
    persons = {"A1.mp4/000010.png": {"bbox": [[1, 2, 30, 40]], "bbox_mode": "xyxy"}, "A1.mp4/000040.png": {"bbox": []}}
    write_file(tmp_path / "persons.json", persons)
    builder = genome(persons="persons.json", skip=0)
    pair = builder.pairs["A1.mp4-cup+glass+bottle-10-40"]
    assert pair.provenance["person_boxes"] == [[[1.0, 2.0, 30.0, 40.0]], []]
    assert sorted(builder.inputs) == ["graphs.json", "persons.json"]
    (tmp_path / "other").mkdir()
    write_file(tmp_path / "other" / "graphs.json", persons)
    both = genome(persons="other/graphs.json").inputs
    assert both == {"graphs.json": builder.inputs["graphs.json"], "graphs.json (2)": builder.inputs["persons.json"]}
    for wrong, message in (
        ({"bbox": [[1, 2, 3]]}, ("'bbox[0]'", "4 items", "[1, 2, 3]")),
        ({"bbox": [[1, 2, 3, "4"]]}, ("'bbox[0][3]'", "number", "'4'")),
        ({"bbox": [[1, 2, 3, 4]], "bbox_mode": "xywh"}, ("'xyxy'", "'xywh'")),
        ([], ("object", "bbox")),
    ):
        write_file(tmp_path / "persons.json", {"A1.mp4/000010.png": wrong})
        with raises(DataError, "persons.json", "'A1.mp4/000010.png'", message):
            person_boxes(tmp_path / "persons.json")
    with raises(DataError, "gone.json"):
        genome(persons="gone.json")
    with raises(DataError, "person_bbox.pkl", "JSON"):
        person_boxes(tmp_path / "person_bbox.pkl")


def test_frames_come_from_the_video_or_from_its_dumped_frames_alike(film, numbered, genome, tmp_path):
    film(tmp_path / "videos" / "A1.mp4", [40 * n for n in range(50)], bf="2")
    builder = genome(skip=0)
    made = [outcome for outcome in map(builder.make, builder.candidates()) if isinstance(outcome, Made)]
    assert made
    for outcome in made:
        shown = [numbered(decode(outcome.images[image], image)) for image in outcome.item.images]
        assert shown == [number - 1 for number in outcome.item.provenance["frames"]]

    (tmp_path / "videos" / "A1.mp4").rename(tmp_path / "video.mp4")
    folder = tmp_path / "videos" / "A1.mp4"
    folder.mkdir()
    for number in (10, 20, 30, 40):
        pixels = read_frame_number(tmp_path / "video.mp4", number).pixels
        Image.fromarray(np.asarray(pixels)).save(folder / f"{number:06d}.png")
    builder = genome(skip=0)
    dumped = [outcome for outcome in map(builder.make, builder.candidates()) if isinstance(outcome, Made)]
    assert [outcome.images for outcome in dumped] == [outcome.images for outcome in made]
    assert [outcome.item.texts for outcome in dumped] == [outcome.item.texts for outcome in made]
    assert dumped[0].item.provenance["video_sha256"] is None
    (folder / "000010.png").unlink()
    builder = genome()
    gone = Rejected("video", "ends before the frame: A1.mp4 has no frame 000010")
    assert gone in map(builder.make, builder.candidates())


@pytest.mark.parametrize(
    ("graphs", "message"),
    [
        ({"A1.mp4": []}, ("'A1.mp4'", "'50N4E.mp4/000682.png'")),
        ({"A.mp4/000001.png": {}}, "'A.mp4/000001.png'"),
        ({"A.mp4/000001.png": [{}]}, ("object", "0", "'class'")),
        ({"A.mp4/000001.png": [[]]}, ("object", "0", "object", "class", "visible")),
        ({"A.mp4/000001.png": [{"class": "bed"}]}, ("object", "0", "'visible'", "missing")),
        ({"A.mp4/000001.png": [thing("bed", "looking_at", [], [])]}, ("'attention_relationship'", "labels")),
        ({"A.mp4/000001.png": [thing("bed", ["unsure"], ["above"], ["holding"], bbox=[1, 2])]}, ("'bbox'", "field")),
    ],
)
def test_wrong_annotations_are_named(genome, graphs, message):
    with raises(DataError, "graphs.json", message):
        genome(graphs).pairs  # noqa: B018


# Any captions with times become pairs of moments, under the rules that the options state.

ROWS = [
    {"video": "v", "start": 0.0, "end": 0.8, "caption": "a red box"},
    {"video": "v", "start": 0.8, "end": 1.6, "caption": "a blue box"},
    {"video": "v", "start": 2.0, "end": 3.0, "caption": "a blue box on a table"},
    {"video": "w", "start": 0.0, "end": 1.0, "caption": "a cat"},
]


@pytest.fixture
def builder(opened):
    return lambda rows, seed=1, **options: opened(TimestampedCaptions, "captions.jsonl", rows, seed, **options)


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
    fields = ("video", "time", "caption", "id")
    pairs = builder([dict(zip(fields, row, strict=True)) for row in (("v", 2, "b", "x"), ("v", 1, "a", "y"))])
    assert seconds(pairs.pairs) == {"y-x": [1.0, 2.0]}
    (tmp_path / "captions.csv").write_text("video,time,caption,id\nv,2,b,x\nv,1.0,a,y\n")
    options = TimestampedCaptions.Options(captions="captions.csv", videos="videos")
    assert TimestampedCaptions(Start(options, 1, tmp_path)).pairs == pairs.pairs


def test_two_names_of_one_file_are_one_video(film, builder, tmp_path):
    film(tmp_path / "videos" / "v.mp4", [0, 40])
    pairs = builder([{"video": name, "time": k, "caption": name} for k, name in enumerate(("v.mp4", "v"))]).pairs
    assert {name: pair.video for name, pair in pairs.items()} == {"1-2": "v.mp4"}


def test_groups_keep_moments_apart_and_gaps_and_words_reject_pairs_unread(builder):
    rows = [row | {"group": group} for row, group in zip(ROWS, ("one", "two", "one", "one"), strict=True)]
    pairs = builder(rows).pairs
    assert list(pairs) == ["1-3"]
    assert pairs["1-3"].tags == {"group": "one"}
    assert builder([row | {"group": None, "id": None} for row in ROWS]).pairs == builder(ROWS).pairs
    for options, first in (
        ({"min_gap": 1.0}, ("moments", "less than 1.0 s apart")),
        ({"min_words": 3}, ("captions", "differ by fewer than 3 words")),
    ):
        assert [pair.fault for pair in builder(ROWS, **options).pairs.values()] == [first, None, None]
    twins = [ROWS[0], ROWS[0] | {"start": 5.0, "end": 6.0}]
    assert builder(twins, min_words=0).pairs["1-2"].fault == SAME


BOTH = ("moments", "a caption holds at both")


def stretched(captions: dict[str, tuple[float, float]]) -> list[dict[str, Any]]:
    return [{"video": "v", "start": start, "end": end, "caption": text} for text, (start, end) in captions.items()]


@pytest.mark.parametrize("frame", ["start", "middle", "end"])
def test_a_caption_that_holds_at_the_other_moment_is_no_false_one(builder, frame):
    stretches = {"a man cooks": (0.0, 4.0), "a man cuts an onion": (1.5, 3.0), "a man eats": (4.0, 5.0)}
    stretches["a pan smokes"] = (3.5, 3.5)
    pairs = builder(stretched(stretches), frame=frame).pairs
    holds = {"".join(sorted(name)) for name, pair in pairs.items() if pair.fault == BOTH}
    assert (holds, {pair.fault for pair in pairs.values()}, len(pairs)) == ({"-12", "-14"}, {BOTH, None}, 6)


def test_an_action_that_goes_on_elsewhere_in_the_film_is_no_false_one_there(builder):
    stretches = {"A dog runs.": (4, 6), "A man speaks.": (0, 10), "a man speaks": (12, 20)}
    assert builder(stretched(stretches)).pairs["1-3"].fault == BOTH


def test_words_that_differ_are_counted_without_case_and_punctuation():
    pairs = [("A red box.", "a red box"), ("a red box", "a blue box"), ("", "one two")]
    pairs += [("the dog and the cat", "the dog and a cat")]
    assert [differing_words(*pair) for pair in pairs] == [0, 2, 2, 2]


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


def test_rows_and_videos_that_leave_a_choice_are_refused(builder, tmp_path):
    named = (("a", 0, "1"), ("b-c", 1, "1"), ("a-b", 0, "2"), ("c", 1, "2"))
    rows = [{"video": "v", "caption": c, "time": t, "id": c, "group": g} for c, t, g in named]
    for wrong, facts in ((rows, ("id", "'a-b-c'")), ([], ("captions.jsonl", "captions"))):
        with raises(DataError, facts):
            builder(wrong).pairs  # noqa: B018
    for name in ("v.mp4", "v.webm"):
        write_file(tmp_path / "videos" / name, b"")
    with raises(DataError, "'v'", "v.mp4", "v.webm"):
        builder(ROWS).candidates()


def test_a_video_that_is_not_there_is_named_with_a_name_like_it(film, builder, tmp_path, caplog):
    film(tmp_path / "videos" / "kitchen.mp4", [0, 40])
    rows = [{"video": name, "time": time, "caption": f"at {time}"} for name in ("kitchen", "kichen") for time in (0, 1)]
    builder(rows).candidates()
    (line,) = caplog.messages
    assert all(fact in line for fact in ("1 of the 2", "kichen", "'kitchen"))


STEPS = [([0, 1.0], "chop the onions"), ([1.2, 2.0], "Fry the onions"), ([2.0, 2.8], "serve")]
STEPS += [([3, 3.4], "fry the onions")]
TWICE = [step | {"id": 0} for step in cooking(STEPS[:2])["annotations"]]


@pytest.fixture
def kitchen(opened):
    return lambda database, **options: opened(YouCook2, "steps.json", database, faces="none", **options)


def test_all_pairs_of_a_video_are_tried_in_order_of_time_and_subsets_choose_videos(kitchen):
    database = {"database": {"v": cooking(STEPS[::-1]), "w": cooking(STEPS[:2], "validation")}}
    pairs = kitchen(database).pairs
    assert list(pairs) == ["v-3-2", "v-3-1", "v-3-0", "v-2-1", "v-2-0", "v-1-0", "w-0-1"]
    assert [still.seconds for still in pairs["v-3-1"].stills] == [0.5, 2.4]
    faults = {name: pair.fault for name, pair in pairs.items() if pair.fault}
    assert faults == {"v-2-0": SAME}
    assert list(kitchen(database, subsets=["validation"]).pairs) == ["w-0-1"]


def test_frames_with_a_face_are_rejected_and_the_others_are_the_middle_ones(
    film, large, numbered, recipe, magenta_model, tmp_path
):
    def paint(number):  # magenta from 2 s on
        pixels = large(number)
        return pixels if number < 50 else np.full_like(pixels, (255, 0, 255))

    film(tmp_path / "videos" / "v.mp4", [40 * n for n in range(100)], paint=paint)
    magenta_model(tmp_path / "yunet.onnx")
    write_file(tmp_path / "steps.json", {"database": {"v": cooking(STEPS)}})
    options = 'annotations = "steps.json"\nface_model = "yunet.onnx"\nface_score = 0.6\nimage_format = "jpeg"'
    built = build(path := recipe("youcook2", options), tmp_path / "set")
    assert built.funnel.rejected == {("frames", "shows a face"): 4, SAME: 1}
    (item,) = (pairs := read_pair_set(built.folder)).items
    assert item.texts == ("chop the onions", "Fry the onions")
    assert item.images == ("images/v/0.480000.jpg", "images/v/1.600000.jpg")
    assert [numbered(decode(pairs.read_bytes(image), image)) for image in item.images] == [12, 40]
    assert item.provenance["segments"] == [[0, 1.0], [1.2, 2.0]]
    assert sorted(item.provenance["inputs"]) == ["steps.json", "yunet.onnx"]
    assert sorted(item.provenance["models"]) == ["av", "opencv", "pillow"]
    assert build(path, tmp_path / "set").resumed == 6


def test_a_damaged_video_and_one_that_is_too_short_are_counted(film, kitchen, tmp_path):
    whole = film(tmp_path / "videos" / "short.mp4", [40 * n for n in range(40)])
    (tmp_path / "videos" / "damaged.mp4").write_bytes(whole.read_bytes()[:700])
    builder = kitchen({"database": {name: cooking(STEPS[:3:2]) for name in ("short", "damaged", "missing")}})
    outcomes = {candidate.id: builder.make(candidate) for candidate in builder.candidates()}
    assert outcomes["short-0-1"] == Rejected("video", "ends before the frame: short.mp4 ends after 1.600 s")
    assert outcomes["missing-0-1"] == Rejected("video", "not in the folder of videos")
    damaged = outcomes["damaged-0-1"]
    assert isinstance(damaged, Rejected)
    assert damaged.reason.startswith("damaged.mp4 cannot be decoded (")


@pytest.mark.parametrize(
    ("database", "message"),
    [
        ({"v": cooking(STEPS)}, ("steps.json", "object", "'database'")),
        ({"database": {"v": {"subset": "training"}}}, ("'v'", "object", "'subset'")),
        ({"database": {"v": cooking([([1.0], "chop")])}}, ("'v'", "0", "'segment'")),
        ({"database": {"v": cooking([([1.0, -2.0], "chop")])}}, ("0", "'segment[1]'")),
        ({"database": {"v": cooking([([0, 1], "chop"), ([1, 2], " ")])}}, ("1", "'sentence'")),
        ({"database": {"v": cooking([([2, 1], "chop")])}}, ("0", "'segment'", "1.0", "2.0")),
        ({"database": {"v": {"subset": "training", "annotations": TWICE}}}, ("'v'", "id")),
    ],
)
def test_wrong_steps_are_named(kitchen, database, message):
    with raises(DataError, message):
        kitchen(database).pairs  # noqa: B018


#: Two with two annotators at one boundary, and one whose video is missing.
IDS = ("slqr8Kf5HHc", "FzyoBb6MWE0", "7phNAPITvdM")

THREE = {
    "v": [
        boundary("v_0A", 2.0, (0, 4.0), ("stands", "walks")),
        boundary("v_0B", 2.0, (0, 4.0), ("waits", "goes up")),
        boundary("v_1A", 4.0, (2.0, 8.0), ("walks", "sits")),
        boundary("v_2A", 8.0, (4.0, 9.0), ("sits", "walks")),
    ]
}


@pytest.fixture
def pairs_of(opened):
    return lambda rows=THREE, **options: dict(opened(GebPlus, "geb.json", rows, **options).pairs)


def moments_of(pairs: dict[str, FramePair]) -> dict[str, tuple[tuple[float | None, str], ...]]:
    return {name: tuple((still.seconds, still.caption) for still in pair.stills) for name, pair in pairs.items()}


def test_a_reading_pairs_the_states_of_one_boundary_or_of_the_next_but_one(pairs_of):
    assert moments_of(pairs_of()) == {
        "v_0A-1A": ((1.0, "a man stands"), (6.0, "a man sits")),
        "v_1A-2A": ((3.0, "a man walks"), (8.5, "a man walks")),
    }
    assert moments_of(pairs_of(reading="adjacent")) == {
        "v_0A": ((1.0, "a man stands"), (3.0, "a man walks")),
        "v_1A": ((3.0, "a man walks"), (6.0, "a man sits")),
        "v_2A": ((6.0, "a man sits"), (8.5, "a man walks")),
    }
    assert list(pairs_of(annotators="all")) == ["v_0A-1A", "v_0B-1A", "v_1A-2A"]
    assert list(pairs_of(annotators="all", reading="adjacent")) == ["v_0A", "v_0B", "v_1A", "v_2A"]


def test_edges_lie_beside_the_boundary_and_never_beyond_the_middle(pairs_of):
    near = seconds(pairs_of(frame="edge", margin=0.25, reading="adjacent"))
    assert [*near.values()] == [[1.75, 2.25], [3.75, 4.25], [7.75, 8.25]]
    assert moments_of(pairs_of(frame="edge", margin=30.0)) == moments_of(pairs_of())


def test_what_the_annotations_rule_out_is_counted(pairs_of):
    every = pairs_of(annotators="all", min_segment=1.5)
    faults = {name: pair.fault for name, pair in every.items()}  # "goes up" is the state in between
    assert faults == {"v_0A-1A": None, "v_0B-1A": None, "v_1A-2A": SAME}
    adjacent = pairs_of(annotators="all", min_segment=1.5, reading="adjacent")
    assert (adjacent["v_0B"].fault, adjacent["v_2A"].fault) == (DIRECTION, ("segments", "shorter than 1.5 s"))
    assert pairs_of(annotators="all", reading="adjacent", words=[])["v_0B"].fault is None


def test_directions_are_whole_words_in_any_case(pairs_of):
    for word, fault in (("Upwards", DIRECTION), ("toward the wall", DIRECTION), ("cupboard", None)):
        rows = {"v": [boundary("v_0A", 2.0, (0, 4.0), ("stands", f"looks {word}"))]}
        assert [pair.fault for pair in pairs_of(rows, reading="adjacent").values()] == [fault]


def test_what_each_rule_leaves_of_the_real_annotations(tmp_path):
    wanted = {
        ("val", "skip", "first"): {None: 1784, DIRECTION: 2680, SAME: 205},
        ("val", "adjacent", "all"): {None: 3236, DIRECTION: 4043},
    }
    for (split, reading, annotators), counts in wanted.items():
        options = GebPlus.Options(annotations=f"{split}.json", videos=".", reading=reading, annotators=annotators)
        pairs = GebPlus(Start(options, 1, published("gebplus"))).pairs
        assert Counter(pair.fault for pair in pairs.values()) == counts


@pytest.mark.parametrize("reading", ["skip", "adjacent"])
def test_the_set_holds_the_frames_of_the_real_boundaries(film, numbered, recipe, tmp_path, reading):
    annotations = json.loads(published("gebplus", "val.json").read_text())
    write_file(tmp_path / "few.json", {video: annotations[video] for video in IDS})
    film(tmp_path / "videos" / f"{IDS[0]}.mp4", [40 * n for n in range(250)], g="30", bf="2")
    film(tmp_path / "videos" / f"{IDS[1]}_000010_000020.mkv", [480 + 40 * n for n in range(250)], g="30", bf="2")
    built = build(recipe("geb-plus", f'annotations = "few.json"\nreading = "{reading}"'), tmp_path / "set")
    pairs = read_pair_set(built.folder)
    for item in pairs.items:
        asked = item.provenance["asked_times"]
        shown = [numbered(decode(pairs.read_bytes(image), image)) for image in item.images]
        assert shown == [int(seconds * 25 + 0.0125) for seconds in asked]
        assert item.provenance["frame_times"] == pytest.approx([n / 25 for n in shown], abs=1e-3)
    name, text, time, missing = {
        "skip": ("FzyoBb6MWE0_0A-1A", "human hands tie a knot", (2.50757 + 4.38824) / 2, 2),
        "adjacent": ("FzyoBb6MWE0_0A", "human hands rotate the ribbon", (1.2914 + 2.50757) / 2, 3),
    }[reading]
    (item,) = [item for item in pairs.items if item.id == name]
    assert item.texts == ("human hands holding the ribbons", text)
    assert item.provenance["asked_times"] == pytest.approx([1.2914 / 2, time])
    assert {item.cluster for item in pairs.items} == set(IDS[:2])
    assert built.funnel.rejected["video", "not in the folder of videos"] == missing


def test_wrong_boundaries_and_a_folder_without_any_of_the_videos_are_named(pairs_of, recipe, tmp_path):
    with raises(DataError, "geb.json", "'v'", "0", "'boundary_id'"):
        pairs_of({"v": [boundary("w_0A")]})
    path = recipe("geb-plus", 'annotations = "gone.json"')
    with raises(DataError, "gone.json", "No such file or directory"):
        build(path, tmp_path / "set")
    write_file(tmp_path / "gone.json", THREE)
    with raises(DataError, "1", "v"):
        build(path, tmp_path / "set")
    path.write_text(path.read_text().replace('videos = "videos"', 'videos = "gone"'))
    with raises(DataError, "[options]", "folder"):
        build(path, tmp_path / "set")
