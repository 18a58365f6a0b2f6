"""The sigmoid loss (SigLIP): every pair of the batch is classified by itself, matched or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tellapart.errors import ModelError
from tellapart.training.losses.batch import Batch, LossParts, sum_parts
from tellapart.training.losses.loss import DualLoss
from tellapart.training.losses.matrix_rows import MatrixRows, by_rows, gather_pairs
from tellapart.training.losses.ranks import mean_over_ranks

if TYPE_CHECKING:
    from torch import Tensor


def siglip(batch: Batch) -> LossParts:
    """Return the sigmoid loss, in nats an image: part `matched` of the true pairs, `unmatched` of all others.

    Other texts that are true of the image are left out.

    Raises:
        ModelError: the batch has no bias.

    Source: SigLIP (Zhai et al. 2023), Eq. 1.

    >>> import torch
    >>> batch = Batch(torch.eye(4), torch.eye(4), torch.tensor(0.0), torch.arange(4), bias=torch.tensor(0.0))
    >>> round(siglip(batch)["matched"].item(), 4)  # the logarithm of 2
    0.6931
    """
    import torch
    from torch.nn.functional import softplus

    if batch.bias is None:
        raise ModelError("siglip needs Batch(bias=...), the number that SigLIP adds to its logits (it begins at -10)")
    bias = batch.bias

    def losses(rows: MatrixRows) -> Tensor:
        logits = rows.pairs.scale * rows.cosines_of_images() + bias
        unmatched = softplus(logits).masked_fill(~rows.negative_texts, 0.0).sum(1)
        return torch.stack([softplus(-rows.own(logits)), unmatched], dim=1)

    means = mean_over_ranks(by_rows(gather_pairs(batch), losses).mean(0))
    return sum_parts(matched=means[0], unmatched=means[1])


SIGLIP = DualLoss(siglip, bias=True)
