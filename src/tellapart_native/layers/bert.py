"""BERT and RoBERTa under their published names, with cross-attention from any width: many families share them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from tellapart.errors import ModelError
from tellapart.models.torch.network import Network
from tellapart_native.family import Layout
from tellapart_native.module import nn


def attend_heads(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, heads: int) -> Tensor:
    """Attend by scaled dot products: `(batch, queries, width)`.

    `mask`: bool `(batch, keys)` or `(batch, queries, keys)`, True if a key may be attended to.
    """
    split = [states.unflatten(-1, (heads, -1)).transpose(1, 2) for states in (queries, keys, values)]
    allowed = None if mask is None else mask[:, None, None] if mask.ndim == 2 else mask[:, None]
    return nn.functional.scaled_dot_product_attention(*split, attn_mask=allowed).transpose(1, 2).flatten(2)


class SelfAttention(nn.Module):
    """Queries of some states, and keys and values of a `source`; that is cross-attention, unless both are the same."""

    def __init__(self, width: int, heads: int, source: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = nn.Linear(width, width), nn.Linear(source, width), nn.Linear(source, width)

    def forward(self, states: Tensor, source: Tensor, mask: Tensor | None) -> Tensor:
        """Attend from `states (batch, n, width)` to `source (batch, m, source width)`."""
        return attend_heads(self.query(states), self.key(source), self.value(source), mask, self.heads)


class AddAndNormalise(nn.Module):
    """A projection, the residual, and the norm after it."""

    def __init__(self, inner: int, width: int, eps: float) -> None:
        super().__init__()
        self.dense, self.LayerNorm = nn.Linear(inner, width), nn.LayerNorm(width, eps=eps)

    def forward(self, inner: Tensor, residual: Tensor) -> Tensor:
        """Project `inner`, add the residual, normalise."""
        return self.LayerNorm(self.dense(inner) + residual)


class Attention(nn.Module):
    """Attention with its output projection, residual and norm."""

    def __init__(self, width: int, heads: int, *, source: int | None = None, eps: float = 1e-12) -> None:
        super().__init__()
        self.self, self.output = SelfAttention(width, heads, source or width), AddAndNormalise(width, width, eps)

    def forward(self, states: Tensor, source: Tensor, mask: Tensor | None) -> Tensor:
        """Attend from `states` to `source`, and add the states."""
        return self.output(self.self(states, source, mask), states)


class BertLayer(nn.Module):
    """Self-attention, cross-attention if there is one, and a feed-forward part; norms come after the residuals."""

    def __init__(self, width: int, heads: int, inner: int, *, source: int | None = None, eps: float = 1e-12) -> None:
        super().__init__()
        self.attention = Attention(width, heads, eps=eps)
        if source is not None:
            self.crossattention = Attention(width, heads, source=source, eps=eps)
        self.intermediate = nn.Module()
        self.intermediate.dense = nn.Linear(width, inner)
        self.output = AddAndNormalise(inner, width, eps)

    def forward(
        self,
        states: Tensor,
        mask: Tensor | None,
        source: Tensor | None = None,
        source_mask: Tensor | None = None,
        *,
        seen: Tensor | None = None,
    ) -> Tensor:
        """Take states `(batch, n, width)` one layer up; bool masks `(batch, n)` are True on real tokens.

        A decoder's new tokens attend to `seen`: the states of all tokens so far, the new ones among them.
        """
        states = self.attention(states, states if seen is None else seen, mask)
        if source is not None:
            states = self.crossattention(states, source, source_mask)
        return self.feed_forward(states)

    def feed_forward(self, states: Tensor) -> Tensor:
        """Run the feed-forward part."""
        return self.output(nn.functional.gelu(self.intermediate.dense(states)), states)


class BertEmbeddings(nn.Module):
    """Embeddings of words, positions and, if the family has segments, the first segment, summed and normalised.

    RoBERTa counts positions from behind its padding token: `first_position` is 2 there. It has one segment, BLIP none.
    """

    def __init__(
        self, layout: Layout, prefix: str, *, segments: int = 2, eps: float = 1e-12, first_position: int = 0
    ) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(*layout.shape_of(f"{prefix}.word_embeddings.weight"))
        width = self.word_embeddings.embedding_dim
        self.position_embeddings = nn.Embedding(layout.shape_of(f"{prefix}.position_embeddings.weight")[0], width)
        if segments:
            self.token_type_embeddings = nn.Embedding(segments, width)
        self.LayerNorm, self.first_position = nn.LayerNorm(width, eps=eps), first_position

    def forward(self, ids: Tensor) -> Tensor:
        """Embed int64 `(batch, tokens)`, padded on the right: `(batch, tokens, width)`."""
        return self.LayerNorm(self.add_positions(ids))

    def add_positions(self, ids: Tensor) -> Tensor:
        """Return the sum of word, segment and position, before the norm."""
        states = self.word_embeddings(ids)
        if hasattr(self, "token_type_embeddings"):
            states = states + self.token_type_embeddings.weight[0]
        # Summed in the authors' order: FIBER's norms, of narrow states, turn the rounding of another into 1e-5.
        return states + self.position_embeddings.weight[self.first_position :][: ids.shape[1]]


class BertEncoder(nn.Module):
    """Layers numbered from 0."""

    def __init__(self, layers: Iterable[Network]) -> None:
        super().__init__()
        self.layer = nn.ModuleList(layers)


class Pooler(nn.Module):
    """The first token's state through a dense layer and tanh."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)

    def forward(self, states: Tensor) -> Tensor:
        """Pool `(batch, n, width)` to `(batch, width)`."""
        return self.dense(states[:, 0]).tanh()


class WordHead(nn.Module):
    """A dense layer, GELU and a norm; then the words' matrix and their biases."""

    def __init__(self, layout: Layout, prefix: str) -> None:
        super().__init__()
        words, width = layout.shape_of(f"{prefix}.decoder.weight")
        self.transform = nn.Module()
        self.transform.dense, self.transform.LayerNorm = nn.Linear(width, width), nn.LayerNorm(width, eps=1e-12)
        self.decoder, self.bias = nn.Linear(width, words, bias=False), nn.Parameter(torch.empty(words))

    def forward(self, states: Tensor) -> Tensor:
        """Return the logits of all words for each state: `(batch, n, words)`."""
        return self.decoder(self.transform.LayerNorm(nn.functional.gelu(self.transform.dense(states)))) + self.bias


class FusedBert(nn.Module):
    """Embeddings and layers without a pooler; the upper layers, from `fusion` on, also read the image."""

    def __init__(self, embeddings: Network, layers: Sequence[Network], fusion: int) -> None:
        super().__init__()
        self.embeddings, self.encoder, self.fusion = embeddings, BertEncoder(layers), fusion

    def read_text(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Run the lower layers on int64 and bool `(batch, tokens)`: `(batch, tokens, width)`."""
        states = self.embeddings(ids)
        for layer in self.encoder.layer[: self.fusion]:
            states = layer(states, mask)
        return states

    def join(self, states: Tensor, mask: Tensor, image: Tensor) -> Tensor:
        """Run the upper layers on a text's states and an image's tokens `(batch, n, image width)`."""
        for layer in self.encoder.layer[self.fusion :]:
            states = layer(states, mask, image)
        return states


def build_text(layout: Layout, *, segments: int = 2) -> FusedBert:
    """Build `text_encoder`, the text half, whose sizes and depths follow from the shapes."""
    embeddings = BertEmbeddings(layout, "text_encoder.embeddings", segments=segments)
    return FusedBert(embeddings, *build_crossed(layout, "text_encoder.encoder.layer"))


def build_layers(
    layout: Layout, prefix: str, heads: int | None = None, *, source: int | None = None, fusion: int = 0
) -> list[BertLayer]:
    """Build BERT's layers; with a `source`, those from `fusion` on have cross-attention to states of that width."""
    depth = layout.count_parts(f"{prefix}.{{}}.")
    inner, width = layout.shape_of(f"{prefix}.0.intermediate.dense.weight")
    heads = heads or layout.count_heads(width)
    return [BertLayer(width, heads, inner, source=source if k >= fusion else None) for k in range(depth)]


def build_crossed(layout: Layout, prefix: str) -> tuple[list[BertLayer], int]:
    """Build BERT's layers, and return the number of the first with cross-attention; all above it have that, too."""
    depth = layout.count_parts(f"{prefix}.{{}}.")
    fusion = depth - len(layout.find_layers(f"{prefix}.{{}}.crossattention."))
    source = layout.shape_of(f"{prefix}.{depth - 1}.crossattention.self.key.weight")[1]
    return build_layers(layout, prefix, source=source, fusion=fusion), fusion


def rename_text(name: str) -> str:
    """Return a text encoder's name as fine-tuned files have it; pre-trained ones have `text_encoder.bert.`."""
    return name.replace("text_encoder.bert.", "text_encoder.", 1)


#: The epsilon of RoBERTa's norms, and the position of its first token.
EPSILON = 1e-5
_FIRST_POSITION = 2


def build_roberta(
    layout: Layout, prefix: str, layer: Callable[[str, int, int, int], Network] | None = None
) -> FusedBert:
    """Build RoBERTa; its sizes follow from the shapes of `PREFIX.*`. It reads no image before its `layer`s do."""
    inner, width = layout.shape_of(f"{prefix}.encoder.layer.0.intermediate.dense.weight")
    heads = layout.count_heads(width)
    make = layer or (lambda _name, *sizes: BertLayer(*sizes, eps=EPSILON))
    names = [f"{prefix}.encoder.layer.{k}" for k in range(layout.count_parts(f"{prefix}.encoder.layer.{{}}."))]
    layers = [make(name, width, heads, inner) for name in names]
    embeddings = BertEmbeddings(layout, f"{prefix}.embeddings", segments=1, eps=EPSILON, first_position=_FIRST_POSITION)
    return FusedBert(embeddings, layers, sum(type(built) is BertLayer for built in layers))


def read_context(layout: Layout, prefix: str, default: int) -> int:
    """Return how many tokens a text may have: the number in the model's settings, else the default.

    A folder written here has `context`, the authors' configuration `max_text_len`.
    """
    longest = layout.shape_of(f"{prefix}.embeddings.position_embeddings.weight")[0] - _FIRST_POSITION
    name = "context" if "context" in layout.settings else "max_text_len"
    context = layout.settings.get(name, min(default, longest))
    if not isinstance(context, int) or not 3 <= context <= longest:
        raise ModelError(f"{layout.source}: {name} is {context}; an integer from 3 to {longest} is expected")
    return context
