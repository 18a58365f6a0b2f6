"""The region that a matching head looks at: Grad-CAM of one layer's attention to the image (weakly supervised
grounding).

ALBEF's authors find RefCOCO+'s phrases with it. No published map was there to compare with: it is built from a
description of their method.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tellapart.errors import ModelError
from tellapart.models.fusion.family import Tensors
from tellapart.models.torch.network import Network
from tellapart_native.family import NativeHalves

#: The layer whose attention is read, counted from 0, in models of twelve layers.
_LAYER, _DEPTH = 8, 12


class GradCam(NativeHalves):
    """A map of the image: attention times its effect on the match, over all heads and tokens of the text.

    The image's first token stands for all of it, and is left out. Its patches form a square.
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
        # Outside of inference mode, for a gradient is taken; its tensors must be copied for that.
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
        layer = text.encoder.layer[self.layer]
        states = layer.attention(states, states, mask)
        cross = layer.crossattention.self
        queries, keys, values = (
            part.unflatten(-1, (cross.heads, -1)).transpose(1, 2)
            for part in (cross.query(states), cross.key(image), cross.value(image))
        )
        shares = (queries @ keys.transpose(-1, -2) * keys.shape[-1] ** -0.5).softmax(-1).detach().requires_grad_()
        read = (shares @ values).transpose(1, 2).flatten(2)
        states = layer.feed_forward(layer.crossattention.output(read, states))
        for layer in text.encoder.layer[self.layer + 1 :]:
            states = layer(states, mask, image)
        match = self.module.itm_head(states[:, 0])[:, 1].sum()
        (gradient,) = torch.autograd.grad(match, shares)
        useful = (shares * gradient.clamp(min=0)).detach()[..., 1:] * mask[:, None, :, None]
        return useful.mean(1).sum(1) / mask.sum(1, keepdim=True)
