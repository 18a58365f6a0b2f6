"""EqSim for dual encoders: contrast, and a similarity that changes as much as the meaning does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tellapart.training.losses.batch import Batch, LossParts, sum_parts
from tellapart.training.losses.draws import best, draw
from tellapart.training.losses.eqsim_presets import EQSIM_F30K, EQSIM_FIBER_F30K
from tellapart.training.losses.equations import VARIANTS, EqSim, Four, hinge, v1, v2_image, v2_text, where
from tellapart.training.losses.itc import contrast, contrasts
from tellapart.training.losses.loss import DualLoss
from tellapart.training.losses.matrix_rows import AllPairs, MatrixRows, by_rows, gather_pairs
from tellapart.training.losses.ranks import gather, mean_over_ranks, share

if TYPE_CHECKING:
    from torch import Tensor

_DEFAULT = EqSim()


def eqsim(batch: Batch, options: EqSim = _DEFAULT) -> LossParts:
    """Return `itc` and EqSim's regularisation: parts `itc`, `v1` and `v2`, the last two times beta.

    v1 (`s12 = s21`) is averaged over distant pairs of pairs, v2 (`s11 - s12 = s22 - s21` and `s11 - s21 = s22 - s12`)
    over close ones, each deviation squared and hinged at alpha before it is averaged. Two pairs are close if either
    is among the `k` partners most similar to the other. Two pairs of one image or one text are neither.

    Source: EqSim (Wang et al. 2023), section 3, Eq. 6, and appendix C; with `as_released`, its code.

    >>> import torch
    >>> batch = Batch(torch.eye(4), torch.eye(4), torch.tensor(10.0), torch.arange(4))
    >>> {name: round(part.item(), 4) for name, part in eqsim(batch).items()}  # all pairs alike: equivariant
    {'itc': 0.0001, 'v1': 0.0, 'v2': 0.0, 'total': 0.0001}
    """
    pairs = gather_pairs(batch)
    if options.as_released:
        return _as_released(pairs, options, batch.step)
    rows = by_rows(pairs, contrasts)
    whole = gather(rows[:, :3])  # (n, 3): log-normalisers over texts and over images, logit of the true pair
    neighbours = _closest_pairs(pairs, options.k) if "close" in VARIANTS[options.variant] else None

    def sums(part: MatrixRows) -> Tensor:
        return _row_sums(part, whole, neighbours, options)

    first, first_count, second, second_count = by_rows(pairs, sums).sum(0)
    return sum_parts(
        itc=contrast(rows)["total"],
        v1=options.beta * share(first, first_count),
        v2=options.beta * share(second, second_count),
    )


EQSIM = DualLoss(
    eqsim,
    EqSim,
    presets={"eqsim-f30k": EQSIM_F30K, "eqsim-fiber-f30k": EQSIM_FIBER_F30K},
    idle_reason="alpha leaves small differences out, and a softmax over a batch of distinct captions seldom has larger "
    "ones: lower loss.alpha, set loss.normalise = 'none', or train on minimal pairs",
)


def _row_sums(rows: MatrixRows, whole: Tensor, neighbours: Tensor | None, options: EqSim) -> Tensor:
    """Each row's sum of hinged v1, its count, its sum of hinged v2 and its count, `(c, 4)`."""
    import torch

    negative = rows.negative
    close = torch.zeros_like(negative) if neighbours is None else _close_pairs(rows, neighbours)
    where_v1, where_v2 = where(options.variant, negative, close)
    as_texts, as_images = _four_similarities(rows, whole, options.normalise)
    first = (hinge(v1(as_texts), options.alpha) + hinge(v1(as_images), options.alpha)) / 2
    second = hinge(v2_text(as_texts), options.alpha) + hinge(v2_image(as_images), options.alpha)
    return torch.stack(
        [
            first.masked_fill(~where_v1, 0.0).sum(1),
            where_v1.sum(1).to(first.dtype),
            second.masked_fill(~where_v2, 0.0).sum(1),
            where_v2.sum(1).to(first.dtype),
        ],
        dim=1,
    )


def _four_similarities(rows: MatrixRows, whole: Tensor, normalise: str) -> tuple[Four, Four]:
    """The four similarities of the rows' pairs with all pairs, `(c, n)`, for a change of text and for one of image."""
    import torch

    over_texts, over_images, true = whole.unbind(1)
    own = slice(rows.first, rows.last)
    if normalise == "batch":
        s12, s21 = rows.logits_of_images(), rows.logits_of_texts()

        def softmax(log: Tensor, at_1: Tensor, at_2: Tensor) -> Four:
            # at_1 and at_2: the normalisers of image 1 with text 2, and of image 2 with text 1.
            return Four(
                (true - log)[own, None].exp(), (s12 - at_1).exp(), (s21 - at_2).exp(), (true - log)[None, :].exp()
            )

        return (
            softmax(over_texts, over_texts[own, None], over_texts[None, :]),
            softmax(over_images, over_images[None, :], over_images[own, None]),
        )
    s12, s21 = rows.cosines_of_images(), rows.cosines_of_texts()
    if normalise == "none":
        matched = (rows.pairs.images * rows.pairs.texts).sum(1)
        four = Four(matched[own, None], s12, s21, matched[None, :])
    else:
        scale = rows.pairs.scale
        logits = (true[own, None], scale * s12, scale * s21, true[None, :])
        log = torch.logaddexp(torch.logaddexp(logits[0], logits[3]), torch.logaddexp(logits[1], logits[2]))
        four = Four(*((logit - log).exp() for logit in logits))
    return four, four


def _closest_pairs(pairs: AllPairs, k: int) -> Tensor:
    """Return each pair's `k` most similar partners among all ranks' `n` pairs, int64 `(n, min(k, n))`; -1 for none.

    The similarity of two pairs is the higher of their two crossed cosines.
    """
    import torch

    def nearest(rows: MatrixRows) -> Tensor:
        either = torch.maximum(rows.cosines_of_images(), rows.cosines_of_texts())
        return best(either.masked_fill(~rows.negative, float("-inf")), min(k, len(pairs.images)))

    with torch.no_grad():
        return gather(by_rows(pairs, nearest))


def _close_pairs(rows: MatrixRows, neighbours: Tensor) -> Tensor:
    """Return which pairs are close to the rows' pairs, bool `(c, n)`: one is a neighbour, `(n, k)`, of the other."""
    import torch

    n, k = neighbours.shape
    close = torch.zeros(rows.last - rows.first, n + 1, dtype=torch.bool, device=neighbours.device)
    chosen = neighbours[rows.first : rows.last]
    close.scatter_(1, torch.where(chosen < 0, n, chosen), True)  # a column more takes missing neighbours
    choosing = torch.arange(n, device=neighbours.device).repeat_interleave(k)
    chosen = neighbours.flatten()
    here = (chosen >= rows.first) & (chosen < rows.last)
    close[chosen[here] - rows.first, choosing[here]] = True
    return close[:, :n]


def _as_released(pairs: AllPairs, options: EqSim, step: int) -> LossParts:
    """Return parts `itc`, `v1` and `v2` of the released form.

    `P` is the softmax of the logits over texts alone. For each pair `b` and each of its drawn negatives `i`, with
    `a = P[b, b]`, `d = P[i, i]`: v2 is `[mean((a - P[b, i]) - (d - P[i, b]))^2 - alpha]_+`, and the same with the
    crossed entries swapped: a hinge on the mean of all pairs of the batch. v1 is the mean over all `n x n` entries of
    `(P - P^T)^2`, which is 0 at drawn pairs, without a margin.

    Two things differ from that code: pairs of one image or one text are never drawn (and other captions are not
    candidates), and ranks compute the numbers of one rank (there each rank masks its rows only and takes the other
    ranks' as constants).

    Source: `get_pairloss_itc_hard` and `get_pairloss_v1_itc_hard` of EqSim's released objectives.
    """
    rows = by_rows(pairs, contrasts)
    whole = gather(rows[:, [0, 2]])  # (n, 2): log-normaliser over texts, logit of the true pair
    negatives = drawn_negatives(pairs, options.k, step)

    def deviations(part: MatrixRows) -> Tensor:
        return _row_deviations(part, whole, negatives)

    sums = by_rows(pairs, deviations).sum(0)
    counts = _count_terms(negatives, pairs)
    text, image, crossed = mean_over_ranks(sums) * (len(pairs.images) / pairs.count) / counts
    v2 = (text - options.alpha).relu() + (image - options.alpha).relu()
    return sum_parts(itc=contrast(rows)["total"], v1=options.beta * crossed, v2=options.beta * v2)


def drawn_negatives(pairs: AllPairs, k: int, step: int) -> Tensor:
    """Return `k // 2` images drawn for each text and then `k // 2` texts drawn for each image, int64 `(n, 2 (k // 2))`.

    Drawn without replacement by the softmax of the logits; the two lists may overlap. -1 if there are too few.

    >>> import torch
    >>> pairs = AllPairs(torch.eye(3), torch.eye(3), torch.tensor(10.0), torch.tensor([0, 0, 1]), 0, 3, None)
    >>> drawn_negatives(pairs, 2, step=0)[:2].tolist()  # pairs 0 and 1 show one image
    [[2, 2], [2, 2]]
    """
    import torch

    k = min(k, 2 * len(pairs.images))

    def draw_rows(rows: MatrixRows) -> Tensor:
        own = ~rows.negative
        of_texts, of_images = (
            logits.masked_fill(own, float("-inf")) for logits in (rows.logits_of_texts(), rows.logits_of_images())
        )
        # Twice the step and one more: the two lists are independent of each other.
        return torch.cat(
            [draw(of_texts, k // 2, 2 * step, rows.index), draw(of_images, k // 2, 2 * step + 1, rows.index)], dim=1
        )

    with torch.no_grad():
        return gather(by_rows(pairs, draw_rows))


def _count_terms(negatives: Tensor, pairs: AllPairs) -> Tensor:
    """Return how many terms the three means have: drawn pairs twice, and all entries of the matrix."""
    import torch

    drawn = (negatives >= 0).sum().clamp(min=1)
    entries = torch.tensor(len(pairs.images) ** 2, device=drawn.device)
    return torch.stack([drawn, drawn, entries]).to(pairs.images.dtype)


def _row_deviations(rows: MatrixRows, whole: Tensor, negatives: Tensor) -> Tensor:
    """Return each row's sums of squared deviations, `(c, 3)`: by text, by image, and of `P` from its transpose."""
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
    easy = rows.negative & ~_close_pairs(rows, negatives)
    return torch.stack([*sides, (p12 - p21).square().masked_fill(~easy, 0.0).sum(1)], dim=1)
