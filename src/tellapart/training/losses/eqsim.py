"""Losses of matching heads, and EqSim: a similarity that changes as much as the meaning does, beside any contrast.

Heads of fusion encoders tell true pairs from crossed ones. EqSim's two equations are on the four similarities of two
pairs: `s11` and `s22` are those of the two matched pairs, `s12` that of image 1 with text 2, and `s21` that of image 2
with text 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, Field, NonNegativeFloat, ValidationInfo

from tellapart.errors import ModelError
from tellapart.training.lazy_torch import Tensor, torch
from tellapart.training.losses.contrast import contrast, contrasts
from tellapart.training.losses.loss import (
    Batch,
    LossParts,
    Matches,
    MatrixRows,
    best,
    by_rows,
    draw,
    gather,
    gather_pairs,
    loss,
    mean_over_ranks,
    share,
    sum_parts,
    wide,
)

#: Which pairs v1 and v2 hold for. Section 3 of the paper has `eqsim`, v1 on distant pairs; section 5.4 on all.
Variant = Literal["eqsim", "v1-all+v2-close", "v1-all", "v2-all", "v2-close"]
#: The same in words: all pairs, close or distant ones, none.
VARIANTS: Mapping[Variant, tuple[str, str]] = {
    "eqsim": ("distant", "close"),
    "v1-all+v2-close": ("all", "close"),
    "v1-all": ("all", "none"),
    "v2-all": ("none", "all"),
    "v2-close": ("none", "close"),
}
#: The similarities of a dual encoder that the equations hold for.
Normalisation = Literal["batch", "block", "none"]


def _check_released(released: bool, info: ValidationInfo) -> bool:
    """Refuse options that the released code lacks."""
    variant, normalise, k = (info.data.get(name) for name in ("variant", "normalise", "k"))
    if released and (variant, normalise) != ("eqsim", "batch"):
        raise ValueError(f"the released form takes the defaults, not variant {variant!r} with normalise {normalise!r}")
    if released and k is not None and k % 2:
        raise ValueError(f"the released form draws k half as images, half as texts, and k is {k}; make it even")
    return released


_Count = Annotated[int, Field(ge=1)]
_Released = Annotated[bool, AfterValidator(_check_released)]


@loss(
    idle_reason="alpha leaves small differences out, and a softmax over a batch of distinct captions seldom has larger "
    "ones: lower loss.alpha, set loss.normalise = 'none', or train on minimal pairs"
)
def eqsim(
    batch: Batch, *, alpha: NonNegativeFloat = 0.1, beta: NonNegativeFloat = 0.5, k: _Count = 8,
    variant: Variant = "eqsim", normalise: Normalisation = "batch", as_released: _Released = False,
) -> LossParts:  # fmt: skip
    """Return `itc` and EqSim's regularisation: parts `itc`, `v1` and `v2`, the last two times beta.

    v1 (`s12 = s21`) is averaged over distant pairs of pairs, v2 (`s11 - s12 = s22 - s21` and `s11 - s21 = s22 - s12`)
    over close ones, each deviation squared and hinged at alpha before it is averaged. Two pairs are close if either
    is among the `k` partners most similar to the other. Two pairs of one image or one text are neither.

    Args:
        alpha: margin of the squared deviation; the paper takes 0, 0.04 or 0.1.
        beta: weight of the regularisation; the paper takes 0.2, 0.5 or 1.
        k: close partners of a pair.
        variant: a key of `VARIANTS`.
        normalise: of the cosines. `batch`: a softmax over texts if texts change, over images if images change; `block`:
            a softmax over the four similarities of two pairs, under which both equations are those on cosines; `none`:
            cosines. Through a softmax over a batch distant pairs have next to no similarity, and v1 of them means
            nothing (docs/eqsim_ablation.md: below 1e-6); on cosines, with an alpha of 0, both equations act.
        as_released: the released code instead of the paper: 2 x `k // 2` drawn negatives for the top `k`, a hinge on
            the mean deviation, a softmax over texts alone, no margin for v1. `variant` and `normalise` keep their
            defaults.

    Source: EqSim (Wang et al. 2023), section 3, Eq. 6, and appendix C; with `as_released`, its code.

    >>> import torch
    >>> batch = Batch(torch.eye(4), torch.eye(4), torch.tensor(10.0), torch.arange(4))
    >>> {name: round(part.item(), 4) for name, part in eqsim(batch).items()}  # all pairs alike: equivariant
    {'itc': 0.0001, 'v1': 0.0, 'v2': 0.0, 'total': 0.0001}
    """
    pairs = gather_pairs(batch)
    rows = by_rows(pairs, contrasts)
    whole = gather(rows[:, :3])  # (n, 3): log-normalisers over texts and over images, logit of the true pair
    if as_released:
        v1, v2 = _regularise_as_released(pairs, whole[:, [0, 2]], alpha, k, batch.step)
    else:
        neighbours = _closest_pairs(pairs, k) if "close" in VARIANTS[variant] else None

        def sums(rows: MatrixRows) -> Tensor:
            """Return each row's sum of hinged v1, its count, its sum of hinged v2 and its count, `(c, 4)`."""
            (as_texts, as_images), negative = _four_similarities(rows, whole, normalise), rows.negative
            close = torch.zeros_like(negative) if neighbours is None else _close_pairs(rows, neighbours)
            first = (_hinge(as_texts.v1, alpha) + _hinge(as_images.v1, alpha)) / 2
            second = _hinge(as_texts.v2_text, alpha) + _hinge(as_images.v2_image, alpha)
            columns = []
            for deviations, mask in zip((first, second), _masks(variant, negative, close), strict=True):
                columns += [deviations.masked_fill(~mask, 0.0).sum(1), mask.sum(1).to(deviations.dtype)]
            return torch.stack(columns, dim=1)

        first, first_count, second, second_count = by_rows(pairs, sums).sum(0)
        v1, v2 = share(first, first_count), share(second, second_count)
    return sum_parts(itc=contrast(rows)["total"], v1=beta * v1, v2=beta * v2)


@loss()
def itm(matches: Matches) -> LossParts:
    """Return the binary cross-entropy, in nats: a third each of parts `true`, `wrong_text` and `wrong_image`.

    With one wrong text and one wrong image a pair this is the mean over `3b` labelled pairs, as in ALBEF and FIBER;
    their two-way head is the same function of the difference of its logits. Negatives of the pair's image are
    left out.

    Source: ALBEF (Li et al. 2021), Eq. 7; ITM of EqSim (Wang et al. 2023), section 5.1.

    >>> import torch
    >>> ids = torch.tensor([[1], [0]])
    >>> matches = Matches(torch.zeros(2), torch.zeros(2, 1), torch.zeros(2, 1), None, torch.arange(2), ids, ids)
    >>> round(itm(matches)["total"].item(), 4)
    0.6931
    """

    def wrong(logits: Tensor, counted: Tensor) -> Tensor:
        return share(torch.nn.functional.softplus(wide(logits)).masked_fill(~counted, 0.0).sum(), counted.sum()) / 3

    return sum_parts(
        true=mean_over_ranks(torch.nn.functional.softplus(-wide(matches.true)).mean()) / 3,
        wrong_text=wrong(matches.wrong_texts, matches.has_wrong_text),
        wrong_image=wrong(matches.wrong_images, matches.has_wrong_image),
    )


@loss(negatives=15, wrong_images=False)
def ranking(matches: Matches) -> LossParts:
    """Return the cross-entropy of the true text among it and the wrong ones, in nats: part `rank`.

    The original draws false texts from the full index, which may be the image's other captions; here those are
    left out.

    Source: METER (Dou et al. 2022), retrieval fine-tuning with 15 false texts; EqSim (Wang et al. 2023), appendix C.

    >>> import torch
    >>> ids = torch.tensor([[1, 2, 3]])
    >>> zeros = torch.zeros(1, 3)
    >>> round(ranking(Matches(torch.zeros(1), zeros, zeros, None, torch.tensor([0]), ids, ids))["total"].item(), 4)
    1.3863
    """
    wrong = matches.wrong_texts.masked_fill(~matches.has_wrong_text, float("-inf"))
    logits = wide(torch.cat([matches.true[:, None], wrong], dim=1))
    return sum_parts(rank=mean_over_ranks((logits.logsumexp(1) - logits[:, 0]).mean()))


@loss(counterparts=True)
def eqsim_itm(
    matches: Matches, *, alpha: NonNegativeFloat = 0.1, beta: NonNegativeFloat = 0.5, k: _Count = 8,
    normalise: Normalisation = "batch",  # noqa: ARG001  (a fusion encoder's logits always go through a sigmoid)
    variant: Variant = "eqsim", as_released: _Released = False,
) -> LossParts:  # fmt: skip
    """Return `itm` and EqSim's regularisation: parts `itm`, `v1` and `v2`, the last two times beta.

    Similarities are sigmoids of logits, whatever `normalise` is. v2 holds for close negatives, v1 for the others. As
    released (the code's `hard_itm`), v2 holds for all negatives, with a hinge on each side's mean deviation, and v1 is
    left out. Options are those of `eqsim`.

    Source: EqSim (Wang et al. 2023), section 3, Eq. 6, and appendix C.
    """
    v1, v2 = _regularise_matches(matches, alpha, k, variant, as_released)
    return sum_parts(itm=itm(matches)["total"], v1=beta * v1, v2=beta * v2)


@loss(negatives=15, counterparts=True)
def eqsim_ranking(
    matches: Matches, *, alpha: NonNegativeFloat = 0.1, beta: NonNegativeFloat = 0.5, k: _Count = 8,
    normalise: Normalisation = "batch",  # noqa: ARG001  (as `eqsim_itm`)
    variant: Variant = "eqsim", as_released: _Released = False,
) -> LossParts:  # fmt: skip
    """Return `ranking` and EqSim's regularisation, as METER is fine-tuned: parts `rank`, `v1` and `v2`.

    Source: EqSim (Wang et al. 2023), appendix C: 15 sampled captions and their images, 8 of them close.
    """
    v1, v2 = _regularise_matches(matches, alpha, k, variant, as_released)
    return sum_parts(rank=ranking(matches)["total"], v1=beta * v1, v2=beta * v2)


class _Four(NamedTuple):
    """The similarities of two pairs, or of many, of shapes that broadcast; deviations are by Eq. 6."""

    s11: Tensor
    s12: Tensor
    s21: Tensor
    s22: Tensor

    @property
    def v1(self) -> Tensor:
        """0 if the changed similarity is the same from either side."""
        return self.s12 - self.s21

    @property
    def v2_text(self) -> Tensor:
        """0 if a change of text costs either image the same."""
        return (self.s11 - self.s12) - (self.s22 - self.s21)

    @property
    def v2_image(self) -> Tensor:
        """0 if a change of image costs either text the same."""
        return (self.s11 - self.s21) - (self.s22 - self.s12)


def _hinge(deviation: Tensor, alpha: float) -> Tensor:
    return (deviation.square() - alpha).relu()


def _masks(variant: Variant, counted: Tensor, close: Tensor) -> list[Tensor]:
    """Return the pairs that v1 and v2 hold for, bool, of those that there are and those that are close."""
    masks = {"all": counted, "close": counted & close, "distant": counted & ~close, "none": counted & False}
    return [masks[pairs] for pairs in VARIANTS[variant]]


def _four_similarities(rows: MatrixRows, whole: Tensor, normalise: Normalisation) -> tuple[_Four, _Four]:
    """Return the similarities of the rows' pairs with all, `(c, n)`, for a change of text and for one of image."""
    over_texts, over_images, true = whole.unbind(1)
    part = rows.part
    if normalise == "batch":
        s12, s21 = rows.logits()

        def softmax(log: Tensor, at_12: Tensor, at_21: Tensor) -> _Four:
            # at_12 and at_21: the normalisers of image 1 with text 2, and of image 2 with text 1.
            matched = (true - log).exp()
            return _Four(matched[part, None], (s12 - at_12).exp(), (s21 - at_21).exp(), matched[None, :])

        return (
            softmax(over_texts, over_texts[part, None], over_texts[None, :]),
            softmax(over_images, over_images[None, :], over_images[part, None]),
        )
    s12, s21 = rows.cosines()
    if normalise == "none":
        matched = (rows.images * rows.texts).sum(1)
        four = _Four(matched[part, None], s12, s21, matched[None, :])
    else:
        logits = (true[part, None], rows.scale * s12, rows.scale * s21, true[None, :])
        log = torch.logaddexp(torch.logaddexp(logits[0], logits[3]), torch.logaddexp(logits[1], logits[2]))
        four = _Four(*((logit - log).exp() for logit in logits))
    return four, four


def _closest_pairs(pairs: MatrixRows, k: int) -> Tensor:
    """Return each pair's `k` most similar partners among all ranks' `n` pairs, int64 `(n, min(k, n))`; -1 for none.

    The similarity of two pairs is the higher of their two crossed cosines.
    """

    def nearest(rows: MatrixRows) -> Tensor:
        cosines = torch.maximum(*rows.cosines()).masked_fill(~rows.negative, float("-inf"))
        return best(cosines, min(k, len(pairs.images)))

    with torch.no_grad():
        return gather(by_rows(pairs, nearest))


def _close_pairs(rows: MatrixRows, neighbours: Tensor) -> Tensor:
    """Return which pairs are close to the rows' pairs, bool `(c, n)`: one is a neighbour, `(n, k)`, of the other."""
    n, k = neighbours.shape
    close = _mark(neighbours[rows.part], n)
    choosing = torch.arange(n, device=neighbours.device).repeat_interleave(k)
    chosen = neighbours.flatten()
    here = (chosen >= rows.part.start) & (chosen < rows.part.stop)
    close[chosen[here] - rows.part.start, choosing[here]] = True
    return close


def _mark(chosen: Tensor, count: int) -> Tensor:
    """Return a mask `(c, count)` that is True at each row's chosen columns `(c, k)`; -1 is none."""
    mask = torch.zeros(len(chosen), count + 1, dtype=torch.bool, device=chosen.device)
    # A column more takes those that are missing.
    return mask.scatter_(1, torch.where(chosen < 0, count, chosen), True)[:, :count]


def _regularise_as_released(pairs: MatrixRows, whole: Tensor, alpha: float, k: int, step: int) -> tuple[Tensor, Tensor]:
    """Return v1 and v2 of the released form.

    `P` is the softmax of the logits over texts alone. For each pair `b` and each of its drawn negatives `i`, with
    `a = P[b, b]`, `d = P[i, i]`: v2 is `[mean((a - P[b, i]) - (d - P[i, b]))^2 - alpha]_+`, and the same with the
    crossed entries swapped. v1 is the mean over all `n x n` entries of `(P - P^T)^2`, 0 at drawn pairs. Other than
    there, pairs of one image or one text are never drawn, and ranks compute the numbers of one rank.

    Source: `get_pairloss_itc_hard` and `get_pairloss_v1_itc_hard` of EqSim's released objectives.
    """
    n, negatives = len(pairs.images), drawn_negatives(pairs, k, step)

    def sums(rows: MatrixRows) -> Tensor:
        """Return each row's sums of squared deviations, `(c, 3)`: by text, by image, and of `P` from its transpose."""
        (log, true), chosen = whole.unbind(1), negatives[rows.part]
        of_images, of_texts = rows.logits()
        p12, p21 = (of_images - log[rows.part, None]).exp(), (of_texts - log[None, :]).exp()
        matched, at = (true - log).exp(), chosen.clamp(min=0)
        four = _Four(matched[rows.part, None], p12.gather(1, at), p21.gather(1, at), matched[at])
        sides = [side.square().masked_fill(chosen < 0, 0.0).sum(1) for side in (four.v2_text, four.v2_image)]
        easy = rows.negative & ~_close_pairs(rows, negatives)
        return torch.stack([*sides, (p12 - p21).square().masked_fill(~easy, 0.0).sum(1)], dim=1)

    total, drawn = by_rows(pairs, sums).sum(0), (negatives >= 0).sum().clamp(min=1)
    counts = torch.stack([drawn, drawn, torch.full_like(drawn, n**2)]).to(total.dtype)
    text, image, crossed = mean_over_ranks(total) * (n / (pairs.part.stop - pairs.part.start)) / counts
    return crossed, (text - alpha).relu() + (image - alpha).relu()


def drawn_negatives(pairs: MatrixRows, k: int, step: int) -> Tensor:
    """Return `k // 2` images drawn for each text and then `k // 2` texts drawn for each image, int64 `(n, 2 (k // 2))`.

    Drawn without replacement by the softmax of the logits; the two lists may overlap. -1 if there are too few.
    """
    count = min(k, 2 * len(pairs.images)) // 2

    def draw_rows(rows: MatrixRows) -> Tensor:
        same, sides = ~rows.negative, reversed(rows.logits())
        # Twice the step and one more: the two lists are independent of each other.
        logits = [side.masked_fill(same, float("-inf")) for side in sides]
        return torch.cat([draw(side, count, 2 * step + k, rows.index) for k, side in enumerate(logits)], dim=1)

    with torch.no_grad():
        return gather(by_rows(pairs, draw_rows))


def _regularise_matches(
    matches: Matches, alpha: float, k: int, variant: Variant, as_released: bool
) -> tuple[Tensor, Tensor]:
    """Return v1 and v2 of the probabilities of a match."""
    if matches.counterparts is None:
        raise ModelError("EqSim needs Matches(counterparts=...), the logits of the negatives' true pairs")
    # EqSim compares a pair with one other pair: its wrong text and wrong image must come from the same one.
    paired = matches.negative_text_ids == matches.negative_image_ids
    counted = matches.has_wrong_text & matches.has_wrong_image & paired
    logits = (matches.true[:, None], matches.wrong_texts, matches.wrong_images, matches.counterparts)
    four = _Four(*(wide(side).sigmoid() for side in logits))

    def mean(deviations: Tensor, mask: Tensor) -> Tensor:
        return share(deviations.masked_fill(~mask, 0.0).sum(), mask.sum())

    if as_released:
        text, image = (mean(side.square(), counted) - alpha for side in (four.v2_text, four.v2_image))
        return torch.zeros_like(text), text.relu() + image.relu()
    close = matches.close
    if close is None:  # those with the highest crossed logits
        either = torch.maximum(matches.wrong_texts, matches.wrong_images).detach()
        close = _mark(best(either.masked_fill(~counted, float("-inf")), min(k, either.shape[1])), either.shape[1])
    of_v1, of_v2 = _masks(variant, counted, close)
    second = _hinge(four.v2_text, alpha) + _hinge(four.v2_image, alpha)
    return mean(_hinge(four.v1, alpha), of_v1), mean(second, of_v2)
