"""OFA's encoder and decoder under fairseq's names: pre-norm BART with NormFormer's norms, positions as attention bias.

Absolute positions have separate queries and keys, whose products are the same for every picture and text of one
length; to them each layer adds a table of relative positions, among the text's tokens and among the picture's cells.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tellapart.models.torch.backend import import_torch
from tellapart_native.family import Layout
from tellapart_native.heads.decoding import Past, read_before
from tellapart_native.module import build_linear

if TYPE_CHECKING:
    from torch import Tensor, dtype

    from tellapart.models.torch.network import Network

torch = import_torch()
nn = torch.nn

__all__ = ["Decoder", "Encoder", "cell_distances", "token_buckets"]

#: Tokens at which the buckets of relative positions end.
_FURTHEST = 1024

#: Rows behind those of offsets between cells, in a table of them.
_MARKS = 3

#: Factor of a head's width under the root, for a file without one.
_SCALE = 2.0


def token_buckets(length: int, half: int) -> Tensor:
    """Return the row of each pair of tokens, query by key, in a table of `2 * half - 1` rows: `(length, length)`.

    Up to half of `half` each distance has a row; further away rows grow by equal ratios.
    """
    place = torch.arange(length)
    apart, middle = place[:, None] - place[None, :], half // 2
    distance = apart.abs().clamp(min=1)
    ratio = torch.log(distance / middle) / math.log((_FURTHEST - 1) / middle)
    far = (torch.ceil(ratio * (middle - 1)) + middle).long() * apart.sign()
    return torch.where(distance <= middle, apart, far) + half - 1


def cell_distances(rows: int, columns: int, side: int) -> Tensor:
    """Return the row of each pair of cells in a table of `(2 * side - 1) ** 2` offsets: `(cells, cells)`."""
    down, right = torch.arange(rows).repeat_interleave(columns), torch.arange(columns).repeat(rows)
    return (down[:, None] - down + side - 1) * (2 * side - 1) + right[:, None] - right + side - 1


class _Attention(nn.Module):  # type: ignore[misc, name-defined]
    """Attention with a bias, whose heads are weighed."""

    def __init__(self, layout: Layout, width: int, heads: int) -> None:
        super().__init__()
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, part, nn.Linear(width, width))
        self.heads, self.scale = heads, _query_scale(layout, width // heads)
        self.c_attn = nn.Parameter(torch.empty(heads))

    def forward(self, states: Tensor, source: Tensor, bias: Tensor) -> Tensor:
        """Read `source (batch, m, width)` from `states (batch, n, width)`."""
        split = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (self.q_proj(states), self.k_proj(source), self.v_proj(source))
        )
        read = nn.functional.scaled_dot_product_attention(*split, attn_mask=bias, scale=self.scale)
        return self.out_proj((read * self.c_attn[:, None, None]).transpose(1, 2).flatten(2))


def _query_scale(layout: Layout, each: int) -> float:
    return 1 / math.sqrt(each * float(layout.settings.get("attn_scale_factor", _SCALE)))


class _Layer(nn.Module):  # type: ignore[misc, name-defined]
    """Attention, in a decoder also to the encoder, and the feed-forward part, between norms."""

    def __init__(self, layout: Layout, prefix: str, width: int, heads: int) -> None:
        super().__init__()
        self.decodes = prefix.startswith("decoder.")
        self.self_attn = _Attention(layout, width, heads)
        if self.decodes:
            self.encoder_attn = _Attention(layout, width, heads)
        crossed = ("self_attn_ln", "encoder_attn_layer_norm", "cross_attn_ln") if self.decodes else ("attn_ln",)
        for name in ("self_attn_layer_norm", *crossed, "final_layer_norm"):
            setattr(self, name, nn.LayerNorm(width))
        self.fc1 = build_linear(layout, f"{prefix}.fc1", width)
        self.ffn_layernorm = nn.LayerNorm(self.fc1.out_features)
        self.fc2 = nn.Linear(self.fc1.out_features, width)

    def forward(
        self,
        states: Tensor,
        bias: Tensor,
        source: Tensor | None = None,
        source_bias: Tensor | None = None,
        *,
        seen: Tensor | None = None,
    ) -> Tensor:
        """Take `(batch, n, width)` one layer up; new tokens read `seen`, which are the states of all tokens so far."""
        read = self.self_attn_layer_norm(states if seen is None else seen)
        own = self.self_attn(read[:, -states.shape[1] :], read, bias)
        states = states + (self.self_attn_ln if self.decodes else self.attn_ln)(own)
        if self.decodes:
            crossed = self.encoder_attn(self.encoder_attn_layer_norm(states), source, source_bias)
            states = states + self.cross_attn_ln(crossed)
        inner = nn.functional.gelu(self.fc1(self.final_layer_norm(states)))
        return states + self.fc2(self.ffn_layernorm(inner))


class _Stack(nn.Module):  # type: ignore[misc, name-defined]
    """The parts of encoder and decoder alike: layers, positions, tables of relative positions."""

    def __init__(self, layout: Layout, prefix: str, links: tuple[str, ...]) -> None:
        super().__init__()
        rows, self.heads = layout.shape_of(f"{prefix}.token_rel_pos_table_list.0.weight")
        names = [f"{prefix}.layers.{k}" for k in range(layout.count_parts(f"{prefix}.layers.{{}}."))]
        positions, width = layout.shape_of(f"{prefix}.embed_positions.weight")
        self.layers = nn.ModuleList(_Layer(layout, name, width, self.heads) for name in names)
        self.token_rel_pos_table_list = nn.ModuleList(nn.Embedding(rows, self.heads) for _ in names)
        self.embed_positions = nn.Embedding(positions, width)
        for name in ("pos_ln", "layer_norm", "layernorm_embedding"):
            setattr(self, name, nn.LayerNorm(width))
        for link in links:
            for part in ("q", "k"):
                setattr(self, f"{link}_{part}_linear", nn.Linear(width, width))
        self.position_scale = _query_scale(layout, width // self.heads)
        self.embed_scale = 1.0 if layout.settings.get("no_scale_embedding", True) else math.sqrt(width)

    def relate_positions(self, link: str, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the bias of absolute positions, of normalised positions `(n, width)`: `(1, heads, n, m)`."""
        query, key = (
            getattr(self, f"{link}_{part}_linear")(places).unflatten(-1, (self.heads, -1)).transpose(0, 1)
            for part, places in (("q", queries), ("k", keys))
        )
        return (query * self.position_scale @ key.transpose(1, 2))[None]

    def token_bias(self, length: int, layer: int) -> Tensor:
        """Return a layer's bias of relative positions among tokens: `(heads, length, length)`."""
        table = self.token_rel_pos_table_list[layer]
        return table(token_buckets(length, (table.num_embeddings + 1) // 2).to(table.weight.device)).permute(2, 0, 1)


class Encoder(_Stack):
    """Reads a picture's cells, then a text's tokens.

    Args:
        layout: shapes of the tensors.
        resnet: reads the pixels.
    """

    def __init__(self, layout: Layout, resnet: Network) -> None:
        super().__init__(layout, "encoder", ("pos",))
        width = self.embed_positions.embedding_dim
        self.embed_tokens = nn.Embedding(layout.shape_of("encoder.embed_tokens.weight")[0], width)
        self.type_embedding = nn.Embedding(2, width)
        self.embed_images, self.image_proj = resnet, nn.Linear(resnet.width, width)
        self.side = math.isqrt(layout.shape_of("encoder.embed_image_positions.weight")[0] - 1)
        self.embed_image_positions = nn.Embedding(self.side**2 + 1, width)
        for name in ("image_pos_ln", "patch_layernorm_embedding"):
            setattr(self, name, nn.LayerNorm(width))
        offsets = (2 * self.side - 1) ** 2 + _MARKS
        self.image_rel_pos_table_list = nn.ModuleList(nn.Embedding(offsets, self.heads) for _ in self.layers)
        self.entangled = bool(layout.settings.get("entangle_position_embedding", False))

    def embed_picture(self, pixel_values: Tensor) -> Tensor:
        """Read float `(batch, 3, h, w)`: a grid of cells `(batch, h / 16, w / 16, width)`."""
        return self.image_proj(self.embed_images(pixel_values).permute(0, 2, 3, 1))

    def forward(self, grid: Tensor, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Read a grid of cells and int64 `(batch, tokens)`, of which the bool mask hides the padding.

        Returns:
            States `(batch, cells + tokens, width)`, and the positions, normalised: `(cells + tokens, width)`.
        """
        (rows, columns), tokens = grid.shape[1:3], ids.shape[1]
        cells = rows * columns
        down, right = (torch.arange(sides, device=ids.device) for sides in (rows, columns))
        image_places = self.embed_image_positions((down[:, None] * self.side + right + 1).flatten())
        places = self.embed_positions.weight[:tokens]
        image, text = grid.flatten(1, 2) * self.embed_scale, self.embed_tokens(ids) * self.embed_scale
        if self.entangled:
            image, text = image + image_places, text + places
        image = self.patch_layernorm_embedding(image + self.type_embedding.weight[1])
        text = self.layernorm_embedding(text + self.type_embedding.weight[0])
        states = torch.cat([image, text], dim=1)
        positions = torch.cat([self.image_pos_ln(image_places), self.pos_ln(places)])
        absolute = self.relate_positions("pos", positions, positions)
        hidden = hide_cells(mask, cells, states.dtype)
        apart = cell_distances(rows, columns, self.side).to(ids.device)
        for k, layer in enumerate(self.layers):
            among_cells = self.image_rel_pos_table_list[k](apart).permute(2, 0, 1)
            relative = nn.functional.pad(among_cells, (0, tokens, 0, tokens))
            relative = relative + nn.functional.pad(self.token_bias(tokens, k), (cells, 0, cells, 0))
            states = layer(states, absolute + relative + hidden)
        return self.layer_norm(states), positions


class Decoder(_Stack):
    """Reads the words so far, and the encoder's states."""

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout, "decoder", ("self_pos", "cross_pos"))
        self.entangled = not layout.settings.get("disable_entangle", True)

    def forward(
        self, ids: Tensor, words: Network, source: tuple[Tensor, Tensor, Tensor], past: Past | None = None
    ) -> Tensor:
        """Return states at each of int64 `(batch, tokens)`, or each that is not past: `(batch, tokens, width)`.

        Args:
            ids: all tokens so far.
            words: the embedding of them.
            source: the encoder's states, their positions `(cells + tokens, width)`, and the mask of its padding.
            past: states of earlier tokens; it grows.
        """
        length, (states, source_places, hidden) = ids.shape[1], source
        new = length - (past.length if past else 0)
        places = self.embed_positions.weight[:length]
        text = words(ids[:, -new:]) * self.embed_scale
        text = self.layernorm_embedding(text + places[-new:] if self.entangled else text)
        places = self.pos_ln(places)
        absolute = self.relate_positions("self_pos", places[-new:], places)
        later = torch.zeros((), dtype=text.dtype, device=ids.device).where(
            read_before(ids[:1], new), torch.finfo(text.dtype).min
        )
        crossed = self.relate_positions("cross_pos", places[-new:], source_places) + hidden
        for k, layer in enumerate(self.layers):
            seen = None if past is None else past.add_states(k, text)
            bias = absolute + self.token_bias(length, k)[:, -new:] + later
            text = layer(text, bias, states, crossed, seen=seen)
        return self.layer_norm(text)


def hide_cells(mask: Tensor, cells: int, precision: dtype) -> Tensor:
    """Return the summand of attention that hides padding behind a picture: `(batch, 1, 1, cells + n)`."""
    padded = nn.functional.pad(~mask, (cells, 0))[:, None, None]
    return padded.to(precision) * torch.finfo(precision).min
