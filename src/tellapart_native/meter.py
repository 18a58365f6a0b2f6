"""METER (Dou et al. 2022): an image tower and RoBERTa, then levels in which each stream reads the other."""

from __future__ import annotations

import torch
from torch import Tensor

from tellapart.models.fusion.family import Tensors
from tellapart.models.huggingface.inputs import ImageInputs
from tellapart.models.torch.network import Network
from tellapart_native.family import Layout, NativeFamily, NativeHalves, Reading
from tellapart_native.heads.answers import ClassifiesAnswers
from tellapart_native.heads.matching import PooledImages, RankOutput, combine_halves
from tellapart_native.layers.bert import Pooler, build_layers, build_roberta, read_context
from tellapart_native.layers.swin import Swin, resize_bias_tables
from tellapart_native.layers.vit import ClipTower
from tellapart_native.module import NativeConfig, add_classifiers, add_rank_output, build_linear, nn
from tellapart_native.preprocessing import CLIP_COLOURS, IMAGENET_COLOURS, crop_inputs, resize_grid

#: Tokens of a text if the file has no number: in the authors' retrieval code, and in their other tasks.
_RETRIEVAL_CONTEXT, _CONTEXT = 40, 50

_CLIP = "vit_model.visual"


class Meter(NativeHalves):
    """Both towers' tokens, projected and marked; the levels of co-attention and `itm_score` join them."""

    head = "itm_score.fc"  # class 1 is the match

    def images(self, pixel_values: Tensor) -> Tensors:
        """Run the image tower on float `(batch, 3, h, w)`: `(batch, tokens, width)`."""
        module = self.module
        tokens = module.cross_modal_image_transform(module.vit_model(pixel_values))
        return (tokens + module.token_type_embeddings.weight[1],)

    def texts(self, ids: Tensor, mask: Tensor) -> Tensors:
        """Run RoBERTa: `(batch, tokens, width)`, and the mask."""
        module = self.module
        tokens = module.cross_modal_text_transform(module.text_transformer.read_text(ids, mask))
        return tokens + module.token_type_embeddings.weight[0], mask

    def pool_states(self, images: Tensors, texts: Tensors) -> Tensor:
        """Run the levels; pool the text, and the image, in this order: `(batch, 2 * width)`."""
        module, (image,), (text, mask) = self.module, images, texts
        for of_text, of_image in zip(module.cross_modal_text_layers, module.cross_modal_image_layers, strict=True):
            # Both read the other's state of the level below.
            text, image = of_text(text, mask, image), of_image(image, None, text, mask)
        if not isinstance(module.vit_model, ClipTower):  # Swin has no class token
            image = image.mean(1, keepdim=True)
        return torch.cat([module.cross_modal_text_pooler(text), module.cross_modal_image_pooler(image)], dim=-1)


class MeterTwoImages(PooledImages, Meter):
    """NLVR2's file: a pass for the left image, and one for the right, whose tokens are marked by a third type."""

    def images(self, pixel_values: Tensor) -> Tensors:
        """Run the image tower, and leave the marks out: an image may stand on either side."""
        return (self.module.cross_modal_image_transform(self.module.vit_model(pixel_values)),)

    def join(self, images: Tensors, texts: Tensors) -> Tensor:
        """Mark the images' sides, pool the text with each, and classify both: `(batch, 2)`."""
        types = self.module.token_type_embeddings.weight
        return super().join((images[0] + types[1], images[1] + types[2]), texts)


def _build_meter(layout: Layout) -> Network:
    module, clip = nn.Module(), layout.has_prefix(f"{_CLIP}.")
    module.vit_model = ClipTower(layout, _CLIP) if clip else Swin(layout, "vit_model")
    module.text_transformer = build_roberta(layout, "text_transformer")
    text = module.text_transformer.embeddings.word_embeddings.embedding_dim
    for side, source in (("image", module.vit_model.width), ("text", text)):
        transform = f"cross_modal_{side}_transform"
        setattr(module, transform, build_linear(layout, transform, source))
        name = f"cross_modal_{side}_layers"
        width = getattr(module, transform).out_features
        heads = layout.count_heads(width, "num_heads")
        setattr(module, name, nn.ModuleList(build_layers(layout, name, heads, source=width)))
        setattr(module, f"cross_modal_{side}_pooler", Pooler(width))
    module.token_type_embeddings = nn.Embedding(3 if layout.has_prefix("nlvr2_classifier.") else 2, width)
    add_classifiers(module, layout, 2 * width)
    usual = _RETRIEVAL_CONTEXT if "rank_output.weight" in layout else _CONTEXT
    context = read_context(layout, "text_transformer", usual)
    words, size = module.text_transformer.embeddings.word_embeddings.num_embeddings, module.vit_model.image_size
    module.config = NativeConfig("meter", vocab_size=words, context=context, image_size=size, layout=layout)
    return module


def _prepare_images(module: Network) -> ImageInputs:
    colours = CLIP_COLOURS if isinstance(module.vit_model, ClipTower) else IMAGENET_COLOURS
    return crop_inputs(module.config.image_size, colours)


def _resize_positions(tensors: dict[str, Tensor], size: int) -> dict[str, Tensor]:
    if f"{_CLIP}.conv1.weight" in tensors:
        return resize_grid(tensors, f"{_CLIP}.positional_embedding", f"{_CLIP}.conv1.weight", size)
    return resize_bias_tables(tensors, size)


FAMILY = NativeFamily(
    name="meter",
    title="METER",
    build=_build_meter,
    readings={
        "vqa": Reading(combine_halves("MeterAnswers", ClassifiesAnswers, Meter), "answers", "vqa_classifier.3.weight"),
        "nlvr2": Reading(MeterTwoImages, "two_images", "nlvr2_classifier.3.weight"),
        "itm": Reading(Meter, "itm", "itm_score.fc.weight"),
        "itm_logit": Reading(Meter, "itm_logit", "itm_score.fc.weight"),
        "rank": Reading(combine_halves("MeterRank", RankOutput, Meter), "itm_logit", "rank_output.weight"),
    },
    images=_prepare_images,
    vocabulary="roberta-base",
    resize=_resize_positions,
    begin_training=add_rank_output,
)
