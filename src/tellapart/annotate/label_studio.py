"""Label Studio: a survey as a labeling configuration and tasks, and its JSON and JSON_MIN exports read back.

The configuration holds no caption and is the same for all tasks; options are named A, B... and the study's key has the
option of each letter. A task's data carries `study` and `task`, which identify it; Label Studio uses `id`, `annotator`
and some more for itself.

Formats: https://labelstud.io/tags (View, Header, Text, Image, Choices, TextArea, RectangleLabels),
https://labelstud.io/guide/task_format (tasks and JSON export); JSON_MIN as Label Studio's converter writes it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any
from urllib.parse import quote as percent_encode
from xml.etree import ElementTree

from tellapart.annotate.presentation import ImageFile, TaskPart, choice_names, field_labels, task_parts, tasks_of
from tellapart.annotate.replies import Reply
from tellapart.annotate.survey import Ask, Study, Survey, letters
from tellapart.errors import DataError, quote

_SIDE_BY_SIDE = "display: flex; gap: 1em; align-items: flex-start"


def configuration(survey: Survey, study: Study) -> str:
    """Return the project's labeling configuration: well-formed XML."""
    unit = study.units[0]
    root = ElementTree.Element("View")
    for paragraph in survey.instructions:
        _add_tag(root, "Header", value=paragraph, size="5")
    parts = task_parts(unit, range(len(unit.options)))
    fixed = [part for part in parts if not part.name.startswith("option")]
    row = _add_tag(root, "View", style=_SIDE_BY_SIDE)
    for element in fixed:
        _add_content(row if element.image else root, element)
    options = [part for part in parts if part not in fixed]
    row = _add_tag(root, "View", style=_SIDE_BY_SIDE if unit.option_kind == "images" else "")
    for letter, element in zip(letters(len(options)), options, strict=True):
        cell = _add_tag(row, "View", style="flex: 1" if element.image else "")
        _add_tag(cell, "Header", value=letter, size="5")
        _add_content(cell, element)
    for ask in survey.asks:
        _add_control(root, ask, parts[0].name, len(options))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _add_tag(parent: ElementTree.Element, tag: str, **attributes: str) -> ElementTree.Element:
    return ElementTree.SubElement(parent, tag, {name: value for name, value in attributes.items() if value})


def _add_content(parent: ElementTree.Element, each: TaskPart) -> None:
    _add_tag(parent, "Image" if each.image else "Text", name=each.name, value=f"${each.name}")


def _add_control(root: ElementTree.Element, ask: Ask, target: str, options: int) -> None:
    required = "true" if ask.required else ""
    if ask.control == "box":
        box = _add_tag(root, "RectangleLabels", name=ask.name, toName=target, canRotate="false", maxUsages="1")
        _add_tag(box, "Label", value=ask.label)
        return
    for name, label in field_labels(ask, options).items():
        _add_tag(root, "Header", value=label, size="5")
        if ask.control == "text":
            attributes = {"rows": "2", "maxSubmissions": "1", "editable": "true"}
            _add_tag(root, "TextArea", name=name, toName=target, required=required, **attributes)
        else:
            group = _add_tag(root, "Choices", name=name, toName=target, choice="single-radio", required=required)
            for key, value in enumerate(choice_names(ask, options), start=1):
                _add_tag(group, "Choice", value=value, hotkey=str(key) if key < 10 else "")


def data_uri(picture: ImageFile) -> str:
    """Return an image as a `data:` address, which needs no server."""
    return f"data:{picture.type};base64,{base64.b64encode(picture.data).decode()}"


def local_file(picture: ImageFile, prefix: str) -> str:
    """Return an image's address under Label Studio's local file serving.

    >>> local_file(ImageFile("0.png", "image/png", b""), "my study")
    '/data/local-files/?d=my%20study/images/0.png'
    """
    return f"/data/local-files/?d={percent_encode(f'{prefix}/images/{picture.name}')}"


def tasks_json(study: Study, annotator: str, address: Callable[[TaskPart], str]) -> str:
    """Return an annotator's tasks, to be imported into a separate project."""
    rows = []
    for task in tasks_of(study, annotator):
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
