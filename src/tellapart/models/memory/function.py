"""Functions of an image and a text, or of an item's images and texts, as models.

A model without an identity gets the hash of its source, and is never kept in the store: the source does not tell
which weights it reads.
"""

from __future__ import annotations

import hashlib
import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError, TellapartWarning, quote
from tellapart.models.memory.encoders import to_picture
from tellapart.models.memory.identity import source_of
from tellapart.models.memory.mistakes import explain_call, read_output, to_array
from tellapart.models.memory.rest import at_rest, modules_of
from tellapart.models.protocols import Pixels


def is_stored(model: object) -> bool:
    """Return whether the store may keep a model's numbers for later runs: False for a model without a fingerprint.

    >>> from tellapart.models.reference import Oracle
    >>> is_stored(Oracle())
    True
    """
    return bool(getattr(model, "stored", True))


class Identity:
    """The name, fingerprint and kind of a model that lacks some of them; `stored` is false without a fingerprint of the
    model.

    Attributes:
        file: the file that defines it, if the user named one.
        unstored: why the store keeps none of its numbers, for the record; empty if the record need not name it.
    """

    unstored = ""

    def __init__(self, name: str, fingerprint: str, kind: ScoreKind, stored: bool, file: Path | None) -> None:
        self.name, self.fingerprint, self.kind, self.stored, self.file = name, fingerprint, kind, stored, file


class FunctionScorer(Identity):
    """A function `(image, text) -> number` as a pair scorer; the image is PIL's, RGB."""

    def __init__(self, function: Callable[[Any, str], Any], *identity: Any) -> None:
        super().__init__(*identity)
        _expect_two_arguments(function, self.name, "an image and a text")
        self._function, self._modules = function, modules_of(function)

    def score_pairs(self, images: Sequence[Pixels], texts: Sequence[str]) -> NDArray[np.float32]:
        """Score image `k` against text `k`: float32 `(n,)`."""
        pictures = {id(image): to_picture(image) for image in images}
        with _calling(self.name, self._modules):
            scores = [self._function(pictures[id(image)], text) for image, text in zip(images, texts, strict=True)]
        return np.array([_to_number(self.name, score) for score in scores], np.float32)


class MatrixFunction(Identity):
    """A function `(images, texts) -> matrix` of one item's images (PIL's, RGB) and texts."""

    def __init__(self, function: Callable[[list[Any], list[str]], Any], *identity: Any) -> None:
        super().__init__(*identity)
        _expect_two_arguments(function, self.name, "a list of images and a list of texts")
        self._function, self._modules = function, modules_of(function)

    def score_matrix(self, images: Sequence[Pixels], texts: Sequence[str]) -> NDArray[np.float32]:
        """Score every image of an item against every text of it: float32 `(images, texts)`."""
        with _calling(self.name, self._modules):
            value = self._function([to_picture(image) for image in images], list(texts))
        call = f"{self.name}, given {len(images)} images and {len(texts)} texts,"
        return read_output(call, value, (len(images), len(texts)), "a row an image, a column a text")


def _expect_two_arguments(function: Callable[..., Any], name: str, arguments: str) -> None:
    try:
        inspect.signature(function).bind(None, None)
    except ValueError:  # of C code, which has none
        pass
    except TypeError as error:
        raise ModelError(f"{name}: {error}; a function that is a model takes {arguments}") from error


@contextmanager
def _calling(name: str, modules: Sequence[Any]) -> Iterator[None]:
    """Call a caller's function, which may need gradients itself; explain a known mistake."""
    try:
        with at_rest(modules, gradients=True):
            yield
    except (RuntimeError, TypeError, AttributeError, ValueError) as error:
        if (explained := explain_call(name, error)) is not None:
            raise explained from error
        raise


def identify_model(thing: object, name: str, file: Path | None) -> tuple[str, str, ScoreKind, bool, Path | None]:
    """Return name, fingerprint, kind, whether the store may keep it, and its file."""
    kind: ScoreKind = getattr(thing, "kind", "similarity")
    if kind not in get_args(ScoreKind):
        raise ModelError(
            f"{name_of(thing)} says its scores are {quote(kind)}; use one of {', '.join(get_args(ScoreKind))}"
        )
    name = name or name_of(thing)
    declared: Any = getattr(thing, "fingerprint", None)
    if declared is not None and not (isinstance(declared, str) and declared):
        raise ModelError(
            f"{name} has the fingerprint {quote(declared)}; it must be a text that names its weights and code"
        )
    source = source_of(thing) if file is None else file.read_text(encoding="utf-8", errors="replace")
    digest = hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()
    if declared is None:
        warnings.warn(
            f"{name} has no fingerprint: it goes by the hash of its source, and is computed anew each time; give it an "
            "attribute `fingerprint` that changes with its weights and its code, and the store keeps its scores",
            TellapartWarning,
            stacklevel=2,
        )
        return name, f"source-{digest}", kind, False, file
    declared = declared if file is None else hashlib.sha256(f"{declared}\n{digest}".encode()).hexdigest()
    return name, declared, kind, True, file


def name_of(thing: object) -> str:
    """Return the name of an object or a function."""
    inner = thing.func if isinstance(thing, partial) else thing
    inner_name = getattr(inner, "name", None) or getattr(inner, "__name__", None) or type(inner).__name__
    return "function" if inner_name == "<lambda>" else str(inner_name)


def _to_number(name: str, value: object) -> float:
    array = to_array(value)
    if array is None or array.size != 1:
        shape = quote(value) if array is None else f"an array {array.shape}"
        raise ModelError(
            f"{name}, given an image and a text, must return one number; it returned {shape}; if it takes lists of "
            "both and returns their matrix, say batched=True"
        )
    return float(array.reshape(()))
