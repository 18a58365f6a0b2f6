"""A hidden benchmark made ready once: the task file that everybody may have, and the truth that stays beside it.

`<state>/hidden/<name>/task.zip` holds `items.jsonl` (ids, images, texts), `images/` and a `README.txt`; `truth.json` what
undoes the shuffle. Both appear together or not at all, and are never made again: a second shuffle would void what was sent.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from tellapart.board.hidden import HiddenBenchmark, check_limits
from tellapart.board.submissions.shuffled import Hidden, hide
from tellapart.data.folder import read_pair_set
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet, describe
from tellapart.data.rows import read_object
from tellapart.data.scores import ScoreKind
from tellapart.errors import DataError
from tellapart.metrics.registry import defined_for, headline
from tellapart.tasks.pairing import PAIRING

__all__ = ["Prepared", "prepare", "read_truth", "told_metrics"]

_ZIPPED = (1980, 1, 1, 0, 0, 0)  # the first moment a zip file knows: the same bytes at any time
_ANSWERS = ("group_score_both_orders",)
_KINDS: tuple[ScoreKind, ...] = ("similarity", "logit", "probability")

_README = """{title}

items.jsonl: one item a line: its id, images (files in this archive) and texts. Which of them belong together is not told.

{send}
"""
_SEND = {
    "scores": "Send one score of every image with every text of every item, higher for a better match, as one of\n"
    "- .npz: arrays `ids` (strings, n) and `scores` (numbers, n x {images} x {texts}: item, image, text);\n"
    "- .csv: a header `id,image,text,score`, then a row a pair; image and text count from 0 in the order of items.jsonl;\n"
    '- .jsonl: {{"label": "ID_c1_i0", "score": 0.5}} a line: text 1, image 0.',
    "answers": "Ask which text belongs to which image, twice: with the texts in the order of items.jsonl, and swapped.\n"
    "Send the answers (1;2 or 2;1: the text of the first image, then of the second) as .jsonl, .csv or .json rows with\n"
    "`id` (ID/1, then ID/2 for the swapped order) and `prediction`.",
}


@dataclass(frozen=True, slots=True)
class Prepared:
    """A hidden benchmark that is ready to be tried.

    Attributes:
        benchmark: its settings.
        folder: where its task file and truth lie.
        shape: images and texts of an item.
        items: all of them.
        public: those of the public split.
        metrics: whose numbers are told.
        fingerprint: SHA-256 of the task file.

    >>> Prepared.__slots__
    ('benchmark', 'folder', 'shape', 'items', 'public', 'metrics', 'fingerprint')
    """

    benchmark: HiddenBenchmark
    folder: Path
    shape: tuple[int, int]
    items: int
    public: int
    metrics: tuple[str, ...]
    fingerprint: str

    @property
    def task_file(self) -> Path:
        """The archive that may be downloaded."""
        return self.folder / "task.zip"

    @property
    def truth(self) -> Path:
        """The file that nobody else may see."""
        return self.folder / "truth.json"


def told_metrics(benchmark: HiddenBenchmark, shape: tuple[int, int]) -> tuple[str, ...]:
    """Return the metrics whose numbers are told: right or wrong for each item, and defined for every kind of score.

    Raises:
        DataError: one that the board file names is none of them, or there is none.

    >>> told_metrics(HiddenBenchmark(name="clocks", pairs="clocks"), (2, 2))
    ('text_score', 'image_score', 'group_score')
    """
    if benchmark.protocol == "answers":
        if shape != (2, 2):
            raise DataError(f"hidden benchmark {benchmark.name!r}: answers are asked of 2x2 items, not {shape}")
        named = {metric.name for metric in PAIRING.metrics if metric.name.startswith("group_score")}
        default: tuple[str, ...] = _ANSWERS
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
        DataError: the pair set cannot be read, is too small to be split, an image cannot be decoded, the limits would
            tell too much, or the disk refuses.

    >>> prepare(HiddenBenchmark(name="clocks", pairs="no such folder"), Path("no such state"), b"k")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tellapart.errors.DataError: no folder 'no such folder'...
    """
    place = folder / benchmark.name
    try:
        if not (place / "truth.json").is_file():
            _make(benchmark, place, key)
        hidden = read_truth(place / "truth.json")
        digest = hashlib.sha256((place / "task.zip").read_bytes()).hexdigest()
    except OSError as error:
        raise DataError(f"hidden benchmark {benchmark.name!r} cannot be prepared in {place}: {error}") from error
    shape, public = hidden.items[0].shape, sum(hidden.public)
    metrics = told_metrics(benchmark, shape)
    check_limits(benchmark, public, shape, len(metrics))
    return Prepared(benchmark, place, shape, len(hidden.items), public, metrics, digest)


def read_truth(path: Path) -> Hidden:
    """Read what undoes a shuffle.

    Raises:
        DataError: the file is missing, or not what `prepare` writes.

    >>> read_truth(Path("gone.json"))
    Traceback (most recent call last):
    tellapart.errors.DataError: gone.json: cannot be read (No such file or directory)
    """
    found = read_object(path)
    try:
        return Hidden(
            items=tuple(Item.model_validate(row) for row in found["items"]),
            texts=tuple(map(tuple, found["texts"])),
            images=tuple(map(tuple, found["images"])),
            public=tuple(found["public"]),
            sources=found["sources"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} is not the truth of a hidden benchmark ({error}); restore it from a copy") from error


def _make(benchmark: HiddenBenchmark, place: Path, key: bytes) -> None:
    pairs = read_pair_set(benchmark.pairs, benchmark.name)
    told_metrics(benchmark, pairs.shape)
    hidden = hide(pairs, key, benchmark.public_share)
    if not 0 < sum(hidden.public) < len(hidden.items):
        raise DataError(
            f"hidden benchmark {benchmark.name!r}: {len(pairs)} items in {len({i.cluster for i in pairs.items})} clusters "
            f"give {sum(hidden.public)} public ones; both splits need some: add items, or change public_share"
        )
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = Path(tempfile.mkdtemp(prefix=f".{benchmark.name}-", dir=place.parent))
    try:
        _write_task(draft / "task.zip", benchmark, pairs, hidden)
        rows = {
            **{name: getattr(hidden, name) for name in ("texts", "images", "public")},
            "sources": dict(hidden.sources),
        }
        rows["items"] = [item.model_dump(mode="json") for item in hidden.items]
        (draft / "truth.json").write_text(json.dumps(rows), encoding="utf-8")
        draft.rename(place)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _write_task(path: Path, benchmark: HiddenBenchmark, pairs: PairSet, hidden: Hidden) -> None:
    rows = [{"id": item.id, "images": item.images, "texts": item.texts} for item in hidden.published()]
    listing = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    images, texts = pairs.shape
    send = _SEND[benchmark.protocol].format(images=images, texts=texts)
    about = _README.format(title=benchmark.title or benchmark.name, send=send)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in (("README.txt", about), ("items.jsonl", listing)):
            archive.writestr(zipfile.ZipInfo(name, _ZIPPED), data, zipfile.ZIP_DEFLATED)
        for name in sorted(hidden.sources):
            archive.writestr(zipfile.ZipInfo(name, _ZIPPED), _png(pairs, hidden.sources[name]))


def _png(pairs: PairSet, reference: str) -> bytes:
    """Write an image anew, from its pixels alone."""
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(pairs.pixels(reference)).save(stream, "PNG")
    return stream.getvalue()
