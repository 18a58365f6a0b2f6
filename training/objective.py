"""The loss: contrastive over the batch, with each image's mate and false captions as hard negatives."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["Batch", "Losses", "pair_losses", "whereabouts_loss"]

_NEVER = -1e4


@dataclass(frozen=True)
class Batch:
    """Unit vectors of one batch of `q` quadruples; image `2k` and `2k + 1` are mates, as are their captions.

    Attributes:
        images: float32 `(2q, d)`.
        texts: float32 `(2q, d)`, text `k` is true of image `k`.
        foils: float32 `(2q, f, d)`, captions false of image `k`.
        has_foil: bool `(2q, f)`; False where an image has fewer foils.
        meanings: int64 `(2q,)`; equal for captions of the same meaning, so that no true caption is a negative.
    """

    images: Tensor
    texts: Tensor
    foils: Tensor
    has_foil: Tensor
    meanings: Tensor


@dataclass(frozen=True)
class Losses:
    """Named parts, each a scalar in nats, and their sum."""

    contrastive: Tensor
    local: Tensor
    whereabouts: Tensor

    @property
    def total(self) -> Tensor:
        """The sum that is minimised."""
        return self.contrastive + self.local + self.whereabouts


def pair_losses(batch: Batch, scale: Tensor) -> tuple[Tensor, Tensor]:
    """Return the batch-wide and the within-quadruple loss.

    Contrastive: the symmetric InfoNCE of CLIP, its image-to-text rows extended by the image's own foils (NegCLIP),
    mates being in the batch as hard negative images and texts (TROHN-Img). Local: the same choice among the
    image's own caption, its mate's and its foils; and of a caption among the two images of its quadruple.

    Source: NegCLIP (Yuksekgonul et al. 2023, section 4); TROHN-Img (BiVLC, Miranda et al. 2024, section 5).

    >>> unit = torch.eye(2)
    >>> batch = Batch(unit, unit, unit.flip(0)[:, None], torch.ones(2, 1, dtype=torch.bool), torch.tensor([0, 1]))
    >>> [bool(loss < 1e-3) for loss in pair_losses(batch, torch.tensor(50.0))]
    [True, True]
    """
    n = len(batch.images)
    scores = scale * batch.images @ batch.texts.T  # (image, text)
    foil_scores = scale * torch.einsum("nd,nfd->nf", batch.images, batch.foils)
    foil_scores = foil_scores.masked_fill(~batch.has_foil, _NEVER)
    same = batch.meanings[:, None] == batch.meanings[None, :]
    same.fill_diagonal_(False)
    masked = scores.masked_fill(same, _NEVER)
    truth = torch.arange(n)
    rows = functional.cross_entropy(torch.cat([masked, foil_scores], dim=1), truth)
    columns = functional.cross_entropy(masked.T, truth)
    # Within the quadruple: index 0 is the true one, index 1 the mate's.
    mate = truth ^ 1
    own = scores.diagonal()
    first = torch.zeros(n, dtype=torch.long)
    among_texts = functional.cross_entropy(
        torch.cat([own[:, None], scores[truth, mate][:, None], foil_scores], 1), first
    )
    among_images = functional.cross_entropy(torch.stack([own, scores[mate, truth]], 1), first)
    return (rows + columns) / 2, (among_texts + among_images) / 2


def whereabouts_loss(logits: Tensor, places: Tensor) -> Tensor:
    """Return the loss of naming the objects' centres, cells with and without a centre weighing the same.

    Args:
        logits: float32 `(n, cells, objects + 1)`, cells row by row; the last class is "no centre here".
        places: float32 `(n, k, 3)`: object, x and y of its centre in [-1, 1], right and down; object -1 is padding,
            and a centre outside the image is left out.

    >>> logits = torch.tensor([[[9.0, 0.0], [0.0, 9.0], [0.0, 9.0], [0.0, 9.0]]])
    >>> bool(whereabouts_loss(logits, torch.tensor([[[0.0, -0.5, -0.5]]])) < 1e-3)
    True
    """
    n, cells, classes = logits.shape
    side = round(cells**0.5)
    column, row = (((places[..., axis] + 1.0) / 2.0 * side).floor().long() for axis in (1, 2))
    seen = (places[..., 0] >= 0) & (column >= 0) & (column < side) & (row >= 0) & (row < side)
    target = torch.full((n, cells), classes - 1)
    image = torch.arange(n)[:, None].expand_as(seen)
    target[image[seen], (row * side + column)[seen]] = places[..., 0][seen].long()
    each = functional.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none")
    full = target.flatten() < classes - 1
    zero = logits.sum() * 0.0
    return (each[full].mean() if bool(full.any()) else zero) + (each[~full].mean() if bool((~full).any()) else zero)
