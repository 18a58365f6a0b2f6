"""open_clip, imported without libraries that most of its models never call, and quiet while it builds a model.

open_clip imports transformers and timm for a few architectures, and both import torch's compiler, as torchvision does
for one operator: 2.2 of 4.1 CPU-seconds of the start (decision 18). Here open_clip's first call imports each.
"""

from __future__ import annotations

import importlib
import logging
import re
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.abc import MetaPathFinder
from threading import RLock, get_ident
from types import ModuleType
from typing import Any

from tellapart.errors import MissingDependencyError, require
from tellapart.models.torch.backend import import_torch

#: The versions whose towers, tokenizers and internal names are known here; pyproject.toml has the same (decision 20). A
#: tower that differs in one step would give other scores in silence.
VERSIONS = ">=3.3,<4"

#: open_clip's module and class that need a package, without which open_clip does.
_LATER = {"timm": ("timm_model", "TimmModel"), "transformers": ("hf_model", "HFTextEncoder")}

#: The part of the compiler that torchvision imports, for a function that asks it for every region of interest.
_COMPILER = "torch._dynamo.utils"

_lock = RLock()


def import_open_clip() -> ModuleType:
    """Import open_clip, and torch before it; transformers, timm and torch's compiler follow when they are called."""
    import_torch()
    with _lock:
        if "open_clip" not in sys.modules:
            with _hide_libraries():
                require("torchvision", extra="models")
                version = require("open_clip", extra="models").__version__
            if not (3, 3) <= tuple(map(int, re.findall(r"\d+", version)[:2])) < (4, 0):
                for name in [name for name in sys.modules if name.split(".")[0] == "open_clip"]:
                    del sys.modules[name]  # the next call must refuse it, too
                raise MissingDependencyError(
                    f"open_clip_torch {version} is not a version that is known here ({VERSIONS}); run: "
                    f'pip install "open_clip_torch{VERSIONS}"'
                )
            for package, (module, name) in _LATER.items():
                if getattr(importlib.import_module(f"open_clip.{module}"), package) is None:
                    _fetch_later(module, name)
        return require("open_clip", extra="models")


def _fetch_later(module: str, name: str) -> None:
    """Have a class of `open_clip.model` read again, with its library, when it is first called."""
    model = sys.modules["open_clip.model"]

    def fetch(*args: Any, **kwargs: Any) -> Any:
        with _lock:
            if getattr(model, name) is fetch:
                setattr(model, name, getattr(importlib.reload(sys.modules[f"open_clip.{module}"]), name))
        return getattr(model, name)(*args, **kwargs)

    setattr(model, name, fetch)


@contextmanager
def _hide_libraries() -> Iterator[None]:
    """Hide from this thread libraries that are not imported yet; a stand-in imports the compiler when it is called."""
    thread, stand_in = get_ident(), ModuleType(_COMPILER)
    stand_in.is_compile_supported = lambda *args: importlib.import_module(_COMPILER).is_compile_supported(*args)  # type: ignore[attr-defined]

    class Hiding(MetaPathFinder):
        def find_spec(self, fullname: str, *_: object) -> None:
            if fullname in _LATER and get_ident() == thread:
                raise ModuleNotFoundError(f"{fullname} is imported later", name=fullname)

    sys.meta_path.insert(0, finder := Hiding())
    if not {"torch._dynamo", "torchvision"} & sys.modules.keys():
        sys.modules[_COMPILER] = stand_in
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        if sys.modules.get(_COMPILER) is stand_in:
            del sys.modules[_COMPILER]


@contextmanager
def quiet_open_clip() -> Iterator[None]:
    """Keep open_clip from logging that the weights are random (they are loaded next) and from setting up logging."""
    root, silent = logging.getLogger(), logging.NullHandler()
    disabled = root.manager.disable
    root.addHandler(silent)
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(disabled)
        root.removeHandler(silent)


def build_model(architecture: str, *, meta: bool = False, **options: Any) -> Any:
    """Build an architecture's module without weights; `meta` builds shapes alone."""
    torch, open_clip = import_torch(), import_open_clip()
    config = open_clip.get_model_config(architecture)
    # open_clip's call imports them, too, but under whatever device and modes the model is being built.
    for tower, package in (("vision_cfg", "timm"), ("text_cfg", "transformers")):
        if {"timm_model_name", "hf_model_name"} & config[tower].keys():
            require(package, extra="models")
    device = "meta" if meta else "cpu"
    with quiet_open_clip(), _without_initialisation(), torch.device(device):
        return open_clip.create_model(
            architecture, device=device, load_weights=False, pretrained_image=False, pretrained_text=False, **options
        )


def _without_initialisation() -> AbstractContextManager[object]:
    """Skip the random initialisation of weights: half of the time that building a ViT-B/32 takes."""
    torch = import_torch()
    random = {torch.Tensor.uniform_, torch.Tensor.normal_}  # attention draws by these without asking a mode first

    class Uninitialised(torch.overrides.TorchFunctionMode):  # type: ignore[misc, name-defined]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if getattr(func, "__module__", None) == "torch.nn.init" or func in random:
                return args[0] if args else kwargs["tensor"]
            return func(*args, **(kwargs or {}))

    return Uninitialised()
