"""NegCLIP of captions, and a contrast of their units, each against its foil (CS-CLIP)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from tellapart.errors import ModelError
from tellapart.training.losses.batch import Batch, LossParts, sum_parts, wide
from tellapart.training.losses.itc import contrast, contrasts
from tellapart.training.losses.loss import DualLoss
from tellapart.training.losses.matrix_rows import MatrixRows, by_rows, find_true, gather_pairs
from tellapart.training.losses.negclip import negclip
from tellapart.training.losses.options import LossOptions, number, one_of
from tellapart.training.losses.preset import Preset

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class CsClip(LossOptions):
    """Options of `cs_clip`.

    Attributes:
        weight: of the units' part.
        foils: an image's candidates among foils: `own`, its unit's alone (the released run's `negclip_hard`), or `all`
            of the batch (`negclip`).

    Raises:
        ModelError: the weight is below 0.
        UnknownNameError: foils is another word.

    >>> CsClip()
    CsClip(weight=0.5, foils='own')
    """

    weight: float = number(0.5)
    foils: str = one_of("own", ("own", "all"))


_DEFAULT = CsClip()


def cs_clip(batch: Batch, options: CsClip = _DEFAULT) -> LossParts:
    """Return parts `negclip`, of captions, and `units`, a contrast of units and their foils, the mean over units.

    A unit is a thing with its attributes, or a relation, that the caption names ("a red cup"); its foil differs in one
    of them ("a blue cup"). An image finds its unit among it, the other images' units and its foil; a unit finds its
    image among all images. The first units of all captions meet each other, then the second ones. A unit or foil that
    is a unit or caption of another image is no candidate of that image; one in other words may be.

    Raises:
        ModelError: the batch has no false captions, or no units.

    Source: CS-CLIP (Kargi et al. 2026), its unit loss in the form of its released run (`negclip_hard`, two units).

    >>> import torch
    >>> half = torch.zeros(2, 1, 2)
    >>> batch = Batch(torch.eye(2), torch.eye(2), torch.tensor(0.0), torch.arange(2), negative_texts=half,
    ...     units=torch.zeros(2, 1, 2, 2))
    >>> {name: round(part.item(), 4) for name, part in cs_clip(batch).items()}  # (ln 4 + ln 2) / 2; (ln 3 + ln 2) / 4
    {'negclip': 1.0397, 'units': 0.4479, 'total': 1.4877}
    """
    if batch.units is None:
        raise ModelError("cs-clip needs units with their foils: give Batch(units=...) (pairs, units, 2, dimensions)")
    total = negclip(batch)["total"]
    plain = replace(
        batch, negative_texts=None, has_negative=None, negative_text_ids=None, units=None, unit_ids=None, text_ids=None,
        facts=batch.true_pairs(),
    )  # fmt: skip
    losses = []
    for place, pair in enumerate(batch.units.unbind(1)):
        ids = None if batch.unit_ids is None else batch.unit_ids[:, place]
        unit = replace(
            plain,
            texts=pair[:, 0],
            negative_texts=pair[:, 1:],
            text_ids=None if ids is None else ids[:, 0],
            negative_text_ids=None if ids is None else ids[:, 1:],
        )
        losses.append(_against_own_foils(unit) if options.foils == "own" else negclip(unit)["total"])
    units = sum(losses[1:], start=losses[0]) / len(losses)
    return sum_parts(negclip=total, units=options.weight * units)


def _against_own_foils(batch: Batch) -> Tensor:
    """Return the contrast of images and units whose images have their unit's foil as one more candidate."""
    return contrast(by_rows(gather_pairs(batch), partial(_with_own_foils, batch=batch)))["total"]


def _with_own_foils(rows: MatrixRows, batch: Batch) -> Tensor:
    import torch

    assert batch.negative_texts is not None  # noqa: S101  (for the type checker)
    pairs, plain = rows.pairs, contrasts(rows)
    part = slice(rows.first - pairs.start, rows.last - pairs.start)
    ids = None if batch.negative_text_ids is None else batch.negative_text_ids[part, 0]
    logits = pairs.scale * (pairs.images[rows.first : rows.last] * wide(batch.negative_texts[part, 0])).sum(1)
    logits = logits.masked_fill(find_true(pairs.true, batch.image_ids[part], ids), float("-inf"))
    return torch.cat([torch.logaddexp(plain[:, 0], logits)[:, None], plain[:, 1:]], dim=1)


#: ViT-B/32 from OpenAI's weights on 410,000 captions of COCO with units and foils of a language model, eight GPUs of
#: 128 pairs, 25 epochs, `entity_loss_type: negclip_hard`, two units a caption; the scale is not clamped.
_CS_CLIP = Preset(
    {
        "seed": 42,
        "loss": {"name": "cs-clip", "weight": 0.5, "foils": "own"},
        "optimiser": {
            "learning_rate": 5e-6,
            "betas": (0.9, 0.98),
            "epsilon": 1e-6,
            "weight_decay": 0.01,
            "warm_up": 1200,
            "epochs": 25,
            "clip_norm": 1.0,
            "max_scale": None,
        },
        "batch": {"size": 1024},
    },
    source="CS-CLIP's paper and configurations on COCO: eight GPUs of 128; warm-up of 3 epochs (1,200 steps)",
    ours={
        "optimiser.warm_up": "the rate begins at a tenth and ends at a hundredth of its highest; here at 0",
        "a row without a false caption": "the code leaves its caption out of the contrast, while its empty negative "
        "stays a candidate of the others; here its caption stays and nothing takes the negative's place, because an "
        "empty text is not a caption",
        "a row without units": "the code leaves it out of the units' part; here such a row is refused, because a step "
        "would have another weight without a word",
        "one image": "the code counts two captions of one image as negatives of each other; here they are not",
        "several ranks": "over W ranks the code scales parts of the gradient by 1/W; here all ranks compute one "
        "process's gradient",
    },
)

CS_CLIP = DualLoss(cs_clip, CsClip, negative_captions=1, units=2, revision=2, presets={"cs-clip": _CS_CLIP})
