"""The distinct pictures among training rows, whose rows are whose, and their vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tellapart.data.annotations import made
from tellapart.data.pairset import PairSet
from tellapart.data.progress import Progress
from tellapart.models.deferred import Deferred
from tellapart.models.embeddings import embeddings
from tellapart.models.protocols import Model
from tellapart.models.store import EmbeddingStore
from tellapart.train.rows import Row

__all__ = ["Pictures", "as_pairs", "look_at"]


@dataclass(frozen=True, slots=True, eq=False)
class Pictures:
    """Pictures, one number each: files with the same pixels are one picture.

    Attributes:
        files: the first file of each picture.
        rows: numbers of the rows of each picture.
        of_row: the picture of each row.
        captions: the texts of each picture's rows.
        vectors: float32 `(picture, dimensions)`.
        hashes: file -> hash of its pixels.

    >>> Pictures((), (), (), (), np.zeros((0, 1), np.float32), {}).files
    ()
    """

    files: tuple[str, ...]
    rows: tuple[tuple[int, ...], ...]
    of_row: tuple[int, ...]
    captions: tuple[frozenset[str], ...]
    vectors: NDArray[np.float32]
    hashes: dict[str, str]


def look_at(
    rows: Sequence[Row], model: Model | Deferred, *, store: EmbeddingStore, progress: Progress | None = None
) -> Pictures:
    """Encode every distinct picture that the store lacks, and sort the rows by picture.

    Args:
        rows: of training.
        model: a dual encoder, of which the image side is used.
        store: where vectors are kept.
        progress: told what is done.

    Raises:
        DataError: an image is missing or cannot be decoded.
        ModelError: the model is no dual encoder, or its output is not what it must be.

    >>> from tellapart.models.reference import Constant
    >>> look_at([Row(Path("a.png"), "a cat")], Constant(), store=EmbeddingStore(None))
    Traceback (most recent call last):
    tellapart.errors.ModelError: constant has no vectors of images and texts apart; name a dual encoder: demo-encoder, say
    """
    names = [*dict.fromkeys(str(row.image) for row in rows)]
    caption = {str(row.image): row.caption for row in rows}
    pairs = as_pairs([(name, (caption[name],)) for name in names])
    found = embeddings(model, pairs, store=store, texts=False, progress=progress)
    assert found.images is not None  # noqa: S101  (they were asked for)
    number: dict[str, int] = {}
    firsts: list[int] = []
    for place, name in enumerate(names):
        if found.hashes[name] not in number:
            number[found.hashes[name]] = len(firsts)
            firsts.append(place)
    of_row = tuple(number[found.hashes[str(row.image)]] for row in rows)
    members: list[list[int]] = [[] for _ in firsts]
    for place, picture in enumerate(of_row):
        members[picture].append(place)
    return Pictures(
        files=tuple(names[place] for place in firsts),
        rows=tuple(map(tuple, members)),
        of_row=of_row,
        captions=tuple(frozenset(rows[place].caption for place in each) for each in members),
        vectors=found.images[firsts, 0],
        hashes=dict(found.hashes),
    )


def as_pairs(told: Sequence[tuple[str, Sequence[str]]]) -> PairSet:
    """Return image files with texts, as many beside each, as a pair set that reads the files where they lie.

    Raises:
        DataError: a text holds half a character, which no store can file.

    >>> as_pairs([("a.png", ("a cat", "a dog"))]).shape
    (1, 2)
    """
    items = tuple(
        made(f"captions of {name}", id=str(place), images=(name,), texts=tuple(texts))
        for place, (name, texts) in enumerate(told)
    )
    return PairSet("training rows", items, Path(), read=lambda name: Path(name).read_bytes())
