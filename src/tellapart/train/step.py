"""A training step: rows are drawn, images and texts encoded, the loss taken, and gradients left in the parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tellapart.models.torch_backend import import_torch
from tellapart.train.config import TrainConfig, loss_options
from tellapart.train.losses.batch import LossParts
from tellapart.train.losses.loss import Loss
from tellapart.train.rows import TrainingRows
from tellapart.train.trainable import Inputs, Trainable

__all__ = ["TrainingStep"]


@dataclass
class TrainingStep(ABC):
    """Steps of one family of encoders.

    Attributes:
        accelerator: of accelerate; it knows the device, the precision and the ranks.
        module: the model's module, as the accelerator wrapped it.
    """

    config: TrainConfig
    trainable: Trainable
    rows: TrainingRows
    accelerator: Any
    module: Any

    def __post_init__(self) -> None:
        self._loss: Loss = self.config.find_loss()
        self._options = loss_options(self.config.loss)

    @abstractmethod
    def draw(self, numbers: Sequence[int], step: int) -> Any:
        """Return what a step computes of this rank's rows, by the seed, the step and each row alone.

        Its `rows` are the numbers of the rows whose images it needs.
        """

    def backward(self, drawn: Any, images: Sequence[Inputs], step: int) -> LossParts:
        """Take the loss of drawn rows, leave gradients in the parameters, and return the loss's parts, detached."""
        return {name: part.detach() for name, part in self._backward(drawn, images, step).items()}

    @abstractmethod
    def _backward(self, drawn: Any, images: Sequence[Inputs], step: int) -> LossParts: ...

    def _tokens(self, texts: Sequence[str]) -> Inputs:
        device = self.accelerator.device
        return {name: tensor.to(device) for name, tensor in self.trainable.tokens(texts).items()}

    def _seed_dropout(self, step: int, piece: int | None = None) -> None:
        """Let dropout draw from the seed, the step, the rank and the piece alone."""
        number = (self.config.seed * 1_000_003 + step) * 4099 + self.accelerator.process_index
        import_torch().manual_seed(number if piece is None else number * 4099 + piece)
