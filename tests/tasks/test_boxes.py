"""Labels of statements and boxes of phrases: rules, files, and models that are asked."""

import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from facts import check_facts, raises
from pictures import plain
from published import published
from sets import write_file
from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.locations import Locations
from tellapart.benchmarks.published_tasks import read_refcoco, read_statements
from tellapart.data.strict_binary import read_plain_pickle
from tellapart.data.task_records import BoxSet, Record, StatementSet
from tellapart.errors import DataError
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.tasks.boxes import GROUNDING, measure_boxes
from tellapart.tasks.registry import TASKS
from tellapart.tasks.task import Session
from tellapart.tasks.words import measure_statements

Sides = tuple[float, float, float, float]


def made(*boxes: Sides) -> BoxSet:
    size = {"size": (100, 80)}
    rows = (Record(str(k), (f"{k % 2}.jpg",), (f"thing {k}",), box, facts=size) for k, box in enumerate(boxes))
    return BoxSet("made", tuple(rows))


def test_the_two_rules_differ_where_boxes_share_one_row_of_pixels():
    # X-VLM's rule finds no overlap in a single row, even of a box with itself.
    (units,) = measure_boxes(made((0, 0, 4, 1)), [(0, 0, 4, 1)])
    found = {one.name: one.strict.tolist() for one in units.values}
    assert found == {"box_accuracy": [0.0], "box_accuracy_plain": [1.0], "mean_iou": [0.0]}


def test_what_looks_like_shares_of_the_image_is_said():
    records, box = made((10, 10, 20, 20), (10, 10, 20, 20)), (10, 10, 20, 20)
    shares = "no number of any box is above 1: are they shares of the image? Pixels are expected"
    for boxes, notes in (
        ([(0.5, 0.5, 0.2, 0.2), (0.1, 0.1, 0.9, 0.9)], (shares,)),
        ([(200, 0, 5, 5), (1, 1, 5, 5)], ("1 of 2 boxes lie outside their image",)),
        ([box, box], ()),
    ):
        assert GROUNDING.notes(records, boxes) == notes


def _corners(box: Sides) -> Sides:
    return box[0], box[1], box[0] + box[2], box[1] + box[3]


def _shares(box: Sides, whole: float = 1) -> Sides:
    return tuple(whole * side / (100, 80)[k % 2] for k, side in enumerate(box))


@pytest.mark.parametrize(
    ("write", "form"),
    [
        (_corners, "corners (x1, y1, x2, y2) in pixels"),
        (lambda box: _shares(box, 1000), "x, y, width, height in 0 to 1000"),
        (lambda box: _shares(_corners(box), 1000), "corners (x1, y1, x2, y2) in 0 to 1000"),
        (lambda box: [_shares(_corners(box), 1000)[k] for k in (1, 0, 3, 2)], "corners (y1, x1, y2, x2) in 0 to 1000"),
        (_shares, "x, y, width, height as shares of the image"),
        (lambda box: _shares(_corners(box)), "corners (x1, y1, x2, y2) as shares"),
    ],
)
def test_the_form_that_boxes_of_another_one_look_like_is_said(write, form):
    records = made(*((40.0 + k, 30.0 + 2 * k, 12.0, 18.0) for k in range(8)))
    assert GROUNDING.notes(records, records.gold) == ()
    notes = GROUNDING.notes(records, [write(box) for box in records.gold])
    (note,) = [note for note in notes if note.startswith("the numbers look like")]
    assert f"like {form}" in note and "8 of 8" in note and "[x, y, width, height] in pixels" in note


def test_boxes_that_are_merely_wrong_look_like_no_other_form():
    drawn = np.random.default_rng(0)
    records = made(*(tuple(drawn.uniform(5, 40, 4)) for _ in range(60)))
    for boxes_ in (drawn.uniform(5, 40, (60, 4)), [np.roll(row.gold, 2) for row in records.rows]):
        notes = GROUNDING.notes(records, [tuple(map(float, box)) for box in boxes_])
        assert not any("look like" in note for note in notes)


def refcoco(folder: Path, *, protocol: int = 2, **changes) -> Path:
    refs = [
        {"sent_ids": [2 * k, 2 * k + 1], "ann_id": 10 + k, "ref_id": k, "image_id": k, "split": split, "category_id": 1}
        | {"file_name": f"COCO_train2014_00000000000{k}_1.jpg"}
        for k, split in enumerate(("train", "val", "testA", "testB"))
    ]
    for k, ref in enumerate(refs):
        ref["sentences"] = [
            {"tokens": [word, "man"], "raw": f"{word} Man", "sent_id": 2 * k + place, "sent": f"{word} man"}
            for place, word in enumerate(("blue", "tall"))
        ]
    refs[1] |= changes
    image = {"height": 80, "license": 1}
    images = [image | {"id": k, "file_name": f"COCO_train2014_{k}.jpg", "width": 100 + k} for k in range(4)]
    annotations = [{"id": 10 + k, "image_id": k, "bbox": [k, 1.5, 20, 30], "iscrowd": 0} for k in range(4)]
    write_file(folder / "refs(unc).p", pickle.dumps(refs, protocol=protocol))
    write_file(folder / "instances.json", {"images": images, "annotations": annotations})
    return folder


@pytest.mark.parametrize("protocol", range(6))
def test_refcoco_is_read_as_its_authors_ship_it(tmp_path, protocol):
    place = Locations(refcoco(tmp_path, protocol=protocol))
    found = {name: find_benchmark(f"refcoco+-{name}", place).records() for name in ("val", "testa", "testb", "test")}
    box, facts = (1.0, 1.5, 20.0, 30.0), {"size": (101, 80), "candidates": ()}
    phrases = {"2": "blue man", "3": "tall man"}
    assert found["val"].rows == tuple(
        Record(id_, ("COCO_train2014_1.jpg",), (phrase,), box, facts=facts) for id_, phrase in phrases.items()
    )
    assert found["test"].rows == found["testa"].rows + found["testb"].rows
    assert [box.id for box in found["testb"].rows] == ["6", "7"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ann_id": 99}, ("1", "'ann_id'", "instances.json", "99")),
        ({"split": 3}, ("1", "'split'")),
        ({"sentences": []}, ("1", "'sentences'")),
        ({"sentences": [{"sent": "", "sent_id": 1}]}, ("1", "'sentences[0].sent'")),
        ({"split": "train"}, "rows"),
    ],
)
def test_files_of_refcoco_that_do_not_fit_are_refused(tmp_path, changes, said):
    refcoco(tmp_path, **changes)
    with raises(DataError, said):
        read_refcoco(tmp_path / "refs(unc).p", tmp_path / "instances.json", splits=["val"])


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=4), inner, max_size=4)
        | st.tuples(inner, inner)
        | st.tuples(inner, inner, inner, inner)
    ),
    max_leaves=12,
)


@settings(max_examples=60)
@given(PLAIN, st.integers(0, 5))
def test_a_pickle_of_plain_data_is_read_as_pickle_reads_it(tmp_path_factory, found, protocol):
    path = tmp_path_factory.mktemp("p") / "a.p"
    path.write_bytes(pickle.dumps(found, protocol=protocol))
    assert read_plain_pickle(path) == found


class Finder:
    """Finds the first candidate, or the upper left corner."""

    name, fingerprint, kind = "finder", "finder:1", "logit"

    def find_boxes(self, images, phrases, candidates) -> list[Sides]:
        return [own[0] if own else (0.0, 0.0, 5.0, 5.0) for _, _, own in zip(images, phrases, candidates, strict=True)]


def test_a_model_that_finds_boxes_gets_the_candidates_of_each_phrase():
    candidates = {"a cup": ((1, 2, 9, 8), (0, 0, 4, 4)), "a dog": ()}
    rows = tuple(
        Record(str(k), ("a.png",), (phrase,), (1, 2, 9, 9), facts={"size": (30, 20), "candidates": boxes})
        for k, (phrase, boxes) in enumerate(candidates.items())
    )
    session = Session(pictures=lambda _: plain(size=(30, 20)), store=EmbeddingStore(None), batch_size=1)
    found = GROUNDING.runner(Finder())(Finder(), BoxSet("made", rows), session)
    assert found == [(1, 2, 9, 8), (0.0, 0.0, 5.0, 5.0)]


# NLVR2 as a task: labels from a file to accuracy and consistency, through the commands, and what is refused.


def stated(labels: Sequence[bool], sentences: Sequence[int]) -> StatementSet:
    rows = [
        Record(str(k), (f"{k}a.png", f"{k}b.png"), (f"Sentence {sentence}.",), label)
        for k, (label, sentence) in enumerate(zip(labels, sentences, strict=True))
    ]
    return StatementSet("made", tuple(rows))


def values(records: StatementSet, predictions: Sequence[Any]) -> dict[str, float]:
    measured = (one for units in measure_statements(records, predictions) for one in units.values)
    return {one.name: float(one.strict.mean()) for one in measured}


def test_an_answer_that_is_no_verdict_is_shown_with_what_was_expected():
    records, answers = stated([True, False, True], [0, 0, 1]), [True, "Perhaps, it is dark.", None]
    (note,) = TASKS["nlvr2"].notes(records, answers)
    check_facts(note, ("2 of 3", "'Perhaps, it is dark.'", "true or false"))
    assert values(records, answers)["accuracy"] == pytest.approx(1 / 3)
    assert TASKS["nlvr2"].notes(records, [True] * 3) == ()


@pytest.mark.slow
def test_the_published_file_gives_a_constant_answer_no_sentence_of_both_labels():
    records = read_statements(published("vlue", "nlvr2_vlue_test.json"))
    units = {units.noun: units for units in measure_statements(records, [True] * 5662)}
    expected = {"statement": 5662, "sentence": 3023, "sentence of both labels": 1274}
    assert {noun: len(one.units) for noun, one in units.items()} == expected
    assert units["statement"].values[0].strict.sum() == 2817  # and 2,845 are false
    assert not units["sentence of both labels"].values[0].strict.any()


def test_the_fingerprint_of_statements_without_sets_is_that_of_earlier_runs_and_a_hidden_one_shows_no_set():
    task, two = TASKS["nlvr2"], stated([True, False], [0, 1])
    session = Session(pictures=lambda reference: b"", store=EmbeddingStore(None))
    before = "records-b538b8f42f75c51e4793f1e86577e542c748792c4caf1eed2fc34d31153e45ba"
    grouped = replace(two, rows=tuple(replace(row, group="0") for row in two.rows))
    assert task.fingerprint_for(two, session) == before != task.fingerprint_for(grouped, session)
    row = Record("test1-0-1-0", ("a.png", "b.png"), ("Two dogs.",), True, group="test1-0--0")
    assert task.hiding.bare(row) == replace(row, gold=False, group="")


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 3)), min_size=1, max_size=12), st.randoms())
def test_consistency_is_never_above_accuracy_of_equally_long_sentences_and_the_order_changes_nothing(rows, random):
    labels, said, sentences = (list(column) for column in zip(*rows, strict=True))
    records = stated(labels, sentences)
    assert set(values(records, labels).values()) == {1.0}
    assert set(values(records, [not label for label in labels]).values()) == {0.0}
    found = values(records, said)
    each = [np.mean([labels[k] == said[k] for k in group]) for group in records.sentence_groups()]
    assert found["consistency"] <= np.mean(each) + 1e-12
    labels, said, sentences = zip(*random.sample(rows, len(rows)), strict=True)
    assert values(stated(labels, sentences), said) == found
