"""An image's true caption among its false ones: the part of a batch that a loss of a few choices reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tellapart.errors import ModelError
from tellapart.training.losses.batch import Batch, wide
from tellapart.training.losses.matrix_rows import find_true, gather_true

if TYPE_CHECKING:
    from torch import Tensor


def own_choices(batch: Batch, loss: str) -> tuple[Tensor, Tensor]:
    """Return each image's logits with its captions, and which captions there are.

    Args:
        batch: with false captions.
        loss: the name in error messages.

    Returns:
        Float `(b, 1 + f)`, the true caption first, and 0 if one is missing; bool `(b, 1 + f)`. A false caption that is
        true of the image is missing.

    Raises:
        ModelError: the batch has no false captions.

    >>> import torch
    >>> false = torch.tensor([[[0.0, 1.0]], [[0.0, 1.0]]])
    >>> batch = Batch(torch.eye(2), torch.eye(2), torch.tensor(10.0), torch.arange(2), negative_texts=false)
    >>> own_choices(batch, "mine")[0].tolist()  # the second image cannot tell its false caption from its own
    [[10.0, 0.0], [10.0, 10.0]]
    """
    import torch

    if batch.negative_texts is None:
        raise ModelError(f"{loss} needs false captions: give Batch(negative_texts=...) (pairs, captions, dimensions)")
    with torch.autocast(batch.images.device.type, enabled=False):
        captions = torch.cat([wide(batch.texts)[:, None], wide(batch.negative_texts)], dim=1)
        logits = wide(batch.scale) * torch.einsum("bd,bfd->bf", wide(batch.images), captions)
    there = torch.ones(logits.shape, dtype=torch.bool, device=logits.device)
    if batch.has_negative is not None:
        there[:, 1:] = batch.has_negative
    there[:, 1:] &= ~find_true(gather_true(batch), batch.image_ids[:, None], batch.negative_text_ids)
    return logits.masked_fill(~there, 0.0), there
