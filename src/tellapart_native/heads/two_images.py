"""Heads that judge a sentence about two images (NLVR2), as each family's authors built them.

No published output was there to compare with: they are built from descriptions of the authors' graphs.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tellapart.models.fusion.family import Tensors
from tellapart.models.torch.network import Network
from tellapart_native.family import NativeHalves


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
