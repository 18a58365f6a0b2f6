"""Vectors that another system computed: arrays or files of images' and texts' vectors, scored by the cosine.

A file is `.npz` (arrays `ids` and `vectors`), `.parquet` (columns `id` and `vector`), `.safetensors` (`vectors`, and
`ids` as a JSON list in its metadata) or `.npy`, whose ids are the lines of a `.txt` file of the same name, if there is
one. An image's id is its reference in the pair set, a text's id the text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.data.item import Item
from tellapart.data.scores import ScoreKind, join_names
from tellapart.data.strict_binary import read_array, read_arrays
from tellapart.data.strict_json import decode_text, parse_json, read_whole
from tellapart.errors import ScoreError, first_line, nearest, quote, require
from tellapart.models.memory.external import read_parquet
from tellapart.models.memory.mistakes import to_array
from tellapart.models.options import ModelOptions, ModelPrefix
from tellapart.models.vectors import dot_products, normalise

SUFFIXES = (".npz", ".parquet", ".safetensors", ".npy")

#: Column of a table -> what it holds.
_HELD = {"id": "id", "ids": "id", "vector": "vector", "vectors": "vector"}

_NEAR = 1e-3  # how far a length may lie from one, of vectors that count as of length one
_REPEATED = 0.01  # how far apart vectors of one id may lie: a model in half precision moves them with the batch


@dataclass(frozen=True, eq=False)
class NamedVectors:
    """Unit vectors float32 `(n, dimensions)`, the row of each id, and their least and greatest length before."""

    side: str
    rows: dict[str, int]
    vectors: NDArray[np.float32]
    lengths: tuple[float, float]

    def find_rows(self, ids: Sequence[str], item: str) -> NDArray[np.float32]:
        """Return the vectors of some ids."""
        for name in ids:
            if name not in self.rows:
                hint = nearest(name, list(self.rows)[:5000]) or ""
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
        """Return whether the vectors had length one."""
        sides = [(side.side, *side.lengths) for side in (self._images, self._texts)]
        return tuple(
            f"the vectors of {side} were scaled to length one: they had lengths from {low:.4g} to {high:.4g}"
            for side, low, high in sides
            if low < 1 - _NEAR or high > 1 + _NEAR
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
        if first != row and np.abs(unit[first] - unit[row]).max() > _REPEATED:
            raise ScoreError(f"{side}=: rows {first} and {row} are both of {quote(name)}, and differ")
    return NamedVectors(side, rows, unit, (float(lengths.min()), float(lengths.max())))


def name_rows(side: str, values: object, ids: Sequence[str] | None, items: Sequence[Item], owner: str) -> NamedVectors:
    """Give each row its id: the caller's, or that of its place among the items' images or texts."""
    array = to_array(values)
    slots = [name for item in items for name in getattr(item, side)]
    if array is not None and array.ndim == 4:
        raise ScoreError(f"score_vectors({side}=): an array {array.shape} holds pixels; give vectors (n, dimensions)")
    if array is not None and array.ndim == 3:
        whole = len(items), len(slots) // len(items)
        if ids is None and 1 not in array.shape[:2] and array.shape[:2] != whole:  # of one axis the order is plain
            raise ScoreError(
                f"{side}= is an array {array.shape}; in the order of the items it is {whole} by dimensions"
            )
        array = array.reshape(-1, array.shape[-1])
    distinct, numbers = list(dict.fromkeys(slots)), values if array is None else array
    if ids is not None:
        named = name_vectors(side, numbers, list(ids))
        known = set(distinct)
        wrong = next((row for row, name in enumerate(ids) if name not in known), None)
        if wrong is not None:
            hint = nearest(ids[wrong], distinct[:5000]) or ""
            raise ScoreError(f"{side}=: row {wrong} has the id {quote(ids[wrong])}, of no item of {owner}{hint}")
        return named
    if array is not None and array.ndim == 2 and len(array) not in {len(distinct), len(slots)}:
        raise ScoreError(
            f"{side}= has {len(array):,} rows, and {owner} {len(slots):,} {side}, {len(distinct):,} of them distinct: "
            f"give one row each, or {side[:-1]}_ids="
        )
    return name_vectors(side, numbers, distinct if array is not None and len(array) == len(distinct) else list(slots))


def read_vectors(path: Path) -> tuple[NDArray[Any], list[str] | None]:
    """Read vectors and their ids, None if the file has none."""
    if path.suffix not in SUFFIXES:
        raise ScoreError(f"{path}: vectors are read from {', '.join(SUFFIXES)}; got {path.suffix!r}")
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
        vectors, ids = (_read_parquet if path.suffix == ".parquet" else _read_safetensors)(path)
    if vectors is None:
        raise ScoreError(f"{path} holds no `vectors`; it must hold vectors (n, dimensions), and ids")
    names = None if ids is None else np.asarray(ids)
    if names is not None and (names.ndim != 1 or names.dtype.kind != "U"):
        raise ScoreError(f"{path}: ids must be texts (n,); got {names.dtype} {names.shape}")
    return vectors, None if names is None else names.tolist()


def _read_parquet(path: Path) -> tuple[Any, Any]:
    names, found = read_parquet(path, list(_HELD))
    columns = {_HELD[name]: cells for name, cells in found.items()}
    if len(columns) < len(found):
        raise ScoreError(f"{path}: columns {join_names(list(found))} hold the same twice; keep one each")
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
            with open_file(path, "np" if numpy_reads else "pt") as file:
                vectors = file.get_tensor("vectors")
    except Exception as error:  # the library raises a bare Exception
        raise ScoreError(f"{path} cannot be read as safetensors: {first_line(error)}") from error
    return vectors, parse_json(metadata["ids"], f"{path}: ids", error=ScoreError) if "ids" in metadata else None


def _files_of(name: str) -> list[Path] | None:
    """Return the files of images' and texts' vectors in a folder; None if one is missing."""
    folder = Path(name.removeprefix("vectors:")).expanduser()
    sides = [[folder / f"{side}{suffix}" for suffix in SUFFIXES] for side in ("images", "texts")]
    files = [file for side in sides for file in [path for path in side if path.is_file()][:1]]
    return files if len(files) == 2 else None


def _load_folder(name: str, _options: ModelOptions) -> VectorModel:
    files = _files_of(name)
    if files is None:
        raise ScoreError(f"{name}: no vectors there: expected images and texts, each with one of {', '.join(SUFFIXES)}")
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
