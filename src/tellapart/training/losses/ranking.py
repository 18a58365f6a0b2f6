"""Image-to-text ranking (METER): a fusion encoder finds an image's text among sampled ones."""

from __future__ import annotations

from tellapart.training.losses.batch import LossParts, sum_parts, wide
from tellapart.training.losses.loss import FusionLoss
from tellapart.training.losses.matches import Matches
from tellapart.training.losses.ranks import mean_over_ranks


def ranking(matches: Matches) -> LossParts:
    """Return the cross-entropy of the true text among it and the wrong ones, in nats: part `rank`.

    The original draws false texts from the full index, which may be the image's other captions; here those are
    left out.

    Source: METER (Dou et al. 2022), retrieval fine-tuning with 15 false texts; EqSim (Wang et al. 2023), appendix C.

    >>> import torch
    >>> ids = torch.tensor([[1, 2, 3]])
    >>> zeros = torch.zeros(1, 3)
    >>> round(ranking(Matches(torch.zeros(1), zeros, zeros, None, torch.tensor([0]), ids, ids))["total"].item(), 4)
    1.3863
    """
    import torch

    wrong = matches.wrong_texts.masked_fill(~matches.has_wrong_text, float("-inf"))
    logits = wide(torch.cat([matches.true[:, None], wrong], dim=1))
    return sum_parts(rank=mean_over_ranks((logits.logsumexp(1) - logits[:, 0]).mean()))


RANKING = FusionLoss(ranking, negatives=15, wrong_images=False)
