"""Thresholds of slow models: items are chosen one by one, of the value whose outcome narrows the threshold most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tellapart.data.pairset import PairSet
from tellapart.data.progress import Progress
from tellapart.data.scores import join_names
from tellapart.diagnosis.curve import Curves, measure_curves, read_values
from tellapart.diagnosis.item_analysis import ItemOutcomes, pick_metric
from tellapart.diagnosis.psychometric import LEAST_LEVELS, ThresholdSearch
from tellapart.errors import RunError, quote
from tellapart.evaluation.evaluate import plan, prepare
from tellapart.evaluation.run import Settings, resolve
from tellapart.metrics.metric import Metric
from tellapart.metrics.registry import defined_for
from tellapart.models.memory.adapter import is_stored
from tellapart.models.protocols import Model
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.records.result import Sample
from tellapart.tasks.pairs import measure_pairs

#: Items of a value, below which none is drawn of it.
LEAST_ALIKE = 5


def search_threshold(
    settings: Settings,
    over: str,
    items: int,
    *,
    store: EmbeddingStore,
    metric: str | None = None,
    direction: str | None = None,
    progress: Progress | None = None,
) -> Curves:
    """Measure a model on items that are chosen one by one, and return its curve over a numeric tag.

    An item is drawn of the value with the largest expected gain, from `settings.seed`, and never two of one cluster.
    With the same seed and a store that keeps the model's scores, a second call takes them from there.
    """
    (benchmark,), (model_name,) = resolve(settings, store)
    ready = prepare(benchmark, store=store, items=settings.items)
    model, run = plan(model_name, benchmark)
    if not isinstance(ready.records, PairSet):
        raise RunError(f"adaptive={items}: {benchmark.name} is of task {ready.task.name!r}; it takes minimal pairs")
    session = ready.session
    if not is_stored(model):
        session = replace(session, store=EmbeddingStore(None))
    measure = _choose_metric(ready.records, model, metric)
    samples = tuple(
        Sample(id=item.id, cluster=item.cluster, tags=dict(item.tags), texts=item.texts, outcomes={})
        for item in ready.records.items
    )
    outcomes = ItemOutcomes(benchmark.name, measure.name, (model.name,), samples, np.empty((0, 1)))
    values = read_values(outcomes, over)
    levels = _expect_alike(benchmark.name, over, samples, values)
    chance = measure.chance(ready.records.shape, ready.records.true) or 0.0
    search, free = ThresholdSearch(levels, chance, direction), np.isin(values, levels)
    clusters = np.array([sample.cluster for sample in samples])
    shuffled = np.random.default_rng(settings.seed).permutation(len(samples))
    right: dict[int, float] = {}
    while len(right) < items and free.any():
        level = search.choose(np.isin(levels, values[free]))
        row = next(int(row) for row in shuffled if free[row] and values[row] == levels[level])
        part = ready.records.select([row])
        (units,) = measure_pairs(part, run(model, part, session), (measure,))
        right[row] = float(units.values[0].strict[0])
        search.add(level, right[row])
        free &= clusters != clusters[row]
        if progress:
            progress("items", len(right), items)
    drawn = tuple(samples[row] for row in right)
    outcomes = replace(outcomes, items=drawn, values=np.array([*right.values()])[:, None], limited_from=ready.available)
    curves = measure_curves(outcomes, over, chances={None: chance}, posterior=search.fitted())
    notes = [f"items were chosen one by one, from seed {settings.seed}"]
    if few := int((~np.isnan(values) & ~np.isin(values, levels)).sum()):
        notes.append(f"{few:,} items are left out: fewer than {LEAST_ALIKE} have their value")
    if len(drawn) < items:
        notes.append(f"{len(drawn):,} items, not {items:,}: no other cluster was left")
    record = {"drawn": tuple(sample.id for sample in drawn), "seed": settings.seed, "notes": tuple(notes)}
    return curves.model_copy(update={"smallest": levels[0].item(), "largest": levels[-1].item(), **record})


def _choose_metric(pairs: PairSet, model: Model, metric: str | None) -> Metric:
    """Return the metric by which an item is right or wrong."""
    defined = defined_for(pairs.shape, model.kind, pairs.true)
    of_name = {
        candidate.name: candidate
        for candidate in defined
        if candidate.binary and candidate.chance(pairs.shape, pairs.true) is not None
    }
    return of_name[pick_metric(metric, [*of_name], f"not of right and wrong with a chance on {pairs.name}")]


def _expect_alike(
    benchmark: str, over: str, samples: Sequence[Sample], values: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the values of which items are drawn; refuse items of a value that are not interchangeable."""
    distinct, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    levels = distinct[counts >= LEAST_ALIKE]
    if len(levels) < LEAST_LEVELS:
        raise RunError(
            f"{benchmark}: {len(levels)} of the {len(distinct)} values of over={quote(over)} have {LEAST_ALIKE} items; "
            f"adaptive= draws from {LEAST_LEVELS} such values at least; round the tag, or measure all without adaptive="
        )
    inside = [(value, sample) for value, sample in zip(values.tolist(), samples, strict=True) if value in levels]
    (value, cluster), times = Counter((value, sample.cluster) for value, sample in inside).most_common(1)[0]
    if times > 1:
        raise RunError(
            f"{benchmark}: {times} items with {over} {value:g} are of cluster {quote(cluster)}; adaptive= draws "
            "independent items of a value; keep one of them by items=FILE, or measure all without adaptive="
        )
    for tag in dict.fromkeys(tag for _, sample in inside for tag in sample.tags if tag != over):
        kinds = {(value, sample.tags.get(tag, "")) for value, sample in inside}
        names = sorted({name for _, name in kinds})
        if len(kinds) > len(levels) and len(names) <= len(inside) / LEAST_ALIKE:
            raise RunError(
                f"{benchmark}: items of one value of {over} differ in the tag {quote(tag)}: {join_names(names)}; "
                "adaptive= draws items of one kind: keep those by items=FILE, or measure all without adaptive="
            )
    return levels
