"""Scores of pairs to numbers: every metric that is defined, with its interval, ties and chance, over items and by tag.

No model and no image is needed: a run folder's samples can be measured again at any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tellapart.benchmarks.find import declared_benchmark
from tellapart.data.pairset import Outline
from tellapart.data.scores import Scores
from tellapart.errors import RunError, ScoreError
from tellapart.evaluation.evaluate import tabulate_units
from tellapart.metrics.per_item import PerItem
from tellapart.metrics.tabulate import Tabulated
from tellapart.models.scoring.score import Scored
from tellapart.records.result import BenchmarkResult, Sample
from tellapart.tasks.authors import add_authors_numbers
from tellapart.tasks.pairs import ListedPairs, measure_pairs
from tellapart.tasks.registry import METRICS, TASKS
from tellapart.tasks.task import Unit, Units


def measure(scores: Scores, outline: Outline, *, seed: int = 0) -> Tabulated:
    """Measure scores by every metric that is defined for their shape and kind."""
    return tabulate_units(measure_pairs(ListedPairs(outline), Scored(scores)), seed=seed)


@dataclass(frozen=True, slots=True)
class Remeasured:
    """The numbers that a run's samples give; outcomes of pairs: metric -> the value of each item."""

    table: Tabulated
    outcomes: dict[str, list[float]]


def remeasure_samples(benchmark: str, record: BenchmarkResult, samples: Sequence[Sample], *, seed: int) -> Remeasured:
    """Measure samples again: of pairs their scores, of a task their outcomes.

    A task's metrics of its full corpus (BLEU) and means over groups are not among the outcomes, and so not measured.
    """
    if not samples:
        raise RunError(f"there are no samples of {benchmark}")
    if record.shape is None or record.kind is None:
        return Remeasured(_average_outcomes(record, samples, seed), {})
    ids = tuple(sample.id for sample in samples)
    clusters, tags = tuple(sample.cluster for sample in samples), tuple(sample.tags for sample in samples)
    try:
        scores = Scores(ids, [sample.scores for sample in samples], record.kind)
    except ScoreError as error:
        raise RunError(f"samples of {benchmark}: {error}") from error
    # Samples hold the true texts or image in the first places.
    truths = (tuple(range(record.true)),) * len(ids) if record.true > 1 else ()
    listed = ListedPairs(Outline(ids, record.shape, clusters, tags, truths))
    measured = TASKS[record.task].measure(listed, Scored(scores))
    outcomes = {
        value.name: value.strict.tolist() for units in measured for value in units.values if value.reduce is None
    }
    declared = declared_benchmark(benchmark)
    if declared is not None:
        (of_items,) = measured
        shown = zip(of_items.units, samples, strict=True)
        units = tuple(replace(unit, images=one.images, texts=one.texts, true=one.true) for unit, one in shown)
        measured = add_authors_numbers(declared, [replace(of_items, units=units)], record.kind)
    return Remeasured(tabulate_units(measured, seed=seed), outcomes)


def _average_outcomes(record: BenchmarkResult, samples: Sequence[Sample], seed: int) -> Tabulated:
    """Average a task's outcomes, each noun's over its units; they do not give a value with ties broken at random."""
    measured = []
    for noun in dict.fromkeys(sample.unit for sample in samples):
        own = [sample for sample in samples if sample.unit == noun]
        names = [name for name in own[0].outcomes if all(name in sample.outcomes for sample in own)]
        units = tuple(Unit(id=one.id, cluster=one.cluster, tags=one.tags) for one in own)
        measured.append(Units(noun, units, tuple(_read_outcomes(name, own, record) for name in names)))
    return tabulate_units(measured, seed=seed)


def _read_outcomes(name: str, samples: Sequence[Sample], record: BenchmarkResult) -> PerItem:
    strict = np.array([sample.outcomes[name] for sample in samples])
    stated = record.metrics.get(name)
    metric = next((metric for metric in TASKS[record.task].metrics if metric.name == name), None)
    whole = PerItem(
        name=name,
        strict=strict,
        touched=np.array([name in sample.tied for sample in samples]),
        binary=bool(np.isin(strict, (0, 1)).all()) and (metric is None or metric.binary),
        deviation=stated is not None and stated.mean_absolute is not None,
        bounds=None if metric is None or metric.together else metric.finite_bounds,
    )
    if name not in METRICS or not METRICS[name].together:
        return whole
    return replace(whole, among=lambda mask: whole if mask.all() else None)  # outcomes do not give that of a part
