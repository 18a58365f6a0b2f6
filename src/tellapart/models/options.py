"""The options that every model is made with: device, dtype, seed, reading, regions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tellapart.errors import ModelError

__all__ = ["DEVICES", "DTYPES", "ModelOptions"]

DEVICES = ("cpu", "cuda", "mps")
DTYPES = ("float32", "bfloat16", "float16")


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Options for making a model; each model uses those that concern it.

    Attributes:
        device: `cpu`, `cuda` or `mps`.
        seed: of models that draw numbers.
        dtype: of a torch model's computation: `float32`, `bfloat16` or `float16`. Scores are float32 always.
        reading: which of a model's readings is scored (`itc`, `itm`, `vqa`, `likelihood`, ...); the default of its
            architecture if not given.
        regions: a file of regions that a detector found, for models that read those (LXMERT, VisualBERT).

    Raises:
        ModelError: the device or the dtype is unknown.
    """

    device: str = "cpu"
    seed: int = 0
    dtype: str = "float32"
    reading: str | None = None
    regions: Path | None = None

    def __post_init__(self) -> None:
        for kind, value, known in (("device", self.device, DEVICES), ("dtype", self.dtype, DTYPES)):
            if value not in known:
                raise ModelError(f"{kind} {value!r} is unknown; use one of {', '.join(known)}")
