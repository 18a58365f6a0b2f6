"""Objects with the methods of a protocol, as callers hold them: images arrive as PIL images, and the rest is filled in.

A model of this package, and one with a true attribute `reads_arrays`, is given arrays, uint8 `(height, width, 3)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tellapart.models.memory.encoders import Ready, VectorFunctions, to_picture
from tellapart.models.memory.function import Identity
from tellapart.models.memory.mistakes import explain_call
from tellapart.models.memory.rest import at_rest, modules_of

#: Methods by which an object is a model; the protocols group them.
METHODS = (
    "encode_images", "encode_texts", "similarity", "similarities", "score_pairs", "score_matrix", "score_texts",
    "log_likelihoods", "score_item", "prepare_image", "answer", "answers", "choose_answers", "judge", "find_boxes",
    "take_notes", "token_ids", "input_pixels",
)  # fmt: skip

#: Attributes that a protocol asks for.
ATTRIBUTES = ("batch_size", "parameters", "ranks_by_cosine", "logit_scale", "traits")

#: The packages whose models are given arrays.
_PACKAGES = ("tellapart", "tellapart_native", "tellapart_render")


def reads_arrays(thing: object) -> bool:
    """Return whether an object is given arrays in place of PIL images.

    >>> from tellapart.models.reference import Oracle
    >>> reads_arrays(Oracle()), reads_arrays(object())
    (True, False)
    """
    package = type(thing).__module__.partition(".")[0]
    return package in _PACKAGES or bool(getattr(thing, "reads_arrays", False))


class ObjectModel(Identity):
    """An object with the methods of a protocol, and the facts that it lacks.

    `encode_images` and `encode_texts` without `similarity` are a dual encoder whose scores are cosines. Modules of
    torch, the object itself or among its attributes, are in evaluation mode during a call alone.
    """

    def __init__(self, thing: Any, *identity: Any) -> None:
        super().__init__(*identity)
        self._thing, self._modules = thing, modules_of(thing)
        methods = {name: getattr(thing, name) for name in METHODS if callable(getattr(thing, name, None))}
        if {"encode_images", "encode_texts"} <= methods.keys() and "similarity" not in methods:
            cosines = VectorFunctions(self.name, methods["encode_images"], methods["encode_texts"])
            self.ranks_by_cosine = True
            self.similarity, self.similarities = cosines.similarity, cosines.similarities
            methods |= {"encode_images": cosines.encode_pictures, "encode_texts": cosines.encode_texts}
        # Set here, not looked up when asked for: `isinstance` of a protocol sees existing attributes alone.
        self.__dict__ |= {name: self._guard_method(name, method) for name, method in methods.items()}
        self.__dict__ |= {name: getattr(thing, name) for name in ATTRIBUTES if hasattr(thing, name)}

    def __getattr__(self, name: str) -> Any:
        if name in {"_thing", "stored"}:  # while it is being copied
            raise AttributeError(name)
        return getattr(self._thing, name)

    def _guard_method(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        arrays = reads_arrays(self._thing)

        def call(*given: Any, **options: Any) -> Any:
            pictures = given if arrays else tuple(map(_show_pictures, given))
            if name == "prepare_image":  # called in several threads at once
                return method(*pictures, **options) if arrays else Ready(method(*pictures, **options))
            with at_rest(self._modules):
                try:
                    return method(*pictures, **options)
                except (RuntimeError, TypeError, AttributeError, ValueError) as error:
                    if (explained := explain_call(f"{self.name}: {name} fails", error)) is not None:
                        raise explained from error
                    raise

        return call


def _show_pictures(given: Any) -> Any:
    """Return what a caller's object is given: PIL images in place of pixels, and what it prepared itself."""
    if isinstance(given, Ready):
        return given.value
    if isinstance(given, np.ndarray) and given.dtype == np.uint8 and given.ndim == 3:
        return to_picture(given)
    if isinstance(given, list | tuple):
        return [_show_pictures(picture) for picture in given]
    return given
