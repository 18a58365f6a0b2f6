"""Columns of a table of pairs: which hold images, texts and tags, and which look like a misspelt name of these."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from tellapart.data.images import IMAGE_SUFFIXES
from tellapart.data.item import Item
from tellapart.data.scores import join_names
from tellapart.data.strict_json import expect_distinct, parse_json
from tellapart.errors import DataError, TellapartError, counted, nearest, quote

#: The start of a column of tags; the tag's name follows.
TAG = "tag:"


class _Side(NamedTuple):
    """The names of columns of images, or of texts: of a list, of single entries, and the words before numbers."""

    noun: str
    listed: str
    single: tuple[str, ...]
    words: tuple[str, ...]


_IMAGES = _Side("image", "file_names", ("file_name", "image", "image_path", "filepath"), ("image",))
_TEXTS = _Side("text", "texts", ("caption", "negative_caption", "foil"), ("caption", "text"))
_NUMBERED = re.compile(r"(image|caption|text)_?(\d{1,3})(_file_name)?")

#: Names by their letters alone. Another spelling of a name is refused: of texts always, of the others if the row lacks
#: the name itself.
_SPELT = {name.replace("_", ""): name for name in (*_TEXTS.single, "texts", "id", "cluster", "tags")}
#: Words before a number. Of the long ones a typo is refused, too; `test_0` is near `text_0`, but rarely a typo.
_BEFORE_NUMBERS = ("image", "caption", "negativecaption", "text", "foil")
_LONG_WORDS, _FALSE = _BEFORE_NUMBERS[:3], {"negativecaption", "foil"}
_COUNTED = re.compile(r"([^\W\d]+?)s?(\d{1,3})(filenames?)?")


class _Columns(NamedTuple):
    """The columns of images and of texts in their order, or the one that lists them, and those of tags."""

    images: tuple[str, ...]
    texts: tuple[str, ...]
    tags: tuple[str, ...]


def fields_of(find: Callable[[str], object], row: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Sort one row's columns into the fields of an item; for messages, also return the column of each field.

    Images are in `file_names` (a list), in `image_0`, `image_1`, ... (or `image_0_file_name`), or in `file_name`,
    `image`, `image_path` or `filepath`; texts in `texts` (a list), in `caption_0`, `caption_1`, ..., or in `caption`,
    `negative_caption`, `foil`. Numbers begin at 0 or 1, for images and texts alike. `id`, `cluster`, `tags` and
    `tag:NAME` keep their meaning, and so does `true`, the place of the true text or image (or a list of places) of rows
    of one image or one text; every other column becomes provenance. An image without a suffix is searched under
    `images/` and in the file's folder, as COCO-Counterfactuals names them.

    >>> row = {"file_name": "a.png", "caption": "two clocks", "foil": "three clocks", "split": "val"}
    >>> fields_of(print, row)[0]
    {'images': ['a.png'], 'texts': ['two clocks', 'three clocks'], 'provenance': {'split': 'val'}}
    """
    columns = _sort_columns(tuple(row))
    images, texts = _read_cells(row, columns.images), _read_cells(row, columns.texts)
    if len(images) != len(texts) and min(len(images), len(texts)) > 1:
        raise DataError(
            f"{len(images)} images ({', '.join(columns.images)}) and {len(texts)} texts ({', '.join(columns.texts)}) "
            "make no pairs: give as many images as texts, or one of either"
        )
    fields: dict[str, Any] = {key: row[key] for key in ("cluster", "tags") if row.get(key) is not None}
    fields |= {"id": row["id"]} if "id" in row else {}
    for key in ("id", "cluster"):
        if type(fields.get(key)) is int:  # many a set numbers its items and images; True is not a number
            fields[key] = str(fields[key])
    if isinstance(tags := fields.get("tags"), str) and tags.startswith("{"):
        fields["tags"] = parse_json(tags, "field 'tags'")  # the object's text, as `build --parquet` writes it
    tags = {name.removeprefix(TAG): row[name] for name in columns.tags} or fields.get("tags")
    if isinstance(tags, Mapping):  # a parquet file's rows all have the same keys: null if a row has no such tag
        fields["tags"] = {
            name: value if isinstance(value, list | dict) else str(value)  # an item refuses lists and objects
            for name, value in tags.items()
            if not is_empty(value)
        }
    fields["images"] = [_with_suffix(find, reference) for _, reference in images]
    fields["texts"] = [text for _, text in texts]
    if places := _read_places(row, (len(images), len(texts))):
        fields["true"] = places
    fields["provenance"] = {column: _as_json(row[column]) for column in _list_unread(row, columns, places)}
    sources = {f"images[{k}]": source for k, (source, _) in enumerate(images)}
    return fields, sources | {f"texts[{k}]": source for k, (source, _) in enumerate(texts)}


def describe_columns(row: Mapping[str, Any], shape: tuple[int, int], renamed: Mapping[str, str] | None = None) -> str:
    """Describe how a table is read, by a row: images, texts, tags, and the columns that are only kept."""
    columns, renamed = _sort_columns(tuple(row)), renamed or {}
    names = [f"{renamed[name]} as {name}" if name in renamed else name for name in (*columns.images, *columns.texts)]
    counts = map(counted, shape, ("image", "text"))
    tags, places = len(columns.tags), _read_places(row, shape)
    by_true = "the true one by true" if places else ""
    unread = _list_unread(row, columns, places)
    tagged = f"tags: {counted(tags, 'column')}" if tags else "tags: an object" if "tags" in row else ""
    provenance = f"only kept: {join_names(unread)}" if unread else ""
    return "; ".join(filter(None, (f"{' x '.join(counts)} from {join_names(names)}", by_true, tagged, provenance)))


def expect_distinct_columns(schema: Any, path: Path, *, error: type[TellapartError] = DataError) -> None:
    """Check that no column of an Arrow schema has the name of another one, nor a field within a column."""
    groups = [list(schema)]
    while groups:
        group = groups.pop()
        expect_distinct([field.name for field in group], path, error=error)
        groups += [[field.type.field(k) for k in range(field.type.num_fields)] for field in group]


def _read_places(row: Mapping[str, Any], shape: tuple[int, int]) -> list[int]:
    """Return the places under `true`, a number from 0 or a list of them; none unless the row is 1xm or nx1.

    A cell of a CSV file holds a list's text, `[0, 2]`, or `[0 2]` of numpy. A column of that name that holds anything
    else is provenance.
    """
    cell = row.get("true") if min(shape) == 1 < max(shape) else None
    if isinstance(cell, str) and (listed := re.fullmatch(r"\s*\[(.*)\]\s*", cell)):
        cell = re.split(r"\s*,\s*|\s+", listed[1].strip())
    cells = cell if isinstance(cell, list) else [cell]
    numbers = [re.fullmatch(r"\s*(\d{1,3})(?:\.0)?\s*", str(value)) for value in cells]
    return [int(number[1]) for number in numbers if number] if all(numbers) else []


def expect_places(items: Collection[Item], path: Path) -> None:
    """Refuse a column `true` with places in some rows and another value elsewhere: the first would be the truth there.

    An empty cell, or an empty list, is the first place.
    """
    cells = ((item, item.provenance.get("true")) for item in items)
    other = next((item for item, cell in cells if not is_empty(cell) and cell not in ([], "[]")), None)
    if other is not None and any(item.true for item in items):
        value = other.provenance["true"]
        fault = f"{quote(value)} is no place of a text or an image, counted from 0, as other rows have it"
        raise DataError(
            f"{path}: item {quote(other.id, 200)}: field 'true': {fault}", path=path, field="true", got=value
        )


def _as_json(cell: object) -> object:
    """Return a cell as a value of JSON: dates and other types of parquet as text, NaN as null."""
    if isinstance(cell, list):
        return [_as_json(entry) for entry in cell]
    if isinstance(cell, dict):
        return {str(key): _as_json(entry) for key, entry in cell.items()}
    if cell is None or isinstance(cell, str | int):
        return cell
    return (cell if math.isfinite(cell) else None) if isinstance(cell, float) else str(cell)


def is_empty(cell: object) -> bool:
    """Return whether a cell is null, NaN or blank: no tag of the item."""
    return cell is None or cell != cell or (isinstance(cell, str) and not cell.strip())  # noqa: PLR0124  (NaN)


def _list_unread(row: Iterable[str], columns: _Columns, places: list[int]) -> list[str]:
    used = {"id", "cluster", "tags", *columns.images, *columns.texts, *columns.tags, *(["true"] if places else ())}
    return [column for column in row if column not in used]


def _read_cells(row: Mapping[str, Any], columns: tuple[str, ...]) -> list[tuple[str, Any]]:
    """Return the values of a row's columns of images or of texts, in order, each with its source."""
    if columns[0] not in (_IMAGES.listed, _TEXTS.listed):
        return [(column, row[column]) for column in columns]
    values = row[columns[0]]
    if not isinstance(values, list) or not values:
        raise DataError(f"field {columns[0]!r}: expected a list of one or more, got {quote(values)}")
    return [(f"{columns[0]}[{k}]", value) for k, value in enumerate(values)]


@lru_cache(maxsize=512)
def _sort_columns(row: tuple[str, ...]) -> _Columns:
    """Sort the columns of a row; many rows have the same, so each combination is checked once."""
    refuse_near(row)
    images, texts = (_side_columns(row, side) for side in (_IMAGES, _TEXTS))
    numbered = filter(None, map(_NUMBERED.fullmatch, (*images[:1], *texts[:1])))
    first = {int(match[2]): match[0] for match in numbered}  # the numbers that images and texts begin with
    if len(first) > 1:
        unread = join_names([repr(name) for name in row if name[-1:].isdigit() and not _NUMBERED.fullmatch(name)])
        rest = f"; {unread} would not be read" if unread else ""
        names = " and ".join(map(repr, first.values()))
        raise DataError(f"columns {names} are the first of their kind: number images and texts from 0, or from 1{rest}")
    if not (images and texts):
        raise DataError(_explain_lack(row, _TEXTS if images else _IMAGES))
    tags = tuple(name for name in row if name.startswith(TAG))
    if tags and "tags" in row:
        raise DataError(f"columns 'tags' and {tags[0]!r} both hold tags; keep one, or rename one")
    return _Columns(images, texts, tags)


def _side_columns(row: Collection[str], side: _Side) -> tuple[str, ...]:
    """Return the columns of a row's images or texts; raise if columns of two kinds hold them."""
    listed = [side.listed] if side.listed in row else []
    numbered = _numbered_columns(row, side)
    single = [name for name in side.single if name in row]
    # Tables often have a path beside other columns of images. A second text, or a column `image`, would be ignored.
    exclusive = single if side is _TEXTS else [name for name in single if name == "image"]
    if side is _TEXTS and "text" in row and numbered[:1] in (["text_1"], ["text1"]):
        exclusive = ["text"]  # pandas and its like number the second of that name from 1
    kinds = [names[0] for names in (listed, numbered, exclusive) if names]
    if len(kinds) > 1:
        raise DataError(f"columns {kinds[0]!r} and {kinds[1]!r} both hold {side.noun}s; keep one, or rename one")
    if side is _TEXTS and single and "caption" not in single:
        raise DataError(f"column {single[0]!r} holds a false text, and none a true one: name it 'caption'")
    return tuple(listed or numbered or (single if side is _TEXTS else single[:1]))


def _numbered_columns(row: Iterable[str], side: _Side) -> list[str]:
    """Return the numbered columns of images or of texts, in the order of their numbers, which leave none out."""
    numbered: dict[int, str] = {}
    for column in row:
        match = _NUMBERED.fullmatch(column)
        if match is None or match[1] not in side.words:
            continue
        if (number := int(match[2])) in numbered:
            raise DataError(f"columns {numbered[number]!r} and {column!r} both hold {side.noun} {number}; keep one")
        numbered[number] = column
    numbers = sorted(numbered)
    columns = [numbered[number] for number in numbers]
    if len(words := {column[:4]: column for column in columns}) > 1:  # `capt` and `text`
        raise DataError(f"columns {' and '.join(map(repr, words.values()))} both number texts; write one of the two")
    if numbers and (numbers[0] > 1 or numbers[-1] - numbers[0] + 1 != len(numbers)):
        raise DataError(f"columns {', '.join(columns)} leave a number out; count on from 0 or 1")
    return columns


def _explain_lack(row: Iterable[str], side: _Side) -> str:
    names = (*side.single, *(f"{word}_{number}" for word in side.words for number in (0, 1)))
    near = next((f"; is it {column!r}?" for column in row if nearest(column, names)), "")
    a_row = any(column.lower().endswith(tuple(IMAGE_SUFFIXES)) for column in row)
    header = "; if the first line is a row, write the names of its columns in a line above it" if a_row else ""
    wanted = ", ".join((*side.single, side.listed, f"{side.words[0]}_0..."))
    examples = dict.fromkeys(side.single[:2] if side is _TEXTS else names[-2:], "COLUMN")
    return (
        f"no column of {side.noun}s ({wanted}) among {', '.join(row)}{near}{header}; rename it, or name the columns of "
        f"table:FILE with columns={examples}"
    )


def refuse_near(row: Collection[str]) -> None:
    """Refuse a column that is not read and has nearly the name of one that is: a false text could become the true."""
    words = {*_LONG_WORDS, *(match[1] for column in row if (match := _NUMBERED.fullmatch(column)))}
    for column in row:
        name, _, copy = column.rpartition(".")
        if copy.isdecimal() and (_NUMBERED.fullmatch(name) or name in _TEXTS.single) and name in row:
            raise DataError(f"column {column!r} is a second {name!r}, as pandas names it; keep one", field=column)
        meant = _guess(column, words)
        if meant and not (meant in ("id", "cluster", "tags") and meant in row):
            raise DataError(
                f"column {quote(column)} is not read; did you mean {meant!r}? rename it, or remove it", field=column
            )


def _guess(column: str, words: Collection[str]) -> str:
    """Return the name that a column nearly has; empty if the column has a name exactly, or nearly none.

    Capitals, spaces, hyphens and a plural do not matter, and before a number one of `words` may have one mistake.
    """
    if _NUMBERED.fullmatch(column) or column in _SPELT.values() or column.startswith(TAG):
        return ""
    plain = unicodedata.normalize("NFKC", column).casefold().strip()
    if plain.startswith(TAG):
        return f"{TAG}{plain.removeprefix(TAG).strip()}"
    key = "".join(letter for letter in plain if letter.isalnum())
    counted = _COUNTED.fullmatch(key)
    if counted is None:
        return _SPELT.get(key, "")
    typed = counted[1]
    word = next((name for name in _BEFORE_NUMBERS if typed == name or (name in words and _is_typo(typed, name))), "")
    if word in _FALSE:
        return f"caption_{max(1, int(counted[2]))}"
    return word and f"{word}_{int(counted[2])}"


def _is_typo(word: str, name: str) -> bool:
    """Return whether one letter was left out, added or changed, or two were exchanged."""
    start = len([*takewhile(lambda pair: pair[0] == pair[1], zip(word, name, strict=False))])
    rest, other = word[start:], name[start:]
    swapped = rest[:2] == other[1::-1] and rest[2:] == other[2:]
    return swapped or rest[1:] in (other, other[1:]) or rest == other[1:]


def _with_suffix(find: Callable[[str], object], reference: object) -> object:
    if not isinstance(reference, str) or PurePosixPath(reference).suffix.lower() in IMAGE_SUFFIXES:
        return reference
    for home in ("images/", ""):
        for suffix in (".jpg", ".jpeg", ".png", ".webp", ".npy"):
            with suppress(DataError):
                find(f"{home}{reference}{suffix}")
                return f"{home}{reference}{suffix}"
    return reference
