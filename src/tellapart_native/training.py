"""Open a native fusion model for training with the matching losses of `tellapart train`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tellapart.errors import ModelError
from tellapart.models.fusion.prefix import TrainableParts
from tellapart.models.options import ModelOptions
from tellapart.models.torch.backend import Runtime
from tellapart_native.family import NativeFamily
from tellapart_native.load import choose_reading, open_model, prepare_inputs
from tellapart_native.save import save_native

__all__ = ["open_trainable"]


def open_trainable(
    family: NativeFamily, name: str, where: Runtime, readings: Sequence[str], image_size: int | None
) -> TrainableParts:
    """Open a file of the authors with a matching head for each reading; validations use the first reading.

    Raises:
        ModelError: the file holds several weights and none is named, the family cannot be trained, a reading does not
            use a matching head, or the file does not fit.
        MissingDependencyError: torch, timm or transformers is not installed.
    """
    prefix, _, file = name.partition(":")
    opened = open_model(family, file, where, image_size=image_size)
    opened.checkpoint.expect_one(name)
    if family.begin_training is None:
        raise ModelError(f"{name}: {family.title} cannot be trained here; METER and FIBER can")
    chosen = []
    for reading in readings:
        family.begin_training(opened.module, reading)
        chosen.append(choose_reading(opened, reading))
        if chosen[-1].read not in {"itm", "itm_logit"}:
            raise ModelError(f"{name}: a matching loss trains a matching head; reading {reading!r} does not use one")
    preparation, tokenizer = prepare_inputs(opened, ModelOptions(device=where.device))

    def save(folder: Path) -> str:
        folder.mkdir(parents=True)
        save_native(opened.module, tokenizer, folder)
        return f"{prefix}:{folder}"

    first, *others = (reading.halves(opened.module) for reading in chosen)
    return TrainableParts(name, first, preparation, family.contrast, save, tuple(others), chosen[0].read)
