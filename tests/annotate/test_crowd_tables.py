"""Answers of a crowd: MTurk's results, and tables of other tools whose columns are named."""

import csv
from collections.abc import Mapping
from pathlib import Path

import pytest

from facts import check_facts, raises
from tellapart.annotate.study import decode_replies, read_replies
from tellapart.annotate.surveys import SurveyAnswer, find_survey
from tellapart.errors import DataError, TellapartWarning

Row = dict[str, str]


def written(path: Path, rows: list[Row]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, rows[0], quoting=csv.QUOTE_ALL)
        writer.writeheader()
        writer.writerows(rows)
    return path


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


def imported(at, path: Path, columns: Mapping[str, str] | None = None, **how) -> list[SurveyAnswer]:
    survey = find_survey(at.study.survey)
    return decode_replies(survey, at.study, read_replies(path, survey, at.study, columns), **how)


def test_workers_of_one_sheet_take_the_places_of_the_annotators(desk, knows, tmp_path):
    at = desk("i2t", n=4)
    person = knows(at)

    def crowd(worker: str, view: Mapping[str, str]) -> Row:
        right = person(worker, view)["caption"]
        return {"caption": right if worker != "W9" else "BA"["AB".index(right)]}

    # Each HIT has two of four workers; W9 is always wrong, and sees options in ann's order, not in bob's.
    rows = batch(at, crowd, [["W1", "W9"], ["W9", "W2"], ["W3", "W1"]])
    answers = imported(at, written(tmp_path / "batch.csv", rows))
    assert [answer.task for answer in answers] == [task.id for task in at.study.tasks]
    right = [answer.values["caption"] == at.study.unit_of[answer.unit].truth for answer in answers]
    assert len(right) - sum(right) == sum(row["WorkerId"] == "W9" for row in rows)
    first = {answer.unit: answer for answer in answers if answer.annotator == "ann"}
    order = [task.unit for task in at.study.tasks if task.annotator == "ann"]
    assert first[order[0]].values["caption"] == at.study.unit_of[order[0]].truth  # W1 was the first
    assert first[order[1]].values["caption"] != at.study.unit_of[order[1]].truth


def test_rejected_assignments_are_left_out_and_counted(desk, knows, tmp_path):
    at = desk("i2t", n=2)
    good = batch(at, knows(at), [["W1", "W2"]])
    bad = batch(at, lambda *_: {"caption": "no letter"}, [["W3"]], "Rejected")
    with pytest.warns(TellapartWarning, match="rejected: 4"):
        answers = imported(at, written(tmp_path / "batch.csv", [*bad, *good]))
    assert len(answers) == 8
    with raises(DataError, "caption", "no letter", "A, B"):
        imported(at, written(tmp_path / "batch.csv", [{**bad[0], "AssignmentStatus": "Submitted"}]))


def test_a_worker_counts_once_and_places_do_not_multiply(desk, knows, tmp_path):
    at = desk("i2t", n=2)
    with raises(DataError, "batch.csv:3", "'W1'", "image", "keep one"):
        imported(at, written(tmp_path / "batch.csv", batch(at, knows(at), [["W1", "W1"]])))
    with raises(DataError, "batch.csv:4", "2 annotators", "export"):
        imported(at, written(tmp_path / "batch.csv", batch(at, knows(at), [["W1", "W2", "W3"]])))


def test_a_table_of_another_tool_is_read_by_its_columns(desk, knows, tmp_path):
    at = desk("i2t", n=2, annotators=("ann",))
    names = {"Input.study": "S", "Input.task": "Q1", "WorkerId": "PROLIFIC_PID", "Answer.caption": "Q2, chosen"}
    rows = [{names[name]: row[name] for name in names} for row in batch(at, knows(at), [["p1"], ["p2"]])]
    path = written(tmp_path / "survey.csv", rows)
    columns = {"study": "S", "task": "Q1", "worker": "PROLIFIC_PID"}
    by_answer = imported(at, path, {**columns, "answer": "Q2, chosen"})
    assert by_answer == imported(at, path, {**columns, "caption": "Q2, chosen"})
    assert all(answer.values["caption"] == at.study.unit_of[answer.unit].truth for answer in by_answer)
    with raises(DataError, "survey.csv:2", "'study'", "columns={'study': 'COLUMN'}"):
        imported(at, path)
    with raises(DataError, "survey.csv:2", "'Q9'"):
        imported(at, path, {**columns, "answer": "Q9"})
    with raises(DataError, "'item'", "study, task, worker, skip, caption"):
        imported(at, path, {"item": "Q1"})


def test_a_list_of_participants_is_named_as_one_without_answers(desk, tmp_path):
    row = {"Submission id": "1", "Participant id": "p1", "Status": "APPROVED", "Age": "30"}
    with raises(DataError, "people.csv:2", "Prolific", "no answers", "tool"):
        imported(desk("i2t", n=2), written(tmp_path / "people.csv", [row]))


@pytest.mark.filterwarnings("default::tellapart.errors.TellapartWarning")
def test_the_command_names_columns_and_prints_what_it_left_out(command, desk, knows):
    at = desk("i2t", n=2)
    rows = batch(at, knows(at), [["W1", "W2"]])
    rows.append({**rows[0], "WorkerId": "W4", "AssignmentStatus": "Rejected"})
    renamed = [{name.replace("Answer.caption", "Answer.choice"): cell for name, cell in row.items()} for row in rows]
    path = written(at.folder.parent / "batch.csv", renamed)
    refused = command("annotate", "import", at.folder, path, code=2)
    check_facts(refused.err, "batch.csv:2", "'Answer.caption'", "--columns caption=COLUMN")
    read = command("annotate", "import", at.folder, path, "--columns", "answer=Answer.choice")
    assert "8 of 8 tasks answered" in read.out
    check_facts(read.err, "warning", "batch.csv", "rejected: 1")
