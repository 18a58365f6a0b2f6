"""Losses of dual encoders: images and texts find each other among those of all ranks, and among false captions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, Field
from pydantic import NonNegativeFloat as _Weight

from tellapart.errors import ModelError
from tellapart.training.lazy_torch import Tensor, torch
from tellapart.training.losses.loss import (
    Batch,
    LossParts,
    MatrixRows,
    by_rows,
    find_true,
    gather,
    gather_pairs,
    gather_true,
    loss,
    mean_over_ranks,
    share,
    sum_parts,
    wide,
)


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
    """Return log-normalisers over texts and over images, and both logits of true pairs, `(c, 4)`."""
    (images, texts), first = rows.logits(), rows.part.start
    normalisers = images.logsumexp(1), texts.logsumexp(1)
    return torch.stack([*normalisers, images.diagonal(first), texts.diagonal(first)], dim=1)


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
        unmatched = torch.nn.functional.softplus(logits).masked_fill(~rows.negatives[0], 0.0).sum(1)
        return torch.stack([torch.nn.functional.softplus(-logits.diagonal(rows.part.start)), unmatched], dim=1)

    matched, unmatched = mean_over_ranks(by_rows(gather_pairs(batch), losses).mean(0))
    return sum_parts(matched=matched, unmatched=unmatched)


@loss()
def hardneg(batch: Batch, *, k: Annotated[int, Field(ge=1)] = 8, weight: _Weight = 1.0) -> LossParts:
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
def cyclip(batch: Batch, *, cross: _Weight = 0.25, within: _Weight = 0.25) -> LossParts:
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
    return itc(_with_mates(batch, "trohn-img")[1])


@loss(negative_images="mate")
def tripletclip(batch: Batch) -> LossParts:
    """Return NegCLIP of the pairs with their mates' texts as false captions, and the same with the sides changed.

    Images, the pairs' and the mates', find their text among all texts of both; texts see the images of their side
    alone. The paper makes the mates' pictures from false captions; here they are the rows' hard counterparts, which may
    be in the batch themselves, so no caption of an image is ever its false one.

    Source: TripletCLIP (Patel et al. 2024), `tripletclip_loss` of its code, which sums the two sides.
    """
    (mates, joined), facts = _with_mates(batch, "tripletclip"), batch.true_pairs()
    # Half a mean over pairs and mates together, twice: as much as half a mean over either.
    images = 2 * itc(joined)["image_to_text"]
    texts = itc(replace(batch, mates=None, facts=facts))["text_to_image"]
    texts = texts + itc(replace(mates, scale=batch.scale, chunk=batch.chunk, facts=facts))["text_to_image"]
    return sum_parts(image_to_text=images, text_to_image=texts)


def _with_mates(batch: Batch, name: str) -> tuple[Batch, Batch]:
    """Return the hard counterparts, which show other images, and one batch of the pairs and, after them, these."""
    batch.need("mates", name)
    mates = cast("Batch", batch.mates)
    if alike := (batch.image_ids == mates.image_ids).nonzero()[:, 0].tolist():
        raise ModelError(f"{name}: pairs {alike} and their mates have the same image_ids; a mate is another image")
    texts = None if batch.text_ids is None or mates.text_ids is None else torch.cat([batch.text_ids, mates.text_ids])
    fields: dict[str, Any] = {
        key: torch.cat([getattr(batch, key), getattr(mates, key)]) for key in ("images", "texts", "image_ids")
    }
    return mates, Batch(**fields, scale=batch.scale, text_ids=texts, facts=batch.true_pairs(), chunk=batch.chunk)


def _check_gamma(gamma: float) -> float:
    """Refuse numbers between 0 and 1, for which the derivative has no bound if the model is sure."""
    if 0 < gamma < 1:
        raise ValueError("input should be 0 or at least 1")
    return gamma


_Gamma = Annotated[_Weight, AfterValidator(_check_gamma), Field(description="0 or at least 1")]
_Smoothing = Annotated[float, Field(ge=0, lt=1)]


def own_choices(batch: Batch, name: str) -> tuple[Tensor, Tensor]:
    """Return each image's logits with its captions, and which captions there are."""
    negatives = batch.need("negative_texts", name)
    with torch.autocast(batch.images.device.type, enabled=False):
        captions = torch.cat([wide(batch.texts)[:, None], wide(negatives)], dim=1)
        logits = wide(batch.scale) * torch.einsum("bd,bfd->bf", wide(batch.images), captions)
    there = torch.ones(logits.shape, dtype=torch.bool, device=logits.device)
    if batch.has_negative is not None:
        there[:, 1:] = batch.has_negative
    there[:, 1:] &= ~find_true(gather_true(batch), batch.image_ids[:, None], batch.negative_text_ids)
    return logits.masked_fill(~there, 0.0), there


@loss(negative_captions=3)
def negbench(batch: Batch, *, contrast: _Weight = 0.99, choice: _Weight = 0.01) -> LossParts:
    """Return `itc` and, as part `choice`, the cross-entropy of an image's caption among it and its false ones.

    The mean is over the images that have a false caption. The paper takes the two parts from two sets, captions with
    negations and questions; here each row gives both.

    Args:
        contrast: weight of the contrast.
        choice: weight of the question.

    Source: NegBench (Alhamoud et al. 2025), its objective with multiple-choice questions; three false
    captions an image.
    """
    logits, there = own_choices(batch, "negbench")
    asked = there[:, 1:].any(1)
    nats = logits.masked_fill(~there, float("-inf")).logsumexp(1) - logits[:, 0]
    question = share(nats.masked_fill(~asked, 0.0).sum(), asked.sum())
    return sum_parts(itc=contrast * itc(batch)["total"], choice=choice * question)


@loss(negative_captions=1, joins=True)
def clic(batch: Batch, *, contrast: _Weight = 0.5, choice: _Weight = 0.5, paraphrase: _Weight = 1.0) -> LossParts:
    """Return `itc` and `choice`, each the mean over an image's true captions, and `paraphrase`, how far two are apart.

    `choice`: the cross-entropy of a true caption among it and the image's false one. `paraphrase`: the squared distance
    of the first two true captions, which mean the same in another order. A batch of plain pictures, which has one true
    caption for each, is given plain contrast, of weight 1: every other step of the original.

    Args:
        contrast: weight of the contrast.
        choice: weight of the question.
        paraphrase: weight of the distance between captions of one meaning.

    Source: CLIC (Peleg et al. 2025), Eq. 4 to 7, with the weights of its code.
    """
    positives, ids = batch.positive_texts, batch.positive_text_ids
    if positives is None:
        zero = batch.images.sum() * 0
        return sum_parts(itc=itc(batch)["total"], choice=zero, paraphrase=zero)
    batch.need("negative_texts", "clic")
    side = replace(batch, positive_texts=None, positive_text_ids=None, facts=batch.true_pairs())
    weights = {"contrast": contrast / (1 + len(positives[0])), "choice": choice / (1 + len(positives[0]))}
    parts = negbench(side, **weights)
    for k, texts in enumerate(positives.unbind(1)):
        side = replace(side, texts=texts, text_ids=None if ids is None else ids[:, k])
        more = negbench(side, **weights)
        parts = {name: part + more[name] for name, part in parts.items()}
    apart = (wide(batch.texts) - wide(positives[:, 0])).square().sum(1).mean()
    return sum_parts(itc=parts["itc"], choice=parts["choice"], paraphrase=paraphrase * mean_over_ranks(apart))


@loss(negative_captions=3)
def fsc_global(batch: Batch, *, weight: _Weight = 0.5, gamma: _Gamma = 2.0, smoothing: _Smoothing = 0.02) -> LossParts:
    """Return `itc` and, as part `choice`, a focal cross-entropy of an image's captions with smoothed labels.

    Images without a false caption are left out. `fsc_clip` adds the same by patches and words; missing captions are not
    candidates here, and have a logit of 0 in the original.

    Args:
        weight: of the choice among an image's captions.
        gamma: how much less a caption counts that the model is sure of; 0 for plain cross-entropy.
        smoothing: share of the label that is spread evenly over the image's captions, false ones as well.

    Source: FSC-CLIP (Oh et al. 2024), `Global_HNLoss` of its code with focal loss and label smoothing.

    >>> import torch
    >>> false = torch.eye(2)[:, None]  # which nothing tells from the true ones: p is a half
    >>> batch = Batch(torch.eye(2), torch.eye(2), torch.tensor(9.0), torch.arange(2), negative_texts=false)
    >>> round(fsc_global(batch, weight=1.0)["choice"].item(), 4)  # a quarter of the logarithm of 2
    0.1733
    """
    choice = _focal_choice(*own_choices(batch, "fsc-global"), gamma, smoothing)
    return sum_parts(itc=itc(batch)["total"], choice=weight * choice)


@loss(negative_captions=3, local=True)
def fsc_clip(
    batch: Batch, *, weight: _Weight = 0.5, local: _Weight = 0.2, gamma: _Gamma = 2.0, smoothing: _Smoothing = 0.02,
    unit_patches: bool = False,
) -> LossParts:  # fmt: skip
    """Return `fsc_global`, and as part `local` the same choice among captions by the image's patches and their words.

    Args:
        weight: of the choice by pooled vectors.
        local: of the choice by patches and words; the paper's 0.2 is for ViT-B/32, and 0.5 for B/16 and L/14.
        gamma: as `fsc_global` has it.
        smoothing: likewise.
        unit_patches: patches are made unit vectors first; in the released code a longer one counts more.

    Source: FSC-CLIP (Oh et al. 2024), section 3.2 and 3.3, with the weights of its code.
    """
    of_words = local_logits(batch, unit_patches=unit_patches)
    logits, there = own_choices(batch, "fsc-clip")
    choices = [_focal_choice(shown, there, gamma, smoothing) for shown in (logits, of_words)]
    return sum_parts(itc=itc(batch)["total"], choice=weight * choices[0], local=local * choices[1])


def local_logits(batch: Batch, *, unit_patches: bool = False) -> Tensor:
    """Return how well an image's patches fit the words of each of its captions, float `(b, 1 + f)`.

    A word looks at the patches: their dot products with it, from 0 for the lowest to 1 for the highest, are their
    shares in a mean patch (these have no gradient). Its logit is `scale` times its cosine with that mean, and a
    caption's is the logarithm of the sum of its words' exponentials.
    """
    patches, words, real = (batch.need(name, "fsc-clip") for name in ("patches", "words", "real_words"))
    with torch.autocast(batch.images.device.type, enabled=False):
        patches, words = wide(patches), wide(words)
        patches = torch.nn.functional.normalize(patches, dim=-1) if unit_patches else patches
        products = torch.einsum("bcwd,bpd->bcwp", words, patches).detach()
        lowest, highest = products.aminmax(dim=-1, keepdim=True)
        # If all patches are alike, each has the same share.
        shares = torch.where(highest > lowest, (products - lowest) / (highest - lowest), 1.0)
        shares = shares / shares.sum(-1, keepdim=True)
        looked_at = torch.nn.functional.normalize(torch.einsum("bcwp,bpd->bcwd", shares, patches), dim=-1)
        logits = wide(batch.scale) * (looked_at * words).sum(-1)
    return logits.masked_fill(~real, float("-inf")).logsumexp(-1)


def _focal_choice(logits: Tensor, there: Tensor, gamma: float, smoothing: float) -> Tensor:
    """Return the mean focal cross-entropy of images' captions `(b, c)`, the true one first, with smoothed labels.

    With `m` captions of an image, its true one has the label `1 - smoothing + smoothing / m` and each false one
    `smoothing / m`; a caption of probability `p` costs its label times `-(1 - p)^gamma ln p`. Images of one caption
    are left out.
    """
    nats = (logits.masked_fill(~there, float("-inf")).logsumexp(1, keepdim=True) - logits).masked_fill(~there, 0.0)
    focal = nats * (-torch.expm1(-nats)) ** gamma  # not finite of nats below 0, which a missing caption could have
    label = (smoothing / there.sum(1, keepdim=True).to(nats.dtype)).repeat(1, nats.shape[1])
    label[:, 0] += 1 - smoothing
    asked = there[:, 1:].any(1)
    costs = (label * focal).masked_fill(~(there & asked[:, None]), 0.0)
    return share(costs.sum(), asked.sum())


@loss(negative_captions=1, negative_images="pairs")
def negclip(batch: Batch) -> LossParts:
    """Return `itc` whose images must find their text among all false captions, too; texts meet images alone.

    True and false captions are gathered apart, so a text's column is its pair's number on any number of ranks (the
    original gathers both at once, and its labels do not fit two ranks). Its hard images with their captions are
    further pairs of the batch. A false caption that is true of another image is none of that image's candidates.
    TROHN-Text is this loss with one false caption an image.

    Source: NegCLIP (Yuksekgonul et al. 2023), section 4; TROHN-Text (BiVLC, Miranda et al. 2024), section 5.

    >>> import torch
    >>> false = torch.zeros(2, 1, 2)
    >>> batch = Batch(torch.eye(2), torch.eye(2), torch.tensor(0.0), torch.arange(2), negative_texts=false)
    >>> {name: round(part.item(), 4) for name, part in negclip(batch).items()}  # ln 4 / 2 and ln 2 / 2
    {'image_to_text': 0.6931, 'text_to_image': 0.3466, 'total': 1.0397}
    """
    pairs, false_logits = gather_pairs(batch), _false_logits(batch, "negclip")

    def with_false(rows: MatrixRows) -> Tensor:
        plain, false = contrasts(rows), false_logits(rows, rows.images)
        # One logarithm over both kinds of candidates; the true text keeps it finite without a false one.
        over_texts = torch.cat([plain[:, :1], false], dim=1).logsumexp(1)
        return torch.cat([over_texts[:, None], plain[:, 1:]], dim=1)

    return contrast(by_rows(pairs, with_false))


def _false_logits(batch: Batch, name: str) -> Callable[[MatrixRows, Tensor], Tensor]:
    """Return a function of the rows, and of vectors of all pairs, to logits `(c, m)` with all ranks' false captions."""
    captions, ids = gather(wide(batch.need("negative_texts", name)).flatten(0, 1)), batch.negative_text_ids
    missing = torch.zeros(len(captions), dtype=torch.bool, device=captions.device)
    if batch.has_negative is not None:
        missing = ~gather(batch.has_negative.flatten())
    text_ids = None if ids is None else gather(ids.flatten())

    def logits(rows: MatrixRows, vectors: Tensor) -> Tensor:
        false = rows.scale * (vectors[rows.part] @ captions.T)
        true = find_true(rows.true, rows.image_ids[rows.part, None], text_ids)
        return false.masked_fill(missing | true, float("-inf"))

    return logits


@loss(negative_captions=4)
def ce_clip(
    batch: Batch, *, intra: _Weight = 0.2, rank: _Weight = 0.2, bound: _Weight = 5.0, threshold: _Weight | None = None
) -> LossParts:
    """Return `negclip` and parts `intra`, a contrast between texts, and `rank`, true over false by a threshold.

    `intra`: the logit of a pair against its text's with all false captions. `rank`: the mean over an image's false
    captions of `[threshold + logit of the false one - logit of the true one]_+`. The threshold has no gradient; its
    mean is over this step's false captions of all ranks. In the original it is the last step's, and each kind of false
    caption has one.

    Args:
        intra: weight of the contrast between texts.
        rank: weight of the rank.
        bound: the highest threshold, in logits.
        threshold: a fixed one; if None, the mean by which true captions are ahead of false ones, at most `bound`.

    Source: CE-CLIP (Zhang et al. 2024), `Clip_DALoss` of its code, with hard negatives in the contrast as its released
    command has them.
    """
    logits, there = own_choices(batch, "ce-clip")
    there = there[:, 1:]
    ahead, count = (logits[:, :1] - logits[:, 1:]).masked_fill(~there, 0.0), there.sum()
    reached = share(ahead.detach().sum(), count).clamp(0.0, bound) if threshold is None else threshold
    short = (reached - ahead).relu().masked_fill(~there, 0.0)
    of_captions, false_logits = negclip(batch)["total"], _false_logits(batch, "ce-clip")

    def between_texts(rows: MatrixRows) -> Tensor:
        true = rows.scale * (rows.images[rows.part] * rows.texts[rows.part]).sum(1)
        return torch.cat([true[:, None], false_logits(rows, rows.texts)], dim=1).logsumexp(1) - true

    texts = mean_over_ranks(by_rows(gather_pairs(batch), between_texts).mean())
    return sum_parts(negclip=of_captions, intra=intra * texts, rank=rank * share(short.sum(), count))


@loss(negative_captions=1, units=2)
def cs_clip(batch: Batch, *, weight: _Weight = 0.5, foils: Literal["own", "all"] = "own") -> LossParts:
    """Return parts `negclip`, of captions, and `units`, a contrast of units and their foils, the mean over units.

    A unit is a thing with its attributes, or a relation, that the caption names ("a red cup"); its foil differs in one
    of them ("a blue cup"). An image finds its unit among it, the other images' units and its foil; a unit finds its
    image among all images. The first units of all captions meet each other, then the second ones. A unit or foil that
    is a unit or caption of another image is no candidate of that image; one in other words may be.

    Args:
        weight: of the units' part.
        foils: an image's candidates among foils: `own`, its unit's alone (the released run's `negclip_hard`), or `all`
            of the batch (`negclip`).

    Source: CS-CLIP (Kargi et al. 2026), its unit loss in the form of its released run (`negclip_hard`, two units).
    """
    units, captions, losses = batch.need("units", "cs-clip"), negclip(batch)["total"], []
    for place, (unit, foil) in enumerate(pair.unbind(1) for pair in units.unbind(1)):
        ids = (None, None) if batch.unit_ids is None else batch.unit_ids[:, place].unbind(1)
        changes: dict[str, Any] = {"text_ids": ids[0], "negative_texts": foil[:, None], "facts": batch.true_pairs()}
        changes["negative_text_ids"] = None if ids[1] is None else ids[1][:, None]
        pairs = replace(batch, texts=unit, has_negative=None, units=None, unit_ids=None, **changes)
        losses.append(_against_its_foil(pairs, foil, ids[1]) if foils == "own" else negclip(pairs)["total"])
    of_units = sum(losses[1:], start=losses[0]) / len(losses)
    return sum_parts(negclip=captions, units=weight * of_units)


def _against_its_foil(batch: Batch, foils: Tensor, foil_ids: Tensor | None) -> Tensor:
    """Return the contrast of images and units, in which each image has its unit's foil as one more candidate."""
    pairs = gather_pairs(batch)

    def with_foil(rows: MatrixRows) -> Tensor:
        plain, part = contrasts(rows), slice(rows.part.start - pairs.part.start, rows.part.stop - pairs.part.start)
        logits = rows.scale * (rows.images[rows.part] * wide(foils[part])).sum(1)
        true = find_true(rows.true, batch.image_ids[part], None if foil_ids is None else foil_ids[part])
        over_texts = torch.logaddexp(plain[:, 0], logits.masked_fill(true, float("-inf")))
        return torch.cat([over_texts[:, None], plain[:, 1:]], dim=1)

    return contrast(by_rows(pairs, with_foil))["total"]
