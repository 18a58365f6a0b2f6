"""Minimal pairs: does each image prefer its caption, and each caption its image?

A model scores every image of an item with every text of it; scores may also come from a file.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.data.item import Item
from tellapart.data.pairset import Outline, PairSet, describe
from tellapart.data.scores import Scores
from tellapart.errors import MetricError, quote
from tellapart.metrics.choice import choice_score
from tellapart.metrics.metric import Metric, read_scores
from tellapart.metrics.registry import METRICS, defined_for
from tellapart.metrics.ties import tied_comparisons
from tellapart.models.find import Deferred
from tellapart.models.protocols import DualEncoder, MatrixScorer, Model
from tellapart.models.scoring.score import Scored, embeddings, own_part
from tellapart.models.store.content_hash import image_hashes
from tellapart.records.result import IDS_ONLY
from tellapart.tasks.declared import DECLARED, facts_of
from tellapart.tasks.running import read_scored, score_pairs
from tellapart.tasks.task import OF_SCORES, SCORERS, Session, Task, Unit, Units, unit_of

# The task `true-texts` compares an item's texts, two true ones and a false one, with each other, without its image.

#: The two texts of each score: the true ones, then each of them with the false one.
_TEXT_PAIRS = ((0, 1), (0, 2), (1, 2))

#: `tot`: the two true texts are closer to each other than either is to the false one; `tot_one_sided`: than the first.
_TRUE_TEXT_METRICS = tuple(
    replace(DECLARED[name], shapes=("1x3",), strict=strict)
    for name, strict in (
        ("tot", choice_score),
        ("tot_one_sided", lambda scores: choice_score(np.asarray(scores)[:, :, :2])),
    )
)


def _yield_text_pairs(records: PairSet) -> Iterator[Mapping[str, Any]]:
    for item in records.items:
        texts = item.truth_first().texts
        for number, (first, other) in enumerate(_TEXT_PAIRS):
            pair = {"first": texts[first], "second": texts[other]}
            yield {"id": item.id, "image": 0, "text": number, "score": None, **pair}


def _compare_texts(model: DualEncoder | Deferred, records: PairSet, session: Session) -> Scored:
    items = tuple(item.truth_first() for item in records.items)
    ordered = PairSet(records.name, items, records.root, read=records.read)
    vectors = embeddings(model, ordered, store=session.store, images=False, progress=session.progress).texts
    assert vectors is not None  # noqa: S101  (they were asked for)
    unit = vectors / np.linalg.norm(vectors, axis=2, keepdims=True)
    scores = np.stack([(unit[:, a] * unit[:, b]).sum(axis=1) for a, b in _TEXT_PAIRS], axis=1)  # cosines (item, pair)
    return Scored(Scores([item.id for item in records.items], scores[:, None, :], "similarity"))


def _measure_true_texts(records: PairSet, predictions: Scored) -> tuple[Units, ...]:
    values = predictions.scores.select([item.id for item in records.items]).values
    units = tuple(
        unit_of(item, images=(), texts=item.truth_first().texts, output=item_values[0].tolist())
        for item, item_values in zip(records.items, values, strict=True)
    )
    return (Units("item", units, tuple(metric.measure(values) for metric in _TRUE_TEXT_METRICS)),)


TRUE_TEXTS = Task(
    **facts_of("true-texts"),
    **OF_SCORES,
    content=lambda records: sorted((item.id, *item.texts, *map(str, item.true)) for item in records.items),
    template=_yield_text_pairs,
    read=lambda path, records, kind=None: read_scored(path, [item.id for item in records.items], (1, 3), kind),
    measure=_measure_true_texts,
    runners=((DualEncoder, _compare_texts), (Deferred, _compare_texts)),
    images=lambda _records: (),
)


@dataclass(frozen=True, slots=True)
class ListedPairs:
    """The pairs that scores made elsewhere must cover; with their items if the benchmark's files are here."""

    outline: Outline
    items: tuple[Item, ...] | None = None
    rows: NDArray[np.int64] | None = field(default=None, compare=False)
    read_as: str = field(default="", compare=False)

    def __len__(self) -> int:
        return len(self.outline.ids)


def measure_pairs(
    records: PairSet | ListedPairs, predictions: Scored, metrics: Sequence[Metric] = ()
) -> tuple[Units, ...]:
    """Measure scores by these metrics, or else by every metric that is defined for their shape and kind."""
    outline, scores = records.outline, predictions.scores
    metrics = metrics or defined_for(outline.shape, scores.kind, outline.true)
    if not metrics:
        several = f", {outline.true} of them true," if outline.true > 1 else ""
        raise MetricError(
            f"no metric is defined for {describe(outline.shape)}{several} and scores that are a {scores.kind}"
        )
    values = _put_truth_first(outline, scores)
    per_item = tuple(metric.measure(metric.scaled(values, scores.kind), outline.true) for metric in metrics)
    items = None if records.items is None else [item.truth_first() for item in records.items]
    return (Units("item", tuple(_make_units(outline, items, values)), per_item),)


def _put_truth_first(outline: Outline, scores: Scores) -> NDArray[np.float32]:
    """Return the scores of an outline's items with the true entries first, as metrics expect them.

    Files, templates and pair sets keep the published order.
    """
    values = scores.select(outline.ids).values
    if not outline.truths:
        return values
    side, single = (2, 1) if outline.shape[0] == 1 else (1, 2)  # axes of (item, image, text); one of them has length 1
    places = [[*truth, *(k for k in range(values.shape[side]) if k not in truth)] for truth in outline.truths]
    return np.take_along_axis(values, np.expand_dims(np.array(places), single), axis=side)


def _make_units(outline: Outline, items: Sequence[Item] | None, values: NDArray[np.float32]) -> Iterator[Unit]:
    scores = values.tolist()  # doubles, from which a reader gets the same float32 back
    for row, name in enumerate(outline.ids):
        true = outline.truths[row] if outline.truths else ()
        entries: dict[str, Any] = {"images": items[row].images, "texts": items[row].texts} if items else {}
        yield Unit(
            id=name, cluster=outline.clusters[row], tags=outline.tags[row], scores=scores[row], true=true, **entries
        )


def _list_facts(records: PairSet | ListedPairs, predictions: Scored, session: Session) -> dict[str, Any]:
    outline = records.outline
    tied = tied_comparisons(_put_truth_first(outline, predictions.scores), outline.true)
    facts: dict[str, Any] = {
        "shape": outline.shape,
        "tied_items": int((tied > 0).sum()),
        "tied_comparisons": int(tied.sum()),
        "read_as": records.read_as,
    }
    counts = ("rounded_ties", "images_encoded", "texts_encoded", "texts_shared", "pairs_scored")
    facts |= {name: getattr(predictions, name) for name in counts}
    if outline.true > 1:
        facts["true"] = outline.true
    if isinstance(records, PairSet):
        hashes = image_hashes(records, store=session.store, hashes=session.hashes)
        texts = {text for item in records.items for text in item.texts}
        facts |= {"images": len(set(hashes.values())), "texts": len(texts), "origin": str(records.root)}
    return facts


def _compute_fingerprint(records: PairSet | ListedPairs, session: Session) -> str:
    """Return the SHA-256 of ids, texts and pixels; of the shape and the ids alone if scores come from elsewhere."""
    if isinstance(records, ListedPairs):
        ids = "\n".join([f"ids only {records.outline.shape}", *sorted(records.outline.ids)])
        return IDS_ONLY + hashlib.sha256(ids.encode()).hexdigest()
    hashes = image_hashes(records, store=session.store, hashes=session.hashes)
    return records.fingerprint(hashes.__getitem__)


def _list_expected(benchmark: Benchmark) -> ListedPairs:
    if (pairs := benchmark.records_here()) is None:
        return ListedPairs(benchmark.outline())
    return ListedPairs(pairs.outline, pairs.items, pairs.rows, pairs.read_as)


def _check_model(model: Model, benchmark: Benchmark) -> None:
    remedy = "; an item needs a false text (negative_caption) or a second image, to be told from the true one"
    if benchmark.shape is not None and not defined_for(benchmark.shape, model.kind, benchmark.true):
        several = f" with {benchmark.true} true ones" if benchmark.true > 1 else ""
        raise MetricError(
            f"{model.name} on {benchmark.name}: no metric is defined for {describe(benchmark.shape)}{several} "
            f"and scores that are a {model.kind}{remedy if benchmark.shape == (1, 1) else ''}"
        )


def _yield_rows(pairs: PairSet, *, labelled: bool = False) -> Iterator[Mapping[str, Any]]:
    """Yield a row to fill in for every image with every text; `labelled` rows are those of Winoground's tools."""
    for item in pairs.items:
        for (image, file), (text, caption) in product(enumerate(item.images), enumerate(item.texts)):
            if labelled:
                yield {"label": f"{item.id}_c{text}_i{image}", "score": None, "image": file, "caption": caption}
            else:
                place = {"id": item.id, "image": image, "text": text}
                yield place | {"score": None, "image_file": file, "caption": caption}


def _note_repeats(pairs: PairSet | ListedPairs, _scored: Scored) -> tuple[str, ...]:
    """Return a note on items with the same caption or picture twice, which no model can get right."""
    items = pairs.items or ()
    ids = [it.id for it in items if len({*it.texts}) < len(it.texts) or len({*it.images}) < len(it.images)]
    if not ids:
        return ()
    count = f"{len(ids):,} of {len(pairs):,} items, {quote(ids[0], 80)} first, have a caption or a picture twice"
    return (f"{count}, which ties for every model; tellapart audit lists them",)


PAIRS = Task(
    **(facts_of("pairs") | {"metrics": tuple(METRICS.values())}),
    **OF_SCORES,
    # Sorted, and without paths of images: the order of the file and the place of the images do not count.
    content=lambda records: sorted((item.id, *item.texts, *map(str, item.true)) for item in records.items or ()),
    fingerprint=_compute_fingerprint,
    template=_yield_rows,
    templates={".jsonl": partial(_yield_rows, labelled=True)},
    listed=_list_expected,
    read=lambda path, records, kind=None: read_scored(
        path, records.outline.ids, records.outline.shape, kind, records.rows
    ),
    measure=measure_pairs,
    notes=_note_repeats,
    facts=_list_facts,
    runners=tuple((kind, score_pairs) for kind in (*SCORERS, MatrixScorer, Deferred)),
    check=_check_model,
    part=own_part,
    refusal="it gives no scores; a model that answers in words is asked which caption belongs to which image by -b "
    "pairing:{name} (2x2 items), and which of two captions fits by -b choice:{name} (1x2 items)",
    images=lambda pairs: (image for item in pairs.items for image in item.images),
)


_SHAPES = ("1xm",)


def ordering_score(scores: ArrayLike) -> NDArray[np.float64]:
    """Return 1 if every text outscores the next, less true one, else 0 (on a tie, too): float64 (item,); chance 1/m!.

    Source: Half-Truths (Kargi et al. 2026), correct ordering rate of its scripts/evaluate_half_truth.py.

    >>> ordering_score([[[0.9, 0.5, 0.1]], [[0.9, 0.1, 0.5]], [[0.9, 0.5, 0.5]]])
    array([1., 0., 0.])
    """
    flat = read_scores(scores, "ordering_score", _SHAPES)[:, 0, :]
    return np.asarray((flat[:, :-1] > flat[:, 1:]).all(axis=1), dtype=np.float64)


_ORDERING = Metric(
    name="ordering_score",
    title="every text outscores the next one, which is less true",
    source="Half-Truths (Kargi et al. 2026), correct ordering rate",
    shapes=_SHAPES,
    strict=ordering_score,
    chance_level=lambda shape: 1 / math.factorial(shape[1]),
)

ORDERED_TEXTS = replace(
    PAIRS,
    **(facts_of("ordered-texts") | {"metrics": (_ORDERING,)}),
    measure=partial(measure_pairs, metrics=(_ORDERING,)),
    accepts=(),
)
