"""Untrained models: `new:FOLDER` is an architecture and a tokenizer, whose weights are drawn for the run."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tellapart.errors import ModelError, require
from tellapart.models.compact.config import is_compact, read_compact_config, read_tokenizer
from tellapart.models.compact.dual_encoder import PREFIX as COMPACT
from tellapart.models.compact.dual_encoder import CompactParts
from tellapart.models.compact.towers import build_encoder
from tellapart.models.huggingface.files import import_transformers, load_processor, quiet, read_config
from tellapart.models.openclip.library import import_open_clip, quiet_open_clip
from tellapart.models.torch.backend import import_torch
from tellapart.training.checkpoint import replace_folder
from tellapart.training.encoders.compact_encoder import write_parts

#: The prefix of such a model's name.
NEW = "new:"

_OPEN_CLIP = "open_clip_config.json"
_SUFFIXES = {".json", ".txt", ".model"}


def new_model_facts(folder: Path) -> str:
    """Return the SHA-256 of the files that describe the model."""
    if not any((folder / name).is_file() for name in (_OPEN_CLIP, "config.json")):
        raise ModelError(
            f"{NEW}{folder}: expected a folder with {_OPEN_CLIP}, or with config.json and a processor's files"
        )
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.suffix in _SUFFIXES)
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def write_new_model(folder: Path, target: Path, seed: int) -> str:
    """Draw weights for a folder's configuration, write the model to `target` unless that exists, and return its
    name.
    """
    new_model_facts(folder)
    if not target.exists():
        import_torch().manual_seed(seed)
        with replace_folder(target) as draft:
            _find_drawer(folder)(folder, draft)
    if is_compact(target):
        return f"{COMPACT}{target}"
    return f"local-dir:{target}" if (target / _OPEN_CLIP).is_file() else f"hf:{target}"


def _find_drawer(folder: Path) -> Callable[[Path, Path], None]:
    if is_compact(folder):
        return _draw_compact
    return _draw_open_clip if (folder / _OPEN_CLIP).is_file() else _draw_transformers


def _draw_compact(folder: Path, draft: Path) -> None:
    config = read_compact_config(folder)
    tokenizer = read_tokenizer(folder, config)
    write_parts(CompactParts(config, build_encoder(config, tokenizer.get_vocab_size()), tokenizer), draft)


def _draw_open_clip(folder: Path, draft: Path) -> None:
    open_clip = import_open_clip()
    try:
        with quiet_open_clip():
            model: Any = open_clip.create_model(f"local-dir:{folder}", load_weights=False)
    except (RuntimeError, ValueError, TypeError, KeyError, OSError, AssertionError) as error:
        raise ModelError(f"{NEW}{folder}: open_clip cannot build it: {error}") from error
    draft.mkdir(parents=True)
    for path in folder.iterdir():
        if path.suffix in _SUFFIXES:
            shutil.copy(path, draft)
    tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    require("safetensors.torch", extra="train").save_file(tensors, draft / "open_clip_model.safetensors")


def _draw_transformers(folder: Path, draft: Path) -> None:
    library = import_transformers()
    architecture = next(iter(read_config(str(folder)).get("architectures") or ()), "")
    model_class = getattr(library, architecture, None)
    if model_class is None:
        raise ModelError(
            f"{NEW}{folder}: config.json names the architecture {architecture!r}, which transformers has not"
        )
    with quiet():
        model = model_class(model_class.config_class.from_pretrained(folder))
        draft.mkdir(parents=True)
        model.save_pretrained(draft)
        load_processor(str(folder)).save_pretrained(draft)
