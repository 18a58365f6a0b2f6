"""Image-text contrast: each image finds its text among all texts of all ranks, and each text its image (CLIP)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tellapart.train.losses.batch import Batch, LossParts, sum_parts
from tellapart.train.losses.loss import DualLoss
from tellapart.train.losses.matrix_rows import MatrixRows, by_rows, gather_pairs
from tellapart.train.losses.ranks import mean_over_ranks

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["ITC", "contrast", "contrasts", "itc"]


def itc(batch: Batch) -> LossParts:
    """Return the symmetric contrastive loss, in nats: parts `image_to_text` and `text_to_image`, a half each.

    Other captions of the same image are left out of the candidates.

    Source: CLIP (Radford et al. 2021), Fig. 3; ITC of EqSim (Wang et al. 2023), section 5.1.

    >>> import torch
    >>> batch = Batch(torch.eye(4), torch.eye(4), torch.tensor(0.0), torch.arange(4))
    >>> round(itc(batch)["total"].item(), 4)  # a scale of 0 cannot tell four apart: the logarithm of 4
    1.3863
    """
    rows = by_rows(gather_pairs(batch), contrasts)
    return contrast(rows)


ITC = DualLoss(itc)


def contrasts(rows: MatrixRows) -> Tensor:
    """Return log-normalisers and own logits, `(c, 4)`: over texts, over images, own as image row, own as text row.

    >>> import torch
    >>> from tellapart.train.losses.matrix_rows import AllPairs
    >>> pairs = AllPairs(torch.eye(2), torch.eye(2), torch.tensor(0.0), torch.tensor([5, 5]), 0, 2, None)
    >>> contrasts(MatrixRows(pairs, 0, 2)).tolist()  # two captions of one image: no negative
    [[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    """
    import torch

    of_images, of_texts = rows.logits_of_images(), rows.logits_of_texts()
    return torch.stack([of_images.logsumexp(1), of_texts.logsumexp(1), rows.own(of_images), rows.own(of_texts)], dim=1)


def contrast(rows: Tensor) -> LossParts:
    """Return the parts of `itc` from this rank's `contrasts`, `(b, 4)`.

    >>> import torch
    >>> contrast(torch.tensor([[3.0, 2.0, 1.0, 1.0]]))["total"].item()
    1.5
    """
    halves = mean_over_ranks((rows[:, :2] - rows[:, 2:4]).mean(0)) / 2
    return sum_parts(image_to_text=halves[0], text_to_image=halves[1])
