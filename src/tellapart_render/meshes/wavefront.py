"""Read a Wavefront OBJ file's geometry: positions, texture coordinates, normals and polygons, and nothing else.

Material libraries are not followed: the paths in an OBJ file need not exist, and may point anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tellapart.errors import DataError
from tellapart_render.meshes.solids import Mesh, area_normals

__all__ = ["read_obj"]


@dataclass
class _Lines:
    """The parts read so far; a triangle's corners are `(position, texture coordinate, normal)`, -1 for none."""

    path: Path
    positions: list[list[float]] = field(default_factory=list)
    coordinates: list[list[float]] = field(default_factory=list)
    normals: list[list[float]] = field(default_factory=list)
    triangles: list[tuple[int, int, int]] = field(default_factory=list)

    def fault(self, number: int, what: str) -> DataError:
        return DataError(f"{self.path}, line {number}: {what}; export the mesh again as Wavefront OBJ")


def read_obj(path: Path) -> Mesh:
    """Read an OBJ file: polygons become triangle fans; missing normals are computed, missing coordinates are 0.

    `uv` has its origin at the top left, as pictures have (OBJ files count v from below).

    Raises:
        DataError: the file is missing or not text, or OBJ does not allow a line, which it names.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model.obj"
    ...     _ = path.write_text("v 0 0 0\\nv 1 0 0\\nv 1 1 0\\nv 0 1 0\\nf 1 2 3 4\\n")
    ...     read_obj(path).faces.shape
    (2, 3)
    """
    read = _Lines(path)
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                words = line.split("#", 1)[0].split()
                if words:
                    _take_line(read, number, words[0], words[1:])
    except FileNotFoundError as missing:
        raise DataError(
            f"{path}: no such OBJ file; an asset is a folder with model.obj or meshes/model.obj"
        ) from missing
    except UnicodeDecodeError as broken:
        raise DataError(f"{path}: is not text, so it is not an OBJ file: {broken}") from broken
    if not read.triangles:
        raise DataError(f"{path}: has no faces; export the mesh again as Wavefront OBJ with its polygons")
    return _make_mesh(read)


def _take_line(read: _Lines, number: int, kind: str, words: list[str]) -> None:
    """Take one line; kinds other than v, vt, vn and f do not describe the geometry."""
    if kind in {"v", "vt", "vn"}:
        need = 2 if kind == "vt" else 3
        try:
            values = [float(word) for word in words[:need]]
        except ValueError as wrong:
            raise read.fault(number, f"'{kind}' is not followed by numbers: {' '.join(words)!r}") from wrong
        if len(values) < need or not np.isfinite(values).all():
            raise read.fault(number, f"'{kind}' needs {need} finite numbers, got {' '.join(words)!r}")
        {"v": read.positions, "vt": read.coordinates, "vn": read.normals}[kind].append(values)
    elif kind == "f":
        if len(words) < 3:
            raise read.fault(number, f"a face needs three corners, got {' '.join(words)!r}")
        corners = [_read_corner(read, number, word) for word in words]
        for k in range(1, len(corners) - 1):
            read.triangles += [corners[0], corners[k], corners[k + 1]]


def _read_corner(read: _Lines, number: int, word: str) -> tuple[int, int, int]:
    """Read `position[/coordinate[/normal]]`: counted from 1, or from the end if negative."""
    lists = (read.positions, read.coordinates, read.normals)
    indices = [-1, -1, -1]
    for kind, text in enumerate(word.split("/")[:3]):
        if text == "" and kind > 0:
            continue
        try:
            value = int(text)
        except ValueError as wrong:
            raise read.fault(number, f"a face's corner is not a number: {word!r}") from wrong
        count = len(lists[kind])
        index = value - 1 if value > 0 else count + value
        if value == 0 or not 0 <= index < count:
            name = ("vertex", "texture coordinate", "normal")[kind]
            raise read.fault(number, f"a face names {name} {value}, but {count} have been read")
        indices[kind] = index
    return indices[0], indices[1], indices[2]


def _make_mesh(read: _Lines) -> Mesh:
    """Give every distinct corner a separate vertex."""
    corners, inverse = np.unique(np.asarray(read.triangles, dtype=np.int64), axis=0, return_inverse=True)
    faces = inverse.reshape(-1, 3).astype(np.uint32)
    positions = np.asarray(read.positions, dtype=np.float64)
    total = area_normals(positions, np.asarray(read.triangles, dtype=np.int64)[:, 0].reshape(-1, 3))
    length = np.linalg.norm(total, axis=1, keepdims=True)
    smooth = np.where(length > 1e-15, total / np.maximum(length, 1e-15), [0.0, 0.0, 1.0])  # up if there is none
    normals = smooth[corners[:, 0]]
    if read.normals:
        own = np.asarray(read.normals, dtype=np.float64)[np.maximum(corners[:, 2], 0)]
        length = np.linalg.norm(own, axis=1, keepdims=True)
        usable = (corners[:, 2:] >= 0) & (length > 1e-9)
        normals = np.where(usable, own / np.maximum(length, 1e-9), normals)
    uv = np.zeros((len(corners), 2))
    if read.coordinates:
        uv = np.where(corners[:, 1:2] >= 0, np.asarray(read.coordinates)[np.maximum(corners[:, 1], 0)], 0.0)
    uv[:, 1] = 1.0 - uv[:, 1]
    return Mesh(positions[corners[:, 0]].astype(np.float32), normals.astype(np.float32), uv.astype(np.float32), faces)
