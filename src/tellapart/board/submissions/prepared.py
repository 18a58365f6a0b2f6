"""Preparation of a hidden benchmark: the task file for everyone, and the truth, which stays on the server.

`<state>/hidden/<name>/task.zip` has the published items; `truth.json` has the labels and the key that
undoes the shuffle. Both are written atomically and only once: a second shuffle would invalidate earlier submissions.
`published.json` has the items of the task file again, for the process that reads files and must not see the
truth; it is made from the truth whenever it is missing or differs.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.locations import Locations
from tellapart.board.submissions.accounts import RefusedError
from tellapart.board.submissions.hidden import HiddenBenchmark, check_limits
from tellapart.board.submissions.hidden_items import (
    HiddenPairs,
    HiddenRecords,
    hide,
    hide_records,
    list_contents,
    measure_sent,
)
from tellapart.data.atomic import atomic_file, sync_folder
from tellapart.data.folder import read_pair_set
from tellapart.data.images import decode, pixel_hash
from tellapart.data.pairset import PairSet, describe
from tellapart.data.rows import read_object
from tellapart.data.scores import ScoreKind, join_names
from tellapart.data.validation import first_problem
from tellapart.data.video import is_video
from tellapart.errors import DataError, TellapartError, nearest, quote
from tellapart.metrics.registry import METRICS, defined_for
from tellapart.tasks.choice import PAIRING
from tellapart.tasks.pairs import PAIRS
from tellapart.tasks.registry import HIDEABLE, TASKS, headline
from tellapart.tasks.task import Task

# The task file: an archive of `items.jsonl`, `images/` and `README.txt`, without labels, and always the same bytes.
#
# A format, a time stamp, a quantisation table or a thumbnail would separate an edited image from its original
# photograph. So all images of a benchmark are encoded again, in one format with one setting: as PNG if every source
# is lossless (rendered scenes, EqBen's frames), else as JPEG of quality 95 without chroma subsampling, since
# photographs as PNG would be several times as large. The losses of JPEG in a source remain.

_ZIPPED = (1980, 1, 1, 0, 0, 0)  # the earliest time stamp of a zip file, so that its bytes are always the same

_FILES = {"scores": "scores.npz", "answers": "answers.jsonl", "predictions": "items.jsonl"}


def write_task(
    path: Path,
    benchmark: HiddenBenchmark,
    hidden: HiddenPairs | HiddenRecords,
    pixels: Callable[[str], NDArray[np.uint8]],
) -> dict[str, str]:
    """Write the archive; return the hash of each image's pixels by its published name."""
    hashes: dict[str, str] = {}
    sizes = hidden.sizes() if isinstance(hidden, HiddenRecords) else {}
    listing = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in hidden.template_rows())
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in (("README.txt", _readme_text(benchmark, hidden)), ("items.jsonl", listing)):
            archive.writestr(zipfile.ZipInfo(name, _ZIPPED), data, zipfile.ZIP_DEFLATED)
        for name in sorted(hidden.sources):
            image = pixels(hidden.sources[name])
            height, width = image.shape[:2]
            if (width, height) != sizes.get(name, (width, height)):
                raise DataError(
                    f"hidden benchmark {benchmark.name!r}: image {hidden.sources[name]!r} has {width} x {height} pixels"
                    f" and boxes of one with {sizes[name][0]} x {sizes[name][1]}; name the images that the boxes were "
                    "drawn in"
                )
            archive.writestr(zipfile.ZipInfo(name, _ZIPPED), reencode(image, Path(name).suffix))
            hashes[name] = pixel_hash(image)
    return hashes


def _readme_text(benchmark: HiddenBenchmark, hidden: HiddenPairs | HiddenRecords) -> str:
    details: dict[str, Any] = {"title": benchmark.title or benchmark.name, "file": _FILES[benchmark.protocol]}
    if isinstance(hidden, HiddenRecords):
        details |= {"task": TASKS[hidden.task], "send": hidden.how.send}
    else:
        details |= {"shape": hidden.shape, "truths": hidden.true}
    return fill_text("README.txt", name=benchmark.name, protocol=benchmark.protocol, **details)


def fill_text(template: str, **details: object) -> str:
    """Return a text of `templates/`, filled in; it is no page, and escapes nothing."""
    from jinja2 import Template

    source = (Path(__file__).parent / "templates" / f"{template}.j2").read_text(encoding="utf-8")
    text: str = Template(source, trim_blocks=True, keep_trailing_newline=True).render(**details)
    return text


def suffix_for(files: Iterable[bytes]) -> str:
    """Return the suffix of all images of a benchmark: `.png`, or `.jpg` if one of them is lossy already."""

    def is_lossless(data: bytes) -> bool:
        return data.startswith((b"\x89PNG", b"\x93NUMPY")) or (data.startswith(b"RIFF") and data[12:16] == b"VP8L")

    return ".png" if all(map(is_lossless, files)) else ".jpg"


def reencode(pixels: NDArray[np.uint8], suffix: str) -> bytes:
    """Return an image file without metadata: the same bytes for the same pixels."""
    from PIL import Image

    stream, image = io.BytesIO(), Image.fromarray(pixels)
    if suffix == ".png":
        image.save(stream, "PNG")
    else:
        image.save(stream, "JPEG", quality=95, subsampling=0)
    return stream.getvalue()


_ANSWERS = ("group_score_both_orders",)
_KINDS: tuple[ScoreKind, ...] = ("similarity", "logit", "probability")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A hidden benchmark that is ready for submissions."""

    benchmark: HiddenBenchmark  # its settings
    folder: Path  # of its task file and truth
    task: str  # `pairs`, `pairing` or a task's name
    shape: tuple[int, int] | None  # images and texts of an item; None for a task's records
    items: int  # all of them
    public: int  # those of the public split
    metrics: tuple[str, ...]  # that are published
    fingerprint: str  # SHA-256 of the task file
    true: int = 1  # how many texts of an item are true, if it has one image

    @property
    def what(self) -> str:
        """A description in words: items of a shape, or records of a task."""
        if self.shape is not None:
            content = (
                f"{self.items} items of {_count_of(self.shape[0], 'image')} and {_count_of(self.shape[1], 'text')}"
            )
            return content if self.true == 1 else f"{content}, of which {self.true} are true"
        task = TASKS[self.task]
        return f"{_count_of(self.items, task.noun)} ({task.title})"

    @property
    def task_file(self) -> Path:
        """The archive for download."""
        return self.folder / "task.zip"

    @property
    def truth(self) -> Path:
        """The file with the labels, for the server alone."""
        return self.folder / "truth.json"

    @property
    def published(self) -> Path:
        """The file that the reading process opens, with nothing beyond the task file."""
        return self.folder / "published.json"


def _count_of(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def published_metrics(
    benchmark: HiddenBenchmark, shape: tuple[int, int] | None, task: str = "pairs", true: int = 1
) -> tuple[str, ...]:
    """Return the metrics that are published: right or wrong for each item, and defined for every kind of score."""
    if shape is None:
        metric_names, default = set(HIDEABLE[task].metrics), HIDEABLE[task].metrics[:1]
    elif benchmark.protocol == "answers":
        if shape != (2, 2):
            raise DataError(f"hidden benchmark {benchmark.name!r}: answers are asked of 2x2 items, not {shape}")
        metric_names = {metric.name for metric in PAIRING.metrics if metric.name.startswith("group_score")}
        default = _ANSWERS
    else:
        defined = defined_for(shape, true=true)
        metric_names = {one.name for one in defined if one.binary and all(kind in one.kinds for kind in _KINDS)}
        # Of a square the first look has means over its pairs, too, which cannot be published.
        first = headline(metric_names) or tuple(
            name for name in headline({m.name for m in defined}) if name in metric_names
        )
        # A further number shows more of the labels: a metric of sums is published if it is named.
        default = tuple(name for name in first if not METRICS[name].additive)
        if not default:
            content = describe(shape) + (f", {true} of them true" if true > 1 else "")
            raise DataError(f"hidden benchmark {benchmark.name!r}: no metric is defined for {content}")
    if unknown := [name for name in benchmark.metrics if name not in metric_names]:
        allowed = ", ".join(sorted(metric_names))
        raise DataError(f"hidden benchmark {benchmark.name!r}: {unknown[0]!r} cannot be published; use of {allowed}")
    return benchmark.metrics or default


def find_prepared(prepared: Mapping[str, Prepared], name: str) -> Prepared:
    """Return a board's hidden benchmark."""
    if name not in prepared:
        hint = nearest(name, prepared) or f"; this board has {join_names(list(prepared))}"
        raise RefusedError(404, f"no hidden benchmark {name!r:.80}{hint}")
    return prepared[name]


def prepare(benchmark: HiddenBenchmark, folder: Path, key: bytes) -> Prepared:
    """Make the task file and the truth if they are missing; refuse limits that would give too much away."""
    folder = folder / benchmark.name
    try:
        if not (folder / "truth.json").is_file():
            if folder.is_dir() and any(folder.iterdir()):
                remedy = f"restore it from a backup, or move {folder} away to have it made again"
                raise DataError(f"{folder / 'truth.json'} is gone; {remedy}")
            _make_files(benchmark, folder, key)
        hidden = read_truth(folder / "truth.json")
        published, data = folder / "published.json", json.dumps(hidden.bare_to_json()).encode()
        if not published.is_file() or published.read_bytes() != data:
            with atomic_file(published) as draft:
                draft.write_bytes(data)
        with (folder / "task.zip").open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"hidden benchmark {benchmark.name!r} cannot be prepared in {folder}: {error}") from error
    task, shape = _score_kind(benchmark, hidden)
    if (task in HIDEABLE) != (benchmark.protocol == "predictions"):
        raise DataError(
            f"hidden benchmark {benchmark.name!r} was prepared of another source, and files may have been sent to it: "
            "give the new one another name"
        )
    true = hidden.true if isinstance(hidden, HiddenPairs) else 1
    metrics, public = published_metrics(benchmark, shape, task, true), sum(hidden.public)
    check_limits(benchmark, public, shape, len(metrics))
    return Prepared(benchmark, folder, task, shape, len(hidden.public), public, metrics, digest, true)


def read_truth(path: Path) -> HiddenPairs | HiddenRecords:
    """Read the labels, and the key that undoes a shuffle."""
    content = read_object(path)
    try:
        return HiddenRecords.from_json(content) if "task" in content else HiddenPairs.from_json(content)
    except (AttributeError, DataError, LookupError, TypeError, ValueError) as error:
        why = f"{type(error).__name__}: {first_problem(error)}"
        raise DataError(f"{path} is not the truth of a hidden benchmark ({why}); restore it from a backup") from error


def _score_kind(benchmark: HiddenBenchmark, hidden: HiddenPairs | HiddenRecords) -> tuple[str, tuple[int, int] | None]:
    if isinstance(hidden, HiddenRecords):
        return hidden.task, hidden.shape
    return "pairing" if benchmark.protocol == "answers" else "pairs", hidden.shape


def _make_files(benchmark: HiddenBenchmark, folder: Path, key: bytes) -> None:
    hidden, pixels = _hide_benchmark(benchmark, key)
    task, shape = _score_kind(benchmark, hidden)
    metrics = published_metrics(benchmark, shape, task, hidden.true if isinstance(hidden, HiddenPairs) else 1)
    if not 0 < (public := sum(hidden.public)) < (items := len(hidden.public)):
        raise DataError(
            f"hidden benchmark {benchmark.name!r}: {items} items, whole clusters of which share a split, give {public} "
            "public ones; both splits need some: add items, or change public_share"
        )
    if isinstance(hidden, HiddenRecords):
        try:  # empty predictions: what cannot be measured fails now, not at the first submission
            measure_sent(hidden.how.nothing(len(hidden.rows)), hidden, metrics, benchmark.step)
        except TellapartError as error:
            raise DataError(f"hidden benchmark {benchmark.name!r} cannot be measured: {error}") from error
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = Path(tempfile.mkdtemp(prefix=f".{benchmark.name}-", dir=folder.parent))
    try:
        hidden = replace(hidden, pixels=write_task(draft / "task.zip", benchmark, hidden, pixels))
        _refuse_shared(benchmark, hidden, folder)
        (draft / "truth.json").write_text(json.dumps(hidden.to_json()), encoding="utf-8")
        sync_folder(draft, deep=True)
        try:
            draft.rename(folder)
        except OSError:
            # Another process of the board was first, `serve` and `board user` for one; its files are taken.
            if not (folder / "truth.json").is_file():
                raise
        sync_folder(folder.parent)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _refuse_shared(benchmark: HiddenBenchmark, hidden: HiddenPairs | HiddenRecords, folder: Path) -> None:
    """Refuse items that the state has already, under any name: one split would publish what the other keeps."""
    rows = list_contents(hidden)
    for path in sorted({*folder.parent.glob("[!.]*/truth.json")} - {folder / "truth.json"}):
        other = set[tuple[str, str]]().union(*list_contents(read_truth(path)))
        if shared := sum(not row.isdisjoint(other) for row in rows):
            raise DataError(
                f"hidden benchmark {benchmark.name!r}: {shared} of its {len(rows)} rows show a picture with a text of "
                f"{path.parent.name!r}: labels that are private in one could be public in the other, and limits are "
                f"counted apart; leave these rows out of one, or delete {path.parent} if no file was sent to it"
            )


def _hide_benchmark(
    benchmark: HiddenBenchmark, key: bytes
) -> tuple[HiddenPairs | HiddenRecords, Callable[[str], NDArray[np.uint8]]]:
    """Read pairs or records, and shuffle them; return also a function that reads the pixels of an image."""
    task, records, read = _read_source(benchmark)
    if video := next(filter(is_video, task.images_of(records)), None):
        raise DataError(
            f"hidden benchmark {benchmark.name!r}: {quote(video)} is a video; a board encodes each image anew, so that "
            "nothing tells where it is from, and takes no videos: publish a set of their frames"
        )
    suffix = suffix_for(read(reference) for reference in task.images_of(records))
    hide_all = hide if task.hiding is None else partial(hide_records, task)
    hidden = hide_all(records, key, benchmark.public_share, suffix)
    if isinstance(records, PairSet):  # whose errors name the item, too
        return hidden, records.pixels
    return hidden, lambda reference: decode(read(reference), reference)


def _read_source(benchmark: HiddenBenchmark) -> tuple[Task, Any, Callable[[str], bytes]]:
    """Return the task, its records, and a function that reads an image file; nothing is fetched."""
    if benchmark.pairs is not None:
        pairs = read_pair_set(benchmark.pairs, benchmark.name)
        return PAIRS, pairs, pairs.read_bytes
    try:
        locations = Locations(benchmark.data, benchmark.images)
    except DataError as error:
        raise DataError(f"hidden benchmark {benchmark.name!r}: {error}") from error
    source = find_benchmark(str(benchmark.benchmark), locations)
    sources = source.here()
    if sources is None:
        why = f"{source.needs()} (`data` and `images` in the board file)"
        raise DataError(f"hidden benchmark {benchmark.name!r}: {why}")
    records = source.load(sources)
    read = replace(source, place=sources).read_image(records)
    assert read is not None  # noqa: S101  (its files are here)
    return TASKS[source.task], records, read
