"""Ranks of models that their items were tested on, made when records change: a page only reads them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sqlmodel import Session, select

from tellapart.board.tables import Benchmark, Entry, Item, Model, Score, Vector
from tellapart.board.vectors import unpacked
from tellapart.stats.tiers import tiers

__all__ = ["MOST_TESTED", "rank"]

#: Sign flips over every pair of models cost the cube of their number: 40 models take some 1.6 s a metric (8,000 items in
#: 4,000 clusters, one core), 100 models 27 s. So many of the best are tested, and the rest have no tier.
MOST_TESTED = 40


def rank(session: Session, benchmark: Benchmark) -> None:
    """Write the tier of every model of a benchmark, one headline metric after another.

    Reference models and people are no contestants. A model whose per-item outcomes are not here has no tier.

    >>> from tellapart.board.store import Store
    >>> with Store("sqlite://") as store, store.session() as session:
    ...     rank(session, Benchmark(id=1, slug="a", name="a", fingerprint="", title="", task="pairs", n=0))
    """
    clusters = session.exec(
        select(Item.cluster).where(Item.benchmark_id == benchmark.id).order_by(Item.position)  # type: ignore[arg-type]
    ).all()
    for metric in benchmark.headline:
        scores = session.exec(
            select(Score, Model)
            .join(Entry, Entry.id == Score.entry_id)  # type: ignore[arg-type]
            .join(Model, Model.id == Entry.model_id)  # type: ignore[arg-type]
            .where(Score.benchmark_id == benchmark.id, Score.tag == "", Score.metric == metric)
        ).all()
        outcomes = {}
        for score, model in sorted(scores, key=lambda row: (-row[0].value, row[1].label)):
            score.tier = None
            if model.kind == "model" and (vector := session.get(Vector, (score.entry_id, metric))) is not None:
                outcomes[str(score.entry_id)] = unpacked(vector.data)
        placed = _tiers(outcomes, np.array(clusters))
        for score, _ in scores:
            score.tier = placed.get(str(score.entry_id))
            session.add(score)
    session.flush()


def _tiers(outcomes: dict[str, NDArray[np.float32]], clusters: NDArray[np.str_]) -> dict[str, int]:
    """Entry -> rank, the outcomes coming best first."""
    if not outcomes:
        return {}
    has = ~np.isnan(next(iter(outcomes.values())))  # items of another unit have none of this metric
    values = {name: column[has].astype(np.float64) for name, column in outcomes.items()}
    own = clusters[has]
    independent = len(np.unique(own)) == len(own) and all(np.isin(column, (0, 1)).all() for column in values.values())
    if not independent:
        values = dict(list(values.items())[:MOST_TESTED])
    found = tiers(values, None if independent else own)
    return {name: tier.rank for tier in found for name in tier.names}
