"""The selection `refine`: adversarial refinement, after which scorers of the text alone are at chance."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from tellapart.builders.selections import Selection
from tellapart.data.item import Item
from tellapart.models.text.find import find_text_scorer, score_captions

__all__ = ["Refine", "ScorerSelection", "balance", "group_by"]


class ScorerSelection(Selection):
    """A selection by scorers of texts.

    Attributes:
        scorers: names of `tellapart.models.text.find.SCORERS`.
        by: the tag whose values are treated separately; empty for all of the set at once.
    """

    scorers: list[str] = Field(min_length=1)
    by: str = "subset"

    def models(self, home: Path) -> Mapping[str, str]:
        """Return the scorers with their fingerprints."""
        return {scorer.name: scorer.fingerprint for scorer in (find_text_scorer(name, home) for name in self.scorers)}


class Refine(ScorerSelection):
    """Leave out items until no scorer prefers the true captions, nor their weighted sum by much.

    Each item is a point: the scorers' gaps, true caption minus false one. Points are sorted into cells of a grid, and
    of each cell and its mirror image through the origin equally many stay. So every scorer prefers the true caption
    exactly as often as the false one, and wherever it is surer than the width of a cell, equally surely.

    Source: SugarCrepe's adversarial refinement (Hsieh et al., 2023). There the grid is 50 by 50 of one width and the
    choice within a cell has no seed; here a cell holds about equally many gaps per axis, and the choice depends on the
    recipe's seed and the items' ids alone.

    Attributes:
        scorers: names of `tellapart.models.text.find.SCORERS`; SugarCrepe takes two, of plausibility and of grammar.
        bins: of the size of a gap, on each side of zero.

    >>> texts = [("a dog", "a big dog"), ("a cat", "cat"), ("a cow on a bed", "a cow"), ("a red bus", "bus")]
    >>> items = [Item(id=str(k), images=("a.png",), texts=pair) for k, pair in enumerate(texts)]
    >>> Refine(scorers=["words"], bins=1).left_out(items, seed=1, home=Path("."))
    {'1': 'its cell outweighs the one opposite', '3': 'its cell outweighs the one opposite'}
    """

    scorers: list[str] = Field(min_length=1, max_length=4)
    bins: int = Field(default=10, ge=1, le=1000)

    def left_out(self, items: Sequence[Item], *, seed: int, home: Path) -> dict[str, str]:
        """Return the items whose cell outweighs its mirror image.

        Raises:
            DataError: an item is not of one image by two texts.
            ModelError: a scorer cannot be loaded, or gave a number that is not finite.
        """
        scores = [score_captions(find_text_scorer(name, home), items) for name in self.scorers]
        gaps = np.stack([pair[:, 0] - pair[:, 1] for pair in scores], axis=1)
        stays = np.ones(len(items), bool)
        for rows in group_by(items, self.by):
            stays[rows] = balance(gaps[rows], [items[row].id for row in rows], self.bins, seed)
        return {
            item.id: "its cell outweighs the one opposite" for item, stay in zip(items, stays, strict=True) if not stay
        }


def balance(gaps: NDArray[np.float64], ids: Sequence[str], bins: int, seed: int) -> NDArray[np.bool_]:
    """Return which points stay, so that every cell of a grid holds as many as its mirror image.

    The edges along an axis are quantiles of the sizes of the gaps, signs aside, so they are symmetric; a gap of zero
    has a separate cell, the mirror image of itself. In a cell with too many points, those with the lowest hashes of
    seed and id stay.

    Args:
        gaps: float64 `(item, scorer)`, finite.
        ids: of the items, distinct.
        bins: sizes on each side of zero.
        seed: of the choice.

    Returns:
        bool `(item,)`.

    >>> balance(np.array([[1.0], [1.0], [-1.0], [0.0]]), ["a", "b", "c", "d"], bins=1, seed=0).tolist()
    [True, False, True, True]
    """
    sizes, signs = np.abs(gaps), np.sign(gaps).astype(int)
    cells = np.zeros(gaps.shape, int)
    for axis in range(gaps.shape[1]):
        some = sizes[sizes[:, axis] > 0, axis]
        edges = np.unique(np.quantile(some, np.linspace(0, 1, bins + 1)[1:-1])) if len(some) else some
        cells[:, axis] = signs[:, axis] * (1 + np.searchsorted(edges, sizes[:, axis], side="right"))
    members: dict[tuple[int, ...], list[int]] = {}
    for row, cell in enumerate(cells.tolist()):
        members.setdefault(tuple(cell), []).append(row)
    stays = np.zeros(len(gaps), bool)
    for cell, rows in members.items():
        opposite = members.get(tuple(-number for number in cell), [])
        shuffled = sorted(rows, key=lambda row: hashlib.sha256(f"{seed}:{ids[row]}".encode()).digest())
        stays[shuffled[: len(opposite)]] = True
    return stays


def group_by(items: Sequence[Item], tag: str) -> list[list[int]]:
    """Return the positions of the items of each value of a tag, those without a value as one; without a tag, of all.

    >>> names = ("a1", "b1", "a2")
    >>> items = [Item(id=name, images=("a.png",), texts=("x",), tags={"subset": name[0]}) for name in names]
    >>> group_by(items, "subset"), group_by(items, "")
    ([[0, 2], [1]], [[0, 1, 2]])
    """
    groups: dict[str, list[int]] = {}
    for position, item in enumerate(items):
        groups.setdefault(item.tags.get(tag, "") if tag else "", []).append(position)
    return list(groups.values())
