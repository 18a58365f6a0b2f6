"""Models and vectors that a caller holds in memory, for `evaluate` and the other functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tellapart.api.evaluate import evaluate
from tellapart.api.run import Run
from tellapart.benchmarks.arguments import PairsGiven, load_pairs
from tellapart.catalog import nearest
from tellapart.data.arguments import LimitGiven, PathGiven, as_path
from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError, ScoreError, quote
from tellapart.models.memory.given import as_model, join_functions
from tellapart.models.memory.held import HeldModel, Parts, hold_module
from tellapart.models.memory.mistakes import OPEN_CLIP_LINE, explain_argument, is_module, to_array
from tellapart.models.memory.vector_files import NamedVectors, VectorModel, VectorsGiven, name_vectors, read_vectors
from tellapart.models.protocols import Model

__all__ = ["model", "score_vectors"]


def model(
    module: object = None,
    processor: object = None,
    *,
    preprocess: Callable[[Any], Any] | None = None,
    tokenizer: Callable[[Any], Any] | None = None,
    images: Callable[[list[Any]], Any] | None = None,
    texts: Callable[[list[str]], Any] | None = None,
    score: Callable[[list[Any], list[str]], Any] | None = None,
    name: str = "",
    fingerprint: str | None = None,
    reading: str | None = None,
    kind: ScoreKind = "similarity",
) -> Model:
    """Return what you hold as a model: `evaluate` measures it where it is, and leaves it as it was.

    - `model(clip, preprocess=preprocess, tokenizer=tokenizer)`: of open_clip, of the package `clip`, or any module with
      `encode_image` and `encode_text`;
    - `model(hf_model, processor)`: of transformers, a dual encoder or one with a matching head;
    - `model(sentence_transformer)`;
    - `model(images=f, texts=g)`: two functions from a list to vectors `(n, dimensions)`, scored by the cosine;
    - `model(score=f)`: a function from an item's images and texts to their matrix `(images, texts)`.

    Images arrive as PIL images, RGB. The scores are those of the same weights through a file. While the model computes
    it is in evaluation mode and without gradients; afterwards the mode of each part and the random states are what they
    were. Device and dtype are the model's.

    Args:
        module: the model; recognised by what it has, wrapped by `torch.compile`, peft or for several processes, too.
        processor: of transformers, for images and texts. Images are prepared by its Pillow version, as of a folder.
        preprocess: takes a PIL image to a tensor `(channels, height, width)`.
        tokenizer: takes a list of texts to a tensor `(n, length)`.
        images, texts: functions to vectors.
        score: a function to a matrix.
        name: in results; the class's if not given.
        fingerprint: names weights and preparation; of a module it is the hash of its parameters, architecture and
            preparation if not given. If a part of that is not known, the store is off, and the record names the part.
        reading: which of the model's readings is scored; its family's first if not given.
        kind: of the scores of functions: similarity, logit or probability.

    Raises:
        ModelError: a part is missing or is something else; the message has the line to write.

    >>> import numpy as np
    >>> import tellapart as ta
    >>> def brightness(images):
    ...     return np.array([[np.asarray(image).mean(), 128] for image in images])
    >>> def length(texts):
    ...     return np.array([[len(text), 30] for text in texts])
    >>> mine = ta.model(images=brightness, texts=length, name="mine", fingerprint="mine-1")
    >>> ta.evaluate(mine, "demo", limit=20).record("text_score").n
    20
    """
    if images is not None or texts is not None or score is not None:
        if module is not None:
            raise ModelError("ta.model: give a model, or functions (images= and texts=, or score=), not both")
        return join_functions(images=images, texts=texts, score=score, name=name, fingerprint=fingerprint, kind=kind)
    if module is None:
        raise ModelError(f"ta.model: give a model, as in {OPEN_CLIP_LINE}, or images= and texts=, or score=")
    if (mistake := explain_argument(module, "module")) is not None:
        raise ModelError(f"ta.model: {mistake}")
    parts = Parts(module, processor, preprocess, tokenizer, name, fingerprint, reading)
    if isinstance(module, HeldModel) or not is_module(module):
        if processor is not None or preprocess is not None or tokenizer is not None:
            raise ModelError(
                f"ta.model: a {type(module).__name__} prepares its inputs itself: write ta.model(it) alone"
            )
        return as_model(module, name=name)
    return hold_module(parts) or as_model(module, name=name)


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
        sides.append(_name_rows(side, read, ids if ids is not None else listed, slots, pairs.name))
    return evaluate(VectorModel(name, *sides), pairs, out=out, limit=limit, seed=seed, cache=False, command=command)


def _name_rows(side: str, values: object, ids: Sequence[str] | None, slots: Sequence[str], owner: str) -> NamedVectors:
    """Give each row its id: the caller's, or that of its place among the items' images or texts."""
    array = to_array(values)
    if array is not None and array.ndim == 4:
        raise ScoreError(f"score_vectors({side}=): an array {array.shape} holds pixels; give vectors (n, dimensions)")
    if array is not None and array.ndim == 3:  # (items, images, dimensions)
        array = array.reshape(-1, array.shape[-1])
    distinct = list(dict.fromkeys(slots))
    if ids is not None:
        named = name_vectors(side, values if array is None else array, list(ids))
        known = set(distinct)
        wrong = next((row for row, name in enumerate(ids) if name not in known), None)
        if wrong is not None:
            hint = nearest(ids[wrong], distinct[:5000]) or ""
            raise ScoreError(f"{side}=: row {wrong} has the id {quote(ids[wrong])}, of no item of {owner}{hint}")
        return named
    places = distinct if array is not None and len(array) == len(distinct) else list(slots)
    if array is not None and array.ndim == 2 and len(array) not in {len(distinct), len(slots)}:
        raise ScoreError(
            f"{side}= has {len(array):,} rows, and {owner} {len(slots):,} {side}, {len(distinct):,} of them distinct: "
            f"give one row each, or {side[:-1]}_ids="
        )
    return name_vectors(side, values if array is None else array, places)
