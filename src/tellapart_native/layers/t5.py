"""T5's encoder and decoder under their published names: norms without a mean, relative positions, no scaling."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tellapart.models.torch.network import Network
from tellapart_native.family import Layout
from tellapart_native.module import nn

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
