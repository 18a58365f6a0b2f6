"""The forward pass of causal text towers in which texts share the states of common beginnings.

A pack is a tree of beginnings, cut to a fixed number of nodes: as many as a batch of the plain pass has tokens. Norms,
projections and the MLP are computed once for each node; attention is computed text by text, in the shape of the plain
pass. So every product has the shapes of the plain pass, and the vectors are the same, bit for bit on a CPU
(docs/decisions/0023).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import import_torch
from tellapart.models.torch.network import Network, Tensor

#: Stands at the places of a text that its vector does not depend on: its padding.
HIDDEN = -1


@dataclass(frozen=True, slots=True, eq=False)
class Pack:
    """Texts whose distinct beginnings fit into one forward pass."""

    texts: NDArray[np.int64]  # the position of each text, (n,)
    tokens: NDArray[np.int64]  # of each node, (nodes,); behind the last node the first one is repeated
    depths: NDArray[np.int64]  # the place of each node in its texts, (nodes,)
    nodes: NDArray[np.int64]  # at each place of each text, (n, length); 0 at hidden places
    first: NDArray[np.bool_]  # whether a place's node is met here for the first time, (n, length)


def pack_texts(tokens: NDArray[np.int64], size: int) -> Iterator[Pack]:
    """Sort texts by their tokens, and cut them into packs of at most `size` nodes."""
    order = np.lexsort(tokens.T[::-1])
    ordered = tokens[order]
    seen = ordered != HIDDEN
    alone = seen.sum(axis=1)
    if len(alone) and alone.max() > size:
        raise ValueError(f"a text of {alone.max()} tokens does not fit into size={size} nodes")
    fresh = seen.copy()  # whether the text before shares a place's node
    fresh[1:] &= np.logical_or.accumulate(ordered[1:] != ordered[:-1], axis=1)
    start, total = 0, 0
    for position, new in enumerate([*fresh.sum(axis=1).tolist(), size + 1]):
        if position and total + new > size:
            part = slice(start, position)
            yield _make_pack(order[part], ordered[part], fresh[part], size)
            start, total = position, 0
        if position < len(alone):
            total += new if total else int(alone[position])


def _make_pack(texts: NDArray[np.int64], ordered: NDArray[np.int64], fresh: NDArray[np.bool_], size: int) -> Pack:
    seen = ordered != HIDDEN
    first = np.concatenate([seen[:1], fresh[1:]])  # the text before belongs to another pack
    rows, places = np.nonzero(first)
    nodes = np.zeros(ordered.shape, np.int64)
    nodes[first] = np.arange(len(rows))
    # In a column numbers rise, and a place that is not new has the node of the nearest one above that is.
    nodes = np.where(seen, np.maximum.accumulate(nodes, axis=0), 0)
    filled = np.zeros((2, size), np.int64)
    filled[:, : len(rows)] = ordered[first], places
    filled[:, len(rows) :] = filled[:, :1]
    return Pack(texts, filled[0], filled[1], nodes, first)


#: Modules of torch that are parts of the towers here.
_KINDS = (
    "activation.GELU", "activation.MultiheadAttention", "container.ModuleList", "container.Sequential",
    "linear.Identity", "linear.Linear", "linear.NonDynamicallyQuantizableLinear", "normalization.LayerNorm",
    "sparse.Embedding",
)  # fmt: skip
TORCH_MODULES = frozenset(f"torch.nn.modules.{kind}" for kind in _KINDS)


@dataclass(frozen=True, slots=True)
class CausalLayer:
    """A layer of a causal tower, cut at its attention. Each row of the states, `(nodes, width)`, is computed alone."""

    heads: int
    project: Callable[[Tensor], Tensor]  # states -> queries, keys and values, `(nodes, 3 * width)`
    mix: Callable[[Tensor], Tensor]  # the attention's mixture of values -> what is added to the states
    mlp: Callable[[Tensor], Tensor]  # states -> what the MLP adds to them


@dataclass(frozen=True, slots=True)
class CausalTower:
    """The parts of a causal text tower's forward pass."""

    embed: Callable[[Tensor, Tensor], Tensor]  # tokens and their places, `(nodes,)` each -> states `(nodes, width)`
    layers: Sequence[CausalLayer]
    read: Callable[[Tensor], Tensor]  # states at which texts are read -> features
    mask: Callable[[Sequence[int]], Tensor]  # texts by position -> the mask of `scaled_dot_product_attention`


def are_untouched(modules: Iterable[Network], known: Collection[str]) -> bool:
    """Return whether modules and their parts are of known classes, and compute as these do."""
    torch = import_torch()
    everywhere = torch.nn.modules.module

    def is_untouched(part: Any) -> bool:
        kind = type(part)
        name = f"{kind.__module__}.{kind.__qualname__}"
        return (
            (name in TORCH_MODULES or name in known)
            and kind.forward.__module__.partition(".")[0] in {"torch", name.partition(".")[0]}
            and "forward" not in vars(part)
            and not (part._forward_hooks or part._forward_pre_hooks or part._compiled_call_impl or part.training)
            and all(type(weight) is torch.nn.Parameter for weight in part._parameters.values() if weight is not None)
        )

    if everywhere._global_forward_hooks or everywhere._global_forward_pre_hooks:
        return False
    return all(is_untouched(part) for module in modules for part in module.modules())


def encode_packs(tower: CausalTower, tokens: NDArray[np.int64], ends: NDArray[np.int64], size: int) -> Tensor:
    """Return the features of texts of one padded length, `(n, dimensions)`."""
    torch = import_torch()
    parts, positions = [], []
    for pack in pack_texts(tokens, size * tokens.shape[1]):
        batches = [_Batch(tower, pack, start, size) for start in range(0, len(pack.texts), size)]
        states = tower.embed(torch.from_numpy(pack.tokens), torch.from_numpy(pack.depths))  # (nodes, width)
        for layer in tower.layers:
            projected = layer.project(states)
            mixed = torch.zeros_like(states)
            for batch in batches:
                batch.attend(projected, layer.heads, mixed)
            states = states + layer.mix(mixed)
            states = states + layer.mlp(states)
        for start, batch in zip(range(0, len(pack.texts), size), batches, strict=True):
            read = np.take_along_axis(batch.nodes, ends[batch.texts][:, None], axis=1)[:, 0]
            parts.append(tower.read(states[torch.from_numpy(read)])[: len(pack.texts) - start])
        positions.append(pack.texts)
    return torch.cat(parts)[torch.from_numpy(np.concatenate(positions).argsort())]


class _Batch:
    """The texts of a pack whose attention is computed at once: as many as in the plain pass, the last one repeated."""

    def __init__(self, tower: CausalTower, pack: Pack, start: int, size: int) -> None:
        torch = import_torch()
        text_rows = np.minimum(np.arange(start, start + size), len(pack.texts) - 1)
        self.texts, self.nodes = pack.texts[text_rows], pack.nodes[text_rows]  # (size,), (size, length)
        first = pack.first[text_rows] & (np.arange(start, start + size) == text_rows)[:, None]
        self._mask = tower.mask(self.texts.tolist())
        self._every = torch.from_numpy(self.nodes.reshape(-1))  # the node of each place
        self._places = torch.from_numpy(np.flatnonzero(first))  # those with new nodes
        self._new = torch.from_numpy(self.nodes[first])

    def attend(self, projected: Tensor, heads: int, mixed: Tensor) -> None:
        """Mix values `(nodes, 3 * width)` text by text, and write the rows of this batch's new nodes into `mixed`."""
        (size, length), width = self.nodes.shape, mixed.shape[1]
        parts = projected.index_select(0, self._every).view(size, length, 3, heads, width // heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)  # (size, heads, length, width / heads) each
        attend = import_torch().nn.functional.scaled_dot_product_attention
        out = attend(query, key, value, self._mask).transpose(1, 2).reshape(size * length, width)
        mixed.index_copy_(0, self._new, out.index_select(0, self._places))
