"""A model on a benchmark: plan (refuse what is not defined), score (stored), measure."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.data.item import Item
from tellapart.data.pairset import Outline, PairSet, describe
from tellapart.data.progress import Progress
from tellapart.data.scores import Scores
from tellapart.errors import MetricError, RunError
from tellapart.evaluation.measure import Measured, measure
from tellapart.metrics.registry import defined_for
from tellapart.models.content_hash import image_hashes
from tellapart.models.deferred import Deferred
from tellapart.models.protocols import DualEncoder, Generator, KeyReader, Model, PairScorer, TextScorer
from tellapart.models.scoring import score
from tellapart.models.store import EmbeddingStore
from tellapart.records.result import IDS_ONLY, BenchmarkResult, Sample

__all__ = ["SCORERS", "Evaluation", "Prepared", "chosen", "evaluate", "evaluate_scores", "plan", "prepare"]


#: Kinds of model that give scores of images and texts.
SCORERS = (KeyReader, TextScorer, DualEncoder, PairScorer, Generator)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What one model got on one benchmark: the record, and every item.

    >>> Evaluation.__slots__
    ('result', 'samples')
    """

    result: BenchmarkResult
    samples: tuple[Sample, ...]


def chosen(items: int, limit: str | None) -> Sequence[int]:
    """Return the positions that a limit keeps, spread evenly so that no subset at the end is lost.

    Args:
        items: how many there are.
        limit: a number of items (`20`), a share of them (`0.1`), or None for all.

    Raises:
        RunError: the limit is neither.

    >>> chosen(300, "3"), chosen(300, "0.01"), chosen(2, None)
    ([0, 100, 200], [0, 100, 200], range(0, 2))
    """
    if limit is None:
        return range(items)
    if re.fullmatch(r"[1-9]\d{0,8}", limit, re.ASCII):
        wanted = int(limit)
    elif re.fullmatch(r"[01]?\.\d{1,9}", limit, re.ASCII) and 0 < float(limit) <= 1:
        wanted = max(1, round(float(limit) * items))
    else:
        raise RunError(f"--limit {limit}: give a number of items (20) or a share of them between 0 and 1 (0.1)")
    wanted = min(wanted, items)
    return [place * items // wanted for place in range(wanted)]


def plan(model: Model, benchmark: Benchmark) -> None:
    """Refuse, before anything is computed, a benchmark whose files are not there or on which the model's scores mean nothing.

    Raises:
        DataError: neither the user's folders nor the hub have the benchmark's files.
        MetricError: no metric is defined for the benchmark's shape and the model's kind of score.

    >>> from tellapart.benchmarks.benchmark import find_benchmark
    >>> from tellapart.models.reference import Constant
    >>> plan(Constant(), find_benchmark("aro-relation"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tellapart.errors.DataError: aro-relation needs visual_genome_relation.json, and no --data was given...
    """
    if not isinstance(model, (*SCORERS, Deferred)):
        raise MetricError(
            f"{model.name} on {benchmark.name}: it gives no scores; a model that answers in words is asked which caption "
            f"belongs to which image by -b pairing:{benchmark.name}"
        )
    benchmark.expect()
    if not defined_for(benchmark.shape, model.kind):
        raise MetricError(
            f"{model.name} on {benchmark.name}: no metric is defined for {describe(benchmark.shape)} "
            f"and scores that are a {model.kind}"
        )


@dataclass(frozen=True, slots=True)
class Prepared:
    """A benchmark's pairs, ready for any number of models: loaded and limited.

    Attributes:
        benchmark: where they come from.
        pairs: those that the limit keeps.
        available: how many items there were before the limit.
        store: where hashes of images are kept.
        hashes: image reference -> hash of its pixels; what a model reads is added, so that no image is decoded twice.

    >>> Prepared.__slots__
    ('benchmark', 'pairs', 'available', 'store', 'hashes')
    """

    benchmark: Benchmark
    pairs: PairSet
    available: int
    store: EmbeddingStore
    hashes: dict[str, str] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """SHA-256 over ids, texts and pixels; only images that no model has read are read for it.

        Raises:
            DataError: an image is missing or cannot be decoded.
        """
        image_hashes(self.pairs, store=self.store, hashes=self.hashes)
        return self.pairs.fingerprint(self.hashes.__getitem__)

    @property
    def images(self) -> int:
        """Distinct images, by their pixels.

        Raises:
            DataError: an image is missing or cannot be decoded.
        """
        return len(set(image_hashes(self.pairs, store=self.store, hashes=self.hashes).values()))


def prepare(benchmark: Benchmark, *, store: EmbeddingStore, limit: str | None = None) -> Prepared:
    """Load a benchmark's pairs. No image is opened yet: the first model that reads one decodes it.

    Raises:
        DataError: the pairs cannot be read.
        RunError: the limit is no number or share of items.

    >>> from tellapart.benchmarks.benchmark import find_benchmark
    >>> ready = prepare(find_benchmark("demo"), store=EmbeddingStore(None), limit="3")
    >>> len(ready.pairs), ready.available
    (3, 300)
    """
    everything = benchmark.pairs()
    return Prepared(benchmark, everything.select(chosen(len(everything), limit)), len(everything), store)


def evaluate(
    model: Model,
    ready: Prepared,
    *,
    store: EmbeddingStore,
    batch_size: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Evaluation:
    """Score a benchmark's pairs with a model and measure the scores.

    What the store holds is not computed again; each batch is stored as it is done. Neither the batch size nor the
    store changes a number.

    Raises:
        TellapartError: an image cannot be read, the model's output is not what its protocol says, or no metric is
            defined.

    >>> from tellapart.benchmarks.benchmark import find_benchmark
    >>> from tellapart.models.reference import Oracle
    >>> store = EmbeddingStore(None)
    >>> ready = prepare(find_benchmark("demo"), store=store, limit="6")
    >>> found = evaluate(Oracle(), ready, store=store)
    >>> found.result.metrics["group_score"].value, len(found.samples)
    (1.0, 6)
    """
    started = time.monotonic()
    plan(model, ready.benchmark)
    pairs = ready.pairs
    cut_before = texts_cut(model)
    scored = score(model, pairs, store=store, batch_size=batch_size, hashes=ready.hashes, progress=progress)
    measured = measure(scored.scores, pairs.outline, seed=seed)
    result = BenchmarkResult(
        title=ready.benchmark.title,
        fingerprint=ready.fingerprint,
        shape=pairs.shape,
        kind=scored.scores.kind,
        **_numbers(measured),
        images=ready.images,
        texts=len({text for item in pairs.items for text in item.texts}),
        images_encoded=scored.images_encoded,
        texts_encoded=scored.texts_encoded,
        pairs_scored=scored.pairs_scored,
        seconds=time.monotonic() - started,
        limited_from=ready.available if len(pairs) < ready.available else None,
        origin=str(pairs.root),
        notes=notes_on_cut_texts(texts_cut(model) - cut_before),
    )
    return Evaluation(result, _samples(scored.scores, pairs.outline, measured, pairs.items))


def texts_cut(model: Model) -> int:
    """Return how many of the texts that a model has encoded so far were longer than its context, if it counts them.

    >>> from tellapart.models.reference import Oracle
    >>> texts_cut(Oracle())
    0
    """
    return int(getattr(model, "truncated", 0))


def notes_on_cut_texts(count: int) -> tuple[str, ...]:
    """Say how many texts lost their end; nothing where none did.

    >>> notes_on_cut_texts(2)
    ('2 of the texts encoded in this run are longer than the model reads, and lost their end',)
    """
    if not count:
        return ()
    noun = "texts encoded in this run are longer than the model reads, and lost their end"
    return (f"{count:,} of the {noun}",)


def evaluate_scores(
    scores: Scores, benchmark: Benchmark, *, origin: str, rounded_ties: int = 0, seed: int = 0
) -> Evaluation:
    """Measure scores that were made elsewhere.

    Args:
        scores: of all the benchmark's items.
        benchmark: its outline is read; its captions, too, where they are.
        origin: the file, for the record.
        rounded_ties: items in which rounding to float32 made two scores equal, for the record.
        seed: of the bootstrap.

    Raises:
        ScoreError: an item of the benchmark has no scores.
        MetricError: no metric is defined for this shape and kind.

    >>> from tellapart.benchmarks.benchmark import find_benchmark
    >>> benchmark = find_benchmark("winoground")
    >>> made = Scores(benchmark.outline().ids, [[[0.9, 0.1], [0.2, 0.8]]] * 400, "similarity")
    >>> evaluate_scores(made, benchmark, origin="doc").result.metrics["group_score"].value
    1.0
    """
    started = time.monotonic()
    pairs = benchmark.pairs_here()
    outline = benchmark.outline() if pairs is None else pairs.outline
    measured = measure(scores, outline, seed=seed)
    result = BenchmarkResult(
        title=benchmark.title,
        fingerprint=_fingerprint_of_ids(outline),
        shape=outline.shape,
        kind=scores.kind,
        **_numbers(measured),
        rounded_ties=rounded_ties,
        seconds=time.monotonic() - started,
        origin=origin,
    )
    items = None if pairs is None else pairs.items
    return Evaluation(result, _samples(scores.select(outline.ids), outline, measured, items))


def _numbers(measured: Measured) -> dict[str, Any]:
    return {
        "metrics": measured.metrics,
        "by": measured.by,
        "macro": measured.macro,
        "curves": measured.curves,
        "tied_items": int((measured.tied_comparisons > 0).sum()),
        "tied_comparisons": int(measured.tied_comparisons.sum()),
    }


def _fingerprint_of_ids(outline: Outline) -> str:
    listed = "\n".join([f"ids only {outline.shape}", *sorted(outline.ids)])
    return IDS_ONLY + hashlib.sha256(listed.encode()).hexdigest()


def _samples(scores: Scores, outline: Outline, measured: Measured, items: Sequence[Item] | None) -> tuple[Sample, ...]:
    tables = {name: column.tolist() for name, column in measured.outcomes.items()}
    tied = {name: column.tolist() for name, column in measured.tied.items()}
    values = scores.values.tolist()  # float32 to the nearest double: reading it back gives the same float32
    return tuple(
        Sample(
            id=outline.ids[row],
            cluster=outline.clusters[row],
            tags=dict(outline.tags[row]),
            images=items[row].images if items else (),
            texts=items[row].texts if items else (),
            scores=values[row],
            outcomes={name: column[row] for name, column in tables.items()},
            tied=tuple(name for name, column in tied.items() if column[row]),
        )
        for row in range(len(outline.ids))
    )
