"""A caller's object, functions or module as a model: its methods, under the names of the protocols.

Images arrive as PIL images; a model of this package, and one with a true attribute `reads_arrays`, is given arrays,
uint8 `(height, width, 3)`.
"""

from __future__ import annotations

import inspect
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import islice
from types import CellType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import ModelError, quote
from tellapart.models.memory.identity import Identity, is_installed
from tellapart.models.memory.mistakes import explain_mistakes, read_output, to_array
from tellapart.models.protocols import Pixels
from tellapart.models.torch.backend import inference
from tellapart.models.torch.network import Network
from tellapart.models.vectors import dot_products, normalise

if TYPE_CHECKING:
    from PIL.Image import Image

#: Methods by which an object is a model; the protocols group them.
METHODS = (
    "encode_images", "encode_texts", "similarity", "similarities", "score_pairs", "score_matrix", "score_texts",
    "log_likelihoods", "score_item", "prepare_image", "answer", "answers", "choose_answers", "judge", "find_boxes",
    "take_notes", "token_ids", "input_pixels",
)  # fmt: skip

#: Further methods of protocols, by which no object is recognised as a model: arrays have some of these names, too.
_MORE_METHODS = ("choose", "find_cut", "read_box", "task_prompt")

#: Methods that return numbers alone, which may be lists, tensors or of another precision.
_NUMBERS = frozenset(METHODS[: METHODS.index("prepare_image")])

#: Attributes of protocols; the second ones, of prepared images in the store, only if the model reads arrays.
_ATTRIBUTES = ("batch_size", "parameters", "ranks_by_cosine", "logit_scale", "traits")
_STORED_IMAGES = ("preparation", "pack_image", "unpack_image")

#: How far the modules that a call uses may lie: from a method to its object, its part, a function's partial...
_STEPS = 5

#: Entries of a container that are looked at, in every call: one with more holds captions or numbers.
_ENTRIES = 1000

#: The packages whose models are given arrays.
_PACKAGES = ("tellapart", "tellapart_native", "tellapart_render")


def is_stored(model: object) -> bool:
    """Return whether the store may keep a model's numbers for later runs: False for a model without a fingerprint."""
    return bool(getattr(model, "stored", True))


def reads_arrays(model: object) -> bool:
    """Return whether an object is given arrays in place of PIL images."""
    package = type(model).__module__.partition(".")[0]
    return package in _PACKAGES or bool(getattr(model, "reads_arrays", False))


def to_picture(pixels: Pixels) -> Image:
    """Return pixels, uint8 `(height, width, 3)`, as a PIL image, RGB."""
    from PIL import Image

    return Image.fromarray(pixels)


@dataclass(frozen=True, slots=True)
class Ready:
    """An image as a caller's object prepared it: a class of its own, since the value may look like plain pixels."""

    value: Any

    @property
    def nbytes(self) -> int:
        """Memory of its array, in bytes."""
        return int(getattr(self.value, "nbytes", 0))


class MemoryModel:
    """A caller's model: methods of the protocols, called with its torch modules at rest (`at_rest`).

    `holders` are the objects and functions whose modules are at rest during a call; `gradients` leaves gradients on,
    since a function may need them. Other attributes are those of `wrapped`, the caller's object, which also decides
    whether images are PIL images or arrays. A subclass without an `identity` sets its parts itself.
    """

    ranks_by_cosine = False

    def __init__(
        self,
        identity: Identity | None,
        methods: dict[str, Callable[..., Any]],
        holders: Sequence[object],
        *,
        wrapped: object = None,
        gradients: bool = False,
    ) -> None:
        if identity is not None:
            self.name, self.fingerprint, self.kind, self.stored, self.file, self.unstored = identity
        self._wrapped, self._holders, self._gradients, self._arrays = wrapped, holders, gradients, reads_arrays(wrapped)
        # Set, not looked up when asked for: `isinstance` of a protocol sees existing attributes alone.
        attributes = (*_ATTRIBUTES, *(_STORED_IMAGES if self._arrays else ()))
        self.__dict__ |= {name: getattr(wrapped, name) for name in attributes if hasattr(wrapped, name)}
        more = {name: method for name in _MORE_METHODS if callable(method := getattr(wrapped, name, None))}
        self.__dict__ |= {name: self._guard_method(name, method) for name, method in (methods | more).items()}

    def __getattr__(self, name: str) -> Any:
        if name in {"_wrapped", "stored", *_STORED_IMAGES}:  # the first two while it is being copied
            raise AttributeError(name)
        return getattr(self._wrapped, name)

    def _guard_method(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        if name == "prepare_image":  # called in several threads at once
            return method if self._arrays else lambda pixels: Ready(method(to_picture(pixels)))

        def call(*arguments: Any, **options: Any) -> Any:
            pictures: dict[int, Image] = {}
            if not self._arrays:
                arguments = tuple(_to_pictures(argument, pictures) for argument in arguments)
            modules = {id(module): module for holder in self._holders for module in modules_of(holder, _STEPS)}
            with explain_mistakes(f"{self.name}: {name} fails"), at_rest([*modules.values()], self._gradients):
                return method(*arguments, **options)

        return call


def methods_of(model: object) -> dict[str, Callable[..., Any]]:
    """Return an object's methods of the protocols."""
    return {name: method for name in METHODS if callable(method := getattr(model, name, None))}


def of_object(model: Any, identity: Identity) -> MemoryModel:
    """Return an object as a model; `encode_images` and `encode_texts` without `similarity` are scored by cosines."""
    methods = methods_of(model)
    if {"encode_images", "encode_texts"} <= methods.keys() and "similarity" not in methods:
        return of_encoders(methods["encode_images"], methods["encode_texts"], identity, model)

    def as_float32(method: Callable[..., Any], *inputs: Any) -> Any:
        return value if (array := to_array(value := method(*inputs))) is None else array

    numbers = {name: partial(as_float32, methods[name]) for name in _NUMBERS & methods.keys()}
    return MemoryModel(identity, methods | numbers, [model], wrapped=model)


def of_encoders(
    images: Callable[..., Any], texts: Callable[..., Any], identity: Identity, wrapped: object = None
) -> MemoryModel:
    """Return a dual encoder of two functions: a list of PIL images, or of texts, to vectors `(n, dimensions)`."""

    def encode(function: Callable[..., Any], kind: str, row: str, inputs: Sequence[Any]) -> NDArray[np.float32]:
        call = f"{identity.name}, given {len(inputs)} {kind},"
        return normalise(read_output(call, function(list(inputs)), (len(inputs), None), f"a row {row}"), identity.name)

    encoders: dict[str, Callable[..., Any]] = {
        "encode_images": partial(encode, images, "images", "an image"),
        "encode_texts": partial(encode, texts, "texts", "a text"),
        "similarity": dot_products,
        "similarities": dot_products,
    }
    holders = [images, texts] if wrapped is None else [wrapped]
    model = MemoryModel(identity, methods_of(wrapped) | encoders, holders, wrapped=wrapped)
    model.ranks_by_cosine = True
    return model


def of_function(function: Callable[..., Any], identity: Identity, *, batched: bool) -> MemoryModel:
    """Return a function `(image, text) -> number` as a model, or `(images, texts) -> matrix` of an item's."""
    name = identity.name
    arguments = "a list of images and a list of texts" if batched else "an image and a text"
    try:
        inspect.signature(function).bind(None, None)
    except ValueError:  # of C code, which has none
        pass
    except TypeError as error:
        raise ModelError(f"{name}: {error}; a function that is a model takes {arguments}") from error

    def score_pair(image: Any, text: str) -> float:
        array = to_array(value := function(image, text))
        if array is None or array.size != 1:
            shape = quote(value) if array is None else f"an array {array.shape}"
            raise ModelError(
                f"{name}, given an image and a text, must return one number; it returned {shape}; if it takes lists of "
                "both and returns their matrix, say batched=True"
            )
        return float(array.reshape(()))

    def score_pairs(images: Sequence[Any], texts: Sequence[str]) -> NDArray[np.float32]:
        return np.array([score_pair(*pair) for pair in zip(images, texts, strict=True)], np.float32)

    def score_matrix(images: Sequence[Any], texts: Sequence[str]) -> NDArray[np.float32]:
        call = f"{name}, given {len(images)} images and {len(texts)} texts,"
        value = function(list(images), list(texts))
        return read_output(call, value, (len(images), len(texts)), "a row an image, a column a text")

    methods = {"score_matrix": score_matrix} if batched else {"score_pairs": score_pairs}
    return MemoryModel(identity, methods, [function], gradients=True)


def _to_pictures(argument: Any, pictures: dict[int, Image]) -> Any:
    """Return an argument with PIL images in place of pixels, and the values of images that the object prepared.

    `pictures` has those of this call by the pixels' id: an image that occurs several times is one object there, too.
    """
    if isinstance(argument, Ready):
        return argument.value
    if isinstance(argument, np.ndarray) and argument.dtype == np.uint8 and argument.ndim == 3:
        if id(argument) not in pictures:
            pictures[id(argument)] = to_picture(argument)
        return pictures[id(argument)]
    if not isinstance(argument, list | tuple):
        return argument
    values = [_to_pictures(value, pictures) for value in argument]
    return tuple(values) if isinstance(argument, tuple) else values


@contextmanager
def at_rest(modules: Sequence[Network], gradients: bool = False) -> Iterator[None]:
    """Hold the caller's modules in evaluation mode, and without gradients unless they are asked for.

    The mode of each part and the random states are restored at the end, after an error and an interruption, too.
    """
    torch = sys.modules.get("torch")
    modes = [(part, part.training) for module in modules for part in module.modules()]
    training = [(module, module.training) for module in modules if any(part.training for part in module.modules())]
    # Some kernels differ, in a last bit, for parameters that are trained, even where no gradient is taken.
    weights = [] if gradients else [weight for module in modules for weight in module.parameters()]
    trained = [weight for weight in weights if weight.requires_grad]
    with keep_random_state(), nullcontext() if torch is None else inference(gradients):
        try:
            for module, _ in training:
                module.eval()
            for parameter in trained:
                parameter.requires_grad_(False)
            yield
        finally:
            for parameter in trained:
                parameter.requires_grad_(True)
            # By the module's method first, which may undo what its `eval` did (loralib merges weights there).
            for module, mode in training:
                module.train(mode)
            for part, mode in modes:
                part.training = mode


@contextmanager
def keep_random_state() -> Iterator[None]:
    """Restore the random states of Python, numpy and torch at the end."""
    torch, of_python, of_numpy = sys.modules.get("torch"), random.getstate(), np.random.get_state()
    gpus = range(torch.cuda.device_count()) if torch is not None and torch.cuda.is_initialized() else ()
    with nullcontext() if torch is None else torch.random.fork_rng(gpus):
        try:
            yield
        finally:
            random.setstate(of_python)
            np.random.set_state(of_numpy)


def modules_of(holder: object, steps: int = 1) -> list[Any]:
    """Return the torch modules that an object or a function uses: itself, or those that it refers to in so many steps.

    An object refers to its attributes; a function to its object (of a method), its arguments (of a partial one), its
    closure, and globals that it names. Of an installed package only the holder and its object are followed.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return []
    reached, level = {id(holder): holder}, [holder]
    first = (holder, getattr(holder, "__self__", None))
    for _ in range(steps):
        parts = (_list_parts(value, torch.nn.Module, whole=any(value is each for each in first)) for value in level)
        level = [part for listed in parts for part in listed]
        level = [*{id(part): part for part in level if id(part) not in reached}.values()]
        reached |= {id(part): part for part in level}
    return [value for value in reached.values() if isinstance(value, torch.nn.Module)]


def _list_parts(value: Any, module: type, *, whole: bool) -> list[Any]:
    """Return what an object or a function refers to; of a container its modules alone, of a module nothing."""
    if isinstance(value, partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, list | tuple | dict):  # copied: another thread may prepare pictures, and note them there
        entries = [*islice(value.values() if isinstance(value, dict) else value, _ENTRIES)]
        return [entry for entry in entries if isinstance(entry, module)]
    if isinstance(value, module | type | ModuleType):
        return []
    if not (whole or inspect.isroutine(value)):  # of an object no name is asked that it may look up in its own way
        return [] if is_installed(type(value)) else [*getattr(value, "__dict__", {}).values()]
    parts, code = [getattr(value, "__self__", None)], getattr(value, "__code__", None)
    if code is None:
        return [*parts, *getattr(value, "__dict__", {}).values()] if whole else parts
    if whole or not is_installed(value):
        parts += [cell.cell_contents for cell in getattr(value, "__closure__", None) or () if cell != CellType()]
        parts += [value.__globals__[name] for name in code.co_names if name in value.__globals__]
    return parts
