"""Builds from videos: all builders, and Action Genome's pairs."""

import json
import pickle
import sys
import tomllib
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from facts import raises
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
from tellapart.builders.video.footage import frame_number
from tellapart.catalog import load
from tellapart.data.folder import read_pair_set
from tellapart.data.images import decode
from tellapart.data.validation import validate
from tellapart.errors import DataError, MissingDependencyError

# Each builder from video, whole: audited, and the same bytes after `kill -9` and by any number of workers.

RECIPES = Path(__file__).parents[3] / "docs" / "recipes"
BUILDERS = ("action-genome", "geb-plus", "youcook2", "timestamped-captions")


def annotations(builder: str) -> tuple[str, str]:
    """Return a file's name and text for 8 moments of the video `v`, 0.5 s apart, each of its own caption."""
    words = ("red", "blue", "green", "white", "black", "pink", "grey", "brown")
    times = [0.25 + 0.5 * k for k in range(8)]
    if builder == "timestamped-captions":
        rows = [{"video": "v", "time": t, "caption": f"a {word} box"} for t, word in zip(times, words, strict=True)]
        return "captions.jsonl", "".join(json.dumps(row) + "\n" for row in rows)
    if builder == "youcook2":
        steps = [
            {"id": k, "segment": [t - 0.25, t + 0.25], "sentence": f"add the {words[k]} one"}
            for k, t in enumerate(times)
        ]
        return "a.json", json.dumps({"database": {"v": {"subset": "training", "annotations": steps}}})
    if builder == "geb-plus":
        return "a.json", json.dumps({"v": [boundary(k, words) for k in range(7)]})
    ways = [(a, s) for a in ("looking_at", "not_looking_at") for s in ("above", "behind", "beneath", "in_front_of")]
    contacts = ("holding", "touching", "wiping", "eating", "carrying", "wearing", "twisting", "lying_on")
    graphs = {}
    for k, ((attention, spatial), contact) in enumerate(zip(ways, contacts, strict=True)):
        row = {"class": "box", "visible": True, "bbox": None, "attention_relationship": [attention]}
        row |= {"spatial_relationship": [spatial], "contacting_relationship": [contact]}
        graphs[f"v.mp4/{7 + 12 * k:06d}.png"] = [row]
    return "a.json", json.dumps(graphs)


def boundary(k: int, words: tuple[str, ...]) -> dict[str, object]:
    before, after = words[k], words[k + 1]
    row = {
        "boundary_id": f"v_{k}A",
        "timestamp": 0.5 * (k + 1),
        "prev_timestamp": 0.5 * k,
        "next_timestamp": 0.5 * (k + 2),
    }
    row |= {"label": "Change of Color", "subject": "box", "status_before": before, "status_after": after}
    return row | {"action_of_cause": None, "caption": f"Subject: box //Status_Before: {before} //Status_After: {after}"}


@pytest.fixture
def prepared(film, recipe, magenta_model, tmp_path):
    """Write the video, the annotations and the recipe of a builder."""

    def prepare(builder):
        film(tmp_path / "videos" / "v.mp4", [40 * n for n in range(102)], bf="2", g="25")
        name, text = annotations(builder)
        (tmp_path / name).write_text(text)
        key = "captions" if builder == "timestamped-captions" else "annotations"
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


@pytest.mark.parametrize("builder", BUILDERS)
def test_a_set_stands_its_audit_and_shares_frames(prepared, tmp_path, builder):
    built = build(prepared(builder), tmp_path / "set")
    pairs = read_pair_set(built.folder)
    assert len(pairs) == built.funnel.items >= 6
    assert {item.cluster for item in pairs.items} == {"v.mp4" if builder == "action-genome" else "v"}
    report = audit(pairs)
    assert report.shape == (2, 2)
    assert (
        report.images == len(list((built.folder / "images").rglob("*.png"))) <= 8
    )  # eight moments, however many pairs
    assert report.clusters == 1
    # Drawn numbers change many blocks at once, and eight captions are few; nothing else is wrong with the sets.
    warned = {finding.name.partition(":")[0] for finding in report.warnings}
    assert "change: not minimal" in {finding.name for finding in report.warnings}
    assert warned <= {"change", "tag", "blind", "length"}
    assert all(change.change.share > 0 for change in report.changes)
    card = json.loads((built.folder / "card.json").read_text())
    assert card["builder"] == builder
    assert {"title", "description", "licence", "source", "citation"} <= set(card)


def test_a_build_without_pyav_says_what_to_install(prepared, tmp_path, monkeypatch):
    path = prepared("youcook2")
    for module in ("av", "cv2"):
        with monkeypatch.context() as without, raises(MissingDependencyError, module, "tellapart[video]"):
            without.setitem(sys.modules, module, None)
            build(path, tmp_path / "set")


@pytest.mark.parametrize("builder", BUILDERS)
def test_the_example_recipe_names_options_that_the_builder_has(builder):
    example = tomllib.loads((RECIPES / f"{builder}.toml").read_text())
    assert example["builder"] == builder
    options = validate(load("builder", builder).Options, example["options"], builder)
    assert options.videos == "videos"


# Action Genome's scene graphs, as released or as JSON, become sentences that are false of the other frame.


def thing(
    name: str,
    attention: object,
    spatial: object,
    contacting: object,
    *,
    visible: bool = True,
    bbox: object = (8, 9, 10, 20),
) -> dict:
    row = {"class": name, "bbox": bbox, "visible": visible, "attention_relationship": attention}
    return row | {"spatial_relationship": spatial, "contacting_relationship": contacting, "metadata": {"set": "train"}}


UNSEEN = thing("cup/glass/bottle", None, None, None, visible=False, bbox=None)
GRAPHS = {
    "A1.mp4/000010.png": [
        thing("cup/glass/bottle", ["looking_at"], ["in_front_of"], ["holding"]),
        thing("bed", ["unsure"], ["behind"], ["sitting_on"]),
    ],
    "A1.mp4/000020.png": [UNSEEN, thing("bed", ["looking_at"], ["behind", "beneath"], ["lying_on"])],
    "A1.mp4/000030.png": [
        thing("cup/glass/bottle", ["not_looking_at"], ["in_front_of", "behind"], ["holding", "touching"])
    ],
    "A1.mp4/000040.png": [thing("cup/glass/bottle", ["not_looking_at"], ["on_the_side_of"], ["drinking_from"])],
    "B2.mp4/000001.png": [thing("door", ["looking_at"], ["in_front_of"], ["not_contacting"])],
}


@pytest.fixture
def genome(tmp_path):
    (tmp_path / "videos").mkdir()

    def make(graphs=GRAPHS, **options):
        (tmp_path / "graphs.json").write_text(json.dumps(graphs))
        values = {"annotations": "graphs.json", "videos": "videos"} | options
        return ActionGenome(Start(ActionGenome.Options(**values), 1, tmp_path))

    return make


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
    assert [still.caption for still in pair.stills] == [
        "The person is looking at the cup, glass or bottle which is in front of him/her.",
        "The person is not looking at the cup, glass or bottle which is on the side of him/her.",
    ]
    assert [still.number for still in pair.stills] == [10, 40]
    assert dict(pair.tags) == {"object": "cup/glass/bottle", "changed": "attention+spatial+contacting"}
    assert pair.provenance["object_boxes"] == [[8.0, 9.0, 18.0, 29.0]] * 2


def test_a_caption_that_holds_for_both_frames_is_no_false_one(genome):
    fault = genome(verb="contacting").pairs["A1.mp4-cup+glass+bottle-10-30"].fault
    assert fault == ("captions", "both are the same")  # each takes the first label: holding, in front of
    graphs = {
        "A.mp4/000001.png": [thing("bed", ["looking_at"], ["behind"], ["holding"])],
        "A.mp4/000002.png": [thing("bed", ["not_looking_at"], ["above", "behind"], ["touching", "holding"])],
    }
    expected = ("captions", "one is annotated of both frames")
    assert genome(graphs, verb="contacting").pairs["A.mp4-bed-1-2"].fault == expected
    assert genome(graphs, verb="both").pairs["A.mp4-bed-1-2"].fault is None


@pytest.mark.parametrize(("differ", "left"), [(1, 4), (2, 4), (3, 3)])
def test_the_option_says_how_many_relations_differ(genome, differ, left):
    assert len(genome(differ=differ, skip=0).pairs) == left


def frame(number: int, labels: str) -> ObjectInFrame:
    return ObjectInFrame(number, {kind: (label,) for kind, label in zip(RELATIONS, labels, strict=True)}, None)


FRAMES = st.lists(st.text("ab", min_size=3, max_size=3), max_size=12).map(
    lambda all_: [frame(k, x) for k, x in enumerate(all_)]
)


@given(FRAMES, st.integers(1, 3), st.integers(0, 3))
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


def test_both_skips_of_the_paper(genome):
    frames = [frame(0, "aaa"), *(frame(k, "bbb") for k in range(1, 6))]
    assert [j.number for _, j in sparse_pairs(frames, 2, 1)] == [1, 3, 5]
    assert [j.number for _, j in sparse_pairs(frames, 2, 2)] == [1, 4]


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_the_released_pickle_is_read_as_plain_data(tmp_path, protocol):
    (tmp_path / "object_bbox_and_relationship.pkl").write_bytes(pickle.dumps(GRAPHS, protocol=protocol))
    (tmp_path / "graphs.json").write_text(json.dumps(GRAPHS))
    read = read_scene_graphs(tmp_path / "object_bbox_and_relationship.pkl")
    assert read == read_scene_graphs(tmp_path / "graphs.json")
    assert [frame.number for frame in read["A1.mp4"]["cup/glass/bottle"]] == [10, 30, 40]
    assert list(read["B2.mp4"]) == ["door"]


def test_a_pickle_that_would_run_code_is_refused(tmp_path):
    path = tmp_path / "object_bbox_and_relationship.pkl"
    path.write_bytes(pickle.dumps({"A.mp4/000001.png": [Path("x")]}))
    with raises(DataError, "plain", "runs"):
        read_scene_graphs(path)


def test_both_spellings_of_labels_are_one(tmp_path):
    (tmp_path / "a.json").write_text(
        json.dumps({"A.mp4/000001.png": [thing("bed", ["lookingat"], ["infrontof"], ["haveitontheback"])]})
    )
    (frame,) = read_scene_graphs(tmp_path / "a.json")["A.mp4"]["bed"]
    caption = sentence("bed", frame.relations, "both")
    assert caption.text == "The person is looking at and carrying on his/her back the bed which is in front of him/her."


def test_persons_boxes_stay_as_they_are_and_objects_are_turned_to_the_same(genome, tmp_path):
    persons = {"A1.mp4/000010.png": {"bbox": [[1, 2, 30, 40]], "bbox_mode": "xyxy"}, "A1.mp4/000040.png": {"bbox": []}}
    (tmp_path / "persons.json").write_text(json.dumps(persons))
    builder = genome(persons="persons.json", skip=0)
    pair = builder.pairs["A1.mp4-cup+glass+bottle-10-40"]
    assert pair.provenance["person_boxes"] == [[[1.0, 2.0, 30.0, 40.0]], []]
    assert pair.provenance["object_boxes"] == [[8.0, 9.0, 18.0, 29.0]] * 2
    assert sorted(builder.inputs) == ["graphs.json", "persons.json"]
    for wrong, message in (
        ({"bbox": [[1, 2, 3]]}, "numbers"),
        ({"bbox": [[1, 2, 3, 4]], "bbox_mode": "xywh"}, ("'xyxy'", "'xywh'")),
        ([], ("object", "'bbox'")),
    ):
        (tmp_path / "persons.json").write_text(json.dumps({"A1.mp4/000010.png": wrong}))
        with raises(DataError, "persons.json", "'A1.mp4/000010.png'", message):
            person_boxes(tmp_path / "persons.json")
    with raises(DataError, "gone.json"):
        genome(persons="gone.json")
    with raises(DataError, "person_bbox.pkl"):
        person_boxes(tmp_path / "person_bbox.pkl")


def test_frames_come_from_the_video_or_from_its_dumped_frames_alike(film, numbered, genome, tmp_path):
    film(tmp_path / "videos" / "A1.mp4", [40 * n for n in range(50)], bf="2")
    builder = genome(skip=0)
    from_video = [builder.make(candidate) for candidate in builder.candidates()]
    made = [outcome for outcome in from_video if isinstance(outcome, Made)]
    assert made
    for outcome in made:
        shown = [numbered(decode(outcome.images[image], image)) for image in outcome.item.images]
        numbers = outcome.item.provenance["frames"]
        assert shown == [number - 1 for number in numbers]

    (tmp_path / "videos" / "A1.mp4").rename(tmp_path / "video.mp4")
    folder = tmp_path / "videos" / "A1.mp4"
    folder.mkdir()
    for number in (10, 20, 30, 40):
        pixels = frame_number(tmp_path / "video.mp4", number).pixels
        Image.fromarray(np.asarray(pixels)).save(folder / f"{number:06d}.png")
    builder = genome(skip=0)
    dumped = [outcome for outcome in map(builder.make, builder.candidates()) if isinstance(outcome, Made)]
    assert [outcome.images for outcome in dumped] == [outcome.images for outcome in made]
    assert [outcome.item.texts for outcome in dumped] == [outcome.item.texts for outcome in made]
    assert dumped[0].item.provenance["video_sha256"] is None
    (folder / "000010.png").unlink()
    builder = genome()
    assert Rejected("video", "ends before the frame: A1.mp4 has no frame 000010") in [
        builder.make(candidate) for candidate in builder.candidates()
    ]


@pytest.mark.parametrize(
    ("graphs", "message"),
    [
        ({"A1.mp4": []}, ("'A1.mp4'", "'50N4E.mp4/000682.png'")),
        ({"A.mp4/000001.png": {}}, "'A.mp4/000001.png'"),
        ({"A.mp4/000001.png": [{}]}, ("object", "0", "object", "'class'")),
        ({"A.mp4/000001.png": [{"class": "bed"}]}, ("object", "0", "'visible'", "None")),
        ({"A.mp4/000001.png": [thing("bed", "looking_at", [], [])]}, ("'attention_relationship'", "labels")),
        ({"A.mp4/000001.png": [thing("bed", ["unsure"], ["above"], ["holding"], bbox=[1, 2])]}, ("'bbox'", "field")),
    ],
)
def test_wrong_annotations_are_named(genome, graphs, message):
    with raises(DataError, "graphs.json", message):
        genome(graphs).pairs  # noqa: B018
