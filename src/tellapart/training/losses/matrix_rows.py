"""The similarity matrix of all ranks' pairs, a few rows at a time: memory is that of a chunk of rows, not of the batch.

A rank computes its rows against the columns of all ranks, gathered with gradients; DDP's average over ranks is then the
gradient of one rank. Random draws depend on the step, the row and the column alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from tellapart.errors import ModelError
from tellapart.training.lazy_torch import Tensor, torch
from tellapart.training.losses.batch import Batch, wide

#: Constants of SplitMix64, less 2^64 if above 2^63: int64 wraps as the source's uint64 does.
_ROW, _COLUMN, _STEP = 0x9E3779B97F4A7C15 - (1 << 64), 0xC2B2AE3D27D4EB4F - (1 << 64), 0x165667B19E3779F9
_FIRST, _SECOND = 0xBF58476D1CE4E5B9 - (1 << 64), 0x94D049BB133111EB - (1 << 64)


def uniform(step: int, rows: Tensor, columns: int) -> Tensor:
    """Return numbers within (0, 1), float32 `(len(rows), columns)`: a hash of step, row and column.

    Source: the finaliser of SplitMix64 (Steele, Lea and Flood 2014).
    """

    def mix_bits(x: Tensor) -> Tensor:
        # A right shift is arithmetic, so the copies of the sign are cut off.
        x = (x ^ ((x >> 30) & ((1 << 34) - 1))) * _FIRST
        x = (x ^ ((x >> 27) & ((1 << 37) - 1))) * _SECOND
        return x ^ ((x >> 31) & ((1 << 33) - 1))

    mixed = rows[:, None] * _ROW + torch.arange(columns, device=rows.device)[None, :] * _COLUMN
    mixed = mix_bits(mixed + mix_bits(torch.tensor(step * _STEP % (1 << 63), device=rows.device)))
    # The upper 23 bits: with the half they are exact in float32, and never 0 or 1.
    return (((mixed >> 41) & 0x7FFFFF).float() + 0.5) / (1 << 23)


def draw(logits: Tensor, count: int, step: int, rows: Tensor) -> Tensor:
    """Draw `count` distinct columns a row by a softmax, as `torch.multinomial` does; -1 if none is left."""
    # With standard Gumbel noise added to logits, the largest is a draw by their softmax.
    noise = -(-uniform(step, rows, logits.shape[1]).log()).log()
    return best(logits + noise.to(logits.dtype), count)


def best(values: Tensor, count: int) -> Tensor:
    """Return the columns of each row's `count` largest values, int64 `(c, count)`; -1 if a value is -inf or missing."""
    top = values.topk(min(count, values.shape[1]), dim=1)
    columns = torch.where(top.values == float("-inf"), -1, top.indices)
    return torch.nn.functional.pad(columns, (0, count - columns.shape[1]), value=-1)


def rank_and_count() -> tuple[int, int]:
    """Return this process's rank, and how many ranks train together; 0 and 1 without torch.distributed."""
    together = torch.distributed.is_available() and torch.distributed.is_initialized()
    return (torch.distributed.get_rank(), torch.distributed.get_world_size()) if together else (0, 1)


def count_rows(rows: Tensor) -> int:
    """Return how many rows this rank holds; if another holds a different number, all ranks raise, so none waits."""
    counts = gather(torch.tensor([len(rows)], device=rows.device)).tolist()
    if len(set(counts)) > 1:
        raise ModelError(f"ranks hold {counts} pairs; a loss needs equal numbers: drop or pad the last batch")
    return len(rows)


def gather(rows: Tensor) -> Tensor:
    """Return every rank's rows, rank 0's first; a gradient flows back to the rank that each row came from."""
    joined: Tensor = rows if rank_and_count()[1] == 1 else _gather_function().apply(rows)
    return joined


@cache
def _gather_function() -> type[torch.autograd.Function]:
    """Return torch's function for `gather`, made on first use, because its base class is torch's."""

    class Gather(torch.autograd.Function):
        @staticmethod
        def forward(_context: object, rows: Tensor) -> Tensor:
            rows = rows.contiguous()
            everyone = [torch.empty_like(rows) for _ in range(torch.distributed.get_world_size())]
            torch.distributed.all_gather(everyone, rows)
            return torch.cat(everyone)

        @staticmethod
        def backward(_context: object, gradient: Tensor) -> Tensor:
            # Every rank's loss depends on these rows; gloo has no reduce_scatter, so all is summed and cut.
            gradient = gradient.clone(memory_format=torch.contiguous_format)
            torch.distributed.all_reduce(gradient)
            return gradient.chunk(torch.distributed.get_world_size())[torch.distributed.get_rank()]

    return Gather


def mean_over_ranks(value: Tensor) -> Tensor:
    """Return the mean of all ranks' values; its gradient is that of this rank's value, as DDP expects."""
    _, count = rank_and_count()
    if count == 1:
        return value
    mean = value.detach().clone()
    torch.distributed.all_reduce(mean)
    return mean / count + (value - value.detach())


def share(total: Tensor, count: Tensor) -> Tensor:
    """Return the mean of all ranks' counts: the sum of `total` over the sum of `count`; 0 if nothing counted."""
    counted = mean_over_ranks(count.detach().to(total.dtype))
    # Below one term in all no rank has a term, and the sum is 0.
    return mean_over_ranks(total / counted.clamp(min=1.0 / rank_and_count()[1]))


#: Makes one number of an image's and a text's (an odd number: int64 wraps, and nothing is lost).
_IMAGE = -0x61C8864680B583EB


@dataclass(frozen=True, slots=True, eq=False)
class MatrixRows:
    """`c` rows of the matrix of all ranks' `n` pairs, and of its transpose: this rank's, or a chunk of them.

    The diagonal of true pairs begins at `part.start`. `text_ids` are None if each text is true of its image alone; else
    `true` has, sorted, a number for each image id with the id of a text that is true of it.
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
        """True if each of two pairs' texts is false of the other's image, bool `(c, n)`."""
        return self.negative_texts & self.negative_images

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


@dataclass(frozen=True, slots=True, eq=False)
class NegativePairs:
    """The pairs of all ranks, int64 `(b, m)`, by whose texts and images each pair is crossed; -1 for none."""

    texts: Tensor
    images: Tensor


def hard_negatives(batch: Batch, count: int = 1, *, shared: bool = False, hardest: bool = False) -> NegativePairs:
    """Draw hard negatives from the pairs of all ranks, by the softmax of their contrastive logits.

    The draws depend on `batch.step` and on the pair's number over all ranks, not on how many ranks there are.

    Source: ALBEF (Li et al. 2021), section 3.2; EqSim's released `hard_itm` for `shared`.
    """
    pairs = gather_pairs(batch)

    def choose(rows: MatrixRows) -> Tensor:
        sides = rows.logits(with_true=False)
        if shared:
            sides = (torch.maximum(*sides).masked_fill(~rows.negative, float("-inf")),) * 2
        chosen = [
            best(logits, count) if hardest else draw(logits, count, 2 * batch.step + side * (not shared), rows.index)
            for side, logits in enumerate(sides)
        ]
        return torch.stack(chosen, dim=1)

    with torch.no_grad():
        texts, images = by_rows(pairs, choose).unbind(1)
    return NegativePairs(texts=texts, images=images)


def counterparts(true: Tensor, negatives: Tensor) -> Tensor:
    """Return the true logits of the negative pairs, `(b, m)`, with gradients to the ranks that they come from."""
    return gather(true)[negatives.clamp(min=0)]
