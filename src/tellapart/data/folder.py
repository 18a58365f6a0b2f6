"""Pair sets on disk: `pairs.jsonl` with `images/` and `card.json`, or a Hugging Face `imagefolder`."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Never

from pydantic import ValidationError

from tellapart.catalog import nearest
from tellapart.data.images import resolve
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.errors import DataError

__all__ = ["read_pair_set", "write_pair_set"]

_ITEM_FIELDS = tuple(Item.model_fields)
_NUMBERED = re.compile(r"(image|caption|text)_?(\d+)(_file_name)?")


def read_pair_set(folder: Path, name: str | None = None) -> PairSet:
    """Read a pair set's folder; every image must be there, none is decoded yet.

    A folder with `pairs.jsonl` is tellapart's own format: one object a line with the fields of `Item`, images relative to the
    folder. A folder with `metadata.jsonl` or `metadata.csv` is a Hugging Face `imagefolder`: images in
    `file_name`, `file_names` or `image_0`, `image_1`, ... (also `image_0_file_name`); texts in `texts`, in `caption_0`, `caption_1`, ...
    or in `caption` and `negative_caption` (or `foil`); `id`, `cluster` and `tags` where they are given; other columns are kept as
    provenance.

    Args:
        folder: the folder.
        name: what results are filed under; the folder's own name otherwise.

    Raises:
        DataError: the folder or a file is missing, or a line is not what the format says; the message names the
            file, the line and the field.

    >>> read_pair_set(Path("no such folder"))
    Traceback (most recent call last):
    tellapart.errors.DataError: no folder 'no such folder'; a pair set is a folder with pairs.jsonl, metadata.jsonl or metadata.csv
    """
    known = "a pair set is a folder with pairs.jsonl, metadata.jsonl or metadata.csv"
    if not folder.is_dir():
        raise DataError(f"no folder {str(folder)!r}; {known}")
    found = [folder / file for file in ("pairs.jsonl", "metadata.jsonl", "metadata.csv") if (folder / file).is_file()]
    if not found:
        raise DataError(f"{folder} holds none of the files that list pairs; {known}")
    rows = _read_csv(found[0]) if found[0].suffix == ".csv" else _read_jsonl(found[0])
    own = found[0].name == "pairs.jsonl"
    items: list[Item] = []
    lines: dict[str, str] = {}
    for line, row in rows:
        where = f"{found[0]}:{line}"
        item = _item(row if own else _from_imagefolder(folder, row, line, where), where)
        for index, reference in enumerate(item.images):
            try:
                resolve(folder, reference)
            except DataError as error:
                raise DataError(f"{where}: field 'images[{index}]': {error}") from error
        if item.id in lines:
            raise DataError(f"{where}: field 'id': {item.id!r} stands in {lines[item.id]} already")
        items.append(item)
        lines[item.id] = where
    if not items:
        raise DataError(f"{found[0]} lists no pairs")
    return PairSet(name or folder.resolve().name, tuple(items), folder, _card(folder), lines)


def write_pair_set(folder: Path, items: Iterable[Item], images: Mapping[str, bytes], card: Mapping[str, Any]) -> None:
    """Write a pair set's folder, whole or not at all.

    Args:
        folder: must not exist yet, or be empty.
        items: of one shape, with distinct ids.
        images: reference (as in the items, such as `images/a_0.png`) -> the file's bytes.
        card: what the set says of itself.

    Raises:
        DataError: the folder holds something already, or the items and images make no valid pair set.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as scratch:
    ...     write_pair_set(Path(scratch) / "set", [], {}, {})
    Traceback (most recent call last):
    tellapart.errors.DataError: pair set 'set' holds no items
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder} exists already; write a pair set to a new folder")
    listed = PairSet(folder.name, tuple(items), folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        for reference, data in images.items():
            target = draft / reference
            if not target.resolve().is_relative_to(draft.resolve()):
                raise DataError(f"image {reference!r} leaves the pair set's folder; images must lie inside it")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        rows = (json.dumps(item.model_dump(mode="json"), ensure_ascii=False) + "\n" for item in listed.items)
        (draft / "pairs.jsonl").write_text("".join(rows), encoding="utf-8")
        (draft / "card.json").write_text(json.dumps(dict(card), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        read_pair_set(draft)
        if folder.exists():
            folder.rmdir()
        draft.chmod(0o755)
        draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _item(row: Mapping[str, Any], where: str) -> Item:
    for key in row:
        if key not in _ITEM_FIELDS:
            raise DataError(
                f"{where}: unknown key {key!r}{nearest(key, _ITEM_FIELDS)}; an item has {', '.join(_ITEM_FIELDS)}"
            )
    try:
        return Item.model_validate_json(json.dumps(row))
    except ValidationError as error:
        problem = error.errors()[0]
        field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"]).lstrip(".")
        got = "" if problem["type"] == "missing" else f", got {problem['input']!r:.60}"
        raise DataError(f"{where}: field {field!r}: {problem['msg'].lower()}{got}") from error


def _read_text(path: Path) -> str:
    data = path.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}:{line}: is not UTF-8 (byte 0x{data[error.start]:02x}); save the file as UTF-8"
        ) from error


def _read_jsonl(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    # Split at newlines alone: str.splitlines would also break captions at U+2028 and its like.
    for number, line in enumerate(_read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, object_pairs_hook=_distinct_keys, parse_constant=_refuse_constant)
        except ValueError as error:
            raise DataError(f"{path}:{number}: is not valid JSON ({error})") from error
        if not isinstance(row, dict):
            raise DataError(f"{path}:{number}: expected an object with the fields of an item, got {line.strip()!r:.60}")
        yield number, row


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys):
        raise ValueError(f"key {next(key for key in keys if keys.count(key) > 1)!r} stands twice in one object")
    return dict(pairs)


def _refuse_constant(constant: str) -> Never:
    raise ValueError(f"{constant} is not a JSON number")


def _read_csv(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    reader = csv.DictReader(io.StringIO(_read_text(path), newline=""), strict=True)
    try:
        for row in reader:
            if None in row or None in row.values():
                raise DataError(f"{path}:{reader.line_num}: the row has not as many fields as the header")
            yield reader.line_num, dict(row)
    except csv.Error as error:
        raise DataError(f"{path}:{reader.line_num}: is not valid CSV ({error})") from error


def _from_imagefolder(folder: Path, row: dict[str, Any], line: int, where: str) -> dict[str, Any]:
    """Sort the columns of one imagefolder row into the fields of an item."""
    numbered: dict[str, list[tuple[int, str]]] = {"image": [], "caption": []}
    for column in row:
        if match := _NUMBERED.fullmatch(column):
            numbered["image" if match[1] == "image" else "caption"].append((int(match[2]), column))
    single_images, single_texts = ("file_name",), ("caption", "negative_caption", "foil")
    image_columns = [column for _, column in sorted(numbered["image"])] or [c for c in single_images if c in row]
    text_columns = [column for _, column in sorted(numbered["caption"])] or [c for c in single_texts if c in row]
    images = row["file_names"] if "file_names" in row else [row[column] for column in image_columns]
    texts = row["texts"] if "texts" in row else [row[column] for column in text_columns]
    if not images or not texts:
        columns = ", ".join(row)
        raise DataError(
            f"{where}: no column of images (file_name, file_names, image_0...) or of texts (texts, caption_0..., "
            f"caption and negative_caption) among {columns}"
        )
    used = {*image_columns, *text_columns, "file_names", "texts", "id", "cluster", "tags"}
    fields: dict[str, Any] = {key: row[key] for key in ("cluster", "tags") if key in row}
    rest = {key: value for key, value in row.items() if key not in used}
    located = [_with_suffix(folder, reference) for reference in images]
    return {
        "id": row.get("id", f"row-{line}"),
        "images": located,
        "texts": texts,
        **fields,
        "provenance": rest,
    }


def _with_suffix(folder: Path, reference: Any) -> Any:
    """Find the file of a reference without a suffix, as the COCO-Counterfactuals metadata has them."""
    if not isinstance(reference, str) or Path(reference).suffix:
        return reference
    for candidate in (f"{home}{reference}{suffix}" for home in ("images/", "") for suffix in (".jpg", ".png", ".webp")):
        if (folder / candidate).is_file():
            return candidate
    return reference


def _card(folder: Path) -> dict[str, Any]:
    path = folder / "card.json"
    if not path.is_file():
        return {}
    try:
        card = json.loads(_read_text(path))
    except ValueError as error:
        raise DataError(f"{path}: is not valid JSON ({error})") from error
    if not isinstance(card, dict):
        raise DataError(f"{path}: expected an object, got {type(card).__name__}")
    return card
