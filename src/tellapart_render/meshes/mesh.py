"""Triangle meshes, the parts of an object that they make, and the place on it where another object can rest.

Lengths are in scene units (1 unit is about 10 cm); z points up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = tuple[float, float, float]


@dataclass(frozen=True, slots=True, eq=False)
class Mesh:
    """Triangles with smooth normals and texture coordinates.

    `vertices` and `normals` are float32 `(n, 3)`, `uv` float32 `(n, 2)`, `faces` uint32 `(m, 3)`.
    """

    vertices: NDArray[np.float32]
    normals: NDArray[np.float32]
    uv: NDArray[np.float32]
    faces: NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Part:
    """A mesh and the name of its material slot (`main` takes the object's attribute)."""

    slot: str
    mesh: Mesh


@dataclass(frozen=True, slots=True)
class Top:
    """A place on which another object can rest: a `flat` plateau, the `rim` of a hollow thing, or a `dish`.

    `height` above the ground and `radius` of the plateau, rim or recess, in the model's units.
    """

    kind: Literal["flat", "rim", "dish"]
    height: float
    radius: float


@dataclass(frozen=True, slots=True)
class Model:
    """The parts of an object with its base at z = 0, and its `top`; None if nothing can rest on the object."""

    parts: tuple[Part, ...]
    top: Top | None = None


def yaw_matrix(yaw: float) -> NDArray[np.float64]:
    """Return the matrix that turns row vectors about z by `yaw` radians."""
    cos, sin = np.cos(yaw), np.sin(yaw)
    return np.array([[cos, sin, 0.0], [-sin, cos, 0.0], [0.0, 0.0, 1.0]])


def area_normals(vertices: NDArray[np.float64], faces: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return, for each vertex, the sum of its triangles' normals, weighted by area; float64 `(n, 3)`."""
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    area = np.cross(b - a, c - a)
    total = np.zeros_like(vertices)
    for k in range(3):
        np.add.at(total, faces[:, k], area)
    return total
