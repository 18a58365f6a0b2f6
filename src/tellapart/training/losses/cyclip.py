"""Contrast with consistent geometry: across modalities and within them (CyCLIP)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tellapart.training.losses.batch import Batch, LossParts, sum_parts
from tellapart.training.losses.itc import contrast, contrasts
from tellapart.training.losses.loss import DualLoss
from tellapart.training.losses.matrix_rows import MatrixRows, by_rows, gather_pairs
from tellapart.training.losses.options import LossOptions, number
from tellapart.training.losses.ranks import mean_over_ranks

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class CyClip(LossOptions):
    """Options of `cyclip`.

    Attributes:
        cross: weight of the consistency across modalities.
        within: weight of the consistency within modalities.

    Raises:
        ModelError: a weight is below 0.

    >>> CyClip(within=0.0)  # consistency across modalities alone
    CyClip(cross=0.25, within=0.0)
    """

    cross: float = number(0.25)
    within: float = number(0.25)


_DEFAULT = CyClip()


def cyclip(batch: Batch, options: CyClip = _DEFAULT) -> LossParts:
    """Return `itc` with CyCLIP's two regularisers: parts `itc`, `cross` and `within`.

    Cross: `s(I_i, T_j) = s(I_j, T_i)`; within: `s(I_i, I_j) = s(T_i, T_j)`; squared, on cosines, summed over the `n`
    columns and averaged over rows, as in the original: they grow with the batch of all ranks. Pairs of one image or
    of one text are left out.

    Source: CyCLIP (Goel et al. 2022), Eq. 3 and 4; weights of its released command.

    >>> import torch
    >>> images = torch.eye(2)
    >>> batch = Batch(images, images.flip(0), torch.tensor(0.0), torch.arange(2))
    >>> [round(cyclip(batch)[name].item(), 4) for name in ("cross", "within")]
    [0.0, 0.0]
    """
    import torch

    pairs = gather_pairs(batch)

    def deviations(rows: MatrixRows) -> Tensor:
        cross = rows.cosines_of_images() - rows.cosines_of_texts()
        own = slice(rows.first, rows.last)
        within = pairs.images[own] @ pairs.images.T - pairs.texts[own] @ pairs.texts.T
        other = rows.negative
        sums = [difference.square().masked_fill(~other, 0.0).sum(1) for difference in (cross, within)]
        return torch.cat([contrasts(rows), torch.stack(sums, dim=1)], dim=1)

    columns = by_rows(pairs, deviations)
    cross, within = mean_over_ranks(columns[:, 4:].mean(0))
    return sum_parts(itc=contrast(columns)["total"], cross=options.cross * cross, within=options.within * within)


CYCLIP = DualLoss(cyclip, CyClip)
