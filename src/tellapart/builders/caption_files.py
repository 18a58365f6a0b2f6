"""Files that builders start from: captions, with or without images, and pairs of captions."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from posixpath import normpath
from typing import Any, TypeVar

from pydantic import JsonValue

from tellapart.builders.builder import Made
from tellapart.data.columns import is_empty, refuse_near
from tellapart.data.fields import one_text
from tellapart.data.images import check_reference, decode, resolve
from tellapart.data.item import Item
from tellapart.data.rows import karpathy_images, read_lines
from tellapart.data.strict_json import decode_text, plain_suffix, read_json, read_whole
from tellapart.data.video import is_video
from tellapart.errors import DataError, nearest, quote

__all__ = ["CaptionPair", "ImageFolder", "SourceCaption", "file_digest", "read_caption_pairs", "read_json_captions"]

_CAPTION_COLUMNS = ("caption", "id", "image", "cluster")
_PAIR_COLUMNS = ("id", "caption_0", "caption_1")
_COCO_CF_COLUMNS = ("coco-counterfactual-index", "original_caption", "counterfactual_caption")


@dataclass(frozen=True, slots=True)
class SourceCaption:
    """A caption to start from.

    Attributes:
        id: unique in its file.
        text: the caption with one blank for each run of blanks, and none at the ends.
        image: path from the folder of images, without "." and "..", or None.
        cluster: name of the rows to resample together: the file's column, else the image, else the id.
        raw: the caption with the file's blanks.
    """

    id: str
    text: str
    image: str | None
    cluster: str
    raw: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class CaptionPair:
    """Two captions that differ a little.

    Attributes:
        id: unique in its file.
        captions: the first and the second caption.
        cluster: name of the rows to resample together; the id if the file has no cluster.
        tags: tags of the items that are made of the pair.
        image: a real image of the first caption, relative to the folder of images; empty if there is none.
    """

    id: str
    captions: tuple[str, str]
    cluster: str
    tags: Mapping[str, str] = field(default_factory=dict)
    image: str = ""

    def item(self, name: str, **fields: Any) -> Item:
        """Return an item with this name as its id, the pair's cluster and tags, and other `fields`."""
        return Item(id=name, cluster=self.cluster, tags=dict(self.tags), **fields)


Entry = TypeVar("Entry", bound=Any)  # an object with an `id`


def read_captions(path: Path, *, with_images: bool = False) -> list[SourceCaption]:
    """Read a file of captions.

    - `.jsonl`, `.csv`, `.tsv`: `caption`; optionally `id` (else the row's number), `image` and `cluster`.
    - `.json`: as `read_json_captions`.
    - `.txt`: an id, a tab and a caption in each line; what precedes the id's last `_` is the cluster.

    Args:
        path: the file.
        with_images: whether every caption must name its image.

    Raises:
        DataError: the file cannot be read, a row lacks its caption or image, or an id appears twice.

    >>> file = getfixture("tmp_path") / "captions.txt"
    >>> _ = file.write_text("179765_0\\tA  black motorcycle \\n")
    >>> read_captions(file)
    [SourceCaption(id='179765_0', text='A black motorcycle', image=None, cluster='179765')]
    """
    required = ("image", "caption") if with_images else ("caption",)
    rows = enumerate(_read_rows(path, ("id", "caption"), "id and caption"), start=1)
    captions = ((place, _to_caption(row, number, place, required)) for number, (place, row) in rows)
    return list(index_by_id(path, captions).values())


def read_caption_pairs(path: Path) -> dict[str, CaptionPair]:
    """Read a file of caption pairs, by id.

    - `.jsonl`, `.csv`: `id`, `caption_0`, `caption_1`; optionally `cluster`, `image_0` and `tags` (in a CSV, the
      columns that begin with `tag:`); COCO-Counterfactuals' `metadata.jsonl` and `coco_counterfactuals_captions.jsonl`.
    - `.txt`: COCO-Counterfactuals' generated captions: id, original and counterfactual between tabs.

    An id of COCO-Counterfactuals, and any of the form IMAGE_NUMBER, has the image as its cluster.

    Raises:
        DataError: the file cannot be read, lacks a column, or has an id twice or no pairs at all.

    >>> file = getfixture("tmp_path") / "pairs.txt"
    >>> _ = file.write_text("7_0\\ta cat\\ta dog\\n")
    >>> read_caption_pairs(file)
    {'7_0': CaptionPair(id='7_0', captions=('a cat', 'a dog'), cluster='7', tags={}, image='')}
    """
    rows = _read_rows(path, _PAIR_COLUMNS, "id and two captions")
    return index_by_id(path, ((place, _to_pair(row, place)) for place, row in rows), "caption pair")


class ImageFolder:
    """The folder of the images that captions name.

    Raises:
        DataError: the folder does not exist.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise DataError(f"{folder} is not a folder; name the folder of the captions' images in [options] images")
        self._folder = folder
        self._decoded: set[str] = set()  # digests of pictures that were decoded without an error

    def read(self, reference: str) -> bytes:
        """Return the bytes of an image's file.

        Raises:
            DataError: the image is missing or its path leaves the folder.
        """
        return read_whole(resolve(self._folder, reference))

    def source_of(self, item: Item) -> tuple[Path, JsonValue]:
        """Return the path of an item's source image, and the SHA-256 that it had when the item was made."""
        return self._folder / item.images[0].removeprefix("images/"), item.provenance.get("image_sha256")

    def complete(self, item: Item, reference: str) -> Made:
        """Return an item of one image with the bytes of the image; the item's provenance gets their SHA-256.

        Raises:
            DataError: as `read`, or the picture cannot be decoded.
        """
        data = self.read(reference)
        digest = hashlib.sha256(data).hexdigest()
        if digest not in self._decoded and not is_video(reference):
            decode(data, str(self._folder / reference))
            self._decoded.add(digest)
        provenance = {**item.provenance, "image_sha256": digest}
        return Made(item.model_copy(update={"provenance": provenance}), {item.images[0]: data})


def file_digest(path: Path) -> dict[str, str]:
    """Return a file's SHA-256 by its name, as `Builder.inputs` has it.

    Raises:
        DataError: the file cannot be read, or only once, as a pipe.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise DataError(f"{path}: is a pipe or a device, and a build reads it again; save it as a file", path=path)
    return {path.name: hashlib.sha256(read_whole(path)).hexdigest()}


def _read_rows(path: Path, columns: tuple[str, ...], expected: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each row after its place, as `FILE:LINE`; a line of a `.txt` file has these columns between tabs."""
    if plain_suffix(path) == ".json":
        yield from read_json_captions(path)
        return
    if plain_suffix(path) != ".txt":
        yield from ((f"{path}:{number}", row) for number, row in read_lines(path))
        return
    lines = decode_text(read_whole(path), path).split("\n")
    has_captions = "caption" in columns  # a caption may hold tabs; the fields of a pair may not
    for number, line in enumerate(lines, start=1):
        if line.strip():
            fields = line.rstrip("\r").split("\t", 1 if has_captions else -1)
            if len(fields) != len(columns):
                raise DataError(f"{path}:{number}: has {len(fields)} fields between tabs; expected {expected}")
            cluster = {"cluster": fields[0].rpartition("_")[0]} if has_captions else {}
            yield f"{path}:{number}", dict(zip(columns, fields, strict=True)) | cluster


def read_json_captions(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each caption of a JSON file after its place in the file: a row of `caption`, `image` and often `id`.

    - COCO's format (`captions_train2014.json`): `images` with `id` and `file_name`, `annotations` with `image_id` and
      `caption`.
    - Karpathy's splits (`dataset_coco.json`, `dataset_flickr30k.json`): `images` with `filename`, `split` and
      `sentences`. Only `train` and `restval`, the splits that models are trained on, are read.
    - A list of objects with `image` and `caption` (one or a list): ALBEF's and BLIP's `coco_karpathy_train.json`.

    Raises:
        DataError: the file is of another kind, or a row lacks its image.
    """
    content = read_json(path)
    if isinstance(content, list):
        for number, row in enumerate(content):
            place = f"{path}: [{number}]"
            if not isinstance(row, dict) or "image" not in row or "caption" not in row:
                raise DataError(f"{place}: expected an object with 'image' and 'caption', got {quote(row)}")
            texts = row["caption"] if isinstance(row["caption"], list) else [row["caption"]]
            yield from ((place, {"caption": text, "image": row["image"]}) for text in texts)
        return
    lists = content if isinstance(content, dict) else {}
    images, captions = lists.get("images"), lists.get("annotations")
    if isinstance(images, list) and any(isinstance(image, dict) and "sentences" in image for image in images):
        for place, image, sentences in karpathy_images(path, images, {"train", "restval"}):
            for sentence in sentences:
                caption = {"caption": sentence.get("raw"), "image": image}
                yield place, caption | ({"id": sentence["sentid"]} if "sentid" in sentence else {})
        return
    if not isinstance(images, list) or not isinstance(captions, list):
        formats = "COCO's ('images' and 'annotations'), Karpathy's ('images' with 'sentences')"
        fault = f"captions in JSON are {formats}, or a list of objects with 'image' and 'caption'"
        raise DataError(f"{path}: {fault}", path=path)
    names: dict[int | str, Any] = {}  # of the images' files, by the image's id
    for image in images:
        if not isinstance(image, dict) or not isinstance(image.get("id"), int | str):
            continue  # a caption that names such an image is refused below
        name = image.get("file_name")
        other_name = names.setdefault(image["id"], name)
        if other_name != name:
            fault = f"{quote(other_name)} and {quote(name)} have one id, {image['id']}; give each another"
            raise DataError(f"{path}: images: {fault}", path=path)
    for number, row in enumerate(captions):
        place = f"{path}: annotations[{number}]"
        image_id = row.get("image_id") if isinstance(row, dict) else None
        if not isinstance(image_id, int | str) or image_id not in names:
            raise DataError(f"{place}: field 'image_id' must be the id of one of 'images', got {quote(row)}")
        yield place, {"id": row.get("id", number), "caption": row.get("caption"), "image": names[image_id]}


def index_by_id(path: Path, entries: Iterable[tuple[str, Entry]], kind: str = "caption") -> dict[str, Entry]:
    """Return entries, which come after their places, by id; a repeated id, or a file without entries, is refused."""
    by_id: dict[str, Entry] = {}
    for place, entry in entries:
        if entry.id in by_id:
            raise DataError(f"{place}: id {entry.id!r} appears twice; give every {kind} a different one")
        by_id[entry.id] = entry
    if not by_id:
        raise DataError(f"{path} lists no {kind}s")
    return by_id


def _to_caption(row: Mapping[str, Any], number: int, place: str, required: tuple[str, ...]) -> SourceCaption:
    for column in required:
        expect_text(row, column, place, _CAPTION_COLUMNS)
    with in_column("caption", place):
        one_text(row["caption"])
    image = row.get("image")
    if image == "":  # a CSV file's empty cell
        image = None
    if image is not None:
        if not isinstance(image, str):
            raise DataError(f"{place}: column 'image': expected a path, got {quote(image)}")
        with in_column("image", place):
            check_reference(image)
        image = normpath(image)
    name, raw = optional_text(row, "id", str(number)), row["caption"]
    return SourceCaption(name, " ".join(raw.split()), image, optional_text(row, "cluster", image or name), raw)


def _to_pair(row: Mapping[str, Any], place: str) -> CaptionPair:
    try:
        refuse_near(row)
    except DataError as error:
        raise DataError(f"{place}: {error}", path=place, field=error.field) from error
    is_coco_cf = "original_caption" in row and "caption_0" not in row
    columns = _COCO_CF_COLUMNS if is_coco_cf else _PAIR_COLUMNS
    for column in columns:
        if not isinstance(row.get(column), str) or not row[column].strip():
            raise DataError(f"{place}: column {column!r} is missing or empty; got {', '.join(row)}")
        with in_column(column, place):
            one_text(row[column])
    name, first, second = (" ".join(row[column].split()) for column in columns)
    with in_column(columns[0], place, " cannot name a file"):  # builders name images by the id
        check_reference(f"{name}.png")
    tag_columns = [column for column in row if column.startswith("tag:") and optional_text(row, column, "").strip()]
    tags = row.get("tags") or {column.removeprefix("tag:"): row[column] for column in tag_columns}
    if not isinstance(tags, dict) or not all(isinstance(value, str) for value in tags.values()):
        raise DataError(f"{place}: column 'tags': expected an object of strings, got {quote(tags)}")
    image = "" if is_coco_cf else row.get("image_0") or ""
    cluster = row.get("cluster")
    if is_empty(cluster):
        image_id, _, number = name.rpartition("_")  # if the id has the form IMAGE_NUMBER
        cluster = image_id if image_id.isdigit() and number.isdigit() else name
    if not isinstance(image, str) or not isinstance(cluster, str):
        given = f"{quote(image)} and {quote(cluster)}"
        raise DataError(f"{place}: columns 'image_0' and 'cluster': expected strings, got {given}")
    if "." not in image:  # in COCO-Counterfactuals `image_0` is the name of a generated picture, without a suffix
        image = ""
    if image:
        with in_column("image_0", place):
            check_reference(image)
    return CaptionPair(name, (first, second), cluster, tags, image)


def optional_text(row: Mapping[str, Any], column: str, default: str) -> str:
    """Return a row's value in a column as a text, or the default if the value is absent, null or blank."""
    value = row.get(column)
    return default if is_empty(value) else str(value)


def expect_text(row: Mapping[str, Any], column: str, place: str, columns: Collection[str]) -> str:
    """Return a row's text in a column; a missing one is refused, with the column of the row that has a similar name."""
    value = row.get(column)
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"{place}: column {column!r} is missing or empty{near_column(row, column, columns)}")
    return value


def near_column(row: Iterable[str], column: str, columns: Collection[str]) -> str:
    """Return "; is it 'captoin'?" if a column of the row, none of `columns`, has nearly this name; else ""."""
    near = next((name for name in row if name not in columns and nearest(name, [column])), None)
    return f"; is it {near!r}?" if near else ""


@contextmanager
def in_column(column: str, place: str, fault: str = "") -> Iterator[None]:
    """Raise errors of the block again, their message after the row's place and the column."""
    try:
        yield
    except (DataError, ValueError) as error:
        raise DataError(f"{place}: column {column!r}{fault}: {error}") from error
