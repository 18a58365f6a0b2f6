"""Pairs of captions to draw: JSONL, CSV, and the files that COCO-Counterfactuals released."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tellapart.data.images import check_reference
from tellapart.data.rows import read_csv, read_jsonl
from tellapart.errors import DataError

__all__ = ["CaptionPair", "read_caption_pairs"]

_NAMES = (("id", "caption_0", "caption_1"), ("coco-counterfactual-index", "original_caption", "counterfactual_caption"))


@dataclass(frozen=True, slots=True)
class CaptionPair:
    """Two captions that differ a little.

    Attributes:
        id: unique in its file.
        captions: the first and the second one.
        cluster: what must be resampled together; the id where nothing is known.
        tags: of the items made of it.
        image: a real image of the first caption, relative to the folder of images; empty if there is none.

    >>> CaptionPair("7_0", ("a cat", "a dog"), "7").tags
    {}
    """

    id: str
    captions: tuple[str, str]
    cluster: str
    tags: Mapping[str, str] = field(default_factory=dict)
    image: str = ""


def read_caption_pairs(path: Path) -> dict[str, CaptionPair]:
    """Read a file of caption pairs, by id.

    Forms, told by suffix and columns: JSONL or CSV with `id`, `caption_0`, `caption_1` and, if there are, `cluster`,
    `image_0` and `tags` (in a CSV, the columns that begin with `tag:`); COCO-Counterfactuals' `metadata.jsonl` and
    `coco_counterfactuals_captions.jsonl`, and its generated captions (`.txt`: id, original and counterfactual between tabs). An
    id of these, and any of the form IMAGE_NUMBER, has the image as its cluster.

    Raises:
        DataError: the file cannot be read, lacks a column, or has an id twice or no pairs at all.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "a.txt").write_text("7_0\\ta cat\\ta dog\\n")
    ...     read_caption_pairs(Path(folder) / "a.txt")["7_0"].captions
    ('a cat', 'a dog')
    """
    rows = _tabbed(path) if path.suffix == ".txt" else read_csv(path) if path.suffix == ".csv" else read_jsonl(path)
    found: dict[str, CaptionPair] = {}
    for line, row in rows:
        pair = _pair(row, f"{path}:{line}")
        if pair.id in found:
            raise DataError(f"{path}:{line}: id {pair.id!r} stands twice; give every pair its own")
        found[pair.id] = pair
    if not found:
        raise DataError(f"{path} lists no caption pairs")
    return found


def _pair(row: Mapping[str, Any], where: str) -> CaptionPair:
    names = next((names for names in _NAMES if names[1] in row), _NAMES[0])
    for name in names:
        if not isinstance(row.get(name), str) or not row[name].strip():
            raise DataError(f"{where}: column {name!r} is missing or empty; got {', '.join(row)}")
    told, first, second = (" ".join(row[name].split()) for name in names)
    try:
        check_reference(f"{told}.png")
    except DataError as error:
        raise DataError(f"{where}: column {names[0]!r} cannot name a file: {error}") from error
    tags = row.get("tags") or {name.removeprefix("tag:"): row[name] for name in row if name.startswith("tag:")}
    if not isinstance(tags, dict) or not all(isinstance(value, str) for value in tags.values()):
        raise DataError(f"{where}: column 'tags': expected an object of strings, got {tags!r:.60}")
    image = row.get("image_0", "") if names[1] == "caption_0" else ""
    cluster = row.get("cluster") or _source(told)
    if not isinstance(image, str) or not isinstance(cluster, str):
        raise DataError(
            f"{where}: columns 'image_0' and 'cluster': expected strings, got {image!r:.60} and {cluster!r:.60}"
        )
    if image and "." not in image:  # COCO-Counterfactuals names the picture it made, not one that was given
        image = ""
    if image:
        try:
            check_reference(image)
        except DataError as error:
            raise DataError(f"{where}: column 'image_0': {error}") from error
    return CaptionPair(told, (first, second), cluster, tags, image)


def _source(name: str) -> str:
    """Return the image of an id of the form IMAGE_NUMBER, else the id."""
    image, _, number = name.rpartition("_")
    return image if image.isdigit() and number.isdigit() else name


def _tabbed(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error
    for number, line in enumerate(lines, start=1):
        if line.strip():
            fields = line.rstrip("\r").split("\t")
            if len(fields) != 3:
                raise DataError(f"{path}:{number}: has {len(fields)} fields between tabs; expected id and two captions")
            yield number, dict(zip(_NAMES[0], fields, strict=True))
