"""Surveys: what is asked of which shape, dealt fairly, shown in drawn orders, and written as valid files."""

import csv
import io
import json
import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from facts import raises
from tellapart import Item, PairSet
from tellapart.annotate.study import configuration, field_names, read_study, sheet, tasks_json, write_study
from tellapart.annotate.surveys import SURVEYS, altered_words, deal, find_survey
from tellapart.data.rows import spreadsheet_cell
from tellapart.errors import DataError, UnknownNameError

AWKWARD = "<b>\"5 & 6\" 'cats'</b> ]]> $image_0 & = \u2028 ✓"
SHAPES = {"best-image": (4, 1), "statement": (2, 1)}
FIRST = [name for name, survey in SURVEYS.items() if not survey.after]


def pairs_of(shape: tuple[int, int], n: int = 8, text: str = "a {} cat") -> PairSet:
    items = []
    for k in range(n):
        images, texts = (f"{k}_{i}.png" for i in range(shape[0])), (f"{text.format(k)} {t}" for t in range(shape[1]))
        items.append(Item(id=f"item-{k}", images=tuple(images), texts=tuple(texts), cluster=f"scene-{k // 2}"))
    return PairSet("made", tuple(items), Path())


def test_each_survey_asks_its_units():
    for survey, shape, units, truths in (
        ("coco-cf", (2, 2), 2, {"0", "1"}), ("coco-cf", (1, 2), 1, {"0"}), ("i2t", (1, 5), 1, {"0"}),
        ("t2i", (2, 2), 2, {"0", "1"}), ("t2i", (3, 1), 1, {"0"}), ("ambiguity", (2, 2), 2, {"0", "1"}),
        ("best-image", (4, 1), 1, {""}), ("match", (2, 2), 4, {"yes", "no"}), ("match", (1, 3), 3, {"yes", "no"}),
        ("caption", (2, 2), 2, {""}), ("statement", (2, 2), 1, {""}), ("question", (2, 1), 1, {""}),
        ("box", (1, 2), 1, {""}),
    ):  # fmt: skip
        study = deal(find_survey(survey), pairs_of(shape), ("ann",))
        assert len(study.units) == len(study.tasks) == 8 * units, survey
        assert {unit.truth for unit in study.units} == truths, survey


def test_a_survey_that_does_not_fit_is_refused():
    for survey, shape, *facts in (
        ("coco-cf", (2, 1), "2", "1", "items"), ("i2t", (3, 2), "texts", "image"),
        ("t2i", (1, 2), "images", "text", "image"), ("best-image", (2, 2), "text", "images", "candidate"),
        ("match", (2, 3), "images", "texts"), ("statement", (1, 2), "items", "images"),
        ("question", (3, 1), "items", "images"), ("expression", (1, 1), "after", "box"),
        ("error-category", (2, 2), "study", "coco-cf"), ("i2t", (1, 27), "27", "26", "options", "match"),
    ):  # fmt: skip
        with raises(DataError, *facts):
            deal(find_survey(survey), pairs_of(shape), ("ann",))


def test_the_order_of_units_and_the_side_of_options_are_drawn_for_each_annotator():
    study = deal(find_survey("i2t"), pairs_of((2, 2), n=200), ("ann", "bob", "cem"))
    by = {name: [task for task in study.tasks if task.annotator == name] for name in study.annotators}
    orders = {name: [task.unit for task in tasks] for name, tasks in by.items()}
    assert orders["ann"] != orders["bob"] != orders["cem"]
    assert sorted(orders["ann"]) == sorted(orders["bob"]) == sorted(unit.id for unit in study.units)
    sides = {name: {task.unit: task.order[0] for task in tasks} for name, tasks in by.items()}
    for one, other in (("ann", "bob"), ("bob", "cem")):
        same = np.mean([sides[one][unit] == sides[other][unit] for unit in sides[one]])
        assert 0.4 < same < 0.6  # 400 units: chance plus and minus four standard deviations
    # The true option stands as often first as second, and the item's first option tells nothing of it.
    first = Counter(str(task.order[0]) == study.unit_of[task.unit].truth for task in study.tasks)
    assert 0.45 < first[True] / len(study.tasks) < 0.55


def test_a_study_depends_on_the_seed_the_names_and_the_ids_alone():
    pairs = pairs_of((2, 2))
    study = deal(find_survey("i2t"), pairs, ("ann", "bob"))
    assert study == deal(find_survey("i2t"), pairs, ("ann", "bob"))
    assert study.token != deal(find_survey("i2t"), pairs, ("ann", "bob"), seed=1).token
    # Bob's sides are his own: who else is asked, and what of, changes none of them.
    alone = deal(find_survey("i2t"), pairs.select(range(4)), ("bob",))
    sides = {task.unit: task.order for task in study.tasks if task.annotator == "bob"}
    assert all(task.order == sides[task.unit] for task in alone.tasks)


def test_groups_of_annotators_share_the_units_between_them():
    """BiVLC: ten annotators in five pairs, each pair with a survey of its own."""
    names = tuple(f"annotator-{k}" for k in range(10))
    study = deal(find_survey("best-image"), pairs_of((4, 1), n=250), names, each=2)
    seen = {name: {task.unit for task in study.tasks if task.annotator == name} for name in names}
    assert all(len(units) == 50 for units in seen.values())
    assert all(seen[names[k]] == seen[names[k + 1]] for k in range(0, 10, 2))
    assert set(Counter(task.unit for task in study.tasks).values()) == {2}


def test_a_sample_takes_whole_items_at_random():
    studies = [deal(find_survey("match"), pairs_of((2, 2), n=50), ("a",), sample=5, seed=s) for s in (0, 1)]
    one, other = ({unit.item for unit in study.units} for study in studies)
    assert len(one) == len(other) == 5 and one != other
    assert all(len(study.units) == 20 for study in studies)


def test_a_phrase_names_no_place_joined_by_a_hyphen_either():
    for phrase, *problems in (
        ("the cup on the left", "names a place: left"),
        ("the left-hand cup", "names a place: left"),
        ("the top-right cup", "names a place: right, top"),
        ("the left-handed player’s bat",),
    ):
        assert find_survey("expression").problems({"expression": phrase}, frozenset()) == problems


def test_a_deal_that_cannot_be_made_is_refused():
    for annotators, how, *facts in (
        ((), {}, "annotators", "(none)"), (("ann", "a/b"), {}, "'a/b'", "annotators"), (("..",), {}, "letters"),
        (("ann", "Ann"), {}, "name", "twice"), (("ann", "bob", "cem"), {"each": 2}, "3", "2", "annotators"),
        (("ann",), {"sample": 0}, "0", "items"), (("-ann",), {}, "'-ann'", "first"), (("@ann",), {}, "'@ann'", "first"),
    ):  # fmt: skip
        with raises(DataError, *facts):
            deal(find_survey("i2t"), pairs_of((2, 2)), annotators, **how)
    with raises(UnknownNameError, "'ambigous'", "'ambiguity'"):
        find_survey("ambigous")


@pytest.mark.parametrize("name", FIRST)
def test_the_configuration_is_well_formed_and_refers_to_what_the_tasks_hold(name):
    study = deal(find_survey(name), pairs_of(SHAPES.get(name, (2, 2)), text=AWKWARD + " {}"), ("ann",))
    root = ElementTree.fromstring(configuration(find_survey(name), study))  # noqa: S314  (our own)
    objects = {each.get("name"): each for each in root.iter() if each.get("value", "").startswith("$")}
    controls = [each for each in root.iter() if each.get("toName")]
    assert {each.get("name") for each in controls} == set(field_names(find_survey(name), study))
    assert {each.get("toName") for each in controls} <= set(objects)
    names = [each.get("name") for each in root.iter() if each.get("name")]
    assert len(names) == len(set(names))
    # What a task holds and what the configuration shows are the same; JSON_MIN's own keys are free.
    for task in json.loads(tasks_json(study, "ann", lambda each: f"/{each.value}")):
        held = {f"${key}" for key in task["data"]} - {"$study", "$task"}
        assert {each.get("value") for each in objects.values()} == held
    taken = {"id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time", "agreement", "study", "task"}
    assert not taken & set(names)


@given(st.text(min_size=1, max_size=40).filter(str.strip))
def test_any_caption_comes_through_the_tasks_and_the_sheet_as_it_is(text):
    item = Item(id="a", images=("0.png",), texts=(text, text + "!"))
    study = deal(find_survey("i2t"), PairSet("s", (item,), Path()), ("ann",))
    (task,) = json.loads(tasks_json(study, "ann", lambda each: each.value))
    assert {task["data"]["option_a"], task["data"]["option_b"]} == {text, text + "!"}
    written = sheet(find_survey("i2t"), study, "ann", lambda each: each.value)
    (row,) = csv.DictReader(io.StringIO(written, newline=""))
    cells = {row["option_a"], row["option_b"]}
    assert cells == {spreadsheet_cell(text), spreadsheet_cell(text + "!")}
    assert not any(re.match(r"[=+\-@\t\r]", cell) for cell in cells)


def test_neither_tasks_nor_image_names_give_the_answer_away(desk):
    at = desk("t2i")
    text = (at.folder / "label_studio" / "tasks_ann.json").read_text() + (at.folder / "sheets" / "ann.csv").read_text()
    assert not any(image.rpartition("/")[2] in text for item in at.pairs.items for image in item.images)
    assert not any(item.id in text for item in at.pairs.items)
    assert "truth" not in text


def test_images_are_embedded_or_lie_where_label_studio_looks_and_frames_are_pictures(desk, tmp_path):
    at = desk("i2t", n=2)
    assert read_study(at.folder) == at.study and read_study(at.folder).token == at.study.token
    places = {
        "data:image/png;base64,": {"embed": True},
        "/data/local-files/?d=data/my%20set/images/": {"prefix": "data/my set"},
    }
    for number, (place, how) in enumerate(places.items()):
        write_study(tmp_path / str(number), find_survey("i2t"), at.study, at.pairs, **how)
        tasks = json.loads((tmp_path / str(number) / "label_studio" / "tasks_ann.json").read_text())
        assert all(task["data"]["image_0"].startswith(place) for task in tasks)
    np.save(tmp_path / "0.npy", np.full((4, 6, 3), (255, 0, 0), np.uint8))  # blue, green, red
    pairs = PairSet("s", (Item(id="a", images=("0.npy",), texts=("x", "y")),), tmp_path)
    write_study(tmp_path / "study", find_survey("i2t"), deal(find_survey("i2t"), pairs, ("ann",)), pairs)
    (image,) = (tmp_path / "study" / "images").iterdir()
    assert (image.suffix, Image.open(image).getpixel((0, 0))) == (".png", (0, 0, 255))


def test_a_full_folder_is_left_alone_and_a_missing_image_leaves_no_half_written_study(desk, tmp_path):
    at = desk("i2t", n=2)
    before = sorted(at.folder.rglob("*"))
    with raises(DataError, "folder"):
        write_study(at.folder, find_survey("i2t"), at.study, at.pairs)
    assert sorted(at.folder.rglob("*")) == before
    pairs = PairSet("s", (Item(id="a", images=("gone.png",), texts=("x", "y")),), tmp_path)
    study = deal(find_survey("i2t"), pairs, ("ann",))
    (tmp_path / "none").mkdir()
    with raises(DataError, "'gone.png'", "image"):
        write_study(tmp_path / "none" / "study", find_survey("i2t"), study, pairs)
    assert list((tmp_path / "none").iterdir()) == []


def test_the_altered_words_are_found():
    for first, second, words in (
        ("A woman cuts a cake.", "A baker cuts a cake .", ("woman", "baker")),
        ("They'll tow your car.", "They 'll tow your bus .", ("car", "bus")),
        ("Two Dogs", "two dogs", None), ("a cat", "a cat sits", None), ("a big cat", "a small dog", None),
        ("एक बेटा", "एक बेटी", ("बेटा", "बेटी")),  # they differ in a vowel sign
    ):  # fmt: skip
        assert altered_words(first, second) == words
