"""Files of scores and vectors that other programs made or use.

Scores are in npz, csv, parquet, the jsonl of Winoground's tools, or plain npy:

- `.npz`: arrays `ids` (strings, `(n,)`) and `scores` (numbers, `(n, images, texts)`), and, if known, `kind`.
- `.csv`, `.parquet`: columns `id`, `image`, `text` and `score`, then a row a pair; image and text count from 0.
- `.jsonl`: one `{"label": "0_c1_i0", "score": 29.97}` a line: item 0, text (caption) 1, image 0.
- `.npy`: numbers `(item, image, text)`, or one a pair, in the order of the annotation file if that lists pairs (EqBen's
  flat list), else as `tellapart export` lists them.

Files often carry doubles. Every comparison here is made in float32, so they are rounded to it.

Vectors of images and texts are scored by the cosine. They are arrays, or in files: `.npz` (arrays `ids` and `vectors`),
`.parquet` (columns `id` and `vector`), `.safetensors` (`vectors`, and `ids` as a JSON list in its metadata) or `.npy`,
whose ids are the lines of a `.txt` file of the same name, if there is one. An image's id is its reference in the pair
set, a text's id the text.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.data.answer_text import current_reading
from tellapart.data.atomic import atomic_file
from tellapart.data.columns import expect_distinct_columns
from tellapart.data.item import Item
from tellapart.data.rows import read_csv, read_jsonl
from tellapart.data.scores import ScoreKind, Scores, join_names
from tellapart.data.strict_binary import read_array, read_arrays
from tellapart.data.strict_json import decode_text, parse_json, plain_suffix, read_whole
from tellapart.errors import DataError, ScoreError, first_line, nearest, quote, require
from tellapart.models.memory.mistakes import to_array
from tellapart.models.options import ModelOptions, ModelPrefix
from tellapart.models.vectors import dot_products, normalise

_COLUMNS = ["id", "image", "text", "score"]
_LABEL = re.compile(r"(?P<id>.+)_c(?P<text>\d+)_i(?P<image>\d+)", re.DOTALL | re.ASCII)

#: The form of a number: Python's `float` takes `1_0` and the digits of every script, too.
_NUMBER = re.compile(r"\s*[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|nan|inf|infinity)\s*", re.ASCII | re.IGNORECASE)
_WRITTEN_SUFFIXES = (".npz", ".csv", ".jsonl")  # a plain array and parquet are only read
_VECTORS_HINT = (
    "; vectors of images and texts are a model: a folder with images.npz and texts.npz (or .parquet), measured by "
    "tellapart run -m vectors:FOLDER"
)

_LARGEST = float(np.finfo(np.float32).max)  # a larger score cannot be represented
_NOT_FINITE = "not finite in float32, and every pair needs a number"


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

    `rows` are the positions of every pair, int `(item, image, text)`, in a `.npy` file with one number a pair; without
    `rows` such a file lists the pairs item by item, image by image.
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
    if (suffix := plain_suffix(path)) not in (*_WRITTEN_SUFFIXES, ".parquet"):
        packed = path.suffix.lower() in (".zip", ".tar", ".tgz")
        hint = "; unpack it, and name the file of scores in it" if packed else ""
        raise ScoreError(
            f"{path}: scores are read from .npz, .csv, .jsonl, .parquet or .npy; got {path.suffix!r}{hint}"
        )
    # For the refusal of another `columns=`.
    current_reading().fields_read = "scores" if suffix == ".npz" else "score"
    if suffix == ".npz":
        return _read_npz(path, ids, shape)
    try:
        return _gather_rows(path, _list_rows(path, suffix, len(ids) * shape[0] * shape[1]), ids, shape), None
    except DataError as error:
        raise ScoreError(str(error)) from error


def read_parquet(path: Path, names: Sequence[str], most: int | None = None) -> tuple[list[str], dict[str, list[Any]]]:
    """Return all names of a parquet file's columns, and the values of some; refuse a file of more than `most` rows."""
    parquet = require("pyarrow.parquet", extra="hub")
    try:
        with parquet.ParquetFile(path) as file:
            all_names, count = file.schema_arrow.names, file.metadata.num_rows
            expect_distinct_columns(file.schema_arrow, path, error=ScoreError)
            if most is not None and count > most:
                problem = f"{count:,} rows where this benchmark has {most:,} pairs; give a row for each"
                raise ScoreError(f"{path} holds {problem}")
            return all_names, file.read(columns=[name for name in all_names if name in names]).to_pydict()
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
    unknown, repeated = f"scores are of no item of this benchmark ({facts})", "scores occur twice in the file"
    infinite = f"scores are {_NOT_FINITE}"
    bad: dict[str, list[str]] = {unknown: [], infinite: [], repeated: []}
    for line, row in rows:
        item, image, text = str(row["id"]), *(_read_place(path, line, name, row[name]) for name in ("image", "text"))
        score = _read_number(path, line, row["score"])
        place = first.get(item, 0) + image * texts + text
        if item not in first or image >= images or text >= texts:
            fault = unknown
        elif not abs(score) <= _LARGEST:  # NaN, too
            fault = infinite
        elif not math.isnan(values[place]):
            fault = repeated
        else:
            values[place] = score
            continue
        bad[fault].append(f"{item}_c{text}_i{image} (line {line})")
    for problem, names in bad.items():
        _refuse_names(path, names, problem)
    array = np.array(values).reshape(len(ids), images, texts)
    missing = [f"{ids[k]}_c{text}_i{image}" for k, image, text in np.argwhere(np.isnan(array))]
    _refuse_names(path, missing, f"of {array.size} scores are missing")
    return array


def _refuse_names(path: Path, names: Sequence[str], problem: str) -> None:
    if names:
        raise ScoreError(f"{path}: {len(names)} {problem}: {join_names(names)}")


def _read_place(path: Path, line: int, name: str, value: object) -> int:
    digits = str(value) if type(value) in (int, str) else ""
    if not (digits.isdecimal() and digits.isascii()):
        raise ScoreError(f"{path}:{line}: field {name!r}: expected 0, 1...; got {quote(value)}")
    return int(digits) if len(digits) < 10 else 10**9  # beyond any item, and not slow to read


def _read_number(path: Path, line: int, value: object) -> float:
    if type(value) in (int, float) or (isinstance(value, str) and _NUMBER.fullmatch(value)):
        return float(value)  # type: ignore[arg-type]
    is_comma = re.fullmatch(r"-?\d{1,9},\d{1,19}", str(value))
    hint = f"; write a point, as in {str(value).replace(',', '.')}" if is_comma else ""
    hint = "; fill it in" if value in (None, "") else hint
    raise ScoreError(f"{path}:{line}: field 'score': expected a number; got {quote(value)}{hint}")


def _read_npz(path: Path, ids: Sequence[str], shape: tuple[int, int]) -> tuple[NDArray[Any], ScoreKind | None]:
    arrays = read_arrays(path, ("ids", "scores", "kind", "vectors"))
    if missing := {"ids", "scores"} - arrays.keys():
        hint = _VECTORS_HINT if "vectors" in arrays else ""
        raise ScoreError(f"{path} has no array {', '.join(sorted(missing))}; it must hold ids and scores{hint}")
    listed, values = _list_ids(path, arrays["ids"]), arrays["scores"]
    if values.shape != (len(listed), *shape) or values.dtype.kind not in "fiu":
        raise ScoreError(
            f"{path}: scores must be numbers {(len(listed), *shape)} for its {len(listed)} ids and this benchmark; "
            f"got {values.dtype} {values.shape}"
        )
    position, id_set = {name: k for k, name in enumerate(listed)}, set(ids)
    repeated = [name for k, name in enumerate(listed) if position[name] != k]
    _refuse_names(path, repeated, "items occur twice in the file")
    unknown = [name for name in listed if name not in id_set]
    _refuse_names(path, unknown, f"ids are of no item of this benchmark, whose ids are like {quote(ids[0])}")
    _refuse_names(path, [item for item in ids if item not in position], f"of {len(ids)} items are missing")
    exact = values[[position[item] for item in ids]]
    finite = (np.abs(exact.astype(np.float64)) <= _LARGEST).all(axis=(1, 2))
    _refuse_names(path, [ids[k] for k in np.flatnonzero(~finite).tolist()], f"items have scores {_NOT_FINITE}")
    kind = arrays.get("kind")
    if kind is not None and (kind.shape != () or kind.dtype.kind != "U" or str(kind) not in get_args(ScoreKind)):
        raise ScoreError(f"{path}: kind must be one of {', '.join(get_args(ScoreKind))}; got {str(kind)[:80]!r}")
    return exact, None if kind is None else cast("ScoreKind", str(kind))


def _list_ids(path: Path, names: NDArray[Any]) -> list[str]:
    if names.ndim != 1 or names.dtype.kind != "U":
        raise ScoreError(f"{path}: ids must be texts (n,); got {names.dtype} {names.shape}")
    listed: list[str] = names.tolist()
    return listed


def _read_npy(path: Path, ids: Sequence[str], shape: tuple[int, int], rows: NDArray[np.int64] | None) -> NDArray[Any]:
    array, (images, texts) = read_array(path), shape
    full_shape, pairs = (len(ids), images, texts), len(ids) * images * texts
    if array.shape not in ((pairs,), (pairs, 1), full_shape) or array.dtype.kind not in "fiu":
        order = "as `tellapart export` lists them" if rows is None else "row by row of its annotation file"
        vectors = "; vectors are measured by ta.score_vectors or -m vectors:DIR" if array.ndim == 2 else ""
        raise ScoreError(
            f"{path}: a plain array holds one number for each of the benchmark's {pairs:,} pairs, {order}, or is "
            f"{full_shape}: item, image, text; got {array.dtype} {array.shape}{vectors}"
        )
    by_row = rows is not None and array.shape != full_shape
    values = array.reshape(-1)[rows] if by_row else array.reshape(full_shape)
    bad = np.argwhere(~(np.abs(values.astype(np.float64)) <= _LARGEST)).tolist()
    _refuse_names(path, [f"{ids[item]}_c{text}_i{image}" for item, image, text in bad], f"scores are {_NOT_FINITE}")
    return values


def write_scores(scores: Scores, path: Path | str) -> None:
    """Write scores atomically as `.npz`, `.csv` or `.jsonl`, so that `read_scores` returns the same.

    Only `.npz` keeps the kind.
    """
    path = Path(path)
    if path.suffix not in _WRITTEN_SUFFIXES:
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


VECTOR_SUFFIXES = (".npz", ".parquet", ".safetensors", ".npy")

#: Column of a table -> what it holds.
_HELD = {"id": "id", "ids": "id", "vector": "vector", "vectors": "vector"}

_LENGTH_TOLERANCE = 1e-3  # vectors count as of length one if their lengths differ from it by no more
_REPEAT_TOLERANCE = 0.01  # how far apart vectors of one id may lie: a model in half precision moves them with the batch


@dataclass(frozen=True, eq=False)
class NamedVectors:
    """Unit vectors float32 `(n, dimensions)`, the row of each id, and the least and greatest length before scaling."""

    side: str  # "images" or "texts"
    rows: dict[str, int]
    vectors: NDArray[np.float32]
    lengths: tuple[float, float]

    def find_rows(self, ids: Sequence[str], item: str) -> NDArray[np.float32]:
        """Return the vectors of some ids."""
        for name in ids:
            if name not in self.rows:
                hint = nearest(name, list(self.rows)[:5000])
                raise ScoreError(f"no row of the {self.side} has the id {quote(name)}, of item {quote(item)}{hint}")
        return self.vectors[[self.rows[name] for name in ids]]


class VectorModel:
    """Vectors of a pair set's images and texts as a model: a score is the cosine."""

    kind: ScoreKind = "similarity"

    def __init__(self, name: str, images: NamedVectors, texts: NamedVectors) -> None:
        widths = images.vectors.shape[1], texts.vectors.shape[1]
        if widths[0] != widths[1]:
            raise ScoreError(
                f"images= have {widths[0]} dimensions and texts= {widths[1]}: they are not of one model's space"
            )
        self.name, self._images, self._texts = name, images, texts
        digest = hashlib.sha256()
        for side in (images, texts):
            digest.update(json.dumps([side.vectors.shape, list(side.rows)]).encode())
            digest.update(np.ascontiguousarray(side.vectors).data)
        self.fingerprint = f"tellapart:vectors:1:{digest.hexdigest()}"

    def score_item(self, item: Item) -> NDArray[np.float32]:
        """Score every image of the item against every text: the cosines, float32 `(images, texts)`."""
        images, texts = self._images.find_rows(item.images, item.id), self._texts.find_rows(item.texts, item.id)
        return dot_products(images, texts)

    def take_notes(self) -> tuple[str, ...]:
        """Return a note for each side whose vectors did not have length one."""
        sides = [(side.side, *side.lengths) for side in (self._images, self._texts)]
        return tuple(
            f"the vectors of {side} were scaled to length one: they had lengths from {low:.4g} to {high:.4g}"
            for side, low, high in sides
            if low < 1 - _LENGTH_TOLERANCE or high > 1 + _LENGTH_TOLERANCE
        )


def name_vectors(side: str, values: object, ids: Sequence[str]) -> NamedVectors:
    """Check vectors and give each its id."""
    array = to_array(values)
    if array is None or array.ndim != 2 or not array.shape[1]:
        got = quote(values) if array is None else f"an array {array.shape}"
        raise ScoreError(f"{side}= must be numbers (n, dimensions), a row each; got {got}")
    if len(array) != len(ids):
        raise ScoreError(f"{side}= has {len(array):,} rows, and its ids {len(ids):,}: give a row for each")
    lengths = np.linalg.norm(array.astype(np.float64), axis=1)
    for problem, bad in (("is not finite", ~np.isfinite(lengths)), ("has length zero", lengths == 0)):
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise ScoreError(f"{side}=: row {row} ({quote(ids[row])}) {problem}, of {int(bad.sum()):,} such rows")
    rows: dict[str, int] = {}
    unit = normalise(array)
    for row, name in enumerate(ids):
        first = rows.setdefault(name, row)
        if first != row and np.abs(unit[first] - unit[row]).max() > _REPEAT_TOLERANCE:
            raise ScoreError(f"{side}=: rows {first} and {row} are both of {quote(name)}, and differ")
    return NamedVectors(side, rows, unit, (float(lengths.min()), float(lengths.max())))


def name_rows(side: str, values: object, ids: Sequence[str] | None, items: Sequence[Item], owner: str) -> NamedVectors:
    """Give each row its id: the caller's, or that of its place among the images or texts of the pair set `owner`."""
    array = to_array(values)
    slots = [name for item in items for name in getattr(item, side)]
    if array is not None and array.ndim == 4:
        raise ScoreError(f"score_vectors({side}=): an array {array.shape} holds pixels; give vectors (n, dimensions)")
    if array is not None and array.ndim == 3:
        whole = len(items), len(slots) // len(items)
        if ids is None and 1 not in array.shape[:2] and array.shape[:2] != whole:  # an axis of 1 has one order
            raise ScoreError(
                f"{side}= is an array {array.shape}; in the order of the items it is {whole} by dimensions"
            )
        array = array.reshape(-1, array.shape[-1])
    numbers, distinct = values if array is None else array, dict.fromkeys(slots)
    if ids is None:  # a row for each slot, or for each distinct image or text
        if array is not None and array.ndim == 2 and len(array) not in {len(distinct), len(slots)}:
            raise ScoreError(
                f"{side}= has {len(array):,} rows, and {owner} {len(slots):,} {side}, {len(distinct):,} of them "
                f"distinct: give one row each, or {side[:-1]}_ids="
            )
        return name_vectors(side, numbers, [*distinct] if array is not None and len(array) == len(distinct) else slots)
    named = name_vectors(side, numbers, [*ids])
    if (name := next((name for name in named.rows if name not in distinct), None)) is not None:
        hint = nearest(name, [*distinct][:5000])
        raise ScoreError(f"{side}=: row {named.rows[name]} has the id {quote(name)}, of no item of {owner}{hint}")
    return named


def read_vectors(path: Path) -> tuple[NDArray[Any], list[str] | None]:
    """Read vectors and their ids, None if the file has none."""
    if path.suffix not in VECTOR_SUFFIXES:
        raise ScoreError(f"{path}: vectors are read from {', '.join(VECTOR_SUFFIXES)}; got {path.suffix!r}")
    if path.suffix == ".npy":
        array, listed = read_array(path), path.with_suffix(".txt")
        if not listed.is_file():
            return array, None
        lines = decode_text(read_whole(listed, error=ScoreError), listed, error=ScoreError).replace("\r\n", "\n")
        return array, lines.removesuffix("\n").split("\n")
    if path.suffix == ".npz":
        arrays = read_arrays(path, ("ids", "vectors"))
        vectors, ids = arrays.get("vectors"), arrays.get("ids")
    else:
        vectors, ids = (_read_vector_table if path.suffix == ".parquet" else _read_safetensors)(path)
    if vectors is None:
        raise ScoreError(f"{path} holds no `vectors`; it must hold vectors (n, dimensions), and ids")
    return vectors, None if ids is None else _list_ids(path, np.asarray(ids))


def _read_vector_table(path: Path) -> tuple[Any, Any]:
    names, read = read_parquet(path, list(_HELD))
    columns = {_HELD[name]: cells for name, cells in read.items()}
    if len(columns) < len(read):
        raise ScoreError(f"{path}: columns {join_names(list(read))} hold the same twice; keep one each")
    if "vector" not in columns:
        raise ScoreError(
            f"{path} has the columns {join_names(names)}; name that of the vectors 'vector' and that of their ids 'id'"
        )
    rows = columns["vector"]
    widths = {len(row) if isinstance(row, list) else -1 for row in rows}
    if len(widths) > 1:
        raise ScoreError(f"{path}: its vectors differ in length: {sorted(widths)[:5]}")
    return np.array(rows), columns.get("id")


def _read_safetensors(path: Path) -> tuple[Any, Any]:
    open_file, vectors = require("safetensors", extra="models").safe_open, None
    try:
        with open_file(path, "np") as file:
            metadata, named = file.metadata() or {}, "vectors" in file.keys()  # noqa: SIM118
            numpy_reads = named and file.get_slice("vectors").get_dtype() not in {"BF16", "F8_E4M3", "F8_E5M2"}
        if named:
            with open_file(path, "np" if numpy_reads else "pt") as file:  # torch has bfloat16 and 8 bits
                vectors = file.get_tensor("vectors")
    except Exception as error:  # the library raises a bare Exception
        raise ScoreError(f"{path} cannot be read as safetensors: {first_line(error)}") from error
    return vectors, parse_json(metadata["ids"], f"{path}: ids", error=ScoreError) if "ids" in metadata else None


def _files_of(name: str) -> list[Path] | None:
    """Return the files of images' and texts' vectors in a folder, in this order; None if one of the two has none."""
    folder = Path(name.removeprefix("vectors:")).expanduser()
    sides = [[folder / f"{side}{suffix}" for suffix in VECTOR_SUFFIXES] for side in ("images", "texts")]
    files = [[path for path in side if path.is_file()] for side in sides]
    return [*chain(*files)] if all(files) else None


def _load_folder(name: str, _options: ModelOptions) -> VectorModel:
    files = _files_of(name)
    if files is None:
        raise ScoreError(
            f"{name}: no vectors there: expected images and texts, each with one of {', '.join(VECTOR_SUFFIXES)}"
        )
    if len(files) > 2:
        raise ScoreError(f"{name}: {join_names([file.name for file in files])}: leave one of images and one of texts")
    sides = []
    for side, file in zip(("images", "texts"), files, strict=True):
        vectors, ids = read_vectors(file)
        if ids is None:
            raise ScoreError(
                f"{file} has no ids: write np.savez({side!r}, ids=ids, vectors=vectors), or the ids into "
                f"{file.with_suffix('.txt')}, a line each"
            )
        sides.append(name_vectors(side, vectors, ids))
    return VectorModel(name, *sides)


VECTORS = ModelPrefix(
    {"vectors:DIR": "vectors of another system: images and texts, each a .npz, .parquet, .safetensors or .npy file"},
    _load_folder,
    files=_files_of,
    takes=frozenset(),
)

#: Vectors as callers give them: numbers, a tensor, or a file.
VectorsGiven = str | Path | ArrayLike
