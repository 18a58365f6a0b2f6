"""X-VLM (Zeng et al. 2022): a Swin transformer, the lower half of BERT, and its upper half over both."""

from __future__ import annotations

from typing import Any

from tellapart.models.fusion.family import Tensors
from tellapart.models.native.albef import build_text, rename_text
from tellapart.models.native.captions import clean_like_albef
from tellapart.models.native.family import Layout, NativeFamily, NativeHalves, Reading
from tellapart.models.native.images import CLIP_COLOURS, square
from tellapart.models.native.module import NativeConfig, unit
from tellapart.models.native.positions import resize_window_biases
from tellapart.models.native.swin import build_swin
from tellapart.models.torch_backend import import_torch

torch = import_torch()
nn = torch.nn

__all__ = ["XVLM", "Xvlm", "XvlmCosine"]

#: Tokens of a caption in the authors' retrieval code.
_CONTEXT = 40


class Xvlm(NativeHalves):
    """The mean of the image tokens and the tokens, and the lower layers' states of a text; upper layers join them."""

    architecture = "Xvlm"

    def images(self, pixel_values: Any) -> Tensors:
        """Run the vision tower on float `(batch, 3, h, w)`: `(batch, 1 + tokens, width)`."""
        tokens = self.module.vision_encoder(pixel_values)
        return (torch.cat([tokens.mean(1, keepdim=True), tokens], dim=1),)

    def texts(self, ids: Any, mask: Any) -> Tensors:
        """Run the lower layers: `(batch, tokens, width)`, and the mask."""
        return self.module.text_encoder.read(ids, mask), mask

    def join(self, images: Tensors, texts: Tensors) -> Any:
        """Run the upper layers and the head: `(batch, 2)`; class 1 is the match."""
        return self.module.itm_head(self._fuse(images, texts))

    def boxes(self, images: Tensors, texts: Tensors) -> Any:
        """Where the text's object is, of pre-trained files: `(batch, 4)`, middle x and y, width, height, in shares."""
        return self.module.bbox_head(self._fuse(images, texts)).sigmoid()

    def _fuse(self, images: Tensors, texts: Tensors) -> Any:
        (image,), (states, mask) = images, texts
        return self.module.text_encoder.join(states, mask, image)[:, 0]


class XvlmCosine(Xvlm):
    """One vector of an image and of a text: projections of the mean token and of the first, of length 1."""

    architecture = "XvlmCosine"

    def images(self, pixel_values: Any) -> Tensors:
        """Return float `(batch, dimensions)`."""
        return (unit(self.module.vision_proj(super().images(pixel_values)[0][:, 0])),)

    def texts(self, ids: Any, mask: Any) -> Tensors:
        """Return float `(batch, dimensions)`."""
        return (unit(self.module.text_proj(self.module.text_encoder.read(ids, mask)[:, 0])),)


def _head(layout: Layout, name: str) -> Any:
    """Build two dense layers with a norm between them."""
    (inner, width), (classes, _) = layout.shape(f"{name}.0.weight"), layout.shape(f"{name}.3.weight")
    return nn.Sequential(nn.Linear(width, inner), nn.LayerNorm(inner), nn.GELU(), nn.Linear(inner, classes))


def _build(layout: Layout) -> Any:
    module = nn.Module()
    module.vision_encoder = build_swin(layout, "vision_encoder")
    module.text_encoder = build_text(layout)
    for name in ("vision_proj", "text_proj"):
        setattr(module, name, nn.Linear(*reversed(layout.shape(f"{name}.weight"))))
    for name in ("itm_head", "bbox_head"):
        if layout.has(f"{name}."):
            setattr(module, name, _head(layout, name))
    module.config = NativeConfig(
        "xvlm",
        vocab_size=module.text_encoder.embeddings.word_embeddings.num_embeddings,
        context=_CONTEXT,
        image_size=module.vision_encoder.image_size,
        layout=layout,
    )
    return module


XVLM = NativeFamily(
    name="xvlm",
    title="X-VLM",
    build=_build,
    readings={
        "itm": Reading(Xvlm, "itm", "itm_head.0.weight"),
        "itm_logit": Reading(Xvlm, "itm_logit", "itm_head.0.weight"),
        "itc": Reading(XvlmCosine, "cosine", "vision_proj.weight"),
    },
    images=lambda module: square(module.config.image_size, CLIP_COLOURS),
    vocabulary="bert-base-uncased",
    rename=rename_text,
    ignored=("*.relative_position_index", "*.attn_mask", "*.position_ids", "text_encoder.cls.*", "temp"),
    resize=lambda tensors, size: resize_window_biases(tensors, max(size // 32, 1)),
    clean=clean_like_albef,
)
