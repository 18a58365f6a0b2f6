"""A survey as annotators get it, and their replies: projects of Label Studio, and spreadsheets.

The configuration holds no caption and is the same for all tasks; options are named A, B... and the study's key has the
option of each letter. A task's data carries `study` and `task`, which identify it; Label Studio uses `id`, `annotator`
and some more for itself. Replies are its JSON and JSON_MIN exports.

A sheet is a CSV file with a row a task. Columns: `study`, `task`, one for each image (a path) and text that is shown,
`how_to_answer`, one for each answer, and `skip`: a row with anything in it is passed over.

Formats: https://labelstud.io/tags (View, Header, Text, Image, Choices, TextArea, RectangleLabels),
https://labelstud.io/guide/task_format (tasks and JSON export); JSON_MIN as Label Studio's converter writes it.

Nothing is lost or guessed: a reply to an unknown task, a second reply to the same task, an unreadable reply and a task
without a reply are errors. An answer that breaks a rule of the survey (a caption of five words) is kept with its
problem.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote as percent_encode
from xml.etree import ElementTree

from tellapart.annotate.surveys import AnnotatorTask, Ask, Study, Survey, SurveyAnswer, SurveyUnit, letters
from tellapart.data.pairset import PairSet
from tellapart.data.rows import read_csv, read_json, spreadsheet_cell
from tellapart.data.scores import join_names
from tellapart.data.strict_json import decode_text, plain_suffix, read_whole
from tellapart.data.video import as_picture
from tellapart.errors import DataError, TellapartWarning, quote
from tellapart.report.templates import make_environment
from tellapart.tasks.predictions import box

_TYPES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp"}


@dataclass(frozen=True, slots=True)
class TaskPart:
    """A text or an image (`image_0`, `text_0`, `option_a`) of a task; x, y, width, height of a box drawn on it."""

    name: str
    image: bool
    value: str
    box: tuple[float, ...] = ()


def task_parts(unit: SurveyUnit, order: Sequence[int]) -> list[TaskPart]:
    """Return the content of a unit, its options in an order: images, texts, options."""
    box = tuple(unit.box)
    images = [TaskPart(f"image_{k}", True, image, () if k else box) for k, image in enumerate(unit.images)]
    texts = [TaskPart(f"text_{k}", False, text) for k, text in enumerate(unit.texts)]
    options = [
        TaskPart(f"option_{letter.lower()}", unit.option_kind == "images", unit.options[index])
        for letter, index in zip(letters(len(order)), order, strict=True)
    ]
    return [*images, *texts, *options]


def choice_names(ask: Ask, options: int = 0) -> tuple[str, ...]:
    """Return the choices of a question as they are shown: the letters of so many options, and the others."""
    return (*letters(options if ask.options else 0), *(choice[0].upper() + choice[1:] for choice in ask.choices))


def read_image_file(pairs: PairSet, part: TaskPart) -> tuple[str, bytes]:
    """Read an image of a pair set as annotators get it: its file, or a PNG of a frame or with the box drawn on it.

    Its name is made of its content, since the set's often gives it away.
    """
    suffix = PurePosixPath(part.value).suffix.lower()
    if part.box or suffix not in _TYPES:
        data, suffix = _draw_box(pairs, part), ".png"
    else:
        data = pairs.read_bytes(part.value)
    return f"{hashlib.sha256(data).hexdigest()[:16]}{suffix}", data


def _draw_box(pairs: PairSet, part: TaskPart) -> bytes:
    from PIL import Image, ImageDraw

    image = Image.fromarray(as_picture(pairs.pixels(part.value)))
    if part.box:
        x, y, width, height = part.box
        pen = max(2, round(max(image.size) / 200))
        ImageDraw.Draw(image).rectangle((x, y, x + width, y + height), outline=(255, 0, 0), width=pen)
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


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
        for name, label in ask.labels(len(unit.options)).items()
    )
    for task in study.tasks_of(annotator):
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


def configuration(survey: Survey, study: Study) -> str:
    """Return the project's labeling configuration: well-formed XML."""
    unit = study.units[0]
    parts = task_parts(unit, range(len(unit.options)))
    options = [*zip(letters(len(unit.options)), parts[len(parts) - len(unit.options) :], strict=True)]
    pictures = unit.option_kind == "images"
    template = Path(__file__).with_name("label_studio.xml.j2").read_text(encoding="utf-8")
    text = make_environment().from_string(template).render(
        survey=survey, shown=parts[: len(parts) - len(options)], options=options, pictures=pictures,
        kind="Image" if pictures else "Text", target=parts[0].name, choice_names=choice_names,
    )  # fmt: skip
    root = ElementTree.fromstring(re.sub(r">\s+<", "><", text))  # noqa: S314  (the template's, with all texts escaped)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def image_address(name: str, data: bytes, prefix: str | None) -> str:
    """Return an image's address for Label Studio: under its local file serving, or a `data:` address without a prefix.

    >>> image_address("0.png", b"", "my study")
    '/data/local-files/?d=my%20study/images/0.png'
    """
    if prefix is not None:
        return f"/data/local-files/?d={percent_encode(f'{prefix}/images/{name}')}"
    return f"data:{_TYPES[PurePosixPath(name).suffix]};base64,{base64.b64encode(data).decode()}"


def tasks_json(study: Study, annotator: str, address: Callable[[TaskPart], str]) -> str:
    """Return an annotator's tasks, to be imported into a separate project."""
    rows = []
    for task in study.tasks_of(annotator):
        parts = task_parts(study.unit_of[task.unit], task.order)
        values = {part.name: address(part) if part.image else part.value for part in parts}
        rows.append({"data": {"study": study.token, "task": task.id, **values}})
    return json.dumps(rows, ensure_ascii=False, indent=1) + "\n"


def read_export(rows: object, path: str, fields: Collection[str]) -> Iterator[Reply]:
    """Yield the replies of an export in JSON or JSON_MIN; its content shows which of the two it is.

    A skipped (cancelled) annotation is a reply that is skipped, unless the task has an answer beside it; JSON_MIN
    leaves it out. Drafts and predictions are not replies; nor is JSON_MIN's row of a task without annotation.
    """
    if not isinstance(rows, list) or not rows:
        raise DataError(f"{path}: expected a list of tasks, as Label Studio's JSON and JSON_MIN exports have it")
    for number, row in enumerate(rows):
        place = f"{path}: task {number}"
        if not isinstance(row, Mapping):
            raise DataError(f"{place}: expected an object, got {quote(row)}")
        if "annotations" in row:
            yield from _read_full(row, place)
        elif reply := _read_minimal(row, place, fields):
            yield reply


def _read_full(row: Mapping[str, Any], place: str) -> Iterator[Reply]:
    data, annotations = row.get("data"), row["annotations"]
    if not isinstance(data, Mapping) or not isinstance(annotations, list):
        raise DataError(
            f"{place}: expected an object `data` and a list `annotations`, as Label Studio's JSON export has"
        )
    replies = []
    for annotation in annotations:
        if not isinstance(annotation, Mapping) or not isinstance(annotation.get("result"), list):
            raise DataError(f"{place}: expected annotations with a list `result`, got {quote(annotation)}")
        controls: dict[str, Any] = {}
        for part in annotation["result"]:
            name = part.get("from_name") if isinstance(part, Mapping) else None
            if not isinstance(name, str) or not isinstance(part.get("value"), Mapping):
                raise DataError(f"{place}: expected results with `from_name` and `value`, got {quote(part)}")
            sizes = {key: part[key] for key in ("original_width", "original_height") if key in part}
            controls.setdefault(name, []).append({**part["value"], **sizes})
        cancelled = bool(annotation.get("was_cancelled") or annotation.get("skipped"))
        study, task = _text_field(data, "study"), _text_field(data, "task")
        replies.append(Reply(place, study, task, _control_values(controls, place), cancelled))
    yield from [reply for reply in replies if not reply.skipped] or replies


def _read_minimal(row: Mapping[str, Any], place: str, fields: Collection[str]) -> Reply | None:
    """Read a row of JSON_MIN: the task's data and the answers side by side, each unpacked if it is single."""
    if "task" not in row:
        raise DataError(
            f"{place}: has neither `annotations` (JSON) nor `task` (JSON_MIN); export in one of these formats"
        )
    if row.get("annotation_id") is None:
        return None
    controls = {name: value if isinstance(value, list) else [value] for name, value in row.items() if name in fields}
    return Reply(place, _text_field(row, "study"), _text_field(row, "task"), _control_values(controls, place), False)


def _text_field(data: Mapping[str, Any], name: str) -> str:
    return value if isinstance(value := data.get(name), str) else ""


def _control_values(controls: Mapping[str, list[Any]], place: str) -> dict[str, Any]:
    """Return each control's value as a text, or as a box; a control that was left empty is left out."""
    values: dict[str, Any] = {}
    for name, parts in controls.items():
        flat: list[Any] = []
        for part in parts:
            control = part
            if isinstance(part, Mapping):
                control = next((part[key] for key in ("choices", "text") if key in part), None)
                control = _pixel_box(part, name, place) if control is None else control
            flat += control if isinstance(control, list) else [control]
        if len(flat) > 1:
            values[name] = flat
        elif flat:
            values[name] = flat[0]
    return values


def _pixel_box(part: Mapping[str, Any], name: str, place: str) -> tuple[float, ...]:
    """Return a rectangle in pixels; Label Studio has per cent of the image's sides."""
    needed = ("x", "y", "width", "height", "original_width", "original_height")
    sides = [part.get(key) for key in needed]
    if any(isinstance(side, bool) or not isinstance(side, int | float) for side in sides):
        raise DataError(
            f"{place}: field {name!r}: expected a choice, a text or a rectangle, got {quote(dict(part), 80)}"
        )
    if part.get("rotation"):
        raise DataError(f"{place}: field {name!r}: the box is turned by {part['rotation']} degrees; draw it upright")
    x, y, width, height, wide, high = (float(side) for side in sides if side is not None)
    return tuple(round(value, 3) for value in (x * wide / 100, y * high / 100, width * wide / 100, height * high / 100))


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply as a file has it."""

    where: str  # file and row, for messages
    study: str  # the token of the study that the task belongs to; empty if the file has none
    task: str
    values: Mapping[str, Any]  # field -> the answer in the annotator's letters: `A`, `Both`, a text, a box
    skipped: bool
    worker: str = ""  # of a crowd; empty for the task's annotator


def field_names(survey: Survey, study: Study) -> tuple[str, ...]:
    """Return the names of all fields of a study's tasks."""
    options = len(study.units[0].options)
    return tuple(name for ask in survey.asks for name in ask.labels(options))


def read_allowed(path: Path) -> frozenset[str]:
    """Read the answers that a question may have: a JSON list of texts (`.json`), or a line each."""
    if plain_suffix(path) == ".json":
        allowed = read_json(path)
    else:
        allowed = [line.strip() for line in decode_text(read_whole(path), path).splitlines() if line.strip()]
    if not isinstance(allowed, list) or not allowed or not all(isinstance(answer, str) for answer in allowed):
        raise DataError(f"{path}: expected a list of answers, as texts")
    return frozenset(allowed)


def decode_replies(
    survey: Survey,
    study: Study,
    replies: Iterable[Reply],
    *,
    allowed: frozenset[str] = frozenset(),
    partial: bool = False,
    earlier: Iterable[SurveyAnswer] = (),
) -> list[SurveyAnswer]:
    """Decode replies into answers, in the order of the study's tasks; workers take the annotators' places at a unit."""
    tasks = {task.id: task for task in study.tasks}
    answers: dict[str, tuple[SurveyAnswer, str]] = {}
    imported = {answer.task: answer for answer in earlier}
    places: dict[str, dict[str, str]] = {}
    for place in study.tasks:
        places.setdefault(place.unit, {})[place.id] = ""
    for reply in replies:
        task = tasks.get(reply.task)
        if reply.study != study.token or task is None:
            raise DataError(_explain_unknown(reply, study))
        answer = _decode_answer(survey, task, reply, allowed)
        if reply.worker:
            task = tasks[_place_worker(reply, task.unit, places[task.unit])]
            answer = answer.model_copy(update={"task": task.id, "annotator": task.annotator})
        if task.id in answers and answers[task.id][0] != answer:
            raise DataError(
                f"{reply.where}: a second answer to task {task.id} ({task.annotator} on {task.unit}), answered in "
                f"{answers[task.id][1]}; keep one of them"
            )
        before = imported.get(task.id, answer)
        if (before.values, before.skipped) != (answer.values, answer.skipped):
            raise DataError(
                f"{reply.where}: task {task.id} ({task.annotator} on {task.unit}) was imported before with another "
                f"answer ({_describe(before)}, now {_describe(answer)}); to take the new ones, remove the study's "
                "answers.jsonl and import all files together"
            )
        answers[task.id] = (answer, reply.where)
    answers = {name: (answer, "") for name, answer in imported.items()} | answers
    missing = [task.id for task in study.tasks if task.id not in answers]
    if missing and not partial:
        raise DataError(
            f"{len(missing)} of {len(tasks)} tasks have no answer: {join_names(missing)}; "
            "import all files, or pass partial=True to go on without them"
        )
    return [answers[task.id][0] for task in study.tasks if task.id in answers]


def _place_worker(reply: Reply, unit: str, workers: dict[str, str]) -> str:
    """Return the task of a worker's answer: the one that was shown if it is free, or else the unit's first free one."""
    if reply.worker in workers.values():
        raise DataError(f"{reply.where}: worker {quote(reply.worker)} answered {unit} before; keep one of the answers")
    free = [task for task, worker in workers.items() if not worker]
    if not free:
        raise DataError(f"{reply.where}: {unit} has {len(workers)} annotators and more workers; export it for more")
    task = reply.task if reply.task in free else free[0]
    workers[task] = reply.worker
    return task


def _describe(answer: SurveyAnswer) -> str:
    return "skipped" if answer.skipped else quote(answer.values, 80)


def _explain_unknown(reply: Reply, study: Study) -> str:
    if not reply.task:
        return f"{reply.where}: has no `task`; export with the task's data"
    if reply.study != study.token:
        origin = f"of study {reply.study!r}" if reply.study else "of no study"
        return (
            f"{reply.where}: task {reply.task} is {origin}, not of study {study.token!r}; name the folder of its study"
        )
    return f"{reply.where}: task {reply.task!r} is unknown to this study"


def check_answer(survey: Survey, task: AnnotatorTask, answer: SurveyAnswer, place: str) -> None:
    """Hold a stored answer to a task to the rules of replies; its options are indices of the unit, not letters."""
    place = f"{place}: task {task.id}"
    if (answer.annotator, answer.unit) != (task.annotator, task.unit):
        raise DataError(
            f"{place} is {task.annotator} on {task.unit}, not {answer.annotator} on {answer.unit}; import it again"
        )
    options = {str(index): str(index) for index in sorted(task.order)}
    values = {} if answer.skipped else _decode_values(survey, options, answer.values, place)
    if values != answer.values:
        raise DataError(
            f"{place}: field 'values': expected {quote(values)}, got {quote(answer.values)}; import it again"
        )
    problems = set(survey.problems(values, frozenset()) if values else ())
    # A list of answers, which a question may have, is not kept: what it refused is beyond the survey's own rules.
    if problems - set(answer.problems) or (survey.name != "question" and problems != set(answer.problems)):
        expected = quote(sorted(problems))
        raise DataError(
            f"{place}: field 'problems': expected {expected}, got {quote(answer.problems)}; import it again"
        )


def _decode_answer(survey: Survey, task: AnnotatorTask, reply: Reply, allowed: frozenset[str]) -> SurveyAnswer:
    identity: dict[str, Any] = {"task": task.id, "annotator": task.annotator, "unit": task.unit}
    if reply.skipped:
        return SurveyAnswer(**identity, skipped=True)
    options = {letter: str(index) for letter, index in zip(letters(len(task.order)), task.order, strict=True)}
    values = _decode_values(survey, options, reply.values, f"{reply.where}: task {task.id}")
    return SurveyAnswer(**identity, values=values, problems=survey.problems(values, allowed))


def _decode_values(survey: Survey, shown: Mapping[str, str], raws: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return a reply's values by field; `shown` has each option's index by the name under which it is answered."""
    # One text per option: the key is the option's number, because its letter depends on the annotator's order.
    keys = {
        f"{ask.name}_{option.lower()}" if option else ask.name: (f"{ask.name}_{key}" if option else ask.name, ask)
        for ask in survey.asks
        for option, key in (shown.items() if ask.control == "text" and ask.options else [("", "")])
    }
    if unknown := [name for name in raws if name not in keys]:
        raise DataError(f"{place}: field {unknown[0]!r} is not asked; this survey asks for {', '.join(keys)}")
    values: dict[str, Any] = {}
    for name, (key, ask) in keys.items():
        raw = raws.get(name)
        if raw is None or (isinstance(raw, str) and not raw.strip()):
            if ask.required:
                raise DataError(f"{place}: field {name!r} has no answer")
            continue
        if isinstance(raw, list) and ask.control != "box":
            raise DataError(f"{place}: field {name!r}: {len(raw)} answers {quote(raw)}; give one")
        try:
            values[key] = _read_value(raw, ask, shown)
        except ValueError as error:
            raise DataError(f"{place}: field {name!r}: {error}") from error
    return values


def _read_value(raw: object, ask: Ask, shown: Mapping[str, str]) -> str | list[float]:
    if ask.control == "box":
        sides = list(box(list(raw) if isinstance(raw, tuple) else raw))
        if min(sides[2:]) <= 0:
            raise ValueError(f"the box {sides} has no area")
        return sides
    if ask.control == "text":
        if not isinstance(raw, str):
            raise ValueError(f"expected a text, got {quote(raw)}")
        return raw.strip()
    choice = raw.strip().lower() if isinstance(raw, str) else raw
    options = {option.lower(): index for option, index in shown.items()} if ask.options else {}
    choices = {**options, **{choice.lower(): choice for choice in ask.choices}}
    if not isinstance(choice, str) or choice not in choices:
        listing = ", ".join([*(shown if ask.options else ()), *ask.choices])
        raise ValueError(f"{quote(raw)} is not one of the choices; they are {listing}")
    return choices[choice]
