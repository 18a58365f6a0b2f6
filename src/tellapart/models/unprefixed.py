"""Paths that were named without a model's prefix, and the names to write instead."""

from __future__ import annotations

from pathlib import Path

from tellapart.data.paths import suggest_beside
from tellapart.models.onnx.folder import FILES as ONNX_FILES
from tellapart.models.openclip.fitting import explain_weights, find_form
from tellapart.models.openclip.source import CONFIG, FOLDER, TAG, WEIGHTS_SUFFIXES
from tellapart.models.purpose import MODULES
from tellapart.models.torch.peft_adapter import ADAPTER_CONFIG, find_adapter

__all__ = ["explain_path", "is_weights"]

#: Files of scores or answers, not of models.
_SCORES = frozenset({".npz", ".csv", ".jsonl"})

_KINDS = (
    "a model is a folder of transformers (hf:FOLDER, with config.json), of open_clip (local-dir:FOLDER), of ONNX "
    f"(onnx:FOLDER) or of vectors (vectors:FOLDER), or a file of open_clip's weights ({TAG}ARCH@FILE)"
)


def explain_path(name: str) -> str | None:
    """Return the name of a model at a path, in a sentence; None if nothing lies there, or a folder of transformers.

    Raises:
        ModelError: a file of weights cannot be read.
        MissingDependencyError: a file of weights, and torch or open_clip is not installed.
    """
    path = Path(name).expanduser()
    if name and find_adapter(path) is not None:
        return f"{name} is an adapter of peft; write hf:{name} (its base is of transformers) or {TAG}ARCH/TAG@{name}"
    if name and path.is_dir():
        return _match_folder(path, name)
    if path.suffix in WEIGHTS_SUFFIXES:
        return explain_weights(name) if path.exists() else f"there is no file {name}{suggest_beside(path)}"
    return _match_file(name) if path.is_file() else None


def is_weights(name: str) -> bool:
    """Return whether a name is that of a file of weights alone, and the file is one architecture's of open_clip."""
    path = Path(name).expanduser()
    return path.suffix in WEIGHTS_SUFFIXES and path.is_file() and find_form(name) is not None


def _match_folder(path: Path, name: str) -> str | None:
    if any((path / file).is_file() for file in ONNX_FILES[:2]):
        return f"{name} is the folder of an ONNX model; write onnx:{name}"
    if (path / "config.json").is_file() and not (path / CONFIG).is_file():
        return None
    for file, library, prefix in ((CONFIG, "open_clip", FOLDER), (MODULES, "sentence-transformers", "st:")):
        if (path / file).is_file():
            return f"{name} is a folder of {library}; write {prefix}{name}"
    inside = [str(each.parent) for each in sorted(path.glob("*/config.json"))]
    inside += [f"{FOLDER}{each.parent}" for each in sorted(path.glob(f"*/{CONFIG}"))]
    inside += [f"hf:{each.parent}, an adapter of peft" for each in sorted(path.glob(f"*/{ADAPTER_CONFIG}"))]
    if inside:
        return f"{name} holds no model itself; write {' or '.join(inside[:4])}"
    weights = sorted(each for each in (*path.iterdir(), *path.glob("checkpoints/*")) if each.suffix in WEIGHTS_SUFFIXES)
    if weights:
        return explain_weights(str(weights[0]))
    vectors = all(any(path.glob(f"{side}.*")) for side in ("images", "texts"))
    return f"{name} is a folder, and no model's; {f'if it has vectors, write vectors:{name}' if vectors else _KINDS}"


def _match_file(name: str) -> str:
    if Path(name).suffix in _SCORES:
        return f"{name} is no model; a file of scores is measured by: tellapart score BENCHMARK --scores {name}"
    if Path(name).suffix == ".onnx":
        return f"{name} is a part of an ONNX model; write onnx:FOLDER, with config.json, {', '.join(ONNX_FILES)} in it"
    return f"{name} is a file, and no model's; {_KINDS}"
