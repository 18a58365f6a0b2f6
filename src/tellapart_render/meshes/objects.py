"""Every object's model, scaled so that its longest side is 1, and the measures by which scenes place it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import UnknownNameError
from tellapart_render.meshes.animals import ANIMALS
from tellapart_render.meshes.assets import asset_model
from tellapart_render.meshes.furnishings import FURNISHINGS
from tellapart_render.meshes.gear import FOOTWEAR, GEAR
from tellapart_render.meshes.parts import Model, Part, Top
from tellapart_render.meshes.tableware import TABLEWARE

_BUILDERS = TABLEWARE | FURNISHINGS | ANIMALS | FOOTWEAR | GEAR

SHAPES: tuple[str, ...] = tuple(_BUILDERS)


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """An object's parts scaled so that its longest side is 1, standing on z = 0 over the origin.

    Attributes:
        parts: meshes, each with the slot of its material.
        extent: sizes along x, y and z.
        reach: the largest horizontal distance of a vertex from the z axis.
        height: the highest vertex's.
        base: smallest and largest half width of the part that touches the ground.
        top: the surface on which a thing can rest; None if there is none.
        hull: all vertices, float32 `(n, 3)`.
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
    if scanned is None and name not in _BUILDERS:
        raise UnknownNameError(
            f"shape({name!r}): no such shape; the shapes are {', '.join(SHAPES)}, and those of asset folders "
            "that were read"
        )
    return _normalise_model(scanned or _BUILDERS[name]())


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
