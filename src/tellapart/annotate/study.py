"""A human study of a pair set: its folder, the forms that annotators get, their replies, and the answers.

`study.json` is the key, which no annotator should see: the right answers, and each annotator's letters (A, B...) of the
options. Annotators get a project of Label Studio (`label_studio/`) or a spreadsheet (`sheets/`), and `images/`,
named by their content. `answers.jsonl` has the answers that were imported.

Formats: https://labelstud.io/tags, https://labelstud.io/guide/task_format; JSON_MIN as its converter writes it.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote as percent_encode
from xml.etree import ElementTree

from tellapart.annotate.surveys import (
    LETTERS,
    AnnotatorTask,
    Ask,
    Earlier,
    Study,
    Survey,
    SurveyAnswer,
    SurveyUnit,
    check_annotators,
    deal,
    find_survey,
    usable,
)
from tellapart.benchmarks.arguments import PairsGiven, load_pairs
from tellapart.data.arguments import PathGiven, as_path, as_paths, expect_used
from tellapart.data.atomic import atomic_file, atomic_folder
from tellapart.data.pairset import PairSet
from tellapart.data.rows import read_csv, read_jsonl, read_object, spreadsheet_cell
from tellapart.data.scores import join_names
from tellapart.data.strict_json import decode_text, first_repeated, plain_suffix, read_json, read_whole
from tellapart.data.validation import validate
from tellapart.data.video import as_picture
from tellapart.errors import DataError, TellapartError, TellapartWarning, quote
from tellapart.report.templates import make_environment
from tellapart.tasks.predictions import parse_box

_TYPES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp"}


@dataclass(frozen=True, slots=True)
class TaskPart:
    """A text or an image of a task."""

    name: str  # `image_0`, `text_0`, `option_a`
    is_image: bool
    value: str  # the text, or the image's reference in the pair set
    box: tuple[float, ...] = ()  # x, y, width, height in pixels of a box that is drawn on the image


def task_parts(unit: SurveyUnit, order: Sequence[int]) -> list[TaskPart]:
    """Return the content of a unit, its options in an order: images, texts, options."""
    box = tuple(unit.box)
    images = [TaskPart(f"image_{k}", True, image, () if k else box) for k, image in enumerate(unit.images)]
    texts = [TaskPart(f"text_{k}", False, text) for k, text in enumerate(unit.texts)]
    options = [
        TaskPart(f"option_{letter.lower()}", unit.option_kind == "images", unit.options[index])
        for letter, index in zip(LETTERS[: len(order)], order, strict=True)
    ]
    return [*images, *texts, *options]


def choice_names(ask: Ask, options: int = 0) -> tuple[str, ...]:
    """Return the choices of a question as they are shown: the letters of its options, then `Both` and the like."""
    letters = LETTERS[:options] if ask.options else ""
    return (*letters, *(choice[0].upper() + choice[1:] for choice in ask.choices))


def read_image_file(pairs: PairSet, part: TaskPart) -> tuple[str, bytes]:
    """Return a file name, made of the content, and the content of an image for annotators: its file, or a new PNG."""
    suffix = PurePosixPath(part.value).suffix.lower()
    if part.box or suffix not in _TYPES:
        data, suffix = _draw_box(pairs, part), ".png"
    else:
        data = pairs.read_bytes(part.value)
    return f"{hashlib.sha256(data).hexdigest()[:16]}{suffix}", data


def _draw_box(pairs: PairSet, part: TaskPart) -> bytes:
    """Return a PNG of an image with its box, if it has one."""
    from PIL import Image, ImageDraw

    image = Image.fromarray(as_picture(pairs.pixels(part.value)))
    if part.box:
        (x, y, width, height), pen = part.box, max(2, round(max(image.size) / 200))
        ImageDraw.Draw(image).rectangle((x, y, x + width, y + height), outline=(255, 0, 0), width=pen)
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


def sheet(survey: Survey, study: Study, annotator: str, address: Callable[[TaskPart], str]) -> str:
    """Return an annotator's sheet as CSV: a row for each task; anything in its column `skip` skips the task."""
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
        cells = [address(part) if part.is_image else spreadsheet_cell(part.value) for part in parts]
        writer.writerow([study.token, task.id, *cells, how, *("" for _ in fields), ""])
    return stream.getvalue()


def read_sheet(path: Path, survey: Survey, study: Study, named: Mapping[str, str]) -> Iterator[Reply]:
    """Yield the replies of a sheet, of MTurk's results, or of a table; `named`: sheet's column -> table's."""
    fields, rejected = field_names(survey, study), 0
    parts = ("study", "task", "worker", "skip", *fields)
    given = {fields[0] if (name, len(fields)) == ("answer", 1) else name: column for name, column in named.items()}
    if unknown := sorted({*given} - {*parts}):
        raise DataError(f"columns={dict(named)}: {unknown[0]!r} is not read; name the columns of {', '.join(parts)}")
    for line, row in read_csv(path):
        place, mturk = f"{path}:{line}", "AssignmentStatus" in row
        columns = {name: f"Input.{name}" if mturk else name for name in ("study", "task")} | {"worker": "WorkerId"}
        columns |= {name: f"Answer.{name}" if mturk else name for name in ("skip", *fields)} | given
        if absent := [name for name in ("study", "task", *fields, *given) if columns[name] not in row]:
            remedy = f"keep the columns of the sheet, or name the table's: columns={{{absent[0]!r}: 'COLUMN'}}"
            if "Participant id" in row:
                remedy = "Prolific's list of people has no answers; take the table of the tool that asked them"
            raise DataError(f"{place}: column {columns[absent[0]]!r} is missing; {remedy}")
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
    options = [*zip(LETTERS, (part for part in parts if part.name.startswith("option_")), strict=False)]
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
    """Return an image's address for Label Studio: of its files below `prefix`, or a `data:` address without one."""
    if prefix is not None:
        return f"/data/local-files/?d={percent_encode(f'{prefix}/images/{name}')}"
    return f"data:{_TYPES[PurePosixPath(name).suffix]};base64,{base64.b64encode(data).decode()}"


def tasks_json(study: Study, annotator: str, address: Callable[[TaskPart], str]) -> str:
    """Return an annotator's tasks as JSON, to be imported into a separate project of Label Studio."""
    rows = []
    for task in study.tasks_of(annotator):
        parts = task_parts(study.unit_of[task.unit], task.order)
        values = {part.name: address(part) if part.is_image else part.value for part in parts}
        rows.append({"data": {"study": study.token, "task": task.id, **values}})
    return json.dumps(rows, ensure_ascii=False, indent=1) + "\n"


def read_export(rows: object, path: str, fields: Collection[str]) -> Iterator[Reply]:
    """Yield the replies of an export in JSON or JSON_MIN; JSON has skipped tasks, too, if nobody answered them."""
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
        raise DataError(f"{place}: expected an object `data` and a list `annotations`, as in Label Studio's JSON")
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
        skipped = bool(annotation.get("was_cancelled") or annotation.get("skipped"))
        replies.append(_make_reply(place, data, controls, skipped=skipped))
    # A task may have been skipped first and answered later.
    yield from [reply for reply in replies if not reply.skipped] or replies


def _read_minimal(row: Mapping[str, Any], place: str, fields: Collection[str]) -> Reply | None:
    """Read a row of JSON_MIN: the task's data and the answers in one object; a list of one answer is that answer."""
    if "task" not in row:
        raise DataError(f"{place}: has neither `annotations` (JSON) nor `task` (JSON_MIN); export one of these formats")
    if row.get("annotation_id") is None:
        return None
    controls = {name: value if isinstance(value, list) else [value] for name, value in row.items() if name in fields}
    return _make_reply(place, row, controls, skipped=False)


def _make_reply(place: str, data: Mapping[str, Any], controls: Mapping[str, list[Any]], *, skipped: bool) -> Reply:
    """Return a reply, each control's value as a text or as a box; a control that was left empty is left out."""
    study, task = (text if isinstance(text := data.get(name), str) else "" for name in ("study", "task"))
    values: dict[str, Any] = {}
    for name, parts in controls.items():
        answers: list[Any] = []
        for part in parts:
            answer = part
            if isinstance(part, Mapping):
                key = next((key for key in ("choices", "text") if part.get(key) is not None), None)
                answer = _pixel_box(part, name, place) if key is None else part[key]
            answers += answer if isinstance(answer, list) else [answer]
        if answers:
            values[name] = answers if len(answers) > 1 else answers[0]
    return Reply(place, study, task, values, skipped)


def _pixel_box(part: Mapping[str, Any], name: str, place: str) -> tuple[float, ...]:
    """Return a rectangle in pixels; Label Studio writes percentages of the image's width and height."""
    sides = [part.get(key) for key in ("x", "y", "width", "height", "original_width", "original_height")]
    if any(isinstance(side, bool) or not isinstance(side, int | float) for side in sides):
        raise DataError(f"{place}: field {name!r}: expected a choice, text or rectangle, got {quote(dict(part), 80)}")
    if part.get("rotation"):
        raise DataError(f"{place}: field {name!r}: the box is turned by {part['rotation']} degrees; draw it upright")
    x, y, width, height, wide, high = (float(side) for side in sides if side is not None)
    return tuple(round(value, 3) for value in (x * wide / 100, y * high / 100, width * wide / 100, height * high / 100))


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply as a file has it."""

    place: str  # file and row, for messages
    study: str  # the token of the study that the task belongs to; empty if the file has none
    task: str
    values: Mapping[str, Any]  # field -> the answer in the annotator's letters: `A`, `Both`, a text, a box
    skipped: bool
    worker: str = ""  # of a crowd; empty for the task's annotator


def field_names(survey: Survey, study: Study) -> tuple[str, ...]:
    """Return the names of all fields of a study's tasks."""
    return tuple(name for ask in survey.asks for name in ask.labels(len(study.units[0].options)))


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
    """Return the study's answers, earlier and new, in the order of its tasks; a worker answers as an annotator."""
    tasks = {task.id: task for task in study.tasks}
    imported = {answer.task: answer for answer in earlier}
    for name, stored in imported.items() if allowed else ():  # the list holds for earlier answers, too
        problems = [] if stored.skipped else survey.problems(stored.values, allowed)
        imported[name] = stored.model_copy(update={"problems": problems})
    answers: dict[str, tuple[SurveyAnswer, str]] = {}
    workers: dict[str, dict[str, str]] = {}  # unit -> task -> the worker who answered it
    for task in study.tasks:
        workers.setdefault(task.unit, {})[task.id] = ""
    for reply in replies:
        asked = tasks.get(reply.task)
        if reply.study != study.token or asked is None:
            raise DataError(_explain_unknown(reply, study))
        options = {letter: str(index) for letter, index in zip(LETTERS, asked.order, strict=False)}
        answer, task = _decode_answer(survey, asked, reply, options, allowed), asked
        if reply.worker:
            task = tasks[_place_worker(reply, asked.unit, workers[asked.unit])]
            answer = answer.model_copy(update={"task": task.id, "annotator": task.annotator})
        first, place = answers.get(task.id, (answer, ""))
        named = f"task {task.id} ({task.annotator} on {task.unit})"
        if first != answer:
            raise DataError(f"{reply.place}: a second answer to {named}, answered in {place}; keep one of them")
        before = imported.get(task.id, answer)
        if (before.values, before.skipped) != (answer.values, answer.skipped):
            old, new = ("skipped" if reading.skipped else quote(reading.values, 80) for reading in (before, answer))
            raise DataError(
                f"{reply.place}: {named} was imported before with another answer ({old}, now {new}); to take the new "
                "ones, remove the study's answers.jsonl and import all files together"
            )
        answers[task.id] = (answer, reply.place)
    # Of an answer that comes again the stored one is taken: it has the problems by an earlier import's list, too.
    answered = {name: answer for name, (answer, _) in answers.items()} | imported
    missing = [task.id for task in study.tasks if task.id not in answered]
    if missing and not partial:
        raise DataError(
            f"{len(missing)} of {len(tasks)} tasks have no answer: {join_names(missing)}; "
            "import all files, or pass partial=True to go on without them"
        )
    return [answered[task.id] for task in study.tasks if task.id in answered]


def _place_worker(reply: Reply, unit: str, workers: dict[str, str]) -> str:
    """Return the task that a worker's answer is stored under: that of the reply, or else the unit's first free one."""
    if reply.worker in workers.values():
        raise DataError(f"{reply.place}: worker {quote(reply.worker)} answered {unit} before; keep one of the answers")
    free = [task for task, worker in workers.items() if not worker]
    if not free:
        raise DataError(f"{reply.place}: {unit} has {len(workers)} annotators and more workers; export it for more")
    task = reply.task if reply.task in free else free[0]
    workers[task] = reply.worker
    return task


def _explain_unknown(reply: Reply, study: Study) -> str:
    if not reply.task:
        return f"{reply.place}: has no `task`; export with the task's data"
    if reply.study == study.token:
        return f"{reply.place}: task {reply.task!r} is unknown to this study"
    origin = f"of study {reply.study!r}" if reply.study else "of no study"
    return f"{reply.place}: task {reply.task} is {origin}, not of study {study.token!r}; name its study's folder"


def check_answer(survey: Survey, task: AnnotatorTask, answer: SurveyAnswer, place: str) -> None:
    """Refuse a stored answer that no reply to its task could have given; its options are indices, not letters."""
    options = {str(index): str(index) for index in sorted(task.order)}
    reply = Reply(place, "", task.id, answer.values, answer.skipped)
    expected = _decode_answer(survey, task, reply, options, frozenset())
    # The list of allowed answers to a question is not stored, so an answer may have problems that are not found here.
    if survey.name == "question" and {*expected.problems} <= {*answer.problems}:
        expected = expected.model_copy(update={"problems": answer.problems})
    for name in ("annotator", "unit", "values", "problems"):
        if (got := getattr(answer, name)) != (due := getattr(expected, name)):
            why = f"field {name!r}: expected {quote(due)}, got {quote(got)}"
            raise DataError(f"{place}: task {task.id}: {why}; import again")


def _decode_answer(
    survey: Survey, task: AnnotatorTask, reply: Reply, options: Mapping[str, str], allowed: frozenset[str]
) -> SurveyAnswer:
    identity: dict[str, Any] = {"task": task.id, "annotator": task.annotator, "unit": task.unit}
    if reply.skipped:
        return SurveyAnswer(**identity, skipped=True)
    values = _decode_values(survey, options, reply.values, f"{reply.place}: task {task.id}")
    return SurveyAnswer(**identity, values=values, problems=survey.problems(values, allowed))


def _decode_values(survey: Survey, shown: Mapping[str, str], raws: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return a reply's values by field; `shown` has each option's index by its name, such as its letter."""
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
        sides = list(parse_box(list(raw) if isinstance(raw, tuple) else raw))
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


_KEY, _ANSWERS = "study.json", "answers.jsonl"  #: names of a study's files


def write_study(
    folder: Path, survey: Survey, study: Study, pairs: PairSet, *, embed: bool = False, prefix: str = ""
) -> None:
    """Write a study's folder atomically; Label Studio's tasks embed the images, or name files below `prefix`."""
    served = None if embed else prefix or folder.resolve().name
    files_of: dict[tuple[str, tuple[float, ...]], tuple[str, str]] = {}  # (image, box) -> file name, address
    with atomic_folder(folder) as draft:
        for name in ("images", "label_studio", "sheets"):
            (draft / name).mkdir()
        parts = (part for unit in study.units for part in task_parts(unit, range(len(unit.options))) if part.is_image)
        for part in parts:
            if (key := (part.value, part.box)) not in files_of:
                name, data = read_image_file(pairs, part)
                (draft / "images" / name).write_bytes(data)
                files_of[key] = name, image_address(name, data, served)
        files = {_KEY: study.model_dump_json(indent=1) + "\n", "label_studio/config.xml": configuration(survey, study)}
        for annotator in study.annotators:
            files[f"label_studio/tasks_{annotator}.json"] = tasks_json(
                study, annotator, lambda part: files_of[part.value, part.box][1]
            )
            files[f"sheets/{annotator}.csv"] = sheet(
                survey, study, annotator, lambda part: f"../images/{files_of[part.value, part.box][0]}"
            )
        for name, text in files.items():
            (draft / name).write_text(text, encoding="utf-8", newline="")


def read_study(folder: Path) -> Study:
    """Read the key of a study."""
    path = folder / _KEY
    if not path.is_file():
        raise DataError(f"{folder}: has no {_KEY}; name a folder that `tellapart annotate export` wrote")
    study = validate(Study, read_object(path), str(path))
    try:
        _check_study(study)
    except TellapartError as error:
        raise DataError(f"{path}: {error}") from error
    return study


def _check_study(study: Study) -> None:
    """Refuse a key that `deal` could not have made."""
    survey = find_survey(study.survey)
    check_annotators(study.annotators)
    names: dict[str, list[Hashable]] = {
        "unit": [unit.id for unit in study.units],
        "task": [task.id for task in study.tasks],
        "task of annotator and unit": [(task.annotator, task.unit) for task in study.tasks],
    }
    for name, ids in names.items():
        if (twice := first_repeated(ids)) is not None:
            raise DataError(f"{name} {quote(twice)} is there twice")
    for unit in study.units:
        _check_unit(survey, study, unit)
    for task in study.tasks:
        if task.unit not in study.unit_of:
            raise DataError(f"task {task.id} asks a unit that is not there")
        if task.annotator not in study.annotators:
            raise DataError(f"task {task.id}: field 'annotator': {task.annotator!r} is not one of the study's")
        if sorted(task.order) != (options := [*range(len(study.unit_of[task.unit].options))]):
            raise DataError(f"task {task.id}: field 'order': expected an order of {options}, got {quote(task.order)}")
    answers = len(study.units[0].options) if survey.choice and survey.choice.options else 1
    for item, units in Counter(unit.item for unit in study.units).items():
        if survey.judged and units * answers != study.shape[0] * study.shape[1]:
            images, texts = study.shape
            raise DataError(f"item {item!r} has {units} units, which ask of other pairs than its {images}x{texts}")


def _check_unit(survey: Survey, study: Study, unit: SurveyUnit) -> None:
    if unit.layout != study.units[0].layout:
        raise DataError(f"unit {unit.id!r} shows other numbers of images, texts or options than the first unit")
    asks_for_image = bool(survey.choice and survey.choice.options) and not unit.images
    if not (unit.texts if asks_for_image else unit.images or unit.options):
        raise DataError(f"unit {unit.id!r} shows nothing to ask about")
    ask = survey.choice
    truths = [*map(str, range(len(unit.options)))] if ask and ask.options else ask.choices if ask else ()
    if unit.truth not in (truths if survey.judged else ("",)):
        expected = f"expected one of {', '.join(truths)}" if survey.judged else f"a {survey.name} survey has none"
        raise DataError(f"unit {unit.id!r}: field 'truth': {expected}, got {unit.truth!r}")
    if len(unit.altered) not in (0, 2):
        raise DataError(f"unit {unit.id!r}: field 'altered': expected two words or none, got {quote(unit.altered)}")


def write_answers(folder: Path, answers: Sequence[SurveyAnswer]) -> Path:
    """Write all of a study's answers atomically."""
    write_rows(path := folder / _ANSWERS, [answer.model_dump(mode="json") for answer in answers])
    return path


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows atomically: as JSONL, or as one JSON list if the file's name ends in `.json`."""
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    listed = ",\n".join(lines)
    text = f"[{listed}]\n" if path.suffix == ".json" else "".join(f"{line}\n" for line in lines)
    try:
        with atomic_file(path) as draft:
            draft.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DataError(f"{path} cannot be written ({error.strerror or error})") from error


def read_answers(folder: Path, study: Study, *, missing_ok: bool = False) -> list[SurveyAnswer]:
    """Read a study's answers; with `missing_ok`, there may be none yet."""
    path = folder / _ANSWERS
    if not path.is_file():
        if missing_ok:
            return []
        raise DataError(f"{folder}: has no {_ANSWERS}; read them in with `tellapart annotate import`")
    survey, tasks = find_survey(study.survey), {task.id: task for task in study.tasks}
    answers: dict[str, tuple[SurveyAnswer, int]] = {}
    for line, row in read_jsonl(path):
        place, answer = f"{path}:{line}", validate(SurveyAnswer, row, f"{path}:{line}")
        if answer.task not in tasks:
            raise DataError(f"{place}: task {answer.task!r} is unknown to {folder / _KEY}; import answers again")
        if answer.task in answers:
            first = f"answered in line {answers[answer.task][1]}"
            raise DataError(f"{place}: a second answer to task {answer.task}, {first}; keep one of them")
        check_answer(survey, tasks[answer.task], answer, place)
        answers[answer.task] = answer, line
    return [answer for answer, _ in answers.values()]


def read_earlier(folder: Path) -> Earlier:
    """Read a study and its answers."""
    study = read_study(folder)
    return Earlier(study, tuple(read_answers(folder, study)))


def read_replies(path: Path, survey: Survey, study: Study, columns: Mapping[str, str] | None = None) -> Iterator[Reply]:
    """Yield the replies of a file: `.json` that Label Studio exported, or a `.csv` sheet or table."""
    if plain_suffix(path) == ".csv":
        yield from read_sheet(path, survey, study, columns or {})
    elif plain_suffix(path) == ".json":
        yield from read_export(read_json(path), str(path), field_names(survey, study))
    else:
        raise DataError(f"{path}: answers are read from Label Studio's .json exports, and .csv sheets and tables")


@dataclass(frozen=True, slots=True)
class WrittenStudy:
    """A study that was written: its folder, its survey's name, and its key."""

    to: Path
    survey: str
    study: Study


@dataclass(frozen=True, slots=True)
class ImportedAnswers:
    """Answers that were read into a study's folder, with those that were imported before."""

    to: Path  # the file
    answers: Sequence[SurveyAnswer]
    broken: Sequence[SurveyAnswer]  # those that break a rule of the survey: kept, and not used
    skipped: int
    of: int  # how many tasks there are


def annotate_export(
    survey: str,
    pairs: PairsGiven,
    to: PathGiven,
    *,
    annotators: str = "1",
    each: int | None = None,
    sample: int | None = None,
    seed: int = 0,
    after: PathGiven | None = None,
    embed: bool = False,
    prefix: str = "",
    data: PathGiven | None = None,
    images: PathGiven | None = None,
    outside_images: bool = False,
) -> WrittenStudy:
    """Write a survey of a pair set: Label Studio projects and spreadsheets, one an annotator, and the key.

    Args:
        survey: its name.
        pairs: as `load_pairs` takes them.
        to: the study's folder; new or empty.
        annotators: how many, or their names, separated by commas.
        each: how many annotators see each unit; all if None.
        sample: ask of so many items, drawn at random; of all if None.
        seed: of the sample, the orders and the sides.
        after: an earlier study's folder, of surveys that need one (error-category: coco-cf; expression: box).
        embed: put the images into Label Studio's tasks.
        prefix: the folder's path below Label Studio's local files; its name if not given.
        data, images, outside_images: as of `evaluate`.

    Raises:
        TellapartError: no such survey or set, or the folder holds something.

    >>> import tellapart as ta
    >>> written = ta.annotate_export("i2t", "demo", getfixture("tmp_path") / "study", annotators="ann,bob", sample=5)
    >>> sorted(path.name for path in (written.to / "sheets").iterdir())
    ['ann.csv', 'bob.csv']
    """
    chosen = find_survey(survey)
    if not chosen.after:
        expect_used("annotate export", f"on a {survey} survey, which follows no other", after=(after, None))
    if embed:
        expect_used("annotate export", "with embed=True: no picture is served", prefix=(prefix, ""))
    names = [name.strip() for name in annotators.split(",")]
    if annotators.isascii() and annotators.isdigit():
        if not 1 <= int(annotators) <= 999:
            raise DataError(f"annotators={annotators}: give 1 to 999, or names")
        names = [f"annotator-{number}" for number in range(1, int(annotators) + 1)]
    source = load_pairs(pairs, data=data, images=images, outside_images=outside_images)
    earlier = None if after is None else read_earlier(as_path(after, "after"))
    study = deal(chosen, source, names, each=each, seed=seed, sample=sample, earlier=earlier)
    folder = as_path(to, "to")
    write_study(folder, chosen, study, source, embed=embed, prefix=prefix)
    return WrittenStudy(folder, chosen.name, study)


def annotate_import(
    study: PathGiven,
    files: PathGiven | Sequence[PathGiven],
    *,
    partial: bool = False,
    answer_list: PathGiven | None = None,
    records: PathGiven | None = None,
    columns: Mapping[str, str] | None = None,
) -> ImportedAnswers:
    """Add answers to those in a study's folder, strictly: no answer is guessed or taken twice.

    An answer that was imported before may come again, if it is the same. Of tables but sheets and MTurk's,
    `columns` has the column of `study`, `task`, `worker`, `skip` and each answer, or of `answer` if one is asked for.

    Raises:
        TellapartError: a file does not fit its format or the study, or contradicts an answer that was imported before.

    >>> import tellapart as ta
    >>> study = ta.annotate_export("i2t", "demo", getfixture("tmp_path") / "study", annotators="ann", sample=2).to
    >>> sheet = study / "sheets" / "ann.csv"
    >>> _ = sheet.write_text(sheet.read_text().replace(",,\\n", ",a,\\n"))  # answers "a" to each
    >>> read = ta.annotate_import(study, sheet)
    >>> len(read.answers), read.of, list(read.broken)
    (4, 4, [])
    """
    folder, paths = as_path(study, "study"), as_paths(files, "files")
    if not any(plain_suffix(path) == ".csv" for path in paths):
        expect_used("annotate import", "without a table (.csv)", columns=(dict(columns or {}), {}))
    key = read_study(folder)
    survey = find_survey(key.survey)
    if records and survey.records is None:
        raise DataError(f"records={records}: a {survey.name} survey makes none; `tellapart annotate agree` reads it")
    if key.survey != "question":
        expect_used("annotate import", f"on a {key.survey} survey", answer_list=(answer_list, None))
    allowed = read_allowed(as_path(answer_list, "answer_list")) if answer_list else frozenset()
    replies = [reply for path in paths for reply in read_replies(path, survey, key, columns)]
    earlier = read_answers(folder, key, missing_ok=True)
    answers = decode_replies(survey, key, replies, allowed=allowed, partial=partial, earlier=earlier)
    to = write_answers(folder, answers)
    if records and survey.records:
        write_rows(as_path(records, "records"), survey.records(key, usable(answers)))
    broken = [answer for answer in answers if answer.problems]
    return ImportedAnswers(to, answers, broken, sum(answer.skipped for answer in answers), len(key.tasks))
