"""Vectors that another system computed, measured on minimal pairs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tellapart.api.evaluate import evaluate
from tellapart.api.run import Run
from tellapart.benchmarks.arguments import PairsGiven, load_pairs
from tellapart.data.arguments import LimitGiven, PathGiven, as_path
from tellapart.models.memory.vector_files import VectorModel, VectorsGiven, name_rows, read_vectors

__all__ = ["score_vectors"]


def score_vectors(
    images: VectorsGiven,
    texts: VectorsGiven,
    benchmark: PairsGiven = "demo",
    *,
    image_ids: Sequence[str] | None = None,
    text_ids: Sequence[str] | None = None,
    name: str = "vectors",
    out: PathGiven | None = None,
    limit: LimitGiven = None,
    data: PathGiven | None = None,
    seed: int = 0,
    command: str = "",
) -> Run:
    """Measure vectors that another system computed, on minimal pairs: a score is the cosine.

    Args:
        images, texts: numbers `(n, dimensions)` in an array, a list or a tensor; or a file of them: `.npz` (`ids`,
            `vectors`), `.parquet` (`id`, `vector`), `.safetensors` (`vectors`, and `ids` as JSON in its metadata), or
            `.npy`. Lengths other than one are scaled to one, and the record names them.
        benchmark: minimal pairs, as `load_pairs` takes them.
        image_ids: the reference of each row's image in the pair set (`item.images`). Without ids, here and in the
            file, rows follow the order of the items: one for each of an item's images, or one for each distinct image
            at its first place.
        text_ids: the text of each row, likewise.
        name: in results.
        out, limit, data, seed, command: as of `evaluate`.

    Raises:
        ScoreError: there are more or fewer rows than images or texts, an id is unknown or missing, a vector is not
            finite or has length zero, or dimensions differ; the message has the row.
        TellapartError: no such pairs.

    >>> import numpy as np
    >>> import tellapart as ta
    >>> pairs = ta.load_pairs("demo")
    >>> texts = list(dict.fromkeys(text for item in pairs.items for text in item.texts))
    >>> rng = np.random.default_rng(0)
    >>> vectors = rng.normal(size=(800, 16)), rng.normal(size=(len(texts), 16))
    >>> ta.score_vectors(*vectors, pairs, text_ids=texts).record("text_score").n
    400
    """
    pairs = load_pairs(benchmark, data=data)
    sides = []
    given = (("images", images, image_ids), ("texts", texts, text_ids))
    for side, values, ids in given:
        read, listed = read_vectors(as_path(values, side)) if isinstance(values, str | Path) else (values, None)
        slots = [reference for item in pairs.items for reference in getattr(item, side)]
        sides.append(name_rows(side, read, ids if ids is not None else listed, slots, pairs.name))
    return evaluate(VectorModel(name, *sides), pairs, out=out, limit=limit, seed=seed, cache=False, command=command)
