"""FIBER (Dou et al. 2022) and EqSim's fork of it: Swin and RoBERTa whose upper layers read each other through gates."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tellapart.errors import ModelError
from tellapart.models.fusion.family import Contrast, Tensors
from tellapart.models.generative.prompts import Prompt
from tellapart.models.torch.network import Network
from tellapart_native.family import Layout, NativeFamily, NativeHalves, Reading
from tellapart_native.heads.answers import ClassifiesAnswers
from tellapart_native.heads.decoding import ByToken, Past, Search, Writer, read_before
from tellapart_native.heads.matching import PooledImages, RankOutput, combine_halves
from tellapart_native.layers.bert import (
    EPSILON,
    BertLayer,
    Pooler,
    SelfAttention,
    WordHead,
    attend_heads,
    build_roberta,
    read_context,
)
from tellapart_native.layers.swin import Merging, Swin, WindowAttention, resize_bias_tables
from tellapart_native.module import NativeConfig, add_classifiers, add_rank_output, build_linear, nn, unit_vectors
from tellapart_native.preprocessing import IMAGENET_COLOURS, square_inputs

#: FIBER's captioner writes without a prompt.
FIBER_CAPTION = Prompt("fiber-caption", 1, "", "FIBER (Dou et al. 2022), its captioning code")

#: Tokens of a text in the authors' fine-tuning, for a file without a number.
_CONTEXT = 50

#: With which EqSim's fork begins, if a file has none: CLIP's.
_LOG_SCALE = math.log(1 / 0.07)


class GatedWindowAttention(WindowAttention):
    """Attention within windows, to which a share of an attention to the text may be added."""

    def __init__(self, layout: Layout, prefix: str) -> None:
        super().__init__(layout, prefix)
        self.reads_text = layout.has_prefix(f"{prefix}.qkv_i2t.")
        if self.reads_text:
            width, source = self.proj.in_features, layout.shape_of(f"{prefix}.qkv_text_i2t.weight")[1]
            self.alpha_i2t, self.norm_i2t_i = nn.Parameter(torch.empty(1)), nn.LayerNorm(width)
            self.qkv_i2t, self.qkv_text_i2t = nn.Linear(width, width), nn.Linear(source, 2 * width)
            self.proj_i2t = nn.Linear(width, width)

    def forward(
        self, windows: Tensor, apart: Tensor | None, text: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """Attend within windows `(batch, windows, tokens, width)`, then, if there is one, to a text's states."""
        output = super().forward(windows, apart)
        if text is None:
            return output
        queries = self.qkv_i2t(self.norm_i2t_i(output)).flatten(1, 2)  # every window reads all of the text
        keys, values = self.qkv_text_i2t(text).chunk(2, -1)
        attended = attend_heads(queries, keys, values, mask, self.heads)
        return output + self.alpha_i2t * self.proj_i2t(attended).view_as(output)


class GatedLayer(BertLayer):
    """RoBERTa's layer, to whose self-attention a share of an attention to the image is added before the norm."""

    def __init__(self, width: int, heads: int, inner: int, source: int) -> None:
        super().__init__(width, heads, inner, eps=EPSILON)
        self.alpha_t2i = nn.Parameter(torch.empty(1))
        self.crossattention_t2i = nn.Module()
        self.crossattention_t2i.self = SelfAttention(width, heads, source)
        self.crossattention_t2i.output = nn.Module()
        self.crossattention_t2i.output.dense = nn.Linear(width, width)

    def fuse_image(
        self, states: Tensor, mask: Tensor, image: Tensor, *, last: bool, seen: Tensor | None = None
    ) -> Tensor:
        """Take text states one layer up, reading image tokens `(batch, m, source)`; the last layer has no last norm.

        A decoder's new tokens read `seen`, which are the states of all tokens so far.
        """
        attention, cross = self.attention, self.crossattention_t2i
        attended = attention.output.dense(attention.self(states, states if seen is None else seen, mask))
        read = cross.output.dense(cross.self(attended, image, None))
        states = attention.output.LayerNorm(self.alpha_t2i * read + attended + states)
        states = self.output.dense(nn.functional.gelu(self.intermediate.dense(states))) + states
        return states if last else self.output.LayerNorm(states)


class Fiber(NativeHalves):
    """The towers up to the layer at which they first read each other; the gated layers and `itm_score` join them."""

    head = "itm_score.fc"  # class 1 is the match

    def __init__(self, module: Network) -> None:
        super().__init__(module)
        steps = module.vit_model.steps
        lower = next(k for k, step in enumerate(steps) if not isinstance(step, Merging) and step.attn.reads_text)
        self._lower, self._upper = steps[:lower], steps[lower:]
        self._fused: int = module.text_transformer.fusion

    def images(self, pixel_values: Tensor) -> Tensors:
        """Run the blocks that read no text, on float `(batch, 3, h, w)`: `(batch, side, side, width)`."""
        states = self.module.vit_model.embed_patches(pixel_values)
        for step in self._lower:
            states = step(states)
        return (states,)

    def texts(self, ids: Tensor, mask: Tensor) -> Tensors:
        """Run the layers that read no image: `(batch, tokens, width)`, and the mask."""
        return self.module.text_transformer.read_text(ids, mask), mask

    def pool_states(self, images: Tensors, texts: Tensors) -> Tensor:
        """Run the gated layers; pool the text, and the image, in this order: `(batch, 2 * width)`."""
        module, (image,), (text, mask) = self.module, images, texts
        layers = list(module.text_transformer.encoder.layer[self._fused :])
        for step in self._upper:
            if isinstance(step, Merging):
                image = step(image)
                continue
            layer = layers.pop(0)
            # Both read the other's state of the level below. Neither tower's last norm is applied.
            tokens = image.flatten(1, 2)
            image, text = step(image, text, mask), layer.fuse_image(text, mask, tokens, last=not layers)
        text = module.cross_modal_text_pooler(module.cross_modal_text_transform(text))
        image = module.cross_modal_image_transform(image.flatten(1, 2)).mean(1, keepdim=True)
        return torch.cat([text, module.cross_modal_image_pooler(image)], dim=-1)

    def image_vectors(self, states: Tensor) -> Tensor:
        """Take the images' half through the rest of its tower alone: `(batch, dimensions)`, of any length."""
        module = self.module
        for step in self._upper:
            states = step(states)
        tokens = module.cross_modal_image_transform_itc(module.vit_model.norm(states).flatten(1, 2))
        return module.cross_modal_image_pooler_itc(tokens.mean(1, keepdim=True))

    def text_vectors(self, states: Tensor, mask: Tensor) -> Tensor:
        """Take the texts' half through the rest of its tower alone: `(batch, dimensions)`, of any length."""
        module = self.module
        for layer in module.text_transformer.encoder.layer[self._fused :]:
            states = layer(states, mask)
        return module.cross_modal_text_pooler_itc(module.cross_modal_text_transform_itc(states))


class FiberCosine(Fiber):
    """One vector of an image and of a text, length 1: both towers run to their end, and neither reads the other."""

    def images(self, pixel_values: Tensor) -> Tensors:
        """Return float `(batch, dimensions)`."""
        return (unit_vectors(self.image_vectors(*super().images(pixel_values))),)

    def texts(self, ids: Tensor, mask: Tensor) -> Tensors:
        """Return float `(batch, dimensions)`."""
        return (unit_vectors(self.text_vectors(*super().texts(ids, mask))),)


class FiberCaptioner(Writer, Fiber):
    """A captioner's file: the image tower runs alone, and RoBERTa reads it as a decoder.

    Layers of text whose cross-attention is narrower than the tower's last stage read it through
    `cross_modal_att_layers`. The last layer of text keeps its last norm, which the description leaves open.
    """

    prompt = FIBER_CAPTION
    search = Search(beams=5, longest=48)

    def images(self, pixel_values: Tensor) -> Tensors:
        """Run the tower without its last norm; return the image input of each fused layer, `(batch, n, width)`."""
        (states,) = super().images(pixel_values)
        for step in self._upper:
            states = step(states)
        tokens, through = states.flatten(1, 2), self.module.cross_modal_att_layers
        layers = range(self._fused, len(self.module.text_transformer.encoder.layer))
        return tuple(through[str(k)](tokens) if str(k) in through else tokens for k in layers)

    def decode(self, ids: Tensor, images: Tensors, past: Past | None = None) -> Tensor:
        """Run the layers and the head of words: `(batch, tokens, words)`."""
        module, new = self.module, ids.shape[1] - (past.length if past else 0)
        before, states = read_before(ids, new), module.text_transformer.embeddings(ids)[:, -new:]
        for k, layer in enumerate(module.text_transformer.encoder.layer):
            seen = None if past is None else past.add_states(k, states)
            if k < self._fused:
                states = layer(states, before, seen=seen)
            else:
                states = layer.fuse_image(states, before, images[k - self._fused], last=False, seen=seen)
        return module.mlm_score(module.cross_modal_text_transform(states))


def _add_captioner(module: Network, layout: Layout) -> None:
    """Add the parts of a captioner's file: projections of the image, by their layers' numbers, and a head of words."""
    module.mlm_score = WordHead(layout, "mlm_score")
    module.cross_modal_att_layers, tower = nn.ModuleDict(), module.vit_model.width
    for k, layer in enumerate(module.text_transformer.encoder.layer):
        if isinstance(layer, GatedLayer) and layer.crossattention_t2i.self.key.in_features != tower:
            module.cross_modal_att_layers[str(k)] = build_linear(layout, f"cross_modal_att_layers.{k}", tower)


def _pool_vectors(module: Network, images: Tensors, texts: Tensors) -> tuple[Tensor, Tensor]:
    halves = Fiber(module)
    return halves.image_vectors(*images), halves.text_vectors(*texts)


def _begin_training(module: Network, reading: str) -> None:
    add_rank_output(module, reading)
    if not hasattr(module, "logit_scale"):
        module.logit_scale = nn.Parameter(torch.tensor(_LOG_SCALE, device=module.vit_model.norm.weight.device))


def _expect_pairs(module: Network, layout: Layout) -> None:
    """Check that each block of the image tower that reads the text has its layer of text that reads the image."""
    blocks = sum(isinstance(part, GatedWindowAttention) and part.reads_text for part in module.vit_model.modules())
    layers = sum(isinstance(layer, GatedLayer) for layer in module.text_transformer.encoder.layer)
    if blocks != layers or not layers:
        raise ModelError(
            f"{layout.source} is incomplete: {blocks} of vit_model.layers.*.blocks.* have attn.qkv_i2t, and {layers} "
            "of text_transformer.encoder.layer.* have crossattention_t2i; as many of both are expected"
        )


def _build_fiber(layout: Layout) -> Network:
    def build_layer(name: str, width: int, heads: int, inner: int) -> Network:
        key = f"{name}.crossattention_t2i.self.key.weight"
        if key not in layout:
            return BertLayer(width, heads, inner, eps=EPSILON)
        return GatedLayer(width, heads, inner, layout.shape_of(key)[1])

    module = nn.Module()
    module.vit_model = Swin(layout, "vit_model", GatedWindowAttention)
    module.text_transformer = build_roberta(layout, "text_transformer", build_layer)
    words = module.text_transformer.embeddings.word_embeddings
    for path in ("", "_itc"):
        for side, source in (("text", words.embedding_dim), ("image", module.vit_model.width)):
            transform = f"cross_modal_{side}_transform{path}"
            setattr(module, transform, build_linear(layout, transform, source))
            setattr(module, f"cross_modal_{side}_pooler{path}", Pooler(getattr(module, transform).out_features))
    add_classifiers(module, layout, 2 * module.cross_modal_text_transform.out_features)
    _expect_pairs(module, layout)
    if layout.has_prefix("mlm_score."):
        _add_captioner(module, layout)
    if "logit_scale" in layout:
        module.logit_scale = nn.Parameter(torch.empty(()))
    words, size = words.num_embeddings, module.vit_model.image_size
    context = read_context(layout, "text_transformer", _CONTEXT)
    module.config = NativeConfig("fiber", vocab_size=words, context=context, image_size=size, layout=layout)
    return module


FAMILY = NativeFamily(
    name="fiber",
    title="FIBER",
    build=_build_fiber,
    readings={
        "likelihood": Reading(FiberCaptioner, "likelihood", "mlm_score.decoder.weight"),
        "mean_likelihood": Reading(
            combine_halves("FiberCaptionerMean", ByToken, FiberCaptioner), "likelihood", "mlm_score.decoder.weight"
        ),
        "vqa": Reading(combine_halves("FiberAnswers", ClassifiesAnswers, Fiber), "answers", "vqa_classifier.3.weight"),
        "nlvr2": Reading(
            combine_halves("FiberTwoImages", PooledImages, Fiber), "two_images", "nlvr2_classifier.3.weight"
        ),
        "itm": Reading(Fiber, "itm", "itm_score.fc.weight"),
        "itm_logit": Reading(Fiber, "itm_logit", "itm_score.fc.weight"),
        "itc": Reading(FiberCosine, "cosine", "cross_modal_image_transform_itc.weight"),
        "rank": Reading(combine_halves("FiberRank", RankOutput, Fiber), "itm_logit", "rank_output.weight"),
    },
    images=lambda module: square_inputs(module.config.image_size, IMAGENET_COLOURS),
    vocabulary="roberta-base",
    resize=resize_bias_tables,
    begin_training=_begin_training,
    contrast=Contrast(
        tuple(f"cross_modal_{side}_{part}_itc" for side in ("image", "text") for part in ("transform", "pooler")),
        _pool_vectors,
        log_scale=lambda module: module.logit_scale,
    ),
)
