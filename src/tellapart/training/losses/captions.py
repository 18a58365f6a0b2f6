"""Contrast with false captions: those of all ranks are candidates of every image, beside all true texts."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pydantic import NonNegativeFloat

from tellapart.training.lazy_torch import Tensor, torch
from tellapart.training.losses.batch import Batch, LossParts, sum_parts, wide
from tellapart.training.losses.choices import own_choices
from tellapart.training.losses.contrast import contrast, contrasts
from tellapart.training.losses.loss import loss
from tellapart.training.losses.matrix_rows import (
    MatrixRows,
    by_rows,
    find_true,
    gather,
    gather_pairs,
    mean_over_ranks,
    share,
)


@loss(negative_captions=1, negative_images="pairs")
def negclip(batch: Batch) -> LossParts:
    """Return `itc` whose images must find their text among all false captions, too; texts see images alone.

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
    pairs = gather_pairs(batch)
    captions, missing, ids = _gather_false(batch, "negclip")

    def with_false(rows: MatrixRows) -> Tensor:
        plain = contrasts(rows)
        logits = rows.scale * (rows.images[rows.part] @ captions.T)
        false = logits.masked_fill(missing | rows.is_true(ids), float("-inf"))
        # One logarithm over both kinds of candidates; the true text keeps it finite without a false one.
        over_texts = torch.cat([plain[:, :1], false], dim=1).logsumexp(1)
        return torch.cat([over_texts[:, None], plain[:, 1:]], dim=1)

    return contrast(by_rows(pairs, with_false))


def _gather_false(batch: Batch, name: str) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return all ranks' false captions `(m, d)`, which are missing `(m,)`, and their ids; a name is for the error."""
    captions, ids = gather(wide(batch.need("negative_texts", name)).flatten(0, 1)), batch.negative_text_ids
    if batch.has_negative is None:
        missing = torch.zeros(len(captions), dtype=torch.bool, device=captions.device)
    else:
        missing = ~gather(batch.has_negative.flatten())
    return captions, missing, None if ids is None else gather(ids.flatten())


@loss(negative_captions=4)
def ce_clip(
    batch: Batch,
    *,
    intra: NonNegativeFloat = 0.2,
    rank: NonNegativeFloat = 0.2,
    bound: NonNegativeFloat = 5.0,
    threshold: NonNegativeFloat | None = None,
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
    return sum_parts(
        negclip=negclip(batch)["total"],
        intra=intra * _between_texts(batch),
        rank=rank * share(short.sum(), count),
    )


def _between_texts(batch: Batch) -> Tensor:
    """Return the contrast of each pair's logit with those of its text and all false captions."""
    captions, missing, ids = _gather_false(batch, "ce-clip")

    def nats(rows: MatrixRows) -> Tensor:
        true = rows.scale * (rows.images[rows.part] * rows.texts[rows.part]).sum(1)
        false = rows.scale * (rows.texts[rows.part] @ captions.T)
        false = false.masked_fill(missing | rows.is_true(ids), float("-inf"))
        return torch.cat([true[:, None], false], dim=1).logsumexp(1) - true

    return mean_over_ranks(by_rows(gather_pairs(batch), nats).mean())


@loss(negative_captions=1, units=2)
def cs_clip(batch: Batch, *, weight: NonNegativeFloat = 0.5, foils: Literal["own", "all"] = "own") -> LossParts:
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
    units, facts, losses = batch.need("units", "cs-clip"), batch.true_pairs(), []
    captions = negclip(batch)["total"]
    for place, (unit, foil) in enumerate(pair.unbind(1) for pair in units.unbind(1)):
        ids = (None, None) if batch.unit_ids is None else batch.unit_ids[:, place].unbind(1)
        pairs = replace(
            batch,
            texts=unit,
            text_ids=ids[0],
            negative_texts=foil[:, None],
            negative_text_ids=None if ids[1] is None else ids[1][:, None],
            has_negative=None,
            units=None,
            unit_ids=None,
            facts=facts,
        )
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
