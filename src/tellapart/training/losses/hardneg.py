"""Contrast, and a second contrast among the hardest negatives alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tellapart.training.losses.batch import Batch, LossParts, sum_parts
from tellapart.training.losses.itc import contrast, contrasts
from tellapart.training.losses.loss import DualLoss
from tellapart.training.losses.matrix_rows import MatrixRows, by_rows, gather_pairs
from tellapart.training.losses.options import LossOptions, number
from tellapart.training.losses.ranks import mean_over_ranks

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class HardNeg(LossOptions):
    """Options of `hardneg`.

    Attributes:
        k: hardest negatives a row.
        weight: of the contrast among them.

    Raises:
        ModelError: k is below 1 or the weight below 0.

    >>> HardNeg(k=4)
    HardNeg(k=4, weight=1.0)
    """

    k: int = number(8, least=1)
    weight: float = number(1.0)


_DEFAULT = HardNeg()


def hardneg(batch: Batch, options: HardNeg = _DEFAULT) -> LossParts:
    """Return `itc` and, as part `hard`, the same contrast with the `k` most similar negatives as only candidates.

    The paper's baseline of that name (EqSim, Table 6) draws hard negatives for the matching head of a fusion encoder,
    for which see `itm`; this is its counterpart for dual encoders. Easy negatives get no gradient from this part.

    >>> import torch
    >>> batch = Batch(torch.eye(4), torch.eye(4), torch.tensor(0.0), torch.arange(4))
    >>> {name: round(part.item(), 4) for name, part in hardneg(batch, HardNeg(k=1)).items()}  # ln 4 and ln 2
    {'itc': 1.3863, 'hard': 0.6931, 'total': 2.0794}
    """
    import torch

    def both(rows: MatrixRows) -> Tensor:
        low = float("-inf")
        plain = contrasts(rows)  # columns 2 and 3: the true pair's logit, in the image's row and in the text's row
        among = [
            _among_hardest(plain[:, 2], rows.logits_of_images().masked_fill(~rows.negative_texts, low), options.k),
            _among_hardest(plain[:, 3], rows.logits_of_texts().masked_fill(~rows.negative_images, low), options.k),
        ]
        return torch.cat([plain, torch.stack(among, dim=1)], dim=1)

    columns = by_rows(gather_pairs(batch), both)  # the four of `contrasts`, then the two of the hardest negatives
    hard = mean_over_ranks(columns[:, 4:].mean())
    return sum_parts(itc=contrast(columns)["total"], hard=options.weight * hard)


HARDNEG = DualLoss(hardneg, HardNeg)


def _among_hardest(true_logits: Tensor, negatives: Tensor, k: int) -> Tensor:
    """Return each row's loss, in nats, for choosing the true pair among it and the `k` negatives of highest logit."""
    import torch

    hardest = negatives.topk(min(k, negatives.shape[1]), dim=1).values
    return torch.cat([true_logits[:, None], hardest], dim=1).logsumexp(1) - true_logits
