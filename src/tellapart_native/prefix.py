"""Prefixes of models in their authors' files, as `albef:FILE`; nothing heavy is imported before one is named."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from tellapart.catalog import import_target
from tellapart.models.fusion.prefix import FusionPrefix, TrainableParts
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import Model
from tellapart.models.torch.checkpoint import split_part

if TYPE_CHECKING:
    from tellapart.models.torch.backend import Runtime
    from tellapart_native.family import NativeFamily

#: A tokenizer in the folder of a model's file; the first is enough.
TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "tokenizer_config.json", "vocab.json", "merges.txt", "spiece.model")

#: Code that the numbers of these models depend on, as on that of tellapart.
_CODE = Path(__file__).parent


def declare_prefix(folder: str, meaning: str, model_type: str = "") -> FusionPrefix:
    """Declare `FOLDER:FILE` for the family in `tellapart_native.FOLDER.model`."""
    return FusionPrefix(
        {f"{folder}:FILE": meaning},
        load=partial(_load_model, folder),
        files=_list_files,
        takes=frozenset({"device", "dtype", "reading", "regions", "texts", "image_size", "tokenizer"}),
        model_type=model_type or folder,
        convert=_convert_files,
        open_trainable=partial(_open_trainable, folder),
    )


def find_family(folder: str) -> NativeFamily:
    """Import the declaration of the family in a folder of this package."""
    return cast("NativeFamily", import_target(f"tellapart_native.{folder}.model:FAMILY"))


def _load_model(folder: str, name: str, options: ModelOptions) -> Model:
    load = import_target("tellapart_native.load:load_native")
    return cast("Model", load(find_family(folder), name.partition(":")[2], options))


def _convert_files(name: str, folder: Path, tokenizer: Path | None) -> int:
    return cast("int", import_target("tellapart_native.training:convert_model")(name, folder, tokenizer=tokenizer))


def _open_trainable(
    folder: str, name: str, place: Runtime, readings: Sequence[str], image_size: int | None
) -> TrainableParts:
    opener = import_target("tellapart_native.training:open_trainable")
    return cast("TrainableParts", opener(find_family(folder), name, place, readings, image_size))


def _list_files(name: str) -> list[Path] | None:
    """List a model's files: weights, tokenizer, settings, this code; None if the tokenizer is the hub's."""
    path = Path(split_part(name.partition(":")[2])[0]).expanduser()
    folder = path if path.is_dir() else path.parent
    files = [folder / name for name in (*TOKENIZER_FILES, "config.json") if (folder / name).is_file()]
    if not any(file.name in TOKENIZER_FILES for file in files):
        return None
    weights = [path] if path.is_file() else sorted(folder.glob("*.safetensors"))
    return [*weights, *files, *sorted(_CODE.rglob("*.py"))]
