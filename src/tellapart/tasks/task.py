"""What a task is: what a model must put out for each of its records, and how that becomes numbers.

Adding a task is one file here and one line in `registry.py`; adding a benchmark of it is one file under `benchmarks/`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from tellapart.data.images import decode
from tellapart.data.progress import Progress
from tellapart.metrics.per_item import PerItem
from tellapart.models.protocols import Model, Pixels
from tellapart.models.store import EmbeddingStore

__all__ = ["Output", "Pictures", "Session", "Task", "TaskMetric", "Unit", "Units"]

Output = Literal["scores", "label", "text", "box"]
"""The kinds of output: `scores` of images and texts, a `label` (true or false), a `text`, a `box` in pixels."""

Pictures = Callable[[str], bytes]
"""Takes an image's reference to its file's bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMetric:
    """What must be known of a task's metric to read its number.

    Attributes:
        name: the key in results.
        title: one line for people.
        source: the paper's section, or the file that defines it.
        chance: what a model without information gets; None where that is not defined for every benchmark alike.

    >>> TaskMetric(name="accuracy", title="right", source="NLVR2", chance=0.5).name
    'accuracy'
    """

    name: str
    title: str
    source: str
    chance: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One thing that is right or wrong: a query, a statement, a question, a pair of them.

    Attributes:
        id: distinct among the units of its noun.
        cluster: what is resampled together.
        tags: by which results are broken down.
        images: references of what is shown, for the report.
        texts: likewise.
        output: what the model put out for it, as JSON holds it; None where that is not one thing.
        gold: what would have been right, in words.

    >>> Unit(id="0", cluster="0").tags
    {}
    """

    id: str
    cluster: str
    tags: Mapping[str, str] = field(default_factory=dict)
    images: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    output: Any = None
    gold: str = ""


@dataclass(frozen=True, slots=True)
class Units:
    """Units of one noun, and every metric that has a value for each of them.

    >>> Units("statement", (), ()).found
    ()
    """

    noun: str
    units: tuple[Unit, ...]
    found: tuple[PerItem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What a model is run with: where images and the store are, and who is told of the progress.

    Attributes:
        pictures: the images' bytes.
        store: of embeddings.
        batch_size: images or texts given to the model at once; changes no number.
        progress: told what is done.

    >>> Session(pictures=lambda reference: b"", store=EmbeddingStore(None)).batch_size
    32
    """

    pictures: Pictures
    store: EmbeddingStore
    batch_size: int = 32
    progress: Progress | None = None

    def pixels(self, reference: str) -> Pixels:
        """Decode an image: RGB, uint8 `(height, width, 3)`.

        Raises:
            DataError: there is none, or it cannot be decoded.

        >>> Session(pictures=lambda reference: b"", store=EmbeddingStore(None)).pixels("a.png")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        tellapart.errors.DataError: a.png...
        """
        return decode(self.pictures(reference), reference)


def _no_notes(_records: Any, _predictions: Any) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One kind of benchmark that is no set of minimal pairs.

    Attributes:
        name: as benchmarks declare it.
        title: one line for people.
        output: what a model must put out.
        noun: what it must do so for: "statement", "question".
        metrics: in the order of tables.
        size: how many records there are, as `--limit` counts them.
        select: keeps those at some positions.
        content: what the fingerprint is of: anything that JSON holds.
        template: yields the rows of the file that a system elsewhere fills in.
        suffixes: of the files that predictions are read from.
        read: reads such a file, checked against the records: one prediction a record, nothing missing or left over.
        measure: takes records and predictions to units with their metrics.
        notes: lines for people about this measurement: what no number says.
        runners: kinds of model (protocols) that `run` can use, each with the function that runs one.
        models: those kinds, in words.
        todo: what is to be done with an exported file, in words.

    >>> from tellapart.tasks.registry import TASKS
    >>> TASKS["nlvr2"].output
    'label'
    """

    name: str
    title: str
    output: Output
    noun: str
    metrics: tuple[TaskMetric, ...]
    size: Callable[[Any], int]
    select: Callable[[Any, Sequence[int]], Any]
    content: Callable[[Any], Any] = asdict
    template: Callable[[Any], Iterator[Mapping[str, Any]]]
    suffixes: tuple[str, ...] = (".jsonl", ".csv", ".json")
    read: Callable[[Path, Any], Any]
    measure: Callable[[Any, Any], Sequence[Units]]
    notes: Callable[[Any, Any], tuple[str, ...]] = _no_notes
    runners: tuple[tuple[type, Callable[[Any, Any, Session], Any]], ...] = ()
    models: str
    todo: str = "fill in `prediction`"

    def runner(self, model: Model) -> Callable[[Any, Any, Session], Any] | None:
        """Return the function that runs this model on the task's records; None if the model is of no kind that can.

        >>> from tellapart.models.reference import Constant
        >>> from tellapart.tasks.registry import TASKS
        >>> TASKS["nlvr2"].runner(Constant()) is None
        True
        """
        return next((run for kind, run in self.runners if isinstance(model, kind)), None)
