"""Every object's model, scaled so that its longest side is 1, and the measures by which scenes place it.

The models of the built-in vocabularies are data beside this file: `shapes.npz` has the arrays of each shape, its parts
one after the other, and `shapes.json` each part's slot, vertices and triangles, and the top. A picture's bytes depend
on these numbers, so a new shape is added and none is changed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import UnknownNameError
from tellapart_render.meshes.assets import asset_model
from tellapart_render.meshes.mesh import Mesh, Model, Part, Top

_FOLDER = files("tellapart_render.meshes")
_INDEX = json.loads(_FOLDER.joinpath("shapes.json").read_text(encoding="utf-8"))

SHAPES: tuple[str, ...] = tuple(_INDEX)


def _read_model(name: str) -> Model:
    """Read a shape's parts as they are stored."""
    slots, *sizes = zip(*_INDEX[name]["parts"], strict=True)
    with _FOLDER.joinpath("shapes.npz").open("rb") as file, np.load(file) as stored:
        fields = [stored[f"{name}/{field}"] for field in ("vertices", "normals", "uv", "faces")]
    vertices, triangles = (np.cumsum(counts)[:-1] for counts in sizes)
    columns = zip(*map(np.split, fields, (vertices, vertices, vertices, triangles)), strict=True)
    parts = tuple(Part(slot, Mesh(*arrays)) for slot, arrays in zip(slots, columns, strict=True))
    top = _INDEX[name].get("top")
    return Model(parts, top and Top(*top))


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """An object's parts scaled so that its longest side is 1, standing on z = 0 over the origin.

    `extent` are sizes along x, y and z; `reach` is the largest distance of a vertex, float32 `(n, 3)` in `hull`, from
    the z axis. `base` has the smallest and largest half width of the part on the ground; a thing can rest on `top`, if
    there is one.
    """

    parts: tuple[Part, ...]
    extent: tuple[float, float, float]
    reach: float
    height: float
    base: tuple[float, float]
    top: Top | None
    hull: NDArray[np.float32]


@cache
def shape(name: str) -> Shape:
    """Return the named shape; built once a process."""
    scanned = asset_model(name)
    if scanned is None and name not in _INDEX:
        raise UnknownNameError(
            f"shape({name!r}): no such shape; the shapes are {', '.join(SHAPES)}, and those of asset folders "
            "that were read"
        )
    return _normalise_model(scanned or _read_model(name))


def _normalise_model(model: Model) -> Shape:
    """Put the lowest vertex on z = 0, and scale the longest side to 1."""
    vertices = np.concatenate([part.mesh.vertices for part in model.parts])
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    scale = 1.0 / float((high - low).max())
    # x and y stay: builders put the body's centre at the origin, and a handle must not move it.
    shift = np.array([0.0, 0.0, -low[2]], dtype=np.float32)
    parts = tuple(
        Part(p.slot, replace(p.mesh, vertices=(p.mesh.vertices + shift) * np.float32(scale))) for p in model.parts
    )
    hull = np.concatenate([part.mesh.vertices for part in parts])
    # Vertices within 0.03 of the ground, with room for rounding.
    ground = hull[hull[:, 2] < 0.03 + 1e-6][:, :2]
    height, top = float(hull[:, 2].max()), model.top
    return Shape(
        parts=parts,
        extent=tuple(float(v) for v in (high - low) * scale),  # type: ignore[arg-type]
        reach=float(np.hypot(hull[:, 0], hull[:, 1]).max()),
        height=height,
        base=(float(np.abs(ground).max(axis=0).min()), float(np.hypot(ground[:, 0], ground[:, 1]).max())),
        # The mesh's rounded edges may end a little lower than the height that the builder states.
        top=top and replace(top, height=min(top.height * scale, height), radius=top.radius * scale),
        hull=hull,
    )
