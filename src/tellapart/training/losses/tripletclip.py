"""Hard negatives on both sides (TripletCLIP): NegCLIP of the pairs, and NegCLIP of their hard counterparts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tellapart.errors import ModelError
from tellapart.training.losses.batch import Batch, LossParts, sum_parts
from tellapart.training.losses.itc import itc
from tellapart.training.losses.loss import DualLoss
from tellapart.training.losses.preset import Preset
from tellapart.training.losses.trohn_img import side_by_side


def tripletclip(batch: Batch) -> LossParts:
    """Return NegCLIP of the pairs with their mates' texts as false captions, and the same with the sides changed.

    Images, the pairs' and the mates', find their text among all texts of both; texts see the images of their side
    alone. The paper makes the mates' pictures from false captions; here they are the rows' hard counterparts, which may
    be in the batch themselves, so no caption of an image is ever its false one.

    Raises:
        ModelError: the batch has no mates, or a mate shows its pair's image.

    Source: TripletCLIP (Patel et al. 2024), `tripletclip_loss` of its code, which sums the two sides.

    >>> import torch
    >>> mates = Batch(torch.zeros(2, 2), torch.zeros(2, 2), torch.tensor(0.0), torch.tensor([8, 9]))
    >>> batch = Batch(torch.eye(2), torch.eye(2), torch.tensor(0.0), torch.tensor([0, 1]), mates=mates)
    >>> {name: round(part.item(), 4) for name, part in tripletclip(batch).items()}  # ln 4 and ln 2
    {'image_to_text': 1.3863, 'text_to_image': 0.6931, 'total': 2.0794}
    """
    if batch.mates is None:
        raise ModelError("tripletclip needs Batch(mates=...), the hard counterpart of each pair")
    facts = batch.true_pairs()
    mates = replace(batch.mates, scale=batch.scale, chunk=batch.chunk, facts=facts)
    # Half a mean over pairs and mates together, twice: as much as half a mean over either.
    images = 2 * itc(side_by_side(batch))["image_to_text"]
    texts = itc(replace(batch, mates=None, facts=facts))["text_to_image"] + itc(mates)["text_to_image"]
    return sum_parts(image_to_text=images, text_to_image=texts)


#: The released open_clip script and its defaults: ViT-B/32 from random weights, each caption with a false one and its
#: picture. Its rate falls to zero on a cosine; AdamW decays everything, biases, norms and the scale too, and the scale
#: is not clamped. Not known: how it fine-tunes OpenAI's weights.
_SCRIPT: dict[str, Any] = {
    "learning_rate": 5e-4,
    "betas": (0.9, 0.999),
    "epsilon": 1e-8,
    "weight_decay": 0.5,
    "decayed": "all",
    "warm_up": 1000,
    "epochs": 10,
    "max_scale": None,
}
_OURS = {
    "mates": "the code's are pictures made from false captions; here the rows' hard counterparts, which may be pairs "
    "of the batch themselves, so a caption of an image is not its false one",
}
_TRIPLETCLIP = Preset(
    {"seed": 42, "loss": {"name": "tripletclip"}, "optimiser": _SCRIPT, "batch": {"size": 1024}},
    source="the released script, from random weights; fine-tuning is not known",
    ours=_OURS,
)
_PAPER = Preset(
    {
        "seed": 42,
        "loss": {"name": "tripletclip"},
        "optimiser": {**_SCRIPT, "learning_rate": 5e-5, "epochs": 30},
        "batch": {"size": 1024},
    },
    source="the same script with the rate and epochs that its README names as the paper's",
    ours=_OURS,
)

TRIPLETCLIP = DualLoss(
    tripletclip,
    negative_images="mate",
    presets={"tripletclip": _TRIPLETCLIP, "tripletclip-paper": _PAPER},
)
