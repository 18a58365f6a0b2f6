"""Encoders as they are trained: their towers with gradients, their own preprocessing, and a folder to write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tellapart.models.protocols import Model, Pixels
from tellapart.models.torch_backend import import_torch

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["Encoded", "Inputs", "Trained", "autocast", "unit"]

#: Inputs of a tower by name, on the CPU; of many samples stacked along the first axis.
Inputs = Mapping[str, "Tensor"]


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """What the towers made of a few images and texts.

    Attributes:
        images: `(n, d)`, unit vectors.
        texts: `(m, d)`, unit vectors.
        scale: scalar that cosines are multiplied by.
        bias: scalar that is added to logits, or None.

    >>> Encoded(None, None, None, None).bias
    """

    images: Tensor
    texts: Tensor
    scale: Tensor
    bias: Tensor | None


class Trained(Protocol):
    """A model of any family with gradients.

    >>> sorted(name for name in vars(Trained) if not name.startswith("_"))
    ['image', 'log_scale', 'model', 'module', 'save', 'tokens']
    """

    @property
    def module(self) -> nn.Module:
        """All that is trained; a dual encoder's, called with inputs of images and of texts, returns `Encoded` as a tuple."""

    @property
    def log_scale(self) -> Tensor | None:
        """The parameter whose exponential is a contrastive scale, or None."""

    def image(self, pixels: Pixels) -> Inputs:
        """Prepare one image, uint8 `(height, width, 3)`, as the model's own preprocessing does."""

    def tokens(self, texts: Sequence[str]) -> Inputs:
        """Tokenise texts; `(m, length)`, cut to the context, as long as the longest needs."""

    def model(self) -> Model:
        """Return a model that measures with the weights as they are; it shares them."""

    def save(self, folder: Path) -> str:
        """Write the model to a new folder and return the name that `tellapart run -m` takes."""


def autocast(precision: str, device: str) -> AbstractContextManager[Any]:
    """Return the context in which encoders compute: torch's autocast for `bfloat16`, nothing for `float32`.

    >>> import torch
    >>> with autocast("bfloat16", "cpu"):
    ...     torch.nn.Linear(1, 1)(torch.zeros(1, 1)).dtype
    torch.bfloat16
    """
    torch = import_torch()
    found: AbstractContextManager[Any] = torch.autocast(device, torch.bfloat16, enabled=precision == "bfloat16")
    return found


def unit(vectors: Any) -> Any:
    """Scale rows to length one, in their own precision.

    >>> import torch
    >>> unit(torch.tensor([[3.0, 4.0]])).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """
    return vectors / vectors.norm(dim=-1, keepdim=True)
