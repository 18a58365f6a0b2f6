"""Files of scores that other programs made or use: npz, csv, parquet, the jsonl of Winoground's tools, plain npy.

- `.npz`: arrays `ids` (strings, `(n,)`) and `scores` (numbers, `(n, images, texts)`), and, if known, `kind`.
- `.csv`, `.parquet`: columns `id`, `image`, `text` and `score`, then a row a pair; image and text count from 0.
- `.jsonl`: one `{"label": "0_c1_i0", "score": 29.97}` a line: item 0, text (caption) 1, image 0.
- `.npy`: numbers `(item, image, text)`, or one a pair, in the order of the annotation file if that lists pairs (EqBen's
  flat list), else as `tellapart export` lists them.

Files often carry doubles. Every comparison here is made in float32, so they are rounded to it.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from tellapart.data.answer_text import current_reading
from tellapart.data.atomic import atomic_file
from tellapart.data.columns import expect_distinct_columns
from tellapart.data.rows import read_csv, read_jsonl
from tellapart.data.scores import ScoreKind, Scores, join_names
from tellapart.data.strict_binary import read_array, read_arrays
from tellapart.data.strict_json import plain_suffix
from tellapart.errors import DataError, ScoreError, first_line, quote, require

_COLUMNS = ["id", "image", "text", "score"]
_LABEL = re.compile(r"(?P<id>.+)_c(?P<text>\d+)_i(?P<image>\d+)", re.DOTALL | re.ASCII)

#: The form of a number: Python's `float` takes `1_0` and the digits of every script, too.
_NUMBER = re.compile(r"\s*[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|nan|inf|infinity)\s*", re.ASCII | re.IGNORECASE)
_SUFFIXES = (".npz", ".csv", ".jsonl")  # that are written; a plain array and parquet are only read
_VECTORS_HINT = (
    "; vectors of images and texts are a model: a folder with images.npz and texts.npz (or .parquet), measured by "
    "tellapart run -m vectors:FOLDER"
)

_LARGEST = float(np.finfo(np.float32).max)  # a larger score cannot be represented
_NOT_FINITE = "are not finite in float32, and every pair needs a number"


def read_scores(
    path: Path | str, *, ids: Sequence[str], shape: tuple[int, int], kind: ScoreKind | None = None
) -> Scores:
    """Read scores of exactly these items, whatever their order in the file, rounded to float32.

    Args:
        path: a `.npz`, `.csv`, `.jsonl` or `.parquet` file; or a `.npy` file, which has no ids, in the order of `ids`.
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
    return read_counted(path, ids=ids, shape=shape, kind=kind)[0]


def read_counted(
    path: Path | str,
    *,
    ids: Sequence[str],
    shape: tuple[int, int],
    kind: ScoreKind | None = None,
    rows: NDArray[np.int64] | None = None,
) -> tuple[Scores, int]:
    """Read scores as `read_scores` does; count the items in which rounding made two different scores equal.

    `rows` are the places of every pair, int `(item, image, text)`, in a `.npy` file with one number a pair; without
    them the pairs stand item by item, image by image.
    """
    path = Path(path)
    values, stated = _read_values(path, ids, shape, rows)
    if kind and stated and kind != stated:
        raise ScoreError(f"{path} says that its scores are of kind {stated!r}; {kind!r} was asked for")
    exact = np.sort(values.reshape(len(values), -1), axis=1)
    rounded = exact.astype(np.float64).astype(np.float32)
    ties = (exact[:, 1:] != exact[:, :-1]) & (rounded[:, 1:] == rounded[:, :-1])
    try:
        return Scores(ids, values.astype(np.float64), kind or stated or "similarity"), int(ties.any(axis=1).sum())
    except ScoreError as error:
        raise ScoreError(f"{path}: {error}") from error


def _read_values(
    path: Path, ids: Sequence[str], shape: tuple[int, int], rows: NDArray[np.int64] | None
) -> tuple[NDArray[Any], ScoreKind | None]:
    """Return scores in the file's precision, `(item, image, text)`, and their kind, if the file has it."""
    if path.suffix == ".npy":
        return _read_npy(path, ids, shape, rows), None
    if path.is_dir():
        raise ScoreError(f"{path} is a folder; name a file of scores{_VECTORS_HINT}")
    if (suffix := plain_suffix(path)) not in (*_SUFFIXES, ".parquet"):
        packed = path.suffix.lower() in (".zip", ".tar", ".tgz")
        hint = "; unpack it, and name the file of scores in it" if packed else ""
        raise ScoreError(
            f"{path}: scores are read from .npz, .csv, .jsonl, .parquet or .npy; got {path.suffix!r}{hint}"
        )
    current_reading().stated = "scores" if suffix == ".npz" else "score"
    if suffix == ".npz":
        return _read_npz(path, ids, shape)
    try:
        return _gather_rows(path, _list_rows(path, suffix, len(ids) * shape[0] * shape[1]), ids, shape), None
    except DataError as error:
        raise ScoreError(str(error)) from error


def read_parquet(path: Path, names: Sequence[str], most: int | None = None) -> tuple[list[str], dict[str, list[Any]]]:
    """Return all names of a parquet file's columns, and the values of some; of more than `most` rows none is read."""
    parquet = require("pyarrow.parquet", extra="hub")
    try:
        with parquet.ParquetFile(path) as file:
            held, count = file.schema_arrow.names, file.metadata.num_rows
            expect_distinct_columns(file.schema_arrow, path, error=ScoreError)
            if most is not None and count > most:
                problem = f"{count:,} rows where this benchmark has {most:,} pairs; give a row for each"
                raise ScoreError(f"{path} holds {problem}")
            return held, file.read(columns=[name for name in held if name in names]).to_pydict()
    except ScoreError:
        raise
    except Exception as error:  # a damaged file fails anywhere, with any exception
        raise ScoreError(f"{path} cannot be read as parquet: {first_line(error)}") from error


def _list_rows(path: Path, suffix: str, pairs: int) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the rows of a table, each with its line."""
    if suffix == ".jsonl":
        for line, record in read_jsonl(path):
            if not {"label", "score"} <= record.keys():
                got = quote(json.dumps(record))
                raise ScoreError(f'{path}:{line}: expected {{"label": "ID_c0_i0", "score": 0.5}}; got {got}')
            if (label := _LABEL.fullmatch(str(record["label"]))) is None:
                raise ScoreError(f"{path}:{line}: field 'label': expected ID_c0_i0; got {quote(record['label'])}")
            yield line, {**label.groupdict(), "score": record["score"]}
        return
    if suffix == ".parquet":
        names, columns = read_parquet(path, _COLUMNS, pairs)
        cells = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
        rows: Iterator[tuple[int, dict[str, Any]]] = enumerate(cells, 1)
    else:
        table = read_csv(path)
        first = next(table, (0, dict[str, Any]()))
        names, rows = list(first[1]), chain([first], table)
    if not {*_COLUMNS} <= {*names}:
        problem = f"has the columns {quote(','.join(names))}" if names else "holds no scores"
        raise ScoreError(f"{path} {problem}; give the columns {','.join(_COLUMNS)}, and a row for each pair")
    yield from rows


def _gather_rows(
    path: Path, rows: Iterable[tuple[int, Mapping[str, Any]]], ids: Sequence[str], shape: tuple[int, int]
) -> NDArray[np.float64]:
    """Return rows in any order as an array that has each pair exactly once."""
    images, texts = shape
    first = {item: k * images * texts for k, item in enumerate(ids)}  # of an item's scores in `values`
    values = [math.nan] * (len(ids) * images * texts)
    facts = f"{images} images by {texts} texts each, ids like {quote(ids[0])}"
    unknown, repeated = f"are of no item of this benchmark ({facts})", "occur twice in the file"
    bad: dict[str, list[str]] = {unknown: [], _NOT_FINITE: [], repeated: []}
    for line, row in rows:
        item, image, text = str(row["id"]), *(_read_place(path, line, name, row[name]) for name in ("image", "text"))
        score = _read_number(path, line, row["score"])
        place = first.get(item, 0) + image * texts + text
        if item not in first or image >= images or text >= texts:
            fault = unknown
        elif not abs(score) <= _LARGEST:  # NaN, too
            fault = _NOT_FINITE
        elif not math.isnan(values[place]):
            fault = repeated
        else:
            values[place] = score
            continue
        bad[fault].append(f"{item}_c{text}_i{image} (line {line})")
    for how, names in bad.items():
        _refuse_names(path, names, how)
    array = np.array(values).reshape(len(ids), images, texts)
    missing = [f"{ids[k]}_c{text}_i{image}" for k, image, text in np.argwhere(np.isnan(array))]
    _refuse_names(path, missing, "are missing", total=array.size)
    return array


def _refuse_names(path: Path, names: Sequence[str], how: str, *, total: int | None = None) -> None:
    if names:
        of = "" if total is None else f" of {total}"
        raise ScoreError(f"{path}: {len(names)}{of} scores {how}: {join_names(names)}")


def _read_place(path: Path, line: int, name: str, value: object) -> int:
    digits = str(value) if type(value) in (int, str) else ""
    if not (digits.isdecimal() and digits.isascii()):
        raise ScoreError(f"{path}:{line}: field {name!r}: expected 0, 1...; got {quote(value)}")
    return int(digits) if len(digits) < 10 else 10**9  # beyond any item, and not slow to read


def _read_number(path: Path, line: int, value: object) -> float:
    if type(value) in (int, float) or (isinstance(value, str) and _NUMBER.fullmatch(value)):
        return float(value)  # type: ignore[arg-type]
    is_comma = re.fullmatch(r"-?\d{1,9},\d{1,19}", str(value))
    point = f"; write a point, as in {str(value).replace(',', '.')}" if is_comma else ""
    point = "; fill it in" if value in (None, "") else point
    raise ScoreError(f"{path}:{line}: field 'score': expected a number; got {quote(value)}{point}")


def _read_npz(path: Path, ids: Sequence[str], shape: tuple[int, int]) -> tuple[NDArray[Any], ScoreKind | None]:
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
    kind = arrays.get("kind")
    if kind is not None and (kind.shape != () or kind.dtype.kind != "U" or str(kind) not in get_args(ScoreKind)):
        raise ScoreError(f"{path}: kind must be one of {', '.join(get_args(ScoreKind))}; got {str(kind)[:80]!r}")
    return exact, None if kind is None else cast("ScoreKind", str(kind))


def _read_npy(path: Path, ids: Sequence[str], shape: tuple[int, int], rows: NDArray[np.int64] | None) -> NDArray[Any]:
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
    return values


def write_scores(scores: Scores, path: Path | str) -> None:
    """Write scores atomically as `.npz`, `.csv` or `.jsonl`, so that `read_scores` returns the same.

    Only `.npz` keeps the kind.
    """
    path = Path(path)
    if path.suffix not in _SUFFIXES:
        raise ScoreError(f"{path}: scores are written to .npz, .csv or .jsonl files; got {path.suffix!r}")
    bad = [ascii(item) for item in scores.ids if "\0" in item or re.search("[\ud800-\udfff]", item)]
    if bad:
        raise ScoreError(f"{path}: ids cannot hold a NUL or a lone surrogate: {join_names(bad)}")
    # float() of a float32 is exact, and its repr reads back to the same number.
    rows = [
        (item, image, text, float(number))
        for item, matrix in zip(scores.ids, scores.values, strict=True)
        for (image, text), number in np.ndenumerate(matrix)
    ]
    try:
        with atomic_file(path) as draft, draft.open("wb") as file:
            if path.suffix == ".npz":
                ids, kind = np.array(scores.ids, np.str_), np.array(scores.kind)
                np.savez_compressed(file, ids=ids, scores=scores.values, kind=kind)
            elif path.suffix == ".csv":  # lines end in CR LF (RFC 4180); with LF alone, a CR in an id is not quoted
                stream = io.StringIO(newline="")
                csv.writer(stream).writerows([_COLUMNS, *rows])
                file.write(stream.getvalue().encode())
            else:
                labels = ({"label": f"{item}_c{text}_i{image}", "score": score} for item, image, text, score in rows)
                file.writelines(f"{json.dumps(label)}\n".encode() for label in labels)
    except OSError as error:
        raise ScoreError(f"{path} cannot be written: {error.strerror or error}") from error
