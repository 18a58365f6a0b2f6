"""Contrast, and a calibrated one among an image's captions (the global half of FSC-CLIP)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tellapart.training.losses.batch import Batch, LossParts, sum_parts
from tellapart.training.losses.itc import itc
from tellapart.training.losses.loss import DualLoss
from tellapart.training.losses.options import LossOptions, number
from tellapart.training.losses.own_choices import own_choices
from tellapart.training.losses.preset import Preset
from tellapart.training.losses.ranks import share

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class FscGlobal(LossOptions):
    """Options of `fsc_global`.

    Attributes:
        weight: of the contrast among an image's captions.
        gamma: how much less a caption counts that the model is sure of; 0 for plain cross-entropy.
        smoothing: share of the label that is spread evenly over the image's captions, false ones as well.

    Raises:
        ModelError: a number lies outside of its bounds.

    >>> FscGlobal(gamma=0.0)
    FscGlobal(weight=0.5, gamma=0.0, smoothing=0.02)
    """

    weight: float = number(0.5)
    # Between 0 and 1 the derivative has no bound if the model is sure.
    gamma: float = number(2.0, least=1.0, also=(0,))
    smoothing: float = number(0.02, below=1.0)


_DEFAULT = FscGlobal()


def fsc_global(batch: Batch, options: FscGlobal = _DEFAULT) -> LossParts:
    """Return `itc` and, as part `choice`, a focal cross-entropy of an image's captions with smoothed labels.

    Images without a false caption are left out. `fsc_clip` adds the same by patches and words; missing captions are not
    candidates here, and have a logit of 0 in the original.

    Raises:
        ModelError: the batch has no false captions.

    Source: FSC-CLIP (Oh et al. 2024), `Global_HNLoss` of its code with focal loss and label smoothing.

    >>> import torch
    >>> false = torch.eye(2)[:, None]  # which nothing tells from the true ones: p is a half
    >>> batch = Batch(torch.eye(2), torch.eye(2), torch.tensor(9.0), torch.arange(2), negative_texts=false)
    >>> round(fsc_global(batch, FscGlobal(weight=1.0))["choice"].item(), 4)  # a quarter of the logarithm of 2
    0.1733
    """
    choice = focal_choice(*own_choices(batch, "fsc-global"), options.gamma, options.smoothing)
    return sum_parts(itc=itc(batch)["total"], choice=options.weight * choice)


def focal_choice(logits: Tensor, there: Tensor, gamma: float, smoothing: float) -> Tensor:
    """Return the mean focal cross-entropy of images' captions, the true one first, with smoothed labels.

    With `m` captions of an image, its true one has the label `1 - smoothing + smoothing / m` and each false one
    `smoothing / m`; a caption of probability `p` costs its label times `-(1 - p)^gamma ln p`.

    Args:
        logits: float `(b, captions)`.
        there: bool `(b, captions)`: which there are; images of one caption are left out.
        gamma: 0, or at least 1.
        smoothing: share of the label that is spread evenly.

    >>> import torch
    >>> there = torch.tensor([[True, True]])
    >>> round(focal_choice(torch.zeros(1, 2), there, gamma=0.0, smoothing=0.0).item(), 4)  # the logarithm of 2
    0.6931
    """
    import torch

    nats = logits.masked_fill(~there, float("-inf")).logsumexp(1, keepdim=True) - logits
    focal = nats * (-torch.expm1(-nats)) ** gamma
    label = (smoothing / there.sum(1, keepdim=True).to(nats.dtype)).repeat(1, nats.shape[1])
    label[:, 0] += 1 - smoothing
    asked = there[:, 1:].any(1)
    costs = (label * focal).masked_fill(~(there & asked[:, None]), 0.0)
    return share(costs.sum(), asked.sum())


#: The values of FSC-CLIP's released command on COCO but for its loss: ViT-B/32 from OpenAI's weights, NegCLIP's 100,000
#: captions, three false captions an image (by NegCLIP's rule, by replacement and by shuffled bigrams). With LoRA of
#: rank 4 its rate is 5e-5, on CC3M its weight 1.
FSC_COCO: Mapping[str, Any] = {
    "optimiser": {
        "learning_rate": 5e-6,
        "betas": (0.9, 0.98),
        "epsilon": 1e-6,
        "weight_decay": 0.1,
        "warm_up": 50,
        "epochs": 5,
        "max_scale": 100.0,
    },
    "batch": {"size": 256},
    "data": {"negative_captions": 3},
}
FSC_OURS: Mapping[str, str] = {
    "a missing false caption": "the code gives it a logit of 0 among the others; here it is not a candidate, because "
    "0 is above the logits of some true captions",
    "several ranks": "over W ranks the code scales the contrast's gradient by 1/W and not that of the other parts; "
    "here all ranks compute one process's gradient",
}

_FSC_GLOBAL = Preset(
    {**FSC_COCO, "loss": {"name": "fsc-global", "weight": 0.5, "gamma": 2.0, "smoothing": 0.02}},
    source="FSC-CLIP's command on COCO, without its local term",
    ours={**FSC_OURS, "loss": "without patches and words, for models that have none; its numbers are not FSC-CLIP's"},
)

FSC_GLOBAL = DualLoss(fsc_global, FscGlobal, negative_captions=3, presets={"fsc-global": _FSC_GLOBAL})
