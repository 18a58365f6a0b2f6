"""NegCLIP of captions, and NegCLIP of their units, each against a foil (CS-CLIP)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tellapart.errors import ModelError
from tellapart.train.losses.batch import Batch, LossParts, sum_parts
from tellapart.train.losses.loss import DualLoss
from tellapart.train.losses.negclip import negclip

__all__ = ["CS_CLIP", "CsClip", "cs_clip"]


@dataclass(frozen=True, slots=True)
class CsClip:
    """Options of `cs_clip`.

    Attributes:
        weight: of the units' part.

    Raises:
        ModelError: it is below 0.

    >>> CsClip()
    CsClip(weight=0.5)
    """

    weight: float = 0.5

    def __post_init__(self) -> None:
        if not self.weight >= 0:
            raise ModelError(f"CsClip(weight={self.weight}): a weight is at least 0")


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


CS_CLIP = DualLoss(cs_clip, CsClip, negative_captions=1, units=True)
