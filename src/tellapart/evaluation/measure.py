"""Scores of pairs to numbers: every metric that is defined, with its interval, ties and chance, over items and by tag.

No model and no image is needed: a run folder's samples can be measured again at any time.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tellapart.benchmarks.find import declared_benchmark, set_name
from tellapart.data.pairset import Outline
from tellapart.data.scores import Scores
from tellapart.errors import RunError
from tellapart.evaluation.tabulate_units import tabulate_units
from tellapart.metrics.tabulate import Tabulated
from tellapart.models.scoring.score import Scored
from tellapart.records.run_folder import file_name, read_result, read_samples
from tellapart.tasks.authors import add_authors_numbers
from tellapart.tasks.pairs import ListedPairs, measure_pairs
from tellapart.tasks.registry import TASKS

__all__ = ["measure", "remeasure"]


def measure(scores: Scores, outline: Outline, *, seed: int = 0) -> Tabulated:
    """Measure scores by every metric that is defined for their shape and kind.

    Raises:
        MetricError: no metric is defined for this shape and kind.
        ScoreError: an item has no scores.

    >>> import numpy as np
    >>> outline = Outline(("a", "b"), (2, 2), ("a", "b"), ({"type": "swap"}, {"type": "add"}))
    >>> table = measure(Scores(("a", "b"), np.full((2, 2, 2), 0.5), "similarity"), outline)
    >>> value = table.metrics["group_score"]
    >>> value.value, value.tie_neutral == value.chance == 1 / 6, value.ties
    (0.0, True, 2)
    """
    return tabulate_units(measure_pairs(ListedPairs(outline), Scored(scores)), seed=seed)


def remeasure(folder: Path, benchmark: str) -> Tabulated:
    """Measure a run's benchmark again, from its raw scores alone: the numbers are those of the record.

    Raises:
        RunError: the folder is not a run, or did not measure that benchmark.
    """
    result, benchmark = read_result(folder), set_name(benchmark)
    if benchmark not in result.benchmarks:
        raise RunError(f"{folder} did not measure {benchmark!r}; it holds {', '.join(result.benchmarks) or 'nothing'}")
    record = result.benchmarks[benchmark]
    if record.shape is None or record.kind is None:
        raise RunError(
            f"{folder}: {benchmark} is a task ({record.task}); its predictions are measured again by: tellapart score "
            f"{benchmark} --scores {folder}/samples/{file_name(benchmark)}.jsonl"
        )
    samples = read_samples(folder, benchmark, record)
    ids = tuple(sample.id for sample in samples)
    clusters, tags = tuple(sample.cluster for sample in samples), tuple(sample.tags for sample in samples)
    scores = Scores(ids, [sample.scores for sample in samples], record.kind)
    # Samples hold the true texts or image in the first places.
    truths = (tuple(range(record.true)),) * len(ids) if record.true > 1 else ()
    listed = ListedPairs(Outline(ids, record.shape, clusters, tags, truths))
    measured = TASKS[record.task].measure(listed, Scored(scores))
    declared = declared_benchmark(benchmark)
    if declared is not None:
        (of_items,) = measured
        shown = zip(of_items.units, samples, strict=True)
        units = tuple(replace(unit, images=one.images, texts=one.texts, true=one.true) for unit, one in shown)
        measured = add_authors_numbers(declared, [replace(of_items, units=units)], record.kind)
    return tabulate_units(measured, seed=result.run.seed)
