"""A survey as one HTML file an annotator: it works offline and by keyboard, and saves a file of answers to send back.

Answers are kept in the browser as they are given. The file that the page saves is one JSON object: `tellapart_answers`
(its version), `study`, `annotator`, and a list `answers` of `task` with `values` by field, or with `skipped`.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from tellapart.annotate.label_studio import data_uri
from tellapart.annotate.presentation import ImageFile, TaskPart, choice_names, field_labels, task_parts, tasks_of
from tellapart.annotate.replies import Reply
from tellapart.annotate.survey import Ask, Study, Survey
from tellapart.data.images import decode
from tellapart.errors import DataError, quote
from tellapart.report.templates import make_environment

#: The version of the file of answers.
_FORMAT = 1

#: A file up to this size is embedded unchanged; a larger one is scaled down.
_KEEP_BYTES = 200_000

#: The longer side of a picture that was scaled down, in pixels.
_LONGEST_SIDE = 1024


@dataclass(frozen=True, slots=True)
class PagePicture:
    """An image as a page embeds it.

    Attributes:
        uri: a `data:` address.
        size: width and height before it was scaled down, in which boxes are drawn; None if it was not.
    """

    uri: str
    size: tuple[int, int] | None = None


def page_picture(file: ImageFile) -> PagePicture:
    """Return an image for a page: unchanged up to 200 kB, else as a JPEG of at most 1024 pixels a side."""
    if len(file.data) <= _KEEP_BYTES:
        return PagePicture(data_uri(file))
    from PIL import Image

    picture = Image.fromarray(decode(file.data, file.name))
    size = picture.size
    picture.thumbnail((_LONGEST_SIDE, _LONGEST_SIDE))
    stream = io.BytesIO()
    picture.save(stream, "JPEG", quality=88)
    return PagePicture(f"data:image/jpeg;base64,{base64.b64encode(stream.getvalue()).decode()}", size)


def page(survey: Survey, study: Study, annotator: str, picture: Callable[[TaskPart], PagePicture]) -> str:
    """Return an annotator's page. It holds neither the right answers nor the names of units and files.

    >>> from tellapart.annotate.survey import AnnotatorTask, SurveyUnit
    >>> from tellapart.annotate.surveys import find_survey
    >>> unit = SurveyUnit(id="a/image 0", item="a", cluster="a", images=["0.png"], options=["x", "y"], truth="0")
    >>> task = AnnotatorTask(id="ann-00001", annotator="ann", unit="a/image 0", order=[1, 0])
    >>> key = {"survey": "i2t", "pairs": "s", "shape": [1, 2], "seed": 0, "annotators": ["ann"]}
    >>> study = Study(**key, units=[unit], tasks=[task])
    >>> text = page(find_survey("i2t"), study, "ann", lambda part: PagePicture("data:,"))
    >>> '"tasks":[{"id":"ann-00001","images":[0],"texts":[],"options":["y","x"]}]' in text, "a/image" in text
    (True, False)
    """
    base = files("tellapart.report").joinpath("page.css").read_text(encoding="utf-8")
    return (
        make_environment()
        .from_string(_read_asset("page.html.j2"))
        .render(
            annotator=annotator,
            instructions=survey.instructions,
            style=base + _read_asset("page.css"),
            script=_read_asset("page.js"),
            data=_page_json(_page_content(survey, study, annotator, picture)),
        )
    )


def _read_asset(name: str) -> str:
    return files("tellapart.annotate").joinpath(name).read_text(encoding="utf-8")


def _page_json(value: object) -> str:
    # Inside <script> only `<` could end the element or open a comment; JSON may write it as an escape.
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _page_content(
    survey: Survey, study: Study, annotator: str, picture: Callable[[TaskPart], PagePicture]
) -> dict[str, Any]:
    """Return the data for the page's script; pictures in the order in which they are first shown."""
    pictures: dict[PagePicture, int] = {}

    def shown(part: TaskPart) -> str | int:
        return pictures.setdefault(picture(part), len(pictures)) if part.image else part.value

    tasks = []
    for task in tasks_of(study, annotator):
        content: dict[str, Any] = {"id": task.id, "images": [], "texts": [], "options": []}
        for part in task_parts(study.unit_of[task.unit], task.order):
            content[f"{part.name.partition('_')[0]}s"].append(shown(part))
        tasks.append(content)
    unit = study.units[0]
    return {
        "study": study.token,
        "annotator": annotator,
        "pictured": unit.option_kind == "images",
        "fields": [field for ask in survey.asks for field in _ask_fields(ask, len(unit.options))],
        "tasks": tasks,
        "pictures": [[each.uri, *(each.size or ())] for each in pictures],
    }


def _ask_fields(ask: Ask, options: int) -> Iterator[dict[str, Any]]:
    """Yield the fields of a question: one, or a text for each option."""
    settings = {"control": ask.control, "required": ask.required, "choices": choice_names(ask)}
    for name, label in field_labels(ask, options).items():
        yield {"name": name, "label": label, "options": ask.options and ask.control == "choice", **settings}


def read_page_answers(content: Mapping[str, Any], where: str) -> Iterator[Reply]:
    """Yield the replies of a file that a page saved.

    >>> answers = [{"task": "ann-00001", "values": {"caption": "A"}}]
    >>> (reply,) = read_page_answers({"tellapart_answers": 1, "study": "feed", "answers": answers}, "a.json")
    >>> reply.where, reply.task, reply.values
    ('a.json: answer 0', 'ann-00001', {'caption': 'A'})
    """
    if content.get("tellapart_answers") != _FORMAT:
        raise DataError(
            f"{where}: expected answers of version {_FORMAT} (`tellapart_answers`), as an annotator's page saves them; "
            f"got {quote(content.get('tellapart_answers'))}"
        )
    study, rows = content.get("study"), content.get("answers")
    if not isinstance(study, str) or not isinstance(rows, list):
        raise DataError(f"{where}: expected a text `study` and a list `answers`, as an annotator's page saves them")
    for number, row in enumerate(rows):
        place = f"{where}: answer {number}"
        fields = row if isinstance(row, Mapping) else {}
        task, values, skipped = fields.get("task"), fields.get("values", {}), fields.get("skipped", False)
        if not isinstance(task, str) or not isinstance(values, Mapping) or not isinstance(skipped, bool):
            raise DataError(f"{place}: expected `task` with `values` or `skipped`, got {quote(row)}")
        if skipped and values:
            raise DataError(f"{place}: task {task} is both skipped and answered; save the page's answers again")
        yield Reply(place, study, task, dict(values), skipped)
