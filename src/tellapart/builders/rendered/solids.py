"""Triangle meshes of simple solids: surfaces of revolution, rounded boxes and swept tubes.

Lengths are in scene units (1 unit is about 10 cm); z points up.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Mesh", "extruded", "place", "revolve", "rounded_box", "rounded_profile", "squared", "stretched", "tube"]

Points = NDArray[np.float32]
Profile = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True, eq=False)
class Mesh:
    """Triangles with smooth normals and texture coordinates.

    `vertices` and `normals` are float32 `(n, 3)`, `uv` float32 `(n, 2)`, `faces` uint32 `(m, 3)`.

    >>> rounded_box((1.0, 1.0, 1.0), 0.1).faces.shape[1]
    3
    """

    vertices: Points
    normals: Points
    uv: Points
    faces: NDArray[np.uint32]


def rounded_profile(corners: Profile, radius: float, steps: int = 4) -> list[tuple[float, float]]:
    """Return the open polyline `(r, z)` with each inner corner replaced by an arc-like Bezier curve.

    Args:
        corners: at least two points `(r, z)`, in scene units.
        radius: how far from the corner the curve starts; never over half of an edge.
        steps: segments of each curve.

    >>> rounded_profile([(0, 0), (1, 0), (1, 1)], 0.25, steps=2)
    [(0.0, 0.0), (0.75, 0.0), (0.9375, 0.0625), (1.0, 0.25), (1.0, 1.0)]
    """
    points = np.asarray(corners, dtype=np.float64)
    out = [points[0]]
    for before, corner, after in zip(points[:-2], points[1:-1], points[2:], strict=True):
        to_before, to_after = before - corner, after - corner
        reach = min(radius, 0.49 * float(np.hypot(*to_before)), 0.49 * float(np.hypot(*to_after)))
        start = corner + to_before / np.hypot(*to_before) * reach
        end = corner + to_after / np.hypot(*to_after) * reach
        curve = np.linspace(0.0, 1.0, steps + 1)
        out += [(1 - t) ** 2 * start + 2 * t * (1 - t) * corner + t**2 * end for t in curve]
    out.append(points[-1])
    return [(float(r), float(z)) for r, z in out]


def revolve(profile: Profile, segments: int = 40) -> Mesh:
    """Turn a polyline `(r, z)` around the z axis; the outside is on the right hand of the walking direction.

    Walk from the bottom centre outwards and up, then inwards: `u` runs round the axis, `v` along the profile.

    >>> cup = revolve([(0.0, 0.0), (0.5, 0.0), (0.5, 1.0)], segments=8)
    >>> cup.vertices.shape, cup.faces.shape
    ((27, 3), (32, 3))
    """
    line = np.asarray(profile, dtype=np.float64)
    angle = np.linspace(0.0, 2.0 * np.pi, segments + 1)
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    tangent = np.gradient(line, axis=0)
    # Averaging unit tangents of both sides keeps a flat base flat up to its rounded edge.
    normal = np.stack([tangent[:, 1], -tangent[:, 0]], axis=1)
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-9)
    vertices = np.concatenate(
        [line[:, None, :1] * ring[None], np.repeat(line[:, None, 1:], segments + 1, axis=1)], axis=2
    )
    normals = np.concatenate(
        [normal[:, None, :1] * ring[None], np.repeat(normal[:, None, 1:], segments + 1, axis=1)], axis=2
    )
    length = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(line, axis=0), axis=1))])
    u, v = np.meshgrid(np.linspace(0.0, 1.0, segments + 1), length / length[-1])
    return _grid(vertices, normals, np.stack([u, v], axis=2))


def _grid(vertices: NDArray[np.float64], normals: NDArray[np.float64], uv: NDArray[np.float64]) -> Mesh:
    """Join a `(rows, columns)` grid of points into triangles."""
    rows, columns = vertices.shape[:2]
    index = np.arange(rows * columns, dtype=np.uint32).reshape(rows, columns)
    a, b, c, d = index[:-1, :-1], index[:-1, 1:], index[1:, 1:], index[1:, :-1]
    faces = np.concatenate([np.stack([a, b, c], -1).reshape(-1, 3), np.stack([a, c, d], -1).reshape(-1, 3)])
    return Mesh(
        vertices.reshape(-1, 3).astype(np.float32),
        normals.reshape(-1, 3).astype(np.float32),
        uv.reshape(-1, 2).astype(np.float32),
        faces,
    )


def _flipped(mesh: Mesh) -> Mesh:
    """Turn every triangle to face the other way; the normals stay."""
    return Mesh(mesh.vertices, mesh.normals, mesh.uv, mesh.faces[:, ::-1].copy())


def _joined(parts: Sequence[Mesh]) -> Mesh:
    """Concatenate meshes into one."""
    offsets = np.cumsum([0] + [len(part.vertices) for part in parts[:-1]])
    return Mesh(
        np.concatenate([part.vertices for part in parts]),
        np.concatenate([part.normals for part in parts]),
        np.concatenate([part.uv for part in parts]),
        np.concatenate([part.faces + np.uint32(o) for part, o in zip(parts, offsets, strict=True)]),
    )


def rounded_box(size: tuple[float, float, float], radius: float) -> Mesh:
    """Return a box with rounded edges, standing on z = 0 and centred in x and y.

    Args:
        size: full width (x), depth (y) and height (z).
        radius: radius of the edges; at most half of the smallest side.

    >>> box = rounded_box((2.0, 1.0, 0.5), 0.1)
    >>> box.vertices.min(axis=0).round(3).tolist(), box.vertices.max(axis=0).round(3).tolist()
    ([-1.0, -0.5, 0.0], [1.0, 0.5, 0.5])
    """
    half = np.asarray(size, dtype=np.float64) / 2.0
    radius = min(radius, 0.999 * float(half.min()))
    inner = half - radius
    # tan(22.5 degrees) puts a ring of points in the middle of each eighth of the rounding.
    steps = np.array([1.0, np.tan(np.pi / 8), 0.0])
    sides = []
    for axis in range(3):
        first, second = (axis + 1) % 3, (axis + 2) % 3
        lines = []
        for k in (first, second):
            rise = inner[k] + radius * steps
            lines.append(np.concatenate([-rise, rise[::-1]]))
        for sign in (-1.0, 1.0):
            p, q = np.meshgrid(lines[0], lines[1], indexing="ij")
            cube = np.empty((*p.shape, 3))
            cube[..., axis], cube[..., first], cube[..., second] = sign * half[axis], p, q
            core = np.clip(cube, -inner, inner)
            normal = cube - core
            normal /= np.linalg.norm(normal, axis=2, keepdims=True)
            vertices = core + radius * normal + np.array([0.0, 0.0, half[2]])
            uv = np.stack([p / half[first], q / half[second]], axis=2) / 2 + 0.5
            side = _grid(vertices, normal, uv)
            sides.append(_flipped(side) if sign > 0 else side)
    return _joined(sides)


def tube(
    path: Sequence[tuple[float, float, float]],
    radius: tuple[float, float],
    taper: float = 1.0,
    segments: int = 12,
) -> Mesh:
    """Sweep an ellipse along a path that lies in the plane y = 0 (a handle, a spout, a wire).

    Args:
        path: points `(x, y, z)`; y shifts the whole tube.
        radius: half axes of the ellipse: in the plane of the path, and across it (along y).
        taper: the ellipse's size at the end of the path, as a share of its size at the start.
        segments: points round the ellipse.

    >>> tube([(0, 0, 0), (0, 0, 1)], (0.1, 0.1), segments=4).vertices.shape
    (10, 3)
    """
    line = np.asarray(path, dtype=np.float64)
    tangent = np.gradient(line, axis=0)
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    across = np.array([0.0, 1.0, 0.0])
    within = np.cross(tangent, across)
    within /= np.maximum(np.linalg.norm(within, axis=1, keepdims=True), 1e-9)
    angle = np.linspace(0.0, 2.0 * np.pi, segments + 1)
    cos, sin = np.cos(angle)[None, :, None], np.sin(angle)[None, :, None]
    normals = within[:, None, :] * cos / radius[0] + across * sin / radius[1]
    normals /= np.linalg.norm(normals, axis=2, keepdims=True)
    narrowing = np.linspace(1.0, taper, len(line))[:, None, None]
    offset = within[:, None, :] * radius[0] * cos + across * radius[1] * sin
    vertices = line[:, None, :] + narrowing * offset
    u, v = np.meshgrid(np.linspace(0, 1, segments + 1), np.linspace(0, 1, len(line)))
    return _grid(vertices, normals, np.stack([u, v], axis=2))


def extruded(outline: Profile, depth: float) -> Mesh:
    """Extrude a convex outline in the x-z plane along y, centred, with flat caps and hard edges.

    >>> extruded([(0, 0), (1, 0), (0, 1)], 0.5).faces.shape
    (8, 3)
    """
    line = np.asarray(outline, dtype=np.float64)
    count = len(line)
    closed = np.concatenate([line, line[:1]])
    sides = []
    for start, end in itertools.pairwise(closed):
        out = np.array([end[1] - start[1], 0.0, -(end[0] - start[0])])
        out /= np.linalg.norm(out)
        rows = [[(p[0], y, p[1]) for p in (start, end)] for y in (-depth / 2, depth / 2)]
        uv = np.array([[(0.0, 0.0), (1.0, 0.0)], [(0.0, 1.0), (1.0, 1.0)]])
        sides.append(_flipped(_grid(np.asarray(rows), np.broadcast_to(out, (2, 2, 3)), uv)))
    span = np.ptp(line, axis=0)
    for sign in (-1.0, 1.0):
        vertices = np.stack([line[:, 0], np.full(count, sign * depth / 2), line[:, 1]], axis=1)
        fan = np.array([(0, i, i + 1) for i in range(1, count - 1)], dtype=np.uint32)
        sides.append(
            Mesh(
                vertices.astype(np.float32),
                np.tile(np.array([0.0, sign, 0.0], dtype=np.float32), (count, 1)),
                ((line - line.min(axis=0)) / np.maximum(span, 1e-9)).astype(np.float32),
                fan if sign < 0 else fan[:, ::-1].copy(),
            )
        )
    return _joined(sides)


def squared(mesh: Mesh, power: float = 6.0) -> Mesh:
    """Warp a solid of revolution so that its circles become rounded squares of the same half width.

    >>> plate = squared(revolve([(0.0, 0.0), (1.0, 0.0), (1.0, 0.1)], segments=8))
    >>> plate.vertices[:, :2].max().round(2).item()
    1.0
    """
    x, y = mesh.vertices[:, 0], mesh.vertices[:, 1]
    angle = np.arctan2(y, x)
    norm = (np.abs(np.cos(angle)) ** power + np.abs(np.sin(angle)) ** power) ** (-1.0 / power)
    vertices = mesh.vertices.copy()
    vertices[:, 0], vertices[:, 1] = x * norm, y * norm
    return _resmoothed(Mesh(vertices, mesh.normals, mesh.uv, mesh.faces))


def _resmoothed(mesh: Mesh) -> Mesh:
    """Recompute normals as the area-weighted mean over each vertex's triangles."""
    a, b, c = (mesh.vertices[mesh.faces[:, k]].astype(np.float64) for k in range(3))
    area = np.cross(b - a, c - a)
    total = np.zeros(mesh.vertices.shape)
    for k in range(3):
        np.add.at(total, mesh.faces[:, k], area)
    length = np.linalg.norm(total, axis=1, keepdims=True)
    normals = np.where(length > 1e-12, total / np.maximum(length, 1e-12), mesh.normals)
    return Mesh(mesh.vertices, normals.astype(np.float32), mesh.uv, mesh.faces)


def stretched(mesh: Mesh, factors: tuple[float, float, float]) -> Mesh:
    """Scale along the axes by different factors.

    >>> stretched(rounded_box((1.0, 1.0, 1.0), 0.1), (2.0, 1.0, 1.0)).vertices[:, 0].max().item()
    1.0
    """
    scale = np.asarray(factors, dtype=np.float32)
    normals = mesh.normals / scale
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    return Mesh((mesh.vertices * scale).astype(np.float32), normals.astype(np.float32), mesh.uv, mesh.faces)


def place(
    mesh: Mesh,
    offset: tuple[float, float, float] = (0.0, 0.0, 0.0),
    yaw: float = 0.0,
    pitch: float = 0.0,
) -> Mesh:
    """Turn about x by `pitch`, then about z by `yaw` (radians), then move.

    >>> turned = place(rounded_box((2.0, 1.0, 1.0), 0.1), (0, 0, 1), yaw=np.pi / 2)
    >>> turned.vertices.max(axis=0).round(3).tolist()
    [0.5, 1.0, 2.0]
    """
    cos, sin = np.cos(pitch), np.sin(pitch)
    tilt = np.array([[1.0, 0.0, 0.0], [0.0, cos, sin], [0.0, -sin, cos]])
    cos, sin = np.cos(yaw), np.sin(yaw)
    turn = tilt @ np.array([[cos, sin, 0.0], [-sin, cos, 0.0], [0.0, 0.0, 1.0]])
    return Mesh(
        (mesh.vertices @ turn + np.asarray(offset)).astype(np.float32),
        (mesh.normals @ turn).astype(np.float32),
        mesh.uv,
        mesh.faces,
    )
