"""Rankings as tiers: models without a significant difference from the best of the models left share a rank."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import MetricError
from tellapart.stats.clusters import Clusters, ClusterTotals, check_level, check_values
from tellapart.stats.multiple import holm
from tellapart.stats.paired import enough_flips, pair_tests


@dataclass(frozen=True, slots=True)
class Tier:
    """Models with no significant difference from the best of them; all models of later tiers have one.

    Attributes:
        rank: 1 for the best tier; a tier after k models has rank k + 1.
        names: best mean first, equal means by name.
        means: their means, in the same order.
    """

    rank: int
    names: tuple[str, ...]
    means: tuple[float, ...]


def tiers(outcomes: Mapping[str, Any], clusters: Clusters | None, *, alpha: float = 0.05, seed: int = 0) -> list[Tier]:
    """Rank models by mean (higher is better) and part them by significant differences.

    The first tier is the best model with every model that does not differ from it at `alpha`, by Holm's correction over
    all pairs of models; the next is the best of the models left with every one of them that does not differ from it.
    A model may thus be in a better tier than one with a higher mean: the two of a pair with many discordant items are
    harder to distinguish. The test is exact McNemar for 0/1 outcomes with one item a cluster, else the cluster
    sign-flip test. The order of models and items and the names of clusters do not matter. A tier does not prove
    equality: these items do not distinguish its members from its best.

    Args:
        outcomes: model name -> float `(item,)`, all on the same items in the same order.
        clusters: one name or number an item; None if items are independent.
        alpha: family-wise error over all pairs.

    Raises:
        MetricError: no models, or outcomes that are empty, not finite or of different lengths; clusters that do
            not fit; alpha outside (0, 1).

    >>> good, fair, poor = np.tile([1] * 9 + [0], 10), np.tile([1] * 8 + [0] * 2, 10), np.tile([1] + [0] * 9, 10)
    >>> [(tier.rank, tier.names) for tier in tiers({"poor": poor, "fair": fair, "good": good}, None)]
    [(1, ('good',)), (2, ('fair',)), (3, ('poor',))]
    """
    check_level("tiers", alpha)
    names = sorted(outcomes)
    table = _stack_outcomes(names, outcomes)
    totals = ClusterTotals.of("tiers", table, clusters)
    means = totals.means(totals.sums.sum(axis=0), totals.items)
    distinct = np.zeros((len(names), len(names)), dtype=np.bool_)
    if len(names) > 1:
        tests = pair_tests(table, clusters, flips=enough_flips(math.comb(len(names), 2), alpha), seed=seed)
        first, second = tests.pairs.T
        distinct[first, second] = distinct[second, first] = holm(tests.p) <= alpha
    left = sorted(range(len(names)), key=lambda model: (-means[model], names[model]))
    groups: list[list[int]] = []
    while left:
        groups.append([model for model in left if not distinct[left[0], model]])
        left = [model for model in left if distinct[left[0], model]]
    ranks = accumulate(map(len, groups), initial=1)
    return [
        Tier(rank, tuple(names[m] for m in group), tuple(float(means[m]) for m in group))
        for rank, group in zip(ranks, groups, strict=False)
    ]


def _stack_outcomes(names: list[str], outcomes: Mapping[str, Any]) -> NDArray[np.float64]:
    """Return outcomes as `(item, model)`."""
    if not names:
        raise MetricError("tiers: got no models; pass a mapping from a model's name to its outcomes")
    columns = [check_values(f"tiers: model {name!r}", outcomes[name]) for name in names]
    for name, column in zip(names, columns, strict=True):
        if column.ndim != 1 or column.shape != columns[0].shape:
            raise MetricError(
                f"tiers: model {name!r} has outcomes of shape {column.shape} and {names[0]!r} of "
                f"{columns[0].shape}; rank models on the same items"
            )
    return np.column_stack(columns)
