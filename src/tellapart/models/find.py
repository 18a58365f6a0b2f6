"""A model by its name: from the catalogue, or from a folder on disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tellapart.catalog import load as load_from_catalog
from tellapart.errors import ModelError
from tellapart.models.protocols import Model

__all__ = ["ModelOptions", "find_model"]

ONNX = "onnx:"
DEVICES = ("cpu", "cuda")


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """What a model is made with; each takes from it what concerns it.

    Attributes:
        device: `cpu` or `cuda`.
        seed: of models that draw.

    >>> ModelOptions().device
    'cpu'
    """

    device: str = "cpu"
    seed: int = 0


def find_model(name: str, options: ModelOptions | None = None) -> Model:
    """Make the model of that name.

    Args:
        name: as `tellapart ls models` lists it, or `onnx:PATH` for a folder with `config.json`, `image.onnx`,
            `text.onnx` and `tokenizer.json`.
        options: the device and the seed.

    Raises:
        UnknownNameError: no such name.
        ModelError: the device is unknown, the model's files are not what they must be, or what another package
            installed under that name is no model.

    >>> find_model("constant").kind
    'probability'
    """
    options = options or ModelOptions()
    if options.device not in DEVICES:
        raise ModelError(f"device {options.device!r} is unknown; use one of {', '.join(DEVICES)}")
    if name.startswith(ONNX):
        from tellapart.models.onnx import OnnxDualEncoder

        folder = name.removeprefix(ONNX)
        if not folder:
            raise ModelError("onnx: names no folder; write onnx:PATH, for example -m onnx:my_model")
        return OnnxDualEncoder.load(Path(folder).expanduser(), device=options.device)
    model = load_from_catalog("model", name)(options)
    if not isinstance(model, Model):
        raise ModelError(f"model {name!r} is a {type(model).__name__} without a name, a fingerprint or a kind of score")
    return model
