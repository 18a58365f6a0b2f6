"""Losses of matching heads: a fusion encoder tells true pairs from crossed ones."""

from __future__ import annotations

from tellapart.training.lazy_torch import Tensor, torch
from tellapart.training.losses.batch import LossParts, Matches, mean_over_ranks, share, sum_parts, wide
from tellapart.training.losses.loss import loss


@loss()
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

    def wrong(logits: Tensor, counted: Tensor) -> Tensor:
        return share(torch.nn.functional.softplus(wide(logits)).masked_fill(~counted, 0.0).sum(), counted.sum()) / 3

    return sum_parts(
        true=mean_over_ranks(torch.nn.functional.softplus(-wide(matches.true)).mean()) / 3,
        wrong_text=wrong(matches.wrong_texts, matches.has_wrong_text),
        wrong_image=wrong(matches.wrong_images, matches.has_wrong_image),
    )


@loss(negatives=15, wrong_images=False)
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
    wrong = matches.wrong_texts.masked_fill(~matches.has_wrong_text, float("-inf"))
    logits = wide(torch.cat([matches.true[:, None], wrong], dim=1))
    return sum_parts(rank=mean_over_ranks((logits.logsumexp(1) - logits[:, 0]).mean()))
