"""RoBERTa: BERT's layers, whose norms have another epsilon, and whose positions begin behind the padding's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from tellapart.errors import ModelError
from tellapart.models.torch.backend import import_torch
from tellapart_native.family import Layout
from tellapart_native.layers.bert import BertEmbeddings, BertEncoder, BertLayer

if TYPE_CHECKING:
    from torch import Tensor

    from tellapart.models.torch.network import Network

nn = import_torch().nn

#: Of RoBERTa's norms.
EPSILON = 1e-5

_FIRST_POSITION = 2


class Roberta(nn.Module):  # type: ignore[misc, name-defined]
    """Embeddings and layers, without a pooler."""

    def __init__(self, embeddings: Network, layers: Iterable[Network]) -> None:
        super().__init__()
        self.embeddings, self.encoder = embeddings, BertEncoder(layers)

    def forward(self, ids: Tensor, mask: Tensor, depth: int | None = None) -> Tensor:
        """Run the layers, or the first `depth`, on int64 and bool `(batch, tokens)`: `(batch, tokens, width)`."""
        states = self.embeddings(ids)
        for layer in self.encoder.layer[:depth]:
            states = layer(states, mask)
        return states


def build_roberta(layout: Layout, prefix: str, layer: Callable[[str, int, int, int], Network] | None = None) -> Roberta:
    """Build RoBERTa; its sizes follow from the shapes of `PREFIX.*`."""
    inner, width = layout.shape_of(f"{prefix}.encoder.layer.0.intermediate.dense.weight")
    heads = layout.count_heads(width)
    make = layer or (lambda _name, *sizes: BertLayer(*sizes, eps=EPSILON))
    layers = [
        make(f"{prefix}.encoder.layer.{k}", width, heads, inner)
        for k in range(layout.count_parts(f"{prefix}.encoder.layer.{{}}."))
    ]
    embeddings = BertEmbeddings(layout, f"{prefix}.embeddings", segments=1, eps=EPSILON, first_position=_FIRST_POSITION)
    return Roberta(embeddings, layers)


def read_context(layout: Layout, prefix: str, usual: int) -> int:
    """Return how many tokens a text may have: the file's number, else the authors' usual one.

    A folder written here has `context`, the authors' configuration `max_text_len`.
    """
    longest = layout.shape_of(f"{prefix}.embeddings.position_embeddings.weight")[0] - _FIRST_POSITION
    name = "context" if "context" in layout.settings else "max_text_len"
    context = layout.settings.get(name, min(usual, longest))
    if not isinstance(context, int) or not 3 <= context <= longest:
        raise ModelError(f"{layout.source}: {name} is {context}; an integer from 3 to {longest} is expected")
    return context
