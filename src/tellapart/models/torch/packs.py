"""Texts that begin alike, packed into forward passes in which each shared beginning is computed once.

In a causal text tower the state of a token depends on the tokens before it alone. So the tokens of many texts form a
tree: texts that begin with the same tokens share the nodes of that beginning. A pack is such a tree cut to a fixed
number of nodes. Only numbers are arranged here; `tellapart.models.torch.shared_beginnings` computes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Stands at the places of a text that its vector does not depend on: its padding.
HIDDEN = -1


@dataclass(frozen=True, slots=True, eq=False)
class Pack:
    """Texts whose distinct beginnings fit into one forward pass.

    Attributes:
        texts: the position of each text, int64 `(n,)`.
        tokens: the token of each node, int64 `(nodes,)`; behind the last node the first one is repeated.
        depths: the place of each node in its texts, int64 `(nodes,)`.
        nodes: the node at each place of each text, int64 `(n, length)`; 0 at hidden places.
        first: whether a place's node is met here for the first time, bool `(n, length)`: each node has one such place.
    """

    texts: NDArray[np.int64]
    tokens: NDArray[np.int64]
    depths: NDArray[np.int64]
    nodes: NDArray[np.int64]
    first: NDArray[np.bool_]


def pack_texts(tokens: NDArray[np.int64], size: int) -> Iterator[Pack]:
    """Sort texts by their tokens, and cut them into packs of at most `size` nodes.

    >>> ids = np.array([[7, 1, 2, 9], [7, 1, 3, 9], [7, 9, -1, -1]])
    >>> pack, = pack_texts(ids, 8)
    >>> pack.texts, pack.tokens
    (array([0, 1, 2]), array([7, 1, 2, 9, 3, 9, 9, 7]))
    >>> pack.nodes
    array([[0, 1, 2, 3],
           [0, 1, 4, 5],
           [0, 6, 0, 0]])
    """
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
