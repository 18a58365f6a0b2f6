"""BERT whose upper layers read the image, too: ALBEF's, X-VLM's and BLIP's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tellapart.models.torch.backend import import_torch
from tellapart_native.family import Layout
from tellapart_native.layers.bert import BertEmbeddings, BertEncoder, BertLayer

if TYPE_CHECKING:
    from torch import Tensor

    from tellapart.models.torch.network import Network

nn = import_torch().nn


class FusedBert(nn.Module):  # type: ignore[misc, name-defined]
    """BERT whose upper layers, from `fusion` on, also read the image."""

    def __init__(self, embeddings: Network, layers: Iterable[Network], fusion: int) -> None:
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


def build_text(layout: Layout, prefix: str = "text_encoder", *, segments: int = 2) -> FusedBert:
    """Build the text half, whose sizes and depths follow from the shapes."""
    embeddings = BertEmbeddings(layout, f"{prefix}.embeddings", segments=segments)
    layers, fusion = build_layers(layout, f"{prefix}.encoder.layer")
    return FusedBert(embeddings, layers, fusion)


def build_layers(layout: Layout, layer: str) -> tuple[list[BertLayer], int]:
    """Build BERT's layers, the last of which read other states, too, and return them and the first one of those."""
    depth = layout.count_parts(f"{layer}.{{}}.")
    fusion = depth - len(layout.find_layers(f"{layer}.{{}}.crossattention."))
    inner, width = layout.shape_of(f"{layer}.0.intermediate.dense.weight")
    heads = layout.count_heads(width)
    source = layout.shape_of(f"{layer}.{depth - 1}.crossattention.self.key.weight")[1]
    sources = [None] * fusion + [source] * (depth - fusion)
    return [BertLayer(width, heads, inner, source=source) for source in sources], fusion


def rename_text(name: str) -> str:
    """Return a text encoder's name as fine-tuned files have it; pre-trained ones have `text_encoder.bert.`."""
    return name.replace("text_encoder.bert.", "text_encoder.", 1)
