"""Models on the records of a task: answers in words, and scores and vectors of images and texts by way of the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tellapart.data.answer_text import strip_thought
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.scores import ScoreKind
from tellapart.data.task_records import Record, RecordSet
from tellapart.errors import ScoreError, quote
from tellapart.metrics.metric import Shape
from tellapart.models.generative.readings import Answerer
from tellapart.models.memory.external import read_counted
from tellapart.models.protocols import DualEncoder, Model, Pixels, Vectors
from tellapart.models.scoring.score import Scored, embeddings, score
from tellapart.models.store.batches import compute_named
from tellapart.tasks.predictions import parse_text, read_for_records
from tellapart.tasks.task import OF_SCORES, Session, all_images, scored_by

# Answers read from a file, or asked of a model, once for each record of a task, batch by batch.

T = TypeVar("T")


def compute_batches(
    images: Sequence[Sequence[str]],
    session: Session,
    compute: Callable[[slice, list[list[Pixels]]], Iterable[T]],
    noun: str = "answers",
    pixels: Callable[[str], Pixels] | None = None,
) -> list[T]:
    """Compute something for each record of its images, a batch at a time; `pixels` decodes one as a pair set does."""
    values: list[T] = []
    decode = pixels or session.pixels
    for start in range(0, len(images), session.batch):
        part = slice(start, start + session.batch)
        # Neighbouring records often share an image: each is decoded once for the batch.
        decoded = {reference: decode(reference) for own in images[part] for reference in own}
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
    model: Answerer,
    images: Sequence[Sequence[str]],
    prompts: Sequence[str],
    session: Session,
    *,
    longest: int = 32,
    show: Callable[[Pixels], Pixels] | None = None,
) -> list[str]:
    """Return the answer to each prompt about its images, as `show` makes them, without the model's thought.

    No answer depends on its neighbours, so the size of a batch changes none.
    """

    def answer(part: slice, pictures: list[list[Pixels]]) -> list[str]:
        shown = [[*map(show, own)] for own in pictures] if show else pictures
        return [*map(strip_thought, model.answer(shown, prompts[part], max_new_tokens=longest))]

    return compute_batches(images, session, answer)


def read_answers(
    path: Path,
    records: RecordSet,
    noun: str,
    is_gold: Callable[[Record, str], bool],
    read: Callable[[object], str] = parse_text,
) -> list[str]:
    """Read one text for each record, as `read_for_records` does; a file without any text was not filled in."""
    return expect_filled(path, read_for_records(path, records.rows, read, noun, is_gold))


def expect_filled(path: Path, answers: list[str]) -> list[str]:
    """Return answers that a file was filled in with."""
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


# Scores and vectors of images and texts by way of the store, and the table of their similarities.

#: Images and texts whose similarity is computed at once.
_IMAGES, _TEXTS = 64, 1024


def score_pairs(model: Model, pairs: PairSet, session: Session) -> Scored:
    """Score every pair of a set, by way of the store."""
    return score(
        model,
        pairs,
        store=session.store,
        batch_size=session.batch_size,
        hashes=session.hashes,
        progress=session.progress,
    )


def read_scored(
    path: Path, ids: Sequence[str], shape: Shape, kind: ScoreKind | None, rows: NDArray[np.int64] | None = None
) -> Scored:
    """Read a file of scores of every pair, as `read_counted` does."""
    scores, ties = read_counted(path, ids=tuple(ids), shape=shape, kind=kind, rows=rows)
    return Scored(scores, rounded_ties=ties)


def score_items(model: Model, name: str, items: Sequence[Item], session: Session) -> NDArray[np.float32]:
    """Return a model's scores of items of one shape, `(item, image, text)`; `name` is the set's, for messages."""
    done = score_pairs(model, PairSet(name, tuple(items), Path(), read=session.pictures), session)
    session.scores.append(done.scores)
    return done.scores.values


def of_texts(images: int) -> dict[str, Any]:
    """Return the fields of a task of scores whose records are so many images with one text."""

    def score_records(model: Model, records: RecordSet, session: Session) -> Scored:
        items = tuple(Item(id=row.id, images=row.images, texts=row.texts) for row in records.rows)
        return score_pairs(model, PairSet(records.name, items, Path(), read=session.pictures), session)

    def read(path: Path, records: RecordSet, kind: ScoreKind | None = None) -> Scored:
        return read_scored(path, [row.id for row in records.rows], (images, 1), kind)

    return OF_SCORES | {
        "template": lambda records: (
            {"id": row.id, "image": k, "text": 0, "score": None, "image_path": image, "caption": row.texts[0]}
            for row in records.rows
            for k, image in enumerate(row.images)
        ),
        "read": read,
        "runners": scored_by(score_records),
        "images": all_images,
    }


def encode(
    model: DualEncoder, name: str, images: Sequence[str], texts: Sequence[str], session: Session
) -> tuple[Vectors, Vectors]:
    """Return the vectors of images and of texts, float32 `(image, ...)` and `(text, ...)`; each is made once."""
    covering = tuple(
        Item(id=str(number), images=(image or images[0],), texts=(text or texts[0],))
        for number, (image, text) in enumerate(zip_longest(images, texts))
    )
    pairs = PairSet(name, covering, Path(), read=session.pictures)

    score_items(model, name, covering, session)
    vectors = embeddings(model, pairs, store=session.store, batch_size=session.batch)
    assert vectors.images is not None and vectors.texts is not None  # noqa: S101  (both were asked for)
    return vectors.images[: len(images), 0], vectors.texts[: len(texts), 0]


def similarity_table(model: DualEncoder, images: Vectors, texts: Vectors) -> NDArray[np.float32]:
    """Return the model's similarity of every image with every text, block by block: float32 `(image, text)`."""
    matrix = np.empty((len(images), len(texts)), np.float32)
    for top in range(0, len(images), _IMAGES):
        for start in range(0, len(texts), _TEXTS):
            block = model.similarity(images[top : top + _IMAGES], texts[start : start + _TEXTS])
            matrix[top : top + _IMAGES, start : start + _TEXTS] = block
    return matrix
