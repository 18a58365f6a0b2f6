"""Pairs and their hard counterparts in one batch (TROHN-Img): each pair's mate is a hard negative image and text."""

from __future__ import annotations

from tellapart.errors import ModelError
from tellapart.training.losses.batch import Batch, LossParts
from tellapart.training.losses.itc import itc
from tellapart.training.losses.loss import DualLoss
from tellapart.training.losses.negclip import BIVLC, BIVLC_OURS
from tellapart.training.losses.preset import Preset


def trohn_img(batch: Batch) -> LossParts:
    """Return `itc` over the pairs and their mates: images `[I; I']` with texts `[T; T']`, `2b` by `2b` on one rank.

    Raises:
        ModelError: the batch has no mates, or a mate shows its pair's image.

    Source: TROHN-Img (BiVLC, Miranda et al. 2024), section 5.

    >>> import torch
    >>> mates = Batch(torch.zeros(2, 2), torch.zeros(2, 2), torch.tensor(0.0), torch.tensor([8, 9]))
    >>> batch = Batch(torch.eye(2), torch.eye(2), torch.tensor(0.0), torch.tensor([0, 1]), mates=mates)
    >>> round(trohn_img(batch)["total"].item(), 4)  # one of four
    1.3863
    """
    return itc(side_by_side(batch))


#: 200 pairs and their 200 counterparts, 400 by 400.
_TROHN_IMG = Preset(
    {**BIVLC, "loss": {"name": "trohn-img"}, "data": {"negative_captions": 0, "negative_images": "mate"}},
    source="BiVLC, appendix",
    ours=BIVLC_OURS,
)

TROHN_IMG = DualLoss(trohn_img, negative_images="mate", presets={"trohn-img": _TROHN_IMG})


def side_by_side(batch: Batch) -> Batch:
    """Return one batch of the pairs and, after them, their mates.

    Raises:
        ModelError: the batch has no mates, or a mate shows its pair's image.

    >>> import torch
    >>> mates = Batch(torch.eye(2), torch.eye(2), torch.tensor(0.0), torch.tensor([8, 9]))
    >>> side_by_side(Batch(torch.eye(2), torch.eye(2), torch.tensor(0.0), torch.arange(2), mates=mates)).image_ids
    tensor([0, 1, 8, 9])
    """
    import torch

    mates = batch.mates
    if mates is None:
        raise ModelError("trohn-img needs Batch(mates=...), the hard counterpart of each pair")
    alike = (batch.image_ids == mates.image_ids).nonzero()[:, 0].tolist()
    if alike:
        raise ModelError(
            f"trohn-img: pairs {alike} and their mates have the same image_ids; a mate is another image, with its "
            "own id"
        )
    return Batch(
        images=torch.cat([batch.images, mates.images]),
        texts=torch.cat([batch.texts, mates.texts]),
        scale=batch.scale,
        image_ids=torch.cat([batch.image_ids, mates.image_ids]),
        text_ids=None
        if batch.text_ids is None or mates.text_ids is None
        else torch.cat([batch.text_ids, mates.text_ids]),
        facts=batch.true_pairs(),
        bias=batch.bias,
        chunk=batch.chunk,
        step=batch.step,
    )
