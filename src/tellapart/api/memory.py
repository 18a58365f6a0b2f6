"""Models and vectors that a caller holds in memory, for `evaluate` and the other functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError
from tellapart.models.memory.given import as_model, join_functions
from tellapart.models.memory.held import HeldModel, Parts, hold_module
from tellapart.models.memory.mistakes import OPEN_CLIP_LINE, explain_argument, is_module
from tellapart.models.protocols import Model

__all__ = ["model"]


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
