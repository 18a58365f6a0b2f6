"""Read folders of scanned objects (assets), laid out like Google Scanned Objects, so that scenes can show them.

An asset has `<Name>/meshes/model.obj` and `<Name>/materials/textures/texture.png`, or both files in `<Name>/`. Its
shape is named `<Name>@<digits of its SHA-256>`, so a scene's record names exactly the mesh and the picture.
"""

from __future__ import annotations

import hashlib
import io
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tellapart.data.whole_pictures import load_whole
from tellapart.errors import DataError
from tellapart_render.meshes.mesh import Mesh, Model, Part, Top, area_normals

# Of a Wavefront OBJ file, positions, texture coordinates, normals and polygons are read, and no material libraries:
# their paths need not exist, and may point anywhere.

#: The indices of a triangle's corner: position, texture coordinate and normal, -1 for none.
_Corner = tuple[int, int, int]


@dataclass
class _Geometry:
    """The geometry of an OBJ file as far as it is read; three `corners` follow each other for each triangle."""

    path: Path
    positions: list[list[float]] = field(default_factory=list)
    coordinates: list[list[float]] = field(default_factory=list)
    normals: list[list[float]] = field(default_factory=list)
    corners: list[_Corner] = field(default_factory=list)

    def fault(self, number: int, what: str) -> DataError:
        return DataError(f"{self.path}, line {number}: {what}; export the mesh again as Wavefront OBJ")


def read_obj(path: Path) -> Mesh:
    """Read an OBJ file: polygons become triangle fans; missing normals are computed, missing coordinates are 0.

    `uv` has its origin at the top left, as pictures have (OBJ files count v from below).
    """
    geometry = _Geometry(path)
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                words = line.split("#", 1)[0].split()
                if words:
                    _take_line(geometry, number, words[0], words[1:])
    except FileNotFoundError as missing:
        fix = "an asset is a folder with model.obj or meshes/model.obj"
        raise DataError(f"{path}: no such OBJ file; {fix}") from missing
    except UnicodeDecodeError as broken:
        raise DataError(f"{path}: is not text, so it is not an OBJ file: {broken}") from broken
    if not geometry.corners:
        raise DataError(f"{path}: has no faces; export the mesh again as Wavefront OBJ with its polygons")
    return _make_mesh(geometry)


def _take_line(geometry: _Geometry, number: int, kind: str, words: list[str]) -> None:
    """Take one line; kinds other than v, vt, vn and f do not describe the geometry."""
    if kind in {"v", "vt", "vn"}:
        need = 2 if kind == "vt" else 3
        try:
            values = [float(word) for word in words[:need]]
        except ValueError as wrong:
            raise geometry.fault(number, f"'{kind}' is not followed by numbers: {' '.join(words)!r}") from wrong
        if len(values) < need or not np.isfinite(values).all():
            raise geometry.fault(number, f"'{kind}' needs {need} finite numbers, got {' '.join(words)!r}")
        {"v": geometry.positions, "vt": geometry.coordinates, "vn": geometry.normals}[kind].append(values)
    elif kind == "f":
        if len(words) < 3:
            raise geometry.fault(number, f"a face needs three corners, got {' '.join(words)!r}")
        corners = [_read_corner(geometry, number, word) for word in words]
        for k in range(1, len(corners) - 1):
            geometry.corners += [corners[0], corners[k], corners[k + 1]]


def _read_corner(geometry: _Geometry, number: int, word: str) -> _Corner:
    """Read a corner `position[/coordinate[/normal]]` of numbers from 1, or from the end if negative, as in `7/-1/3`."""
    lists = (geometry.positions, geometry.coordinates, geometry.normals)
    indices = [-1, -1, -1]
    for kind, text in enumerate(word.split("/")[:3]):
        if text == "" and kind > 0:
            continue
        try:
            value = int(text)
        except ValueError as wrong:
            raise geometry.fault(number, f"a face's corner is not a number: {word!r}") from wrong
        count = len(lists[kind])
        index = value - 1 if value > 0 else count + value
        if value == 0 or not 0 <= index < count:
            name = ("vertex", "texture coordinate", "normal")[kind]
            raise geometry.fault(number, f"a face names {name} {value}, but {count} have been read")
        indices[kind] = index
    return indices[0], indices[1], indices[2]


def _make_mesh(geometry: _Geometry) -> Mesh:
    """Return a mesh with a vertex for each distinct corner."""
    corners, inverse = np.unique(np.asarray(geometry.corners, dtype=np.int64), axis=0, return_inverse=True)
    faces = inverse.reshape(-1, 3).astype(np.uint32)
    positions = np.asarray(geometry.positions, dtype=np.float64)
    # Without normals in the file: the mean of the triangles' normals.
    total = area_normals(positions, np.asarray(geometry.corners, dtype=np.int64)[:, 0].reshape(-1, 3))
    length = np.linalg.norm(total, axis=1, keepdims=True)
    smooth = np.where(length > 1e-15, total / np.maximum(length, 1e-15), [0.0, 0.0, 1.0])  # up if there is none
    normals = smooth[corners[:, 0]]
    if geometry.normals:
        given = np.asarray(geometry.normals, dtype=np.float64)[np.maximum(corners[:, 2], 0)]
        length = np.linalg.norm(given, axis=1, keepdims=True)
        is_usable = (corners[:, 2:] >= 0) & (length > 1e-9)
        normals = np.where(is_usable, given / np.maximum(length, 1e-9), normals)
    uv = np.zeros((len(corners), 2))
    if geometry.coordinates:
        uv = np.where(corners[:, 1:2] >= 0, np.asarray(geometry.coordinates)[np.maximum(corners[:, 1], 0)], 0.0)
    uv[:, 1] = 1.0 - uv[:, 1]  # from the top
    return Mesh(positions[corners[:, 0]].astype(np.float32), normals.astype(np.float32), uv.astype(np.float32), faces)


Up = Literal["y", "z"]

_LAYOUTS: tuple[tuple[str, str], ...] = (
    ("meshes/model.obj", "materials/textures/texture.png"),
    ("meshes/model.obj", "meshes/texture.png"),
    ("model.obj", "texture.png"),
)
#: The names of assets' folders, such as `BIA_Cup_8_oz`: no slash, and no dot at the start.
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+()&', -]*")
_LARGEST_TEXTURE = 1024
_FORMATS = ("PNG", "JPEG", "WEBP")


@dataclass(frozen=True, slots=True)
class Asset:
    """A scanned object: its folder's name, its mesh and picture, the SHA-256 of both together, and its upward axis."""

    name: str
    mesh: Path
    picture: Path
    sha256: str
    up: Up

    @property
    def shape(self) -> str:
        """The name of its shape in scenes."""
        return f"{self.name}@{self.sha256[:10]}"


# Model and picture of each asset that this process has read, by the name of its shape, which has a hash of both.
_REGISTERED: dict[str, tuple[Model, NDArray[np.float32]]] = {}


def find_assets(folder: Path) -> list[str]:
    """Return the names of the assets in a folder, sorted."""
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; name one that holds <Name>/meshes/model.obj or <Name>/model.obj")
    names = sorted(path.name for path in folder.iterdir() if any((path / mesh).is_file() for mesh, _ in _LAYOUTS))
    if not names:
        raise DataError(f"{folder}: holds no <Name>/meshes/model.obj and no <Name>/model.obj; name a folder of assets")
    return names


def read_asset(folder: Path, name: str, up: Up = "z") -> Asset:
    """Find an asset's files and hash them."""
    if not _PLAIN.fullmatch(name):
        fault = "is not the name of a folder in it; names hold no slashes and do not start with a dot"
        raise DataError(f"{folder}: {name!r} {fault}")
    home = folder / name
    for mesh, picture in _LAYOUTS:
        if (home / mesh).is_file() and (home / picture).is_file():
            break
    else:
        files = "meshes/model.obj and materials/textures/texture.png, or model.obj and texture.png"
        raise DataError(f"{home}: needs {files}; at least one of them is missing")
    digest = hashlib.sha256()
    for path in (home / mesh, home / picture):
        if not path.resolve().is_relative_to(folder.resolve()):
            raise DataError(f"{path}: leads out of {folder}; copy the file there instead of linking it")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    digest.update(up.encode())
    return Asset(name, home / mesh, home / picture, digest.hexdigest(), up)


def register(asset: Asset) -> str:
    """Read an asset into this process, once, and return its shape's name."""
    if asset.shape not in _REGISTERED:
        mesh = _centre_mesh(read_obj(asset.mesh), asset)
        _REGISTERED[asset.shape] = Model((Part("texture", mesh),), top=_find_plateau(mesh)), _read_linear(asset.picture)
    return asset.shape


def asset_model(name: str) -> Model | None:
    """Return the model of a registered asset's shape, or None."""
    return _REGISTERED[name][0] if name in _REGISTERED else None


def asset_texture(name: str) -> NDArray[np.float32]:
    """Return a registered asset's picture, float32 `(h, w, 3)`, linear RGB."""
    if name not in _REGISTERED:
        raise DataError(f"asset_texture({name!r}): no such asset was read in this process; name its folder as `assets`")
    return _REGISTERED[name][1]


def _centre_mesh(mesh: Mesh, asset: Asset) -> Mesh:
    """Turn the mesh so that z is up, put its base on z = 0, centre its outline, and scale its longest side to 1."""
    vertices, normals = mesh.vertices.astype(np.float64), mesh.normals
    if asset.up == "y":
        # y becomes z; the side that faced +z faces the viewer, at -y.
        turn = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]])
        vertices, normals = vertices @ turn, (normals @ turn).astype(np.float32)
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    if float((high - low).max()) <= 0.0:
        raise DataError(f"{asset.mesh}: all its points are one point; export the mesh again")
    shift = np.array([*(low[:2] + high[:2]) / -2, -low[2]])
    return replace(mesh, vertices=((vertices + shift) / (high - low).max()).astype(np.float32), normals=normals)


def _find_plateau(mesh: Mesh) -> Top | None:
    """Return the flat top, if level triangles near the greatest height cover half of the outline round its middle."""
    a, b, c = (mesh.vertices[mesh.faces[:, k]].astype(np.float64) for k in range(3))
    area = np.cross(b - a, c - a) / 2
    size = np.linalg.norm(area, axis=1)
    height = float(mesh.vertices[:, 2].max())
    middle = (a + b + c) / 3
    is_level = (np.abs(area[:, 2]) > 0.95 * np.maximum(size, 1e-15)) & (middle[:, 2] > 0.97 * height)
    outline = float(np.prod(np.ptp(mesh.vertices[:, :2], axis=0)))
    total = float(size[is_level].sum())
    if total < 0.5 * outline or total <= 0.0:
        return None
    centre = (middle[is_level, :2] * size[is_level, None]).sum(axis=0) / total
    radius = float(np.sqrt(total / np.pi))
    return Top("flat", height, 0.8 * radius) if float(np.hypot(*centre)) < 0.2 * radius else None


def _read_linear(path: Path) -> NDArray[np.float32]:
    """Read a picture as linear RGB, its longer side at most 1,024 pixels."""
    from PIL import Image

    try:
        # Pillow recognises a format by the bytes, and would pass an EPS file to Ghostscript, another program.
        data = path.read_bytes()
        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            load_whole(image, data)
            picture = image.convert("RGB")
            picture.thumbnail((_LARGEST_TEXTURE, _LARGEST_TEXTURE), Image.Resampling.BOX)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError, Image.DecompressionBombWarning) as broken:
        raise DataError(f"{path}: is not a readable picture: {broken}; save the texture again as PNG") from broken
    encoded = np.asarray(picture, dtype=np.float64) / 255.0
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    return linear.astype(np.float32)
