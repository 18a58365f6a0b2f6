"""Prefixes of models in their authors' files, as `albef:FILE`; nothing heavy is imported before one is named."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tellapart.catalog import import_target
from tellapart.errors import ModelError
from tellapart.models.options import ModelOptions
from tellapart.models.prefix import ModelPrefix
from tellapart.models.protocols import Model

__all__ = [
    "ALBEF_FILE",
    "BLIP_FILE",
    "CAPPA_FILE",
    "FIBER_FILE",
    "METER_FILE",
    "NATIVE",
    "OFA_FILE",
    "TOKENIZER_FILES",
    "UNITER_FILE",
    "VILBERT_FILE",
    "VILT_FILE",
    "VLT5_FILE",
    "XVLM_FILE",
    "find_native",
    "load_native",
    "split_name",
]

#: `model_type` -> declaration. Adding a family is its file, one line here, and its prefix below.
NATIVE: Mapping[str, str] = MappingProxyType(
    {
        "albef": "tellapart.models.native.albef:ALBEF",
        "blip_original": "tellapart.models.native.blip:BLIP_ORIGINAL",
        "fiber": "tellapart.models.native.fiber:FIBER",
        "meter": "tellapart.models.native.meter:METER",
        "cappa": "tellapart.models.native.cappa:CAPPA",
        "ofa": "tellapart.models.native.ofa:OFA",
        "uniter": "tellapart.models.native.uniter:UNITER",
        "vilbert": "tellapart.models.native.vilbert:VILBERT",
        "vilt_original": "tellapart.models.native.vilt:VILT_ORIGINAL",
        "vlt5": "tellapart.models.native.vlt5:VLT5",
        "xvlm": "tellapart.models.native.xvlm:XVLM",
    }
)

#: End of a model type that without it is transformers', whose folders have tensors of other names.
_ORIGINAL = "_original"

#: A tokenizer beside a model's file; the first is enough.
TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "tokenizer_config.json", "vocab.json", "merges.txt", "spiece.model")


_LOADER = "tellapart.models.native.load:load_native"


def find_native(model_type: str) -> Any:
    """Import a family's declaration, a `NativeFamily`."""
    return import_target(NATIVE[model_type])


def load_native(model_type: str, source: str, options: ModelOptions) -> Model:
    """Load a model of the family `NATIVE[model_type]` from its authors' file or a converted folder."""
    model: Model = import_target(_LOADER)(model_type, source, options)
    return model


def split_name(name: str) -> tuple[str, str]:
    """Return the model type and the file that `PREFIX:FILE` names.

    Raises:
        ModelError: the prefix is not one of a family in NATIVE.

    >>> split_name("blip:model_base.pth")
    ('blip_original', 'model_base.pth')
    """
    head, _, file = name.partition(":")
    found = next((model_type for model_type in NATIVE if model_type.removesuffix(_ORIGINAL) == head), None)
    if found is None or not file.strip():
        forms = ", ".join(f"{model_type.removesuffix(_ORIGINAL)}:FILE" for model_type in NATIVE)
        raise ModelError(f"{name!r} is no model in its authors' file; write one of {forms}")
    return found, file


def _prefix(model_type: str, meaning: str) -> ModelPrefix:
    """Declare `MODEL_TYPE:FILE`, without what sets its model type apart."""
    return ModelPrefix(
        {f"{model_type.removesuffix(_ORIGINAL)}:FILE": meaning},
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
BLIP_FILE = _prefix(
    "blip_original", "BLIP, from its authors' file (model_base.pth, model_base_retrieval_coco.pth); readings differ"
)
FIBER_FILE = _prefix(
    "fiber", "FIBER, from its authors' file or EqSim's (fiber_pretrain.ckpt, fiber_f30k_irtr_itm.ckpt)"
)
METER_FILE = _prefix("meter", "METER, from its authors' file (meter_clip16_288_roberta_pretrain.ckpt)")
CAPPA_FILE = _prefix("cappa", "Open CapPa, from a file that examples/convert/cappa.py made")
OFA_FILE = _prefix("ofa", "OFA, from its authors' file (caption_base_best.pt, ofa_base.pt)")
UNITER_FILE = _prefix("uniter", "UNITER, from its authors' file, on --regions (uniter-base.pt, or your fine-tuned one)")
VILBERT_FILE = _prefix("vilbert", "ViLBERT or 12-in-1, from its authors' file, on --regions (pretrained_model.bin)")
VILT_FILE = _prefix("vilt_original", "ViLT, from its authors' file (vilt_200k_mlm_itm.ckpt, vilt_irtr_coco.ckpt)")
VLT5_FILE = _prefix("vlt5", "VL-T5, from its authors' file, on --regions (VLT5/Epoch30.pth)")
XVLM_FILE = _prefix("xvlm", "X-VLM, from its authors' file (.th or .pth), pre-trained or fine-tuned")
