"""From a survey to answers, of a few people and of a crowd; files that are wrong are named with their row."""

import csv
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from facts import check_facts, raises
from sets import write_file
from tellapart.annotate.findings import human_rows
from tellapart.annotate.study import read_allowed, read_answers, read_study, write_answers, write_rows
from tellapart.annotate.surveys import Earlier, Study, find_survey, usable
from tellapart.benchmarks import published_tasks
from tellapart.errors import DataError, TellapartWarning

BOX = {"several": "Yes", "object": "cup", "box": [1, 2, 3, 4]}
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


def test_both_and_neither_are_read_in_any_case(desk):
    at, replies = desk("coco-cf", n=2), ("Both", "both", " NEITHER ", "neither")
    said = iter(replies * 2)
    answers = at.imported(*at.sheets(lambda *_: {"caption": next(said)}))
    assert {answer.values["caption"] for answer in answers} == {"both", "neither"}


def test_a_skipped_task_is_kept_as_skipped(desk, knows):
    at = desk("i2t", n=3)
    knowing = knows(at)

    def person(annotator, view):
        return None if annotator == "bob" else knowing(annotator, view)

    answers = at.imported(at.export(person))
    assert {answer.annotator for answer in answers if answer.skipped} == {"bob"}
    assert (len(answers), at.imported(*at.sheets(person))) == (len(at.study.tasks), answers)
    # JSON_MIN has no skipped tasks: they are missing, and said to be.
    with raises(DataError, "6", "12", "bob-00001", "partial=True"):
        at.imported(at.export_minimal(person))
    assert at.imported(at.export_minimal(person), partial=True) == [each for each in answers if not each.skipped]


def test_exports_and_sheets_come_together_and_european_spreadsheets_are_read(desk, knows):
    at = desk("i2t", n=3)
    person = knows(at)
    whole, ann = at.export(person), at.folder.parent / "ann.json"
    tasks = json.loads(whole.read_text())
    ann.write_text(json.dumps([task for task in tasks if task["data"]["task"].startswith("ann")]))
    sheets, answers = at.sheets(person), at.imported(whole)
    assert at.imported(sheets[1], ann) == answers
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


@pytest.mark.parametrize("lacking", [(), (0, 1)])
def test_what_people_cannot_tell_apart_is_ambiguous_and_what_lacks_an_answer_is_not_clear(desk, knows, lacking):
    at = desk("ambiguity", n=3)
    knowing, unanswered = knows(at), {at.pairs.items[k].texts[1] for k in lacking}
    unclear = at.pairs.items[1].texts[0]

    def person(annotator, view):
        if view["text_0"] in unanswered:
            return None
        return {"image": "Both"} if view["text_0"] == unclear else knowing(annotator, view)

    rows = find_survey("ambiguity").records(at.study, usable(at.imported(at.export(person))))
    clear = {f"item-{k}": False for k in (0, 2) if k not in lacking}
    assert {row["id"]: row["ambiguous"] for row in rows} == {"item-1": True, **clear}


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


def test_a_caption_has_eight_words_and_does_not_begin_with_there_is(desk):
    at = desk("caption", shape=(1, 2), n=1)
    for caption, *problems in (
        ("A man rides a small red bicycle home.",),
        ("A man rides a red bicycle.", "has 6 words, fewer than 8"),
        ("There is.", "has 2 words, fewer than 8", "starts with 'there is'"),
        ("There isn't anybody who rides a red bicycle here.",),
        ("The man’s dog’s red ball - a toy.", "has 7 words, fewer than 8"),  # as Word writes an apostrophe
    ):
        assert at.imported(at.export(lambda *_, said=caption: {"caption": said}))[0].problems == problems


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
    before = at.imported(at.export(lambda *_: reply))
    (again,) = at.imported(earlier=before, allowed=frozenset({"2", "red"}))  # a later import brings the list
    assert again == answer
    (anew,) = at.imported(at.export(lambda *_: reply), earlier=[answer])  # the same file once more, without the list
    assert anew == answer


def test_a_box_and_then_its_phrase_make_a_grounding_set(desk, tmp_path):
    first = desk("box", shape=(1, 2), n=5, annotators=("ann",))
    lonely = first.content(first.pairs.items[2].images[0])
    forgetful = first.content(first.pairs.items[3].images[0])

    def draw(_annotator, view):
        if view["image_0"] == lonely:
            return {"several": "No"}
        return {"several": "Yes", "object": "cup"} if view["image_0"] == forgetful else BOX

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
    knowing, hard = knows(first), first.content(first.pairs.items[2].images[1])

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


Row = dict[str, str]


def batch(at, person, workers: list[list[str]], status: str = "Approved") -> list[Row]:
    """MTurk's results of ann's sheet: a row for each worker of each HIT, who all see it as ann would."""
    with (at.folder / "sheets" / "ann.csv").open(newline="") as stream:
        sheet = list(csv.DictReader(stream))
    return [
        {"HITId": f"H{number}", "WorkerId": worker, "AssignmentStatus": status}
        | {f"Input.{name}": cell for name, cell in row.items()}
        | {f"Answer.{name}": cell for name, cell in person(worker, view).items()}
        | {"Approve": "", "Reject": ""}
        for number, (row, (_, view)) in enumerate(zip(sheet, at.seen("ann"), strict=True))
        for worker in workers[number % len(workers)]
    ]


def test_workers_of_one_sheet_take_the_places_of_the_annotators(desk, knows, tmp_path):
    at = desk("i2t", n=4)
    person = knows(at)

    def crowd(worker: str, view: Mapping[str, str]) -> Row:
        right = person(worker, view)["caption"]
        return {"caption": right if worker != "W9" else "BA"["AB".index(right)]}

    # Each HIT has two of four workers; W9 is always wrong, and sees options in ann's order, not in bob's.
    rows = batch(at, crowd, [["W1", "W9"], ["W9", "W2"], ["W3", "W1"]])
    answers = at.imported(write_file(tmp_path / "batch.csv", rows))
    assert [answer.task for answer in answers] == [task.id for task in at.study.tasks]
    right = [answer.values["caption"] == at.study.unit_of[answer.unit].truth for answer in answers]
    assert len(right) - sum(right) == sum(row["WorkerId"] == "W9" for row in rows)
    first = {answer.unit: answer for answer in answers if answer.annotator == "ann"}
    order = [task.unit for task in at.study.tasks if task.annotator == "ann"]
    assert first[order[0]].values["caption"] == at.study.unit_of[order[0]].truth  # W1 was the first
    assert first[order[1]].values["caption"] != at.study.unit_of[order[1]].truth


def test_rejected_assignments_are_left_out_and_a_worker_counts_once(desk, knows, tmp_path):
    at, path = desk("i2t", n=2), tmp_path / "batch.csv"
    bad = batch(at, lambda *_: {"caption": "no letter"}, [["W3"]], "Rejected")
    with pytest.warns(TellapartWarning, match="rejected: 4"):
        assert len(at.imported(write_file(path, [*bad, *batch(at, knows(at), [["W1", "W2"]])]))) == 8
    for rows, *facts in (
        ([{**bad[0], "AssignmentStatus": "Submitted"}], "caption", "no letter", "A, B"),
        (batch(at, knows(at), [["W1", "W1"]]), "batch.csv:3", "'W1'", "image", "keep one"),
        (batch(at, knows(at), [["W1", "W2", "W3"]]), "batch.csv:4", "2 annotators", "export"),
    ):
        with raises(DataError, *facts):
            at.imported(write_file(path, rows))


def test_a_table_of_another_tool_is_read_by_its_columns(desk, knows, tmp_path):
    at = desk("i2t", n=2, annotators=("ann",))
    names = {"Input.study": "S", "Input.task": "Q1", "WorkerId": "PROLIFIC_PID", "Answer.caption": "Q2, chosen"}
    rows = [{names[name]: row[name] for name in names} for row in batch(at, knows(at), [["p1"], ["p2"]])]
    path = write_file(tmp_path / "survey.csv", rows)
    columns = {"study": "S", "task": "Q1", "worker": "PROLIFIC_PID"}
    by_answer = at.imported(path, columns={**columns, "answer": "Q2, chosen"})
    assert by_answer == at.imported(path, columns={**columns, "caption": "Q2, chosen"})
    assert all(answer.values["caption"] == at.study.unit_of[answer.unit].truth for answer in by_answer)
    people = {"Submission id": "1", "Participant id": "p1", "Status": "APPROVED", "Age": "30"}
    for file, named, *facts in (
        (path, None, "survey.csv:2", "'study'", "columns={'study': 'COLUMN'}"),
        (path, {**columns, "answer": "Q9"}, "survey.csv:2", "'Q9'"),
        (path, {"item": "Q1"}, "'item'", "study, task, worker, skip, caption"),
        (write_file(tmp_path / "people.csv", [people]), None, "people.csv:2", "Prolific", "no answers", "tool"),
    ):
        with raises(DataError, *facts):
            at.imported(file, columns=named)


@pytest.mark.filterwarnings("default::tellapart.errors.TellapartWarning")
def test_the_command_names_columns_and_prints_what_it_left_out(command, desk, knows):
    at = desk("i2t", n=2)
    rows = batch(at, knows(at), [["W1", "W2"]])
    rows.append({**rows[0], "WorkerId": "W4", "AssignmentStatus": "Rejected"})
    renamed = [{name.replace("Answer.caption", "Answer.choice"): cell for name, cell in row.items()} for row in rows]
    path = write_file(at.folder.parent / "batch.csv", renamed)
    refused = command("annotate", "import", at.folder, path, code=2)
    check_facts(refused.err, "batch.csv:2", "'Answer.caption'", "--columns caption=COLUMN")
    read = command("annotate", "import", at.folder, path, "--columns", "answer=Answer.choice")
    assert "8 of 8 tasks answered" in read.out
    check_facts(read.err, "warning", "batch.csv", "rejected: 1")


Rows = list[dict[str, Any]]


@pytest.fixture
def asked(desk, knows):
    at = desk("coco-cf", n=2, annotators=("ann",))
    return at, at.export(knows(at))


def broken(path: Path, change: Callable[[Any], object]) -> Path:
    """Change what a JSON file holds; a tuple has what it then holds in its place."""
    held = json.loads(path.read_text())
    changed = change(held)
    return write_file(path, changed[0] if isinstance(changed, tuple) else held)


def result(rows: Rows) -> dict[str, Any]:
    return rows[0]["annotations"][0]["result"][0]


def other_answer(row: dict[str, Any]) -> dict[str, Any]:
    """A copy of a task whose annotation has the other choice, as a second annotator may give."""
    other: dict[str, Any] = json.loads(json.dumps(row))
    value = result([other])["value"]
    value["choices"] = ["B" if value["choices"] == ["A"] else "A"]
    return other


def add_other(rows: Rows) -> None:
    rows[1]["annotations"] += other_answer(rows[1])["annotations"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[1]["data"].update(task="zoe-00001"), ("task", "1", "task", "'zoe-00001'")),
        (lambda rows: rows[0]["data"].update(study="feed"), ("task", "0", "task", "ann-00001", "'feed'")),
        (lambda rows: rows[0]["data"].pop("task"), ("task", "0", "task", "export")),
        (lambda rows: rows.pop(), ("1", "4", "ann-00004", "all")),
        (lambda rows: rows[2]["annotations"].clear(), ("1", "4", "ann-00003")),
        (add_other, ("task", "1", "task", "ann-00002", "/image", "task", "1")),
        (lambda rows: rows.append(other_answer(rows[0])), ("task", "4", "task", "ann-00001")),
        (lambda rows: result(rows)["value"].update(choices=["C"]), ("'caption'", "'C'", "A", "B")),
        (lambda rows: result(rows)["value"].update(choices=["A", "B"]), ("'caption'", "2", "['A', 'B']")),
        (lambda rows: result(rows)["value"].update(choices=[]), ("task", "ann-00001", "'caption'", "answer")),
        (lambda rows: result(rows).update(from_name="mood"), ("'mood'", "caption")),
        (lambda rows: result(rows).pop("from_name"), "`from_name`"),
        (lambda rows: result(rows).update(value={"brush": 1}), ("choice", "text")),
        (lambda rows: rows[0].update(annotations={}), ("object", "data")),
        (lambda rows: rows[0].update(annotations=["x"]), ("'x'", "annotations")),
        (lambda rows: rows[0].pop("annotations"), ("JSON", "JSON_MIN")),
        (lambda rows: rows.insert(0, "x"), ("task", "0", "object", "'x'")),
        (lambda rows: ({"tasks": rows},), ("Label", "Studio")),
        (lambda rows: ([],), ("list", "tasks")),
    ],
)
def test_a_wrong_export_is_named(asked, change, message):
    at, path = asked
    with raises(DataError, message):
        at.imported(broken(path, change))


def test_a_wrong_sheet_and_a_minimal_export_of_an_unanswered_task_are_named(desk, knows):
    at, empty = desk("coco-cf", n=2, annotators=("ann",)), {"annotation_id": None}
    for reply, *facts in (
        ({"caption": "maybe"}, "filled_ann.csv:2", "task", "ann-00001", "'caption'", "'maybe'"),
        ({"caption": "A", "skip": "yes"}, "task", "ann-00001", "skipped"),
        ({"study": "feed", "caption": "A"}, "filled_ann.csv:2", "task", "ann-00001", "'feed'"),
        ({"task": "ann-00009", "caption": "A"}, "task", "'ann-00009'"),
        ({}, "4", "4", "answer"),
    ):
        with raises(DataError, *facts):
            at.imported(*at.sheets(lambda *_, said=reply: said))
    with raises(DataError, "a.csv:2", "'caption'"):
        at.imported(write_file(at.folder.parent / "a.csv", [{"study": "x", "task": "y"}]))
    path = broken(at.export_minimal(knows(at)), lambda rows: [rows[0].pop("caption"), rows[0].update(empty)])
    with raises(DataError, "1", "4", "ann-00001"):
        at.imported(path)


@pytest.mark.parametrize(
    ("survey", "reply", "change", "message"),
    [
        ("box", BOX, lambda parts: parts[2]["value"].update(rotation=10), ("10", "box")),
        ("box", BOX, lambda parts: parts[2]["value"].update(width=0), ("[1.0, 2.0, 0.0, 4.0]", "box")),
        ("box", BOX, lambda parts: parts[2].pop("original_width"), ("choice", "text")),
        ("box", BOX, lambda parts: parts[2]["value"].update(x="1"), ("choice", "text")),
        ("box", BOX, lambda parts: parts.append(parts[2]), ("'box'", "[x, y, width, height]")),
        ("caption", {"caption": "x"}, lambda parts: parts[0]["value"].update(text=[7]), ("'caption'", "7", "text")),
    ],
)
def test_a_wrong_box_or_text_is_named(desk, survey, reply, change, message):
    at = desk(survey, shape=(1, 2), n=1, annotators=("ann",))
    path = at.export(lambda *_: reply)
    with raises(DataError, message):
        at.imported(broken(path, lambda rows: change(rows[0]["annotations"][0]["result"])))


def test_a_list_of_answers_is_json_or_lines_and_a_wrong_one_is_named(tmp_path):
    for name, content in (("a.json", b'["yes", "no"]'), ("a.txt", b"yes\n\nno\n")):
        assert read_allowed(write_file(tmp_path / name, content)) == {"yes", "no"}
    for name, content, *facts in (
        ("a.json", b"{}", "answers", "list"),
        ("a.json", b"[1]", "answers", "list"),
        ("a.txt", b"\n", "answers", "list"),
        ("a.txt", b"\xff", "a.txt"),
    ):
        with raises(DataError, *facts):
            read_allowed(write_file(tmp_path / name, content))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda key: key.update(units=[]), "units"),
        (lambda key: key["tasks"][0].update(unit="gone"), ("task", "ann-00001", "asks")),
        (lambda key: key.pop("seed"), ("'seed'", "missing")),
        (lambda key: key.update(mood=1), "'mood'"),
        (lambda key: key.update(survey="i3t"), ("'i3t'", "'i2t'")),
        (lambda key: key.update(shape=[2]), ("'shape'", "[2]")),
        (lambda key: key.update(shape=[2, 3]), ("2x3", "2")),
        (lambda key: key["units"][1].update(truth="-1"), ("'truth'", "'-1'", "0", "1")),
        (lambda key: key["units"][1].update(altered=["cup"]), ("'altered'", "['cup']")),
        (lambda key: key["units"][1].update(options=["one"]), ("unit", "options")),
        (lambda key: [unit.update(images=[]) for unit in key["units"]], ("unit", "nothing")),
        (lambda key: key["units"].append(key["units"][0]), ("unit", "twice")),
        (lambda key: key["tasks"].append(key["tasks"][0]), ("'ann-00001'", "twice")),
        (lambda key: key["tasks"].append({**key["tasks"][0], "id": "ann-00009"}), ("annotator", "unit", "twice")),
        (lambda key: key["tasks"][0].update(annotator="zoe"), ("ann-00001", "'annotator'", "'zoe'")),
        (lambda key: key["tasks"][0].update(order=[0, 0]), ("ann-00001", "'order'", "[0, 1]", "[0, 0]")),
        (lambda key: key["annotators"].append("ann"), "ann"),
    ],
)
def test_a_wrong_key_is_named(desk, change, message):
    at = desk("coco-cf", n=2, annotators=("ann",))
    broken(at.folder / "study.json", change)
    with raises(DataError, "study.json", message):
        read_study(at.folder)


@pytest.mark.parametrize(
    ("change", "line", "message"),
    [
        (lambda rows: rows.append(rows[1]), 5, ("ann-00002", "second", "2")),
        (lambda rows: rows[0].update(task="zoe-1"), 1, ("'zoe-1'", "study.json")),
        (lambda rows: rows[0].update(annotator="zoe"), 1, ("ann-00001", "ann", "zoe")),
        (lambda rows: rows[0].update(unit=rows[1]["unit"]), 1, ("ann-00001", "import")),
        (lambda rows: rows[2]["values"].update(caption="7"), 3, ("ann-00003", "'caption'", "'7'", "0", "1", "both")),
        (lambda rows: rows[2]["values"].update(caption="Both"), 3, ("'values'", "{'caption': 'Both'}")),
        (lambda rows: rows[2]["values"].update(caption=1), 3, ("'caption'", "1")),
        (lambda rows: rows[2].update(values={}), 3, ("'caption'", "answer")),
        (lambda rows: rows[2].update(skipped=True), 3, ("ann-00003", "'values'")),
        (lambda rows: rows[2]["values"].update(mood="0"), 3, ("'mood'", "caption")),
        (lambda rows: rows[2].update(problems=["is odd"]), 3, ("'problems'", "['is odd']")),
    ],
)
def test_a_wrong_row_of_answers_is_named(asked, change, line, message):
    at, path = asked
    file = write_answers(at.folder, at.imported(path))
    rows = [json.loads(row) for row in file.read_text().splitlines()]
    change(rows)
    write_file(file, rows)
    with raises(DataError, f"answers.jsonl:{line}", message):
        read_answers(at.folder, at.study)


def test_an_answer_cannot_lose_the_rule_that_it_breaks(desk):
    at = desk("caption", shape=(1, 2), n=1, annotators=("ann",))
    (answer,) = at.imported(at.export(lambda *_: {"caption": "a cup"}))
    write_answers(at.folder, [answer])
    assert read_answers(at.folder, at.study) == [answer]
    write_answers(at.folder, [answer.model_copy(update={"problems": []})])
    with raises(DataError, "answers.jsonl:1", "'problems'"):
        read_answers(at.folder, at.study)


def test_a_phrase_for_a_box_needs_the_size_of_its_image(desk):
    boxes = desk("box", shape=(1, 2), n=1, annotators=("ann",))
    drawn = boxes.imported(boxes.export(lambda *_: BOX))
    at = desk("expression", shape=(1, 2), n=1, annotators=("bob",), earlier=Earlier(boxes.study, tuple(drawn)))
    answers = at.imported(at.export(lambda *_: {"expression": "the red cup"}))
    survey = find_survey("expression")
    assert survey.records(at.study, answers)[0]["width"] == 8
    (unit,) = at.study.units
    wrong = Study(**at.study.model_dump() | {"units": [unit.model_copy(update={"earlier": {"size": [8]}})]})
    with raises(DataError, repr(unit.id), "'size'", "[8]"):
        survey.records(wrong, answers)
    with raises(DataError, "folder/a.json", "No such file or directory"):
        write_rows(Path("no such folder/a.json"), [])
