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
from types import CellType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import ModelError, quote
from tellapart.models.memory.identity import Identity
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

#: Attributes that a protocol asks for; those that keep prepared images only of a model that is given arrays.
_ATTRIBUTES = ("batch_size", "parameters", "ranks_by_cosine", "logit_scale", "traits")
_OF_KEPT = ("preparation", "pack_image", "unpack_image")

#: The packages whose models are given arrays.
_PACKAGES = ("tellapart", "tellapart_native", "tellapart_render")


def is_stored(model: object) -> bool:
    """Return whether the store may keep a model's numbers for later runs: False for a model without a fingerprint."""
    return bool(getattr(model, "stored", True))


def reads_arrays(thing: object) -> bool:
    """Return whether an object is given arrays in place of PIL images."""
    package = type(thing).__module__.partition(".")[0]
    return package in _PACKAGES or bool(getattr(thing, "reads_arrays", False))


def to_picture(pixels: Pixels) -> Image:
    """Return pixels, uint8 `(height, width, 3)`, as a PIL image, RGB."""
    from PIL import Image

    return Image.fromarray(pixels)


@dataclass(frozen=True, slots=True)
class Ready:
    """An image as a caller's object prepared it: distinguished from plain pixels, whatever it is."""

    value: Any

    @property
    def nbytes(self) -> int:
        """Memory of its array, in bytes."""
        return int(getattr(self.value, "nbytes", 0))


class MemoryModel:
    """A caller's model: methods of the protocols, called with its torch modules at rest.

    `holders` are the objects and functions whose modules are in evaluation mode during a call alone; a function may
    need `gradients` itself. The caller's object, `thing`, has the other attributes. Images are given as PIL's, or as
    `arrays`. A subclass without an `identity` sets its parts itself.
    """

    ranks_by_cosine = False

    def __init__(
        self,
        identity: Identity | None,
        methods: dict[str, Callable[..., Any]],
        holders: Sequence[object],
        *,
        thing: object = None,
        gradients: bool = False,
    ) -> None:
        if identity is not None:
            self.name, self.fingerprint, self.kind, self.stored, self.file, self.unstored = identity
        self._thing, self._holders, self._gradients, self._arrays = thing, holders, gradients, reads_arrays(thing)
        # Set, not looked up when asked for: `isinstance` of a protocol sees existing attributes alone.
        attributes = (*_ATTRIBUTES, *(_OF_KEPT if self._arrays else ()))
        self.__dict__ |= {name: getattr(thing, name) for name in attributes if hasattr(thing, name)}
        more = {name: method for name in _MORE_METHODS if callable(method := getattr(thing, name, None))}
        self.__dict__ |= {name: self._guard_method(name, method) for name, method in (methods | more).items()}

    def __getattr__(self, name: str) -> Any:
        if name in {"_thing", "stored", *_OF_KEPT}:  # the first two while it is being copied
            raise AttributeError(name)
        return getattr(self._thing, name)

    def _guard_method(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        if name == "prepare_image":  # called in several threads at once
            return method if self._arrays else lambda pixels: Ready(method(to_picture(pixels)))

        def call(*given: Any, **options: Any) -> Any:
            shown: dict[int, Any] = {}
            pictures = given if self._arrays else tuple(_show_pictures(value, shown) for value in given)
            modules = {id(module): module for holder in self._holders for module in modules_of(holder)}
            with explain_mistakes(f"{self.name}: {name} fails"), at_rest([*modules.values()], self._gradients):
                return method(*pictures, **options)

        return call


def methods_of(thing: object) -> dict[str, Callable[..., Any]]:
    """Return an object's methods of the protocols."""
    return {name: method for name in METHODS if callable(method := getattr(thing, name, None))}


def of_object(thing: Any, identity: Identity) -> MemoryModel:
    """Return an object as a model; `encode_images` and `encode_texts` without `similarity` are scored by cosines."""
    methods = methods_of(thing)
    if {"encode_images", "encode_texts"} <= methods.keys() and "similarity" not in methods:
        return of_encoders(methods["encode_images"], methods["encode_texts"], identity, thing)
    return MemoryModel(identity, methods, [thing], thing=thing)


def of_encoders(
    images: Callable[..., Any], texts: Callable[..., Any], identity: Identity, thing: object = None
) -> MemoryModel:
    """Return a dual encoder of two functions: a list of PIL images, or of texts, to vectors `(n, dimensions)`."""

    def encode(function: Callable[..., Any], kind: str, row: str, given: Sequence[Any]) -> NDArray[np.float32]:
        call = f"{identity.name}, given {len(given)} {kind},"
        return normalise(read_output(call, function(list(given)), (len(given), None), f"a row {row}"), identity.name)

    encoders: dict[str, Callable[..., Any]] = {
        "encode_images": partial(encode, images, "images", "an image"),
        "encode_texts": partial(encode, texts, "texts", "a text"),
        "similarity": dot_products,
        "similarities": dot_products,
    }
    holders = [images, texts] if thing is None else [thing]
    model = MemoryModel(identity, methods_of(thing) | encoders, holders, thing=thing)
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


def _show_pictures(given: Any, shown: dict[int, Any]) -> Any:
    """Return what a caller's object is given: PIL images in place of pixels, and what it prepared itself.

    An image that occurs several times is one object there, too.
    """
    if isinstance(given, Ready):
        return given.value
    if isinstance(given, np.ndarray) and given.dtype == np.uint8 and given.ndim == 3:
        if id(given) not in shown:
            shown[id(given)] = to_picture(given)
        return shown[id(given)]
    if not isinstance(given, list | tuple):
        return given
    values = [_show_pictures(value, shown) for value in given]
    return tuple(values) if isinstance(given, tuple) else values


@contextmanager
def at_rest(modules: Sequence[Network], gradients: bool = False) -> Iterator[None]:
    """Measure the caller's modules in evaluation mode, and without gradients unless they are asked for.

    The mode of each part and the random states are restored at the end, after an error and an interruption, too.
    Without torch, random states alone are kept.
    """
    torch = sys.modules.get("torch")
    modes = [(part, part.training) for module in modules for part in module.modules()]
    moved = [(module, module.training) for module in modules if any(part.training for part in module.modules())]
    # Some kernels differ, in a last bit, for parameters that are trained, even where no gradient is taken.
    weights = [] if gradients else [weight for module in modules for weight in module.parameters()]
    trained = [weight for weight in weights if weight.requires_grad]
    with keep_random_state(), nullcontext() if torch is None else inference(gradients):
        try:
            for module, _ in moved:
                module.eval()
            for parameter in trained:
                parameter.requires_grad_(False)
            yield
        finally:
            for parameter in trained:
                parameter.requires_grad_(True)
            # By the module's method first, which may undo what its `eval` did (loralib merges weights there).
            for module, was in moved:
                module.train(was)
            for part, was in modes:
                part.training = was


@contextmanager
def keep_random_state() -> Iterator[None]:
    """Restore the random states of Python, numpy and torch at the end."""
    states: list[tuple[Callable[[Any], object], Any]] = [
        (random.setstate, random.getstate()),
        (np.random.set_state, np.random.get_state()),
    ]
    if (torch := sys.modules.get("torch")) is not None:
        states.append((torch.set_rng_state, torch.get_rng_state()))
        if torch.cuda.is_initialized():
            states.append((torch.cuda.set_rng_state_all, torch.cuda.get_rng_state_all()))
    try:
        yield
    finally:
        for restore, state in states:
            restore(state)


def modules_of(thing: object) -> list[Any]:
    """Return the torch modules that an object or a function uses: itself, or those that it holds or names.

    An object holds its attributes; a function its object (of a method), what its closure keeps, and globals that it
    names.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return []
    if isinstance(thing, torch.nn.Module):
        return [thing]
    inner: Any = thing.func if isinstance(thing, partial) else thing
    held = [getattr(inner, "__self__", None)]
    code = getattr(inner, "__code__", None)
    if code is None:
        held += [*getattr(inner, "__dict__", {}).values()]
    else:
        cells = [cell.cell_contents for cell in getattr(inner, "__closure__", None) or () if cell != CellType()]
        held += [*cells, *(inner.__globals__[name] for name in code.co_names if name in inner.__globals__)]
    modules = [entry for entry in held if isinstance(entry, torch.nn.Module)]
    return list({id(module): module for module in modules}.values())
