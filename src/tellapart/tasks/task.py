"""The declaration of a task: a model's output for each record, and the step from outputs to numbers.

Minimal pairs are one task among others. Adding a task is one file here and one line in `tellapart.catalog.TASKS`;
adding a benchmark of it is one file under `benchmarks/` and one line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import Any, Generic, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar

from tellapart.benchmarks.benchmark import Benchmark, Records
from tellapart.data.item import Item
from tellapart.data.progress import Progress
from tellapart.data.scores import ScoreKind, Scores
from tellapart.data.task_records import Record, RecordSet, linked_images
from tellapart.data.video import DEFAULT_FRAMES, decode_slot, is_video
from tellapart.metrics.metric import Metric, Shape
from tellapart.metrics.per_item import PerItem, mean
from tellapart.models.protocols import DualEncoder, Generator, KeyReader, Model, PairScorer, Pixels, TextScorer
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.tasks.declared import DECLARED


def image_of(rows: Sequence[Record]) -> list[str]:
    """Return the image of each record: the cluster of tasks whose records share nothing else."""
    return [row.images[0] for row in rows]


def all_images(records: RecordSet) -> Iterator[str]:
    """Yield the references of the images of all records."""
    return (image for row in records.rows for image in row.images)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hiding:
    """The rules by which records of one task are hidden.

    A metric may be published if it is a mean of right answers, from 0 to 1, over units that anybody can count: a
    statement, a sentence, a question, a phrase. Not CIDEr or BLEU, which are made of all captions together; not
    `consistency_both_labels` and `pair_accuracy`: their labels choose the units, so the number of units would be known.

    Everything that is published or decided (order, split, names) is made of bare records, which hold no label.

    Attributes:
        records: the set's type, a `RecordSet`.
        sources: the fields that name the source of a record, such as its cluster; they get secret names.
        bare: takes a record to its visible part: its gold fields are blank.
        clusters: takes bare records to the group with which each must share a split; no unit of the task joins two of
            them.
        metrics: that may be published, the headline's first.
        send: the prediction that is asked for, in words.
        nothing: predictions of so many records that are all wrong: a benchmark is measured on them before it is opened.
        restore: takes predictions of bare records to those of the records.
        size: a record's image: width and height in pixels, if its labels are in pixels.
    """

    records: type[RecordSet]
    sources: tuple[str, ...] = ()
    bare: Callable[[Record], Record]
    clusters: Callable[[Sequence[Record]], Sequence[str]] = image_of
    metrics: tuple[str, ...]
    send: str
    nothing: Callable[[int], Any]
    restore: Callable[[Any, Sequence[Any], Sequence[Any]], Any] = lambda predictions, _bare, _rows: predictions
    size: Callable[[Record], tuple[int, int]] | None = None


#: The type of a task's predictions, one for each record.
Predictions = TypeVar("Predictions", default=Any)

#: Kinds of model that give scores of images and texts, which the store keeps.
SCORERS = (KeyReader, TextScorer, DualEncoder, PairScorer, Generator)

#: Fields of a task whose predictions are scores of images and texts.
OF_SCORES: dict[str, Any] = {
    "suffixes": (".npz", ".csv", ".jsonl", ".npy"),
    "kinds": get_args(ScoreKind),
    "kind_of": lambda predictions: predictions.scores.kind,
}

Output = Literal["scores", "label", "text", "box"]
"""The kinds of output: `scores` of images and texts, a `label` (true or false), a `text`, a `box` in pixels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One thing that is right or wrong: an item, a query, a statement, a question, a pair of them.

    Attributes:
        id: distinct among the units of its noun.
        cluster: the unit of resampling.
        tags: by which results are broken down.
        images: references of the images shown, for the report.
        texts: likewise.
        scores: of every image with every text, `[image][text]`, float32; empty if the task has none.
        output: the model's output for it, as JSON holds it; None if that is not one thing.
        gold: the right answer, in words; empty for pairs.
        true: of pairs: the places of the true entries in the file, if these are not the first.
    """

    id: str
    cluster: str
    tags: Mapping[str, str] = field(default_factory=dict)
    images: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    scores: Any = ()
    output: Any = None
    gold: str = ""
    true: tuple[int, ...] = ()


def unit_of(row: Record | Item, **facts: Any) -> Unit:
    """Return the unit of a record; its cluster is the record's, or else its first image."""
    shared: dict[str, Any] = {"tags": row.tags, "images": row.images, "texts": row.texts}
    return Unit(id=row.id, **({"cluster": row.cluster or row.images[0]} | shared | facts))


def units_of(rows: Sequence[Record], outputs: Sequence[Any], gold: Sequence[str]) -> tuple[Unit, ...]:
    """Return the unit of each record, with the model's output and the right answer."""
    together = zip(rows, outputs, gold, strict=True)
    return tuple(unit_of(row, output=output, gold=answer) for row, output, answer in together)


def join_units(units: Sequence[Unit], groups: Iterable[Sequence[int]]) -> tuple[Unit, ...]:
    """Return the unit of each group of units: all images and texts, a list of outputs, and the tags that all bear.

    Groups that have a cluster in common, also by way of others, are one cluster.
    """
    joined = [[units[row] for row in group] for group in groups]
    linked = linked_images([(group[0].cluster, unit.cluster) for group in joined for unit in group])
    return tuple(
        replace(
            group[0],
            id="+".join(unit.id for unit in group),
            cluster=linked[group[0].cluster],
            tags=dict(item for item in group[0].tags.items() if all(item in unit.tags.items() for unit in group)),
            images=tuple(dict.fromkeys(image for unit in group for image in unit.images)),
            texts=tuple(dict.fromkeys(text for unit in group for text in unit.texts)),
            output=[unit.output for unit in group],
            gold=", ".join(str(unit.gold) for unit in group),
        )
        for group in joined
    )


@dataclass(frozen=True, slots=True)
class Units:
    """Units of one noun, and every metric that has a value for each of them."""

    noun: str
    units: tuple[Unit, ...]
    values: tuple[PerItem, ...]
    #: All units of this noun, if it depends on the model which of them have values: runs then hold the same samples.
    asked: tuple[Unit, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The setting of a model's run: the images by reference, the store, the batch size, and the frames of a video.

    All models of a run share `hashes`, image reference -> hash of its pixels, so that no image is decoded twice;
    `scores` are those that `score_items` got of the model, for the notes of the record.
    """

    pictures: Callable[[str], bytes]
    store: EmbeddingStore
    batch_size: int | None = None
    progress: Progress | None = None
    frames: int = DEFAULT_FRAMES
    hashes: dict[str, str] = field(default_factory=dict)
    scores: list[Scores] = field(default_factory=list)

    @property
    def batch(self) -> int:
        """The batch size of models that choose none."""
        return self.batch_size or 32

    def pixels(self, reference: str) -> Pixels:
        """Decode an image to RGB, uint8 `(height, width, 3)`, or a video to `(frames, height, width, 3)`."""
        return decode_slot(self.pictures(reference), reference, self.frames)


Runner = Callable[[Any, Records, Session], Predictions]
"""Runs a model on records: (model, records, session) -> predictions."""


def scored_by(run: Runner) -> tuple[tuple[type, Runner], ...]:
    """Return the runners of a task of any model that scores images with texts, and knows no key."""
    return tuple((kind, run) for kind in (DualEncoder, PairScorer, Generator, TextScorer))


def to_fill(fields: Callable[[Record], Mapping[str, Any]]) -> Callable[[Any], Iterator[Mapping[str, Any]]]:
    """Return the template of a set of records: of each its id, the place of the prediction, and these fields."""
    return lambda records: ({"id": row.id, "prediction": None, **fields(row)} for row in records.rows)


def value_of(metric: Metric | str, strict: NDArray[np.float64], **facts: Any) -> PerItem:
    """Return the value of a metric for every unit; its bounds, and its chance if no other is given, are as declared."""
    metric = DECLARED[metric] if isinstance(metric, str) else metric
    declared: dict[str, Any] = {} if "chance" in facts else {"chance": metric.chance()}
    if "chances" in facts:
        declared["chance"] = float(mean(facts["chances"]))
    bounds = None if metric.together else metric.finite_bounds
    return PerItem(name=metric.name, strict=strict, binary=metric.binary, bounds=bounds, **declared, **facts)


def _do_nothing(*_: Any) -> Any:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(Generic[Records, Predictions]):
    """One kind of benchmark, and all that the package needs for it.

    Attributes:
        name: as benchmarks declare it.
        noun: one record: "pair", "statement", "question".
        headlines: the metrics of a first look: the first row of which all are defined.
        size: how many records there are, as `--limit` counts them.
        content: takes records to the content of the digest and the default fingerprint: anything that JSON holds.
        fingerprint: takes records and the session to their fingerprint; that of `content` if None.
        template: yields the rows of the file that a system elsewhere fills in.
        templates: file suffix -> another template for files of that suffix.
        suffixes: of the files that predictions are read from.
        listed: takes a benchmark to the records that predictions made elsewhere are checked against.
        read: reads such a file: one prediction a record, nothing missing or left over. With `kinds` it takes a `kind`.
        kinds: of scores that a file may hold; empty if predictions are none.
        kind_of: takes predictions to the kind of their scores; None if they are none.
        measure: takes records and predictions to units with their metrics.
        facts: takes records, predictions and session to further fields of the benchmark's record.
        notes: lines for people about this measurement: facts that no number shows.
        runners: kinds of model (protocols) that `run` can use, each with the function that runs one.
        check: raises a `MetricError` if this model's output means nothing on this benchmark.
        part: takes model, records, rank and number of ranks to the records of one of several processes; a block of the
            records, for models whose scores the store keeps, if None.
        models: the kinds of model, in words.
        refusal: the message about a model of another kind; `{output}`, `{models}` and `{name}` (the benchmark's) are
            filled in.
        todo: the next step for an exported file, in words.
        images: takes records to the references of their images; those that `hiding` or the template's rows name if
            None.
        accepts: the uploads that a board that hides the labels can take: `scores`, `answers`, `predictions`; empty if
            nothing.
        hiding: how records of this task are hidden; None for pairs, which are shuffled, and if nothing is accepted.
    """

    name: str
    title: str
    output: Output
    noun: str
    metrics: tuple[Metric, ...]
    headlines: tuple[tuple[str, ...], ...] = ()
    size: Callable[[Records], int] = len  # type: ignore[assignment]
    select: Callable[[Records, Sequence[int]], Records] = lambda records, places: records.select(places)  # type: ignore[attr-defined]
    content: Callable[[Records], Any] = lambda records: (
        records.content() if isinstance(records, RecordSet) else asdict(records)  # type: ignore[call-overload]
    )
    fingerprint: Callable[[Records, Session], str] | None = None
    template: Callable[[Records], Iterator[Mapping[str, Any]]]
    templates: Mapping[str, Callable[[Records], Iterator[Mapping[str, Any]]]] = field(default_factory=dict)
    suffixes: tuple[str, ...] = (".jsonl", ".csv", ".json")
    listed: Callable[[Benchmark[Records]], Records] = Benchmark.records
    read: Callable[..., Predictions]
    kinds: tuple[ScoreKind, ...] = ()
    kind_of: Callable[[Predictions], ScoreKind | None] = lambda _predictions: None
    measure: Callable[[Records, Predictions], Sequence[Units]]
    facts: Callable[[Records, Predictions, Session], Mapping[str, Any]] = _do_nothing
    notes: Callable[[Records, Predictions], tuple[str, ...]] = lambda _records, _predictions: ()
    runners: tuple[tuple[type, Runner[Records, Predictions]], ...] = ()
    check: Callable[[Model, Benchmark], None] = _do_nothing
    part: Callable[[Model, Records, int, int], Records | None] | None = None
    models: str = "a model that scores images with texts"
    refusal: str = (
        "the task asks for {output}, of {models}; for predictions made elsewhere: tellapart export {name} --to FILE, "
        "then tellapart score {name} --scores FILE"
    )
    todo: str = "fill in `prediction`"
    images: Callable[[Records], Iterable[str]] | None = None
    accepts: tuple[str, ...] = ()
    hiding: Hiding | None = None

    def runner(self, model: Model) -> Runner[Records, Predictions] | None:
        """Return the function that runs this model on the task's records; None if the model is of no kind that can."""
        return next((run for kind, run in self.runners if isinstance(model, kind)), None)

    def metrics_for(self, shape: Shape | None, true: int = 1) -> tuple[Metric, ...]:
        """Return the metrics of a benchmark of this task, whose items have that shape if they are pairs."""
        return tuple(
            metric for metric in self.metrics if not metric.shapes or (shape and metric.defined_for(shape, true))
        )

    def fingerprint_for(self, records: Records, session: Session) -> str:
        """Return the fingerprint of records: two runs with one fingerprint measured the same content."""
        if self.fingerprint is not None:
            return self.fingerprint(records, session)
        content = json.dumps(self.content(records), sort_keys=True)  # pixels are not part of it
        if self.shows_videos(records):
            content += f"\0{session.frames} frames"
        return f"records-{hashlib.sha256(content.encode()).hexdigest()}"

    def digest(self, records: Records) -> str:
        """Return 16 hexadecimal digits that stand for the records' content, whatever they are called."""
        content = self.content(records)
        if isinstance(content, dict):
            content = {key: value for key, value in content.items() if key != "name"}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def images_of(self, records: Records) -> list[str]:
        """Return the references of all images of some records, each once."""
        if self.images is not None:
            references = self.images(records)
        elif self.hiding is not None:
            references = all_images(records)  # type: ignore[arg-type]
        else:
            rows = self.template(records)
            references = (image for row in rows for image in (row.get("images") or [row.get("image")]) if image)
        return list(dict.fromkeys(references))

    def shows_videos(self, records: Records) -> bool:
        """Return whether the first record has a video in an image's place."""
        references = self.images(records) if self.images is not None else ()
        return any(map(is_video, islice(references, 1)))

    def part_of(self, model: Model, records: Records, rank: int, ranks: int) -> Records | None:
        """Return the part of the records that one process of several computes; None if a store keeps nothing of it."""
        if self.part is not None:
            return self.part(model, records, rank, ranks)
        stored = next((run for kind, run in self.runners if kind in SCORERS and isinstance(model, kind)), None)
        size = self.size(records)
        block = range(rank * size // ranks, (rank + 1) * size // ranks)
        return self.select(records, block) if block and stored is not None and self.runner(model) is stored else None
