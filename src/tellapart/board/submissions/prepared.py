"""A hidden benchmark: its task file for everyone, its labels, which stay on the server, and measuring by them.

In `<state>/hidden/<name>/`, `task.zip` has the published items, and `truth.json` the labels and the order before the
shuffle. Both are written once, as a second shuffle would invalidate earlier submissions. `published.json` has the
published items again, for the process that reads files and must not see the labels.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import math
import time
import unicodedata
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.locations import Locations
from tellapart.board.submissions.hidden import HiddenBenchmark, check_limits
from tellapart.board.submissions.worker import Split, round_to, unpack
from tellapart.data.atomic import atomic_file, atomic_folder
from tellapart.data.fields import split_words
from tellapart.data.folder import read_pair_set
from tellapart.data.images import decode, pixel_hash
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet, describe
from tellapart.data.rows import read_object
from tellapart.data.scores import ScoreKind, Scores
from tellapart.data.task_records import linked_images
from tellapart.data.validation import first_problem
from tellapart.data.video import is_video
from tellapart.errors import DataError, MetricError, TellapartError, counted, quote
from tellapart.metrics.registry import METRICS, defined_for
from tellapart.models.generative.answers import BothOrders
from tellapart.tasks.choice import PAIRING
from tellapart.tasks.pairs import PAIRS
from tellapart.tasks.registry import HIDEABLE, TASKS, headline
from tellapart.tasks.task import Hiding, Task

# Every random choice is a keyed hash (HMAC-SHA256) of its purpose: it can be repeated with the key, and reveals nothing
# without it. Ids and image names are such hashes, too. If an item has as many images as texts, image `k` belongs to
# text `k`. Both get the images' new order, and then the texts get another order, which is the label.
#
# Senders of files can time the answers. So only the published means are computed, by the same steps whatever the labels
# are. Intervals are computed later, from the rounded numbers (`service.py`).


def keyed_hash(key: bytes, *parts: str) -> bytes:
    """Return the HMAC-SHA256 of some texts: 32 bytes that look random without the key."""
    digest = hmac.new(key, digestmod=hashlib.sha256)
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "big") + data)  # with its length: ("ab", "c") is not ("a", "bc")
    return digest.digest()


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class HiddenRows:
    """A benchmark's rows in their published order, with their labels: items of pairs, or the records of a task.

    Ids and names of images are the published ones; an item's images and texts are in the set's order.
    """

    records: Any  # items, or a task's set of records
    public: tuple[bool, ...]  # row -> whether it is in the public split
    sources: Mapping[str, str]  # published image name -> the image's reference in the set
    pixels: Mapping[str, str] = field(default_factory=dict)  # published name -> hash; empty until they are hashed
    task: str = ""  # of records; empty for pairs
    texts: tuple[tuple[int, ...], ...] = ()  # of pairs: item -> original position of each published text
    images: tuple[tuple[int, ...], ...] = ()  # of pairs: item -> original position of each published image

    @property
    def how(self) -> Hiding | None:
        """How records of this task are hidden; None for pairs."""
        return HIDEABLE[self.task] if self.task else None

    @property
    def shape(self) -> tuple[int, int] | None:
        """Images and texts of an item; None for records."""
        return None if self.task else self.records[0].shape

    @property
    def true(self) -> int:
        """How many texts (images) of an item with one image (one text) are true; 1 for other items and records."""
        return 1 if self.task else len(self.records[0].truths)

    def bare(self) -> Any:
        """Return the published rows: ids, images and texts; nothing of the truth, no tag, cluster or provenance."""
        if self.how is not None:
            return replace(self.records, rows=tuple(map(self.how.bare, self.records.rows)))
        return tuple(
            Item(id=item.id, images=tuple(item.images[k] for k in images), texts=tuple(item.texts[k] for k in texts))
            for item, texts, images in zip(self.records, self.texts, self.images, strict=True)
        )

    def contents(self) -> list[set[tuple[str, str]]]:
        """Return the (picture, text) pairs that each row shows, by content."""
        bare = self.bare()
        return _list_contents(bare.rows if self.task else bare, self.pixels)

    def template_rows(self) -> Iterator[Mapping[str, Any]]:
        """Yield the rows of the task file; they are made of bare rows, so that no label can be in them."""
        if self.task:
            return TASKS[self.task].template(self.bare())
        return ({"id": item.id, "images": item.images, "texts": item.texts} for item in self.bare())

    def restore(self, sent: Any) -> Any:
        """Return what was sent as for the benchmark's own records, or with images and texts in the set's order.

        Two answers about an item change places if its texts were published in the other order.
        """
        if self.how is not None:
            return self.how.restore(sent, self.bare().rows, self.records.rows)
        if isinstance(sent, Scores):
            rows, values = np.arange(len(self.records))[:, None, None], sent.values.astype(np.float64)
            restored = np.empty_like(values)
            restored[rows, np.array(self.images)[:, :, None], np.array(self.texts)[:, None, :]] = values
            return Scores(tuple(item.id for item in self.records), restored, sent.kind)
        answers = zip(sent.in_order, sent.swapped, strict=True)
        original = [pair if order == (0, 1) else pair[::-1] for order, pair in zip(self.texts, answers, strict=True)]
        return BothOrders(*map(tuple, zip(*original, strict=True)))

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Return width and height of the images that boxes were drawn in, by published name; empty without boxes."""
        size = None if self.how is None else self.how.size
        return {} if size is None else {row.images[0]: size(row) for row in self.records.rows}

    def bare_to_json(self) -> dict[str, Any]:
        """Return the data for `read_published`: the bare rows, and nothing else."""
        bare = self.bare()
        if self.how is not None:
            return {"records": TypeAdapter(self.how.records).dump_python(bare, mode="json")}
        return {"items": [item.model_dump(mode="json") for item in bare]}

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` reads."""
        shared = {"public": self.public, "sources": dict(self.sources), "pixels": dict(self.pixels)}
        if self.how is not None:
            records = TypeAdapter(self.how.records).dump_python(self.records, mode="json")
            return {"task": self.task, "records": records, **shared}
        items = [item.model_dump(mode="json", exclude=None if item.true else {"true"}) for item in self.records]
        return {"texts": self.texts, "images": self.images, **shared, "items": items}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> HiddenRows:
        """Read what `to_json` returned; other content is an AttributeError, KeyError, TypeError or ValueError."""
        public, sources, pixels = (content[name] for name in ("public", "sources", "pixels"))
        if not all(isinstance(text, str) for table in (sources, pixels) for text in table.values()):
            raise ValueError("its sources or pixels are no texts by the names of images")
        if task := content.get("task", ""):
            rows = TypeAdapter(HIDEABLE[task].records).validate_python(content["records"])
            hidden, count = cls(rows, tuple(public), sources, pixels, task), len(rows.rows)
        else:
            items = tuple(Item.model_validate(row) for row in content["items"])
            texts, images = (tuple(map(tuple, content[name])) for name in ("texts", "images"))
            hidden, count = cls(items, tuple(public), sources, pixels, "", texts, images), len(items)
            if len({(item.shape, item.truths) for item in items}) > 1:
                raise ValueError("its items have more than one shape, or number of true texts")
            for item, *orders in zip(items, texts, images, strict=True):
                if [*map(sorted, orders)] != [[*range(len(item.texts))], [*range(len(item.images))]]:
                    raise ValueError(f"the order of item {quote(item.id)} is none of its texts and images")
        if len(public) != count or {*public} != {True, False} or not all(isinstance(flag, bool) for flag in public):
            raise ValueError(f"it does not tell of {count} items which are public")
        return hidden


#: The start of a name that sorts behind the names of all clusters. Joined names get the first one, a cluster's.
_LAST = "\U0010ffff"


def hide(
    task: Task, records: Any, key: bytes, share: float, suffix: str = ".png", pixels: Mapping[str, str] | None = None
) -> HiddenRows:
    """Shuffle a pair set or a task's records, and split their clusters into public ones, a share, and private ones.

    With `pixels`, the hashes by published names, clusters share a split if rows of both show one picture with one text,
    since labels of the one follow from those of the other.
    """
    how = task.hiding
    rows: Any = [item.truth_first() for item in records.items] if how is None else records.rows
    references = dict.fromkeys(reference for row in rows for reference in row.images)
    names = {reference: f"images/{new_id(key, reference, 'image')}{suffix}" for reference in references}
    rows = sorted(rows, key=lambda row: keyed_hash(key, "order", row.id))
    clusters = [item.cluster for item in rows] if how is None else how.clusters([how.bare(row) for row in rows])
    if pixels:
        bare, shown = rows if how is None else map(how.bare, rows), {name: pixels[names[name]] for name in names}
        pairs = zip(clusters, _list_contents(bare, shown), strict=True)
        joined = linked_images([(cluster, f"{_LAST}{' '.join(shown)}") for cluster, row in pairs for shown in row])
        clusters = [joined.get(cluster, cluster) for cluster in clusters]
    public = _public_ids({row.id: cluster for row, cluster in zip(rows, clusters, strict=True)}, key, share)
    shared: dict[str, Any] = {
        "public": tuple(row.id in public for row in rows),
        "sources": {name: reference for reference, name in names.items()},
    }
    if how is not None:
        renamed = [
            replace(
                row,
                id=new_id(key, row.id),
                images=tuple(names[image] for image in row.images),
                **{field: getattr(row, field) and new_id(key, getattr(row, field)) for field in how.sources},
            )
            for row in rows
        ]
        return HiddenRows(replace(records, rows=tuple(renamed)), task=task.name, **shared)
    square = records.shape[0] == records.shape[1]
    items, texts, images = [], [], []
    for item in rows:
        drawn = _shuffled_order(key, ("images", item.id), len(item.images))
        texts.append(_shuffled_order(key, ("texts", item.id), len(item.texts)))
        images.append(tuple(sorted(drawn)) if square else drawn)
        # Of a square, images and texts get one order, and then the texts another one, which is the label.
        sides = [[side[k] for k in drawn] if square else side for side in (item.images, item.texts)]
        facts = {name: getattr(item, name) for name in ("true", "cluster", "tags")}
        published = tuple(names[image] for image in sides[0])
        items.append(Item(id=new_id(key, item.id), images=published, texts=tuple(sides[1]), **facts))
    return HiddenRows(tuple(items), texts=tuple(texts), images=tuple(images), **shared)


def new_id(key: bytes, id_: str, of: str = "id") -> str:
    """Return the published id of an item, or of an image."""
    return keyed_hash(key, of, id_).hex()[:24]


def _shuffled_order(key: bytes, purpose: tuple[str, str], size: int) -> tuple[int, ...]:
    return tuple(sorted(range(size), key=lambda k: keyed_hash(key, *purpose, str(k))))


def _public_ids(clusters: Mapping[str, str], key: bytes, share: float) -> set[str]:
    """Return the ids of a share of the items, without splitting a cluster; `clusters` takes an id to its cluster."""
    members: dict[str, list[str]] = {}
    for id_, cluster in clusters.items():
        members.setdefault(cluster, []).append(id_)
    used: set[str] = set()
    for cluster in sorted(members, key=lambda name: keyed_hash(key, "split", name)):
        if len(used) + len(members[cluster]) / 2 > share * len(clusters):
            continue  # the next may be smaller
        used.update(members[cluster])
    return used


def _list_contents(rows: Iterable[Any], pixels: Mapping[str, str]) -> list[set[tuple[str, str]]]:
    """Return each row's pairs of (picture's hash, text's words). Rows that share one reveal each other's labels."""
    return [
        {(pixels[image], _read_words(text)) for image in row.images if image in pixels for text in row.texts}
        for row in rows
    ]


def _read_words(text: str) -> str:
    """Return a text without case, punctuation and other spellings of its letters."""
    return " ".join(split_words(unicodedata.normalize("NFKC", text).casefold().replace("_", " "))) or text


def measure_sent(sent: Any, hidden: HiddenRows, metrics: tuple[str, ...], step: float) -> tuple[Split, Split]:
    """Measure the public and the private split; only rounded means leave this function, never an item's outcome."""
    restored: Any = hidden.restore(sent)
    # For each kind of unit: the units' clusters, and metric -> (how the mean is taken, values float64 (unit,)).
    measured: list[tuple[list[str], dict[str, tuple[Callable[..., float], NDArray[np.float64]]]]]
    if hidden.task:  # the first kind of unit is the record
        measured = [
            ([unit.cluster for unit in of.units], {value.name: (value.over, value.strict) for value in of.values})
            for of in TASKS[hidden.task].measure(hidden.records, restored)
        ]
    else:
        if isinstance(restored, BothOrders):
            right = restored.measure()
        else:
            checked = {name: METRICS[name].check(restored.values, restored.kind) for name in metrics}
            right = {name: METRICS[name].per_item(values) for name, values in checked.items()}
        clusters = [item.cluster for item in hidden.records]
        measured = [(clusters, {name: (np.mean, values) for name, values in right.items()})]  # of 0 and 1: exact
    clusters_of_rows = measured[0][0]
    is_public = dict(zip(clusters_of_rows, hidden.public, strict=True))  # by cluster: none is in both splits
    ties, splits = _count_ties(sent.values) if isinstance(sent, Scores) else 0, []
    for public in (True, False):
        means: dict[str, tuple[float, tuple[int, int], float]] = {}  # metric -> mean, (units, clusters), their worth
        sizes = []
        for clusters, numbers in measured:
            units = [k for k, cluster in enumerate(clusters) if is_public[cluster] is public]
            names = [clusters[k] for k in units]
            sizes.append((len(names), len({*names})))
            for name, (mean, values) in numbers.items():
                if units and name in metrics:
                    means[name] = (float(mean(values[units])), sizes[-1], worth_of(names))
        if missing := [name for name in metrics if name not in means]:
            published = ", ".join(metrics)
            raise MetricError(f"{missing[0]} is not defined for this file; the benchmark publishes {published}")
        rounded = {name: round_to(means[name][0], step) for name in metrics}
        joined = {name: means[name][1] for name in metrics if means[name][1] != sizes[0]}
        uneven = {name: effective for name, (_, size, effective) in means.items() if effective < size[1]}
        splits.append(Split(*sizes[0], ties, rounded, joined, uneven))
    return splits[0], splits[1]


def worth_of(clusters: Sequence[str]) -> float:
    """Return how many clusters of one size would give a mean as precise, if items of a cluster were all alike.

    Source: Kish (1965), Survey Sampling, section 11.7.
    """
    sizes = np.unique(np.array(clusters), return_counts=True)[1].astype(np.float64)
    return float(sizes.sum() ** 2 / (sizes**2).sum()) if len(sizes) else 0.0


def _count_ties(values: NDArray[np.float32]) -> int:
    """Count the items, of scores `(item, image, text)`, with two equal scores in a row or column."""
    columns, rows = ((np.diff(np.sort(values, axis=axis), axis=axis) == 0).any(axis=(1, 2)) for axis in (1, 2))
    return int((rows | columns).sum())


_SECONDS, _OF_ITEMS = 0.25, 1000  # an answer's time for every 1,000 items: a few times what measuring takes


def answer_seconds(items: int) -> float:
    """Return after how many seconds the numbers of a file are answered."""
    return _SECONDS * max(1, math.ceil(items / _OF_ITEMS))


def measure(job: Mapping[str, Any], form: bytes) -> tuple[dict[str, Any], bytes]:
    """Measure a form, in a separate process; return its message: the rounded numbers, or only the step that failed.

    The answer comes after a time that depends on the number of items alone, or a multiple of it on a busy machine. The
    steps are the same whatever the labels are; the wait hides how long the processor takes for them.
    """
    step, started, items = "truth", time.monotonic(), 0
    try:
        hidden = read_truth(Path(job["truth"]))
        step, items = "form", len(hidden.public)
        sent = unpack(form, job["task"], items, hidden.shape)
        step = "numbers"
        public, private = measure_sent(sent, hidden, tuple(job["metrics"]), job["step"])
    except TellapartError:  # without its message, which may repeat labels
        answer: dict[str, Any] = {"failed": step}
    except MemoryError:
        answer = {"failed": "memory"}
    else:
        answer = {"public": asdict(public), "private": asdict(private)}
    time.sleep((started - time.monotonic()) % answer_seconds(items))  # until the next multiple
    return answer, b""


# A format, a time stamp, a quantisation table or a thumbnail would separate an edited image from its original
# photograph. So all images of a benchmark are encoded again, in one format with one setting: as PNG if every source
# is lossless, else as JPEG of quality 95 without chroma subsampling. The losses of JPEG in a source remain.

_ZIPPED = (1980, 1, 1, 0, 0, 0)  # the earliest time stamp of a zip file, so that its bytes are always the same

_FILES = {"scores": "scores.npz", "answers": "answers.jsonl", "predictions": "items.jsonl"}


def write_task(
    path: Path,
    benchmark: HiddenBenchmark,
    hidden: HiddenRows,
    pixels: Callable[[str], NDArray[np.uint8]],
) -> dict[str, str]:
    """Write the archive; return the hash of each image's pixels by its published name."""
    hashes: dict[str, str] = {}
    sizes = hidden.sizes()
    listing = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in hidden.template_rows())
    task = TASKS[hidden.task] if hidden.task else None
    about = {"benchmark": benchmark, "task": task, "shape": hidden.shape, "truths": hidden.true}  # and no label
    readme = fill_text("README.txt", file=_FILES[benchmark.protocol], **about)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in (("README.txt", readme), ("items.jsonl", listing)):
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
    metrics: tuple[str, ...]  # the published ones
    fingerprint: str  # SHA-256 of the task file
    leaks: Mapping[str, float]  # how much a user's files reveal, as `check_limits` returns it
    true: int = 1  # how many texts of an item are true, if it has one image

    @property
    def what(self) -> str:
        """A description in words: items of a shape, or records of a task."""
        if self.shape is not None:
            images, texts = self.shape
            content = f"{self.items} items of {counted(images, 'image')} and {counted(texts, 'text')}"
            return content if self.true == 1 else f"{content}, of which {self.true} are true"
        task = TASKS[self.task]
        return f"{counted(self.items, task.noun)} ({task.title})"

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


def published_metrics(
    benchmark: HiddenBenchmark, shape: tuple[int, int] | None, task: str = "pairs", true: int = 1
) -> tuple[str, ...]:
    """Return the metrics that are published: right or wrong for each item, and defined for every kind of score."""
    if shape is None:
        possible, default = set(HIDEABLE[task].metrics), HIDEABLE[task].metrics[:1]
    elif benchmark.protocol == "answers":
        if shape != (2, 2):
            raise DataError(f"hidden benchmark {benchmark.name!r}: answers are asked of 2x2 items, not {shape}")
        possible = {metric.name for metric in PAIRING.metrics if metric.name.startswith("group_score")}
        default = _ANSWERS
    else:
        defined = defined_for(shape, true=true)
        possible = {one.name for one in defined if one.binary and all(kind in one.kinds for kind in _KINDS)}
        # The headline of square items has means over their pairs, too, which cannot be published.
        first = headline(possible) or tuple(name for name in headline({m.name for m in defined}) if name in possible)
        # A further number shows more of the labels: a metric of sums is published if it is named.
        default = tuple(name for name in first if not METRICS[name].additive)
        if not default:
            content = describe(shape) + (f", {true} of them true" if true > 1 else "")
            raise DataError(f"hidden benchmark {benchmark.name!r}: no metric is defined for {content}")
    if unknown := [name for name in benchmark.metrics if name not in possible]:
        allowed = ", ".join(sorted(possible))
        raise DataError(f"hidden benchmark {benchmark.name!r}: {unknown[0]!r} cannot be published; use of {allowed}")
    return benchmark.metrics or default


def prepare(benchmark: HiddenBenchmark, folder: Path, key: bytes) -> Prepared:
    """Make the task file and the truth if they are missing; refuse limits that would reveal too much."""
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
        digest = digest_of(folder / "task.zip")
    except OSError as error:
        raise DataError(f"hidden benchmark {benchmark.name!r} cannot be prepared in {folder}: {error}") from error
    if bool(hidden.task) != (benchmark.protocol == "predictions"):
        raise DataError(
            f"hidden benchmark {benchmark.name!r} was prepared of another source, and files may have been sent to it: "
            "give the new one another name"
        )
    task = hidden.task or ("pairing" if benchmark.protocol == "answers" else "pairs")
    metrics, public = published_metrics(benchmark, hidden.shape, task, hidden.true), sum(hidden.public)
    leaks = check_limits(benchmark, public, hidden.shape, len(metrics))
    shape, items = hidden.shape, len(hidden.public)
    return Prepared(benchmark, folder, task, shape, items, public, metrics, digest, leaks, hidden.true)


def read_truth(path: Path) -> HiddenRows:
    """Read the labels, and the key that undoes a shuffle."""
    content = read_object(path)
    try:
        return HiddenRows.from_json(content)
    except (AttributeError, DataError, LookupError, TypeError, ValueError) as error:
        why = f"{type(error).__name__}: {first_problem(error)}"
        raise DataError(f"{path} is not the truth of a hidden benchmark ({why}); restore it from a backup") from error


def _make_files(benchmark: HiddenBenchmark, folder: Path, key: bytes) -> None:
    hide_rows, read = _hide_benchmark(benchmark, key)
    hidden = hide_rows()
    metrics = published_metrics(benchmark, hidden.shape, hidden.task, hidden.true)
    _expect_both_splits(benchmark, hidden)
    if hidden.how is not None:
        try:  # empty predictions: what cannot be measured fails now, not at the first submission
            measure_sent(hidden.how.nothing(len(hidden.public)), hidden, metrics, benchmark.step)
        except TellapartError as error:
            raise DataError(f"hidden benchmark {benchmark.name!r} cannot be measured: {error}") from error
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        with atomic_folder(folder, 0o700) as draft:
            pixels = write_task(draft / "task.zip", benchmark, hidden, read)
            hidden = replace(hide_rows(pixels=pixels), pixels=pixels)
            _expect_both_splits(benchmark, hidden)
            _refuse_shared(benchmark, hidden, folder)
            (draft / "truth.json").write_text(json.dumps(hidden.to_json()), encoding="utf-8")
    except DataError:
        # Another process of the board was first, `serve` and `board user` for one; its files are taken.
        if not (folder / "truth.json").is_file():
            raise


def _expect_both_splits(benchmark: HiddenBenchmark, hidden: HiddenRows) -> None:
    if not 0 < (public := sum(hidden.public)) < (items := len(hidden.public)):
        raise DataError(
            f"hidden benchmark {benchmark.name!r}: {items} items, whole clusters of which share a split, give {public} "
            "public ones; both splits need some: add items, or change public_share"
        )


def _refuse_shared(benchmark: HiddenBenchmark, hidden: HiddenRows, folder: Path) -> None:
    """Refuse rows of another benchmark of the state, in which their labels may be public."""
    rows = hidden.contents()
    for path in sorted({*folder.parent.glob("[!.]*/truth.json")} - {folder / "truth.json"}):
        other = set[tuple[str, str]]().union(*read_truth(path).contents())
        if shared := sum(not row.isdisjoint(other) for row in rows):
            raise DataError(
                f"hidden benchmark {benchmark.name!r}: {shared} of its {len(rows)} rows show a picture with a text of "
                f"{path.parent.name!r}: labels that are private in one could be public in the other, and limits are "
                f"counted apart; leave these rows out of one, or delete {path.parent} if no file was sent to it"
            )


def _hide_benchmark(
    benchmark: HiddenBenchmark, key: bytes
) -> tuple[Callable[..., HiddenRows], Callable[[str], NDArray[np.uint8]]]:
    """Read pairs or records from local files; return a function that hides them, and a reader of images' pixels."""
    read: Callable[[str], bytes] | None
    if benchmark.pairs is not None:
        task, records = PAIRS, read_pair_set(benchmark.pairs, benchmark.name)
        read = records.read_bytes
    else:
        try:
            locations = Locations(benchmark.data, benchmark.images)
        except DataError as error:
            raise DataError(f"hidden benchmark {benchmark.name!r}: {error}") from error
        source = find_benchmark(str(benchmark.benchmark), locations)
        sources = source.here()
        if sources is None:
            why = f"{source.needs()} (`data` and `images` in the board file)"
            raise DataError(f"hidden benchmark {benchmark.name!r}: {why}")
        task, records = TASKS[source.task], source.load(sources)
        read = replace(source, place=sources).read_image(records)
        assert read is not None  # noqa: S101  (its files are here)
    if video := next(filter(is_video, task.images_of(records)), None):
        raise DataError(
            f"hidden benchmark {benchmark.name!r}: {quote(video)} is a video; a board encodes each image anew, so that "
            "nothing tells where it is from, and takes no videos: publish a set of their frames"
        )
    suffix = suffix_for(read(reference) for reference in task.images_of(records))
    hide_rows = partial(hide, task, records, key, benchmark.public_share, suffix)
    if isinstance(records, PairSet):  # errors of its reader name the item, too
        return hide_rows, records.pixels
    return hide_rows, lambda reference: decode(read(reference), reference)
