"""Vision transformers under their published names: timm's, of ALBEF, BLIP and ViLT, and CLIP's, of METER."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from tellapart.errors import require
from tellapart.models.torch.network import Network
from tellapart_native.family import Layout
from tellapart_native.layers.bert import attend_heads
from tellapart_native.module import nn


def build_vit(layout: Layout, prefix: str) -> Network:
    """Build a ViT with a class token and no head; its sizes follow from the shapes of `PREFIX.*`."""
    vision = require("timm.models.vision_transformer", extra="models")
    width, _, patch, _ = layout.shape_of(f"{prefix}.patch_embed.proj.weight")
    rows = layout.shape_of(f"{prefix}.pos_embed")[1]
    return vision.VisionTransformer(
        img_size=round((rows - 1) ** 0.5) * patch,
        patch_size=patch,
        num_classes=0,
        embed_dim=width,
        depth=layout.count_parts(f"{prefix}.blocks.{{}}."),
        num_heads=layout.count_heads(width, "num_heads"),
        mlp_ratio=layout.shape_of(f"{prefix}.blocks.0.mlp.fc1.weight")[0] / width,
        norm_layer=partial(nn.LayerNorm, eps=1e-6),
        weight_init="skip",
    )


class _Attention(nn.Module):
    """Self-attention, its three projections in one."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * width, width))
        self.in_proj_bias = nn.Parameter(torch.empty(3 * width))
        self.out_proj = nn.Linear(width, width)

    def forward(self, states: Tensor) -> Tensor:
        packed = nn.functional.linear(states, self.in_proj_weight, self.in_proj_bias)
        queries, keys, values = packed.chunk(3, -1)
        return self.out_proj(attend_heads(queries, keys, values, None, self.heads))


class _Block(nn.Module):
    """Attention and an MLP; norms come before them, and the activation is the quick approximation of GELU."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.ln_1, self.ln_2, self.attn = nn.LayerNorm(width), nn.LayerNorm(width), _Attention(width, heads)
        self.mlp = nn.Module()
        self.mlp.c_fc, self.mlp.c_proj = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, states: Tensor) -> Tensor:
        states = states + self.attn(self.ln_1(states))
        inner = self.mlp.c_fc(self.ln_2(states))
        return states + self.mlp.c_proj(inner * (1.702 * inner).sigmoid())


class ClipTower(nn.Module):
    """CLIP, of which only the image tower is left: patches and a class token, blocks, the last norm on every token.

    Attributes:
        image_size: side of the picture, in pixels.
        width: of the tokens.
    """

    def __init__(self, layout: Layout, prefix: str) -> None:
        super().__init__()
        self.visual = visual = nn.Module()
        self.width, _, patch, _ = layout.shape_of(f"{prefix}.conv1.weight")
        rows, blocks = layout.shape_of(f"{prefix}.positional_embedding")[0], f"{prefix}.transformer.resblocks"
        side = math.isqrt(rows - 1)
        self.image_size = side * patch
        visual.conv1 = nn.Conv2d(3, self.width, patch, patch, bias=False)
        visual.class_embedding = nn.Parameter(torch.empty(self.width))
        visual.positional_embedding = nn.Parameter(torch.empty(1 + side**2, self.width))
        visual.ln_pre, visual.ln_post = nn.LayerNorm(self.width), nn.LayerNorm(self.width)
        visual.transformer = nn.Module()
        heads = layout.count_heads(self.width, "vision_heads")
        inner = layout.shape_of(f"{blocks}.0.mlp.c_fc.weight")[0]
        visual.transformer.resblocks = nn.ModuleList(
            _Block(self.width, heads, inner) for _ in range(layout.count_parts(f"{blocks}.{{}}."))
        )

    def forward(self, pixel_values: Tensor) -> Tensor:
        """Take float `(batch, 3, h, w)` to `(batch, 1 + patches, width)`."""
        visual = self.visual
        patches = visual.conv1(pixel_values).flatten(2).transpose(1, 2)
        first = visual.class_embedding.expand(len(patches), 1, -1)
        states = visual.ln_pre(torch.cat([first, patches], dim=1) + visual.positional_embedding)
        for block in visual.transformer.resblocks:
            states = block(states)
        return visual.ln_post(states)
