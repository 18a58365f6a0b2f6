"""Importing open_clip without libraries that most of its models never call: half of a command's start.

open_clip imports transformers and timm, for the towers of a few architectures, and both import torch's compiler, as
torchvision does for one operator: 3 of 5 processor seconds (`python bench/startup.py`). Each of them is
imported here when open_clip first calls it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from threading import RLock, get_ident
from types import ModuleType
from typing import Any

from tellapart.errors import MissingDependencyError, require
from tellapart.models.openclip.internals import internal_module, internal_name
from tellapart.models.torch.backend import import_torch

#: The packages that open_clip does without if importing them fails.
_LATER = ("transformers", "timm")

#: The parts of the compiler that torchvision imports, for a function that asks it for every region of interest.
_COMPILER = "torch._dynamo.utils"

_lock = RLock()


def import_open_clip() -> ModuleType:
    """Import open_clip, and torch before it; transformers, timm and torch's compiler follow when they are called.

    A library that is imported already is not hidden, and neither is one from another thread.

    >>> "ViT-B-32" in import_open_clip().list_models()
    True
    """
    import_torch()
    with _lock:
        if "open_clip" not in sys.modules:
            with _without_compiler():
                require("torchvision", extra="models")
            with _without_later():
                require("open_clip", extra="models")
                _call_later()
        return require("open_clip", extra="models")


def import_towers(config: Mapping[str, Any]) -> None:
    """Import the libraries of the towers that an architecture's configuration names, before it is built.

    open_clip's call imports them too, but under whatever device and modes the model is being built.
    """
    import_open_clip()
    for tower, key, name in (
        ("vision_cfg", "timm_model_name", "TimmModel"),
        ("text_cfg", "hf_model_name", "HFTextEncoder"),
    ):
        if key in config[tower] and isinstance(late := internal_name(f"model.{name}"), _Late):
            late.fetch_object()


class _Late:
    """Stands for a class of one of open_clip's modules, which is read again, with its library, at the first call."""

    def __init__(self, within: ModuleType, module: ModuleType, name: str) -> None:
        self._within, self._module, self._name = within, module, name

    def fetch_object(self) -> Any:
        with _lock:
            if getattr(self._within, self._name) is self:
                setattr(self._within, self._name, getattr(importlib.reload(self._module), self._name))
        return getattr(self._within, self._name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fetch_object()(*args, **kwargs)


def _call_later() -> None:
    # CoCa's writing needs a class that transformers 5 no longer has: it is off in any case.
    try:
        for module, library, name in (
            ("timm_model", "timm", "TimmModel"),
            ("hf_model", "transformers", "HFTextEncoder"),
        ):
            if internal_name(f"{module}.{library}") is None and internal_name(f"model.{name}"):
                model = internal_module("model")
                setattr(model, name, _Late(model, internal_module(module), name))
    except MissingDependencyError:
        # The next call must not take the half without timm and transformers for a complete import.
        for loaded in [each for each in sys.modules if each.split(".")[0] == "open_clip"]:
            del sys.modules[loaded]
        raise


class _Hiding(MetaPathFinder):
    """Hides the libraries to come later, in one thread."""

    def __init__(self) -> None:
        self._thread = get_ident()

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname in _LATER and get_ident() == self._thread:
            raise ModuleNotFoundError(f"{fullname} is imported later", name=fullname)


@contextmanager
def _without_later() -> Iterator[None]:
    finder = _Hiding()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


@contextmanager
def _without_compiler() -> Iterator[None]:
    if "torch._dynamo" in sys.modules or "torchvision" in sys.modules:
        yield
        return
    sys.modules[_COMPILER] = stand_in = ModuleType(_COMPILER)
    stand_in.__getattr__ = _call_compiler  # type: ignore[method-assign]
    try:
        yield
    finally:
        if sys.modules.get(_COMPILER) is stand_in:
            del sys.modules[_COMPILER]


def _call_compiler(name: str) -> Callable[..., Any]:
    if name.startswith("__"):
        raise AttributeError(name)

    def call(*args: Any) -> Any:
        return getattr(importlib.import_module(_COMPILER), name)(*args)

    return call
