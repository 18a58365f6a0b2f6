"""NegCLIP of captions, and NegCLIP of their units, each against a foil (CS-CLIP)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tellapart.errors import ModelError
from tellapart.train.losses.batch import Batch, LossParts, sum_parts
from tellapart.train.losses.loss import DualLoss
from tellapart.train.losses.negclip import negclip
from tellapart.train.losses.options import LossOptions, number
from tellapart.train.losses.preset import Preset

__all__ = ["CS_CLIP", "CsClip", "cs_clip"]


@dataclass(frozen=True, slots=True)
class CsClip(LossOptions):
    """Options of `cs_clip`.

    Attributes:
        weight: of the units' part.

    Raises:
        ModelError: it is below 0.

    >>> CsClip()
    CsClip(weight=0.5)
    """

    weight: float = number(0.5)


_DEFAULT = CsClip()


def cs_clip(batch: Batch, options: CsClip = _DEFAULT) -> LossParts:
    """Return parts `negclip`, of captions, and `units`, the same of one unit of each caption and its foil.

    A unit is a thing with its attributes, or a relation, that the caption names ("a red cup"); its foil differs in one
    of them ("a blue cup"). The original takes all units of a caption a step, this one a drawn one. A unit may be true
    of another image of the batch, too, which no number here knows.

    Raises:
        ModelError: the batch has no false captions, or no units.

    Source: CS-CLIP (Kargi et al. 2026), its unit loss; of its code's five forms the default, NegCLIP.

    >>> import torch
    >>> half = torch.zeros(2, 1, 2)
    >>> batch = Batch(torch.eye(2), torch.eye(2), torch.tensor(0.0), torch.arange(2), negative_texts=half,
    ...     units=torch.zeros(2, 2, 2))
    >>> {name: round(part.item(), 4) for name, part in cs_clip(batch).items()}  # (ln 4 + ln 2) / 2, and half of it
    {'negclip': 1.0397, 'units': 0.5199, 'total': 1.5596}
    """
    if batch.units is None:
        raise ModelError("cs-clip needs units with their foils: give Batch(units=...) (pairs, 2, dimensions)")
    unit, foil = batch.units[:, 0], batch.units[:, 1:]
    units = negclip(replace(batch, texts=unit, negative_texts=foil, has_negative=None, units=None))["total"]
    return sum_parts(negclip=negclip(batch)["total"], units=options.weight * units)


#: ViT-B/32 from OpenAI's weights on 410,000 captions of COCO with units and foils of a language model, eight GPUs of
#: 128 pairs, 25 epochs.
_CS_CLIP = Preset(
    {
        "seed": 42,
        "loss": {"name": "cs-clip", "weight": 0.5},
        "optimiser": {
            "learning_rate": 5e-6,
            "betas": (0.9, 0.98),
            "epsilon": 1e-6,
            "weight_decay": 0.01,
            "warm_up": 1200,
            "epochs": 25,
            "clip_norm": 1.0,
            "max_scale": 100.0,
        },
        "batch": {"size": 1024},
    },
    source="CS-CLIP's paper and configurations on COCO: eight GPUs of 128; warm-up of 3 epochs (1,200 steps)",
    ours={
        "optimiser.warm_up": "the rate begins at a tenth and ends at a hundredth of its highest; here at 0",
    },
)

CS_CLIP = DualLoss(cs_clip, CsClip, negative_captions=1, units=True, presets={"cs-clip": _CS_CLIP})
