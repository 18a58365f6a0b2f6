"""Contrast with consistent geometry: across modalities and within them (CyCLIP)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tellapart.errors import ModelError
from tellapart.train.losses.batch import Batch, Parts, named
from tellapart.train.losses.itc import contrast, contrasts
from tellapart.train.losses.ranks import mean_over_ranks
from tellapart.train.losses.rows import Rows, by_rows, everyone

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["CyClip", "cyclip"]


@dataclass(frozen=True, slots=True)
class CyClip:
    """What `cyclip` may be told.

    Attributes:
        cross: weight of the consistency across modalities.
        within: weight of the consistency within modalities.

    Raises:
        ModelError: a weight is below 0.

    >>> CyClip(cross=-1.0)
    Traceback (most recent call last):
    tellapart.errors.ModelError: CyClip(cross=-1.0, within=0.25): a weight is at least 0
    """

    cross: float = 0.25
    within: float = 0.25

    def __post_init__(self) -> None:
        if not (self.cross >= 0 and self.within >= 0):
            raise ModelError(f"CyClip(cross={self.cross}, within={self.within}): a weight is at least 0")


_DEFAULT = CyClip()


def cyclip(batch: Batch, options: CyClip = _DEFAULT) -> Parts:
    """Return `itc` with CyCLIP's two regularisers: parts `itc`, `cross` and `within`.

    Cross: `s(I_i, T_j) = s(I_j, T_i)`; within: `s(I_i, I_j) = s(T_i, T_j)`; squared, on cosines, summed over the `n`
    columns and averaged over rows, as in the original: they grow with the batch of all ranks. Pairs of one image are
    left out.

    Source: CyCLIP (Goel et al. 2022), Eq. 3 and 4; weights of its released command.

    >>> import torch
    >>> images = torch.eye(2)
    >>> batch = Batch(images, images.flip(0), torch.tensor(0.0), torch.arange(2))
    >>> [round(cyclip(batch)[name].item(), 4) for name in ("cross", "within")]
    [0.0, 0.0]
    """
    import torch

    every = everyone(batch)

    def deviations(rows: Rows) -> Tensor:
        cross = rows.cosines_of_images() - rows.cosines_of_texts()
        own = slice(rows.first, rows.last)
        within = every.images[own] @ every.images.T - every.texts[own] @ every.texts.T
        other = rows.negative
        sums = [difference.square().masked_fill(~other, 0.0).sum(1) for difference in (cross, within)]
        return torch.cat([contrasts(rows), torch.stack(sums, dim=1)], dim=1)

    found = by_rows(every, deviations)
    cross, within = mean_over_ranks(found[:, 4:].mean(0))
    return named(itc=contrast(found)["total"], cross=options.cross * cross, within=options.within * within)
