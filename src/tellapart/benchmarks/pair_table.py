"""Pairs in one file: CSV, TSV, JSONL or parquet with named columns, read as `table:FILE`."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.locations import FolderImages, Locations, own_images
from tellapart.benchmarks.parquet import ParquetTable, image_columns
from tellapart.data.answer_text import PREDICTION
from tellapart.data.columns import describe_columns, expect_places, fields_of
from tellapart.data.folder import make_item, read_card
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.rows import read_rows
from tellapart.data.strict_json import plain_suffix
from tellapart.errors import DataError, TellapartWarning, nearest, quote

TABLE = "table:"

#: What programs write for an empty cell.
_BLANKS = frozenset(("none", "nan", "na", "n/a", "null", "<na>"))

#: A reference that is no name of a file, but a picture as base64.
_BASE64 = re.compile(r"(data:image/\w+;base64,)?[A-Za-z0-9+/]{200}")

#: Fields of a pair, such as `image_0`, `caption1` or `tag:kind`, which a column may be named after.
_FIELDS = re.compile(r"id|cluster|true|tag:\w+|(image|caption|text)(_?\d{1,3})?|negative_caption|foil|file_names|texts")


def pair_table_benchmark(name: str, place: Locations | None = None) -> Benchmark:
    """Return the pairs of a file as a benchmark; `place.columns` names the columns that have other names."""
    path, place = Path(name.removeprefix(TABLE)).expanduser().resolve(), place or Locations()
    pairs = read_pair_table(path, place)
    return replace(
        open_pair_images(path, place),
        items=len(pairs),
        shape=pairs.shape,
        true=pairs.true,
        load=lambda _place: pairs,
        pictures=None,
    )


def open_pair_images(path: Path, place: Locations) -> Benchmark:
    """Return the benchmark of a file of pairs, which gives its images; the pairs are not read."""
    return Benchmark(
        name=f"{TABLE}{path.name}",
        own=path,
        title=path.name,
        items=0,
        source=str(path),
        load=lambda at: read_pair_table(path, at),
        pictures=lambda at: _image_reader(path, at),
        place=place,
    )


def read_pair_table(path: Path, place: Locations) -> PairSet:
    """Read a file of pairs; every image must be there.

    Columns are those of `fields_of`. Images are paths relative to the file, or to the folder of images;
    in parquet they may also be encoded images, as the hub stores them. A `card.json` in the file's folder is the card.
    """
    images = own_images(path.parent, place)
    table, rows = _open_rows(path, images)
    encoded = set() if table is None else set(image_columns(path))
    items: dict[str, Item] = {}
    examples: dict[bool, dict[str, Any]] = {}  # the first row with places in `true`, and the first without
    for number, (where, cells) in enumerate(rows, start=1):
        pictures = {name: f"{number - 1}/{name}" for name in encoded}
        row = {**pictures, **cells}
        try:
            if texts := [name for name, cell in cells.items() if isinstance(cell, str) and _BASE64.match(cell)]:
                remedy = "save pictures as files, or as a column of bytes in parquet (base64.b64decode)"
                message = f"field {texts[0]!r} is a picture as base64, which is not read; {remedy}"
                raise DataError(message, field=texts[0])
            row = _rename_columns(row, place.columns)
            fields, sources = fields_of(_find_nothing if encoded else images.find, row)
            if "true" in dict(place.columns) and (other := fields["provenance"].get("true")):
                message = f"columns={{'true': ...}}: {quote(other)} is no place of a text or an image, counted from 0"
                raise DataError(message, field="true", got=other)
            # A picture in a cell is no file to look for.
            in_cells = not {*pictures.values()}.isdisjoint(map(str, fields["images"]))
            item = make_item(Path if in_cells else images.find, {"id": f"row-{number}", **fields}, sources)
        except DataError as error:
            raise DataError(f"{where}: {error}", path=where, field=error.field, got=error.got) from error
        if item.id in items:
            fault = f"field 'id': {quote(item.id, 200)} is in a row above, too; give each row another id"
            raise DataError(f"{where}: {fault}", path=where, field="id")
        items[item.id] = item
        examples.setdefault(bool(item.true), row)
    if not items:
        raise DataError(f"{path} holds no pairs; its first line names the columns", path=path)
    if all(item.shape == (1, 1) for item in items.values()):
        columns = next(iter(items.values())).provenance
        unread = f"; nothing reads the columns {', '.join(map(quote, columns))}" if columns else ""
        raise DataError(
            f"{path}: a row has one image and one text, and nothing to tell it from: name a false text by "
            f"columns={{'negative_caption': 'COLUMN'}}, or a second image ('image_1'){unread}",
            path=path,
        )
    expect_places(items.values(), path)
    _warn_of_blanks(path, items.values())
    card, frames = read_card(path.parent)
    read = table if encoded else images
    entries = images.relate_images(items.values())
    read_as = describe_columns(examples.get(True) or examples[False], entries[0].shape, dict(place.columns))
    return PairSet(f"{TABLE}{path.name}", entries, path.parent, card, read=read, frames=frames, read_as=read_as)


def _open_rows(path: Path, images: FolderImages) -> tuple[ParquetTable | None, Iterator[tuple[str, Mapping[str, Any]]]]:
    if plain_suffix(path) == ".parquet":
        table = ParquetTable([path], images=image_columns(path), read_file=images)
        return table, table.rows()
    rows = read_rows(path, (".csv", ".tsv", ".jsonl", ".parquet"), "pairs")
    return None, ((place, row) for place, _, row in rows)


def _warn_of_blanks(path: Path, items: Collection[Item]) -> None:
    """Warn of captions, and of clusters of several items, that a program wrote for a cell without one."""
    clusters = Counter(item.cluster for item in items if item.cluster.strip().lower() in _BLANKS)
    for cluster, count in clusters.most_common(1):
        if count > 1:
            warnings.warn(
                f"{path}: {count:,} items are one cluster, {quote(cluster)}, a word for an empty cell; empty these "
                "cells if no cluster is meant",
                TellapartWarning,
                stacklevel=3,
            )
    blanks = [(item.id, text) for item in items for text in item.texts if text.strip().lower() in _BLANKS]
    if blanks:
        id_, text = blanks[0]
        are, first = ("is", "") if len(blanks) == 1 else ("are", "; the first is that")
        warnings.warn(
            f"{path}: {len(blanks):,} of its captions {are} a word for an empty cell{first}, {quote(text)} of item "
            f"{quote(id_, 80)}; correct the file if no caption is meant",
            TellapartWarning,
            stacklevel=3,
        )


def _image_reader(path: Path, place: Locations) -> Callable[[str], bytes]:
    images = own_images(path.parent, place)
    table, _ = _open_rows(path, images)
    return table if table is not None and image_columns(path) else images


def _rename_columns(row: Mapping[str, Any], columns: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    renamed = dict(row)
    for field, column in columns:
        if field == PREDICTION:  # of the file that is scored, which refuses it if it has none
            continue
        if _FIELDS.fullmatch(field) is None:
            if field in row and _FIELDS.fullmatch(column):
                raise DataError(
                    f"columns={{{field!r}: {column!r}}}: {field!r} is the column and {column!r} the field; write "
                    f"columns={{{column!r}: {field!r}}}",
                    field=field,
                )
            raise DataError(
                f"columns={{{field!r}: {column!r}}}: {quote(field)} is not a field of pairs; these are image_0, "
                "image_1, caption_0, caption_1, ..., image, caption, negative_caption, true, id, cluster and tag:NAME",
                field=field,
            )
        if column not in row:
            hint = nearest(column, row) or f"; it has {', '.join(row)}"
            raise DataError(f"no column {quote(column)} for {field!r}{hint}", field=field)
        if field in row and _FIELDS.fullmatch(column) and field not in dict(columns).values():
            raise DataError(
                f"columns={{{field!r}: {column!r}}}: the table has a column {field!r}, too, which would be lost; "
                f"remove it, or write columns={{{field!r}: {column!r}, {column!r}: {field!r}}}",
                field=field,
            )
        renamed.pop(column, None)
    return renamed | {field: row[column] for field, column in columns if field != PREDICTION}


def _find_nothing(reference: str) -> Path:
    raise DataError(reference)
