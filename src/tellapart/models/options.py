"""The options that every model is made with: device, dtype, seed, reading, regions, and those of authors' files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tellapart.errors import ModelError

__all__ = ["AUTO", "DEVICES", "DTYPES", "TEXTS", "ModelOptions"]

DEVICES = ("cpu", "cuda", "mps")
DTYPES = ("float32", "bfloat16", "float16")
TEXTS = ("raw", "cleaned", "library")

#: In place of a dtype: the fastest of those, if it flips few outcomes of a sample.
AUTO = "auto"


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
        texts: `raw`, `cleaned` as the retrieval code of a model's authors does (of models in their authors' files), or
            `library`, as the library's tokenizer has them, for models whose authors read captions otherwise (SigLIP).
        image_size: side of the images in pixels, if not the file's; of the same models.
        tokenizer: folder of the tokenizer; of the same models.
        answers: the file of a server's answers; in memory if None.
        calls: requests in flight at once, to a server.
        insecure: ask a server of another machine over plain http, too.

    Raises:
        ModelError: the device, the dtype or the texts are unknown, or a number is below 1.
    """

    device: str = "cpu"
    seed: int = 0
    dtype: str = "float32"
    reading: str | None = None
    regions: Path | None = None
    texts: str = "raw"
    image_size: int | None = None
    tokenizer: Path | None = None
    answers: Path | None = None
    calls: int = 8
    insecure: bool = False

    def __post_init__(self) -> None:
        chosen = (("device", self.device, DEVICES), ("dtype", self.dtype, DTYPES), ("texts", self.texts, TEXTS))
        for kind, value, known in chosen:
            if value not in known:
                raise ModelError(f"{kind} {value!r} is unknown; use one of {', '.join(known)}")
        if self.image_size is not None and self.image_size < 1:
            raise ModelError(f"image_size must be at least 1 pixel; got {self.image_size}")
        if self.calls < 1:
            raise ModelError(f"calls must be at least 1; got {self.calls}")

    def refuse_native(self, name: str) -> None:
        """Refuse the options of models in their authors' files for another model.

        Raises:
            ModelError: one is set.
        """
        given = {"texts": self.texts == "cleaned", "image_size": self.image_size, "tokenizer": self.tokenizer}
        for parameter, value in given.items():
            if value:
                raise ModelError(
                    f"{name}: {parameter}= is for models in their authors' files (`tellapart ls models`); this one's "
                    "preprocessing is its own"
                )
