"""UNITER (Chen et al. 2020): words and a detector's regions go through one BERT; only the embeddings are unimodal."""

from __future__ import annotations

import torch
from torch import Tensor

from tellapart.models.fusion.family import Tensors
from tellapart.models.torch.network import Network
from tellapart_native.family import Layout, NativeFamily, NativeHalves, Reading
from tellapart_native.heads.matching import RankOutput, combine_halves
from tellapart_native.layers.bert import BertEmbeddings, BertEncoder, Pooler, build_layers
from tellapart_native.module import NativeConfig, build_linear, nn


class RegionEmbeddings(nn.Module):
    """A region's features and place, each projected and normalised, with the type of a region."""

    def __init__(self, layout: Layout, prefix: str) -> None:
        super().__init__()
        width, features = layout.shape_of(f"{prefix}.img_linear.weight")
        for kind, into in (("img", features), ("pos", 7)):
            setattr(self, f"{kind}_linear", nn.Linear(into, width))
            setattr(self, f"{kind}_layer_norm", nn.LayerNorm(width, eps=1e-12))
        self.LayerNorm = nn.LayerNorm(width, eps=1e-12)

    def forward(self, features: Tensor, boxes: Tensor, region_type: Tensor) -> Tensor:
        """Embed `(batch, regions, features)`, and boxes in shares of the picture: `(batch, regions, width)`."""
        left, top, right, bottom = boxes.unbind(-1)
        across, down = right - left, bottom - top
        place = torch.stack([left, top, right, bottom, across, down, across * down], dim=-1)
        image, position = self.img_layer_norm(self.img_linear(features)), self.pos_layer_norm(self.pos_linear(place))
        return self.LayerNorm(image + position + region_type)


class Uniter(NativeHalves):
    """Embeddings of regions and of words; all layers join them, and `itm_output`'s class 1 is the match."""

    head = "itm_output"

    def images(self, features: Tensor, boxes: Tensor, mask: Tensor) -> Tensors:
        """Embed `(batch, regions, features)`: `(batch, regions, width)`, and the mask."""
        body = self.module.uniter
        region_type = body.embeddings.token_type_embeddings.weight[1]
        return body.img_embeddings(features, boxes, region_type), mask

    def texts(self, ids: Tensor, mask: Tensor) -> Tensors:
        """Embed `(batch, tokens)`: `(batch, tokens, width)`, and the mask."""
        return self.module.uniter.embeddings(ids), mask

    def pool_states(self, images: Tensors, texts: Tensors) -> Tensor:
        """Run all layers over words and regions, and pool the first word: `(batch, width)`."""
        # Masked tokens have no part in the attention, so a gap between words and regions changes nothing.
        states, mask = (torch.cat(parts, dim=1) for parts in zip(texts, images, strict=True))
        for layer in self.module.uniter.encoder.layer:
            states = layer(states, mask)
        return self.module.uniter.pooler(states)


def _build_uniter(layout: Layout) -> Network:
    module, body = nn.Module(), nn.Module()
    body.embeddings = BertEmbeddings(layout, "uniter.embeddings")
    body.img_embeddings = RegionEmbeddings(layout, "uniter.img_embeddings")
    width = body.embeddings.word_embeddings.embedding_dim
    body.encoder, body.pooler = BertEncoder(build_layers(layout, "uniter.encoder.layer")), Pooler(width)
    module.uniter = body
    for name in ("itm_output", "rank_output"):
        if layout.has_prefix(f"{name}."):
            setattr(module, name, build_linear(layout, name, width))
    module.config = NativeConfig(
        "uniter",
        vocab_size=body.embeddings.word_embeddings.num_embeddings,
        context=body.embeddings.position_embeddings.num_embeddings,  # at evaluation the authors cut no caption
        region_width=layout.shape_of("uniter.img_embeddings.img_linear.weight")[1],
        layout=layout,
    )
    return module


def _rename_norm(name: str) -> str:
    """Old files call a norm's weight and bias gamma and beta."""
    return name.replace(".gamma", ".weight").replace(".beta", ".bias")


FAMILY = NativeFamily(
    name="uniter",
    title="UNITER",
    build=_build_uniter,
    readings={
        "rank": Reading(combine_halves("UniterRank", RankOutput, Uniter), "itm", "rank_output.weight"),
        "itm": Reading(Uniter, "itm", "itm_output.weight"),
        "itm_logit": Reading(Uniter, "itm_logit", "itm_output.weight"),
    },
    vocabulary="bert-base-cased",
    rename=_rename_norm,
)
