"""The models of all objects, scaled so that the longest side is 1, and the measures by which scenes place them.

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
    """Return a built-in shape's model, as it is stored."""
    with _FOLDER.joinpath("shapes.npz").open("rb") as file, np.load(file) as stored:
        vertices, normals, uv, faces = (stored[f"{name}/{field}"] for field in ("vertices", "normals", "uv", "faces"))
    parts, vertex, triangle = [], 0, 0
    for slot, vertex_count, triangle_count in _INDEX[name]["parts"]:
        rows, vertex = slice(vertex, vertex + vertex_count), vertex + vertex_count
        part_faces, triangle = faces[triangle : triangle + triangle_count], triangle + triangle_count
        parts.append(Part(slot, Mesh(vertices[rows], normals[rows], uv[rows], part_faces)))
    top = _INDEX[name].get("top")
    return Model(tuple(parts), None if top is None else Top(*top))


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """An object's parts scaled so that its longest side is 1, standing on z = 0 over the origin.

    `hull` has the vertices of all parts, float32 `(n, 3)`. `extent` are the sizes along x, y and z; `reach` is the
    largest distance of a vertex from the z axis. `base` has the smallest and largest half width of the part on the
    ground. A thing can rest on `top`, if there is one.
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
        choices = f"{', '.join(SHAPES)}, and those of asset folders that were read"
        raise UnknownNameError(f"shape({name!r}): no such shape; the shapes are {choices}")
    return _normalise_model(scanned or _read_model(name))


def _normalise_model(model: Model) -> Shape:
    """Put the lowest vertex on z = 0, and scale the longest side to 1."""
    vertices = np.concatenate([part.mesh.vertices for part in model.parts])
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    scale = 1.0 / float((high - low).max())
    # x and y stay: the model's body is centred at the origin, and a handle must not move it.
    shift = np.array([0.0, 0.0, -low[2]], dtype=np.float32)
    parts = tuple(
        Part(part.slot, replace(part.mesh, vertices=(part.mesh.vertices + shift) * np.float32(scale)))
        for part in model.parts
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
        # The mesh's rounded edges may end a little lower than the height that the model states.
        top=top and replace(top, height=min(top.height * scale, height), radius=top.radius * scale),
        hull=hull,
    )
