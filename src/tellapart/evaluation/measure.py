"""Scores to numbers: every metric that is defined, with its interval, ties and chance, over items and by tag.

No model and no image is needed: a run folder's samples can be measured again at any time.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tellapart.data.pairset import Outline, describe
from tellapart.data.scores import Scores
from tellapart.errors import MetricError, RunError
from tellapart.evaluation.tabulate import tabulate
from tellapart.metrics.equivariance import histogram
from tellapart.metrics.metric import Metric
from tellapart.metrics.per_item import PerItem
from tellapart.metrics.registry import defined_for
from tellapart.metrics.ties import tied_comparisons
from tellapart.records.result import Curve, Metrics, Value
from tellapart.records.run_folder import file_name, read_result, read_samples

__all__ = ["Measured", "measure", "remeasure"]


@dataclass(frozen=True, slots=True)
class Measured:
    """What scores come to.

    Attributes:
        metrics: over all items.
        by: tag -> value -> its items' metrics.
        macro: tag -> the unweighted means over its values.
        curves: the histograms of equivariance deviations.
        outcomes: metric -> each item's value, float64 `(item,)`; metrics made of two means have none.
        tied: metric -> items a tie touched, bool `(item,)`.
        tied_comparisons: ties between a true pair and another of its row or column, int64 `(item,)`.

    >>> outline = Outline(("a",), (1, 2), ("a",), ({},))
    >>> measure(Scores(("a",), [[[0.9, 0.1]]], "similarity"), outline).metrics["choice_score"].value
    1.0
    """

    metrics: dict[str, Value]
    by: dict[str, dict[str, Metrics]]
    macro: dict[str, Metrics]
    curves: dict[str, Curve]
    outcomes: dict[str, NDArray[np.float64]]
    tied: dict[str, NDArray[np.bool_]]
    tied_comparisons: NDArray[np.int64]


def measure(scores: Scores, outline: Outline, *, seed: int = 0) -> Measured:
    """Measure scores by every metric that is defined for their shape and kind.

    Args:
        scores: of the outline's items, in any order.
        outline: which items, and their clusters and tags.
        seed: of the bootstrap's draws.

    Raises:
        MetricError: no metric is defined for this shape and kind.
        ScoreError: an item has no scores.

    >>> outline = Outline(("a", "b"), (2, 2), ("a", "b"), ({"type": "swap"}, {"type": "add"}))
    >>> measured = measure(Scores(("a", "b"), np.full((2, 2, 2), 0.5), "similarity"), outline)
    >>> value = measured.metrics["group_score"]
    >>> value.value, value.tie_neutral == value.chance == 1 / 6, value.ties
    (0.0, True, 2)
    """
    metrics = defined_for(outline.shape, scores.kind)
    if not metrics:
        raise MetricError(f"no metric is defined for {describe(outline.shape)} and scores that are a {scores.kind}")
    values = scores.select(outline.ids).values
    found = [_per_item(metric, values, outline.shape) for metric in metrics]
    table = tabulate(found, outline.clusters, outline.tags, seed=seed)
    return Measured(
        metrics=table.metrics,
        by=table.by,
        macro=table.macro,
        curves={one.name: _curve(one.strict) for one in found if one.deviation},
        outcomes={one.name: one.strict for one in found if one.reduce is None},
        tied={one.name: one.ties for one in found},
        tied_comparisons=tied_comparisons(values),
    )


def remeasure(folder: Path, benchmark: str) -> Measured:
    """Measure a run's benchmark again, from its raw scores alone: the numbers are those of the record.

    Raises:
        RunError: the folder is no run, or did not measure that benchmark.

    >>> remeasure(Path("no such run"), "demo")
    Traceback (most recent call last):
    tellapart.errors.RunError: no such run has no results.json; name a run folder that `tellapart run --out` wrote
    """
    result = read_result(folder)
    if benchmark not in result.benchmarks:
        raise RunError(f"{folder} did not measure {benchmark!r}; it holds {', '.join(result.benchmarks) or 'nothing'}")
    record = result.benchmarks[benchmark]
    if record.shape is None or record.kind is None:
        raise RunError(
            f"{folder}: {benchmark} is a task ({record.task}); its predictions are measured again by: tellapart score "
            f"{benchmark} --scores {folder}/samples/{file_name(benchmark)}.jsonl"
        )
    samples = read_samples(folder, benchmark)
    ids = tuple(sample.id for sample in samples)
    clusters, tags = tuple(sample.cluster for sample in samples), tuple(sample.tags for sample in samples)
    scores = Scores(ids, [sample.scores for sample in samples], record.kind)
    return measure(scores, Outline(ids, record.shape, clusters, tags), seed=result.run.seed)


def _per_item(metric: Metric, values: NDArray[np.float32], shape: tuple[int, int]) -> PerItem:
    chance = metric.chance(shape)
    return PerItem(
        name=metric.name,
        strict=metric.per_item(values),
        neutral=None if chance is None else metric.tie_neutral(values),
        chance=chance,
        binary=metric.binary,
        reduce=metric.summarise if metric.components else None,
        deviation=chance is None,
    )


def _curve(values: NDArray[np.float64]) -> Curve:
    found = histogram(values)
    return Curve(edges=tuple(found.edges.tolist()), counts=tuple(found.counts.tolist()))
