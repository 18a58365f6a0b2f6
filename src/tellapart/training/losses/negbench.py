"""Contrast, and a question with a few answers (NegBench): which of its captions is true of the image."""

from __future__ import annotations

from dataclasses import dataclass

from tellapart.training.losses.batch import Batch, LossParts, sum_parts
from tellapart.training.losses.itc import itc
from tellapart.training.losses.loss import DualLoss
from tellapart.training.losses.options import LossOptions, number
from tellapart.training.losses.own_choices import own_choices
from tellapart.training.losses.preset import Preset
from tellapart.training.losses.ranks import share


@dataclass(frozen=True, slots=True)
class NegBench(LossOptions):
    """Options of `negbench`.

    Attributes:
        contrast: weight of the contrast.
        choice: weight of the question.

    Raises:
        ModelError: a weight is below 0.

    >>> NegBench(choice=0.5)
    NegBench(contrast=0.99, choice=0.5)
    """

    contrast: float = number(0.99)
    choice: float = number(0.01)


_DEFAULT = NegBench()


def negbench(batch: Batch, options: NegBench = _DEFAULT) -> LossParts:
    """Return `itc` and, as part `choice`, the cross-entropy of an image's caption among it and its false ones.

    The mean is over the images that have a false caption. The paper takes the two parts from two sets, captions with
    negations and questions; here each row gives both.

    Raises:
        ModelError: the batch has no false captions.

    Source: NegBench (Alhamoud et al. 2025), its objective with multiple-choice questions; three false
    captions an image.

    >>> import torch
    >>> false = torch.eye(2)[:, None]  # which nothing tells from the true ones
    >>> batch = Batch(torch.eye(2), torch.eye(2), torch.tensor(9.0), torch.arange(2), negative_texts=false)
    >>> round(negbench(batch, NegBench(contrast=0.0, choice=1.0))["choice"].item(), 4)  # the logarithm of 2
    0.6931
    """
    logits, there = own_choices(batch, "negbench")
    asked = there[:, 1:].any(1)
    nats = logits.masked_fill(~there, float("-inf")).logsumexp(1) - logits[:, 0]
    choice = share(nats.masked_fill(~asked, 0.0).sum(), asked.sum())
    contrast = itc(batch)["total"]
    return sum_parts(itc=options.contrast * contrast, choice=options.choice * choice)


#: CLIP from OpenAI's weights on CC12M-NegCap and CC12M-NegMCQ. Only the rate and the two weights are published.
_NEGBENCH = Preset(
    {
        "loss": {"name": "negbench", "contrast": 0.99, "choice": 0.01},
        "optimiser": {"learning_rate": 1e-8},
        "data": {"negative_captions": 3},
    },
    source="NegBench; name `batch.size` and `optimiser.epochs` yourself, which are not published",
    ours={"optimiser.weight_decay": "not published; the default of a configuration"},
)

NEGBENCH = DualLoss(negbench, NegBench, negative_captions=3, presets={"negbench": _NEGBENCH})
