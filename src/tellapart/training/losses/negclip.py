"""Contrast with false captions (NegCLIP): an image's candidates are all texts and false captions of all ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tellapart.errors import ModelError
from tellapart.training.losses.batch import Batch, LossParts
from tellapart.training.losses.itc import contrast, contrasts
from tellapart.training.losses.loss import DualLoss
from tellapart.training.losses.matrix_rows import MatrixRows, by_rows, gather_pairs
from tellapart.training.losses.preset import Preset
from tellapart.training.losses.ranks import gather

if TYPE_CHECKING:
    from torch import Tensor


def negclip(batch: Batch) -> LossParts:
    """Return `itc` whose images must find their text among all false captions, too; texts see images alone.

    True and false captions are gathered apart, so a text's column is its pair's number on any number of ranks (the
    original gathers both at once, and its labels do not fit two ranks). Its hard images with their captions are
    further pairs of the batch. A false caption that is true of another image is none of that image's candidates.
    TROHN-Text is this loss with one false caption an image.

    Raises:
        ModelError: the batch has no false captions.

    Source: NegCLIP (Yuksekgonul et al. 2023), section 4; TROHN-Text (BiVLC, Miranda et al. 2024), section 5.

    >>> import torch
    >>> false = torch.zeros(2, 1, 2)
    >>> batch = Batch(torch.eye(2), torch.eye(2), torch.tensor(0.0), torch.arange(2), negative_texts=false)
    >>> {name: round(part.item(), 4) for name, part in negclip(batch).items()}  # ln 4 / 2 and ln 2 / 2
    {'image_to_text': 0.6931, 'text_to_image': 0.3466, 'total': 1.0397}
    """
    import torch

    pairs = gather_pairs(batch)
    negatives = batch.negative_texts
    if negatives is None:
        raise ModelError("negclip needs false captions: give Batch(negative_texts=...) (pairs, captions, dimensions)")
    present = batch.has_negative
    if present is None:
        present = torch.ones(negatives.shape[:2], dtype=torch.bool, device=negatives.device)
    columns = gather(negatives.flatten(0, 1).to(pairs.images.dtype))  # (all false captions, d)
    missing = ~gather(present.flatten())
    ids = None if batch.negative_text_ids is None else gather(batch.negative_text_ids.flatten())

    def with_negatives(rows: MatrixRows) -> Tensor:
        plain = contrasts(rows)
        logits = pairs.scale * (pairs.images[rows.first : rows.last] @ columns.T)
        false = logits.masked_fill(missing[None, :] | rows.is_true(ids), float("-inf"))
        # One logarithm over both kinds of candidates; the true text keeps it finite without a false one.
        over_texts = torch.cat([plain[:, :1], false], dim=1).logsumexp(1)
        return torch.cat([over_texts[:, None], plain[:, 1:]], dim=1)

    return contrast(by_rows(pairs, with_negatives))


#: ViT-B/32 from OpenAI's weights, 256 pairs and their 256 hard ones (a matrix of 512 x 1,024), 50 steps of warm-up. The
#: paper searches the rate in {1e-5, 5e-6, 1e-6}; the published run's name has 1e-6. The weight decay is open_clip's
#: default, 0.2; BiVLC, which calls its settings NegCLIP's, has 0.1.
_NEGCLIP = Preset(
    {
        "loss": {"name": "negclip"},
        "optimiser": {
            "learning_rate": 1e-6,
            "betas": (0.9, 0.98),
            "epsilon": 1e-6,
            "weight_decay": 0.2,
            "warm_up": 50,
            "epochs": 5,
            "max_scale": 100.0,
        },
        "batch": {"size": 256},
    },
    source="NegCLIP's appendix and published run (the authors' fork of open_clip); the paper searches the rate",
    ours={"several ranks": "the authors' code misplaces labels on several ranks; here they are one process's"},
)

#: The values of BiVLC's two models (Miranda et al. 2024, appendix, "Fine-tuning hyperparameters").
BIVLC: Mapping[str, Any] = {
    "seed": 42,
    "optimiser": {
        "learning_rate": 1e-6,
        "betas": (0.9, 0.98),
        "epsilon": 1e-6,
        "weight_decay": 0.1,
        "warm_up": 50,
        "epochs": 10,
        "max_scale": None,
    },
    "batch": {"size": 200},
}
BIVLC_OURS: Mapping[str, str] = {
    "batch.size": "the paper's 200, to which the negatives are added; the code's default is 400",
    "validation": "the code chooses by in-batch accuracy, which depends on the batch; here by a validation set",
}

#: 200 images by 400 captions, of which 200 are false; no hard images.
_TROHN_TEXT = Preset(
    {**BIVLC, "loss": {"name": "negclip"}, "data": {"negative_captions": 1, "negative_images": "none"}},
    source="BiVLC, appendix",
    ours=BIVLC_OURS,
)

NEGCLIP = DualLoss(
    negclip,
    negative_captions=1,
    negative_images="pairs",
    presets={"negclip": _NEGCLIP, "trohn-text": _TROHN_TEXT},
)
