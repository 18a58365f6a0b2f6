"""Which pairs are close to which: the partners that a model finds most similar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tellapart.train.losses.draws import best
from tellapart.train.losses.ranks import gathered
from tellapart.train.losses.rows import Everyone, Rows, by_rows

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["close_pairs", "closest"]


def closest(every: Everyone, k: int) -> Tensor:
    """Return each pair's `k` most similar partners among all ranks' pairs, int64 `(n, k)`; -1 where there are fewer.

    The similarity of two pairs is the higher of their two crossed cosines.

    >>> import torch
    >>> images = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
    >>> closest(Everyone(images, images, torch.tensor(10.0), torch.arange(3), 0, 3, None), 1).tolist()
    [[1], [0], [1]]
    """
    import torch

    def nearest(rows: Rows) -> Tensor:
        either = torch.maximum(rows.cosines_of_images(), rows.cosines_of_texts())
        return best(either.masked_fill(~rows.negative, float("-inf")), k)

    with torch.no_grad():
        return gathered(by_rows(every, nearest))


def close_pairs(rows: Rows, neighbours: Tensor) -> Tensor:
    """Return which pairs are close to the rows' own, bool `(c, n)`: the one is among the other's neighbours.

    Args:
        rows: the rows.
        neighbours: int64 `(n, k)`, -1 for none, of all ranks' pairs.

    >>> import torch
    >>> every = Everyone(torch.eye(3), torch.eye(3), torch.tensor(10.0), torch.arange(3), 0, 3, None)
    >>> close_pairs(Rows(every, 0, 2), torch.tensor([[1], [2], [-1]])).tolist()
    [[False, True, False], [True, False, True]]
    """
    import torch

    n, k = neighbours.shape
    close = torch.zeros(rows.last - rows.first, n + 1, dtype=torch.bool, device=neighbours.device)
    chosen = neighbours[rows.first : rows.last]
    close.scatter_(1, torch.where(chosen < 0, n, chosen), True)  # a column more takes what is missing
    choosing = torch.arange(n, device=neighbours.device).repeat_interleave(k)
    chosen = neighbours.flatten()
    here = (chosen >= rows.first) & (chosen < rows.last)
    close[chosen[here] - rows.first, choosing[here]] = True
    return close[:, :n]
