"""From a survey to answers.

Whatever the side an option stood on and the file it came back in, the answer is the same.
"""

import csv
import json

import pytest
from PIL import Image

from facts import raises
from tellapart.annotate.findings import human_rows
from tellapart.annotate.study import read_answers, write_answers, write_rows
from tellapart.annotate.surveys import Earlier, find_survey, usable
from tellapart.benchmarks import published_tasks
from tellapart.errors import DataError

CHOICES = [(survey, (2, 2)) for survey in ("coco-cf", "i2t", "t2i", "ambiguity", "match")]
CHOICES += [("coco-cf", (1, 2)), ("i2t", (1, 5)), ("t2i", (4, 1))]


@pytest.mark.parametrize(("survey", "shape"), CHOICES)
def test_who_chooses_the_true_option_is_right_wherever_it_stood(desk, knows, survey, shape):
    at = desk(survey, shape=shape, n=10)
    person = knows(at)
    assert at.study.token[0].isalpha()  # a spreadsheet would take other tokens for numbers
    answers = at.imported(at.export(person))
    write_answers(at.folder, answers)
    assert read_answers(at.folder, at.study) == answers
    assert [answer.task for answer in answers] == [task.id for task in at.study.tasks]
    assert all(value == at.study.unit_of[each.unit].truth for each in answers for value in each.values.values())
    assert at.imported(at.export_minimal(person)) == answers
    assert at.imported(*at.sheets(person)) == answers
    assert all(row.strict.value == 1 and row.ties == 0 for row in human_rows([(at.study, answers)]))


@pytest.mark.parametrize("reply", ["Both", "both", " NEITHER "])
def test_both_and_neither_are_read_in_any_case(desk, reply):
    at = desk("coco-cf", n=2)
    answers = at.imported(*at.sheets(lambda *_: {"caption": reply}))
    assert {answer.values["caption"] for answer in answers} == {reply.strip().lower()}


def test_a_skipped_task_is_kept_as_skipped(desk, knows):
    at = desk("i2t", n=3)
    knowing = knows(at)

    def person(annotator, view):
        return None if annotator == "bob" else knowing(annotator, view)

    answers = at.imported(at.export(person))
    assert {answer.annotator for answer in answers if answer.skipped} == {"bob"}
    assert len(answers) == len(at.study.tasks)
    assert at.imported(*at.sheets(person)) == answers
    # JSON_MIN has no skipped tasks: they are missing, and said to be.
    with raises(DataError, "6", "12", "bob-00001", "partial=True"):
        at.imported(at.export_minimal(person))
    assert at.imported(at.export_minimal(person), partial=True) == [each for each in answers if not each.skipped]


def test_exports_of_several_projects_and_sheets_come_together(desk, knows):
    at = desk("i2t", n=3)
    person = knows(at)
    whole = json.loads(at.export(person).read_text())
    ann = at.folder.parent / "ann.json"
    ann.write_text(json.dumps([task for task in whole if task["data"]["task"].startswith("ann")]))
    bob = at.sheets(person)[1]
    assert at.imported(bob, ann) == at.imported(at.export(person))


def test_sheets_of_european_spreadsheets_are_read(desk, knows):
    at = desk("i2t", n=3)
    sheets = at.sheets(knows(at))
    answers = at.imported(*sheets)
    for path in sheets:
        with path.open(newline="") as stream:
            rows = list(csv.reader(stream))
        with path.open("w", newline="", encoding="utf-8-sig") as stream:
            csv.writer(stream, delimiter=";").writerows(rows)
    assert sheets[0].read_bytes().startswith(b"\xef\xbb\xbfstudy;task;")
    assert at.imported(*sheets) == answers


def test_the_best_of_four_images_is_the_one_with_most_votes(desk):
    at = desk("best-image", shape=(4, 1), n=4, annotators=("ann", "bob", "cem"))
    by_text = {item.texts[0]: item for item in at.pairs.items}
    votes = [("2", "2", "0"), ("none", "none", "1"), ("0", "1", "none"), ("3", "3", "3")]

    def person(annotator, view):
        item = by_text[view["text_0"]]
        vote = votes[int(item.id[-1])][("ann", "bob", "cem").index(annotator)]
        if vote == "none":
            return {"image": "None"}
        seen = at.content(item.images[int(vote)])
        (letter,) = (name[-1].upper() for name, value in view.items() if value == seen)
        return {"image": letter}

    rows = find_survey("best-image").records(at.study, at.imported(at.export(person)))
    chosen = {row["id"]: row["image"] for row in rows}
    images = {item.id: item.images for item in at.pairs.items}
    assert chosen == {"item-0": images["item-0"][2], "item-1": None, "item-2": None, "item-3": images["item-3"][3]}
    assert rows[0]["votes"] == {images["item-0"][2]: 2, images["item-0"][0]: 1}


def test_items_that_people_cannot_tell_apart_are_ambiguous(desk, knows):
    at = desk("ambiguity", n=3)
    knowing = knows(at)
    unclear = at.pairs.items[1].texts[1]

    def person(annotator, view):
        return {"image": "Both"} if view["text_0"] == unclear else knowing(annotator, view)

    rows = find_survey("ambiguity").records(at.study, at.imported(at.export(person)))
    assert {row["id"]: row["ambiguous"] for row in rows} == {"item-0": False, "item-1": True, "item-2": False}


def test_captions_make_a_retrieval_and_a_caption_set(desk, tmp_path):
    at = desk("caption", shape=(1, 2), n=4)

    def person(annotator, view):
        if annotator == "bob":
            return {"caption": "There is a cat on the mat with a red and a blue ball."}
        return {"caption": f"Noise of {view['image_0'][:4]} in eight small squares of colour."}

    answers = at.imported(at.export(person))
    assert {tuple(answer.problems) for answer in answers if answer.annotator == "bob"} == {("starts with 'there is'",)}
    write_rows(tmp_path / "itr.json", find_survey("caption").records(at.study, usable(answers)))
    read = published_tasks.read_retrieval(tmp_path / "itr.json")
    assert sorted(read.images) == sorted(item.images[0] for item in at.pairs.items)
    assert len(read.captions) == 4
    assert all(at.content(image)[:4] in caption for image, caption in zip(read.images, read.captions, strict=True))
    assert published_tasks.read_captions(tmp_path / "itr.json").gold[0] == (read.captions[0],)


@pytest.mark.parametrize(
    ("caption", "problems"),
    [
        ("A man rides a small red bicycle home.", []),
        ("A man rides a red bicycle.", ["has 6 words, fewer than 8"]),
        ("There is.", ["has 2 words, fewer than 8", "starts with 'there is'"]),
        ("There isn't anybody who rides a red bicycle here.", []),
    ],
)
def test_a_caption_has_eight_words_and_does_not_begin_with_there_is(desk, caption, problems):
    at = desk("caption", shape=(1, 2), n=1)
    assert at.imported(at.export(lambda *_: {"caption": caption}))[0].problems == problems


def test_statements_make_an_nlvr2_set(desk, tmp_path):
    at = desk("statement", shape=(2, 1), n=4, annotators=("ann",))
    drafts = {f"Draft: {item.texts[0]}": item for item in at.pairs.items}

    def person(_annotator, view):
        item = drafts[view["text_0"]]
        return {"statement": f"Both show {item.id}.", "label": "True" if item.id == "item-1" else "False"}

    answers = at.imported(*at.sheets(person))
    write_rows(tmp_path / "nlvr2.json", find_survey("statement").records(at.study, answers))
    read = {row.texts[0]: row for row in published_tasks.read_statements(tmp_path / "nlvr2.json").rows}
    for item in at.pairs.items:
        statement = read[f"Both show {item.id}."]
        assert (statement.images, statement.gold) == (item.images, item.id == "item-1")


def test_a_question_is_answered_for_each_image_wherever_it_stood(desk, tmp_path):
    at = desk("question", shape=(2, 2), n=8, annotators=("ann",))
    colour = {at.content(image): f"colour {k}" for item in at.pairs.items for k, image in enumerate(item.images)}

    def person(_annotator, view):
        own = {f"answer_{side}": colour[view[f"option_{side}"]] for side in "ab"}
        return {"question": f"Which colour has {min(view['option_a'], view['option_b'])[:6]}?", **own}

    answers = at.imported(at.export(person))
    assert len({tuple(task.order) for task in at.study.tasks}) == 2  # both sides occurred
    assert not any(answer.problems for answer in answers)
    write_rows(tmp_path / "vqa.json", find_survey("question").records(at.study, answers))
    read = published_tasks.read_questions(tmp_path / "vqa.json")
    assert all(question.gold == (colour[at.content(question.images[0])],) for question in read.rows)
    assert len(read.complementary_pairs()) == 8


@pytest.mark.parametrize(
    ("answers", "problems"),
    [
        (("Two", "red"), []),
        (("two", "2."), ["both answers are '2'"]),
        (("red", "mauve"), ["'mauve' is not in the list of answers"]),
    ],
)
def test_the_answers_to_a_question_differ_and_are_in_the_list(desk, answers, problems):
    at = desk("question", n=1, annotators=("ann",))
    reply = {"question": "What?", "answer_a": answers[0], "answer_b": answers[1]}
    (answer,) = at.imported(at.export(lambda *_: reply), allowed=frozenset({"2", "red"}))
    assert answer.problems == problems


def test_a_box_and_then_its_phrase_make_a_grounding_set(desk, tmp_path):
    first = desk("box", shape=(1, 2), n=5, annotators=("ann",))
    lonely = first.content(first.pairs.items[2].images[0])
    forgetful = first.content(first.pairs.items[3].images[0])

    def draw(_annotator, view):
        if view["image_0"] == lonely:
            return {"several": "No"}
        if view["image_0"] == forgetful:
            return {"several": "Yes", "object": "cup"}
        return {"several": "Yes", "object": "cup", "box": [1, 2, 3, 4]}

    boxes = first.imported(first.export(draw))
    assert boxes == first.imported(first.export_minimal(draw)) == first.imported(*first.sheets(draw))
    problems = {answer.unit: answer.problems for answer in boxes if answer.problems}
    assert problems == {"item-3/image 0": ["no box is drawn"]}

    earlier = Earlier(first.study, tuple(boxes))
    with raises(DataError, "ann", "box study"):
        desk("expression", shape=(1, 2), n=5, annotators=("ann",), earlier=earlier)
    second = desk("expression", shape=(1, 2), n=5, annotators=("bob",), earlier=earlier)
    assert {unit.item for unit in second.study.units} == {"item-0", "item-1", "item-4"}
    for path in (second.folder / "images").iterdir():
        image = Image.open(path)
        assert [image.getpixel(corner) for corner in ((1, 2), (4, 2), (1, 6), (4, 6))] == [(255, 0, 0)] * 4
        assert image.getpixel((7, 0)) != (255, 0, 0)

    reply = iter(["the red one", "the left one", "the blue one"])
    phrases = second.imported(second.export(lambda *_: {"expression": next(reply)}))
    assert [answer.problems for answer in phrases].count(["names a place: left"]) == 1
    write_rows(tmp_path / "refcoco+.json", find_survey("expression").records(second.study, usable(phrases)))
    rows = published_tasks.read_boxes(tmp_path / "refcoco+.json").rows
    assert {(row.gold, row.facts["size"]) for row in rows} == {((1.0, 2.0, 3.0, 4.0), (8, 8))}
    assert {row.texts for row in rows} == {("the red one",), ("the blue one",)}


def test_errors_are_sampled_and_put_into_categories(desk, knows):
    first = desk("coco-cf", n=4)
    knowing = knows(first)
    hard = first.content(first.pairs.items[2].images[1])

    def person(who, view):
        return {"caption": "Both"} if view["image_0"] == hard else knowing(who, view)

    answers = first.imported(first.export(person))
    second = desk("error-category", n=4, annotators=("cem",), earlier=Earlier(first.study, tuple(answers)))
    (unit,) = second.study.units
    item = first.pairs.items[2]
    assert unit.images == [item.images[1]]
    assert unit.texts == [f"Its caption: {item.texts[1]}", f"Another caption: {item.texts[0]}"]
    assert unit.earlier == {"chosen": ["both", "both"]}
    (answer,) = second.imported(second.export(lambda *_: {"category": "Wrong number of objects"}))
    assert answer.values == {"category": "wrong number of objects"}
