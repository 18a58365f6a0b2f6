"""BLIP (Li et al. 2022) from its authors' file: a ViT, and a BERT whose every layer can read the image.

Its matching head was trained with the mark `[ENC]` in place of the text's first token. The authors'
retrieval evaluation keeps it, and adds the cosine of the contrastive heads to the head's logit; their demo and the
models on the hub have `[CLS]` there. So the readings with `[ENC]` come first here, and `itm` is the reading of `hf:`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tellapart.models.fusion.family import Tensors
from tellapart.models.torch.network import Network
from tellapart_native.family import Layout, NativeFamily, NativeHalves, Reading
from tellapart_native.heads.matching import MatchLogit, combine_halves
from tellapart_native.layers.bert import build_text
from tellapart_native.layers.vit import build_vit
from tellapart_native.module import NativeConfig, build_linear, nn, unit_vectors
from tellapart_native.preprocessing import CLIP_COLOURS, clean_like_blip, resize_grid, square_inputs

#: Tokens of a caption in the authors' retrieval code.
_CONTEXT = 35

#: Marks that the authors add behind BERT's words: `[DEC]`, then `[ENC]`.
_MARKS = 2


class BlipOriginal(NativeHalves):
    """All image tokens, and the embedded words of a text, `[CLS]` first; all layers of BERT join them."""

    head = "itm_head"

    def images(self, pixel_values: Tensor) -> Tensors:
        """Run the vision tower on float `(batch, 3, h, w)`: `(batch, 1 + patches, width)`."""
        return (self.module.visual_encoder.forward_features(pixel_values),)

    def texts(self, ids: Tensor, mask: Tensor) -> Tensors:
        """Embed int64 and bool `(batch, tokens)`: `(batch, tokens, width)`, and the mask."""
        return self.module.text_encoder.embeddings(ids), mask

    def pool_states(self, images: Tensors, texts: Tensors) -> Tensor:
        """Run all layers: the first token's state, `(batch, width)`. The head's class 1 is the match."""
        (image, *_), (states, mask, *_) = images, texts
        return self.module.text_encoder.join(states, mask, image)[:, 0]


class BlipEnc(BlipOriginal):
    """The same with `[ENC]`, the last word of the embeddings, in place of a text's first token."""

    def texts(self, ids: Tensor, mask: Tensor) -> Tensors:
        """Embed int64 and bool `(batch, tokens)`: `(batch, tokens, width)`, and the mask."""
        enc = self.module.text_encoder.embeddings.word_embeddings.num_embeddings - 1
        return super().texts(torch.cat([torch.full_like(ids[:, :1], enc), ids[:, 1:]], dim=1), mask)


class BlipCosine(BlipOriginal):
    """One vector of an image and of a text: projections of the first tokens, of length 1; layers read no image."""

    def images(self, pixel_values: Tensor) -> Tensors:
        """Return float `(batch, dimensions)`."""
        return (_image_vectors(self.module, super().images(pixel_values)[0]),)

    def texts(self, ids: Tensor, mask: Tensor) -> Tensors:
        """Return float `(batch, dimensions)`."""
        return (_text_vectors(self.module, ids, mask),)


class BlipRetrieval(BlipEnc):
    """The authors' score of a pair in their retrieval evaluation: the match's logit with `[ENC]`, plus the cosine."""

    match = None

    def images(self, pixel_values: Tensor) -> Tensors:
        """Return `(batch, 1 + patches, width)`, and the vectors `(batch, dimensions)`."""
        (image,) = super().images(pixel_values)
        return image, _image_vectors(self.module, image)

    def texts(self, ids: Tensor, mask: Tensor) -> Tensors:
        """Return `(batch, tokens, width)`, the mask, and the vectors `(batch, dimensions)`."""
        return *super().texts(ids, mask), _text_vectors(self.module, ids, mask)

    def join(self, images: Tensors, texts: Tensors) -> Tensor:
        """Add up logit and cosine: `(batch, 1)`."""
        cosines = (images[-1] * texts[-1]).sum(-1, keepdim=True)
        return super().join(images, texts)[:, 1:] + cosines


def _image_vectors(module: Network, image: Tensor) -> Tensor:
    return unit_vectors(module.vision_proj(image[:, 0]))


def _text_vectors(module: Network, ids: Tensor, mask: Tensor) -> Tensor:
    states = module.text_encoder.embeddings(ids)
    for layer in module.text_encoder.encoder.layer:
        states = layer(states, mask)
    return unit_vectors(module.text_proj(states[:, 0]))


def _build_blip(layout: Layout) -> Network:
    module = nn.Module()
    module.visual_encoder = build_vit(layout, "visual_encoder")
    module.text_encoder = build_text(layout, segments=0)
    module.vision_proj = build_linear(layout, "vision_proj", module.visual_encoder.embed_dim)
    for name in ("text_proj", "itm_head"):
        setattr(module, name, build_linear(layout, name, module.text_encoder.embeddings.word_embeddings.embedding_dim))
    module.config = NativeConfig(
        "blip_original",
        vocab_size=module.text_encoder.embeddings.word_embeddings.num_embeddings - _MARKS,
        context=_CONTEXT,
        image_size=module.visual_encoder.patch_embed.img_size[0],
        layout=layout,
    )
    return module


FAMILY = NativeFamily(
    name="blip_original",
    title="BLIP",
    build=_build_blip,
    readings={
        "itm_enc": Reading(BlipEnc, "itm", "itm_head.weight"),
        "itm_enc_logit": Reading(BlipEnc, "itm_logit", "itm_head.weight"),
        "match_logit": Reading(combine_halves("BlipMatch", MatchLogit, BlipEnc), "itm", "itm_head.weight"),
        "retrieval": Reading(BlipRetrieval, "itm", "itm_head.weight"),
        "itm": Reading(BlipOriginal, "itm", "itm_head.weight"),
        "itm_logit": Reading(BlipOriginal, "itm_logit", "itm_head.weight"),
        "itc": Reading(BlipCosine, "cosine", "vision_proj.weight"),
    },
    images=lambda module: square_inputs(module.config.image_size, CLIP_COLOURS),
    vocabulary="bert-base-uncased",
    resize=lambda tensors, size: resize_grid(
        tensors, "visual_encoder.pos_embed", "visual_encoder.patch_embed.proj.weight", size
    ),
    clean=clean_like_blip,
)
