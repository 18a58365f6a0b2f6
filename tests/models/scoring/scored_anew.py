"""Scores of a pair set that nothing was stored of."""

from __future__ import annotations

from typing import Any

from tellapart.data.pairset import PairSet
from tellapart.models.scoring.score import Scored, score
from tellapart.models.store.embedding_store import EmbeddingStore


def fresh(model: Any, pairset: PairSet, **options: Any) -> Scored:
    with EmbeddingStore(None) as store:
        return score(model, pairset, store=store, **options)
