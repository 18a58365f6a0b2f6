"""A training step: rows are drawn, images and texts encoded, the loss taken, and gradients left in the parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tellapart.training.config import TrainConfig
from tellapart.training.data.duplicates import TextIds
from tellapart.training.data.rows import TrainingRows
from tellapart.training.encoders.trainable import Inputs, Trainable
from tellapart.training.lazy_torch import torch
from tellapart.training.losses.batch import LossParts
from tellapart.training.losses.loss import LossTerm, sum_terms

#: The rows that one family draws for a step.
Drawn = TypeVar("Drawn")


@dataclass
class TrainingStep(ABC, Generic[Drawn]):
    """Steps of one family of encoders, with accelerate's accelerator and the module that it wrapped."""

    config: TrainConfig
    trainable: Trainable
    rows: TrainingRows
    accelerator: Any
    module: Any

    def __post_init__(self) -> None:
        self._terms: tuple[LossTerm, ...] = self.config.loss_terms()
        masked = self.config.data.duplicates == "masked"
        self._text_ids = TextIds(self.trainable.reader) if masked else None

    @abstractmethod
    def draw(self, numbers: Sequence[int], step: int) -> Drawn:
        """Return the inputs of this rank's rows of a part; they depend on the seed, the part's number and the row only.

        Parts are numbered through all steps: part `p` of step `s` is `s * accumulate + p`. Its `rows` are the numbers
        of the rows whose images it needs.
        """

    @abstractmethod
    def backward(self, drawn: Drawn, images: Sequence[Inputs], step: int) -> LossParts:
        """Take the loss of drawn rows, add gradients to the parameters', and return the loss's parts, detached."""

    def _sum_losses(self, inputs: Sequence[Any]) -> LossParts:
        """Add up the losses, each of its `Batch` or `Matches`."""
        parts = [term.loss(own, **term.options) for term, own in zip(self._terms, inputs, strict=True)]
        return sum_terms(self._terms, parts)

    def _read_tokens(self, texts: Sequence[str]) -> Inputs:
        device = self.accelerator.device
        return {name: tensor.to(device) for name, tensor in self.trainable.tokens(texts).items()}

    def _seed_dropout(self, step: int, piece: int | None = None) -> None:
        """Let dropout draw from the seed, the step, the rank and the piece alone."""
        number = (self.config.seed * 1_000_003 + step) * 4099 + self.accelerator.process_index
        torch.manual_seed(number if piece is None else number * 4099 + piece)
