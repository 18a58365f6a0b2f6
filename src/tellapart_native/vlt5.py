"""VL-T5 (Cho et al. 2021): T5 whose encoder reads words and a detector's regions, and which answers in words."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tellapart.models.fusion.family import Tensors
from tellapart.models.torch.network import Network
from tellapart_native.family import Layout, NativeFamily, NativeHalves, Reading
from tellapart_native.module import NativeConfig, nn

# T5's encoder and decoder under their published names: norms without a mean, relative positions, no scaling.

#: Tokens further apart than this share a bucket, as published.
_FURTHEST = 128


class Norm(nn.Module):
    """Divides by the root of the mean square, in float32; no mean is taken off."""

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.empty(width)), eps

    def forward(self, states: Tensor) -> Tensor:
        """Normalise `(..., width)`."""
        square = states.float().pow(2).mean(-1, keepdim=True)
        return self.weight * (states * torch.rsqrt(square + self.eps)).to(self.weight.dtype)


class _Attention(nn.Module):
    def __init__(self, width: int, inner: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Linear(width, inner, bias=False) for _ in range(3))
        self.o = nn.Linear(inner, width, bias=False)

    def forward(self, states: Tensor, source: Tensor, bias: Tensor) -> Tensor:
        split = [part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.k(source), self.v(source))]
        queries = self.q(states).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        read = nn.functional.scaled_dot_product_attention(queries, *split, attn_mask=bias, scale=1.0)
        return self.o(read.transpose(1, 2).flatten(2))


class _FeedForward(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.wi, self.wo = nn.Linear(width, inner, bias=False), nn.Linear(inner, width, bias=False)

    def forward(self, states: Tensor) -> Tensor:
        return self.wo(self.wi(states).relu())


def _build_sublayer(name: str, part: Network, width: int) -> Tensor:
    layer = nn.Module()
    setattr(layer, name, part)
    layer.layer_norm = Norm(width)
    return layer


class T5Stack(nn.Module):
    """The encoder, or the decoder, whose layers also read the encoder's states."""

    def __init__(self, layout: Layout, prefix: str) -> None:
        super().__init__()
        table = layout.shape_of(f"{prefix}.block.0.layer.0.SelfAttention.relative_attention_bias.weight")
        inner, width = layout.shape_of(f"{prefix}.block.0.layer.0.SelfAttention.q.weight")
        self.decodes = prefix == "decoder"
        forward = 2 if self.decodes else 1
        hidden = layout.shape_of(f"{prefix}.block.0.layer.{forward}.DenseReluDense.wi.weight")[0]
        self.block = nn.ModuleList()
        for _ in range(layout.count_parts(f"{prefix}.block.{{}}.")):
            layers = [_build_sublayer("SelfAttention", _Attention(width, inner, table[1]), width)]
            if self.decodes:
                layers.append(_build_sublayer("EncDecAttention", _Attention(width, inner, table[1]), width))
            layers.append(_build_sublayer("DenseReluDense", _FeedForward(width, hidden), width))
            block = nn.Module()
            block.layer = nn.ModuleList(layers)
            self.block.append(block)
        self.block[0].layer[0].SelfAttention.relative_attention_bias = nn.Embedding(*table)
        self.final_layer_norm = Norm(width)
        self.furthest = int(layout.settings.get("relative_attention_max_distance", _FURTHEST))

    def position_bias(self, length: int) -> Tensor:
        """Return the bias of attention by relative position: `(1, heads, length, length)`; a decoder's for one token.

        Half of the buckets are single distances, the other half grow by equal ratios (Raffel et al. 2020, section 2.1).
        """
        table = self.block[0].layer[0].SelfAttention.relative_attention_bias
        place = torch.arange(length, device=table.weight.device)
        apart = place[None, :] - place[:, None]  # key less query
        buckets = table.num_embeddings // 2  # of either direction
        distance, exact = apart.abs(), buckets // 2
        ratio = torch.log(distance.clamp(min=1).float() / exact) / math.log(self.furthest / exact)
        far = (exact + (ratio * (buckets - exact)).long()).clamp(max=buckets - 1)
        return table((apart > 0).long() * buckets + torch.where(distance < exact, distance, far)).permute(2, 0, 1)[None]

    def forward(
        self, states: Tensor, bias: Tensor, source: Tensor | None = None, source_bias: Tensor | None = None
    ) -> Tensor:
        """Run all layers on `(batch, n, width)`."""
        for block in self.block:
            first = block.layer[0]
            normed = first.layer_norm(states)
            states = states + first.SelfAttention(normed, normed, bias)
            if self.decodes:
                second = block.layer[1]
                states = states + second.EncDecAttention(second.layer_norm(states), source, source_bias)
            last = block.layer[-1]
            states = states + last.DenseReluDense(last.layer_norm(states))
        return self.final_layer_norm(states)


#: Tokens of the input, prompt included, in the authors' code.
_CONTEXT = 20

#: The words "true" and "false" in T5's vocabulary.
_TRUE, _FALSE = 1176, 6136


class VisualEmbedding(nn.Module):
    """A region's features and place, each projected and normalised; the first picture; its number in there."""

    def __init__(self, layout: Layout, prefix: str) -> None:
        super().__init__()
        width, features = layout.shape_of(f"{prefix}.feat_embedding.0.weight")
        self.feat_embedding = nn.Sequential(nn.Linear(features, width), Norm(width))
        self.absolute_vis_pos_embedding = nn.Sequential(nn.Linear(5, width), Norm(width))
        self.img_order_embedding = nn.Embedding(2, width)

    def forward(self, features: Tensor, boxes: Tensor, words: Network) -> Tensor:
        """Embed `(batch, regions, features)`: `(batch, regions, width)`.

        The fifth number of a place is the authors' slip, kept: the boxes are left, top, right, bottom, and the formula
        of the area takes the second number for the right side. The last words of the vocabulary number the regions.
        """
        first, second, third, fourth = boxes.unbind(-1)
        place = torch.cat([boxes, ((fourth - third) * (second - first))[..., None]], dim=-1)
        numbers = words.weight.flip(0)[: features.shape[1]]
        states = self.feat_embedding(features) + self.absolute_vis_pos_embedding(place)
        return states + self.img_order_embedding.weight[0] + numbers


class Vlt5(NativeHalves):
    """Embedded regions, and token ids of "image text match: ..."; the answer's first word is read.

    Classes are "true" and "false": 0 is the match.
    """

    match = 0

    def images(self, features: Tensor, boxes: Tensor, mask: Tensor) -> Tensors:
        """Embed `(batch, regions, features)`: `(batch, regions, width)`, and the mask."""
        return self.module.encoder.visual_embedding(features, boxes, self.module.shared), mask

    def join(self, images: Tensors, texts: Tensors) -> Tensor:
        """Return the logits of "true" and "false" as the first word: `(batch, 2)`."""
        start = texts[0].new_zeros((len(texts[0]), 1))
        logits = self.predict_first(start, *self.encode_pair(images, texts))[:, 0]
        return logits[:, [self.module.config.true, self.module.config.false]]

    def encode_pair(self, images: Tensors, texts: Tensors) -> Tensors:
        """Run the encoder on words and regions: `(batch, tokens + regions, width)`, and the bias that hides padding.

        Only words have relative positions among themselves.
        """
        (regions, region_mask), (ids, mask) = images, texts
        module = self.module
        states = torch.cat([module.shared(ids), regions], dim=1)
        lowest = torch.finfo(states.dtype).min
        hidden = (~torch.cat([mask, region_mask], dim=1))[:, None, None].to(states.dtype) * lowest
        room = regions.shape[1]
        bias = nn.functional.pad(module.encoder.stack.position_bias(ids.shape[1]), (0, room, 0, room))
        return module.encoder.stack(states, bias + hidden), hidden

    def predict_first(self, start: Tensor, source: Tensor, hidden: Tensor) -> Tensor:
        """Return logits of the word behind the start of an answer, `(batch, 1)`: `(batch, 1, words)`."""
        decoder, words = self.module.decoder, self.module.shared
        states = decoder(words(start), decoder.position_bias(1), source, hidden)
        return nn.functional.linear(states * states.shape[-1] ** -0.5, words.weight)


def _build_vlt5(layout: Layout) -> Network:
    module, encoder = nn.Module(), nn.Module()
    module.shared = nn.Embedding(*layout.shape_of("shared.weight"))
    encoder.stack = T5Stack(layout, "encoder.stack")
    encoder.visual_embedding = VisualEmbedding(layout, "encoder.visual_embedding")
    module.encoder, module.decoder = encoder, T5Stack(layout, "decoder")
    words = module.shared.num_embeddings
    regions = layout.shape_of("encoder.visual_embedding.feat_embedding.0.weight")[1]
    module.config = NativeConfig("vlt5", vocab_size=words, context=_CONTEXT, region_width=regions, layout=layout)
    for word, published in (("true", _TRUE), ("false", _FALSE)):
        setattr(module.config, word, int(layout.settings.get(f"{word}_token_id", published)))
    return module


def _rename_tensor(name: str) -> str:
    """Keep the encoder's blocks apart from its embedding of regions; very old files name it `vis_encoder`.

    A converted folder has the names that are returned here, and they stay.
    """
    name = name.replace("vis_encoder.", "encoder.", 1) if name.startswith("vis_encoder.") else name
    if name.startswith("encoder.") and not name.startswith(("encoder.visual_embedding.", "encoder.stack.")):
        return name.replace("encoder.", "encoder.stack.", 1)
    return name


FAMILY = NativeFamily(
    name="vlt5",
    title="VL-T5",
    build=_build_vlt5,
    readings={"itm": Reading(Vlt5, "itm", "shared.weight"), "itm_logit": Reading(Vlt5, "itm_logit", "shared.weight")},
    vocabulary="t5-base",
    prompt="image text match: {}",
    rename=_rename_tensor,
    ignored=(  # copies of `shared.weight`, and a table that old versions of T5 saved and did not use
        "*encoder.embed_tokens.weight",
        "decoder.embed_tokens.weight",
        "*.obj_order_embedding.weight",
        "lm_head.weight",
        "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",
    ),
)
