"""Image-text matching (ITM): a fusion encoder separates true pairs from crossed ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tellapart.training.losses.batch import LossParts, sum_parts, wide
from tellapart.training.losses.loss import FusionLoss
from tellapart.training.losses.matches import Matches
from tellapart.training.losses.ranks import mean_over_ranks, share

if TYPE_CHECKING:
    from torch import Tensor


def itm(matches: Matches) -> LossParts:
    """Return the binary cross-entropy, in nats: a third each of parts `true`, `wrong_text` and `wrong_image`.

    With one wrong text and one wrong image a pair this is the mean over `3b` labelled pairs, as in ALBEF and FIBER;
    their two-way head is the same function of the difference of its logits. Negatives of the pair's image are
    left out.

    Source: ALBEF (Li et al. 2021), Eq. 7; ITM of EqSim (Wang et al. 2023), section 5.1.

    >>> import torch
    >>> ids = torch.tensor([[1], [0]])
    >>> matches = Matches(torch.zeros(2), torch.zeros(2, 1), torch.zeros(2, 1), None, torch.arange(2), ids, ids)
    >>> round(itm(matches)["total"].item(), 4)
    0.6931
    """
    from torch.nn.functional import softplus

    def wrong(logits: Tensor, counted: Tensor) -> Tensor:
        return share(softplus(wide(logits)).masked_fill(~counted, 0.0).sum(), counted.sum()) / 3

    return sum_parts(
        true=mean_over_ranks(softplus(-wide(matches.true)).mean()) / 3,
        wrong_text=wrong(matches.wrong_texts, matches.has_wrong_text),
        wrong_image=wrong(matches.wrong_images, matches.has_wrong_image),
    )


ITM = FusionLoss(itm)
