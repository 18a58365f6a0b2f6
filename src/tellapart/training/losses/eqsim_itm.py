"""EqSim for fusion encoders: a retrieval loss, and equations that hold for the probabilities of a match."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tellapart.errors import ModelError
from tellapart.training.losses.batch import LossParts, sum_parts, wide
from tellapart.training.losses.draws import best
from tellapart.training.losses.eqsim_presets import EQSIM_METER_F30K
from tellapart.training.losses.equations import EqSim, Four, hinge, v1, v2_image, v2_text, where
from tellapart.training.losses.itm import itm
from tellapart.training.losses.loss import FusionLoss
from tellapart.training.losses.matches import Matches
from tellapart.training.losses.ranking import ranking
from tellapart.training.losses.ranks import share

if TYPE_CHECKING:
    from torch import Tensor

_DEFAULT = EqSim()


def eqsim_itm(matches: Matches, options: EqSim = _DEFAULT) -> LossParts:
    """Return `itm` and EqSim's regularisation: parts `itm`, `v1` and `v2`, the last two times beta.

    Similarities are sigmoids of logits. v2 holds for close negatives, v1 for the others. As released (the code's
    `hard_itm`), v2 holds for all negatives, with a hinge on each side's mean deviation, and v1 is left out.

    Raises:
        ModelError: the negatives' counterparts are missing.

    Source: EqSim (Wang et al. 2023), section 3, Eq. 6, and appendix C.

    >>> import torch
    >>> ids = torch.tensor([[1], [0]])
    >>> true, wrong = torch.tensor([3.0, 3.0]), torch.tensor([[-1.0], [-1.0]])
    >>> matches = Matches(true, wrong, wrong, true[:, None], torch.arange(2), ids, ids)
    >>> eqsim_itm(matches)["v2"].item()  # both changes cost both pairs the same
    0.0
    """
    return sum_parts(itm=itm(matches)["total"], **_regularise_matches(matches, options))


EQSIM_ITM = FusionLoss(eqsim_itm, EqSim, counterparts=True)


def eqsim_ranking(matches: Matches, options: EqSim = _DEFAULT) -> LossParts:
    """Return `ranking` and EqSim's regularisation, as METER is fine-tuned: parts `rank`, `v1` and `v2`.

    Raises:
        ModelError: the negatives' counterparts are missing.

    Source: EqSim (Wang et al. 2023), appendix C: 15 sampled captions and their images, 8 of them close.

    >>> import torch
    >>> true, wrong, ids = torch.zeros(2), torch.zeros(2, 1), torch.tensor([[1], [0]])
    >>> parts = eqsim_ranking(Matches(true, wrong, wrong, wrong, torch.arange(2), ids, ids))
    >>> {name: round(part.item(), 4) for name, part in parts.items()}
    {'rank': 0.6931, 'v1': 0.0, 'v2': 0.0, 'total': 0.6931}
    """
    return sum_parts(rank=ranking(matches)["total"], **_regularise_matches(matches, options))


EQSIM_RANKING = FusionLoss(
    eqsim_ranking, EqSim, negatives=15, counterparts=True, presets={"eqsim-meter-f30k": EQSIM_METER_F30K}
)


def _regularise_matches(matches: Matches, options: EqSim) -> dict[str, Tensor]:
    import torch

    if matches.counterparts is None:
        raise ModelError("EqSim needs Matches(counterparts=...), the logits of the negatives' true pairs")
    # EqSim compares a pair with one other pair: its wrong text and wrong image must come from the same one.
    paired = matches.negative_text_ids == matches.negative_image_ids
    counted = matches.has_wrong_text & matches.has_wrong_image & paired
    four = Four(
        *(
            wide(logits).sigmoid()
            for logits in (matches.true[:, None], matches.wrong_texts, matches.wrong_images, matches.counterparts)
        )
    )
    if options.as_released:
        means = [
            share(side(four).square().masked_fill(~counted, 0.0).sum(), counted.sum()) for side in (v2_text, v2_image)
        ]
        v2 = (means[0] - options.alpha).relu() + (means[1] - options.alpha).relu()
        return {"v1": torch.zeros_like(v2), "v2": options.beta * v2}
    close = _close_negatives(matches, counted, options.k)
    where_v1, where_v2 = where(options.variant, counted, close)
    first = hinge(v1(four), options.alpha).masked_fill(~where_v1, 0.0)
    second = (hinge(v2_text(four), options.alpha) + hinge(v2_image(four), options.alpha)).masked_fill(~where_v2, 0.0)
    return {
        "v1": options.beta * share(first.sum(), where_v1.sum()),
        "v2": options.beta * share(second.sum(), where_v2.sum()),
    }


def _close_negatives(matches: Matches, counted: Tensor, k: int) -> Tensor:
    """Return which negatives are close, bool `(b, m)`: as mined, or each pair's `k` with the highest crossed logits."""
    import torch

    if matches.close is not None:
        return matches.close
    either = torch.maximum(matches.wrong_texts, matches.wrong_images).detach().masked_fill(~counted, float("-inf"))
    m = either.shape[1]
    chosen = best(either, min(k, m))
    close = torch.zeros(len(either), m + 1, dtype=torch.bool, device=either.device)
    return close.scatter_(1, torch.where(chosen < 0, m, chosen), True)[:, :m]
