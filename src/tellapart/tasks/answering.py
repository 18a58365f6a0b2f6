"""Answers read from a file, or asked of a model, once for each record of a task, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from tellapart.data.answer_text import strip_thought
from tellapart.errors import ScoreError, quote
from tellapart.models.generative.readings import Answerer
from tellapart.models.protocols import Pixels
from tellapart.models.store.batches import compute_named
from tellapart.tasks.predictions import read_predictions, text
from tellapart.tasks.task import Session

T = TypeVar("T")


def compute_batches(
    images: Sequence[Sequence[str]],
    session: Session,
    compute: Callable[[slice, list[list[Pixels]]], Iterable[T]],
    noun: str = "answers",
) -> list[T]:
    """Compute something for each record of its images, a batch at a time."""
    values: list[T] = []
    for start in range(0, len(images), session.batch):
        part = slice(start, start + session.batch)
        # Neighbouring records often share an image: each is decoded once for the batch.
        decoded = {reference: session.pixels(reference) for own in images[part] for reference in own}
        pictures = [[decoded[reference] for reference in own] for own in images[part]]
        values += compute_named(
            lambda rows, start=start, pictures=pictures: compute(  # type: ignore[misc]
                slice(start + rows.start, start + rows.stop), pictures[rows]
            ),
            [f"record {start + row + 1} ({', '.join(own)})" for row, own in enumerate(images[part])],
        )
        if session.progress:
            session.progress(noun, len(values), len(images))
    return values


def ask(
    model: Answerer, images: Sequence[Sequence[str]], prompts: Sequence[str], session: Session, *, longest: int = 32
) -> list[str]:
    """Return the answer to each prompt about its images, without the model's thought.

    No answer depends on its neighbours, so the size of a batch changes none.
    """

    def answer(part: slice, pictures: list[list[Pixels]]) -> list[str]:
        return [*map(strip_thought, model.answer(pictures, prompts[part], max_new_tokens=longest))]

    return compute_batches(images, session, answer)


def read_answers(
    path: Path, ids: Sequence[str], noun: str, is_gold: Callable[[int, str], bool], read: Callable[[object], str] = text
) -> list[str]:
    """Read one text for each id, as `read_predictions` does; a file without any text was not filled in."""
    answers = read_predictions(path, ids, read, noun, is_gold)
    if not any(answer.strip() for answer in answers):
        raise ScoreError(
            f"{path}: every prediction is empty, or ends inside its thought; fill in the template, or let the model "
            "write more tokens, then score it"
        )
    return answers


def count_empty(answers: Sequence[str], noun: str) -> tuple[str, ...]:
    """Return the note that counts empty answers; none without one."""
    empty = sum(not answer.strip() for answer in answers)
    return (f"{empty:,} of {len(answers):,} {noun} are empty",) if empty else ()


def describe_unread(unread: Sequence[str], total: int, why: str, expected: str) -> tuple[str, ...]:
    """Return the note that counts answers that cannot be read, and shows one of them; none if all can be."""
    if not unread:
        return ()
    sample = next((f", such as {quote(answer[:50])}" for answer in unread if answer.strip()), "")
    return (f"{len(unread):,} of {total:,} answers {why}{sample}; expected: {expected}",)
