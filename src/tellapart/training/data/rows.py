"""Training rows: images with their captions, false captions, and hard counterparts.

A source is a JSONL file, a pair set's folder, COCO's captions, a table, webdataset's shards, or a file that a paper
released. A 2x2 item makes two rows, an image with its text; the other text is the false caption, and the other row the
hard counterpart. A 1xn item makes one row: the first text is the caption, the others are false.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import re
import tarfile
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from itertools import groupby
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Annotated, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import AfterValidator, BaseModel, ConfigDict

from tellapart.benchmarks.locations import FolderImages, Locations, own_images
from tellapart.builders.caption_files import read_json_captions
from tellapart.data.columns import is_empty
from tellapart.data.fields import one_text
from tellapart.data.folder import LISTINGS, read_pair_set
from tellapart.data.images import decode, leaves
from tellapart.data.pairset import PairSet
from tellapart.data.rows import read_csv, read_jsonl
from tellapart.data.strict_json import collector_paused, decode_text, parse_json, plain_suffix, read_whole
from tellapart.data.task_records import linked_images
from tellapart.data.validation import validate
from tellapart.errors import DataError, TellapartWarning, nearest, quote
from tellapart.models.protocols import Bounded
from tellapart.records.run_folder import write_text_file

#: A context in which a row or a source is read: it raises errors, or lists them and skips the row or source.
Attempt = Callable[[], AbstractContextManager[None]]

#: The type of a pool's entries.
Choice = TypeVar("Choice")

# Training rows in webdataset's shards, as img2dataset writes them: tar files of `KEY.jpg`, `KEY.txt` and `KEY.json`. A
# picture's path is `shard-00000.tar/KEY.jpg`; nothing is unpacked. Source: github.com/webdataset/webdataset, README.

_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")  # {00000..00009}
_KEY = re.compile(r"(.*/)?[^./]*")  # a sample's name: up to the first dot of the file's name
_END = 1024  # bytes of zeros that end a tar file
_PICTURES = ("jpg", "jpeg", "png", "webp")
#: Fields of rows that a sample's JSON may hold; others, such as img2dataset's `url`, are passed over.
_SAMPLE_FIELDS = ("caption", "negative_captions", "positive_captions", "units", "cluster")


def expand_shards(path: Path) -> list[Path]:
    """Return the files of a path; `{00000..00009}` in it is replaced by ten numbers of five digits."""
    if (span := _RANGE.search(str(path))) is None:
        return [path]
    numbers = range(int(span[1]), int(span[2]) + 1)
    texts = [str(path).replace(span[0], str(number).zfill(len(span[1])), 1) for number in numbers]
    return [shard for text in texts for shard in expand_shards(Path(text))]


def shard_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the place and the fields of each sample in the shards; `KEY.txt` overrules the caption in `KEY.json`."""
    for shard in expand_shards(path):
        for key, names in groupby(_list_members(shard), key=lambda name: _KEY.match(name)[0]):  # type: ignore[index]
            members = {name.removeprefix(f"{key}.").lower(): name for name in names}
            files = {kind: shard / members[kind] for kind in ("json", "txt") if kind in members}
            texts = {kind: decode_text(read_image(file), file) for kind, file in files.items()}
            stated = parse_json(texts["json"], files["json"]) if "json" in files else None
            fields = {name: stated[name] for name in _SAMPLE_FIELDS if isinstance(stated, dict) and name in stated}
            fields |= {"caption": texts["txt"].strip()} if "txt" in texts else {}
            if picture := next((members[suffix] for suffix in _PICTURES if suffix in members), None):
                fields["image"] = f"{shard.relative_to(path.parent)}/{picture}"
            yield f"{shard}: sample {key!r}", fields


def read_image(path: Path) -> bytes:
    """Return the bytes of a training row's image: of a file, or of a member of a shard."""
    if (shard := _find_shard(path)) is None:
        return read_whole(path)
    name = path.relative_to(shard).as_posix()
    if name not in _list_members(shard):
        raise DataError(f"{shard}: has no member {name!r}")
    start, size = _list_members(shard)[name]
    with shard.open("rb") as file:
        file.seek(start)
        return file.read(size)


def _find_shard(path: Path) -> Path | None:
    return next((folder for folder in path.parents if folder.suffix == ".tar" and folder.is_file()), None)


def _list_members(shard: Path) -> Mapping[str, tuple[int, int]]:
    """Return the place and the size of each file in a shard, in order, as the shard is now."""
    state = shard.stat() if shard.is_file() else None  # `_read_members` refuses a folder or a missing file
    return _read_members(shard, (state.st_mtime_ns, state.st_size) if state else (0, 0))


@cache
def _read_members(shard: Path, _state: tuple[int, int]) -> Mapping[str, tuple[int, int]]:
    members: dict[str, tuple[int, int]] = {}
    try:
        with tarfile.open(shard, "r:") as archive:
            for member in archive:
                if member.name in members or leaves(member.name):
                    raise DataError(f"{shard}: member {member.name!r} leaves its folder or is there twice")
                if member.isfile():
                    members[member.name] = member.offset_data, member.size
        with shard.open("rb") as file:
            file.seek(-_END, io.SEEK_END)  # tarfile takes a shard that is cut off for one that ends
            if any(file.read()):
                raise tarfile.ReadError("its end is missing")
    except (OSError, tarfile.TarError) as error:
        raise DataError(f"{shard}: is no complete, plain tar file ({error}); copy it again; unpack .tar.gz") from error
    return members


# Files of other formats are read as JSONL's fields, each row with its place, so that `_make_row` checks them all.

#: Field -> its columns in open_clip's, Hugging Face's and others' tables; a table's first of them is read.
_USUAL_COLUMNS = {
    "image": ("image", "filepath", "image_path", "file_name", "filename", "path"),
    "caption": ("caption", "title", "text", "sentence"),
    "cluster": ("cluster",),
}

_NEGCLIP_COLUMNS = ("title", "filepath", "neg_caption", "neg_image")
#: Columns of false captions: read in NegCLIP's table alone, and refused in others, since training would ignore them.
_FALSE_COLUMN = re.compile(r"neg|foil|false.?cap", re.IGNORECASE)
#: The authors' folder of an image -> the number that the hub's release gives the image within its pair.
_SIDES = {"synthetic-images-for-original-captions": 0, "synthetic-images-for-counterfactual-captions": 1}


def json_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the captions of a JSON file as `read_json_captions` does, each with the others of its image."""
    rows = list(read_json_captions(path))
    captions: dict[object, list[object]] = {}
    for place, row in rows:
        if not isinstance(row["image"], str):
            raise DataError(f"{place}: field 'image' must be the name of a file, got {quote(row['image'])}")
        captions.setdefault(row["image"], []).append(row["caption"])
    for place, row in rows:
        others = [text for text in captions[row["image"]] if text != row["caption"]]
        yield place, row | ({"positive_captions": others} if others else {})


def table_rows(path: Path, columns: Mapping[str, str]) -> Iterable[tuple[str, dict[str, Any]]]:
    """Return the rows of a CSV or TSV file: NegCLIP's, COCO-Counterfactuals', or any with an image and a caption."""
    rows = [(f"{path}:{line}", row) for line, row in read_csv(path)]
    header = rows[0][1].keys() if rows and not columns else set()
    if plain_suffix(path) == ".tsv" and "neg_caption" in header:
        return [(place, _negclip_fields(place, row)) for place, row in rows]
    if {"image_path", "caption"} <= header:
        return _counterfactual_rows(rows)
    return [(place, _pick_fields(path, row, columns)) for place, row in rows]


def _pick_fields(path: Path, row: Mapping[str, str], columns: Mapping[str, str]) -> dict[str, Any]:
    fields = {}
    for key, names in _USUAL_COLUMNS.items():
        wanted = (columns[key],) if key in columns else names
        name = next((column for column in wanted if column in row), None)
        if name is not None:
            fields[key] = row[name]
        elif key in columns or key != "cluster":
            near = next((f"; is it {column!r}?" for column in row if nearest(column, wanted)), "")
            raise DataError(
                f"{path}: no column {' or '.join(map(repr, wanted))} for {key!r} among {', '.join(row)}{near}; name "
                f'it: data.columns = {{{key} = "..."}}',
                path=path,
                field=key,
            )
    _refuse_false(path, row, columns)
    return fields


def _refuse_false(place: Path | str, row: Mapping[str, str], columns: Mapping[str, str]) -> None:
    if unread := next((name for name in row if _FALSE_COLUMN.match(name) and name not in columns.values()), None):
        raise DataError(
            f"{place}: column {unread!r} is not read: a table holds image, caption and cluster, and NegCLIP's TSV "
            "neg_caption and neg_image; put false captions into JSONL as negative_captions, or remove the column",
            field=unread,
        )


def _negclip_fields(place: str, row: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a row of NegCLIP: `title`, `filepath`, and Python lists of `neg_caption` and `neg_image`.

    Source: Yuksekonul et al. (2023), the released `train_neg_clip.tsv` and `valid_neg_clip.tsv`.
    """
    if lacks := [name for name in _NEGCLIP_COLUMNS if name not in row]:
        raise DataError(f"{place}: column {lacks[0]!r} is missing; expected NegCLIP's TSV, or a JSONL file of rows")
    negatives = {f"negative_{kind}s": _read_list(place, row, f"neg_{kind}") for kind in ("caption", "image")}
    return {"image": row["filepath"], "caption": row["title"], **negatives}


def _counterfactual_rows(listed: Sequence[tuple[str, Mapping[str, str]]]) -> list[tuple[str, dict[str, Any]]]:
    """Return the rows of a table of `image_path` and `caption`, with the halves of counterfactual pairs matched.

    COCO-Counterfactuals names an image by a folder for its side and by its pair (`.../187055_2.jpg`); it is read by its
    name in the hub's release, `187055_2_img_0.jpg`. If the file holds both halves of a pair, they are one item, and
    each is the other's false caption and hard counterpart. All pairs of one picture of COCO are one cluster. Any other
    path is read unchanged.

    Source: Le et al. (2023), the released `train-coco-cfs.csv`, `dev-coco-cfs.csv` and `test-coco-cfs.csv`.
    """
    rows = list[tuple[str, dict[str, Any]]]()
    for place, fields in listed:
        image = PurePosixPath(fields["image_path"])
        _refuse_false(place, fields, {})
        row: dict[str, Any] = {name: fields[name] for name in ("caption", "cluster") if name in fields}
        row["image"] = fields["image_path"]
        side = next((number for folder, number in _SIDES.items() if folder in image.parts), None)
        if side is not None:
            name, coco = f"{image.stem}_img_{side}.jpg", image.stem.partition("_")[0]
            row |= {"image": name, "cluster": coco, "pair": image.stem}
        rows.append((place, row))
    halves: dict[str, list[int]] = {}
    for number, (_, row) in enumerate(rows):
        halves.setdefault(row.pop("pair", None) or f"row {number}", []).append(number)
    for item, numbers in enumerate(halves.values()):
        images = {rows[number][1]["image"] for number in numbers}
        if len(images) < len(numbers):
            place, row = rows[numbers[-1]]
            raise DataError(f"{place}: {row['image']!r} appears twice in the file")
        for number in numbers:
            others = [other for other in numbers if other != number]
            captions = [rows[other][1]["caption"] for other in others]
            rows[number][1].update(item=item, negative_images=others, negative_captions=captions)
    return rows


def _read_list(place: str, row: Mapping[str, str], name: str) -> list[Any]:
    try:
        value = ast.literal_eval(row[name])  # a literal: nothing runs
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        value = None
    if not isinstance(value, list):
        raise DataError(f"{place}: column {name!r} is not a list: {quote(row[name])}")
    try:
        "".join(map(str, value)).encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{place}: column {name!r}: half a character, which no UTF-8 file can hold") from error
    return value


#: A number with its sign, its inner marks and its unit, such as -1,000.5 or 5'10": each of these changes its meaning.
_NUMBER = re.compile(
    r"""((?:(?<![^\W\d_])[-\u2010-\u2015\u2212]\s*)?  # a sign, if no letter is before it
        [.,]?\d+(?:[^\w\s]\d+)*                        # digits, and marks between them
        (?:\s*[%\u2030'"\u2032\u2033]+)?)              # percent, feet, inches""",
    re.VERBOSE,
)

#: Punctuation that is read aloud, and so is no space.
_READ_ALOUD = frozenset("%&@#*/\\")


@cache
def _blank_mark(sign: str) -> str:
    """Return a space for punctuation, in any script, and any other character as it is."""
    is_mark = unicodedata.category(sign)[0] == "P" and unicodedata.normalize("NFKC", sign) not in _READ_ALOUD
    return " " if is_mark else sign


@lru_cache(1 << 16)  # a caption is also a false one of other rows
def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a text in lower case without punctuation, which numbers keep; the text if it has no word."""
    words: list[str] = []
    for k, part in enumerate(_NUMBER.split(text.lower())):  # parts 1, 3, 5 ... are the numbers
        words += ["".join(part.split())] if k % 2 else "".join(map(_blank_mark, part)).split()
    return tuple(words) or (text,)


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """An image and its caption, with captions that are false of it, and further ones that are true (`positives`).

    `counterparts` are numbers of rows whose images are hard to distinguish from this one. `units` are parts of the
    caption, each with a foil; `relations` are the numbers of those units that relate two objects. A batch may keep the
    rows of one `item` together; rows of one `cluster` are never split between training and validation. `picture` is the
    hash of the image's pixels, or empty if they were not hashed.
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
    """All rows of a run, in the order of the sources."""

    rows: tuple[TrainingRow, ...]

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def image_ids(self) -> NDArray[np.int64]:
        """The number of each row's picture, int64 `(rows,)`: rows of one file, or of the same pixels, share it."""
        numbers: dict[object, int] = {}
        return np.array([numbers.setdefault(row.picture or row.image, len(numbers)) for row in self.rows], np.int64)

    @cached_property
    def files(self) -> tuple[str, ...]:
        """The image files, in order, each once."""
        return tuple(dict.fromkeys(str(row.image) for row in self.rows))

    @cached_property
    def counterparts(self) -> list[list[int]]:
        """The hard counterparts of each row, without those that show the same picture."""
        ids = self.image_ids.tolist()
        return [[other for other in row.counterparts if ids[other] != ids[k]] for k, row in enumerate(self.rows)]

    def captions(self, numbers: Sequence[int]) -> list[str]:
        """Return the captions of some rows."""
        return [self.rows[number].caption for number in numbers]

    def with_pictures(self, hashes: Mapping[Path, str]) -> TrainingRows:
        """Return the rows with the hashes of their files' pixels; a file without a hash is a separate picture."""
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
        """Return whether a row's image is at least as wide as high; only its file's head is read, and once."""
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
        """Split into a share and the rest by clusters; a cluster's hash decides its side, even if data are added.

        Clusters that share a picture count as one, which has the name of the first.

        Source: COCO-Counterfactuals trains on 80 % of its pairs; its released split is by row, and breaks pairs.

        >>> row = TrainingRow(Path("a.png"), "a cat", cluster="a", picture="1")
        >>> rows = TrainingRows((row, replace(row, image=Path("copy.png"), cluster="b")))
        >>> sorted(len(part) for part in rows.split(0.5))
        [0, 2]
        """
        inside, rest = list[int](), list[int]()
        first: dict[int, str] = {}  # picture -> the cluster of its first row
        pictures = zip(self.rows, self.image_ids.tolist(), strict=True)
        groups = linked_images([(row.cluster, first.setdefault(picture, row.cluster)) for row, picture in pictures])
        for number, row in enumerate(self.rows):
            digest = hashlib.sha256(f"{salt}{groups[row.cluster]}".encode()).digest()
            fraction = int.from_bytes(digest[:8], "big") / 2**64  # from 0 to 1
            (inside if fraction < share else rest).append(number)
        parts = self.select(inside), self.select(rest)
        before, left = (sum(len(row.counterparts) for part in sides for row in part.rows) for sides in ([self], parts))
        if left < before:
            text = (
                f"data.{'take' if salt else 'share'} parts {before - left:,} of {before:,} negative_images from their "
                "rows, and they are left out: rows that shall stay together need one cluster"
            )
            warnings.warn(text, TellapartWarning, stacklevel=2)
        return parts

    def select(self, numbers: Sequence[int]) -> TrainingRows:
        """Return some rows, renumbered; counterparts that are not among them are left out."""
        position = {number: k for k, number in enumerate(numbers)}
        rows = [self.rows[number] for number in numbers]
        left = (tuple(position[other] for other in row.counterparts if other in position) for row in rows)
        return TrainingRows(tuple(replace(row, counterparts=others) for row, others in zip(rows, left, strict=True)))


@collector_paused()
def read_rows(
    sources: Sequence[str], home: Path, images: str | None = None, *,
    take: Sequence[float] = (), limit: int | None = None, columns: Mapping[str, str] = MappingProxyType({}),
    outside: bool = False, attempt: Attempt = nullcontext,
) -> TrainingRows:  # fmt: skip
    """Return the rows of all sources, but those that `attempt` skips; every image must exist."""
    if take and len(take) != len(sources):
        raise DataError(f"data.take: {len(take)} shares of {len(sources)} sources; give a share for each of data.train")
    if limit is not None and limit < 1:
        raise DataError(f"limit={limit}: give a number of rows from 1 on")
    place = Locations(images=None if images is None else home / Path(images).expanduser(), outside=outside)
    rows: list[TrainingRow] = []
    items = 0
    for source, share in zip(sources, take or [1.0] * len(sources), strict=True):
        path = home / Path(source.removeprefix("folder:")).expanduser()
        first, listed = len(rows), list[TrainingRow]()
        with attempt():
            listed = [*_read_source(path, place, columns, attempt)]
        named = (replace(row, cluster=row.cluster or f"{path.name}:{row.item}") for row in listed)
        clustered = TrainingRows(tuple(named))
        # With a salt: the split for validation uses the same hashes, and a small share would lie in one of its parts.
        taken = clustered if share == 1 else clustered.split(share, salt="take:")[0]
        rows += [
            replace(row, item=items + row.item, counterparts=tuple(first + other for other in row.counterparts))
            for row in taken.rows
        ]
        items += 1 + max((row.item for row in taken.rows), default=-1)
    if not rows:
        raise DataError(f"{', '.join(sources)}: no rows to train on")
    all_rows = TrainingRows(tuple(rows))
    return all_rows if limit is None else all_rows.select([n for numbers in all_rows.items[:limit] for n in numbers])


def _read_source(path: Path, place: Locations, columns: Mapping[str, str], attempt: Attempt) -> Iterable[TrainingRow]:
    if path.is_dir():
        find = own_images(path, place).find
        # Of a listing in another format, `find` shows which cells are images: there it must raise, not skip.
        attempt_find = attempt if (path / LISTINGS[0]).is_file() else nullcontext

        @cache
        def find_or_pass(reference: str) -> Path:
            with attempt_find():
                return find(reference)
            return Path()

        return _pair_set_rows(read_pair_set(path, find=find_or_pass), find_or_pass)
    suffix = plain_suffix(path)
    folder = path.parent if suffix == ".tar" else place.images or path.parent
    # COCO's files name images without the folder, train2014 or val2014. Several rows show one image: it is found once.
    files = FolderImages(folder, deeper=suffix == ".json", outside=place.outside)
    root = folder.resolve()

    @cache
    def find_listed(reference: str) -> Path:
        in_shard = ".tar/" in reference and not leaves(reference) and _find_shard(root / reference)
        return root / reference if in_shard else files.find(reference)

    if suffix in {".csv", ".tsv"}:
        listed = list(table_rows(path, columns))
    elif suffix in {".json", ".tar"}:
        listed = list((json_rows if suffix == ".json" else shard_rows)(path))
    elif suffix not in {".jsonl", ".jsonlines", ".ndjson", ""} and path.is_file():
        forms = "a pair set's folder, or a .jsonl, .csv, .tsv, .json or .tar file"
        raise DataError(f"{path}: training rows are read from {forms}; got {suffix!r}", path=path)
    else:
        listed = [(f"{path}:{line}", fields) for line, fields in read_jsonl(path)]
    rows, dropped = list[TrainingRow](), list[str]()  # dropped: places of negatives that are none
    for number, (row_place, fields) in enumerate(listed):
        rows.append(_ABSENT)
        with attempt():
            item = fields.pop("item", number) if suffix == ".csv" else number  # of COCO-Counterfactuals' pairs
            rows[number] = _make_row(row_place, fields, find_listed, len(listed), dropped, item=item)
    for number, row in enumerate(rows):
        others = tuple(other for other in row.counterparts if rows[other].image != row.image)
        if others != row.counterparts:
            rows[number] = replace(row, counterparts=others)
            dropped.append(f"{listed[number][0]}: negative_images {quote(row.counterparts)}")
    if dropped:
        text = f"{path}: {len(dropped):,} of negative_captions and negative_images are true of their row's picture"
        warnings.warn(f"{text}, and left out; the first is {dropped[0]}", TellapartWarning, stacklevel=2)
    return rows


#: The placeholder of a row that is skipped, so that row numbers stay those of the file.
_ABSENT = TrainingRow(Path(), "")


def _pair_set_rows(pairs: PairSet, find: Callable[[str], Path]) -> Iterator[TrainingRow]:
    images, texts = pairs.shape
    if images > 1 and images != texts:
        raise DataError(f"{pairs.root}: items of {images} images and {texts} texts; training takes 1 image, or as many")
    for number, item in enumerate(pairs.one_truth().items):
        for k, reference in enumerate(item.images):
            foils = item.texts[:k] + item.texts[k + 1 :]
            others = tuple(number * images + other for other in range(images) if other != k)
            yield TrainingRow(find(reference), item.texts[k], foils, others, item=number, cluster=item.cluster)


def _check_text(text: str) -> str:
    if not text.strip():
        raise ValueError("expected a text that is not blank")
    return text


_Text = Annotated[str, AfterValidator(_check_text)]


def _check_units(units: list[list[str]]) -> list[list[str]]:
    if not all(len(unit) > 1 and unit[2:] in ([], ["relation"]) for unit in units):
        raise ValueError('expected pairs of texts, each alone or with a third entry "relation"')
    return units


class _Fields(BaseModel):
    """The fields of a JSONL row; `negative_images` are numbers of the file's rows with hard counterparts."""

    model_config = ConfigDict(strict=True)

    image: _Text
    caption: Annotated[_Text, AfterValidator(one_text)]
    negative_captions: list[_Text] = []
    positive_captions: list[_Text] = []
    units: Annotated[list[list[_Text]], AfterValidator(_check_units)] = []
    negative_images: Any = []
    cluster: Any = ""
    id: Any = None


def _make_row(
    place: str, stated: dict[str, Any], find: Callable[[str], Path], count: int, dropped: list[str], *, item: int
) -> TrainingRow:
    """Return a row of a file of `count` rows; add to `dropped` the negatives that are true captions."""
    fields = validate(_Fields, stated, place)
    try:
        image = find(fields.image)
    except DataError as error:
        raise DataError(f"{place}: field 'image': {error}") from error
    others = fields.negative_images
    if not isinstance(others, list) or not all(type(other) is int and 0 <= other < count for other in others):
        fault = f"must be a list of row numbers below {count}"
        raise DataError(f"{place}: field 'negative_images' {fault}, got {quote(others)}")
    # A "negative" that differs from the caption only in case, spaces or marks is none: NegCLIP's validation has 15.
    true = {words_of(text) for text in (fields.caption, *fields.positive_captions)}
    foils = tuple(text for text in fields.negative_captions if words_of(text) not in true)
    dropped += [f"{place}: negative_captions {quote(text)}" for text in fields.negative_captions if text not in foils]
    return TrainingRow(
        image,
        fields.caption,
        foils,
        tuple(others),
        units=tuple((unit, foil) for unit, foil, *_ in fields.units),
        relations=tuple(number for number, unit in enumerate(fields.units) if len(unit) == 3),
        positives=tuple(fields.positive_captions),
        item=item,
        cluster=fields.image if is_empty(fields.cluster) else str(fields.cluster),
    )


def write_rows(path: Path, rows: TrainingRows, root: Path, *, outside: bool = False) -> None:
    """Write the rows as JSONL, which `read_rows` reads; paths are relative to `root`."""
    home = root.resolve()
    lines = []
    for number, row in enumerate(rows.rows):
        inside = row.image.is_relative_to(home)
        if not inside and not outside:
            raise DataError(f"training row {number}: {row.image} lies outside of {home}; paths are relative to it")
        image = (row.image.relative_to(home) if inside else row.image).as_posix()
        fields: dict[str, Any] = {"image": image, "caption": row.caption, "cluster": row.cluster}
        fields |= {"negative_captions": row.negatives, "negative_images": row.counterparts}
        units = [[*unit, "relation"] if k in row.relations else [*unit] for k, unit in enumerate(row.units)]
        fields |= ({"units": units} if units else {}) | ({"positive_captions": row.positives} if row.positives else {})
        lines.append(json.dumps(fields, ensure_ascii=False) + "\n")
    write_text_file(path, "".join(lines))


TEXT_BLOCK = 4096  #: the number of texts that are tokenised at a time
_REMEMBERED = 1 << 22  #: the number of texts whose ids stay in memory


class TextIds:
    """An id for each text, from the hash of its tokens within the context: the same in every process."""

    def __init__(self, reader: Bounded) -> None:
        self._reader = reader
        self._numbers: dict[str, int] = {}

    def __call__(self, texts: Sequence[str]) -> list[int]:
        """Return the id of each text, a signed number of 64 bits."""
        new = sorted(set(texts) - self._numbers.keys())
        for start in range(0, len(new), TEXT_BLOCK):
            block = new[start : start + TEXT_BLOCK]
            for text, ids in zip(block, self._reader.token_ids(block), strict=True):
                digest = hashlib.sha256(np.asarray(ids, np.int64).tobytes()).digest()
                self._numbers[text] = int.from_bytes(digest[:8], "little", signed=True)
        numbers = list(map(self._numbers.__getitem__, texts))
        if len(self._numbers) > _REMEMBERED:
            self._numbers.clear()
        return numbers


# Orders and draws depend on the seed and the step alone, so a resumed run continues with the same batches.


@dataclass(frozen=True)
class BatchOrder:
    """The batches of a run: `size` pairs in each step, over all ranks. `together` keeps an item's rows in one batch."""

    rows: TrainingRows
    size: int
    seed: int
    together: bool = False
    _permutations: dict[int, list[int]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.together:
            sizes = {len(item) for item in self.rows.items}
            if len(sizes) > 1 or self.size % next(iter(sizes)):
                several = " and ".join(map(str, sorted(sizes)))
                raise DataError(f"data.together: items of {several} rows; one size must divide a batch of {self.size}")
        if len(self.rows) < self.size:
            raise DataError(f"{len(self.rows)} rows are too few for a batch of {self.size} pairs; lower batch.size")

    @cached_property
    def steps_per_epoch(self) -> int:
        """The number of full batches of a permutation; the rows that are left over are not in that epoch."""
        return len(self.rows) // self.size

    def batch(self, step: int, rank: int = 0, ranks: int = 1, *, parts: int = 1) -> list[int]:
        """Return the rows of a step, or of a part if `step` counts parts of steps; every rank gets an equal share."""
        step, part = divmod(step, parts)
        epoch, number = divmod(step, self.steps_per_epoch)
        size, share = self.size // parts, self.size // parts // ranks
        start = number * self.size + part * size + rank * share
        if epoch not in self._permutations:
            self._permutations.clear()  # only the current epoch's is needed
            rng = np.random.default_rng([self.seed, epoch])
            units = self.rows.items if self.together else [(number,) for number in range(len(self.rows))]
            self._permutations[epoch] = [n for unit in rng.permutation(len(units)) for n in units[unit]]
        return self._permutations[epoch][start : start + share]


def draw_choices(pool: Sequence[Choice], count: int, seed: int, step: int, row: int) -> list[Choice]:
    """Draw `count` different entries of a pool, or all of it if it has fewer, by seed, step and row alone."""
    rng = np.random.default_rng([seed, step, row, 1])  # the 1 keeps these draws apart from the permutations
    return list(map(pool.__getitem__, rng.permutation(len(pool))[:count]))


def draw_units(row: TrainingRow, count: int, seed: int, step: int, number: int) -> list[tuple[str, str]]:
    """Draw units with their foils, with replacement, by seed, step and row; only relations if the row has any.

    Source: CS-CLIP (Kargi et al. 2026), `StructuredSampler` of its code with its released settings.
    """
    rng = np.random.default_rng([seed, step, number, 4])  # the 4 keeps these draws apart from all others
    pool = [row.units[k] for k in row.relations] or list(row.units)
    return [pool[k] for k in rng.integers(len(pool), size=count)]
