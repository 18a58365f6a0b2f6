"""EqSim for dual encoders: contrast, and a similarity that changes as much as the meaning does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tellapart.train.losses.batch import Batch, Parts, named
from tellapart.train.losses.close import close_pairs, closest
from tellapart.train.losses.equations import VARIANTS, EqSim, Four, hinged, v1, v2_image, v2_text, where
from tellapart.train.losses.itc import contrast, contrasts
from tellapart.train.losses.ranks import gathered, share
from tellapart.train.losses.released import released
from tellapart.train.losses.rows import Rows, by_rows, everyone

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["eqsim"]

_DEFAULT = EqSim()


def eqsim(batch: Batch, options: EqSim = _DEFAULT) -> Parts:
    """Return `itc` and EqSim's regularisation: parts `itc`, `v1` and `v2`, the last two times beta.

    v1 (`s12 = s21`) is averaged over distant pairs of pairs, v2 (`s11 - s12 = s22 - s21` and `s11 - s21 = s22 - s12`)
    over close ones, each deviation squared and hinged at alpha before it is averaged. Two pairs are close where either is
    among the `k` partners most similar to the other. Two pairs of one image are neither.

    Source: EqSim (Wang et al. 2023), section 3, Eq. 6, and appendix C; with `as_released`, its code (see `released`).

    >>> import torch
    >>> batch = Batch(torch.eye(4), torch.eye(4), torch.tensor(10.0), torch.arange(4))
    >>> {name: round(part.item(), 4) for name, part in eqsim(batch).items()}  # all pairs alike: equivariant
    {'itc': 0.0001, 'v1': 0.0, 'v2': 0.0, 'total': 0.0001}
    """
    every = everyone(batch)
    if options.as_released:
        return released(every, options, batch.step)
    rows = by_rows(every, contrasts)
    whole = gathered(rows[:, :3])  # (n, 3): log-normalisers over texts and over images, logit of the true pair
    neighbours = closest(every, options.k) if "close" in VARIANTS[options.variant] else None

    def sums(part: Rows) -> Tensor:
        return _sums(part, whole, neighbours, options)

    first, first_count, second, second_count = by_rows(every, sums).sum(0)
    return named(
        itc=contrast(rows)["total"],
        v1=options.beta * share(first, first_count),
        v2=options.beta * share(second, second_count),
    )


def _sums(rows: Rows, whole: Tensor, neighbours: Tensor | None, options: EqSim) -> Tensor:
    """Each row's sum of hinged v1, its count, its sum of hinged v2 and its count, `(c, 4)`."""
    import torch

    negative = rows.negative
    close = torch.zeros_like(negative) if neighbours is None else close_pairs(rows, neighbours)
    where_v1, where_v2 = where(options.variant, negative, close)
    as_texts, as_images = _similarities(rows, whole, options.normalise)
    first = (hinged(v1(as_texts), options.alpha) + hinged(v1(as_images), options.alpha)) / 2
    second = hinged(v2_text(as_texts), options.alpha) + hinged(v2_image(as_images), options.alpha)
    return torch.stack(
        [
            first.masked_fill(~where_v1, 0.0).sum(1),
            where_v1.sum(1).to(first.dtype),
            second.masked_fill(~where_v2, 0.0).sum(1),
            where_v2.sum(1).to(first.dtype),
        ],
        dim=1,
    )


def _similarities(rows: Rows, whole: Tensor, normalise: str) -> tuple[Four, Four]:
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
        matched = (rows.every.images * rows.every.texts).sum(1)
        four = Four(matched[own, None], s12, s21, matched[None, :])
    else:
        scale = rows.every.scale
        logits = (true[own, None], scale * s12, scale * s21, true[None, :])
        log = torch.logaddexp(torch.logaddexp(logits[0], logits[3]), torch.logaddexp(logits[1], logits[2]))
        four = Four(*((logit - log).exp() for logit in logits))
    return four, four
