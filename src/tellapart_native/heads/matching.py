"""Heads that match an image and a text, as several families have them, and halves with another family's head."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tellapart.models.fusion.family import Tensors
from tellapart_native.family import NativeHalves
from tellapart_native.module import unit_vectors


class FusedText(NativeHalves):
    """The lower layers' states of a text; the upper layers and `itm_head`, whose class 1 is the match, join them.

    ALBEF's and X-VLM's.
    """

    head = "itm_head"

    def texts(self, ids: Tensor, mask: Tensor) -> Tensors:
        """Run the lower layers: `(batch, tokens, width)`, and the mask."""
        return self.module.text_encoder.read_text(ids, mask), mask

    def pool_states(self, images: Tensors, texts: Tensors) -> Tensor:
        """Run the upper layers: the first token's state, `(batch, width)`."""
        (image,), (states, mask) = images, texts
        return self.module.text_encoder.join(states, mask, image)[:, 0]


class ProjectedTokens(FusedText):
    """One vector of an image and of a text: projections of the first tokens, of length 1."""

    def images(self, *args: Any, **inputs: Any) -> Tensors:
        """Return float `(batch, dimensions)`."""
        return (unit_vectors(self.module.vision_proj(super().images(*args, **inputs)[0][:, 0])),)  # type: ignore[safe-super]

    def texts(self, ids: Tensor, mask: Tensor) -> Tensors:
        """Return float `(batch, dimensions)`."""
        return (unit_vectors(self.module.text_proj(super().texts(ids, mask)[0][:, 0])),)


class MatchLogit(NativeHalves):
    """The score of the authors' retrieval evaluation: the logit of class 1 alone, without the other's."""

    match = None

    def join(self, images: Tensors, texts: Tensors) -> Tensor:
        """Return the match's logit: `(batch, 1)`."""
        return super().join(images, texts)[:, 1:]


class RankOutput(NativeHalves):
    """The head of models fine-tuned for retrieval, which has one logit."""

    head, match = "rank_output", None


def combine_halves(name: str, head: type, family: type) -> type[Any]:
    """Make a family's halves with another head; the name is in fingerprints, and never changes."""
    return type(name, (head, family), {"__doc__": head.__doc__})
