"""The set that weights are chosen by: never one that is reported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tellapart.data.item import Item
from tellapart.data.pairset import PairSet, describe
from tellapart.data.scores import Scores
from tellapart.diagnosis.why import SHARES
from tellapart.errors import DataError
from tellapart.metrics.matching import share_of_squares, sums_of_squares
from tellapart.metrics.registry import METRICS, defined_for
from tellapart.models.protocols import Model
from tellapart.models.scoring.score import score
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.stats.paired import paired_difference
from tellapart.training.data.rows import TrainingRows, read_image


def metric_of(metric: str | None, shape: tuple[int, int]) -> str:
    """Return the metric that chooses: the configured one, or the strictest that the set's shape has."""
    defined = [one.name for one in defined_for(shape) if one.binary]
    name = metric or ("group_score" if "group_score" in defined else defined[0])
    if name not in defined:
        raise DataError(
            f"validation.metric: {name!r} is not for items of {describe(shape)}; use {' or '.join(defined)}"
        )
    return name


def left_over(rows: TrainingRows, trained: TrainingRows | None = None) -> PairSet:
    """Make a validation set of rows that are not trained on: each item's images with its captions."""
    items = []
    for numbers in rows.items:
        left_out = [rows.rows[number] for number in numbers]
        texts = (
            [row.caption for row in left_out] if len(left_out) > 1 else [left_out[0].caption, *left_out[0].negatives]
        )
        if len(texts) < 2:
            continue
        images = tuple(str(row.image.resolve()).lstrip("/") for row in left_out)
        items.append(Item(id=f"{numbers[0]}", images=images, texts=tuple(texts), cluster=left_out[0].cluster))
    if not items:
        helps = trained is not None and any(
            len(numbers) > 1 or trained.rows[numbers[0]].negatives for numbers in trained.items
        )
        remedy = "lower it, or" if helps else "no item of data.train has one: write share = 1, or"
        raise DataError(
            f"data.share leaves {len(rows.items)} items and none with a false caption, so weights cannot be chosen by "
            f"them; {remedy} name a pair set in data.validation"
        )
    return PairSet("validation", tuple(items), Path("/"), read=lambda image: read_image(Path("/", image)))


def rescore(model: Model, pairs: PairSet) -> Scores:
    """Score a pair set with weights that change: nothing is stored."""
    return score(model, pairs, store=EmbeddingStore(None)).scores


def items_right(metric: str, scores: Scores) -> NDArray[np.float64]:
    """Return a metric of each item, 0 or 1, ties counted as wrong."""
    return np.asarray(METRICS[metric].per_item(METRICS[metric].scaled(scores.values, scores.kind)), np.float64)


def match_numbers(scores: Scores) -> dict[str, float]:
    """Return the match score of square items and, unless all their scores are equal, the shares of match and priors."""
    match = METRICS["match_score"]
    if not match.defined_for(scores.values.shape[1:]):
        return {}
    values = match.scaled(scores.values, scores.kind)
    means = sums_of_squares(values).mean(axis=0)
    shares = {name: float(share_of_squares(means, part)) for part, name in enumerate(SHARES)} if means.any() else {}
    return {"match_score": float(match.per_item(values).mean()), **shares}


def better_beyond_doubt(now: Sequence[float], before: Sequence[float], pairs: PairSet, looks: int = 1) -> bool:
    """Return whether the paired interval of the difference, over clusters of items, lies above 0.

    Its level is 95 % for one look. Of several each gets an equal part of the 5 % (Bonferroni), so that in a run that
    gets no better at all of them together, one in twenty at most mistakes noise for progress.
    """
    low = paired_difference(now, before, pairs.outline.clusters, binary=True, level=1 - 0.05 / looks).low
    return low is not None and low > 0
