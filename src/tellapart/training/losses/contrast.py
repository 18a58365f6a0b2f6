"""Contrast of images and texts: each finds its own among those of all ranks; and the losses that add to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field, NonNegativeFloat

from tellapart.errors import ModelError
from tellapart.training.lazy_torch import Tensor, torch
from tellapart.training.losses.batch import Batch, LossParts, sum_parts
from tellapart.training.losses.loss import loss
from tellapart.training.losses.matrix_rows import MatrixRows, by_rows, gather_pairs, mean_over_ranks


@loss()
def itc(batch: Batch) -> LossParts:
    """Return the symmetric contrastive loss, in nats: parts `image_to_text` and `text_to_image`, a half each.

    Other texts that are true of the image are left out of the candidates.

    Source: CLIP (Radford et al. 2021), Fig. 3; ITC of EqSim (Wang et al. 2023), section 5.1.

    >>> import torch
    >>> batch = Batch(torch.eye(4), torch.eye(4), torch.tensor(0.0), torch.arange(4))
    >>> round(itc(batch)["total"].item(), 4)  # a scale of 0 cannot tell four apart: the logarithm of 4
    1.3863
    """
    return contrast(by_rows(gather_pairs(batch), contrasts))


def contrasts(rows: MatrixRows) -> Tensor:
    """Return log-normalisers and logits of true pairs, `(c, 4)`: over texts, over images, true as image row, as text
    row.
    """
    sides, first = rows.logits(), rows.part.start
    return torch.stack([side.logsumexp(1) for side in sides] + [side.diagonal(first) for side in sides], dim=1)


def contrast(rows: Tensor) -> LossParts:
    """Return the parts of `itc` from this rank's `contrasts`, `(b, 4)`."""
    halves = mean_over_ranks((rows[:, :2] - rows[:, 2:4]).mean(0)) / 2
    return sum_parts(image_to_text=halves[0], text_to_image=halves[1])


@loss(bias=True)
def siglip(batch: Batch) -> LossParts:
    """Return the sigmoid loss, in nats an image: part `matched` of the true pairs, `unmatched` of all others.

    Every pair is classified by itself, matched or not. Other texts that are true of the image are left out.

    Source: SigLIP (Zhai et al. 2023), Eq. 1.

    >>> import torch
    >>> batch = Batch(torch.eye(4), torch.eye(4), torch.tensor(0.0), torch.arange(4), bias=torch.tensor(0.0))
    >>> round(siglip(batch)["matched"].item(), 4)  # the logarithm of 2
    0.6931
    """
    bias = batch.need("bias", "siglip")

    def losses(rows: MatrixRows) -> Tensor:
        logits = rows.scale * (rows.images[rows.part] @ rows.texts.T) + bias
        unmatched = torch.nn.functional.softplus(logits).masked_fill(~rows.negative_texts, 0.0).sum(1)
        return torch.stack([torch.nn.functional.softplus(-logits.diagonal(rows.part.start)), unmatched], dim=1)

    matched, unmatched = mean_over_ranks(by_rows(gather_pairs(batch), losses).mean(0))
    return sum_parts(matched=matched, unmatched=unmatched)


@loss()
def hardneg(batch: Batch, *, k: Annotated[int, Field(ge=1)] = 8, weight: NonNegativeFloat = 1.0) -> LossParts:
    """Return `itc` and, as part `hard`, the same contrast with the `k` most similar negatives as only candidates.

    The paper's baseline of that name (EqSim, Table 6) draws hard negatives for the matching head of a fusion encoder,
    for which see `itm`; this is its counterpart for dual encoders. Easy negatives get no gradient from this part.

    Args:
        k: hardest negatives a row.
        weight: of the contrast among them.

    >>> import torch
    >>> batch = Batch(torch.eye(4), torch.eye(4), torch.tensor(0.0), torch.arange(4))
    >>> {name: round(part.item(), 4) for name, part in hardneg(batch, k=1).items()}  # ln 4 and ln 2
    {'itc': 1.3863, 'hard': 0.6931, 'total': 2.0794}
    """

    def among_hardest(true: Tensor, negatives: Tensor) -> Tensor:
        hardest = negatives.topk(min(k, negatives.shape[1]), dim=1).values
        return torch.cat([true[:, None], hardest], dim=1).logsumexp(1) - true

    def both(rows: MatrixRows) -> Tensor:
        plain = contrasts(rows)
        of_images, of_texts = rows.logits(with_true=False)
        sides = [among_hardest(plain[:, 2], of_images), among_hardest(plain[:, 3], of_texts)]
        return torch.cat([plain, torch.stack(sides, dim=1)], dim=1)

    columns = by_rows(gather_pairs(batch), both)
    return sum_parts(itc=contrast(columns)["total"], hard=weight * mean_over_ranks(columns[:, 4:].mean()))


@loss()
def cyclip(batch: Batch, *, cross: NonNegativeFloat = 0.25, within: NonNegativeFloat = 0.25) -> LossParts:
    """Return `itc` with CyCLIP's two regularisers: parts `itc`, `cross` and `within`.

    Cross: `s(I_i, T_j) = s(I_j, T_i)`; within: `s(I_i, I_j) = s(T_i, T_j)`; squared, on cosines, summed over the `n`
    columns and averaged over rows, as in the original: they grow with the batch of all ranks. Pairs of one image or
    of one text are left out.

    Args:
        cross: weight of the consistency across modalities.
        within: weight of the consistency within modalities.

    Source: CyCLIP (Goel et al. 2022), Eq. 3 and 4; weights of its released command.
    """

    def deviations(rows: MatrixRows) -> Tensor:
        of_images, of_texts = rows.cosines()
        inside = rows.images[rows.part] @ rows.images.T - rows.texts[rows.part] @ rows.texts.T
        same = ~rows.negative
        sums = [difference.square().masked_fill(same, 0.0).sum(1) for difference in (of_images - of_texts, inside)]
        return torch.cat([contrasts(rows), torch.stack(sums, dim=1)], dim=1)

    columns = by_rows(gather_pairs(batch), deviations)
    across, inside = mean_over_ranks(columns[:, 4:].mean(0))
    return sum_parts(itc=contrast(columns)["total"], cross=cross * across, within=within * inside)


@loss(negative_images="mate")
def trohn_img(batch: Batch) -> LossParts:
    """Return `itc` over the pairs and their mates: images `[I; I']` with texts `[T; T']`, `2b` by `2b` on one rank.

    Source: TROHN-Img (BiVLC, Miranda et al. 2024), section 5.
    """
    return itc(_side_by_side(batch, _find_mates(batch, "trohn-img")))


@loss(negative_images="mate")
def tripletclip(batch: Batch) -> LossParts:
    """Return NegCLIP of the pairs with their mates' texts as false captions, and the same with the sides changed.

    Images, the pairs' and the mates', find their text among all texts of both; texts see the images of their side
    alone. The paper makes the mates' pictures from false captions; here they are the rows' hard counterparts, which may
    be in the batch themselves, so no caption of an image is ever its false one.

    Source: TripletCLIP (Patel et al. 2024), `tripletclip_loss` of its code, which sums the two sides.
    """
    mates, facts = _find_mates(batch, "tripletclip"), batch.true_pairs()
    # Half a mean over pairs and mates together, twice: as much as half a mean over either.
    images = 2 * itc(_side_by_side(batch, mates))["image_to_text"]
    texts = itc(replace(batch, mates=None, facts=facts))["text_to_image"]
    texts = texts + itc(replace(mates, scale=batch.scale, chunk=batch.chunk, facts=facts))["text_to_image"]
    return sum_parts(image_to_text=images, text_to_image=texts)


def _find_mates(batch: Batch, name: str) -> Batch:
    """Return the hard counterparts of a batch, which show other images; a loss's name is for the error."""
    batch.need("mates", name)
    assert batch.mates is not None  # noqa: S101  (for the type checker)
    alike = (batch.image_ids == batch.mates.image_ids).nonzero()[:, 0].tolist()
    if alike:
        raise ModelError(
            f"{name}: pairs {alike} and their mates have the same image_ids; a mate is another image, with its own id"
        )
    return batch.mates


def _side_by_side(batch: Batch, mates: Batch) -> Batch:
    """Return one batch of the pairs and, after them, their mates."""
    texts = None if batch.text_ids is None or mates.text_ids is None else torch.cat([batch.text_ids, mates.text_ids])
    return Batch(
        images=torch.cat([batch.images, mates.images]),
        texts=torch.cat([batch.texts, mates.texts]),
        scale=batch.scale,
        image_ids=torch.cat([batch.image_ids, mates.image_ids]),
        text_ids=texts,
        facts=batch.true_pairs(),
        chunk=batch.chunk,
    )
