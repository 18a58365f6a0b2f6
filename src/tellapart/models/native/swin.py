"""The Swin transformer under its authors' names, which timm's differ from in where a stage begins."""

from __future__ import annotations

import math
import re
from typing import Any

from tellapart.errors import require
from tellapart.models.native.family import Layout
from tellapart.models.torch_backend import import_torch

__all__ = ["build_swin", "rename_swin"]

#: Patches are of 4 pixels, and three stages halve the grid; the window is as wide as the last grid.
_STRIDE = 32

_DOWNSAMPLE = re.compile(r"\.layers\.(\d+)\.downsample\.")


def rename_swin(name: str) -> str:
    """Return a tensor's name as timm has it, where the reduction of the grid opens a stage in place of ending one.

    >>> rename_swin("vision_encoder.layers.0.downsample.norm.weight")
    'vision_encoder.layers.1.downsample.norm.weight'
    """
    return _DOWNSAMPLE.sub(lambda match: f".layers.{int(match[1]) + 1}.downsample.", name)


def build_swin(layout: Layout, prefix: str) -> Any:
    """Build a Swin transformer without a head; all of its sizes, heads included, follow from the shapes of `PREFIX.*`.

    The names are those of `rename_swin`.
    """
    torch = import_torch()
    vision = require("timm.models.swin_transformer", extra="models")
    stages = range(layout.count(f"{prefix}.layers.{{}}."))
    tables = [layout.shape(f"{prefix}.layers.{k}.blocks.0.attn.relative_position_bias_table") for k in stages]
    width, _, patch, _ = layout.shape(f"{prefix}.patch_embed.proj.weight")
    window = (math.isqrt(tables[0][0]) + 1) // 2  # the table has a row for each offset of two places
    module = vision.SwinTransformer(
        img_size=window * _STRIDE,
        patch_size=patch,
        num_classes=0,
        embed_dim=width,
        depths=tuple(layout.count(f"{prefix}.layers.{k}.blocks.{{}}.") for k in stages),
        num_heads=tuple(heads for _, heads in tables),
        window_size=window,
        mlp_ratio=layout.shape(f"{prefix}.layers.0.blocks.0.mlp.fc1.weight")[0] / width,
        drop_path_rate=0.0,
        weight_init="skip",
    )
    # Which bias belongs to which two places, and which windows are joined of parts, is in no file.
    for stage in module.layers:
        for block in stage.blocks:
            block.attn.relative_position_index = vision.get_relative_position_index(*block.window_size, device="cpu")
            block.attn_mask = block.get_attn_mask(device="cpu", dtype=torch.float32)
    return module
