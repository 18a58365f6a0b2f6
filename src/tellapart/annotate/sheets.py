"""A survey as spreadsheets: one CSV file an annotator, a row a task, to be filled in and read back.

Columns: `study`, `task`, one for each image (a path) and text that is shown, `how_to_answer`, one for each answer, and
`skip`: a row with anything in it is passed over.
"""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tellapart.annotate.presentation import TaskPart, choice_names, field_labels, task_parts, tasks_of
from tellapart.annotate.replies import Reply, field_names
from tellapart.annotate.survey import Study, Survey
from tellapart.data.rows import read_csv, spreadsheet_cell
from tellapart.errors import DataError, TellapartWarning


def sheet(survey: Survey, study: Study, annotator: str, address: Callable[[TaskPart], str]) -> str:
    """Return an annotator's sheet."""
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    unit = study.units[0]
    fields = field_names(survey, study)
    names = [part.name for part in task_parts(unit, range(len(unit.options)))]
    writer.writerow(["study", "task", *names, "how_to_answer", *fields, "skip"])
    forms = {"text": "(a text)", "box": "([x, y, width, height] in pixels)"}
    how = "; ".join(
        f"{name}: {label} {forms.get(ask.control) or ' or '.join(choice_names(ask, len(unit.options)))}"
        for ask in survey.asks
        for name, label in field_labels(ask, len(unit.options)).items()
    )
    for task in tasks_of(study, annotator):
        parts = task_parts(study.unit_of[task.unit], task.order)
        cells = [address(each) if each.image else spreadsheet_cell(each.value) for each in parts]
        writer.writerow([study.token, task.id, *cells, how, *("" for _ in fields), ""])
    return stream.getvalue()


def read_sheet(path: Path, survey: Survey, study: Study, named: Mapping[str, str]) -> Iterator[Reply]:
    """Yield the replies of a sheet, of MTurk's results, or of a table whose columns are named; an empty row is none.

    MTurk's have a row for each assignment, with `Input.task`, `Answer.caption`, `WorkerId`, and `AssignmentStatus`.
    """
    fields, rejected = field_names(survey, study), 0
    given = {fields[0] if (name, len(fields)) == ("answer", 1) else name: column for name, column in named.items()}
    if unknown := sorted({*given} - {*(parts := ("study", "task", "worker", "skip", *fields))}):
        raise DataError(f"columns={dict(named)}: {unknown[0]!r} is not read; name the columns of {', '.join(parts)}")
    for line, row in read_csv(path):
        place, mturk = f"{path}:{line}", "AssignmentStatus" in row
        columns = {name: f"Input.{name}" if mturk else name for name in ("study", "task")} | {"worker": "WorkerId"}
        columns |= {name: f"Answer.{name}" if mturk else name for name in ("skip", *fields)} | given
        if absent := [name for name in ("study", "task", *fields, *given) if columns[name] not in row]:
            way = f"keep the columns of the sheet, or name the table's: columns={{{absent[0]!r}: 'COLUMN'}}"
            if "Participant id" in row:
                way = "Prolific's list of people has no answers; take the table of the tool that asked them"
            raise DataError(f"{place}: column {columns[absent[0]]!r} is missing; {way}")
        values = {name: row[columns[name]] for name in fields if row[columns[name]].strip()}
        skipped = bool(row.get(columns["skip"], "").strip())
        if skipped and values:
            raise DataError(f"{place}: task {row[columns['task']]} is both skipped and answered; clear one of them")
        if row.get("AssignmentStatus") == "Rejected":
            rejected += 1
        elif skipped or values:
            worker = row.get(columns["worker"], "")
            yield Reply(place, row[columns["study"]], row[columns["task"]], values, skipped, worker)
    if rejected:
        warnings.warn(f"{path}: rows left out, as they were rejected: {rejected:,}", TellapartWarning, stacklevel=2)
