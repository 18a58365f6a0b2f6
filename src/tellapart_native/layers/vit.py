"""The vision transformer of ALBEF and BLIP: timm's, whose names are the files'."""

from __future__ import annotations

from functools import partial

from tellapart.errors import require
from tellapart.models.torch.network import Network
from tellapart_native.family import Layout
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
