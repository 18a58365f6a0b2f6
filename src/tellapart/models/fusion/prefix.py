"""Declarations of prefixes of fusion encoders that can be trained, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tellapart.models.prefix import ModelPrefix

if TYPE_CHECKING:
    from tellapart.models.fusion.family import Contrast, Halves
    from tellapart.models.fusion.torch_encoder import Preparation
    from tellapart.models.torch.backend import Runtime

__all__ = ["FusionPrefix", "TrainableParts"]


@dataclass(frozen=True, slots=True, eq=False)
class TrainableParts:
    """The parts of a fusion encoder that is to be trained.

    Attributes:
        name: of its source.
        save: writes the model to a new folder and returns the name that `tellapart run -m` takes.
        others: the same model with other heads.
        read: number that the halves' head gives: `itm` or `itm_logit`.
    """

    name: str
    halves: Halves
    preparation: Preparation
    contrast: Contrast | None
    save: Callable[[Path], str]
    others: tuple[Halves, ...] = ()
    read: str = "itm"


@dataclass(frozen=True, slots=True)
class FusionPrefix(ModelPrefix):
    """A prefix of fusion encoders in files of their authors.

    Attributes:
        open_trainable: opens the model of a name for training: on a device, with a matching head for each of the
            readings, for images of that side in pixels (None: the file's). It raises `ModelError` for a model that
            cannot be trained. None if no model of the prefix can be.
    """

    open_trainable: Callable[[str, Runtime, Sequence[str], int | None], TrainableParts] | None = None
