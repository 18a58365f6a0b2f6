"""The Swin transformer as METER, FIBER and X-VLM keep it: their names, square pictures, a downsampling ends a stage.

timm's has it at the start of the next stage, and fills tables while it is built, which the device `meta` loses.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tellapart.errors import ModelError
from tellapart.models.torch.network import Network
from tellapart_native.family import Layout
from tellapart_native.module import nn

#: Summand of the attention between pixels that only the cyclic shift makes neighbours.
_APART = -100.0

_TABLE = "relative_position_bias_table"


class WindowAttention(nn.Module):
    """Attention within windows, with a bias for each relative position."""

    def __init__(self, layout: Layout, prefix: str) -> None:
        super().__init__()
        rows, self.heads = layout.shape_of(f"{prefix}.{_TABLE}")
        width, _ = layout.shape_of(f"{prefix}.proj.weight")
        self.window = (round(rows**0.5) + 1) // 2
        if rows != (2 * self.window - 1) ** 2:
            raise ModelError(
                f"{layout.source}: {prefix}.{_TABLE} has {rows} rows, and no window has so many relative positions"
            )
        self.relative_position_bias_table = nn.Parameter(torch.empty(rows, self.heads))
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, windows: Tensor, apart: Tensor | None) -> Tensor:
        """Attend within float `(batch, windows, tokens, width)`; `apart` `(windows, 1, tokens, tokens)` is added."""
        bias = self.relative_position_bias_table[self._table_index()].permute(2, 0, 1).to(windows.dtype)
        parts = (part.unflatten(-1, (self.heads, -1)).transpose(2, 3) for part in self.qkv(windows).chunk(3, -1))
        bias = bias if apart is None else bias + apart
        attended = nn.functional.scaled_dot_product_attention(*parts, attn_mask=bias)
        return self.proj(attended.transpose(2, 3).flatten(3))

    def _table_index(self) -> Tensor:
        """Return the table's row of each pair of tokens, int64 `(tokens, tokens)`."""
        window, device = self.window, self.relative_position_bias_table.device
        rows, columns = (torch.arange(window**2, device=device) // step % window for step in (window, 1))
        down, right = (place[:, None] - place[None] + window - 1 for place in (rows, columns))
        return down * (2 * window - 1) + right


class SwinBlock(nn.Module):
    """Attention within windows, cyclically shifted or not, and an MLP; norms come before them."""

    def __init__(self, layout: Layout, prefix: str, attention: Network, *, shifted: bool) -> None:
        super().__init__()
        inner, width = layout.shape_of(f"{prefix}.mlp.fc1.weight")
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn, self.shifted = attention, shifted
        self.mlp = nn.Module()
        self.mlp.fc1, self.mlp.fc2 = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, states: Tensor, *others: Tensor | None) -> Tensor:
        """Take float `(batch, side, side, width)` one block up; the attention gets the other arguments."""
        side, window = states.shape[1], self.attn.window
        shift = window // 2 if self.shifted and side > window else 0
        rolled = self.norm1(states).roll((-shift, -shift), (1, 2))
        attended = self.attn(_cut_windows(rolled, window), self._shift_mask(states, shift) if shift else None, *others)
        states = states + _join_windows(attended, side).roll((shift, shift), (1, 2))
        return states + self.mlp.fc2(nn.functional.gelu(self.mlp.fc1(self.norm2(states))))

    def _shift_mask(self, states: Tensor, shift: int) -> Tensor:
        """Return the mask between tokens that were not neighbours before the shift: `(windows, 1, tokens, tokens)`."""
        side, window = states.shape[1], self.attn.window
        place = torch.arange(side, device=states.device)
        region = (place >= side - window).long() + (place >= side - shift)
        regions = _cut_windows((3 * region[:, None] + region[None])[None, ..., None], window)[0, ..., 0]
        return _APART * (regions[:, None, :, None] != regions[:, None, None, :]).to(states.dtype)


class Merging(nn.Module):
    """Four neighbours become one token of twice the width."""

    def __init__(self, layout: Layout, prefix: str) -> None:
        super().__init__()
        width = layout.shape_of(f"{prefix}.reduction.weight")[1]
        self.norm, self.reduction = nn.LayerNorm(width), nn.Linear(width, width // 2, bias=False)

    def forward(self, states: Tensor) -> Tensor:
        """Take float `(batch, side, side, width)` to `(batch, side / 2, side / 2, 2 * width)`."""
        neighbours = [states[:, row::2, column::2] for column in (0, 1) for row in (0, 1)]
        return self.reduction(self.norm(torch.cat(neighbours, -1)))


class Swin(nn.Module):
    """Patches, stages of blocks, and a norm.

    Attributes:
        image_size: side of the picture, in pixels: the last stage is one window.
        width: of the tokens.
    """

    def __init__(
        self, layout: Layout, prefix: str, attention: Callable[[Layout, str], Network] = WindowAttention
    ) -> None:
        super().__init__()
        width, _, patch, _ = layout.shape_of(f"{prefix}.patch_embed.proj.weight")
        self.patch_embed = nn.Module()
        self.patch_embed.proj, self.patch_embed.norm = nn.Conv2d(3, width, patch, patch), nn.LayerNorm(width)
        self.layers = nn.ModuleList()
        stages = layout.count_parts(f"{prefix}.layers.{{}}.")
        for number in range(stages):
            name, stage = f"{prefix}.layers.{number}", nn.Module()
            blocks = [f"{name}.blocks.{k}" for k in range(layout.count_parts(f"{name}.blocks.{{}}."))]
            stage.blocks = nn.ModuleList(
                SwinBlock(layout, block, attention(layout, f"{block}.attn"), shifted=k % 2 == 1)
                for k, block in enumerate(blocks)
            )
            if number < stages - 1:
                stage.downsample = Merging(layout, f"{name}.downsample")
            elif layout.has_prefix(f"{name}.downsample."):
                raise ModelError(f"{layout.source} is incomplete: it lacks {prefix}.layers.{stages}.*")
            self.layers.append(stage)
        self.width = stage.blocks[-1].norm1.normalized_shape[0]
        self.norm = nn.LayerNorm(self.width)
        self.image_size = patch * 2 ** (len(self.layers) - 1) * self.layers[0].blocks[0].attn.window

    @property
    def steps(self) -> list[Network]:
        """Every block and every merging, in order."""
        return [step for stage in self.layers for step in (*stage.blocks, getattr(stage, "downsample", None)) if step]

    def embed_patches(self, pixel_values: Tensor) -> Tensor:
        """Take float `(batch, 3, h, w)` to patches `(batch, side, side, width)`."""
        return self.patch_embed.norm(self.patch_embed.proj(pixel_values).permute(0, 2, 3, 1))

    def forward(self, pixel_values: Tensor) -> Tensor:
        """Take float `(batch, 3, h, w)` to the last stage's tokens, normalised: `(batch, tokens, width)`."""
        states = self.embed_patches(pixel_values)
        for step in self.steps:
            states = step(states)
        return self.norm(states).flatten(1, 2)


def resize_bias_tables(tensors: dict[str, Tensor], size: int, *, stride: int = 32) -> dict[str, Tensor]:
    """Resize the biases of relative positions to an image size, bicubic on each head's table; METER and FIBER do so."""
    if size < stride or size % stride:
        raise ModelError(f"image_size={size}: a Swin tower reads multiples of {stride} pixels")
    new = 2 * (size // stride) - 1
    resized = dict(tensors)
    for name, table in tensors.items():
        old = round(len(table) ** 0.5) if name.endswith(_TABLE) else new
        if old != new:
            grid = table.float().T.reshape(1, -1, old, old)
            grid = nn.functional.interpolate(grid, size=(new, new), mode="bicubic", align_corners=False)
            resized[name] = grid.flatten(2)[0].T.contiguous()
    return resized


def _cut_windows(states: Tensor, window: int) -> Tensor:
    """Cut `(batch, side, side, width)` into windows `(batch, windows, tokens, width)`."""
    tiles = states.unflatten(1, (-1, window)).unflatten(3, (-1, window))  # rows, window, columns, window
    return tiles.transpose(2, 3).flatten(1, 2).flatten(2, 3)


def _join_windows(windows: Tensor, side: int) -> Tensor:
    """Lay windows out again: `(batch, side, side, width)`."""
    window = round(windows.shape[2] ** 0.5)
    tiles = windows.unflatten(2, (window, window)).unflatten(1, (side // window, side // window))
    return tiles.transpose(2, 3).flatten(3, 4).flatten(1, 2)
