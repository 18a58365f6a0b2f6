"""A dual encoder opened by its name to be trained."""

from __future__ import annotations

from pathlib import Path

from tellapart.errors import ModelError
from tellapart.train.encoders import Trained

__all__ = ["open_dual"]


def open_dual(name: str, device: str) -> Trained:
    """Open a dual encoder to train it.

    Args:
        name: of open_clip (`open_clip:`, `hf-hub:`, `local-dir:`) or of transformers (a folder or a hub id).
        device: `cpu`, `cuda` or `mps`.

    Raises:
        ModelError: it has no towers with gradients (an ONNX model, a reference), or its files are not what they must be.
        MissingDependencyError: its library is not installed.

    >>> open_dual("demo-encoder", "cpu")
    Traceback (most recent call last):
    tellapart.errors.ModelError: demo-encoder cannot be trained: name a model of open_clip or a CLIP-like one of transformers, by hub id or folder
    """
    from tellapart.models.openclip.source import FOLDER, HUB, TAG

    if name.startswith((TAG, HUB, FOLDER)):
        from tellapart.train.openclip_encoder import open_openclip

        return open_openclip(name, device)
    if name.startswith("hf:") or "/" in name or (Path(name).expanduser() / "config.json").is_file():
        from tellapart.train.huggingface_encoder import open_huggingface

        return open_huggingface(name.removeprefix("hf:"), device)
    raise ModelError(
        f"{name} cannot be trained: name a model of open_clip or a CLIP-like one of transformers, by hub id or folder"
    )
