"""VL-T5 (Cho et al. 2021): T5 whose encoder reads words and a detector's regions, and which answers in words."""

from __future__ import annotations

import torch
from torch import Tensor

from tellapart.models.fusion.family import Tensors
from tellapart.models.huggingface.files import import_transformers
from tellapart.models.torch.network import Network
from tellapart_native.family import Layout, NativeFamily, NativeHalves, Reading
from tellapart_native.module import NativeConfig, nn

#: Tokens further apart than this share a bucket, as published.
_FURTHEST = 128

_T5 = import_transformers().models.t5.modeling_t5


class T5Stack(nn.Module):
    """The encoder, or the decoder, whose layers also read the encoder's states: T5's blocks, given their biases."""

    def __init__(self, layout: Layout, prefix: str) -> None:
        super().__init__()
        first, decodes = f"{prefix}.block.0.layer", prefix == "decoder"
        buckets, heads = layout.shape_of(f"{first}.0.SelfAttention.relative_attention_bias.weight")
        inner, width = layout.shape_of(f"{first}.0.SelfAttention.q.weight")
        config = import_transformers().T5Config(
            d_model=width,
            d_kv=inner // heads,
            d_ff=layout.shape_of(f"{first}.{2 if decodes else 1}.DenseReluDense.wi.weight")[0],
            num_heads=heads,
            relative_attention_num_buckets=buckets,
            relative_attention_max_distance=int(layout.settings.get("relative_attention_max_distance", _FURTHEST)),
            is_decoder=decodes,
            attn_implementation="sdpa",
        )
        blocks = range(layout.count_parts(f"{prefix}.block.{{}}."))
        self.block = nn.ModuleList(_T5.T5Block(config, has_relative_attention_bias=k == 0, layer_idx=k) for k in blocks)
        self.final_layer_norm = _T5.T5LayerNorm(width, eps=1e-6)

    def position_bias(self, length: int) -> Tensor:
        """Return the bias of attention by relative position: `(1, heads, length, length)`; a decoder's for one token.

        Half of the buckets are single distances, the other half grow by equal ratios (Raffel et al. 2020, section 2.1).
        """
        return self.block[0].layer[0].SelfAttention.compute_bias(length, length)

    def forward(
        self, states: Tensor, bias: Tensor, source: Tensor | None = None, source_bias: Tensor | None = None
    ) -> Tensor:
        """Run all layers on `(batch, n, width)`."""
        others = {"encoder_hidden_states": source, "encoder_attention_mask": source_bias}
        for block in self.block:
            states = block(states, position_bias=bias, **others)[0]
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
        self.feat_embedding = nn.Sequential(nn.Linear(features, width), _T5.T5LayerNorm(width))
        self.absolute_vis_pos_embedding = nn.Sequential(nn.Linear(5, width), _T5.T5LayerNorm(width))
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
)
