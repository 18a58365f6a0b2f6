"""A hidden benchmark made ready once: the task file that everybody may have, and the truth that stays beside it.

`<state>/hidden/<name>/task.zip` holds what may be seen (`task_file.py`); `truth.json` the labels, and what undoes the
shuffle. Both appear together or not at all, and are never made again: a second shuffle would void what was sent. Beside them
`published.json` is what a file is read with, made of the truth whenever a board is opened that has none or another: the task
file's rows again, for a process that must not see the truth.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.locations import Locations
from tellapart.board.submissions.hidden import HiddenBenchmark, check_limits
from tellapart.board.submissions.hidden_records import HiddenRecords, hide_records
from tellapart.board.submissions.measuring import measure_sent
from tellapart.board.submissions.reencode import suffix_for
from tellapart.board.submissions.shuffled import Hidden, hide
from tellapart.board.submissions.task_file import write_task
from tellapart.data.atomic import atomic_file
from tellapart.data.folder import read_pair_set
from tellapart.data.images import decode
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet, describe
from tellapart.data.rows import read_object
from tellapart.data.scores import ScoreKind
from tellapart.errors import DataError, TellapartError
from tellapart.metrics.registry import defined_for
from tellapart.tasks.pairing import PAIRING
from tellapart.tasks.pairs import PAIRS
from tellapart.tasks.registry import HIDEABLE, TASKS, headline
from tellapart.tasks.task import Task

__all__ = ["Prepared", "prepare", "read_truth", "told_metrics"]

_ANSWERS = ("group_score_both_orders",)
_KINDS: tuple[ScoreKind, ...] = ("similarity", "logit", "probability")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A hidden benchmark that is ready to be tried.

    Attributes:
        benchmark: its settings.
        folder: where its task file and truth lie.
        task: as records name it: `pairs`, `pairing` or a task's name.
        shape: images and texts of an item; None for a task's records.
        items: all of them.
        public: those of the public split.
        metrics: whose numbers are told.
        fingerprint: SHA-256 of the task file.

    >>> Prepared.__slots__
    ('benchmark', 'folder', 'task', 'shape', 'items', 'public', 'metrics', 'fingerprint')
    """

    benchmark: HiddenBenchmark
    folder: Path
    task: str
    shape: tuple[int, int] | None
    items: int
    public: int
    metrics: tuple[str, ...]
    fingerprint: str

    @property
    def what(self) -> str:
        """What there is of it, in words: items of a shape, or records of a task."""
        if self.shape is not None:
            return f"{self.items} items of {_counted(self.shape[0], 'image')} and {_counted(self.shape[1], 'text')}"
        task = TASKS[self.task]
        return f"{_counted(self.items, task.noun)} ({task.title})"

    @property
    def task_file(self) -> Path:
        """The archive that may be downloaded."""
        return self.folder / "task.zip"

    @property
    def truth(self) -> Path:
        """The file that nobody else may see."""
        return self.folder / "truth.json"

    @property
    def published(self) -> Path:
        """The file that `reading.py` reads: nothing that is not in the task file."""
        return self.folder / "published.json"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def told_metrics(benchmark: HiddenBenchmark, shape: tuple[int, int] | None, task: str = "pairs") -> tuple[str, ...]:
    """Return the metrics whose numbers are told: right or wrong for each item, and defined for every kind of score.

    Args:
        benchmark: its settings.
        shape: images and texts of an item; None for a task's records.
        task: as `Prepared` has it.

    Raises:
        DataError: one that the board file names is none of them, or there is none.

    >>> told_metrics(HiddenBenchmark(name="clocks", pairs="clocks"), (2, 2))
    ('text_score', 'image_score', 'group_score')
    """
    if shape is None:
        named, default = set(HIDEABLE[task].metrics), HIDEABLE[task].metrics[:1]
    elif benchmark.protocol == "answers":
        if shape != (2, 2):
            raise DataError(f"hidden benchmark {benchmark.name!r}: answers are asked of 2x2 items, not {shape}")
        named = {metric.name for metric in PAIRING.metrics if metric.name.startswith("group_score")}
        default = _ANSWERS
    else:
        named = {m.name for m in defined_for(shape) if m.binary and all(kind in m.kinds for kind in _KINDS)}
        default = headline(named)
        if not default:
            raise DataError(f"hidden benchmark {benchmark.name!r}: no metric is defined for {describe(shape)}")
    if unknown := [name for name in benchmark.metrics if name not in named]:
        raise DataError(
            f"hidden benchmark {benchmark.name!r}: {unknown[0]!r} cannot be told; use of {', '.join(sorted(named))}"
        )
    return benchmark.metrics or default


def prepare(benchmark: HiddenBenchmark, folder: Path, key: bytes) -> Prepared:
    """Make the task file and the truth, or find them made; refuse limits that would tell too much.

    Args:
        benchmark: its settings.
        folder: `<state>/hidden`.
        key: secret, of this benchmark alone.

    Raises:
        DataError: the pairs or records cannot be read, are too few to be split, an image cannot be decoded, the limits
            would tell too much, what was made is of another source, or the disk refuses.

    >>> prepare(HiddenBenchmark(name="clocks", pairs="no such folder"), Path("no such state"), b"k")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tellapart.errors.DataError: no folder 'no such folder'...
    """
    place = folder / benchmark.name
    try:
        if not (place / "truth.json").is_file():
            _make(benchmark, place, key)
        hidden = read_truth(place / "truth.json")
        _publish(hidden, place / "published.json")
        with (place / "task.zip").open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"hidden benchmark {benchmark.name!r} cannot be prepared in {place}: {error}") from error
    task, shape = _kind(benchmark, hidden)
    if (task in HIDEABLE) != (benchmark.protocol == "predictions"):
        raise DataError(
            f"hidden benchmark {benchmark.name!r} was prepared of another source, and files may have been sent to it: give "
            "the new one another name"
        )
    metrics, public = told_metrics(benchmark, shape, task), sum(hidden.public)
    check_limits(benchmark, public, shape, len(metrics))
    return Prepared(benchmark, place, task, shape, len(hidden.public), public, metrics, digest)


def read_truth(path: Path) -> Hidden | HiddenRecords:
    """Read the labels, and what undoes a shuffle.

    Raises:
        DataError: the file is missing, or not what `prepare` writes.

    >>> read_truth(Path("gone.json"))
    Traceback (most recent call last):
    tellapart.errors.DataError: gone.json: cannot be read (No such file or directory)
    """
    found = read_object(path)
    try:
        if "task" in found:
            return HiddenRecords.from_written(found)
        return Hidden(
            items=tuple(Item.model_validate(row) for row in found["items"]),
            texts=tuple(map(tuple, found["texts"])),
            images=tuple(map(tuple, found["images"])),
            public=tuple(found["public"]),
            sources=found["sources"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} is not the truth of a hidden benchmark ({error}); restore it from a copy") from error


def _publish(hidden: Hidden | HiddenRecords, path: Path) -> None:
    """Write what a file is read with, unless it stands there."""
    bare = (
        hidden.written_bare()
        if isinstance(hidden, HiddenRecords)
        else {"items": [item.model_dump(mode="json") for item in hidden.published()]}
    )
    data = json.dumps(bare).encode()
    if not path.is_file() or path.read_bytes() != data:
        with atomic_file(path) as draft:
            draft.write_bytes(data)


def _kind(benchmark: HiddenBenchmark, hidden: Hidden | HiddenRecords) -> tuple[str, tuple[int, int] | None]:
    if isinstance(hidden, HiddenRecords):
        return hidden.task, hidden.shape
    return "pairing" if benchmark.protocol == "answers" else "pairs", hidden.shape


def _make(benchmark: HiddenBenchmark, place: Path, key: bytes) -> None:
    hidden, pixels = _hidden(benchmark, key)
    task, shape = _kind(benchmark, hidden)
    metrics = told_metrics(benchmark, shape, task)
    if not 0 < (public := sum(hidden.public)) < (items := len(hidden.public)):
        raise DataError(
            f"hidden benchmark {benchmark.name!r}: {items} items, whole clusters of which share a split, give {public} public "
            "ones; both splits need some: add items, or change public_share"
        )
    if isinstance(hidden, HiddenRecords):
        _expect_measured(benchmark, hidden, metrics)
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = Path(tempfile.mkdtemp(prefix=f".{benchmark.name}-", dir=place.parent))
    try:
        write_task(draft / "task.zip", benchmark, hidden, pixels)
        written = hidden.written() if isinstance(hidden, HiddenRecords) else _written(hidden)
        (draft / "truth.json").write_text(json.dumps(written), encoding="utf-8")
        draft.rename(place)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _expect_measured(benchmark: HiddenBenchmark, hidden: HiddenRecords, metrics: tuple[str, ...]) -> None:
    """Measure predictions that are all wrong: what cannot be measured is found now, and not with the first file."""
    try:
        measure_sent(hidden.how.nothing(len(hidden.rows)), hidden, metrics, benchmark.step)
    except TellapartError as error:
        raise DataError(f"hidden benchmark {benchmark.name!r} cannot be measured: {error}") from error


def _hidden(
    benchmark: HiddenBenchmark, key: bytes
) -> tuple[Hidden | HiddenRecords, Callable[[str], NDArray[np.uint8]]]:
    """Read pairs or records, and shuffle them; return also what takes a reference of theirs to its pixels."""
    task, records, read = _source(benchmark)
    suffix = suffix_for(read(reference) for reference in task.images_of(records))
    hide_all = hide if task.hiding is None else partial(hide_records, task)
    hidden = hide_all(records, key, benchmark.public_share, suffix)
    if isinstance(records, PairSet):  # whose errors name the item, too
        return hidden, records.pixels
    return hidden, lambda reference: decode(read(reference), reference)


def _source(benchmark: HiddenBenchmark) -> tuple[Task, Any, Callable[[str], bytes]]:
    """Find the task, its records, and what reads an image of theirs; nothing is fetched from anywhere."""
    if benchmark.pairs is not None:
        pairs = read_pair_set(benchmark.pairs, benchmark.name)
        return PAIRS, pairs, pairs.read_bytes
    named = str(benchmark.benchmark)
    try:
        place = Locations(benchmark.data, benchmark.images)
    except DataError as error:
        raise DataError(f"hidden benchmark {benchmark.name!r}: {error}") from error
    found = find_benchmark(named, place)
    here = found.here()
    if here is None:
        raise DataError(f"hidden benchmark {benchmark.name!r}: {found.needs()} (`data` and `images` in the board file)")
    records, local = found.load(here), replace(found, place=here)
    read = local.read_image(records)
    assert read is not None  # noqa: S101  (its files are here)
    return TASKS[found.task], records, read


def _written(hidden: Hidden) -> dict[str, Any]:
    rows = {name: getattr(hidden, name) for name in ("texts", "images", "public")}
    return {**rows, "sources": dict(hidden.sources), "items": [item.model_dump(mode="json") for item in hidden.items]}
