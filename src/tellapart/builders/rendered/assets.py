"""A folder of scanned objects as the source of what scenes show, laid out like Google Scanned Objects.

`<Name>/meshes/model.obj` with `<Name>/materials/textures/texture.png`, or both flat in `<Name>/`. An asset's shape is
named `<Name>@<digits of its SHA-256>`, so a scene's record says exactly which mesh and picture it shows.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tellapart.builders.rendered.solids import Mesh
from tellapart.builders.rendered.tableware import Model, Part, Top
from tellapart.builders.rendered.wavefront import read_obj
from tellapart.errors import DataError

__all__ = ["Asset", "find_assets", "read_asset", "register", "registered", "texture"]

Up = Literal["y", "z"]

_LAYOUTS: tuple[tuple[str, str], ...] = (
    ("meshes/model.obj", "materials/textures/texture.png"),
    ("meshes/model.obj", "meshes/texture.png"),
    ("model.obj", "texture.png"),
)
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+()&', -]*")
_LARGEST_TEXTURE = 1024


@dataclass(frozen=True, slots=True)
class Asset:
    """A scanned object: its folder's name, where its mesh and picture are, and the SHA-256 of both together.

    >>> Asset("Mug", Path("model.obj"), Path("texture.png"), "0123456789abcdef", "z").shape
    'Mug@0123456789'
    """

    name: str
    mesh: Path
    picture: Path
    sha256: str
    up: Up

    @property
    def shape(self) -> str:
        """What scenes call it.

        >>> Asset("Cup", Path("m"), Path("t"), "f" * 64, "z").shape
        'Cup@ffffffffff'
        """
        return f"{self.name}@{self.sha256[:10]}"


@dataclass
class _Shelf:
    """What this process may show, by the name of its shape. The name holds a hash, so no entry ever changes."""

    models: dict[str, Model] = field(default_factory=dict)
    pictures: dict[str, NDArray[np.float32]] = field(default_factory=dict)


_SHELF = _Shelf()


def find_assets(folder: Path) -> list[str]:
    """Return the names of the assets in a folder, sorted.

    Raises:
        DataError: the folder is missing or holds no asset.

    >>> find_assets(Path("missing"))
    Traceback (most recent call last):
    tellapart.errors.DataError: missing: no such folder; name one that holds <Name>/meshes/model.obj or <Name>/model.obj
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; name one that holds <Name>/meshes/model.obj or <Name>/model.obj")
    names = sorted(each.name for each in folder.iterdir() if any((each / mesh).is_file() for mesh, _ in _LAYOUTS))
    if not names:
        raise DataError(f"{folder}: holds no <Name>/meshes/model.obj and no <Name>/model.obj; name a folder of assets")
    return names


def read_asset(folder: Path, name: str, up: Up = "z") -> Asset:
    """Find an asset's files and hash them.

    Raises:
        DataError: the name is not that of a folder there, a file is missing, or it lies outside the folder.

    >>> read_asset(Path("scans"), "../secret")
    Traceback (most recent call last):
    tellapart.errors.DataError: scans: '../secret' is not the name of a folder in it; names hold no slashes and do not start with a dot
    """
    if not _PLAIN.fullmatch(name):
        raise DataError(
            f"{folder}: {name!r} is not the name of a folder in it; names hold no slashes and do not start with a dot"
        )
    home = folder / name
    for mesh, picture in _LAYOUTS:
        if (home / mesh).is_file() and (home / picture).is_file():
            break
    else:
        raise DataError(
            f"{home}: needs meshes/model.obj and materials/textures/texture.png, or model.obj and texture.png; "
            "at least one of them is missing"
        )
    digest = hashlib.sha256()
    for path in (home / mesh, home / picture):
        if not path.resolve().is_relative_to(folder.resolve()):
            raise DataError(f"{path}: leads out of {folder}; copy the file there instead of linking it")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    digest.update(up.encode())
    return Asset(name, home / mesh, home / picture, digest.hexdigest(), up)


def register(asset: Asset) -> str:
    """Read an asset into this process, once, and return its shape's name.

    Raises:
        DataError: the mesh or the picture is not readable, or the mesh is flat in all directions.

    >>> register(Asset("Mug", Path("missing.obj"), Path("missing.png"), "0" * 64, "z"))
    Traceback (most recent call last):
    tellapart.errors.DataError: missing.obj: no such OBJ file; an asset is a folder with model.obj or meshes/model.obj
    """
    if asset.shape not in _SHELF.models:
        mesh = _centred(read_obj(asset.mesh), asset)
        picture = _linear(asset.picture)
        _SHELF.models[asset.shape] = Model((Part("texture", mesh),), top=_plateau(mesh))
        _SHELF.pictures[asset.shape] = picture
    return asset.shape


def registered(name: str) -> Model | None:
    """Return the model of a registered asset's shape, or None.

    >>> registered("mug") is None
    True
    """
    return _SHELF.models.get(name)


def texture(name: str) -> NDArray[np.float32]:
    """Return a registered asset's picture, float32 `(h, w, 3)`, linear RGB.

    Raises:
        DataError: no such asset is registered.

    >>> texture("mug")
    Traceback (most recent call last):
    tellapart.errors.DataError: texture('mug'): no such asset was read in this process; name its folder as `assets`
    """
    if name not in _SHELF.pictures:
        raise DataError(f"texture({name!r}): no such asset was read in this process; name its folder as `assets`")
    return _SHELF.pictures[name]


def _centred(mesh: Mesh, asset: Asset) -> Mesh:
    """Turn z up, stand on z = 0, and put the middle of the outline over the origin."""
    vertices, normals = mesh.vertices.astype(np.float64), mesh.normals
    if asset.up == "y":
        # x stays, y goes up: what faced +z faces the viewer.
        turn = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]])
        vertices, normals = vertices @ turn, (normals @ turn).astype(np.float32)
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    if float((high - low).max()) <= 0.0:
        raise DataError(f"{asset.mesh}: all its points are one point; export the mesh again")
    shift = np.array([*(low[:2] + high[:2]) / -2, -low[2]])
    return replace(mesh, vertices=((vertices + shift) / (high - low).max()).astype(np.float32), normals=normals)


def _plateau(mesh: Mesh) -> Top | None:
    """Return the flat top, if level triangles near the greatest height fill a disc over the middle."""
    a, b, c = (mesh.vertices[mesh.faces[:, k]].astype(np.float64) for k in range(3))
    area = np.cross(b - a, c - a) / 2
    size = np.linalg.norm(area, axis=1)
    height = float(mesh.vertices[:, 2].max())
    middle = (a + b + c) / 3
    level = (np.abs(area[:, 2]) > 0.95 * np.maximum(size, 1e-15)) & (middle[:, 2] > 0.97 * height)
    outline = float(np.prod(np.ptp(mesh.vertices[:, :2], axis=0)))
    whole = float(size[level].sum())
    if whole < 0.5 * outline or whole <= 0.0:
        return None
    centre = (middle[level, :2] * size[level, None]).sum(axis=0) / whole
    radius = float(np.sqrt(whole / np.pi))
    return Top("flat", height, 0.8 * radius) if float(np.hypot(*centre)) < 0.2 * radius else None


def _linear(path: Path) -> NDArray[np.float32]:
    """Read a picture as linear RGB, its longer side at most 1,024 pixels."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            picture = image.convert("RGB")
            picture.thumbnail((_LARGEST_TEXTURE, _LARGEST_TEXTURE), Image.Resampling.BOX)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError, Image.DecompressionBombWarning) as broken:
        raise DataError(f"{path}: is not a readable picture: {broken}; save the texture again as PNG") from broken
    encoded = np.asarray(picture, dtype=np.float64) / 255.0
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    return linear.astype(np.float32)
