"""Visual grounding: the box of a phrase, right if it overlaps the gold box by half of their union."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from tellapart.data.task_records import BoxSet
from tellapart.metrics.boxes import box_accuracy, intersection_over_union
from tellapart.models.generative.answers import Corners
from tellapart.models.generative.readings import Answerer
from tellapart.models.protocols import BoxFinder, Pixels, Sides
from tellapart.tasks.declared import facts_of, hiding_of
from tellapart.tasks.predictions import parse_box, read_for_records
from tellapart.tasks.running import ask, compute_batches
from tellapart.tasks.task import Hiding, Session, Task, Units, to_fill, units_of, value_of


@runtime_checkable
class BoxAnswerer(Answerer, Protocol):
    """Names boxes in its answers, in numbers of a known meaning."""

    def read_box(self, answer: str, pixels: Pixels) -> Corners | None:
        """Read the box that an answer names: x1, y1, x2, y2 in pixels of the image; None if it names none."""
        ...


def _find_by_head(model: BoxFinder, records: BoxSet, session: Session) -> list[Sides]:
    """Find the box of every phrase by a head of the model, among the record's candidates if it needs some."""
    rows = records.rows

    def find(part: slice, pictures: list[list[Pixels]]) -> list[Sides]:
        phrases = [row.texts[0] for row in rows[part]]
        candidates = [row.facts.get("candidates", ()) for row in rows[part]]
        return model.find_boxes([picture for (picture,) in pictures], phrases, candidates)

    return compute_batches([row.images for row in rows], session, find, "boxes")


def _find_boxes(model: BoxAnswerer, records: BoxSet, session: Session) -> list[Sides]:
    """Ask a model for the box of every phrase; an answer that names none becomes a box without area, which is wrong."""
    prompt = model.task_prompt("grounding")
    prompts = [prompt.fill(text=row.texts[0]) for row in records.rows]
    images, show = [row.images for row in records.rows], getattr(model, "box_picture", None)
    answers = ask(model, images, prompts, session, longest=128, show=show)
    boxes: list[Sides] = []
    for row, answer in zip(records.rows, answers, strict=True):
        corners = model.read_box(answer, session.pixels(row.images[0]))
        x1, y1, x2, y2 = corners or (0.0, 0.0, 0.0, 0.0)
        boxes.append((x1, y1, x2 - x1, y2 - y1))
    return boxes


def measure_boxes(records: BoxSet, predictions: Sequence[Sides]) -> tuple[Units, ...]:
    """Measure boxes by both rules; phrases of one image are resampled together."""
    gold = records.gold
    gold_words = [", ".join(f"{side:g}" for side in box_) for box_ in gold]
    units = units_of(records.rows, [*map(list, predictions)], gold_words)
    values = (
        value_of("box_accuracy", box_accuracy(predictions, gold)),
        value_of("box_accuracy_plain", box_accuracy(predictions, gold, rule="plain")),
        value_of("mean_iou", intersection_over_union(predictions, gold)),
    )
    return (Units("phrase", units, values),)


#: Form of boxes -> the order of their numbers, whether the last two are a corner, and the image's side in their units.
_FORMS: Mapping[str, tuple[tuple[int, ...], bool, float | None]] = {
    "corners (x1, y1, x2, y2) in pixels": ((0, 1, 2, 3), True, None),
    "x, y, width, height in 0 to 1000": ((0, 1, 2, 3), False, 1000),
    "corners (x1, y1, x2, y2) in 0 to 1000": ((0, 1, 2, 3), True, 1000),
    "corners (y1, x1, y2, x2) in 0 to 1000": ((1, 0, 3, 2), True, 1000),
    "x, y, width, height as shares of the image": ((0, 1, 2, 3), False, 1),
    "corners (x1, y1, x2, y2) as shares of the image": ((0, 1, 2, 3), True, 1),
}


def _read_in_form(box_: Sides, size: tuple[int, int], form: str) -> Sides:
    """Return x, y, width and height in pixels of a box in one of the forms."""
    order, corners, side = _FORMS[form]
    scaled = (box_[k] * pixels / side if side else box_[k] for k, pixels in zip(order, size * 2, strict=True))
    x, y, width, height = scaled
    return (x, y, width - x, height - y) if corners else (x, y, width, height)


def _guess_form(records: BoxSet, predictions: Sequence[Sides]) -> str:
    """Return a sentence on the form in which the numbers fit the gold boxes far better; empty if there is none."""
    gold = records.gold

    def count_right(boxes: Sequence[Sides]) -> int:
        return int(box_accuracy(boxes, gold).sum())

    sized = [(box_, row.facts["size"]) for row, box_ in zip(records.rows, predictions, strict=True)]
    right = {form: count_right([_read_in_form(box_, size, form) for box_, size in sized]) for form in _FORMS}
    best, as_read = max(right, key=right.__getitem__), count_right(predictions)
    # By luck a form can be right of a few more; a wrong form is right of a few.
    if right[best] < max(2, 2 * as_read + 1, len(gold) / 10):
        return ""
    return (
        f"the numbers look like {best}: read so, {right[best]:,} of {len(gold):,} boxes would be right, and as they "
        f"are {as_read:,}; [x, y, width, height] in pixels is expected"
    )


def _write_notes(records: BoxSet, predictions: Sequence[Sides]) -> tuple[str, ...]:
    form = _guess_form(records, predictions)
    flat = sum(min(box_[2:]) <= 0 for box_ in predictions)
    sizes = [row.facts["size"] for row in records.rows]
    outside = sum(
        box_[0] >= size[0] or box_[1] >= size[1] or box_[0] + box_[2] <= 0 or box_[1] + box_[3] <= 0
        for size, box_ in zip(sizes, predictions, strict=True)
        if min(box_[2:]) > 0
    )
    small = not form and 0 < max((abs(side) for box_ in predictions for side in box_), default=0.0) <= 1
    notes = {
        f"{flat:,} of {len(predictions):,} boxes have no area, and are wrong": flat,
        f"{outside:,} of {len(predictions):,} boxes lie outside their image": outside,
        form: form,
        "no number of any box is above 1: are they shares of the image? Pixels are expected": small,
    }
    return tuple(note for note, holds in notes.items() if holds)


GROUNDING = Task(
    **facts_of("grounding"),
    template=to_fill(
        lambda row: (
            {"phrase": row.texts[0], "image": row.images[0]}
            | dict(zip(("width", "height"), row.facts["size"], strict=True))
        )
    ),
    read=lambda path, records: read_for_records(
        path, records.rows, parse_box, "phrase", lambda row, sides: sides == row.gold
    ),
    measure=measure_boxes,
    notes=_write_notes,
    runners=((BoxFinder, _find_by_head), (BoxAnswerer, _find_boxes)),
    hiding=Hiding(
        records=BoxSet,
        bare=lambda row: replace(row, gold=(0.0, 0.0, 1.0, 1.0), facts={**row.facts, "candidates": ()}),
        **hiding_of("grounding"),
        nothing=lambda size: [(0.0, 0.0, 0.0, 0.0)] * size,
        size=lambda row: row.facts["size"],
    ),
)
