"""Contrast with false captions (NegCLIP): an image's candidates are all texts and false captions of all ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tellapart.errors import ModelError
from tellapart.train.losses.batch import Batch, LossParts
from tellapart.train.losses.itc import contrast, contrasts
from tellapart.train.losses.loss import DualLoss
from tellapart.train.losses.matrix_rows import MatrixRows, by_rows, gather_pairs
from tellapart.train.losses.ranks import gather

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["NEGCLIP", "negclip"]


def negclip(batch: Batch) -> LossParts:
    """Return `itc` whose images must tell their text from all false captions too; texts see images alone.

    True and false captions are gathered apart, so a text's column is its pair's number on any number of ranks (the
    original gathers both at once, and its labels do not fit two ranks). Its hard images with their own captions are
    further pairs of the batch. TROHN-Text is this loss with one false caption an image.

    Raises:
        ModelError: the batch has no false captions.

    Source: NegCLIP (Yuksekgonul et al. 2023), section 4; TROHN-Text (BiVLC, Miranda et al. 2024), section 5.

    >>> import torch
    >>> false = torch.zeros(2, 1, 2)
    >>> batch = Batch(torch.eye(2), torch.eye(2), torch.tensor(0.0), torch.arange(2), negative_texts=false)
    >>> {name: round(part.item(), 4) for name, part in negclip(batch).items()}  # ln 4 / 2 and ln 2 / 2
    {'image_to_text': 0.6931, 'text_to_image': 0.3466, 'total': 1.0397}
    """
    import torch

    pairs = gather_pairs(batch)
    negatives = batch.negative_texts
    if negatives is None:
        raise ModelError("negclip needs false captions: give Batch(negative_texts=...) (pairs, captions, dimensions)")
    present = batch.has_negative
    if present is None:
        present = torch.ones(negatives.shape[:2], dtype=torch.bool, device=negatives.device)
    columns = gather(negatives.flatten(0, 1).to(pairs.images.dtype))  # (all false captions, d)
    missing = ~gather(present.flatten())

    def with_negatives(rows: MatrixRows) -> Tensor:
        plain = contrasts(rows)
        logits = pairs.scale * (pairs.images[rows.first : rows.last] @ columns.T)
        false = logits.masked_fill(missing[None, :], float("-inf"))
        # One logarithm over both kinds of candidates; the true text keeps it finite where there is no false one.
        over_texts = torch.cat([plain[:, :1], false], dim=1).logsumexp(1)
        return torch.cat([over_texts[:, None], plain[:, 1:]], dim=1)

    return contrast(by_rows(pairs, with_negatives))


NEGCLIP = DualLoss(negclip, negative_captions=1, negative_images="pairs")
