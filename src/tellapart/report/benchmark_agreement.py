"""Do benchmarks agree? The models that several were measured on, and how alike those rank them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tellapart.errors import RunError
from tellapart.stats.benchmark_agreement import agree, items_to_tell_apart

#: Fewer models give no correlation worth a number.
FEWEST_MODELS = 5


@dataclass(frozen=True, slots=True)
class Measured:
    """One model's number on one benchmark, of `n` items (0 if unknown); higher is better."""

    value: float
    n: int = 0
    metric: str = ""


@dataclass(frozen=True, slots=True)
class AgreeingBenchmark:
    """One benchmark's ranking of models, compared with the others.

    Attributes:
        n: items; 0 if unknown.
        mean: of its rank correlations with the other benchmarks.
        nearest: the benchmark that ranks models most like it.
        items_needed: so many of its items would rank these models with a reliability of 0.9; None if unknown.
    """

    name: str
    metric: str
    n: int
    mean: float
    nearest: str
    nearest_correlation: float
    items_needed: float | None


@dataclass(frozen=True, slots=True)
class Agreeing:
    """How alike benchmarks rank the models that all of them were measured on.

    Attributes:
        benchmarks: in the order of the clustering, neighbours alike.
        correlations: Spearman's, rows and columns in that order.
        shares: of the variance of ranks that each principal component holds.
        dimensions: components above those of shuffled tables.
        left_out: benchmarks that too few of these models were measured on, or on which all are equal.
    """

    models: int
    benchmarks: tuple[AgreeingBenchmark, ...]
    correlations: tuple[tuple[float, ...], ...]
    shares: tuple[float, ...]
    dimensions: int
    left_out: tuple[str, ...]


def find_agreement(table: Mapping[str, Mapping[str, Measured]]) -> Agreeing:
    """Compare benchmarks over the models that all of them were measured on.

    Of benchmarks that lack models, as many are left out as keeps the most numbers.
    """
    benchmarks, models = _find_complete(table)
    left_out = sorted({name for row in table.values() for name in row} - set(benchmarks))
    values = np.array([[table[model][name].value for name in benchmarks] for model in models])
    if len(benchmarks) < 2 or len(models) < FEWEST_MODELS:
        raise RunError(
            f"no two benchmarks share {FEWEST_MODELS} models; agreement needs {FEWEST_MODELS} models or more that were "
            "measured on the same benchmarks: name more runs"
        )
    agreement = agree(values)
    rows = []
    for k in agreement.order:
        name, nearest = benchmarks[k], agreement.nearest(k)
        size = max(table[model][name].n for model in models)
        shares = size and values[:, k].min() >= 0 and values[:, k].max() <= 1
        rows.append(
            AgreeingBenchmark(
                name=name,
                metric=table[models[0]][name].metric,
                n=size,
                mean=agreement.mean(k),
                nearest=benchmarks[nearest],
                nearest_correlation=float(agreement.spearman[k, nearest]),
                items_needed=items_to_tell_apart(values[:, k], size) if shares else None,
            )
        )
    matrix = agreement.spearman[np.ix_(agreement.order, agreement.order)]
    return Agreeing(
        models=len(models),
        benchmarks=tuple(rows),
        correlations=tuple(map(tuple, matrix.tolist())),
        shares=tuple(float(share) for share in agreement.shares),
        dimensions=agreement.dimensions,
        left_out=tuple(left_out),
    )


def _find_complete(table: Mapping[str, Mapping[str, Measured]]) -> tuple[list[str], list[str]]:
    """Return benchmarks and models of the largest table without gaps; benchmarks of most models come first."""
    counts = Counter(name for row in table.values() for name in row)
    names = sorted((name for name in counts if _has_differences(table, name)), key=lambda name: -counts[name])
    best: tuple[int, list[str], list[str]] = (0, [], [])
    for k in range(2, len(names) + 1):
        models = [model for model, row in table.items() if row.keys() >= set(names[:k])]
        differing = [name for name in names[:k] if _has_differences({model: table[model] for model in models}, name)]
        if len(models) >= FEWEST_MODELS and len(differing) * len(models) > best[0]:
            best = (len(differing) * len(models), differing, models)
    return best[1], best[2]


def _has_differences(table: Mapping[str, Mapping[str, Measured]], name: str) -> bool:
    return len({row[name].value for row in table.values() if name in row}) > 1
