"""Models that are plain Python: a function of an image and a text, or an object that has less than a protocol asks.

A model without an identity gets the hash of its source, and is never kept in the store: the source does not tell
which weights it reads.
"""

from __future__ import annotations

import hashlib
import inspect
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError, TellapartWarning, quote
from tellapart.models.protocols import Model, Pixels

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["FunctionScorer", "MatrixFunction", "ModelGiven", "as_model", "is_stored"]


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


#: A model as callers give it, but for names: an object of a protocol, one that has the methods of one alone, its class,
#: or a function of an image and a text, or of an item's images and texts.
ModelGiven: TypeAlias = (
    Model
    | Callable[[Any, Any], Any]
    | type[Any]
    | _EncodesBoth
    | _ScoresPairs
    | _ScoresTexts
    | _ScoresMatrices
    | _Writes
)

#: Methods by which an object is a model; the protocols group them.
_METHODS = (
    "encode_images", "encode_texts", "similarity", "similarities", "score_pairs", "score_matrix", "score_texts",
    "log_likelihoods", "score_item", "prepare_image", "answer", "answers",
)  # fmt: skip


def is_stored(model: object) -> bool:
    """Return whether the store may keep a model's numbers for later runs: False for a model without a fingerprint.

    >>> from tellapart.models.reference import Oracle
    >>> is_stored(Oracle())
    True
    """
    return bool(getattr(model, "stored", True))


def as_model(thing: object, *, name: str = "", file: Path | None = None, batched: bool | None = None) -> Model:
    """Return an object or a function as a model.

    An object of a protocol in `models/protocols.py` is returned as it is. One that has the methods alone gets a name,
    the kind `similarity` and the hash of its source for a fingerprint; so does a function `(image, text) -> number`, or
    `(images, texts) -> matrix` if it is `batched`, whose images are PIL's.

    Args:
        thing: the object, its class (called without arguments), or the function.
        name: its name in results; that of the object if not given.
        file: the file that defines it, whose content becomes a part of its fingerprint.
        batched: whether a function takes all images and all texts of an item at once, and returns their matrix;
            by default the function's attribute `batched`.

    Raises:
        ModelError: it is neither.

    >>> def length(image, text):
    ...     return len(text)
    >>> length.fingerprint = "length-1"
    >>> model = as_model(length)
    >>> model.name, model.kind, model.score_pairs([np.zeros((2, 2, 3), np.uint8)], ["four"])
    ('length', 'similarity', array([4.], dtype=float32))
    """
    if inspect.isclass(thing):
        if missing := _required_arguments(thing):
            raise ModelError(f"{thing.__name__} is a class that needs {', '.join(missing)}; give an object of it")
        thing = thing()
    if isinstance(thing, Model) and file is None and not batched:
        return thing
    if any(callable(getattr(thing, method, None)) for method in _METHODS):
        return _Named(thing, *_identify_model(thing, name, file))
    if not callable(thing) or _is_module(thing):
        raise ModelError(_explain_refusal(thing))
    identity = _identify_model(thing, name, file)
    if batched if batched is not None else getattr(thing, "batched", False):
        return MatrixFunction(thing, *identity)
    return FunctionScorer(thing, *identity)


class _Identity:
    """The name, fingerprint and kind of a model that lacks some of them; `stored` is false without a fingerprint of the
    model.

    Attributes:
        file: the file that defines it, if the user named one.
    """

    def __init__(self, name: str, fingerprint: str, kind: ScoreKind, stored: bool, file: Path | None) -> None:
        self.name, self.fingerprint, self.kind, self.stored, self.file = name, fingerprint, kind, stored, file


class FunctionScorer(_Identity):
    """A function `(image, text) -> number` as a pair scorer; the image is PIL's, RGB."""

    def __init__(self, function: Callable[[Any, str], Any], *identity: Any) -> None:
        super().__init__(*identity)
        self._function = function

    def score_pairs(self, images: Sequence[Pixels], texts: Sequence[str]) -> NDArray[np.float32]:
        """Score image `k` against text `k`: float32 `(n,)`.

        Raises:
            ModelError: the function returned something else than one number.
        """
        pictures = {id(image): _to_picture(image) for image in images}
        scores = [self._function(pictures[id(image)], text) for image, text in zip(images, texts, strict=True)]
        return np.array([_to_number(self.name, score) for score in scores], np.float32)


class MatrixFunction(_Identity):
    """A function `(images, texts) -> matrix` of one item's images (PIL's, RGB) and texts."""

    def __init__(self, function: Callable[[list[Any], list[str]], Any], *identity: Any) -> None:
        super().__init__(*identity)
        self._function = function

    def score_matrix(self, images: Sequence[Pixels], texts: Sequence[str]) -> NDArray[np.float32]:
        """Score every image of an item against every text of it: float32 `(images, texts)`.

        Raises:
            ModelError: the function returned something else than that matrix.
        """
        matrix = _to_array(self._function([_to_picture(image) for image in images], list(texts)))
        if matrix is None or matrix.shape != (len(images), len(texts)):
            shape = "no array of numbers" if matrix is None else f"an array {matrix.shape}"
            raise ModelError(
                f"{self.name}, given {len(images)} images and {len(texts)} texts, must return a matrix "
                f"{(len(images), len(texts))}: a row an image, a column a text; it returned {shape}"
            )
        return matrix


class _Named(_Identity):
    """An object with the methods of a protocol, and the facts that it lacks."""

    def __init__(self, thing: object, *identity: Any) -> None:
        super().__init__(*identity)
        self._thing = thing
        # Set here, not looked up when asked for: `isinstance` of a protocol sees existing attributes alone.
        self.__dict__ |= {name: getattr(thing, name) for name in _METHODS if callable(getattr(thing, name, None))}

    def __getattr__(self, name: str) -> Any:
        if name == "_thing":  # while it is being copied
            raise AttributeError(name)
        return getattr(self._thing, name)


def _identify_model(thing: object, name: str, file: Path | None) -> tuple[str, str, ScoreKind, bool, Path | None]:
    """Return name, fingerprint, kind, whether the store may keep it, and its file."""
    kind: ScoreKind = getattr(thing, "kind", "similarity")
    if kind not in get_args(ScoreKind):
        raise ModelError(
            f"{_name_of(thing)} says its scores are {quote(kind)}; use one of {', '.join(get_args(ScoreKind))}"
        )
    name = name or _name_of(thing)
    own: Any = getattr(thing, "fingerprint", None)
    if own is not None and not (isinstance(own, str) and own):
        raise ModelError(f"{name} has the fingerprint {quote(own)}; it must be a text that names its weights and code")
    source = _source_of(thing) if file is None else file.read_text(encoding="utf-8", errors="replace")
    digest = hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()
    if own is None:
        warnings.warn(
            f"{name} has no fingerprint: it goes by the hash of its source, and is computed anew each time; give it an "
            "attribute `fingerprint` that changes with its weights and its code, and the store keeps its scores",
            TellapartWarning,
            stacklevel=2,
        )
        return name, f"source-{digest}", kind, False, file
    own = own if file is None else hashlib.sha256(f"{own}\n{digest}".encode()).hexdigest()
    return name, own, kind, True, file


def _name_of(thing: object) -> str:
    """Return the name of an object or a function."""
    inner = thing.func if isinstance(thing, partial) else thing
    own = getattr(inner, "name", None) or getattr(inner, "__name__", None) or type(inner).__name__
    return "function" if own == "<lambda>" else str(own)


def _source_of(thing: object) -> str:
    inner = thing.func if isinstance(thing, partial) else thing
    if not (inspect.isroutine(inner) or inspect.isclass(inner)):
        inner = type(inner)
    try:
        return inspect.getsource(inner)
    except (OSError, TypeError):  # typed at a prompt, or built in
        code = getattr(inner, "__code__", None)
        return repr((inner.__qualname__, None if code is None else (code.co_code, code.co_names)))


def _required_arguments(kind: type) -> list[str]:
    """List the arguments without which an object of a class cannot be made."""
    try:
        parameters = inspect.signature(kind).parameters.values()
    except (TypeError, ValueError):  # of C
        return []
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [one.name for one in parameters if one.default is inspect.Parameter.empty and one.kind not in optional]


def _is_module(thing: object) -> bool:
    """Return whether it is a module of torch: one can be called, and not with an image and a text."""
    return any(each.__module__.startswith("torch.nn.") for each in type(thing).__mro__)


def _explain_refusal(thing: object) -> str:
    kind = type(thing).__name__
    if _is_module(thing):
        return (
            f"a {kind} takes tensors, and how images and texts become those is unknown; name its folder or its id "
            "(hf:...), or give a function (image, text) -> number that calls it"
        )
    return (
        f"{quote(thing)} ({kind}) is no model: give a name (`tellapart ls models`), an object of a protocol in "
        "tellapart.models.protocols, or a function (image, text) -> number"
    )


def _to_picture(pixels: Pixels) -> Image:
    from PIL import Image

    return Image.fromarray(pixels)


def _to_array(value: object) -> NDArray[np.float32] | None:
    """Return numbers of any kind, tensors too, as float32; None if they are none."""
    if hasattr(value, "detach"):
        value = value.detach().to("cpu").double().numpy()
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        return None
    return array.astype(np.float32) if array.dtype.kind in "fiub" else None


def _to_number(name: str, value: object) -> float:
    array = _to_array(value)
    if array is None or array.size != 1:
        shape = quote(value) if array is None else f"an array {array.shape}"
        raise ModelError(
            f"{name}, given an image and a text, must return one number; it returned {shape}; if it takes lists of "
            "both and returns their matrix, say batched=True"
        )
    return float(array.reshape(()))
