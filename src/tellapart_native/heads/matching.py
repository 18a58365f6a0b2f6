"""Heads that match a text with an image, or judge it of two (NLVR2), as several families have them.

For two images no published output was there to compare with: those are built from descriptions of the authors' graphs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tellapart.models.fusion.family import Tensors
from tellapart.models.torch.network import Network
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


class AlternatingImages(NativeHalves):
    """The text's upper layers read the left image and the right one in turn; `cls_head` reads the first token.

    ALBEF's and X-VLM's: six layers of text, then twelve in pairs. Class 1 is "true".
    """

    def join(self, images: Tensors, texts: Tensors) -> Tensor:
        """Run the upper layers on the left and the right image's tokens: `(batch, 2)`."""
        text, (states, mask) = self.module.text_encoder, texts
        for k, layer in enumerate(text.encoder.layer[text.fusion :]):
            states = layer(states, mask, images[k % 2])
        return self.module.cls_head(states[:, 0])


class PooledImages(NativeHalves):
    """The text is joined with each image apart; `nlvr2_classifier` reads the pooled states of the left, then the right.

    METER's and FIBER's. Class 1 is "true".
    """

    def join(self, images: Tensors, texts: Tensors) -> Tensor:
        """Pool the text with either image, and classify both: `(batch, 2)`."""
        pooled = [self.pool_states((image,), texts) for image in images]
        return self.module.nlvr2_classifier(torch.cat(pooled, dim=-1))


def share_sources(text: Network) -> None:
    """Have the two layers of a pair, of the left and the right image, share keys and values of the image."""
    upper = text.encoder.layer[text.fusion :]
    for first, other in zip(upper[::2], upper[1::2], strict=True):
        for name in ("key", "value"):
            setattr(other.crossattention.self, name, getattr(first.crossattention.self, name))
