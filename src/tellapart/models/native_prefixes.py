"""Prefixes of models in their authors' files, as `albef:FILE`; nothing heavy is imported before one is named."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tellapart.models.options import ModelOptions
from tellapart.models.prefix import ModelPrefix
from tellapart.models.protocols import Model

__all__ = [
    "ALBEF_FILE",
    "CAPPA_FILE",
    "NATIVE",
    "TOKENIZER_FILES",
    "UNITER_FILE",
    "VILBERT_FILE",
    "VLT5_FILE",
    "find_native",
    "load_native",
]

#: `model_type` -> declaration. Adding a family is its file, one line here, and its prefix below.
NATIVE: Mapping[str, str] = MappingProxyType(
    {
        "albef": "tellapart.models.native.albef:ALBEF",
        "cappa": "tellapart.models.native.cappa:CAPPA",
        "uniter": "tellapart.models.native.uniter:UNITER",
        "vilbert": "tellapart.models.native.vilbert:VILBERT",
        "vlt5": "tellapart.models.native.vlt5:VLT5",
    }
)

#: A tokenizer beside a model's file; the first is enough.
TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "tokenizer_config.json", "vocab.json", "merges.txt", "spiece.model")


_LOADER = "tellapart.models.native.load:load_native"


def find_native(model_type: str) -> Any:
    """Import a family's declaration, a `NativeFamily`."""
    return _import(NATIVE[model_type])


def load_native(model_type: str, source: str, options: ModelOptions) -> Model:
    """Load a model of the family `NATIVE[model_type]` from its authors' file or a converted folder."""
    model: Model = _import(_LOADER)(model_type, source, options)
    return model


def _import(target: str) -> Any:
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _prefix(model_type: str, meaning: str) -> ModelPrefix:
    """Declare `MODEL_TYPE:FILE`."""
    return ModelPrefix(
        {f"{model_type}:FILE": meaning},
        load=partial(_load, model_type),
        files=lambda name: _files(Path(name.partition(":")[2]).expanduser()),
        native=True,
    )


def _load(model_type: str, name: str, options: ModelOptions) -> Model:
    return load_native(model_type, name.partition(":")[2], options)


def _files(path: Path) -> list[Path] | None:
    """Return the file and what lies beside it that counts; None if the tokenizer comes from the hub."""
    folder = path if path.is_dir() else path.parent
    beside = [folder / name for name in (*TOKENIZER_FILES, "config.json") if (folder / name).is_file()]
    if not any(file.name in TOKENIZER_FILES for file in beside):
        return None
    return [*([path] if path.is_file() else sorted(folder.glob("*.safetensors"))), *beside]


ALBEF_FILE = _prefix("albef", "ALBEF, from its authors' file (mscoco.pth, flickr30k.pth, ALBEF.pth)")
CAPPA_FILE = _prefix("cappa", "Open CapPa, from a file that examples/convert/cappa.py made")
UNITER_FILE = _prefix("uniter", "UNITER, from its authors' file, on --regions (uniter-base.pt, or your fine-tuned one)")
VILBERT_FILE = _prefix("vilbert", "ViLBERT or 12-in-1, from its authors' file, on --regions (pretrained_model.bin)")
VLT5_FILE = _prefix("vlt5", "VL-T5, from its authors' file, on --regions (VLT5/Epoch30.pth)")
