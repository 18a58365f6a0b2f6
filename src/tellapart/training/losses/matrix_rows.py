"""The similarity matrix of all ranks' pairs, a few rows at a time.

A contrastive loss is a function of rows: of image `i` with all texts, and of text `i` with all images. `by_rows` calls
it for chunks of this rank's rows and forgets each chunk's matrix until the backward pass computes it again, so memory
grows with the chunk times the batch and not with the square of the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tellapart.training.lazy_torch import Tensor, torch
from tellapart.training.losses.batch import Batch, wide
from tellapart.training.losses.ranks import count_rows, gather, rank_and_count

#: Makes one number of an image's and a text's (an odd number: int64 wraps, and nothing is lost).
_IMAGE = -0x61C8864680B583EB


@dataclass(frozen=True, slots=True, eq=False)
class MatrixRows:
    """`c` rows of the matrix of all ranks' `n` pairs, and of its transpose: this rank's, or a chunk of them.

    Images and texts are unit vectors `(n, d)`, float32 or float64. An entry of a row's own pair is on the diagonal that
    begins at `part.start`. `text_ids` are None if each text is true of its image alone; else `true` has, sorted, a
    number for each image id with the id of a text that is true of it.
    """

    images: Tensor
    texts: Tensor
    scale: Tensor
    image_ids: Tensor
    part: slice
    chunk: int | None = None
    text_ids: Tensor | None = None
    true: Tensor | None = None

    @property
    def index(self) -> Tensor:
        """The rows' numbers among all pairs, int64 `(c,)`."""
        return torch.arange(self.part.start, self.part.stop, device=self.images.device)

    @property
    def negative_texts(self) -> Tensor:
        """True if the column's text is false of the row's image, bool `(c, n)`."""
        if self.text_ids is None:
            return self.image_ids[self.part, None] != self.image_ids[None, :]
        return ~self.is_true(self.text_ids)

    @property
    def negative_images(self) -> Tensor:
        """True if the row's text is false of the column's image, bool `(c, n)`."""
        if self.text_ids is None:
            return self.negative_texts
        return ~find_true(self.true, self.image_ids[None, :], self.text_ids[self.part, None])

    @property
    def negative(self) -> Tensor:
        """True if each pair's text is false of the other's image, of the row and of the column, bool `(c, n)`."""
        return self.negative_texts if self.text_ids is None else self.negative_texts & self.negative_images

    def is_true(self, text_ids: Tensor | None) -> Tensor:
        """Return which texts, of ids `(m,)`, are true of the rows' images, bool `(c, m)`; `(c, 1)` without ids."""
        return find_true(self.true, self.image_ids[self.part, None], None if text_ids is None else text_ids[None, :])

    def cosines(self) -> tuple[Tensor, Tensor]:
        """Cosines of images with all texts, and of texts with all images, `(c, n)`."""
        return self.images[self.part] @ self.texts.T, self.texts[self.part] @ self.images.T

    def logits(self, *, with_true: bool = True) -> tuple[Tensor, Tensor]:
        """Scaled `cosines`; -inf at pairs that are true, but for the row's pair itself, unless it is left out, too."""
        sides = []
        for cosines, negative in zip(self.cosines(), (self.negative_texts, self.negative_images), strict=True):
            left_out = ~negative
            if with_true:
                left_out.diagonal(self.part.start).fill_(False)
            sides.append((self.scale * cosines).masked_fill(left_out, float("-inf")))
        return sides[0], sides[1]


def gather_pairs(batch: Batch) -> MatrixRows:
    """Gather the pairs of all ranks, with gradients, and return this rank's rows; half precision becomes float32."""
    count, (rank, _) = count_rows(batch.images), rank_and_count()
    image_ids, true = gather(batch.image_ids), gather_true(batch)
    text_ids = None if batch.text_ids is None else gather(batch.text_ids)
    if text_ids is not None and true is not None:
        alone = {len(ids.unique()) for ids in (image_ids, text_ids, true)} == {len(image_ids)}
        text_ids = None if alone else text_ids  # each text is true of its image alone: images decide, without a search
    images, texts, part = gather(wide(batch.images)), gather(wide(batch.texts)), slice(rank * count, (rank + 1) * count)
    return MatrixRows(images, texts, wide(batch.scale), image_ids, part, batch.chunk, text_ids, true)


def gather_true(batch: Batch) -> Tensor | None:
    """Return the images with the texts that any rank knows to be true of them, as `find_true` takes them."""
    pairs = batch.true_pairs()
    if pairs is None:
        return None
    count_rows(batch.images)
    return gather(pairs[:, 0] * _IMAGE + pairs[:, 1]).sort().values


def find_true(true: Tensor | None, image_ids: Tensor, text_ids: Tensor | None) -> Tensor:
    """Return whether texts are known to be true of images, bool, of shapes that broadcast; False without ids."""
    if true is None or text_ids is None:
        return torch.zeros_like(image_ids, dtype=torch.bool)
    sought = image_ids * _IMAGE + text_ids
    return true[torch.searchsorted(true, sought).clamp(max=len(true) - 1)] == sought


def by_rows(rows: MatrixRows, function: Callable[[MatrixRows], Tensor]) -> Tensor:
    """Return `function` of rows, `(c, ...)`, computed a chunk at a time and again in the backward pass."""
    from torch.utils.checkpoint import checkpoint

    first, last = rows.part.start, rows.part.stop
    # Similarities are compared in float32 whatever the encoders ran in.
    with torch.autocast(rows.images.device.type, enabled=False):
        if rows.chunk is None or rows.chunk >= last - first:
            return function(rows)
        starts = range(first, last, rows.chunk)
        parts = [replace(rows, part=slice(start, min(start + rows.chunk, last))) for start in starts]
        if not torch.is_grad_enabled():
            return torch.cat([function(part) for part in parts])
        return torch.cat([checkpoint(function, part, use_reentrant=False, preserve_rng_state=False) for part in parts])
