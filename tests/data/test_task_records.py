"""Records of tasks: what they refuse, and which rows they put together."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts import raises
from tellapart.data.task_records import (
    BoxSet,
    CaptionSet,
    ClassificationSet,
    MomentSet,
    QuestionSet,
    Record,
    RetrievalSet,
    StatementSet,
    align,
    check_templates,
    make_moment,
)
from tellapart.errors import DataError


def questions(*rows: tuple[str, ...]) -> QuestionSet:
    """Rows of a question, its image and its answers."""
    return QuestionSet("q", tuple(Record(str(k), (row[1],), (row[0],), row[2:]) for k, row in enumerate(rows)))


def moment(id_: str, time: float, before: str = "stands", after: str = "sits", video: str = "v") -> Record:
    return make_moment(id_, video, time, ("a man", before, after), "Change of Action", time + 1)


@given(st.lists(st.lists(st.text(max_size=3), min_size=1, max_size=4), min_size=1, max_size=6))
def test_a_gallery_knows_the_image_of_every_caption(captions):
    found = RetrievalSet.of("g", [f"{k}.png" for k in range(len(captions))], captions)
    assert [found.captions[c] for _, c in found.pairs] == [text for own in captions for text in own]
    owners = [found.images[i] for i, _ in found.pairs]
    assert owners == list(found.caption_clusters)
    assert [owners.count(image) for image in found.images] == [len(own) for own in captions]
    # A caption of several images is resampled with the first.
    assert gallery("ba", "xy", (1, 0), (0, 1), (0, 0)).caption_clusters == ("b", "b")


def test_sentences_are_grouped_and_those_with_both_labels_told_apart():
    rows = [("A", True), ("B", True), ("A", False), ("C", True), ("C", True)]
    found = StatementSet("s", tuple(Record(str(k), ("l", "r"), (text,), label) for k, (text, label) in enumerate(rows)))
    assert found.sentence_groups() == ((0, 2), (1,), (3, 4))
    assert found.sentence_groups(both_labels=True) == ((0, 2),)


def test_a_complementary_pair_is_one_question_two_images_two_answers():
    rows = [
        *((" one CUP? ", "b", "no"), ("What?", "a", "cup")),
        ("What?", "b", "cup"),  # the same answer
        *(("Where?", "a", "left"), ("Where?", "a", "right")),  # the same image
        *(("Who?", str(k), str(k)) for k in (6, 7, 8)),  # three rows
        *(("When?", "a", "now"), ("One cup?", "a", "yes")),
    ]
    assert questions(*rows).complementary_pairs() == ((0, 9),)


def test_gold_answers_are_one_a_question():
    assert questions(("?", "a", "yes"), ("?", "b", "no")).gold == ("yes", "no")
    with raises(DataError, "q", "1", "2"):
        _ = questions(("?", "a", "yes"), ("?", "b", "no", "yes")).gold
    with raises(DataError, "q", "1", "()"):
        questions(("?", "a", "yes"), ("?", "b"))


def test_moments_at_one_time_stay_apart_and_one_change_at_two_times_has_both_as_gold():
    rows = (
        moment("v_1A", 5.0, "sits", "stands"),
        moment("v_0A", 2.0),
        moment("v_0B", 2.0, "is on his feet", "is on a chair"),
        moment("v_2A", 7.0),
        moment("w_0A", 9.0, video="w"),
    )
    found = MomentSet("m", rows)
    expected = {"v": ["v_0A", "v_0B", "v_1A", "v_2A"], "w": ["w_0A"]}
    assert {video: [m.id for m in own] for video, own in found.videos.items()} == expected
    assert (found.gold, found.duration("v")) == (((5.0,), (2.0, 7.0), (2.0,), (2.0, 7.0), (9.0,)), 8.0)
    assert rows[0].texts[0] == "a man sits"
    with raises(DataError, "m", "'x'"):
        found.duration("x")


def test_predictions_are_put_in_the_order_of_the_ids_or_refused():
    assert align(["b", "a"], {"a": 1, "b": 2}) == [2, 1]
    with raises(DataError, "id", "1", "2", "b", "2"):
        align(["a", "b"], {"a": 1, "x": 2, "y": 3}, "answers")
    with raises(DataError, "12", "12", "0, 1, 2, 3, 4, 5, 6, 7, 8, 9", "2"):
        align([str(k) for k in range(12)], {})


CATS = (Record("0", ("0.png",), (), 0), Record("1", ("1.png",), (), 1))


def test_every_class_is_put_into_every_template_and_braces_in_a_name_stay():
    found = ClassificationSet("s", CATS, ("cat", "{0}"), ("a {}.", "{}!"))
    assert found.prompts == (("a cat.", "a {0}."), ("cat!", "{0}!"))


def gallery(images: str, captions: str, *pairs: tuple[int, int]) -> RetrievalSet:
    return RetrievalSet("s", tuple(images), tuple(captions), pairs)


def classes(**changes) -> ClassificationSet:
    fields = {"rows": CATS, "classes": ("cat", "dog"), "templates": ("{}",)} | changes
    return ClassificationSet("s", **fields)


#: What makes no set, and the facts of its refusal.
#: What makes no set, and the facts of its refusal.
REFUSED: list[tuple[Callable[[], Any], tuple[str, ...]]] = [
    (lambda: StatementSet("s", ()), ("s", "rows")),
    (lambda: MomentSet("s", tuple(moment(id_, 1.0) for id_ in "abb")), ("s", "id", "'b'", "repeated")),
    (lambda: gallery("a", "x"), ("s", "pairs", "image")),
    (lambda: gallery("a", "x", (0, 0), (0, 0)), ("(0, 0)", "pair")),
    (lambda: gallery("a", "x", (1, 0)), ("s", "1", "1", "pairs")),
    (lambda: gallery("a", "x", (0, -1)), ("s", "-1", "1")),
    (lambda: gallery("ab", "x", (0, 0)), ("s", "1", "1", "images")),
    (lambda: gallery("a", "xy", (0, 1)), ("s", "1", "0")),
    (lambda: RetrievalSet.of("s", ["a", "b"], [["x"]]), ("s", "2", "1")),
    (lambda: RetrievalSet.of("s", ["a", "b"], [["x"], []]), ("1", "1", "images")),
    (lambda: BoxSet("s", (Record("7", ("a",), ("man",), (0.0, 0.0, 5.0, -1.0), facts={"size": (9, 9)}),)),
     ("s", "7", "box")),
    (lambda: CaptionSet("s", (Record("0", ("a",), (), ("x",)), Record("1", ("b",), (), ()))), ("s", "1", "1")),
    (lambda: classes(classes=("cat",)), ("s", "1", "classes")),
    (lambda: classes(classes=("cat", " ")), ("s", "class 1", "name")),
    (lambda: classes(classes=("cat", "cat")), ("classes", "'cat'")),
    (lambda: classes(templates=()), ("s", "template", "a photo of a {}")),
    (lambda: classes(templates=("a photo",)), ("s", "template 1", "{}", "'a photo'")),
    (lambda: classes(templates=("{}", "{} {}")), ("s", "template 2", "{}")),
    (lambda: classes(templates=("{}", "{}")), ("s", "template", "repeated")),
    (lambda: classes(rows=(Record("7", ("7.png",), (), 2),)), ("s", "7", "2", "2", "0")),
    (lambda: check_templates(("{0}",), "templates.txt"), ("templates.txt", "1")),
]  # fmt: skip


@pytest.mark.parametrize(("make", "facts"), REFUSED, ids=range(len(REFUSED)))
def test_what_makes_no_set_is_refused(make, facts):
    with raises(DataError, *facts):
        make()
