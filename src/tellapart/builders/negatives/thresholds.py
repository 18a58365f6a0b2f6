"""Selections of false captions by text-only scorers and by their similarity to the true captions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from tellapart.builders.selections import Selection
from tellapart.data.item import Item
from tellapart.errors import DataError, ModelError
from tellapart.models.find import find_model
from tellapart.models.protocols import DualEncoder
from tellapart.models.text.find import file_states, find_text_scorer, resolve_beside, score_captions


class ScorerSelection(Selection):
    """A selection by scorers of texts.

    Attributes:
        scorers: names of `tellapart.models.text.find.SCORERS`.
        by: a tag; the items of each of its values are selected separately. If empty, all are selected at once.
    """

    scorers: list[str] = Field(min_length=1)
    by: str = "subset"

    def models(self, home: Path) -> Mapping[str, str]:
        """Return the scorers with their fingerprints."""
        return {scorer.name: scorer.fingerprint for scorer in (find_text_scorer(name, home) for name in self.scorers)}


class Refine(ScorerSelection):
    """Leave out items until no scorer prefers the true captions, nor their weighted sum by much.

    Each item is a point: for each scorer its gap, the true caption's score minus the false one's. Points are sorted
    into cells of a grid; of each cell and its mirror image through the origin, equally many points stay. So every
    scorer prefers the true caption exactly as often as the false one, and with gaps of the same size, up to a cell.

    Source: SugarCrepe's adversarial refinement (Hsieh et al., 2023). There the grid is 50 by 50 of one width and the
    choice within a cell has no seed; here a cell holds about equally many gaps per axis, and the choice depends on the
    recipe's seed and the items' ids alone.

    Attributes:
        scorers: names of `tellapart.models.text.find.SCORERS`; SugarCrepe takes two, of plausibility and of grammar.
        bins: the number of cells along an axis on each side of zero.
    """

    scorers: list[str] = Field(min_length=1, max_length=4)
    bins: int = Field(default=10, ge=1, le=1000)

    def left_out(self, items: Sequence[Item], *, seed: int, home: Path) -> dict[str, str]:
        """Return the items whose cell outweighs its mirror image."""
        scores = [score_captions(find_text_scorer(name, home), items) for name in self.scorers]
        gaps = np.stack([pair[:, 0] - pair[:, 1] for pair in scores], axis=1)
        stays = np.ones(len(items), bool)
        for rows in group_by(items, self.by):
            stays[rows] = balance(gaps[rows], [items[row].id for row in rows], self.bins, seed)
        return {
            item.id: "its cell outweighs the one opposite" for item, stay in zip(items, stays, strict=True) if not stay
        }


def balance(gaps: NDArray[np.float64], ids: Sequence[str], bins: int, seed: int) -> NDArray[np.bool_]:
    """Return which points stay, so that every cell of a grid has as many as its mirror image: bool `(item,)`.

    `gaps` is float64 `(item, scorer)`. The edges along an axis are quantiles of the absolute gaps, so they are
    symmetric; a gap of zero has a separate cell, the mirror image of itself. In a cell with too many points, those
    with the lowest hashes of seed and id stay.
    """
    sizes, signs = np.abs(gaps), np.sign(gaps).astype(int)
    cells = np.zeros(gaps.shape, int)
    for axis in range(gaps.shape[1]):
        nonzero = sizes[sizes[:, axis] > 0, axis]
        edges = np.unique(np.quantile(nonzero, np.linspace(0, 1, bins + 1)[1:-1])) if len(nonzero) else nonzero
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
    """Return the positions of the items by their value of a tag, or of all items if no tag is named."""
    groups: dict[str, list[int]] = {}
    for position, item in enumerate(items):
        groups.setdefault(item.tags.get(tag, "") if tag else "", []).append(position)
    return list(groups.values())


class Quantile(ScorerSelection):
    """Keep items whose false caption reaches a quantile of every scorer's scores, such as plausibility and grammar.

    Source: TROHN-Text keeps captions that reach the 0.645 quantile of Vera and of a CoLA classifier, in each subtype
    (BiVLC's code, Miranda et al., 2024). A quantile is of the false captions of all items that came in.

    Attributes:
        scorers: names of `tellapart.models.text.find.SCORERS`.
        q: the quantile.
        minimum: a score that must be reached, too; only with a single scorer.
    """

    q: float = Field(default=0.645, ge=0.0, le=1.0)
    minimum: float | None = None

    @model_validator(mode="after")
    def _one_minimum(self) -> Self:
        if self.minimum is not None and len(self.scorers) > 1:
            raise ValueError("a minimum is of one scorer; name each in a separate [[selections]]")
        return self

    def left_out(self, items: Sequence[Item], *, seed: int, home: Path) -> dict[str, str]:  # noqa: ARG002
        """Return the items below a bound, with the first bound that they miss."""
        reasons: dict[str, str] = {}
        for name in self.scorers:
            scorer_kind = name.partition(":")[0]
            scores = score_captions(find_text_scorer(name, home), items)[:, 1]  # of the false captions
            for rows in group_by(items, self.by):
                bound = np.quantile(scores[rows], self.q)
                for row in rows:
                    if self.minimum is not None and scores[row] < self.minimum:
                        reasons.setdefault(items[row].id, f"{scorer_kind} below {self.minimum:g}")
                    elif scores[row] < bound:
                        reasons.setdefault(items[row].id, f"{scorer_kind} below the {self.q:g} quantile")
        return reasons


class Similarity(Selection):
    """Keep the items whose two captions lie within bounds of cosine for a text encoder.

    Source: TROHN-Text drops pairs that reach 0.999 for CLIP ViT-B/32 (BiVLC's code): a paraphrase is not a false
    caption.

    Attributes:
        model: a dual encoder as `tellapart run -m` names it.
        minimum, maximum: the cosine must be at least `minimum` and below `maximum`, which above 1 bounds nothing.
    """

    model: str
    minimum: float = Field(default=-1.0, ge=-1.0, le=1.0)
    maximum: float = Field(default=0.999, ge=-1.0, le=1.5)

    def models(self, home: Path) -> Mapping[str, str]:
        """Return the encoder with its fingerprint."""
        encoder = _open_encoder(self.model, home)
        return {encoder.name: encoder.fingerprint}

    def left_out(self, items: Sequence[Item], *, seed: int, home: Path) -> dict[str, str]:  # noqa: ARG002
        """Return the items beyond a bound."""
        for item in items:
            if len(item.texts) != 2:
                raise DataError(f"item {item.id!r} has {len(item.texts)} texts; the similarity of two is bounded")
        cosines = _measure_cosines(_open_encoder(self.model, home), items)
        return {
            item.id: f"captions too {'little' if cosine < self.minimum else 'much'} alike"
            for item, cosine in zip(items, cosines.tolist(), strict=True)
            if not self.minimum <= cosine < self.maximum
        }


def _open_encoder(name: str, home: Path) -> DualEncoder:
    """Open a dual encoder, once a process; the path in a name such as `local-dir:clip` is relative to `home`."""
    prefix, colon, path = name.rpartition(":")
    path = resolve_beside(path, home) if colon or "/" in path else path
    return _open_once(f"{prefix}{colon}{path}", file_states(path))


@lru_cache(maxsize=1)
def _open_once(name: str, _states: object) -> DualEncoder:
    model = find_model(name)
    if not isinstance(model, DualEncoder):
        raise ModelError(f"{name} encodes no texts; name a dual encoder, such as openai/clip-vit-base-patch32")
    return model


def _measure_cosines(encoder: DualEncoder, items: Sequence[Item]) -> NDArray[np.float64]:
    """Return the cosine of each item's two captions, float64 `(item,)`."""
    texts = sorted({text for item in items for text in item.texts})
    rows = {text: row for row, text in enumerate(texts)}
    blocks = [encoder.encode_texts(texts[k : k + 256]) for k in range(0, len(texts), 256)]
    vectors = np.concatenate(blocks) if blocks else np.zeros((0, 1), np.float32)
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    pairs = np.array([[rows[text] for text in item.texts] for item in items], int).reshape(-1, 2)
    cosines: NDArray[np.float64] = (units[pairs[:, 0]].astype(np.float64) * units[pairs[:, 1]]).sum(axis=1)
    return cosines
