"""ALBEF (Li et al. 2021, "Align before Fuse"): a ViT, the lower half of BERT, and its upper half over both."""

from __future__ import annotations

from torch import Tensor

from tellapart.models.fusion.family import Tensors
from tellapart.models.torch.network import Network
from tellapart_native.family import Layout, NativeFamily, Reading
from tellapart_native.heads.answers import DecodesAnswers, add_task_heads
from tellapart_native.heads.matching import (
    AlternatingImages,
    FusedText,
    GradCam,
    MatchLogit,
    ProjectedTokens,
    combine_halves,
)
from tellapart_native.layers.bert import build_text, rename_text
from tellapart_native.layers.vit import build_vit
from tellapart_native.module import NativeConfig, build_linear, nn
from tellapart_native.preprocessing import CLIP_COLOURS, clean_like_albef, resize_grid, square_inputs

#: Tokens of a caption in the authors' retrieval code.
_CONTEXT = 30


class Albef(FusedText):
    """All image tokens, and the lower layers' states of a text."""

    def images(self, pixel_values: Tensor) -> Tensors:
        """Run the vision tower on float `(batch, 3, h, w)`: `(batch, 1 + patches, width)`."""
        return (self.module.visual_encoder.forward_features(pixel_values),)


def _build_albef(layout: Layout) -> Network:
    module = nn.Module()
    module.visual_encoder = build_vit(layout, "visual_encoder")
    module.text_encoder = build_text(layout)
    embeddings, context = module.text_encoder.embeddings, _CONTEXT
    width = embeddings.word_embeddings.embedding_dim
    if add_task_heads(module, layout):
        context = embeddings.position_embeddings.num_embeddings  # questions and sentences are not cut
    else:
        module.vision_proj = build_linear(layout, "vision_proj", module.visual_encoder.embed_dim)
        for name in ("text_proj", "itm_head"):
            setattr(module, name, build_linear(layout, name, width))
    if layout.has_prefix("cls_head."):
        first = build_linear(layout, "cls_head.0", width)
        module.cls_head = nn.Sequential(first, nn.ReLU(), build_linear(layout, "cls_head.2", first.out_features))
    words, size = embeddings.word_embeddings.num_embeddings, module.visual_encoder.patch_embed.img_size[0]
    module.config = NativeConfig("albef", vocab_size=words, context=context, image_size=size, layout=layout)
    return module


FAMILY = NativeFamily(
    name="albef",
    title="ALBEF",
    build=_build_albef,
    readings={
        "itm": Reading(Albef, "itm", "itm_head.weight"),
        "itm_logit": Reading(Albef, "itm_logit", "itm_head.weight"),
        "match_logit": Reading(combine_halves("AlbefMatch", MatchLogit, Albef), "itm", "itm_head.weight"),
        "itc": Reading(combine_halves("AlbefCosine", ProjectedTokens, Albef), "cosine", "vision_proj.weight"),
        "vqa": Reading(
            combine_halves("AlbefAnswers", DecodesAnswers, Albef),
            "answers",
            "text_decoder.cls.predictions.decoder.weight",
        ),
        "nlvr2": Reading(combine_halves("AlbefTwoImages", AlternatingImages, Albef), "two_images", "cls_head.2.weight"),
        "grad_cam": Reading(combine_halves("AlbefGradCam", GradCam, Albef), "heat", "itm_head.weight"),
    },
    images=lambda module: square_inputs(module.config.image_size, CLIP_COLOURS),
    vocabulary="bert-base-uncased",
    ends=False,  # the authors' tokenizer adds no [SEP] to a single text
    rename=rename_text,
    resize=lambda tensors, size: resize_grid(
        tensors, "visual_encoder.pos_embed", "visual_encoder.patch_embed.proj.weight", size
    ),
    clean=clean_like_albef,
)
