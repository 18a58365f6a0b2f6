"""Several ranks as one batch: rows gathered with gradients, and means over all ranks.

A loss here computes the rows of its rank against the columns of all. Each rank's gradient is then that of the mean
over its rows, and DDP's average over ranks is the gradient of the mean over all rows: that of one rank.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from tellapart.errors import ModelError
from tellapart.training.lazy_torch import Tensor, torch

if TYPE_CHECKING:
    from torch.autograd import Function


def rank_and_count() -> tuple[int, int]:
    """Return this process's rank, and how many ranks train together; 0 and 1 without torch.distributed."""
    import torch.distributed as dist

    return (dist.get_rank(), dist.get_world_size()) if dist.is_available() and dist.is_initialized() else (0, 1)


def count_rows(rows: Tensor) -> int:
    """Return how many rows this rank holds; if another holds a different number, all ranks raise, so none waits."""
    counts = gather(torch.tensor([len(rows)], device=rows.device)).tolist()
    if len(set(counts)) > 1:
        raise ModelError(
            f"ranks hold {counts} pairs; a loss over ranks needs equal numbers: drop or pad the last batch"
        )
    return len(rows)


def gather(rows: Tensor) -> Tensor:
    """Return every rank's rows, rank 0's first; a gradient flows back to the rank that each row came from."""
    joined: Tensor = rows if rank_and_count()[1] == 1 else _gather_function().apply(rows)
    return joined


@cache
def _gather_function() -> type[Function]:
    """Return torch's function for `gather`, made on first use, because its base class is torch's."""
    import torch.distributed as dist

    class Gather(torch.autograd.Function):
        @staticmethod
        def forward(_context: object, rows: Tensor) -> Tensor:
            rows = rows.contiguous()
            everyone = [torch.empty_like(rows) for _ in range(dist.get_world_size())]
            dist.all_gather(everyone, rows)
            return torch.cat(everyone)

        @staticmethod
        def backward(_context: object, gradient: Tensor) -> Tensor:
            # Every rank's loss depends on these rows; gloo has no reduce_scatter, so all is summed and cut.
            gradient = gradient.clone(memory_format=torch.contiguous_format)
            dist.all_reduce(gradient)
            return gradient.chunk(dist.get_world_size())[dist.get_rank()]

    return Gather


def mean_over_ranks(value: Tensor) -> Tensor:
    """Return the mean of all ranks' values; its gradient is that of this rank's value, as DDP expects."""
    _, count = rank_and_count()
    if count == 1:
        return value
    import torch.distributed as dist

    mean = value.detach().clone()
    dist.all_reduce(mean)
    return mean / count + (value - value.detach())


def share(total: Tensor, count: Tensor) -> Tensor:
    """Return the mean of all ranks' counts: the sum of `total` over the sum of `count`; 0 if nothing counted."""
    counted = mean_over_ranks(count.detach().to(total.dtype))
    # Below one term in all no rank has a term, and the sum is 0.
    return mean_over_ranks(total / counted.clamp(min=1.0 / rank_and_count()[1]))
