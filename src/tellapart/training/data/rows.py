"""Training rows: images with their captions, false captions, and hard counterparts.

A source is a JSONL file, a pair set folder, COCO's captions, a table, webdataset's `shards`, or a file that a paper
released (`released_rows`). A JSONL row holds `image` (a path), `caption`, and if it has them `negative_captions` (false
of the image), `negative_images` (numbers of rows of the same file, from 0, whose images are hard to distinguish),
`units` (pairs of texts: a part of the caption, and a foil that is false of the image; a third entry "relation" marks a
relation of two things), `positive_captions` (further texts that are true of it) and `cluster`. Of a 2x2 item each image
with its text is a row; the other text is its false caption, the other row its hard counterpart. Of a 1xn item the first
text is the caption, the others are false.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tellapart.benchmarks.image_sources import FolderImages, own_images
from tellapart.benchmarks.locations import Locations
from tellapart.data.compressed import plain_suffix
from tellapart.data.fields import one_text
from tellapart.data.folder import LISTINGS, read_pair_set
from tellapart.data.images import decode
from tellapart.data.linked_images import linked_images
from tellapart.data.many_objects import collector_paused
from tellapart.data.pairset import PairSet
from tellapart.data.rows import read_jsonl
from tellapart.errors import DataError, TellapartWarning, quote
from tellapart.records.run_folder import write_text_file
from tellapart.training.data.released_rows import json_rows, table_rows
from tellapart.training.data.shards import find_member, read_image, shard_rows

#: A number, in which every mark counts.
_NUMBER = re.compile(
    r"""((?:(?<![^\W\d_])[-\u2010-\u2015\u2212]\s*)?  # a sign, if no letter is before it
        [.,]?\d+(?:[^\w\s]\d+)*                        # digits, and marks between them
        (?:\s*[%\u2030'"\u2032\u2033]+)?)              # percent, feet, inches""",
    re.VERBOSE,
)

#: Punctuation that is read as a word.
_READ = frozenset("%&@#*/\\")


class _Marks(dict[int, int | str]):
    """A table of `str.translate` that makes spaces of punctuation, in any script."""

    def __missing__(self, code: int) -> int | str:
        mark = unicodedata.category(chr(code))[0] == "P" and unicodedata.normalize("NFKC", chr(code)) not in _READ
        self[code] = " " if mark else code
        return self[code]


_MARKS = _Marks()


@lru_cache(1 << 16)  # a caption is the false one of other rows
def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a text: without case and punctuation, and numbers with every mark; the text if it is none.

    >>> words_of("Jack - - o lantern's") == words_of("jack-o-lantern's."), words_of("-5") == words_of("5")
    (True, False)
    """
    parts = _NUMBER.split(text.lower())
    words = [["".join(part.split())] if k % 2 else part.translate(_MARKS).split() for k, part in enumerate(parts)]
    return tuple(chain.from_iterable(words)) or (text,)


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """One image and its caption.

    Attributes:
        image: the file's path.
        caption: a text that is true of it.
        negatives: captions that are false of it.
        counterparts: numbers of rows whose images are hard to distinguish from this one.
        units: parts of the caption, each with a foil.
        relations: numbers of the units that are relations of two things.
        positives: further captions that are true of it.
        item: number of the row's item: rows of one item may be kept in one batch.
        cluster: name of rows that must not be split between training and validation.
        picture: the hash of its pixels; empty if only its file is known.
    """

    image: Path
    caption: str
    negatives: tuple[str, ...] = ()
    counterparts: tuple[int, ...] = ()
    units: tuple[tuple[str, str], ...] = ()
    relations: tuple[int, ...] = ()
    positives: tuple[str, ...] = ()
    item: int = 0
    cluster: str = ""
    picture: str = ""


@dataclass(frozen=True)
class TrainingRows:
    """All rows of a run, in the order of the sources.

    >>> row = TrainingRow(Path("a.png"), "a cat")
    >>> rows = TrainingRows((row, replace(row, caption="a pet", item=1), TrainingRow(Path("b.png"), "a dog", item=2)))
    >>> len(rows), rows.image_ids.tolist()
    (3, [0, 0, 1])
    """

    rows: tuple[TrainingRow, ...]

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def image_ids(self) -> NDArray[np.int64]:
        """One number for each picture, int64 `(rows,)`: rows of one file, or of the same pixels, share it."""
        numbers: dict[object, int] = {}
        return np.array([numbers.setdefault(row.picture or row.image, len(numbers)) for row in self.rows], np.int64)

    @cached_property
    def counterparts(self) -> list[list[int]]:
        """The hard counterparts of each row that show another picture than it."""
        ids = self.image_ids.tolist()
        return [[other for other in row.counterparts if ids[other] != ids[k]] for k, row in enumerate(self.rows)]

    def with_pictures(self, hashes: Mapping[Path, str]) -> TrainingRows:
        """Return the rows with the hashes of their files' pixels; a file without one is a picture of its own."""
        return TrainingRows(tuple(replace(row, picture=hashes.get(row.image, "")) for row in self.rows))

    @cached_property
    def items(self) -> tuple[tuple[int, ...], ...]:
        """The rows of each item, in order."""
        items: dict[int, list[int]] = {}
        for number, row in enumerate(self.rows):
            items.setdefault(row.item, []).append(number)
        return tuple(tuple(numbers) for numbers in items.values())

    def pixels(self, number: int) -> NDArray[np.uint8]:
        """Decode a row's image to RGB, uint8 `(height, width, 3)`."""
        path = self.rows[number].image
        try:
            return decode(read_image(path), str(path))
        except DataError as error:
            raise DataError(f"training row {number}: {error}") from error

    def is_wide(self, number: int) -> bool:
        """Return whether a row's image is at least as wide as high; its head alone is read, once."""
        path = self.rows[number].image
        if path not in self._wide_images:
            try:
                with Image.open(path if path.is_file() else io.BytesIO(read_image(path))) as picture:
                    self._wide_images[path] = picture.width >= picture.height
            except OSError as error:
                raise DataError(f"training row {number}: {path}: cannot be read as an image ({error})") from error
        return self._wide_images[path]

    @cached_property
    def _wide_images(self) -> dict[Path, bool]:
        return {}

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all rows: texts, counterparts, and the bytes of every image."""
        digest = hashlib.sha256()
        hashes = {path: hashlib.sha256(read_image(path)).hexdigest() for path in {row.image for row in self.rows}}
        for row in self.rows:
            facts = [hashes[row.image], row.caption, row.negatives, row.counterparts, row.item]
            facts += [row.units] if row.units else []
            facts += [{"relations": row.relations}] if row.relations else []
            facts += [{"positives": row.positives}] if row.positives else []
            digest.update(json.dumps(facts).encode() + b"\n")
        return digest.hexdigest()

    def split(self, share: float, salt: str = "") -> tuple[TrainingRows, TrainingRows]:
        """Split by cluster: each cluster's hash decides its side, so more data move no cluster.

        Clusters that share a picture are one, of the name that comes first.

        Source: COCO-Counterfactuals trains on 80 % of its pairs; its released split is by row, and breaks pairs.

        >>> row = TrainingRow(Path("a.png"), "a cat", cluster="a", picture="1")
        >>> rows = TrainingRows((row, replace(row, image=Path("copy.png"), cluster="b")))
        >>> sorted(len(part) for part in rows.split(0.5))
        [0, 2]
        """
        parts: tuple[list[int], list[int]] = ([], [])
        clusters: dict[int, str] = {}  # the first of each picture
        groups = linked_images(
            [
                (row.cluster, clusters.setdefault(picture, row.cluster))
                for row, picture in zip(self.rows, self.image_ids.tolist(), strict=True)
            ]
        )
        for number, row in enumerate(self.rows):
            parts[_unit_interval(salt + groups[row.cluster]) >= share].append(number)
        return self.select(parts[0]), self.select(parts[1])

    def select(self, numbers: Sequence[int]) -> TrainingRows:
        """Return some rows; counterparts that are not among them are left out."""
        position = {number: k for k, number in enumerate(numbers)}
        return TrainingRows(
            tuple(
                replace(row, counterparts=tuple(position[c] for c in row.counterparts if c in position))
                for row in (self.rows[number] for number in numbers)
            )
        )


def _unit_interval(cluster: str) -> float:
    return int.from_bytes(hashlib.sha256(cluster.encode()).digest()[:8], "big") / 2**64


@collector_paused()
def read_rows(
    sources: Sequence[str],
    home: Path,
    images: str | None = None,
    *,
    take: Sequence[float] = (),
    limit: int | None = None,
    columns: Mapping[str, str] = MappingProxyType({}),
    outside: bool = False,
    refused: list[DataError] | None = None,
) -> TrainingRows:
    """Read all sources; every image must exist.

    Warns:
        TellapartWarning: a file's false captions or hard images are true of their row's picture; they are left out.
    """
    if take and len(take) != len(sources):
        raise DataError(
            f"data.take: gives {len(take)} shares of {len(sources)} sources; give one for each of data.train"
        )
    folder = None if images is None else home / Path(images).expanduser()
    if folder is not None and not folder.is_dir():
        raise DataError(f"the training images' folder {folder} is not there")
    place = Locations(images=folder, outside=outside)
    rows: list[TrainingRow] = []
    items = 0
    for source, share in zip(sources, take or [1.0] * len(sources), strict=True):
        path = home / Path(source.removeprefix("folder:")).expanduser()
        first = len(rows)
        try:
            read = _read_text(path, place, columns, refused)
        except DataError as error:
            if refused is None:
                raise
            refused.append(error)
            continue
        own = TrainingRows(tuple(replace(row, cluster=row.cluster or f"{path.name}:{row.item}") for row in read))
        # Drawn apart from the split: else a fourth of the clusters would all lie on one side of it.
        own = own if share == 1 else own.split(share, salt="take:")[0]
        rows += [
            replace(row, item=items + row.item, counterparts=tuple(first + other for other in row.counterparts))
            for row in own.rows
        ]
        items += 1 + max((row.item for row in own.rows), default=-1)
    if not rows:
        raise DataError(f"{', '.join(sources)}: no rows to train on")
    every = TrainingRows(tuple(rows))
    return every if limit is None else every.select([n for numbers in every.items[:limit] for n in numbers])


def _read_text(
    path: Path, place: Locations, columns: Mapping[str, str], refused: list[DataError] | None
) -> Iterable[TrainingRow]:
    if path.is_dir():
        find: Callable[[str], Path] = own_images(path, place).find
        if refused is not None and (path / LISTINGS[0]).is_file():  # other listings are searched for their suffixes
            find = _note_missing(find, refused)
        return list(_pair_set_rows(read_pair_set(path, find=find), find))
    suffix = plain_suffix(path)
    folder = path.parent if suffix == ".tar" else place.images or path.parent
    # COCO's files name images without the folder, train2014 or val2014. Several rows show one image: it is found once.
    files = FolderImages(folder, deeper=suffix == ".json", outside=place.outside)
    find = cache(lambda reference: find_member(folder, reference) or files.find(reference))
    if suffix in {".csv", ".tsv"}:
        listed = list(table_rows(path, columns))
    else:
        listed = list({".json": json_rows, ".tar": shard_rows}.get(suffix, _jsonl_rows)(path))
    rows, left = list[TrainingRow](), list[str]()
    for number, (where, fields) in enumerate(listed):
        try:
            rows.append(_make_row(where, fields, find, len(listed), left, item=number))
        except DataError as error:
            if refused is None:
                raise
            refused.append(error)
            rows.append(TrainingRow(Path(), ""))
    for number, row in enumerate(rows):
        others = tuple(other for other in row.counterparts if rows[other].image != row.image)
        if others != row.counterparts:
            rows[number] = replace(row, counterparts=others)
            left.append(f"{listed[number][0]}: negative_images {quote(row.counterparts)}")
    if left:
        text = f"{path}: {len(left):,} of negative_captions and negative_images are true of their row's picture"
        warnings.warn(f"{text}, and left out; the first is {left[0]}", TellapartWarning, stacklevel=2)
    return rows


def _note_missing(find: Callable[[str], Path], refused: list[DataError]) -> Callable[[str], Path]:
    """Return a function that finds an image as `find` does, and keeps the error of a missing one."""
    seen: set[str] = set()

    def find_or_note(reference: str) -> Path:
        try:
            return find(reference)
        except DataError as error:
            refused.extend([error] * (reference not in seen))
            seen.add(reference)
            return Path()

    return find_or_note


def _pair_set_rows(pairs: PairSet, find: Callable[[str], Path]) -> Iterator[TrainingRow]:
    images, texts = pairs.shape
    if images > 1 and images != texts:
        raise DataError(
            f"{pairs.root}: its items have {images} images and {texts} texts; training takes one image, or as many as "
            "texts"
        )
    for number, item in enumerate(pairs.one_truth().items):
        for k, reference in enumerate(item.images):
            yield TrainingRow(
                image=find(reference),
                caption=item.texts[k],
                negatives=item.texts[:k] + item.texts[k + 1 :],
                counterparts=tuple(number * images + other for other in range(images) if other != k),
                item=number,
                cluster=item.cluster,
            )


_FIELDS = ("image", "caption", "negative_captions", "negative_images", "units", "positive_captions", "cluster", "id")


def _jsonl_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for line, fields in read_jsonl(path):
        if unknown := set(fields) - set(_FIELDS):
            raise DataError(f"{path}:{line}: unknown field {sorted(unknown)[0]!r}; rows hold {', '.join(_FIELDS)}")
        yield f"{path}:{line}", fields


def _make_row(
    place: str, fields: dict[str, Any], find: Callable[[str], Path], count: int, left: list[str], *, item: int
) -> TrainingRow:
    for name in ("image", "caption"):
        if not isinstance(fields.get(name), str) or not fields[name].strip():
            raise DataError(f"{place}: field {name!r} must be a text, got {quote(fields.get(name))}")
    try:
        one_text(fields["caption"])
        image = find(fields["image"])
    except ValueError as error:
        raise DataError(f"{place}: field 'caption': {error}") from error
    except DataError as error:
        raise DataError(f"{place}: field 'image': {error}") from error
    negatives, positives = (_read_texts(place, fields, name) for name in ("negative_captions", "positive_captions"))
    others = fields.get("negative_images", [])
    if not isinstance(others, list) or not all(type(other) is int and 0 <= other < count for other in others):
        raise DataError(
            f"{place}: field 'negative_images' must be a list of row numbers below {count}, got {quote(others)}"
        )
    units = fields.get("units", [])
    if not isinstance(units, list) or not all(_is_unit(unit) for unit in units):
        raise DataError(
            f"{place}: field 'units' must be a list of pairs of texts, each alone or with a third entry "
            f'"relation", got {quote(units)}'
        )
    # A "negative" that is the caption but for case, spaces and marks is none (15 are in NegCLIP's validation file).
    true = {words_of(text) for text in (fields["caption"], *positives)}
    left += [f"{place}: negative_captions {quote(text)}" for text in negatives if words_of(text) in true]
    return TrainingRow(
        image=image,
        caption=fields["caption"],
        negatives=tuple(text for text in negatives if words_of(text) not in true),
        counterparts=tuple(others),
        units=tuple((unit, foil) for unit, foil, *_ in units),
        relations=tuple(number for number, unit in enumerate(units) if len(unit) == 3),
        positives=tuple(positives),
        item=fields.get("item", item),  # no field of JSONL: released pairs alone have it
        cluster=str(fields.get("cluster", "") or fields["image"]),
    )


def _read_texts(place: str, fields: dict[str, Any], name: str) -> list[str]:
    texts = fields.get(name, [])
    if not isinstance(texts, list) or not all(isinstance(text, str) and text.strip() for text in texts):
        raise DataError(f"{place}: field {name!r} must be a list of texts, got {quote(texts)}")
    return texts


def _is_unit(unit: object) -> bool:
    if not isinstance(unit, list) or len(unit) not in {2, 3}:
        return False
    return all(isinstance(text, str) and text.strip() for text in unit) and unit[2:] in ([], ["relation"])


def images_root(source: str, images: Path | None) -> Path:
    """Return the folder that the image paths of a source are relative to, as `read_rows` takes it.

    >>> images_root("sets/rows.jsonl", None).as_posix(), images_root("sets/rows.jsonl", Path("photos")).as_posix()
    ('sets', 'photos')
    """
    path = Path(source.removeprefix("folder:")).expanduser()
    if images is not None:
        return images.expanduser()
    return path if path.is_dir() else path.parent


def write_rows(path: Path, rows: TrainingRows, root: Path, *, outside: bool = False) -> None:
    """Write one JSON object a row: `image`, `caption`, `cluster`, `negative_captions`, `negative_images` (row
    numbers).
    """
    home = root.resolve()
    lines = []
    for number, row in enumerate(rows.rows):
        inside = row.image.is_relative_to(home)
        if not inside and not outside:
            raise DataError(f"training row {number}: {row.image} lies outside of {home}; paths are relative to it")
        fields = {
            "image": (row.image.relative_to(home) if inside else row.image).as_posix(),
            "caption": row.caption,
            "cluster": row.cluster,
            "negative_captions": row.negatives,
            "negative_images": row.counterparts,
            **(
                {"units": [[*unit, *["relation"] * (k in row.relations)] for k, unit in enumerate(row.units)]}
                if row.units
                else {}
            ),
            **({"positive_captions": row.positives} if row.positives else {}),
        }
        lines.append(json.dumps(fields, ensure_ascii=False) + "\n")
    write_text_file(path, "".join(lines))
