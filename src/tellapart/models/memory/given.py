"""Models that callers hold in memory, as objects or functions: their methods decide how each is used."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeAlias, get_args

from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError, quote
from tellapart.models.memory.adapter import methods_of, modules_of, of_encoders, of_function, of_object, reads_arrays
from tellapart.models.memory.held import (
    HeldModel,
    Parts,
    hold_module,
    identify_functions,
    identify_model,
    identify_modules,
)
from tellapart.models.memory.mistakes import OPEN_CLIP_LINE, explain_argument, is_module, refuse_async
from tellapart.models.protocols import Model


class _EncodesBoth(Protocol):
    def encode_images(self, images: Any, /) -> object: ...
    def encode_texts(self, texts: Any, /) -> object: ...


class _ScoresPairs(Protocol):
    def score_pairs(self, images: Any, texts: Any, /) -> object: ...


class _ScoresTexts(Protocol):
    def score_texts(self, texts: Any, /) -> object: ...


class _ScoresMatrices(Protocol):
    def score_matrix(self, images: Any, texts: Any, /) -> object: ...


class _Writes(Protocol):
    def log_likelihoods(self, images: Any, texts: Any, /) -> object: ...


#: A model as callers may pass it, other than by name: an object with the methods of a protocol, the class of such an
#: object, a function of an image and a text or of an item's images and texts, or a sentence-transformers model.
ModelGiven: TypeAlias = (
    Model | Callable[..., Any] | type[Any] | _EncodesBoth | _ScoresPairs | _ScoresTexts | _ScoresMatrices | _Writes
)


def as_model(thing: object, *, name: str = "", file: Path | None = None, batched: bool | None = None) -> Model:
    """Return an object or a function as a model.

    An object needs one of a protocol's methods (`models/protocols.py`); it gets PIL images in RGB. The rest of the
    protocol is filled in: a name, the kind `similarity`, cosines as the scores of `encode_images` and `encode_texts`. A
    function is `(image, text) -> number`, or `(images, texts) -> matrix` if it is `batched`. A sentence-transformers
    model works as it is; for a model of open_clip or transformers, call `tellapart.model` with its preprocessing.
    """
    if inspect.isclass(thing):
        missing: list[str] = []
        with suppress(TypeError, ValueError):  # a class written in C has no signature
            parameters = inspect.signature(thing).parameters.values()
            optional = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
            needed = (parameter for parameter in parameters if parameter.default is inspect.Parameter.empty)
            missing = [parameter.name for parameter in needed if parameter.kind not in optional]
        if missing:
            raise ModelError(f"{thing.__name__} is a class that needs {', '.join(missing)}; give an object of it")
        thing = thing()
    if isinstance(thing, HeldModel):
        return thing.open_again()
    if isinstance(thing, Model) and file is None and not batched and reads_arrays(thing):
        return thing
    encodes = callable(getattr(thing, "encode_images", None)) and callable(getattr(thing, "encode_texts", None))
    if is_module(thing) and not encodes and (held := hold_module(Parts(thing, name=name))) is not None:
        return held
    if methods_of(thing):
        modules = [] if getattr(thing, "fingerprint", None) is not None or file is not None else modules_of(thing)
        return of_object(
            thing, identify_modules(thing, modules, name) if modules else identify_model(thing, name, file)
        )
    refuse_async(thing, "model")
    if not callable(thing) or is_module(thing):
        raise ModelError(explain_argument(thing) or _explain_refusal(thing))
    batched = batched if batched is not None else getattr(thing, "batched", False)
    return of_function(thing, identify_model(thing, name, file), batched=batched)


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
        return _join_functions(images, texts, score, name, fingerprint, kind)
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


def _join_functions(
    images: Callable[[list[Any]], Any] | None,
    texts: Callable[[list[str]], Any] | None,
    score: Callable[[list[Any], list[str]], Any] | None,
    name: str,
    fingerprint: str | None,
    kind: ScoreKind,
) -> Model:
    """Return a model of `images` and `texts`, which return vectors, or of `score`, which returns a matrix."""
    if kind not in get_args(ScoreKind):
        raise ModelError(f"kind={quote(kind)}: use one of {', '.join(get_args(ScoreKind))}")
    for parameter, function in (("images", images), ("texts", texts), ("score", score)):
        if function is not None and not callable(function):
            reason = explain_argument(function, parameter) or f"{parameter}={quote(function)} is not a function"
            raise ModelError(f"ta.model: {reason}")
        refuse_async(function, parameter)
    if score is not None and images is None and texts is None:
        return of_function(score, identify_functions([score], name, fingerprint, kind), batched=True)
    if score is None and images is not None and texts is not None:
        identity = identify_functions([images, texts], name or "vectors", fingerprint, "similarity")
        return of_encoders(images, texts, identity)
    raise ModelError(
        "ta.model: give images= and texts=, two functions that return vectors, or score=, one that returns a matrix"
    )


def _explain_refusal(thing: object) -> str:
    kind = type(thing).__name__
    if is_module(thing):
        return (
            f"a {kind} has neither encode_image and encode_text nor get_image_features and get_text_features, and how "
            "images and texts become its tensors is unknown: write ta.model(images=f, texts=g) with two functions to "
            f"vectors, {OPEN_CLIP_LINE}, or name its folder or its id (hf:...)"
        )
    return (
        f"{quote(thing)} ({kind}) is no model: give a name (`tellapart ls models`), an object of a protocol in "
        "tellapart.models.protocols, or a function (image, text) -> number"
    )
