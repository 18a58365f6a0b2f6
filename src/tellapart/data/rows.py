"""Readers of JSON, JSONL, TOML and CSV files, whose errors name the file, the row and the field; and CSV cells."""

from __future__ import annotations

import csv
import io
import math
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from tellapart.data.fields import field_fault
from tellapart.data.item import Item
from tellapart.data.scores import join_names
from tellapart.data.strict_json import (
    check_depth,
    decode_text,
    expect_distinct,
    parse_json,
    plain_suffix,
    read_json,
    read_whole,
)
from tellapart.data.validation import validate
from tellapart.errors import DataError, TellapartError, first_line, quote

__all__ = ["read_csv", "read_jsonl", "read_object", "read_toml"]


#: The start of a cell that a program would run, if it splits the file at semicolons, tabs or line ends.
#: Full-width signs count as plain ones in East Asian versions.
_FORMULA = re.compile(r"""(?:^|(?<=[;\t\r\n]))(?=[\s"]*[=+\-@＝＋－＠]|[\t\r\n\0])""")


def spreadsheet_cell(content: str | float | None) -> str | float | None:
    """Return a cell for a CSV file: text that a spreadsheet would run gets an apostrophe before it.

    Numbers stay numbers, negative ones too. Remove the apostrophe when you read the text back.

    Source: OWASP ASVS 5.0, requirement 1.2.10; CWE-1236.

    >>> spreadsheet_cell("=HYPERLINK(1)"), spreadsheet_cell("a;-1"), spreadsheet_cell(-1.5), spreadsheet_cell("a-1")
    ("'=HYPERLINK(1)", "a;'-1", -1.5, 'a-1')
    """
    return _FORMULA.sub("'", content) if isinstance(content, str) else content


#: Of a configuration.
_MOST_TOML_BYTES, _MOST_TABLES = 1 << 22, 10_000
_TABLE = re.compile(r"^[ \t]*\[", re.MULTILINE)
_LONG_KEY = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){60}""", re.ASCII)

#: The line by which a spreadsheet is told the mark between fields; and a quoted field, in which a mark parts nothing.
_SEPARATOR = re.compile(r'"?sep=(?P<mark>[,;\t|])"?\r?\n')
_QUOTED = re.compile(r'"[^"]*"')
_LINE = re.compile(r'(?:"[^"]*"|[^"\n])*')


def read_jsonl(path: Path, *, nan: bool = False) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a JSONL file, each with the number of its line; blank lines are skipped.

    Raises:
        DataError: the file cannot be read or is not UTF-8; a line is not one JSON object, repeats a key, or holds a
            number that JSON does not have (1e999; NaN and Infinity without `nan`).

    >>> rows = read_jsonl(Path("examples/eqsim_ablation/smoke_scenes/pairs.jsonl"))
    >>> [(line, row["id"]) for line, row in rows][:2]
    [(1, 'attribute-000'), (2, 'attribute-001')]
    """
    # Split at newlines alone: str.splitlines would also break captions at U+2028 and its like.
    for number, line in enumerate(decode_text(read_whole(path), path).split("\n"), start=1):
        if line.strip():
            place = f"{path}:{number}"
            yield number, row_of(parse_json(line, place, nan=nan), place)


def read_object(path: Path) -> dict[str, Any]:
    """Return the object that a JSON file holds; it raises as `read_jsonl`."""
    return row_of(read_json(path), str(path))


def read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file.

    Raises:
        DataError: it cannot be read, is not UTF-8 or not TOML, or a number is infinite or NaN.
    """
    text = decode_text(read_whole(path, most=_MOST_TOML_BYTES), path)
    try:
        # Such a text would take TOML's reader minutes: they grow with the square of tables and of parts of a key.
        if len(_TABLE.findall(text)) > _MOST_TABLES:
            raise ValueError(f"it has more than {_MOST_TABLES:,} tables")
        if _LONG_KEY.search(text):
            raise ValueError("a key has more than 60 parts")
        content = tomllib.loads(text)
        check_depth(content)
        _check_numbers(path, "", content)
    except (ValueError, RecursionError) as broken:  # a TOMLDecodeError, or a number of thousands of digits
        fault = "it nests too many levels" if isinstance(broken, RecursionError) else first_line(broken)
        advice = "; put a text in quotes" if fault.startswith("Invalid value") else ""
        raise DataError(f"{path}: is not TOML: {fault}{advice}", path=path) from broken
    return content


def read_csv(
    path: Path, *, unnamed: Sequence[str] = (), names: Iterable[str] = ()
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows of a CSV file under its header, each with the number of its first line.

    Fields are parted by the mark that a first line `sep=;` names; else by commas, or by semicolons or tabs if the
    header has these and no comma, as spreadsheets write in countries of the decimal comma. A .tsv file is parted by
    tabs if its header has one.

    Args:
        path: the file.
        unnamed: the columns of a file without a header; none may lack it if empty.
        names: the names of a header: a first row as long as `unnamed` that holds none of them is not a header.

    Raises:
        DataError: the file cannot be read or is not UTF-8; a column's name repeats; a row has not as many fields as the
            header, or is badly quoted.
    """
    text = decode_text(read_whole(path), path)
    separator = _SEPARATOR.match(text)
    text = text[separator.end() :] if separator else text
    first = _LINE.match(text.lstrip("\r\n"))
    unquoted = _QUOTED.sub("", first[0]) if first else ""
    marks = "\t,;" if plain_suffix(path) == ".tsv" else ",;\t"
    mark = separator["mark"] if separator else next((each for each in marks if each in unquoted), ",")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark, strict=True)
    header: list[str] = []
    before = 1 if separator else 0
    line = before + 1
    try:
        for row in reader:
            if not header and row and len(row) == len(unnamed) and not {cell.strip() for cell in row} & {*names}:
                header = [*unnamed]
                yield line, dict(zip(header, row, strict=True))
            elif not header:
                header = row
                expect_distinct(header, path, line=line)
            elif any(row):  # spreadsheets leave rows of separators alone at the end
                if len(row) != len(header):
                    remedy = f"; put a field that holds {mark!r} between double quotes" * (len(row) > len(header))
                    fault = f"has {len(row)} fields; the header has {len(header)}{remedy}"
                    raise DataError(f"{path}:{line}: {fault}", path=path, line=line)
                yield line, dict(zip(header, row, strict=True))
            line = before + reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{path}:{line}: is not valid CSV ({error}); a field that begins with a quote ends with the next single "
            'quote: write a quote in it twice, and one before and after it, as in """Sit!"" he said"',
            path=path,
            line=line,
        ) from error


def read_lines(path: Path, kind: str = "", **header: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows of a CSV or TSV file, by its suffix or this one, or of a JSONL file, each with its line's number.

    `header` is `unnamed` and `names` of `read_csv`.
    """
    return read_csv(path, **header) if (kind or plain_suffix(path)) in (".csv", ".tsv") else read_jsonl(path)


def read_rows(
    path: Path,
    suffixes: Sequence[str],
    noun: str,
    *,
    kind: str = "",
    error: type[TellapartError] = DataError,
    unnamed: Sequence[str] = (),
    names: Iterable[str] = (),
) -> Iterator[tuple[str, str, Any]]:
    """Yield the rows of a JSONL, CSV, TSV or JSON file: each row's place for messages, its key in an object, itself.

    Of JSON the rows are a list's, or an object's with their keys. `kind` is the file's suffix, if another one; `noun`
    names the rows for the refusal of a suffix; `unnamed` and `names` are of `read_csv`.
    """
    if (suffix := kind or plain_suffix(path)) not in suffixes:
        raise error(f"{path}: {noun} are read from {join_names(suffixes)} files; got {suffix!r}", path=path)
    if suffix in (".jsonl", ".csv", ".tsv"):
        lines = read_lines(path, suffix, unnamed=unnamed, names=names)
        yield from ((f"{path}:{line}", "", row) for line, row in lines)
        return
    content = read_json(path)
    if not isinstance(content, list | dict) or not content:
        raise error(f"{path}: expected a list of rows, got {quote(content)}", path=path)
    keyed = content.items() if isinstance(content, dict) else ((None, row) for row in content)
    for number, (key, row) in enumerate(keyed):
        yield (f"{path}: row {number}", "", row) if key is None else (f"{path}: {quote(key, 40)}", key, row)


def _check_numbers(path: Path, key: str, content: object) -> None:
    """Hold integers to the 64 bits that TOML gives them, and refuse `inf` and `nan`, which are values of no setting."""
    if isinstance(content, dict):
        for name, value in content.items():
            _check_numbers(path, f"{key}.{name}".lstrip("."), value)
    elif isinstance(content, list):
        for number, value in enumerate(content):
            _check_numbers(path, f"{key}[{number}]", value)
    elif isinstance(content, int) and not -(1 << 63) <= content < 1 << 63:
        raise ValueError(f"{quote(content)} is too large an integer: 64 bits hold no larger")
    elif isinstance(content, float) and not math.isfinite(content):
        raise field_fault(str(path), key, f"{content} is no setting; give a finite number")


# Rows of annotation files.


class AnnotationRow(BaseModel):
    """A row of an annotation file: a subclass lists its fields; none may be missing, unknown or of another type."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


Filled = Annotated[str, Field(min_length=1, pattern=r"\S")]
"""A text that is not blank."""

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def make_item(place: str, **fields: Any) -> Item:
    """Return an item of these fields."""
    return validate(Item, fields, place)


def karpathy_images(
    path: Path, images: Iterable[Any], splits: Collection[str]
) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """Yield the images of some of Karpathy's splits (`dataset_coco.json`): place in the file, path and sentences."""
    for number, image in enumerate(images):
        place = f"{path}: images[{number}]"
        sentences = image.get("sentences") if isinstance(image, dict) else None
        if not isinstance(sentences, list) or not all(isinstance(sentence, dict) for sentence in sentences):
            raise DataError(f"{place}: field 'sentences' must be a list of objects, got {quote(image)}")
        if image.get("split") in splits:
            yield place, "/".join(str(image[key]) for key in ("filepath", "filename") if image.get(key)), sentences


def row_of(value: object, place: str) -> dict[str, Any]:
    """Return a row that is an object."""
    if not isinstance(value, dict):
        raise DataError(f"{place}: expected an object {{...}}, got {quote(value)}", path=place, got=value)
    return value


def string(row: Mapping[str, Any], field: str, place: str) -> str:
    """Return a row's field that is a string and not blank."""
    value = row.get(field)
    if not isinstance(value, str) or not value.strip():
        fault = ("expected text", value) if field in row else ("is missing",)
        raise field_fault(place, field, *fault)
    return value


def expect_count(place: object, count: int, *published: int, what: str = "items") -> None:
    """Compare a number of rows with the published ones: nothing else shows that a file was cut between two rows."""
    if count not in published:
        expected = " or ".join(f"{number:,}" for number in published)
        raise DataError(
            f"{place} holds {count:,} {what} where the published benchmark has {expected}; the file is incomplete or "
            "of another version: get it again, or measure a part of it as a set of yours (ten lines of TOML, "
            "docs/benchmarks.md)"
        )
