"""EqSim as its released code computes it, which is not what the paper says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tellapart.train.losses.batch import Parts, named
from tellapart.train.losses.close import close_pairs
from tellapart.train.losses.draws import draw
from tellapart.train.losses.equations import EqSim, Four, v2_image, v2_text
from tellapart.train.losses.itc import contrast, contrasts
from tellapart.train.losses.ranks import gathered, mean_over_ranks
from tellapart.train.losses.rows import Everyone, Rows, by_rows

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["drawn_negatives", "released"]


def released(every: Everyone, options: EqSim, step: int) -> Parts:
    """Return parts `itc`, `v1` and `v2` of the released form.

    `P` is the softmax of the logits over texts alone. For each pair `b` and each of its drawn negatives `i`, with
    `a = P[b, b]`, `d = P[i, i]`: v2 is `[mean((a - P[b, i]) - (d - P[i, b]))^2 - alpha]_+`, and the same with the crossed
    entries swapped: a hinge on the mean of all pairs of the batch. v1 is the mean over all `n x n` entries of
    `(P - P^T)^2`, which is 0 at drawn pairs, without a margin.

    Two things differ from that code: pairs of one image are never drawn (and other captions are no candidates), and ranks
    compute what one rank would (there each rank masks its own rows only and takes the other ranks' as constants).

    Source: `get_pairloss_itc_hard` and `get_pairloss_v1_itc_hard` of EqSim's released objectives.

    >>> import torch
    >>> every = Everyone(torch.eye(3), torch.eye(3), torch.tensor(10.0), torch.arange(3), 0, 3, None)
    >>> [round(released(every, EqSim(k=2, as_released=True), 0)[name].item(), 4) for name in ("v1", "v2")]
    [0.0, 0.0]
    """
    rows = by_rows(every, contrasts)
    whole = gathered(rows[:, [0, 2]])  # (n, 2): log-normaliser over texts, logit of the true pair
    negatives = drawn_negatives(every, options.k, step)

    def deviations(part: Rows) -> Tensor:
        return _deviations(part, whole, negatives)

    sums = by_rows(every, deviations).sum(0)
    counts = _counts(negatives, every)
    text, image, crossed = mean_over_ranks(sums) * (len(every.images) / every.count) / counts
    v2 = (text - options.alpha).relu() + (image - options.alpha).relu()
    return named(itc=contrast(rows)["total"], v1=options.beta * crossed, v2=options.beta * v2)


def drawn_negatives(every: Everyone, k: int, step: int) -> Tensor:
    """Return `k // 2` images drawn for each text and then `k // 2` texts drawn for each image, int64 `(n, 2 (k // 2))`.

    Drawn without replacement by the softmax of the logits; the two lists may overlap. -1 where there are too few.

    >>> import torch
    >>> every = Everyone(torch.eye(3), torch.eye(3), torch.tensor(10.0), torch.tensor([0, 0, 1]), 0, 3, None)
    >>> drawn_negatives(every, 2, step=0)[:2].tolist()  # pairs 0 and 1 show one image
    [[2, 2], [2, 2]]
    """
    import torch

    def drawn(rows: Rows) -> Tensor:
        own = ~rows.negative
        of_texts, of_images = (
            logits.masked_fill(own, float("-inf")) for logits in (rows.logits_of_texts(), rows.logits_of_images())
        )
        # Twice the step and one more: the two lists are independent of each other.
        return torch.cat(
            [draw(of_texts, k // 2, 2 * step, rows.index), draw(of_images, k // 2, 2 * step + 1, rows.index)], dim=1
        )

    with torch.no_grad():
        return gathered(by_rows(every, drawn))


def _counts(negatives: Tensor, every: Everyone) -> Tensor:
    """How many terms the three means have: drawn pairs twice, and all entries of the matrix."""
    import torch

    pairs = (negatives >= 0).sum().clamp(min=1)
    entries = torch.tensor(len(every.images) ** 2, device=pairs.device)
    return torch.stack([pairs, pairs, entries]).to(every.images.dtype)


def _deviations(rows: Rows, whole: Tensor, negatives: Tensor) -> Tensor:
    """Each row's sums of squared deviations, `(c, 3)`: by text, by image, and of `P` from its transpose."""
    import torch

    log, true = whole.unbind(1)
    own = slice(rows.first, rows.last)
    p12 = (rows.logits_of_images() - log[own, None]).exp()
    p21 = (rows.logits_of_texts() - log[None, :]).exp()
    matched = (true - log).exp()
    chosen = negatives[own]
    at = chosen.clamp(min=0)
    four = Four(matched[own, None], p12.gather(1, at), p21.gather(1, at), matched[at])
    sides = [side(four).square().masked_fill(chosen < 0, 0.0).sum(1) for side in (v2_text, v2_image)]
    easy = rows.negative & ~close_pairs(rows, negatives)
    return torch.stack([*sides, (p12 - p21).square().masked_fill(~easy, 0.0).sum(1)], dim=1)
