"""Selections by a bound on a scorer's quantile, or on the similarity of the true and the false caption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from tellapart.builders.negatives.refine import ScorerSelection, group_by
from tellapart.builders.selections import Selection
from tellapart.data.item import Item
from tellapart.errors import DataError, ModelError
from tellapart.models.find import find_model
from tellapart.models.protocols import DualEncoder
from tellapart.models.text.find import find_text_scorer, resolve_beside, score_captions

__all__ = ["Quantile", "Similarity"]


class Quantile(ScorerSelection):
    """Keep the false captions that every scorer puts at or above its quantile: the plausible and the well-formed ones.

    Source: TROHN-Text keeps captions that reach the 0.645 quantile of Vera and of a CoLA classifier, in each subtype
        (BiVLC's
    code, Miranda et al., 2024). All quantiles are of all items that came in.

    Attributes:
        scorers: names of `tellapart.models.text.find.SCORERS`.
        q: the quantile.
        minimum: a score that must be reached, too; only with a single scorer.

    Raises:
        pydantic.ValidationError: a minimum for several scorers.

    >>> items = [Item(id=t, images=("a.png",), texts=("x", t)) for t in ("a", "a b", "a b c")]
    >>> Quantile(scorers=["words"], q=0.5).left_out(items, seed=1, home=Path("."))
    {'a': 'words below the 0.5 quantile'}
    """

    q: float = Field(default=0.645, ge=0.0, le=1.0)
    minimum: float | None = None

    @model_validator(mode="after")
    def _one_minimum(self) -> Self:
        if self.minimum is not None and len(self.scorers) > 1:
            raise ValueError("a minimum is of one scorer; name each in a separate [[selections]]")
        return self

    def left_out(self, items: Sequence[Item], *, seed: int, home: Path) -> dict[str, str]:  # noqa: ARG002
        """Return the items below a bound, with the first one that they miss.

        Raises:
            DataError: an item is not of one image by two texts.
            ModelError: a scorer cannot be loaded, or gave a number that is not finite.
        """
        reasons: dict[str, str] = {}
        for name in self.scorers:
            form, false = name.partition(":")[0], score_captions(find_text_scorer(name, home), items)[:, 1]
            for rows in group_by(items, self.by):
                bound = np.quantile(false[rows], self.q)
                for row in rows:
                    if self.minimum is not None and false[row] < self.minimum:
                        reasons.setdefault(items[row].id, f"{form} below {self.minimum:g}")
                    elif false[row] < bound:
                        reasons.setdefault(items[row].id, f"{form} below the {self.q:g} quantile")
        return reasons


class Similarity(Selection):
    """Keep the items whose two captions lie within bounds of cosine for a text encoder.

    Source: TROHN-Text drops pairs that reach 0.999 for CLIP ViT-B/32 (BiVLC's code): a paraphrase is not a false
        caption.

    Attributes:
        model: a dual encoder as `tellapart run -m` names it.
        minimum, maximum: a cosine may be `minimum` and must be below `maximum`.

    >>> items = [Item(id="a", images=("a.png",), texts=("a red cup", "a red cup"))]
    >>> Similarity(model="demo-encoder").left_out(items, seed=1, home=Path("."))
    {'a': 'captions too much alike'}
    """

    model: str
    minimum: float = Field(default=-1.0, ge=-1.0, le=1.0)
    maximum: float = Field(default=0.999, ge=-1.0, le=1.5)

    def models(self, home: Path) -> Mapping[str, str]:
        """Return the encoder with its fingerprint."""
        encoder = _open_encoder(self.model, home)
        return {encoder.name: encoder.fingerprint}

    def left_out(self, items: Sequence[Item], *, seed: int, home: Path) -> dict[str, str]:  # noqa: ARG002
        """Return the items beyond a bound.

        Raises:
            DataError: an item has not two texts.
            ModelError: the model cannot be loaded or encodes no texts.
        """
        for item in items:
            if len(item.texts) != 2:
                raise DataError(f"item {item.id!r} has {len(item.texts)} texts; the similarity of two is bounded")
        cosines = _measure_cosines(_open_encoder(self.model, home), items)
        return {
            item.id: f"captions too {'little' if cosine < self.minimum else 'much'} alike"
            for item, cosine in zip(items, cosines.tolist(), strict=True)
            if not self.minimum <= cosine < self.maximum
        }


@lru_cache(maxsize=1)
def _open_encoder(name: str, home: Path) -> DualEncoder:
    form, colon, path = name.rpartition(":")
    model = find_model(form + colon + (resolve_beside(path, home) if colon or "/" in path else path))
    if not isinstance(model, DualEncoder):
        raise ModelError(
            f"{name} encodes no texts by themselves; name a dual encoder, such as openai/clip-vit-base-patch32"
        )
    return model


def _measure_cosines(encoder: DualEncoder, items: Sequence[Item]) -> NDArray[np.float64]:
    texts = sorted({text for item in items for text in item.texts})
    rows = {text: row for row, text in enumerate(texts)}
    blocks = [encoder.encode_texts(texts[k : k + 256]) for k in range(0, len(texts), 256)]
    vectors = np.concatenate(blocks) if blocks else np.zeros((0, 1), np.float32)
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    pairs = np.array([[rows[text] for text in item.texts] for item in items], int).reshape(-1, 2)
    cosines: NDArray[np.float64] = (units[pairs[:, 0]].astype(np.float64) * units[pairs[:, 1]]).sum(axis=1)
    return cosines
