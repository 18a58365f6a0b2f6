"""Heads that match a text with an image, show the place in it, or judge whether it is true of two (NLVR2).

Heads of two images follow descriptions of the authors' models: no published output was there to compare with.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tellapart.errors import ModelError
from tellapart.models.fusion.family import Tensors
from tellapart.models.torch.network import Network
from tellapart_native.family import NativeHalves
from tellapart_native.module import unit_vectors

#: The layer whose attention is read, counted from 0, in models of twelve layers.
_LAYER, _DEPTH = 8, 12


class FusedText(NativeHalves):
    """The lower layers read a text alone, the upper ones read it with the image; class 1 of `itm_head` is the match.

    Of ALBEF and X-VLM.
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

    match = None  # as a head with a single output

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

    Of ALBEF and X-VLM: six layers of text, then twelve in pairs (`share_projections`). Class 1 is "true".
    """

    def join(self, images: Tensors, texts: Tensors) -> Tensor:
        """Run the upper layers on the left and the right image's tokens: `(batch, 2)`."""
        text, (states, mask) = self.module.text_encoder, texts
        for k, layer in enumerate(text.encoder.layer[text.fusion :]):
            states = layer(states, mask, images[k % 2])
        return self.module.cls_head(states[:, 0])


class PooledImages(NativeHalves):
    """The text is joined with each image apart; `nlvr2_classifier` reads the pooled states of the left, then the right.

    Of METER and FIBER. Class 1 is "true".
    """

    def join(self, images: Tensors, texts: Tensors) -> Tensor:
        """Pool the text with either image, and classify both: `(batch, 2)`."""
        pooled = [self.pool_states((image,), texts) for image in images]
        return self.module.nlvr2_classifier(torch.cat(pooled, dim=-1))


def share_projections(text: Network) -> None:
    """Let the layers of a pair, for the left and the right image, share the modules of the image's keys and values."""
    upper = text.encoder.layer[text.fusion :]
    for first, other in zip(upper[::2], upper[1::2], strict=True):
        for name in ("key", "value"):
            setattr(other.crossattention.self, name, getattr(first.crossattention.self, name))


class GradCam(NativeHalves):
    """A map of the image (Grad-CAM): attention times the match's positive gradient, the mean of heads and text tokens.

    ALBEF's authors find RefCOCO+'s phrases with it. No published map was there to compare with: it is built from a
    description of their method.

    The first token, of the whole image, is left out; the others, of its patches, form a square.
    """

    match = None

    def __init__(self, module: Network) -> None:
        super().__init__(module)
        text = module.text_encoder
        depth = len(text.encoder.layer)
        layer = module.config.to_dict().get("gradcam_layer", _LAYER if depth == _DEPTH else None)
        if not isinstance(layer, int) or not text.fusion <= layer < depth:
            raise ModelError(
                f"this model has {depth} layers, which read the image from {text.fusion} on, and gradcam_layer is "
                f"{layer}; put a config.json that names one of these as gradcam_layer beside the file"
            )
        self.layer: int = layer

    def join(self, images: Tensors, texts: Tensors) -> Tensor:
        """Return maps `(batch, side, side)`: rows from the top, columns from the left."""
        # A gradient is taken, which inference mode forbids; tensors that were made in that mode must be copied.
        with torch.inference_mode(False), torch.enable_grad():
            image, states, mask = (tensor.clone() for tensor in (*images, *texts))
            heat = self._explain_match(image, states, mask)
        side = round(heat.shape[1] ** 0.5)
        return heat.unflatten(1, (side, side))

    def _explain_match(self, image: Tensor, states: Tensor, mask: Tensor) -> Tensor:
        """Return `(batch, patches)`: the attention's positive contributions to the match."""
        text = self.module.text_encoder
        for layer in text.encoder.layer[text.fusion : self.layer]:
            states = layer(states, mask, image)
        layer = text.encoder.layer[self.layer]  # its forward pass, step by step: the gradient is that of its attention
        states = layer.attention(states, states, mask)
        cross = layer.crossattention.self
        queries, keys, values = (
            part.unflatten(-1, (cross.heads, -1)).transpose(1, 2)
            for part in (cross.query(states), cross.key(image), cross.value(image))
        )
        attention = (queries @ keys.transpose(-1, -2) * keys.shape[-1] ** -0.5).softmax(-1).detach().requires_grad_()
        read = (attention @ values).transpose(1, 2).flatten(2)
        states = layer.feed_forward(layer.crossattention.output(read, states))
        for layer in text.encoder.layer[self.layer + 1 :]:
            states = layer(states, mask, image)
        match = self.module.itm_head(states[:, 0])[:, 1].sum()
        (gradient,) = torch.autograd.grad(match, attention)
        heat = (attention * gradient.clamp(min=0)).detach()[..., 1:] * mask[:, None, :, None]  # without the first token
        return heat.mean(1).sum(1) / mask.sum(1, keepdim=True)
