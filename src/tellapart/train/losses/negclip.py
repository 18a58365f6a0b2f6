"""Contrast with false captions: every image's candidates are all texts and all false captions of all ranks (NegCLIP)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tellapart.train.losses.batch import Batch, Parts, require_negative_texts
from tellapart.train.losses.itc import contrast, contrasts
from tellapart.train.losses.ranks import gathered
from tellapart.train.losses.rows import Rows, by_rows, everyone

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["negclip"]


def negclip(batch: Batch) -> Parts:
    """Return `itc` whose images must tell their text from all false captions too; texts see images alone.

    True and false captions are gathered apart, so a text's column is its pair's number on any number of ranks (the
    original gathers both at once, and its labels no longer fit when there are two ranks). Its hard images with their own
    captions are further pairs of the batch. TROHN-Text is this loss with one false caption an image.

    Raises:
        ModelError: the batch has no false captions.

    Source: NegCLIP (Yuksekgonul et al. 2023), section 4; TROHN-Text (BiVLC, Miranda et al. 2024), section 5.

    >>> import torch
    >>> batch = Batch(torch.eye(2), torch.eye(2), torch.tensor(0.0), torch.arange(2), negative_texts=torch.zeros(2, 1, 2))
    >>> {name: round(part.item(), 4) for name, part in negclip(batch).items()}  # ln 4 / 2 and ln 2 / 2
    {'image_to_text': 0.6931, 'text_to_image': 0.3466, 'total': 1.0397}
    """
    import torch

    every = everyone(batch)
    negatives = require_negative_texts(batch, "negclip")
    there = batch.has_negative
    if there is None:
        there = torch.ones(negatives.shape[:2], dtype=torch.bool, device=negatives.device)
    columns = gathered(negatives.flatten(0, 1).to(every.images.dtype))  # (all false captions, d)
    missing = ~gathered(there.flatten())

    def with_negatives(rows: Rows) -> Tensor:
        plain = contrasts(rows)
        logits = every.scale * (every.images[rows.first : rows.last] @ columns.T)
        false = logits.masked_fill(missing[None, :], float("-inf"))
        # One logarithm over both kinds of candidates; the true text keeps it finite where there is no false one.
        over_texts = torch.cat([plain[:, :1], false], dim=1).logsumexp(1)
        return torch.cat([over_texts[:, None], plain[:, 1:]], dim=1)

    return contrast(by_rows(every, with_negatives))
