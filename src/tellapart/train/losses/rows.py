"""The similarity matrix of all ranks' pairs, a few rows at a time.

A contrastive loss is a function of rows: of image `i` with all texts, and of text `i` with all images. `by_rows` calls
it for chunks of this rank's rows and forgets each chunk's matrix until the backward pass computes it again, so memory
grows with the chunk times the batch and not with the square of the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tellapart.train.losses.batch import wide
from tellapart.train.losses.ranks import gathered, own_rank, require_equal_rows

if TYPE_CHECKING:
    from torch import Tensor

    from tellapart.train.losses.batch import Batch

__all__ = ["Everyone", "Rows", "by_rows", "everyone"]


@dataclass(frozen=True, slots=True, eq=False)
class Everyone:
    """The pairs of all ranks, of which this rank computes the rows `start` to `start + count`.

    Attributes:
        images: float32 or float64 `(n, d)`, unit vectors.
        texts: the same for texts.
        scale: scalar.
        image_ids: int64 `(n,)`.
        start: number of this rank's first pair.
        count: how many pairs this rank has.
        chunk: rows at a time, or None for all.

    >>> import torch
    >>> Everyone(torch.eye(2), torch.eye(2), torch.tensor(10.0), torch.arange(2), 0, 2, None).count
    2
    """

    images: Tensor
    texts: Tensor
    scale: Tensor
    image_ids: Tensor
    start: int
    count: int
    chunk: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows `first` to `last` (exclusive) of the similarity matrix and of its transpose.

    >>> import torch
    >>> every = Everyone(torch.eye(3), torch.eye(3), torch.tensor(10.0), torch.tensor([7, 7, 8]), 0, 3, None)
    >>> Rows(every, 0, 2).negative.tolist()
    [[False, False, True], [False, False, True]]
    """

    every: Everyone
    first: int
    last: int

    @property
    def index(self) -> Tensor:
        """The rows' own columns, int64 `(c,)`."""
        import torch

        return torch.arange(self.first, self.last, device=self.every.images.device)

    @property
    def negative(self) -> Tensor:
        """Where the column is another image's pair, bool `(c, n)`: neither the row's own nor one of the same image."""
        ids = self.every.image_ids
        return ids[self.first : self.last, None] != ids[None, :]

    def cosines_of_images(self) -> Tensor:
        """Cosines of images with all texts, `(c, n)`."""
        return self.every.images[self.first : self.last] @ self.every.texts.T

    def cosines_of_texts(self) -> Tensor:
        """Cosines of texts with all images, `(c, n)`."""
        return self.every.texts[self.first : self.last] @ self.every.images.T

    def logits_of_images(self) -> Tensor:
        """Scaled cosines of images with all texts, `(c, n)`; -inf where the text is of the same image, but not its own."""
        return self._masked(self.every.scale * self.cosines_of_images())

    def logits_of_texts(self) -> Tensor:
        """Scaled cosines of texts with all images, `(c, n)`; -inf where the image is the same, but not its own."""
        return self._masked(self.every.scale * self.cosines_of_texts())

    def own(self, matrix: Tensor) -> Tensor:
        """Each row's entry in its own column, `(c,)`, of a matrix `(c, n)`."""
        return matrix.gather(1, self.index[:, None])[:, 0]

    def _masked(self, logits: Tensor) -> Tensor:
        allowed = self.negative
        allowed.scatter_(1, self.index[:, None], True)
        return logits.masked_fill(~allowed, float("-inf"))


def everyone(batch: Batch) -> Everyone:
    """Gather the pairs of all ranks, with gradients; half precision becomes float32.

    Raises:
        ModelError: ranks hold unequal numbers of pairs.

    >>> import torch
    >>> from tellapart.train.losses.batch import Batch
    >>> half = torch.eye(2, dtype=torch.bfloat16)
    >>> everyone(Batch(half, half, torch.tensor(10.0), torch.arange(2))).images.dtype
    torch.float32
    """
    count = len(batch.images)
    require_equal_rows(count)
    return Everyone(
        images=gathered(wide(batch.images)),
        texts=gathered(wide(batch.texts)),
        scale=wide(batch.scale),
        image_ids=gathered(batch.image_ids),
        start=own_rank() * count,
        count=count,
        chunk=batch.chunk,
    )


def by_rows(every: Everyone, function: Callable[[Rows], Tensor]) -> Tensor:
    """Return `function` of this rank's rows, `(b, ...)`, computed a chunk at a time and again in the backward pass.

    Args:
        every: the pairs.
        function: makes `(c, ...)` of `c` rows, the same for a row whatever rows stand beside it.

    >>> import torch
    >>> every = Everyone(torch.eye(3), torch.eye(3), torch.tensor(10.0), torch.arange(3), 0, 3, 2)
    >>> by_rows(every, lambda rows: rows.logits_of_images().amax(1)).tolist()
    [10.0, 10.0, 10.0]
    """
    import torch
    from torch.utils.checkpoint import checkpoint

    end = every.start + every.count
    # Similarities are compared in float32 whatever the encoders ran in.
    with torch.autocast(every.images.device.type, enabled=False):
        if every.chunk is None or every.chunk >= every.count:
            return function(Rows(every, every.start, end))
        calls = [
            partial(function, Rows(every, first, min(first + every.chunk, end)))
            for first in range(every.start, end, every.chunk)
        ]
        if not torch.is_grad_enabled():
            return torch.cat([call() for call in calls])
        return torch.cat([checkpoint(call, use_reentrant=False, preserve_rng_state=False) for call in calls])
