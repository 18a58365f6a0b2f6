"""The parts of a task that an annotator sees: named texts and images, and image files whose names give nothing away."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from tellapart.annotate.survey import AnnotatorTask, Ask, Study, SurveyUnit, letters
from tellapart.data.pairset import PairSet
from tellapart.data.video import as_picture

_TYPES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp"}


@dataclass(frozen=True, slots=True)
class TaskPart:
    """A text or an image of a task.

    Attributes:
        name: `image_0`, `text_0`, `option_a`.
        image: whether it is an image; a text otherwise.
        value: the image's reference, or the text.
        box: drawn on the image: x, y, width, height in pixels; empty for none.
    """

    name: str
    image: bool
    value: str
    box: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class ImageFile:
    """An image's file as annotators get it.

    Attributes:
        name: made of its content: the pair set's own names often say which image is the true one.
        type: its media type.
        data: its bytes.
    """

    name: str
    type: str
    data: bytes


def tasks_of(study: Study, annotator: str) -> list[AnnotatorTask]:
    """Return an annotator's tasks, in their order."""
    return [task for task in study.tasks if task.annotator == annotator]


def task_parts(unit: SurveyUnit, order: Sequence[int]) -> list[TaskPart]:
    """Return the content of a unit, its options in an order: images, texts, options.

    >>> unit = SurveyUnit(id="a", item="a", cluster="a", images=["0.png"], options=["x", "y"])
    >>> [(each.name, each.value) for each in task_parts(unit, [1, 0])]
    [('image_0', '0.png'), ('option_a', 'y'), ('option_b', 'x')]
    """
    box = tuple(unit.box)
    images = [TaskPart(f"image_{k}", True, image, () if k else box) for k, image in enumerate(unit.images)]
    texts = [TaskPart(f"text_{k}", False, text) for k, text in enumerate(unit.texts)]
    options = [
        TaskPart(f"option_{letter.lower()}", unit.option_kind == "images", unit.options[index])
        for letter, index in zip(letters(len(order)), order, strict=True)
    ]
    return [*images, *texts, *options]


def choice_names(ask: Ask, options: int = 0) -> tuple[str, ...]:
    """Return the choices of a question as they are shown: the letters of so many options, and the others.

    >>> choice_names(Ask("caption", "choice", "Which caption?", ("both", "neither"), options=True), 2)
    ('A', 'B', 'Both', 'Neither')
    """
    return (*letters(options if ask.options else 0), *(choice[0].upper() + choice[1:] for choice in ask.choices))


def field_labels(ask: Ask, options: int) -> dict[str, str]:
    """Return a question's fields with their labels: one, or a text for each of a unit's options.

    >>> field_labels(Ask("answer", "text", "The answer for image", options=True), 2)
    {'answer_a': 'The answer for image A', 'answer_b': 'The answer for image B'}
    """
    names = ask.names(options)
    if len(names) == 1:
        return {names[0]: ask.label}
    return {name: f"{ask.label} {letter}" for name, letter in zip(names, letters(options), strict=True)}


def read_image_file(pairs: PairSet, each: TaskPart) -> ImageFile:
    """Read an image of a pair set as annotators get it: its file, or a PNG of a frame or with the box drawn on it."""
    suffix = PurePosixPath(each.value).suffix.lower()
    if each.box or suffix not in _TYPES:
        data, suffix = _draw_box(pairs, each), ".png"
    else:
        data = pairs.read_bytes(each.value)
    return ImageFile(f"{hashlib.sha256(data).hexdigest()[:16]}{suffix}", _TYPES[suffix], data)


def _draw_box(pairs: PairSet, each: TaskPart) -> bytes:
    from PIL import Image, ImageDraw

    image = Image.fromarray(as_picture(pairs.pixels(each.value)))
    if each.box:
        x, y, width, height = each.box
        pen = max(2, round(max(image.size) / 200))
        ImageDraw.Draw(image).rectangle((x, y, x + width, y + height), outline=(255, 0, 0), width=pen)
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()
