"""Prefixes of models in their authors' files, as `albef:FILE`; nothing heavy is imported before one is named."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from tellapart.catalog import import_target
from tellapart.errors import import_torch
from tellapart.models.fusion.family import FusionPrefix, TrainableParts
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import Model
from tellapart.models.torch.checkpoint import split_part
from tellapart_native.region_file import REGION_FILES

if TYPE_CHECKING:
    from tellapart.models.torch.backend import Runtime
    from tellapart_native.family import NativeFamily

#: Files of a tokenizer, in the folder of a model's file; any of them shows that there is one.
TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "tokenizer_config.json", "vocab.json", "merges.txt", "spiece.model")

#: Files that change what the tokenizer beside them reads.
_TOKEN_FILES = ("special_tokens_map.json", "added_tokens.json")

#: Code that the numbers of these models depend on, as on that of tellapart.
_CODE = Path(__file__).parent


def find_family(prefix: str) -> NativeFamily:
    """Import the declaration of a family, the module of this package that has the prefix's name."""
    import_torch()  # with its settings, and the advice where it is not installed
    return cast("NativeFamily", import_target(f"tellapart_native.{prefix}:FAMILY"))


def _load_model(name: str, options: ModelOptions) -> Model:
    prefix, _, file = name.partition(":")
    family = find_family(prefix)
    return cast("Model", import_target("tellapart_native.load:load_native")(family, file, options))


def _convert_files(name: str, folder: Path, tokenizer: Path | None) -> int:
    import_torch()
    return cast("int", import_target("tellapart_native.training:convert_model")(name, folder, tokenizer=tokenizer))


def _open_trainable(name: str, place: Runtime, readings: Sequence[str], image_size: int | None) -> TrainableParts:
    family = find_family(name.partition(":")[0])
    opener = import_target("tellapart_native.training:open_trainable")
    return cast("TrainableParts", opener(family, name, place, readings, image_size))


def _list_files(name: str) -> list[Path] | None:
    """List a model's files: weights, tokenizer, settings, regions, this code; None if the tokenizer is the hub's."""
    path = Path(split_part(name.partition(":")[2])[0]).expanduser()
    folder = path if path.is_dir() else path.parent
    names = (*TOKENIZER_FILES, *_TOKEN_FILES, *REGION_FILES, "config.json")
    files = [folder / name for name in names if (folder / name).is_file()]
    if not any(file.name in TOKENIZER_FILES for file in files):
        return None
    weights = [path] if path.is_file() else sorted(folder.glob("*.safetensors"))
    return [*weights, *files, *sorted(path for path in _CODE.rglob("*") if path.suffix in {".py", ".toml"})]


def _declare_prefix(prefix: str, meaning: str, model_type: str = "") -> FusionPrefix:
    """Declare `PREFIX:FILE` for the family in the module of that name."""
    return FusionPrefix(
        {f"{prefix}:FILE": meaning},
        load=_load_model,
        files=_list_files,
        takes=frozenset({"device", "dtype", "reading", "regions", "texts", "image_size", "tokenizer"}),
        model_type=model_type or prefix,
        convert=_convert_files,
        open_trainable=_open_trainable,
    )


ALBEF = _declare_prefix("albef", "ALBEF, from its authors' file (mscoco.pth, flickr30k.pth, ALBEF.pth)")
BLIP = _declare_prefix(
    "blip",
    "BLIP, from its authors' file (model_base.pth, model_base_retrieval_coco.pth); readings differ",
    model_type="blip_original",
)
CAPPA = _declare_prefix("cappa", "experimental: Open CapPa, from a file that examples/convert/cappa.py made")
FIBER = _declare_prefix(
    "fiber", "FIBER, from its authors' file or EqSim's (fiber_pretrain.ckpt, fiber_f30k_irtr_itm.ckpt)"
)
METER = _declare_prefix("meter", "METER, from its authors' file (meter_clip16_288_roberta_pretrain.ckpt)")
OFA = _declare_prefix("ofa", "OFA, from its authors' file (caption_base_best.pt, ofa_base.pt)")
UNITER = _declare_prefix(
    "uniter", "UNITER, from its authors' file, on --regions (uniter-base.pt, or your fine-tuned one)"
)
VILBERT = _declare_prefix("vilbert", "ViLBERT or 12-in-1, from its authors' file, on --regions (pretrained_model.bin)")
VILT = _declare_prefix(
    "vilt", "ViLT, from its authors' file (vilt_200k_mlm_itm.ckpt, vilt_irtr_coco.ckpt)", model_type="vilt_original"
)
VLT5 = _declare_prefix("vlt5", "VL-T5, from its authors' file, on --regions (VLT5/Epoch30.pth)")
XVLM = _declare_prefix("xvlm", "X-VLM, from its authors' file (.th or .pth), pre-trained or fine-tuned")
