"""The score of the authors' retrieval evaluations: the logit of a match alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tellapart.models.fusion.family import Tensors
from tellapart_native.family import NativeHalves

if TYPE_CHECKING:
    from torch import Tensor


class MatchLogit(NativeHalves):
    """The logit of class 1 of a matching head, without the other's: ALBEF's, X-VLM's and BLIP's."""

    match = None

    def join(self, images: Tensors, texts: Tensors) -> Tensor:
        """Return the match's logit: `(batch, 1)`."""
        return super().join(images, texts)[:, 1:]  # type: ignore[safe-super]  # the family's, which is next in line
