"""Mistakes that people make with a model in memory, each with the line to write."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import ModelError, first_sentence, quote

_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp")

#: The line for a model of open_clip.
OPEN_CLIP_LINE = "ta.model(model, preprocess=preprocess, tokenizer=open_clip.get_tokenizer(NAME))"


def is_module(thing: object) -> bool:
    """Return whether it is a module of torch; torch is not imported for it."""
    return any(ancestor.__module__.startswith("torch.nn.") for ancestor in type(thing).__mro__)


def explain_argument(thing: object, parameter: str = "models") -> str | None:
    """Return the sentence on something that is neither a model nor a benchmark, with the line to write; or None."""
    if isinstance(thing, list | tuple):
        return _explain_several(thing, parameter)
    if inspect.isgenerator(thing):
        return f"{parameter}={quote(thing)} is a generator: write {parameter}=[...], a list"
    shape = _shape_of(thing)
    if shape is None:
        return None
    if len(shape) in {3, 4} and 3 in (shape[-1], shape[-3]):
        pixels = "pixels" if str(getattr(thing, "dtype", "")).endswith("uint8") else "prepared images"
        return (
            f"{parameter}= is an array {shape} of {pixels}: give the images as files of a pair set, "
            "evaluate(model, ta.load_pairs(FOLDER)), or score vectors: ta.score_vectors(model.encode_image(images), "
            "texts, pairs)"
        )
    line = f"{parameter}= is an array {shape}: write ta.score_vectors(images, texts, benchmark)"
    return line if len(shape) == 2 else None


def _explain_several(things: Sequence[Any], parameter: str) -> str | None:
    if isinstance(things, tuple) and len(things) in {2, 3} and hasattr(things[0], "encode_image"):
        return (
            f"{parameter}=({', '.join(type(element).__name__ for element in things)}) is what "
            f"open_clip.create_model_and_transforms returns: write model, _, preprocess = ..., and {OPEN_CLIP_LINE}"
        )
    if things and all(isinstance(element, str) and element.lower().endswith(_SUFFIXES) for element in things):
        return (
            f"{parameter}={quote(things)} are names of files: write them into a folder's pairs.jsonl, and "
            'evaluate(model, "folder:PATH"); the model is given PIL images'
        )
    if len(things) == 2 and all(_shape_of(element) is not None for element in things):
        return f"{parameter}= is a pair of arrays: write ta.score_vectors(images, texts, benchmark)"
    return None


def _shape_of(thing: object) -> tuple[int, ...] | None:
    shape = getattr(thing, "shape", None)
    return tuple(shape) if isinstance(shape, tuple) and hasattr(thing, "dtype") else None


def refuse_async(function: object, parameter: str) -> None:
    """Refuse an async function, which returns a coroutine in place of numbers."""
    call = vars(type(function)).get("__call__")
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call):
        name = getattr(function, "__name__", type(function).__name__)
        raise ModelError(f"{parameter}={name} is async: write {parameter}=lambda *given: asyncio.run({name}(*given))")


def to_array(value: object) -> NDArray[np.float32] | None:
    """Return numbers of any kind, tensors too, as float32; None if they are none."""
    if isinstance(value, list | tuple) and value and hasattr(value[0], "detach"):
        value = [to_array(entry) for entry in value]
    elif hasattr(value, "detach"):
        value = value.detach().to("cpu").double().numpy()
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        return None
    return array.astype(np.float32) if array.dtype.kind in "fiub" else None


def read_output(call: str, value: object, shape: tuple[int | None, ...], rows: str) -> NDArray[np.float32]:
    """Return a function's output as float32 of a shape, None in it for any number."""
    if inspect.isgenerator(value):
        raise ModelError(f"{call} returned a generator: write return np.stack(list(...))")
    if inspect.iscoroutine(value):
        value.close()
        raise ModelError(f"{call} returned a coroutine: write asyncio.run(...) around the call")
    array = to_array(value)
    fits = array is not None and array.ndim == len(shape)
    if array is not None and fits and all(want in (None, got) for want, got in zip(shape, array.shape, strict=True)):
        return array
    got = f"{quote(value)} ({type(value).__name__})" if array is None else f"an array {array.shape}"
    expected = str(tuple("n" if size is None else size for size in shape)).replace("'", "")
    hint = ""
    if array is not None and array.ndim == len(shape) - 1 and len(shape) == 2:
        hint = "; if it takes one at a time, write lambda given: np.stack([f(one) for one in given])"
    elif array is not None and array.ndim == 4:
        hint = "; these are pixels, and an encoder returns vectors"
    raise ModelError(f"{call} must return numbers {expected}, {rows}; it returned {got}{hint}")


#: What an exception of a caller's function or module holds, and the line to write. An attribute of an image that no
#: array has is a slip of the pen.
_MISTAKES = tuple(
    (re.compile(pattern), line)
    for pattern, line in (
        ("same device", "its parts, or its inputs, lie on two devices: move all of it, model.to(device)"),
        ("not implemented.*Half", "it holds float16, which this device cannot compute: write model.float()"),
        (
            f"'Image' object has no attribute '({'|'.join(dir(np.ndarray))})'",
            "images are PIL images, RGB: write lambda image: f(np.asarray(image)) for a function of arrays",
        ),
        (
            r"PIL|(pic|img) should be|Image\.Image",
            "images are PIL images, RGB, and not tensors: begin preprocess with a step to a tensor, as in "
            "torchvision.transforms.ToTensor()",
        ),
    )
)


def explain_prepared(value: object) -> str:
    """Return the sentence on a preparation's output that is not a tensor (channels, height, width)."""
    shape = _shape_of(value)
    if shape is not None and len(shape) == 3 and shape[-1] == 3:
        return (
            f"preprocess returned {value.dtype} {shape}, height first: "  # type: ignore[attr-defined]
            "write torch.from_numpy(array).permute(2, 0, 1) / 255, and the model's mean and deviation"
        )
    if hasattr(value, "convert"):
        return "preprocess returned a PIL image: end it with torchvision.transforms.ToTensor() and Normalize(...)"
    if hasattr(value, "keys"):
        return (
            f"preprocess returned a {type(value).__name__}: write preprocess=lambda image: "
            "processor(images=image, return_tensors='pt')['pixel_values'][0]"
        )
    kind = f"{type(value).__name__} {shape}" if shape else type(value).__name__
    return f"preprocess must return a tensor (channels, height, width) of one image; it returned {kind}"


@contextmanager
def explain_mistakes(call: str) -> Iterator[None]:
    """Add the line to write to an error by a known mistake; others pass unchanged."""
    try:
        yield
    except (ModelError, RuntimeError, TypeError, AttributeError, ValueError) as error:
        cause = error.__cause__ if isinstance(error, ModelError) else error
        line = next((line for pattern, line in _MISTAKES if pattern.search(str(cause))), None) if cause else None
        if line is None:
            raise
        said = str(error) if isinstance(error, ModelError) else f"{call}: {first_sentence(error)}"
        raise ModelError(f"{said}; {line}") from cause
