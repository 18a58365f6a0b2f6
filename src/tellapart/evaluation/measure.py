"""Scores of pairs to numbers: every metric that is defined, with its interval, ties and chance, over items and by tag.

No model and no image is needed: a run folder's samples can be measured again at any time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tellapart.benchmarks.find import declared_benchmark, set_name
from tellapart.data.pairset import Outline
from tellapart.data.scores import Scores
from tellapart.errors import RunError, ScoreError
from tellapart.evaluation.evaluate import tabulate_units
from tellapart.metrics.per_item import PerItem
from tellapart.metrics.tabulate import Tabulated
from tellapart.models.scoring.score import Scored
from tellapart.records.result import BenchmarkResult, Metrics, Sample, Value
from tellapart.records.run_folder import read_stored
from tellapart.records.samples import read_samples
from tellapart.tasks.authors import add_authors_numbers
from tellapart.tasks.pairs import ListedPairs, measure_pairs
from tellapart.tasks.registry import METRICS, TASKS
from tellapart.tasks.task import Unit, Units


def measure(scores: Scores, outline: Outline, *, seed: int = 0) -> Tabulated:
    """Measure scores by every metric that is defined for their shape and kind.

    >>> import numpy as np
    >>> outline = Outline(("a", "b"), (2, 2), ("a", "b"), ({"type": "swap"}, {"type": "add"}))
    >>> table = measure(Scores(("a", "b"), np.full((2, 2, 2), 0.5), "similarity"), outline)
    >>> value = table.metrics["group_score"]
    >>> value.value, value.tie_neutral == value.chance == 1 / 6, value.ties
    (0.0, True, 2)
    """
    return tabulate_units(measure_pairs(ListedPairs(outline), Scored(scores)), seed=seed)


def remeasure(folder: Path, benchmark: str) -> Tabulated:
    """Measure a run's benchmark again, from its samples alone: the numbers are those of the record."""
    result, benchmark = read_stored(folder).result, set_name(benchmark)
    if benchmark not in result.benchmarks:
        raise RunError(f"{folder} did not measure {benchmark!r}; it holds {', '.join(result.benchmarks) or 'nothing'}")
    record = result.benchmarks[benchmark]
    return remeasure_samples(benchmark, record, read_samples(folder, benchmark, record), seed=result.run.seed).table


@dataclass(frozen=True, slots=True)
class Remeasured:
    """The numbers that a run's samples give.

    Attributes:
        outcomes: metric -> the value of each item; empty for tasks, whose samples hold nothing else.
    """

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
    """Average a task's outcomes, each noun's over its units; a value with ties broken at random is not known."""
    measured = []
    for noun in dict.fromkeys(sample.unit for sample in samples):
        own = [sample for sample in samples if sample.unit == noun]
        names = [name for name in own[0].outcomes if all(name in sample.outcomes for sample in own)]
        units = tuple(Unit(id=one.id, cluster=one.cluster, tags=one.tags) for one in own)
        measured.append(Units(noun, units, tuple(_read_outcomes(name, own, record) for name in names)))
    return _forget_neutral(tabulate_units(measured, seed=seed))


def _read_outcomes(name: str, samples: Sequence[Sample], record: BenchmarkResult) -> PerItem:
    strict = np.array([sample.outcomes[name] for sample in samples])
    tied = [name in sample.tied for sample in samples]
    stated = record.metrics.get(name)
    metric = next((metric for metric in TASKS[record.task].metrics if metric.name == name), None)
    whole = PerItem(
        name=name,
        strict=strict,
        neutral=np.where(tied, np.nan, strict),
        binary=bool(np.isin(strict, (0, 1)).all()) and (metric is None or metric.binary),
        deviation=stated is not None and stated.mean_absolute is not None,
        bounds=None if metric is None or metric.together else metric.finite_bounds,
    )
    if name not in METRICS or not METRICS[name].together:
        return whole
    return replace(whole, among=lambda mask: whole if mask.all() else None)  # outcomes do not give that of a part


def _forget_neutral(table: Tabulated) -> Tabulated:
    """Return numbers without the value with ties broken at random, which outcomes alone do not give."""

    def forget(metrics: Mapping[str, Value]) -> dict[str, Value]:
        return {name: value.model_copy(update={"tie_neutral": None}) for name, value in metrics.items()}

    return replace(
        table,
        metrics=forget(table.metrics),
        by={
            tag: {value: Metrics(metrics=forget(one.metrics)) for value, one in groups.items()}
            for tag, groups in table.by.items()
        },
        macro={tag: Metrics(metrics=forget(one.metrics)) for tag, one in table.macro.items()},
    )
