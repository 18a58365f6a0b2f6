"""VLUE's, NLVR2's and GEB+'s files: from published and made files, and what is refused."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from annotation_formats import ASKED, GIVEN

from facts import raises
from film_annotations import boundary
from published import published
from sets import file_bytes, write_file
from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.locations import Locations
from tellapart.benchmarks.published_tasks import (
    read_boxes,
    read_captions,
    read_moments,
    read_nlvr2,
    read_questions,
    read_retrieval,
    read_statements,
    read_vqa2,
)
from tellapart.data.task_records import MomentSet
from tellapart.errors import DataError, ScoreError
from tellapart.metrics.moments import (
    TOLERANCES,
    boundary_accuracy,
    boundary_f1,
    boundary_times,
    frame_times,
    random_accuracy,
)
from tellapart.tasks.registry import TASKS
from tellapart.tasks.words import measure_statements

CAPTION = {"image": "ta/images/73-கரிக்கோல்/73-13.jpg", "caption": ["A man draws.", "A man with a pencil."]}
STATEMENT = {"sentence": "Both show a dog.", "images": ["a.jpg", "b.jpg"], "label": "True"}
QUESTION = {"question_id": 5, "question": "One cup?", "image": "sw/79-1.jpg", "answer": "yes"}
BOX = {"ref_id": 3, "text": "man", "image": "a.jpg", "bbox": [1, 2.5, 9, 8], "height": 480, "width": 640}


def test_karpathys_own_file_is_read_and_only_its_test_split(tmp_path):
    def write(rows: list[dict[str, Any]]) -> Path:
        return write_file(tmp_path / "dataset_coco.json", {"images": rows, "dataset": "coco"})

    rows = [
        {"filepath": "val2014", "filename": f"{number:012}.jpg", "cocoid": 1, "split": split}
        | {"sentences": [{"raw": f"text {k} of {number}.", "tokens": ["text"], "sentid": k} for k in range(2)]}
        for number, split in enumerate(("train", "test", "val", "restval", "test"))
    ]
    path = write(rows)
    gallery = read_retrieval(path)
    assert gallery.images == ("val2014/000000000001.jpg", "val2014/000000000004.jpg")
    assert gallery.captions == tuple(f"text {k} of {number}." for number in (1, 4) for k in range(2))
    assert tuple(row.images[0] for row in read_captions(path).rows) == gallery.images
    del rows[1]["filepath"]  # Flickr30K's has none
    assert read_retrieval(write(rows)).images[0] == "000000000001.jpg"
    with raises(DataError, str(path), "'test'", "images"):
        read_retrieval(write(rows[:1]))
    del rows[1]["sentences"]
    with raises(DataError, str(path), "images[1]", "sentences"):
        read_retrieval(write(rows))


def test_statements_boxes_and_answers_of_people_are_read(tmp_path):
    def read(reader, *rows):
        return rows_of(reader, *rows)(tmp_path).rows

    found = read(read_statements, STATEMENT, {**STATEMENT, "label": "False"})
    assert [(*one.images, one.gold) for one in found] == [("a.jpg", "b.jpg", True), ("a.jpg", "b.jpg", False)]
    box = read(read_boxes, BOX, {**BOX, "text": "woman", "dets": [[0, 0, 5, 5]]})[1]
    expected = ((1.0, 2.5, 9.0, 8.0), {"size": (640, 480), "candidates": ((0.0, 0.0, 5.0, 5.0),)})
    assert (box.gold, box.facts) == expected
    (asked,) = read(read_questions, {**QUESTION, "answer": ["yes"] * 9 + ["no"], "dataset": "vqa"})
    assert asked.gold == ("yes",) * 9 + ("no",)


# NLVR2 in its authors' own form: lines with identifiers, predictions without a header, their script's consistency.

GROUPS, ROWS, REPEATED = 1_995, 6_967, 8


def line(identifier: str, sentence: str = "Both show a dog.", label: str = "True") -> dict[str, Any]:
    """One line of `test1.json`, with the fields that are not measured."""
    images = {f"{side}_url": f"https://example.org/{side[0]}.jpg" for side in ("left", "right")}
    checked = {"validation": {"77": label}, "extra_validations": {"56": "True", "43": "False"}, "writer": "103"}
    found = {"synset": "dog", "query": "two dogs2"}
    return {"identifier": identifier, "sentence": sentence, "label": label, **images, **checked, **found}


def written(folder: Path, rows: list[dict[str, Any]], name: str = "test1.json") -> Path:
    return write_file(folder / name, file_bytes(".jsonl", rows))


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """A file of the published size: 1,995 sentences of sets, of which 8 were written about two sets."""
    rng = np.random.default_rng(0)
    found = []
    for group in range(GROUPS):
        # Four pairs a set, of which one may be missing; two sentences a set; the first eight sentences come twice.
        set_, sentence = divmod(group, 2)
        number = group - 2 * REPEATED if 2 * REPEATED <= group < 3 * REPEATED else group
        for pair in range(4 if group < ROWS - 3 * GROUPS else 3):
            label = str(bool(rng.integers(2)))
            found.append(line(f"test1-{set_}-{pair}-{sentence}", f"Sentence {number}.", label))
    return [found[k] for k in rng.permutation(len(found))]


def official(rows: list[dict[str, Any]], predictions: dict[str, str]) -> tuple[float, float]:
    """Accuracy and consistency as the authors define them: a sentence of a set is all rows but for the third part."""
    right = {row["identifier"]: predictions[row["identifier"]].lower() == row["label"].lower() for row in rows}
    groups: dict[tuple[str, str, str], bool] = {}
    for identifier, one in right.items():
        split, set_, _, sentence = identifier.split("-")
        groups[split, set_, sentence] = groups.get((split, set_, sentence), True) and one
    return sum(right.values()) / len(right), sum(groups.values()) / len(groups)


@pytest.mark.slow
@pytest.mark.parametrize("accuracy", [0.5, 0.8, 0.95])
def test_the_authors_two_files_give_the_numbers_of_their_script(command, tmp_path, rows, accuracy):
    rng = np.random.default_rng(1)
    written(tmp_path / "nlvr" / "data", rows)  # a clone's folder nlvr2
    said = {row["identifier"]: str((row["label"] == "True") == (rng.random() < accuracy)) for row in rows}
    write_file(tmp_path / "p.csv", "".join(f"{identifier},{label}\n" for identifier, label in said.items()))
    ran = command("score", "nlvr2", "--scores", "p.csv", "--data", tmp_path / "nlvr", "--out", "run", "--json", code=0)
    metrics = ran.json["runs"][0]["benchmarks"]["nlvr2"]["metrics"]
    found = [(metrics[name]["value"], metrics[name]["n"]) for name in ("accuracy", "consistency")]
    right, consistent = (pytest.approx(value, abs=1e-12) for value in official(rows, said))
    assert found == [(right, ROWS), (consistent, GROUPS)]


def test_the_list_that_others_made_of_it_gives_the_same_groups(tmp_path, rows):
    own = read_nlvr2(written(tmp_path, rows))
    listed = [{"sentence": row.texts[0], "images": row.images, "label": str(row.gold)} for row in own.rows]
    found = read_nlvr2(write_file(tmp_path / "nlvr_test.json", listed))
    assert found.sentence_groups() == own.sentence_groups()
    assert len(own.sentence_groups()) == GROUPS
    assert len({row.texts for row in own.rows}) == GROUPS - REPEATED
    measured = [measure_statements(records, [bool(k % 3) for k in range(ROWS)]) for records in (found, own)]
    theirs, ours = ([units.values[0].strict.tolist() for units in each] for each in measured)
    assert theirs == ours


def test_a_line_is_read_with_its_images_and_its_group_and_images_that_tell_no_set_leave_it_to_the_sentence(tmp_path):
    lines = [line("dev-12-3-1", "Two dogs.", "False"), line("dev-12-0-1", "Two dogs."), line("dev-12-0-0")]
    found = read_nlvr2(written(tmp_path, lines, "dev.json"))
    first = found.rows[0]
    assert (first.id, *first.texts, first.gold) == ("dev-12-3-1", "Two dogs.", False)
    assert first.images == ("dev/dev-12-3-img0.png", "dev/dev-12-3-img1.png")
    assert found.sentence_groups() == ((0, 1), (2,))
    images = (["a.jpg", "b.jpg"], ["test1-0-0-img0.png", "test1-1-0-img1.png"], ["x/test1-0-0-img0.png"] * 2)
    path = write_file(tmp_path / "nlvr_test.json", [STATEMENT | {"images": own} for own in images])
    assert read_nlvr2(path).sentence_groups() == ((0, 1), (2,))


def test_a_file_that_was_cut_between_two_lines_is_refused_and_a_missing_one_named_with_where_to_get_it(tmp_path, rows):
    for name, file in (("nlvr2", "test1.json"), ("nlvr2-dev", "dev.json")):
        with raises(DataError, name, file, "https://github.com/lil-lab/nlvr/tree/master/nlvr2"):
            find_benchmark(name, Locations(tmp_path)).records()
    written(tmp_path, rows[:-1])
    with raises(DataError, "test1.json", "6,966", "benchmark", "6,967"):
        find_benchmark("nlvr2", Locations(tmp_path)).records()


@pytest.mark.parametrize(
    ("name", "file", "groups", "sentences"),
    [("nlvr2", "test1.json", 1_995, 1_987), ("nlvr2-dev", "dev.json", 2_018, 2_004)],
)
def test_the_published_files_have_their_groups(name, file, groups, sentences):
    records = find_benchmark(name, Locations(published("nlvr2", file).parent)).records()
    assert (len(records.sentence_groups()), len({row.texts for row in records.rows})) == (groups, sentences)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("test1-0-0-0,True\ntest1-0-0-0,False\n", ("p.csv:2", "id", "test1-0-0-0")),
        ("test1-0-0-0,yes or no\n", ("p.csv:1", "'prediction'", "'yes or no'")),
        ("test1-0-0-0,True,0.9\n", ("p.csv", "1", "1")),
        ("name,answer\ntest1-0-0-0,True\n", ("p.csv:2", "id")),
    ],
)
def test_predictions_without_a_header_are_refused_by_line(tmp_path, text, said):
    write_file(tmp_path / "p.csv", text)
    with raises(ScoreError, said):
        TASKS["nlvr2"].read(tmp_path / "p.csv", read_nlvr2(written(tmp_path, [line("test1-0-0-0")])))
    # A list without identifiers says which file has them.
    write_file(tmp_path / "p.csv", "test1-0-0-0,True\n")
    with raises(ScoreError, "test1-0-0-0", "test1.json", "dev.json"):
        TASKS["nlvr2"].read(tmp_path / "p.csv", read_nlvr2(write_file(tmp_path / "nlvr_test.json", [STATEMENT])))


# GEB+'s files: their published counts, and one clear error for whatever is done to them.

VIDEO = "Vt7W3DoohcA"
ROW = boundary(f"{VIDEO}_0A")


def gebplus(split: str) -> MomentSet:
    return read_moments(published("gebplus", f"{split}.json"))


def test_the_chance_level_of_the_validation_file_is_that_of_moments_drawn_at_random():
    found = gebplus("val")
    rng = np.random.default_rng(0)
    exact, drawn = np.zeros(8), np.zeros(8)
    for moment, gold in zip(found.rows, found.gold, strict=True):
        duration = found.duration(moment.cluster)
        exact += random_accuracy(gold, duration)
        away = np.abs(rng.uniform(0, duration, (10, 1)) - np.array(gold)).min(axis=1)
        drawn += (away[:, None] < np.array(TOLERANCES)).mean(axis=0)
    chance = (exact / len(found.rows)).round(4).tolist()
    assert chance == [0.0257, 0.0514, 0.1277, 0.2453, 0.3473, 0.4365, 0.5167, 0.5894]
    np.testing.assert_allclose(drawn / len(found.rows), chance, atol=0.005)


def test_a_perfect_model_is_held_back_only_by_the_frames():
    found = gebplus("val")
    strict, one = [], []
    for moment, gold in list(zip(found.rows, found.gold, strict=True))[::5]:
        candidates = boundary_times(frame_times(found.duration(moment.cluster)))
        closeness = -np.abs(candidates[:, None] - np.array(gold)).min(axis=1)
        strict.append(boundary_accuracy(candidates, closeness, gold)[0])
        one.append(boundary_f1(candidates, closeness, gold, predictions=1))
    ceiling = np.mean(strict, axis=0)
    assert 0.9 < ceiling[0] < 1  # candidates lie 0.2 s apart, and exactly half of that is not near enough
    assert (ceiling[2:] == 1).all()
    assert (np.mean(one, axis=0) <= ceiling).all()  # several gold moments, one prediction


def rows_of(read, *rows):
    return lambda folder: read(write_file(folder / "rows.json", [*rows]))


def questions_with(change):
    """Read VQA2's two files, changed."""

    def read(folder: Path) -> object:
        asked, given = copy.deepcopy(({"questions": ASKED}, {"annotations": GIVEN}))
        change(asked, given)
        return read_vqa2(write_file(folder / "q.json", asked), write_file(folder / "a.json", given))

    return read


def lines_with(**change):
    """Read NLVR2's lines, the second changed; a field that is None is left out."""
    second = {key: value for key, value in (line("test1-0-1-0") | change).items() if value is not None}
    return lambda folder: read_nlvr2(written(folder, [line("test1-0-0-0"), second]))


def moments_of(*rows):
    return lambda folder: read_moments(write_file(folder / "val.json", {VIDEO: [*rows]}))


#: What reads a file that is no such file, and the facts of its refusal.
#: What reads a file that is no such file, and the facts of its refusal.
REFUSED = [
    (questions_with(lambda q, a: q["questions"].clear()), ("q.json", "'questions'")),
    (questions_with(lambda q, a: a.pop("annotations")), ("object", "rows", "key")),
    (questions_with(lambda q, a: a["annotations"][0].update(question_id=8)), ("question_id", "0")),
    (questions_with(lambda q, a: a["annotations"][0].update(image_id=7)),
     ("question_id", "0", "'image_id'", "7", "40")),
    (questions_with(lambda q, a: a["annotations"][0]["answers"].clear()), ("0", "'answers'")),
    (questions_with(lambda q, a: q["questions"].append(q["questions"][0])), ("3", "'question_id'", "0", "0")),
    (rows_of(read_retrieval, CAPTION, {**CAPTION, "caption": []}), ("rows.json", "1", "'caption'", "empty")),
    (rows_of(read_retrieval, CAPTION, {**CAPTION, "captions": ["x"]}), ("rows.json", "1", "'captions'")),
    (rows_of(read_captions, CAPTION, {**CAPTION, "image_id": "0"}), ("rows.json", "1", "'image_id'", "0", "0")),
    (rows_of(read_captions, CAPTION, {**CAPTION, "image_id": True}), ("rows.json", "1", "'image_id'", "True")),
    (rows_of(read_statements, STATEMENT, {**STATEMENT, "label": "true"}),
     ("rows.json", "1", "'label'", "input", "'True'", "'False'", "'true'")),
    (rows_of(read_statements, STATEMENT, {**STATEMENT, "images": ["a.jpg"]}), ("rows.json", "1", "'images'", "2")),
    (rows_of(read_questions, QUESTION, QUESTION), ("rows.json", "1", "'question_id'", "5", "0")),
    (rows_of(read_boxes, BOX, {**BOX, "bbox": [1, 2, 0, 4]}), ("rows.json", "1", "'bbox'")),
    (rows_of(read_boxes, BOX, {**BOX, "width": 0}), ("rows.json", "1", "'width'", "input", "0")),
    (rows_of(read_boxes, BOX, ["man"]), ("rows.json", "1", "object", "ref_id")),
    (lines_with(identifier="test1-0-1"), ("test1.json:2", "'identifier'")),
    (lines_with(identifier=7), ("test1.json:2", "'identifier'", "7")),
    (lines_with(label="maybe"), ("test1.json:2", "'label'")),
    (lines_with(sentence=" "), ("test1.json:2", "'sentence'")),
    (lines_with(identifier="test1-0-0-0"), ("id", "'test1-0-0-0'")),
    (lines_with(identifier=None), ("test1.json:2", "'identifier'")),
    (moments_of(ROW | {"boundary_id": "xxxxxxxxxxx_0A"}), ("val.json", "0", "'boundary_id'", "'xxxxxxxxxxx_0A'")),
    (moments_of(ROW | {"timestamp": -1.0}), ("val.json", "0", "'timestamp'", "input", "0")),
    (moments_of(ROW | {"timestamp": 9.9}), ("val.json", "'timestamp'", "9.9", "0.0", "9.5")),
    (moments_of(ROW | {"subject": "a woman"}), ("val.json", "0", "'caption'")),
    (moments_of(ROW | {"extra": 1}), ("val.json", "0", "'extra'")),
    (moments_of(), (f"'{VIDEO}'", "video")),
    (moments_of(ROW, ROW | {"timestamp": 4.0}), ("1", "'boundary_id'", f"{VIDEO}_0A")),
]  # fmt: skip


@pytest.mark.parametrize(("read", "facts"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_no_row_of_a_file_is_named_with_its_field(read, facts, tmp_path):
    with raises(DataError, facts):
        read(tmp_path)
