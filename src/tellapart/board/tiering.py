"""Tiers of a benchmark's models, computed when its records change: a page only reads them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sqlmodel import Session, col, select

from tellapart.board.tables import Benchmark, Entry, Item, Model, Score, Vector
from tellapart.board.vectors import unpack
from tellapart.stats.tiers import tiers

__all__ = ["MOST_TESTED", "rank"]

#: The number of models, the best ones, that are tested if sign flips are needed; the others have no tier. Flips over
#: every pair cost the cube of that number: 1.6 s a metric for 40 models (8,000 items, 4,000 clusters, one core), 27 s
#: for 100.
MOST_TESTED = 40


def rank(session: Session, benchmark: Benchmark) -> None:
    """Write the tier of every model of a benchmark, for each headline metric.

    Reference models, people, and models without per-item outcomes have no tier.
    """
    clusters = session.exec(
        select(Item.cluster).where(Item.benchmark_id == benchmark.id).order_by(col(Item.position))
    ).all()
    for metric in benchmark.headline:
        scores = session.exec(
            select(Score, Model)
            .join(Entry, col(Entry.id) == Score.entry_id)
            .join(Model, col(Model.id) == Entry.model_id)
            .where(Score.benchmark_id == benchmark.id, Score.tag == "", Score.metric == metric)
        ).all()
        outcomes = {}
        for score, model in sorted(scores, key=lambda row: (-row[0].value, row[1].label)):
            if model.kind == "model" and (vector := session.get(Vector, (score.entry_id, metric))) is not None:
                outcomes[str(score.entry_id)] = unpack(vector.data)
        ranks = _ranks(outcomes, np.array(clusters))
        for score, _ in scores:
            score.tier = ranks.get(str(score.entry_id))
            session.add(score)
    session.flush()


def _ranks(outcomes: dict[str, NDArray[np.float32]], clusters: NDArray[np.str_]) -> dict[str, int]:
    """Return entry -> rank; the outcomes come best first."""
    if not outcomes:
        return {}
    has = ~np.isnan(next(iter(outcomes.values())))  # items of another unit have no value by this metric
    values = {name: column[has].astype(np.float64) for name, column in outcomes.items()}
    own = clusters[has]
    independent = len(np.unique(own)) == len(own) and all(np.isin(column, (0, 1)).all() for column in values.values())
    if not independent:
        values = dict(list(values.items())[:MOST_TESTED])
    return {name: tier.rank for tier in tiers(values, None if independent else own) for name in tier.names}
