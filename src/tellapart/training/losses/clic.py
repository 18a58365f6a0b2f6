"""Contrast with several true captions, a question of two, and captions of one meaning kept together (CLIC)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tellapart.errors import ModelError
from tellapart.training.losses.batch import Batch, LossParts, sum_parts, wide
from tellapart.training.losses.itc import itc
from tellapart.training.losses.loss import DualLoss
from tellapart.training.losses.negbench import NegBench, negbench
from tellapart.training.losses.options import LossOptions, number
from tellapart.training.losses.preset import Preset
from tellapart.training.losses.ranks import mean_over_ranks


@dataclass(frozen=True, slots=True)
class Clic(LossOptions):
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

    contrast: float = number(0.5)
    choice: float = number(0.5)
    paraphrase: float = number(1.0)


_DEFAULT = Clic()


def clic(batch: Batch, options: Clic = _DEFAULT) -> LossParts:
    """Return `itc` and `choice`, each the mean over an image's true captions, and `paraphrase`, how far two are apart.

    `choice`: the cross-entropy of a true caption among it and the image's false one. `paraphrase`: the squared distance
    of the first two true captions, which mean the same in another order. A batch of plain pictures, which has one true
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
    plain = replace(batch, positive_texts=None, positive_text_ids=None, facts=batch.true_pairs())
    ids = batch.positive_text_ids
    sides = [plain] + [
        replace(plain, texts=positives[:, k], text_ids=None if ids is None else ids[:, k]) for k in range(count - 1)
    ]
    weights = NegBench(options.contrast / count, options.choice / count)
    parts = [negbench(side, weights) for side in sides]
    apart = (wide(batch.texts) - wide(positives[:, 0])).square().sum(1).mean()
    return sum_parts(
        itc=sum((part["itc"] for part in parts[1:]), start=parts[0]["itc"]),
        choice=sum((part["choice"] for part in parts[1:]), start=parts[0]["choice"]),
        paraphrase=options.paraphrase * mean_over_ranks(apart),
    )


#: The released command and its defaults: from OpenAI's weights, 800 pictures a step (200 on each of four GPUs), one
#: epoch over a million of LAION with CogVLM's captions, the first sentence and two others drawn. The text tower and the
#: scale alone; joined pictures and plain ones by turns; weights 0.5, 0.5 and 1 (Eq. 7). A fifth of the epoch is the
#: warm-up (250 steps). Weight decay leaves out tensors of one axis or none, as here; its clamp of the scale does
#: nothing.
_CLIC = Preset(
    {
        "loss": {"name": "clic", "contrast": 0.5, "choice": 0.5, "paraphrase": 1.0},
        "optimiser": {
            "learning_rate": 1e-6,
            "betas": (0.9, 0.98),
            "epsilon": 1e-8,
            "weight_decay": 0.1,
            "warm_up": 250,
            "epochs": 1,
            "max_scale": None,
            "tower": "text",
        },
        "batch": {"size": 800},
        "data": {"join": "alternate", "positive_captions": 2},
    },
    source="CLIC, its paper and released command",
    ours={
        "optimiser.warm_up": "the rate begins at a tenth and ends at a hundredth of its highest; here at 0",
        "pictures": "the code scales joined pictures by ImageNet's means; here all by the model's",
        "captions": "the code's are in small letters; here as the rows have them",
        "words that change places": "the code takes two of one part of speech, else any two; here two that name a "
        "thing or a property, else the picture has no false caption, because two other words may leave it true",
        "data.join": "the code may join a picture to itself, and draws until two lie alike; here it is another "
        "picture, of any shape after 32 draws, because a picture joined to itself has no false caption",
    },
)

CLIC = DualLoss(clic, Clic, negative_captions=1, joins=True, presets={"clic": _CLIC})
