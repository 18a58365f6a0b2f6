"""Open CapPa (the open reproduction of Tschannen et al. 2023): a ViT and a decoder that writes the caption.

The published file is a checkpoint of orbax, which needs jax; `examples/convert/cappa.py` makes the safetensors file
that is read here, under the names below. It was built from a description of the model and not compared with the
authors' code. The description leaves these open, and they are as in jax and flax unless noted: positions
are resized with the anti-aliased kernel of `jax.image.resize`, GELU is the tanh form, norms add 1e-6, and queries and
keys are normalised before they are rotated.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tellapart.models.fusion.family import Tensors
from tellapart.models.torch.network import Network
from tellapart_native.family import Layout, NativeFamily, Reading
from tellapart_native.heads.decoding import ByToken, Likelihood, Past
from tellapart_native.heads.matching import combine_halves
from tellapart_native.module import NativeConfig, build_linear, nn
from tellapart_native.preprocessing import HALF_COLOURS, square_inputs

#: Tokens of a caption in BiVLC's code, and the side of its images in pixels.
_CONTEXT, _IMAGE_SIZE = 64, 256

#: Places of a row, and of a column, in the tables of positions; tokens behind the patches.
_SIDE, _REGISTERS = 32, 8
_EPS = 1e-6


def rotate_states(states: Tensor, base: float = 10000.0) -> Tensor:
    """Turn each half-pair of `(batch, heads, places, dimensions)` by an angle that grows with its place (RoPE)."""
    half, places = states.shape[-1] // 2, torch.arange(states.shape[-2], device=states.device, dtype=torch.float32)
    turns = base ** (-torch.arange(half, device=states.device, dtype=torch.float32) / half)
    cos, sin = (part.to(states.dtype) for part in ((places[:, None] * turns).cos(), (places[:, None] * turns).sin()))
    first, second = states.split(half, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


class Attention(nn.Module):
    """Attention without biases, whose queries and keys are divided by their root mean square in each head."""

    def __init__(self, layout: Layout, prefix: str, width: int) -> None:
        super().__init__()
        for part in ("query", "key", "value", "out"):
            setattr(self, part, nn.Linear(width, width, bias=False))
        (self.each,) = layout.shape_of(f"{prefix}.norm_query.weight")
        self.norm_query, self.norm_key = nn.RMSNorm(self.each, _EPS), nn.RMSNorm(self.each, _EPS)

    def forward(self, states: Tensor, source: Tensor | None = None, *, causal: bool = False) -> Tensor:
        """Read the source `(batch, m, width)`, the states `(batch, n, width)` themselves if there is none.

        With `causal`, a rotation marks places, and none reads a later one.
        """
        source = states if source is None else source
        query, key, value = (
            part(into).unflatten(-1, (-1, self.each)).transpose(1, 2)
            for part, into in ((self.query, states), (self.key, source), (self.value, source))
        )
        query, key = self.norm_query(query), self.norm_key(key)
        if causal:
            query, key = rotate_states(query), rotate_states(key)
        read = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=causal)
        return self.out(read.transpose(1, 2).flatten(2))


class _GatedMlp(nn.Module):
    def __init__(self, layout: Layout, prefix: str, width: int) -> None:
        super().__init__()
        self.wi_0 = build_linear(layout, f"{prefix}.wi_0", width, bias=False)
        inner = self.wi_0.out_features
        self.wi_1, self.wo = nn.Linear(width, inner, bias=False), nn.Linear(inner, width, bias=False)

    def forward(self, states: Tensor) -> Tensor:
        return self.wo(nn.functional.gelu(self.wi_0(states), approximate="tanh") * self.wi_1(states))


class Block(nn.Module):
    """Attention, in the decoder also to the image, and the gated layers; each behind a plain norm."""

    def __init__(self, layout: Layout, prefix: str, width: int) -> None:
        super().__init__()
        self.attention = Attention(layout, f"{prefix}.attention", width)
        self.mlp = _GatedMlp(layout, f"{prefix}.mlp", width)
        crossed = prefix.startswith("text.")
        self.cross_attention = Attention(layout, f"{prefix}.cross_attention", width) if crossed else None

    def forward(self, states: Tensor, image: Tensor | None = None) -> Tensor:
        """Run on `(batch, n, width)`; in the decoder on an image's tokens `(batch, m, width)`, too."""
        states = states + self.attention(_plain_norm(states), causal=image is not None)
        if self.cross_attention is not None:
            states = states + self.cross_attention(_plain_norm(states), image)
        return states + self.mlp(_plain_norm(states))


def _plain_norm(states: Tensor) -> Tensor:
    """Normalise `(..., width)` without a scale and a bias."""
    return nn.functional.layer_norm(states, states.shape[-1:], eps=_EPS)


class _Vision(nn.Module):
    """A ViT whose positions are a row's and a column's, with register tokens behind the patches."""

    def __init__(self, layout: Layout, prefix: str = "vision") -> None:
        super().__init__()
        width, _, patch, _ = layout.shape_of(f"{prefix}.patch.weight")
        self.patch = nn.Conv2d(3, width, patch, stride=patch, bias=False)
        for table, count in (("rows", _SIDE), ("columns", _SIDE), ("registers", _REGISTERS)):
            setattr(self, table, nn.Parameter(torch.empty(count, width)))
        self.blocks = _build_blocks(layout, prefix, width)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """Read float `(batch, 3, h, w)`: `(batch, patches + registers, width)`."""
        grid = self.patch(pixel_values).permute(0, 2, 3, 1)
        rows, columns = map(resize_linearly, (self.rows, self.columns), grid.shape[1:3])
        states = (grid + rows[:, None] + columns).flatten(1, 2)
        states = torch.cat([states, self.registers.expand(len(states), -1, -1)], dim=1)
        for block in self.blocks:
            states = block(states)
        return _plain_norm(states)


class _Text(nn.Module):
    """A decoder that reads the words so far, and the image at every layer."""

    def __init__(self, layout: Layout, prefix: str = "text") -> None:
        super().__init__()
        words, width = layout.shape_of(f"{prefix}.embedding.weight")
        self.embedding, self.logits = nn.Embedding(words, width), nn.Linear(width, words)
        self.blocks = _build_blocks(layout, prefix, width)

    def forward(self, ids: Tensor, image: Tensor) -> Tensor:
        """Return logits of the token behind each of int64 `(batch, tokens)`: `(batch, tokens, vocabulary)`."""
        states = self.embedding(ids)
        for block in self.blocks:
            states = block(states, image)
        return self.logits(_plain_norm(states))


def _build_blocks(layout: Layout, prefix: str, width: int) -> Any:
    names = [f"{prefix}.blocks.{number}" for number in range(layout.count_parts(f"{prefix}.blocks.{{}}."))]
    return nn.ModuleList(Block(layout, name, width) for name in names)


def resize_linearly(table: Tensor, size: int) -> Tensor:
    """Resize positions `(rows, width)` to `(size, width)`, linearly: fewer ones are means of the old."""
    rows = len(table)
    if rows == size:
        return table
    step = rows / size
    places = torch.arange(rows, device=table.device, dtype=torch.float32)
    centres = (torch.arange(size, device=table.device, dtype=torch.float32) + 0.5) * step - 0.5
    weights = (1 - (places - centres[:, None]).abs() / max(step, 1)).clamp(min=0)
    return (weights / weights.sum(1, keepdim=True) @ table.float()).to(table.dtype)


class Cappa(Likelihood):
    """An image's tokens, and log P of a caption."""

    def images(self, pixel_values: Tensor) -> Tensors:
        """Run the vision tower on float `(batch, 3, h, w)`: `(batch, patches + registers, width)`."""
        return (self.module.vision(pixel_values),)

    def decode(self, ids: Tensor, images: Tensors, past: Past | None = None) -> Tensor:
        """Run the decoder: `(batch, tokens, words)`; nothing past is kept, as no search of the authors is known."""
        del past
        return self.module.text(ids, images[0])


def _build_cappa(layout: Layout) -> Network:
    module = nn.Module()
    module.vision, module.text = _Vision(layout), _Text(layout)
    size = int(layout.settings.get("image_size", _IMAGE_SIZE))
    words = module.text.embedding.num_embeddings
    module.config = NativeConfig("cappa", vocab_size=words, context=_CONTEXT, image_size=size, layout=layout)
    return module


FAMILY = NativeFamily(
    name="cappa",
    title="Open CapPa",
    build=_build_cappa,
    readings={
        "likelihood": Reading(Cappa, "likelihood", "text.logits.weight"),
        "mean_likelihood": Reading(combine_halves("CappaMean", ByToken, Cappa), "likelihood", "text.logits.weight"),
    },
    images=lambda module: square_inputs(module.config.image_size, HALF_COLOURS),
    vocabulary="boris/cappa-large-patch16-256-jax",
)
