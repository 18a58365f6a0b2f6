"""Contrast with several true captions, a question of two, and captions of one meaning kept together (CLIC)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tellapart.errors import ModelError
from tellapart.train.losses.batch import Batch, LossParts, sum_parts, wide
from tellapart.train.losses.itc import itc
from tellapart.train.losses.loss import DualLoss
from tellapart.train.losses.negbench import NegBench, negbench
from tellapart.train.losses.ranks import mean_over_ranks

__all__ = ["CLIC", "Clic", "clic"]


@dataclass(frozen=True, slots=True)
class Clic:
    """Options of `clic`.

    Attributes:
        contrast: weight of the contrast.
        choice: weight of the question.
        paraphrase: weight of the distance between captions of one meaning.

    Raises:
        ModelError: a weight is below 0.

    >>> Clic(choice=1.0)
    Clic(contrast=0.5, choice=1.0, paraphrase=1.0)
    """

    contrast: float = 0.5
    choice: float = 0.5
    paraphrase: float = 1.0

    def __post_init__(self) -> None:
        if not min(self.contrast, self.choice, self.paraphrase) >= 0:
            raise ModelError(
                f"Clic(contrast={self.contrast}, choice={self.choice}, paraphrase={self.paraphrase}): a weight is at "
                "least 0"
            )


_DEFAULT = Clic()


def clic(batch: Batch, options: Clic = _DEFAULT) -> LossParts:
    """Return `itc` and `choice`, each the mean over an image's true captions, and `paraphrase`, how far two are apart.

    `choice`: the cross-entropy of a true caption among it and the image's false one. `paraphrase`: the squared distance
    of the first two true captions, which say the same in another order. A batch of plain pictures, which has one true
    caption for each, is given plain contrast, of weight 1: every other step of the original.

    Raises:
        ModelError: images have several true captions, and no false ones.

    Source: CLIC (Peleg et al. 2025), Eq. 4 to 7, with the weights of its code.

    >>> import torch
    >>> texts = torch.eye(2)
    >>> batch = Batch(texts, texts, torch.tensor(9.0), torch.arange(2), negative_texts=texts[:, None],
    ...     positive_texts=texts.flip(0)[:, None])
    >>> parts = clic(batch, Clic(contrast=0.0))  # the question: ln 2, and 9 + ln(1 + e^-9) for the other true caption
    >>> {name: round(part.item(), 4) for name, part in parts.items()}
    {'itc': 0.0, 'choice': 2.4233, 'paraphrase': 2.0, 'total': 4.4233}
    """
    positives = batch.positive_texts
    if positives is None:
        zero = batch.images.sum() * 0
        return sum_parts(itc=itc(batch)["total"], choice=zero, paraphrase=zero)
    if batch.negative_texts is None:
        raise ModelError("clic needs false captions: give Batch(negative_texts=...) (pairs, captions, dimensions)")
    count = 1 + positives.shape[1]
    plain = replace(batch, positive_texts=None)
    sides = [plain, *(replace(plain, texts=positives[:, k]) for k in range(count - 1))]
    weights = NegBench(options.contrast / count, options.choice / count)
    parts = [negbench(side, weights) for side in sides]
    apart = (wide(batch.texts) - wide(positives[:, 0])).square().sum(1).mean()
    return sum_parts(
        itc=sum((part["itc"] for part in parts[1:]), start=parts[0]["itc"]),
        choice=sum((part["choice"] for part in parts[1:]), start=parts[0]["choice"]),
        paraphrase=options.paraphrase * mean_over_ranks(apart),
    )


CLIC = DualLoss(clic, Clic, negative_captions=1, joins=True)
