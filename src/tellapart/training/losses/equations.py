"""EqSim's two equations on the four similarities of two pairs, their hinge, and the pairs that each holds for.

`s11` and `s22` are the similarities of two matched pairs; `s12` is that of image 1 with text 2, and `s21` that of
image 2 with text 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from tellapart.errors import ModelError
from tellapart.training.losses.options import LossOptions, number, one_of

if TYPE_CHECKING:
    from torch import Tensor

#: Variant -> which pairs v1 and v2 hold for: all, close, distant, none.
VARIANTS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "eqsim": ("distant", "close"),
        "v1-all+v2-close": ("all", "close"),
        "v1-all": ("all", "none"),
        "v2-all": ("none", "all"),
        "v2-close": ("none", "close"),
    }
)

#: The similarities of a dual encoder that the equations hold for.
NORMALISATIONS = ("batch", "block", "none")


@dataclass(frozen=True, slots=True)
class EqSim(LossOptions):
    """Options of the EqSim losses.

    Attributes:
        alpha: margin of the squared deviation; the paper takes 0, 0.04 or 0.1.
        beta: weight of the regularisation; the paper takes 0.2, 0.5 or 1.
        k: close partners of a pair.
        variant: a key of `VARIANTS`; section 3 has v1 on distant pairs, section 5.4 on all (`v1-all+v2-close`).
        normalise: of a dual encoder's cosines. `batch`: a softmax over texts if texts change, over images if images
            change; `block`: a softmax over the four similarities of two pairs, under which both equations are those on
            cosines; `none`: cosines. A fusion encoder's logits always go through a sigmoid. Through a softmax over a
            batch distant pairs have next to no similarity, and v1 of them means nothing (docs/eqsim_ablation.md: below
            1e-6); on cosines, with an alpha of 0, both equations act.
        as_released: the released code instead of the paper: 2 x `k // 2` drawn negatives for the top `k`, a hinge on
            the mean deviation, a softmax over texts alone, no margin for v1. `variant` and `normalise` keep their
            defaults.

    Raises:
        ModelError: a number is out of its range, or as_released is combined with an option that its code lacks.
        UnknownNameError: variant or normalise is unknown.

    >>> EqSim(alpha=0.0, normalise="none").variant
    'eqsim'
    """

    alpha: float = number(0.1)
    beta: float = number(0.5)
    k: int = number(8, least=1)
    variant: str = one_of("eqsim", tuple(VARIANTS))
    normalise: str = one_of("batch", NORMALISATIONS)
    as_released: bool = False

    def __post_init__(self) -> None:
        LossOptions.__post_init__(self)
        if self.as_released and (self.variant, self.normalise) != ("eqsim", "batch"):
            raise ModelError(
                f"EqSim(as_released=True, variant={self.variant!r}, normalise={self.normalise!r}): the released form "
                "has one variant and one normalisation; leave both at their defaults"
            )
        if self.as_released and self.k % 2:
            raise ModelError(
                f"EqSim(as_released=True, k={self.k}): k is drawn half as images, half as texts; make it even"
            )


@dataclass(frozen=True, slots=True, eq=False)
class Four:
    """The similarities of two pairs, or of many, of shapes that broadcast.

    >>> Four(1.0, 0.2, 0.3, 0.9).s21
    0.3
    """

    s11: Tensor
    s12: Tensor
    s21: Tensor
    s22: Tensor


def v1(four: Four) -> Tensor:
    """Return `s12 - s21`: 0 if the changed similarity is the same from either side.

    Source: EqSim (Wang et al. 2023), Eq. 6.

    >>> v1(Four(1.0, 0.75, 0.25, 0.5))
    0.5
    """
    return four.s12 - four.s21


def v2_text(four: Four) -> Tensor:
    """Return `(s11 - s12) - (s22 - s21)`: 0 if a change of text costs either image the same.

    Source: EqSim (Wang et al. 2023), Eq. 6.

    >>> v2_text(Four(1.0, 0.75, 0.25, 0.5))
    0.0
    """
    return (four.s11 - four.s12) - (four.s22 - four.s21)


def v2_image(four: Four) -> Tensor:
    """Return `(s11 - s21) - (s22 - s12)`: 0 if a change of image costs either text the same.

    Source: EqSim (Wang et al. 2023), Eq. 6.

    >>> v2_image(Four(1.0, 0.75, 0.25, 0.5))
    1.0
    """
    return (four.s11 - four.s21) - (four.s22 - four.s12)


def where(variant: str, counted: Tensor, close: Tensor) -> tuple[Tensor, Tensor]:
    """Return the pairs that v1 and v2 hold for, bool masks.

    Args:
        variant: a key of `VARIANTS`.
        counted: bool, the pairs that there are.
        close: bool, of the same shape.

    >>> import torch
    >>> counted, close = torch.tensor([True, True, False]), torch.tensor([True, False, True])
    >>> [mask.tolist() for mask in where("eqsim", counted, close)]
    [[False, True, False], [True, False, False]]
    """
    masks = {"all": counted, "close": counted & close, "distant": counted & ~close, "none": counted & False}
    first, second = VARIANTS[variant]
    return masks[first], masks[second]


def hinge(deviation: Tensor, alpha: float) -> Tensor:
    """Return `[deviation^2 - alpha]_+`, pair by pair.

    Source: EqSim (Wang et al. 2023), section 3.

    >>> import torch
    >>> hinge(torch.tensor([0.5, -0.1]), 0.05).tolist()
    [0.20000000298023224, 0.0]
    """
    return (deviation.square() - alpha).relu()
