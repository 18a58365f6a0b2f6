"""Files of scores that other programs made or use: npz, csv, parquet, the jsonl of Winoground's tools, plain npy.

- `.npz`: arrays `ids` (strings, `(n,)`) and `scores` (numbers, `(n, images, texts)`), and, if known, `kind`.
- `.csv`: a header `id,image,text,score`, then one row a pair; image and text count from 0. Further columns, such as
  those of `tellapart export`, are ignored.
- `.jsonl`: one `{"label": "0_c1_i0", "score": 29.97}` a line: item 0, text (caption) 1, image 0. The item's id may hold
  underscores itself; a label is read from its end. Other keys are ignored.
- `.parquet`: the columns of the `.csv`.
- `.npy`: one array without ids, so in the benchmark's order: numbers `(item, image, text)`, or one number a pair.
  Pairs stand as in the annotation file if that lists pairs (EqBen's flat list, for which its official template writes
  such a file), else as `tellapart export` lists them.

Files often carry doubles. Every comparison here is made in float32, so they are rounded to it; `created_ties` counts
the items in which that made two different scores equal.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from tellapart.data.atomic import atomic_file
from tellapart.data.columns import expect_distinct_columns
from tellapart.data.npz import read_array, read_arrays
from tellapart.data.prediction_field import state_field
from tellapart.data.rows import read_csv
from tellapart.data.scores import ScoreKind, Scores, join_names
from tellapart.data.strict_json import decode_text, parse_json, plain_suffix, read_whole
from tellapart.errors import DataError, ScoreError, first_line, quote, require

_COLUMNS = ["id", "image", "text", "score"]
_LABEL = re.compile(r"(?P<id>.+)_c(?P<text>\d+)_i(?P<image>\d+)", re.DOTALL | re.ASCII)

_NOT_FINITE = "are not finite in float32, and every pair needs a number"

#: The form of a number: Python's `float` takes `1_0` and the digits of every script, too.
_NUMBER = re.compile(r"\s*[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|nan|inf|infinity)\s*", re.ASCII | re.IGNORECASE)
_SUFFIXES = (".npz", ".csv", ".jsonl")  # that are written; a plain array and parquet are only read
_VECTORS_HINT = (
    "; vectors of images and texts are a model: a folder with images.npz and texts.npz (or .parquet), measured by "
    "tellapart run -m vectors:FOLDER"
)

#: The largest float32, as a double: a larger score cannot be represented.
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True, eq=False)
class RawScores:
    """Scores in the file's precision, `(item, image, text)`; and their kind, if the file has it."""

    values: NDArray[Any]
    kind: ScoreKind | None


def created_ties(values: NDArray[Any]) -> int:
    """Count the items in which two scores differ in the file's precision and are equal in float32.

    >>> created_ties(np.array([[[2**60, 2**60 + 1]], [[1, 2]]], np.uint64))
    1
    """
    rows = np.sort(values.reshape(len(values), -1), axis=1)
    rounded = rows.astype(np.float64).astype(np.float32)
    return int(((rows[:, 1:] != rows[:, :-1]) & (rounded[:, 1:] == rounded[:, :-1])).any(axis=1).sum())


def read_scores(
    path: Path | str, *, ids: Sequence[str], shape: tuple[int, int], kind: ScoreKind | None = None
) -> Scores:
    """Read scores of exactly these items, whatever their order in the file, rounded to float32.

    Args:
        path: a `.npz`, `.csv` or `.jsonl` file; or a `.npy` file, which has no ids, in the order of `ids`.
        ids: of all items.
        shape: images and texts of every item.
        kind: of the numbers. If it is not given, the file's, or else a similarity.

    Raises:
        ScoreError: the file cannot be read as its format, rows are missing, unknown, repeated or not finite, or the
            file names another kind.

    >>> path = getfixture("tmp_path") / "scores.csv"
    >>> _ = path.write_text("id,image,text,score\\na,0,1,0.25\\na,0,0,0.5\\n")
    >>> read_scores(path, ids=["a"], shape=(1, 2)).values.tolist()
    [[[0.5, 0.25]]]
    """
    return round_scores(read_raw_scores(path, ids=ids, shape=shape), path, ids=ids, kind=kind)


def round_scores(raw: RawScores, path: Path | str, *, ids: Sequence[str], kind: ScoreKind | None = None) -> Scores:
    """Round the scores of `read_raw_scores` to float32; `read_scores` does both.

    Raises:
        ScoreError: the file names another kind, or a probability lies outside [0, 1].
    """
    if kind and raw.kind and kind != raw.kind:
        raise ScoreError(f"{path} says that its scores are of kind {raw.kind!r}; {kind!r} was asked for")
    try:
        return Scores(ids, raw.values.astype(np.float64), kind or raw.kind or "similarity")
    except ScoreError as error:
        raise ScoreError(f"{path}: {error}") from error


def read_raw_scores(
    path: Path | str, *, ids: Sequence[str], shape: tuple[int, int], rows: NDArray[np.int64] | None = None
) -> RawScores:
    """Read scores as `read_scores` does, in the file's precision.

    Args:
        path: this and the next two as for `read_scores`.
        rows: place of every pair, int `(item, image, text)`, in a `.npy` file with one number a pair; None if they
            stand item by item, image by image.

    Raises:
        ScoreError: as `read_scores`.
    """
    path = Path(path)
    if path.suffix == ".npy":
        return _read_npy(path, ids, shape, rows)
    if path.is_dir():
        raise ScoreError(f"{path} is a folder; name a file of scores{_VECTORS_HINT}")
    if (suffix := plain_suffix(path)) not in (*_SUFFIXES, ".parquet"):
        hint = (
            "; unpack it, and name the file of scores in it" if path.suffix.lower() in (".zip", ".tar", ".tgz") else ""
        )
        raise ScoreError(
            f"{path}: scores are read from .npz, .csv, .jsonl, .parquet or .npy; got {path.suffix!r}{hint}"
        )
    state_field("scores" if suffix == ".npz" else "score")
    if suffix == ".npz":
        return _read_npz(path, ids, shape)
    table = _Table(path, ids, shape)
    for row in _read_parquet_rows(path, len(table.values)) if suffix == ".parquet" else _read_text_rows(path, suffix):
        table.add_row(*row)
    return RawScores(table.complete_values(), None)


#: Line, id, image, text, score.
_Row = tuple[int, str, int, int, float]


class _Table:
    """Rows in any order, gathered into an array that has each of them exactly once."""

    def __init__(self, path: Path, ids: Sequence[str], shape: tuple[int, int]) -> None:
        self.path, self.ids, self.shape = path, ids, shape
        self.first = {item: k * shape[0] * shape[1] for k, item in enumerate(ids)}  # of an item's scores in `values`
        self.values = [math.nan] * (len(ids) * shape[0] * shape[1])
        self.unknown: list[str] = []
        self.repeated: list[str] = []
        self.not_finite: list[str] = []

    def add_row(self, line: int, item: str, image: int, text: int, score: float) -> None:
        images, texts = self.shape
        first = self.first.get(item)
        if first is None or image >= images or text >= texts:
            self.unknown.append(_name_row(line, item, image, text))
            return
        place = first + image * texts + text
        if not abs(score) <= _LARGEST:  # NaN, too
            self.not_finite.append(_name_row(line, item, image, text))
        elif not math.isnan(self.values[place]):
            self.repeated.append(_name_row(line, item, image, text))
        else:
            self.values[place] = score

    def complete_values(self) -> NDArray[np.float64]:
        images, texts = self.shape
        _refuse_names(
            self.path,
            self.unknown,
            f"are of no item of this benchmark ({images} images by {texts} texts each, ids like {quote(self.ids[0])})",
        )
        _refuse_names(self.path, self.not_finite, _NOT_FINITE)
        _refuse_names(self.path, self.repeated, "occur twice in the file")
        values = np.array(self.values).reshape(len(self.ids), images, texts)
        missing = [f"{self.ids[k]}_c{text}_i{image}" for k, image, text in np.argwhere(np.isnan(values))]
        _refuse_names(self.path, missing, "are missing", total=values.size)
        return values


def _name_row(line: int, item: str, image: int, text: int) -> str:
    return f"{item}_c{text}_i{image} (line {line})"


def _refuse_names(path: Path, names: Sequence[str], how: str, *, total: int | None = None) -> None:
    if names:
        of = "" if total is None else f" of {total}"
        raise ScoreError(f"{path}: {len(names)}{of} scores {how}: {join_names(names)}")


def _read_parquet_rows(path: Path, pairs: int) -> Iterator[_Row]:
    parquet = require("pyarrow.parquet", extra="hub")
    try:
        with parquet.ParquetFile(path) as file:
            schema, count = file.schema_arrow, file.metadata.num_rows
            held = schema.names
            fits = count <= pairs and sorted(name for name in held if name in _COLUMNS) == sorted(_COLUMNS)
            rows = file.read(columns=_COLUMNS).to_pylist() if fits else []
    except Exception as error:  # a damaged file fails anywhere, with any exception
        raise ScoreError(f"{path} cannot be read as parquet: {first_line(error)}") from error
    expect_distinct_columns(schema, path, error=ScoreError)
    if missing := [name for name in _COLUMNS if name not in held]:
        raise ScoreError(f"{path} has no column {', '.join(missing)}; it has {join_names(held)}")
    if count > pairs:
        raise ScoreError(f"{path} holds {count:,} rows where this benchmark has {pairs:,} pairs; give a row for each")
    for number, row in enumerate(rows, start=1):
        for name in ("image", "text"):
            if type(row[name]) is not int or row[name] < 0:
                raise ScoreError(f"{path}:{number}: field {name!r}: expected 0, 1...; got {quote(row[name])}")
        yield number, str(row["id"]), row["image"], row["text"], _read_number(path, number, row["score"])


def _read_text_rows(path: Path, suffix: str) -> Iterator[_Row]:
    return (_csv_rows if suffix == ".csv" else _jsonl_rows)(path)


def _jsonl_rows(path: Path) -> Iterator[_Row]:
    text = decode_text(read_whole(path, error=ScoreError), path, error=ScoreError)
    for line, row in enumerate(text.split("\n"), start=1):  # not splitlines: an id may hold U+2028
        if not row.strip():
            continue
        record = parse_json(row, f"{path}:{line}", error=ScoreError)
        if not isinstance(record, dict) or not {"label", "score"} <= record.keys():
            raise ScoreError(f'{path}:{line}: expected {{"label": "ID_c0_i0", "score": 0.5}}; got {row[:80]}')
        label = _LABEL.fullmatch(record["label"]) if isinstance(record["label"], str) else None
        if label is None:
            raise ScoreError(f"{path}:{line}: field 'label': expected ID_c0_i0; got {quote(record['label'])}")
        yield (
            line,
            label["id"],
            _read_index(label["image"]),
            _read_index(label["text"]),
            _read_number(path, line, record["score"]),
        )


def _csv_rows(path: Path) -> Iterator[_Row]:
    line = 0
    try:
        for line, row in read_csv(path):
            if missing := [name for name in _COLUMNS if name not in row]:
                got = quote(",".join(row))
                raise ScoreError(f"{path}: expected the header {','.join(_COLUMNS)}; {missing[0]} is not in {got}")
            for name in ("image", "text"):
                if not (row[name].isdecimal() and row[name].isascii()):
                    raise ScoreError(f"{path}:{line}: field {name!r}: expected 0, 1...; got {quote(row[name])}")
            score = _read_number(path, line, row["score"])
            yield line, row["id"], _read_index(row["image"]), _read_index(row["text"]), score
    except DataError as error:
        raise ScoreError(str(error)) from error
    if not line:
        raise ScoreError(f"{path} holds no scores; give the header {','.join(_COLUMNS)}, and a row for each pair")


def _read_index(digits: str) -> int:
    return int(digits) if len(digits) < 10 else 10**9  # beyond any item, and not slow to read


def _read_number(path: Path, line: int, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return float(value)
    is_comma = re.fullmatch(r"-?\d{1,9},\d{1,19}", str(value))
    point = f"; write a point, as in {str(value).replace(',', '.')}" if is_comma else ""
    raise ScoreError(f"{path}:{line}: field 'score': expected a number; got {quote(value)}{point}")


def _read_npz(path: Path, ids: Sequence[str], shape: tuple[int, int]) -> RawScores:
    arrays = read_arrays(path, ("ids", "scores", "kind", "vectors"))
    if missing := {"ids", "scores"} - arrays.keys():
        hint = _VECTORS_HINT if "vectors" in arrays else ""
        raise ScoreError(f"{path} has no array {', '.join(sorted(missing))}; it must hold ids and scores{hint}")
    names, values = arrays["ids"], arrays["scores"]
    if names.ndim != 1 or names.dtype.kind != "U":
        raise ScoreError(f"{path}: ids must be strings (n,); got {names.dtype} {names.shape}")
    if values.shape != (len(names), *shape) or values.dtype.kind not in "fiu":
        raise ScoreError(
            f"{path}: scores must be numbers {(len(names), *shape)} for its {len(names)} ids and this benchmark; "
            f"got {values.dtype} {values.shape}"
        )
    listed: list[str] = names.tolist()
    position, id_set = {name: k for k, name in enumerate(listed)}, set(ids)
    repeated = [name for k, name in enumerate(listed) if position[name] != k]
    _refuse_names(path, repeated, "are of items that occur twice in the file")
    unknown = [name for name in listed if name not in id_set]
    _refuse_names(path, unknown, f"are of no item of this benchmark, whose ids are like {quote(ids[0])}")
    _refuse_names(path, [item for item in ids if item not in position], "are missing", total=len(ids))
    exact = values[[position[item] for item in ids]]
    finite = (np.abs(exact.astype(np.float64)) <= _LARGEST).all(axis=(1, 2))
    _refuse_names(path, [ids[k] for k in np.flatnonzero(~finite).tolist()], _NOT_FINITE)
    return RawScores(exact, _read_kind(path, arrays.get("kind")))


def _read_npy(path: Path, ids: Sequence[str], shape: tuple[int, int], rows: NDArray[np.int64] | None) -> RawScores:
    array, (images, texts) = read_array(path), shape
    whole, pairs = (len(ids), images, texts), len(ids) * images * texts
    if array.shape not in ((pairs,), (pairs, 1), whole) or array.dtype.kind not in "fiu":
        order = "as `tellapart export` lists them" if rows is None else "row by row of its annotation file"
        vectors = "; vectors are measured by ta.score_vectors or -m vectors:DIR" if array.ndim == 2 else ""
        raise ScoreError(
            f"{path}: a plain array holds one number for each of the benchmark's {pairs:,} pairs, {order}, or is "
            f"{whole}: item, image, text; got {array.dtype} {array.shape}{vectors}"
        )
    by_row = rows is not None and array.shape != whole
    values = array.reshape(-1)[rows] if by_row else array.reshape(whole)
    bad = np.argwhere(~(np.abs(values.astype(np.float64)) <= _LARGEST)).tolist()
    _refuse_names(path, [f"{ids[item]}_c{text}_i{image}" for item, image, text in bad], _NOT_FINITE)
    return RawScores(values, None)


def _read_kind(path: Path, array: NDArray[Any] | None) -> ScoreKind | None:
    if array is None:
        return None
    if array.shape != () or array.dtype.kind != "U" or str(array) not in get_args(ScoreKind):
        raise ScoreError(f"{path}: kind must be one of {', '.join(get_args(ScoreKind))}; got {str(array)[:80]!r}")
    return cast(ScoreKind, str(array))


def write_scores(scores: Scores, path: Path | str) -> None:
    """Write scores atomically as `.npz`, `.csv` or `.jsonl`, so that `read_scores` returns the same.

    Only `.npz` keeps the kind.

    Raises:
        ScoreError: the suffix is another, an id cannot be written (a NUL, a lone surrogate), or the disk refuses.
    """
    path = Path(path)
    if path.suffix not in _SUFFIXES:
        raise ScoreError(f"{path}: scores are written to .npz, .csv or .jsonl files; got {path.suffix!r}")
    bad = [ascii(item) for item in scores.ids if "\0" in item or re.search("[\ud800-\udfff]", item)]
    if bad:
        raise ScoreError(f"{path}: ids cannot hold a NUL or a lone surrogate: {join_names(bad)}")
    data = {".npz": _npz_bytes, ".csv": _csv_bytes, ".jsonl": _jsonl_bytes}[path.suffix](scores)
    try:
        with atomic_file(path) as draft:
            draft.write_bytes(data)
    except OSError as error:
        raise ScoreError(f"{path} cannot be written: {error.strerror or error}") from error


def _list_rows(scores: Scores) -> Iterator[tuple[str, int, int, float]]:
    # float() of a float32 is exact, and its repr reads back to the same number.
    for item, matrix in zip(scores.ids, scores.values, strict=True):
        for (image, text), number in np.ndenumerate(matrix):
            yield item, image, text, float(number)


def _npz_bytes(scores: Scores) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, ids=np.array(scores.ids, np.str_), scores=scores.values, kind=np.array(scores.kind))
    return stream.getvalue()


def _csv_bytes(scores: Scores) -> bytes:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)  # lines end in CR LF (RFC 4180); with LF alone, a CR in an id is not quoted
    writer.writerow(_COLUMNS)
    writer.writerows((item, image, text, repr(number)) for item, image, text, number in _list_rows(scores))
    return stream.getvalue().encode()


def _jsonl_bytes(scores: Scores) -> bytes:
    lines = (
        json.dumps({"label": f"{item}_c{text}_i{image}", "score": number})
        for item, image, text, number in _list_rows(scores)
    )
    return "".join(f"{line}\n" for line in lines).encode()
