"""Triangle meshes of simple solids: surfaces of revolution, rounded boxes, swept tubes and extruded outlines.

Lengths are in scene units (1 unit is about 10 cm); z points up.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

#: Rows of coordinates: `(r, z)` of a profile, `(x, y, z)` of a path.
Points: TypeAlias = Sequence[Sequence[float]] | NDArray[np.float64]
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


def points(text: str) -> NDArray[np.float64]:
    """Read rows of numbers: the short form in which the models' outlines and paths are written.

    >>> points("0,0 .5,.25").tolist()
    [[0.0, 0.0], [0.5, 0.25]]
    """
    return np.array([[float(number) for number in row.split(",")] for row in text.split()])


def yaw_matrix(yaw: float) -> NDArray[np.float64]:
    """Return the matrix that turns row vectors about z by `yaw` radians."""
    cos, sin = np.cos(yaw), np.sin(yaw)
    return np.array([[cos, sin, 0.0], [-sin, cos, 0.0], [0.0, 0.0, 1.0]])


def round_corners(corners: Points, radius: float, steps: int = 4) -> NDArray[np.float64]:
    """Return the open polyline `(r, z)` with each inner corner replaced by an arc-like Bezier curve."""
    line = np.asarray(corners, dtype=np.float64)
    out = [line[0]]
    for before, corner, after in zip(line[:-2], line[1:-1], line[2:], strict=True):
        to_before, to_after = before - corner, after - corner
        reach = min(radius, 0.49 * float(np.hypot(*to_before)), 0.49 * float(np.hypot(*to_after)))
        start = corner + to_before / np.hypot(*to_before) * reach
        end = corner + to_after / np.hypot(*to_after) * reach
        curve = np.linspace(0.0, 1.0, steps + 1)
        out += [(1 - t) ** 2 * start + 2 * t * (1 - t) * corner + t**2 * end for t in curve]
    return np.stack([*out, line[-1]])


def revolve(profile: Points, segments: int = 40) -> Mesh:
    """Turn a polyline `(r, z)` around the z axis; the outside is on the right hand of the walking direction.

    Walk from the bottom centre outwards and up, then inwards: `u` runs round the axis, `v` along the profile.
    """
    line = np.asarray(profile, dtype=np.float64)
    angle = np.linspace(0.0, 2.0 * np.pi, segments + 1)
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    tangent = np.gradient(line, axis=0)
    # Averaging unit tangents of both sides keeps a flat base flat up to its rounded edge.
    normal = np.stack([tangent[:, 1], -tangent[:, 0]], axis=1)
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-9)
    vertices, normals = (
        np.concatenate([rows[:, None, :1] * ring[None], np.repeat(rows[:, None, 1:], segments + 1, axis=1)], axis=2)
        for rows in (line, normal)
    )
    length = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(line, axis=0), axis=1))])
    u, v = np.meshgrid(np.linspace(0.0, 1.0, segments + 1), length / length[-1])
    return _join_grid(vertices, normals, np.stack([u, v], axis=2))


def grid_faces(rows: int, columns: int) -> NDArray[np.uint32]:
    """Return the triangles of a grid of points, two for each cell, uint32 `(m, 3)`."""
    index = np.arange(rows * columns, dtype=np.uint32).reshape(rows, columns)
    a, b, c, d = index[:-1, :-1], index[:-1, 1:], index[1:, 1:], index[1:, :-1]
    return np.concatenate([np.stack([a, b, c], -1).reshape(-1, 3), np.stack([a, c, d], -1).reshape(-1, 3)])


def _join_grid(vertices: NDArray[np.float64], normals: NDArray[np.float64], uv: NDArray[np.float64]) -> Mesh:
    """Join a `(rows, columns)` grid of points into triangles."""
    flat = [part.reshape(-1, part.shape[2]).astype(np.float32) for part in (vertices, normals, uv)]
    return Mesh(flat[0], flat[1], flat[2], grid_faces(*vertices.shape[:2]))


def _flip_mesh(mesh: Mesh) -> Mesh:
    """Turn every triangle to face the other way; the normals stay."""
    return replace(mesh, faces=mesh.faces[:, ::-1].copy())


def _join_meshes(parts: Sequence[Mesh]) -> Mesh:
    """Concatenate meshes into one."""
    offsets = np.cumsum([0] + [len(part.vertices) for part in parts[:-1]])
    return Mesh(
        np.concatenate([part.vertices for part in parts]),
        np.concatenate([part.normals for part in parts]),
        np.concatenate([part.uv for part in parts]),
        np.concatenate([part.faces + np.uint32(o) for part, o in zip(parts, offsets, strict=True)]),
    )


def rounded_box(size: Vector, radius: float) -> Mesh:
    """Return a box with rounded edges, standing on z = 0 and centred in x and y."""
    half = np.asarray(size, dtype=np.float64) / 2.0
    radius = min(radius, 0.999 * float(half.min()))
    inner = half - radius
    # tan(22.5 degrees) puts a ring of points in the middle of each eighth of the rounding.
    steps = np.array([1.0, np.tan(np.pi / 8), 0.0])
    rises = [inner[axis] + radius * steps for axis in range(3)]
    lines = [np.concatenate([-rise, rise[::-1]]) for rise in rises]
    sides = []
    for axis in range(3):
        first, second = (axis + 1) % 3, (axis + 2) % 3
        for sign in (-1.0, 1.0):
            p, q = np.meshgrid(lines[first], lines[second], indexing="ij")
            cube = np.empty((*p.shape, 3))
            cube[..., axis], cube[..., first], cube[..., second] = sign * half[axis], p, q
            core = np.clip(cube, -inner, inner)
            normal = cube - core
            normal /= np.linalg.norm(normal, axis=2, keepdims=True)
            vertices = core + radius * normal + np.array([0.0, 0.0, half[2]])
            uv = np.stack([p / half[first], q / half[second]], axis=2) / 2 + 0.5
            side = _join_grid(vertices, normal, uv)
            sides.append(_flip_mesh(side) if sign > 0 else side)
    return _join_meshes(sides)


def tube(path: Points, radius: tuple[float, float], taper: float = 1.0, segments: int = 12) -> Mesh:
    """Sweep an ellipse along a path that lies in the plane y = 0 (a handle, a spout, a wire)."""
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
    return _join_grid(vertices, normals, np.stack([u, v], axis=2))


def extrude(outline: Points, depth: float) -> Mesh:
    """Extrude a convex outline in the x-z plane along y, centred, with flat caps and hard edges."""
    line = np.asarray(outline, dtype=np.float64)
    count = len(line)
    sides = []
    for start, end in itertools.pairwise(np.concatenate([line, line[:1]])):
        out = np.array([end[1] - start[1], 0.0, -(end[0] - start[0])])
        out /= np.linalg.norm(out)
        rows = [[(p[0], y, p[1]) for p in (start, end)] for y in (-depth / 2, depth / 2)]
        uv = np.array([[(0.0, 0.0), (1.0, 0.0)], [(0.0, 1.0), (1.0, 1.0)]])
        sides.append(_flip_mesh(_join_grid(np.asarray(rows), np.broadcast_to(out, (2, 2, 3)), uv)))
    caps = (line - line.min(axis=0)) / np.maximum(np.ptp(line, axis=0), 1e-9)
    fan = np.array([(0, i, i + 1) for i in range(1, count - 1)], dtype=np.uint32)
    for sign in (-1.0, 1.0):
        vertices = np.stack([line[:, 0], np.full(count, sign * depth / 2), line[:, 1]], axis=1).astype(np.float32)
        normals = np.tile(np.array([0.0, sign, 0.0], dtype=np.float32), (count, 1))
        cap = Mesh(vertices, normals, caps.astype(np.float32), fan)
        sides.append(cap if sign < 0 else _flip_mesh(cap))
    return _join_meshes(sides)


def square_off(mesh: Mesh, power: float = 6.0) -> Mesh:
    """Warp a solid of revolution so that its circles become rounded squares of the same half width."""
    x, y = mesh.vertices[:, 0], mesh.vertices[:, 1]
    angle = np.arctan2(y, x)
    norm = (np.abs(np.cos(angle)) ** power + np.abs(np.sin(angle)) ** power) ** (-1.0 / power)
    vertices = mesh.vertices.copy()
    vertices[:, 0], vertices[:, 1] = x * norm, y * norm
    total = area_normals(vertices.astype(np.float64), mesh.faces)
    length = np.linalg.norm(total, axis=1, keepdims=True)
    normals = np.where(length > 1e-12, total / np.maximum(length, 1e-12), mesh.normals)
    return replace(mesh, vertices=vertices, normals=normals.astype(np.float32))


def area_normals(vertices: NDArray[np.float64], faces: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return each vertex's sum of its triangles' normals, weighted by their areas; float64 `(n, 3)`."""
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    area = np.cross(b - a, c - a)
    total = np.zeros_like(vertices)
    for k in range(3):
        np.add.at(total, faces[:, k], area)
    return total


def stretch(mesh: Mesh, factors: Vector) -> Mesh:
    """Scale along the axes by different factors."""
    scale = np.asarray(factors, dtype=np.float32)
    normals = mesh.normals / scale
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    return replace(mesh, vertices=(mesh.vertices * scale).astype(np.float32), normals=normals.astype(np.float32))


def move(mesh: Mesh, offset: Vector = (0.0, 0.0, 0.0), yaw: float = 0.0, pitch: float = 0.0) -> Mesh:
    """Turn about x by `pitch`, then about z by `yaw` (radians), then move by `offset`."""
    cos, sin = np.cos(pitch), np.sin(pitch)
    turn = np.array([[1.0, 0.0, 0.0], [0.0, cos, sin], [0.0, -sin, cos]]) @ yaw_matrix(yaw)
    vertices = (mesh.vertices @ turn + np.asarray(offset)).astype(np.float32)
    return replace(mesh, vertices=vertices, normals=(mesh.normals @ turn).astype(np.float32))


# Triangle meshes of grown shapes: lofts through oval sections, balls, and limbs between points.
#
# Lengths are in scene units; z points up. Animals, shoes and gloves are made of them.


def _closed_grid(points: NDArray[np.float64]) -> Mesh:
    """Join a `(rows, columns, 3)` grid whose last column repeats its first; normals are smooth over the seam."""
    rows, columns = points.shape[:2]
    faces = grid_faces(rows, columns)
    flat = points.reshape(-1, 3)
    grid = area_normals(flat, faces).reshape(rows, columns, 3)
    grid[:, 0] = grid[:, -1] = grid[:, 0] + grid[:, -1]
    # The points of a pole are one point: they share the sum of their normals.
    for row in (0, -1):
        if float(np.ptp(points[row], axis=0).max()) < 1e-9:
            grid[row] = grid[row].sum(axis=0)
    length = np.linalg.norm(grid, axis=2, keepdims=True)
    normals = np.where(length > 1e-12, grid / np.maximum(length, 1e-12), [0.0, 0.0, 1.0])
    u, v = np.meshgrid(np.linspace(0, 1, columns), np.linspace(0, 1, rows))
    uv = np.stack([u, v], axis=2).reshape(-1, 2)
    return Mesh(flat.astype(np.float32), normals.reshape(-1, 3).astype(np.float32), uv.astype(np.float32), faces)


def _smooth_rows(rows: NDArray[np.float64], steps: int) -> NDArray[np.float64]:
    """Return a cubic curve through rows of numbers, `steps` pieces between two of them; never beyond their range."""
    slope = np.gradient(rows, axis=0)
    t = np.linspace(0.0, 1.0, steps, endpoint=False)[:, None]
    pieces = [
        (2 * t**3 - 3 * t**2 + 1) * rows[k]
        + (t**3 - 2 * t**2 + t) * slope[k]
        + (3 * t**2 - 2 * t**3) * rows[k + 1]
        + (t**3 - t**2) * slope[k + 1]
        for k in range(len(rows) - 1)
    ]
    curve: NDArray[np.float64] = np.clip(np.concatenate([*pieces, rows[-1:]]), rows.min(axis=0), rows.max(axis=0))
    return curve


def loft(stations: Points, power: float = 2.0, *, steps: int = 5, segments: int = 28) -> Mesh:
    """Skin over upright sections along x, closed at both ends.

    >>> bean = loft([(-1.0, 0.2, 0.3, 0.05), (0.0, 0.0, 0.5, 0.3), (1.0, 0.2, 0.3, 0.05)])
    >>> bean.vertices.max(axis=0).astype(float).round(2).tolist()
    [1.0, 0.3, 0.5]
    """
    rows = _smooth_rows(np.asarray(stations, dtype=np.float64), steps)
    angle = np.linspace(0.0, 2.0 * np.pi, segments + 1)
    round_y, round_z = (np.sign(w) * np.abs(w) ** (2.0 / power) for w in (np.cos(angle), np.sin(angle)))
    middle, half = (rows[:, 1] + rows[:, 2]) / 2, (rows[:, 2] - rows[:, 1]) / 2
    x = np.repeat(rows[:, :1], segments + 1, axis=1)
    points = np.stack([x, rows[:, 3:] * round_y, middle[:, None] + half[:, None] * round_z], axis=2)
    caps = [np.repeat(section.mean(axis=0)[None], segments + 1, axis=0)[None] for section in (points[0], points[-1])]
    return _close_seam(np.concatenate([caps[0], points, caps[1]]))


def _close_seam(grid: NDArray[np.float64]) -> Mesh:
    """Close a grid's seam, which rounding may have left open, and join its points into triangles."""
    grid[:, -1] = grid[:, 0]
    return _closed_grid(grid)


def ball(centre: Vector, radii: Vector, segments: int = 20) -> Mesh:
    """Return an ellipsoid with half axes along x, y and z."""
    polar = np.linspace(-np.pi / 2, np.pi / 2, segments // 2 + 1)[:, None]
    turn = np.linspace(0.0, 2.0 * np.pi, segments + 1)[None]
    sphere = np.stack([np.cos(polar) * np.cos(turn), np.cos(polar) * np.sin(turn), np.sin(polar) + 0.0 * turn], axis=2)
    sphere[[0, -1], :, :2] = 0.0
    return _close_seam(sphere * np.asarray(radii) + np.asarray(centre))


def limb(path: Points, radii: Sequence[float], flat: float = 1.0, segments: int = 16) -> Mesh:
    """Return a tube of changing radius along a path in space, with round ends.

    >>> limb([(0, 0, 0), (0, 0, 1)], [0.2, 0.1]).vertices[:, 2].max().astype(float).round(2).item()
    1.1
    """
    line, width = np.asarray(path, dtype=np.float64), np.asarray(radii, dtype=np.float64)
    if len(line) > 2:
        smooth = _smooth_rows(np.column_stack([line, width]), 4)
        line, width = smooth[:, :3], smooth[:, 3]
    tangent = np.gradient(line, axis=0)
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    # Sections lie on y if they can, so that a limb in the x-z plane does not twist.
    side = np.array([0.0, 1.0, 0.0]) if np.abs(tangent[:, 1]).max() < 0.8 else np.array([1.0, 0.0, 0.0])
    across = side - (tangent @ side)[:, None] * tangent
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    within = np.cross(tangent, across)
    dome = np.linspace(0.0, np.pi / 2, 5)
    before = [(line[0] - tangent[0] * width[0] * np.cos(t), width[0] * np.sin(t), 0) for t in dome[:-1]]
    after = [(line[-1] + tangent[-1] * width[-1] * np.sin(t), width[-1] * np.cos(t), -1) for t in dome[1:]]
    body = [(line[k], width[k], k) for k in range(len(line))]
    angle = np.linspace(0.0, 2.0 * np.pi, segments + 1)[:, None]
    rows = [
        centre + radius * (np.cos(angle) * within[k] + flat * np.sin(angle) * across[k])
        for centre, radius, k in (*before, *body, *after)
    ]
    return _close_seam(np.stack(rows))


def ring(centre: Vector, radii: tuple[float, float], thickness: float, segments: int = 28) -> Mesh:
    """Return a torus that lies flat, stretched to an oval: half axes along x and y, radius of its tube."""
    turn = np.linspace(0.0, 2.0 * np.pi, segments + 1)[None]
    round_ = np.linspace(0.0, 2.0 * np.pi, 13)[:, None]
    points = np.stack(
        [
            (radii[0] + thickness * np.cos(round_)) * np.cos(turn),
            (radii[1] + thickness * np.cos(round_)) * np.sin(turn),
            thickness * np.sin(round_) + 0.0 * turn,
        ],
        axis=2,
    )
    points[:, -1], points[-1] = points[:, 0], points[0]
    return _closed_grid(points + np.asarray(centre))


QUARTER = 1.5707963267948966
"""A quarter turn in radians."""

SIDES = (-1.0, 1.0)
"""The signs of y (or x) of what an object has on both sides."""


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
    """The parts of an object with its base at z = 0, and its `top`; None if nothing can rest."""

    parts: tuple[Part, ...]
    top: Top | None = None


def build(*parts: Part | Iterable[Part], top: Top | None = None) -> Model:
    """Make a model of single parts and groups of parts, in the order given."""
    groups = ((part,) if isinstance(part, Part) else part for part in parts)
    return Model(tuple(part for group in groups for part in group), top)


def lathe(slot: str, profile: str, radius: float = 0.0, segments: int = 40) -> Part:
    """Revolve a profile, its corners rounded by `radius`."""
    line = points(profile)
    return Part(slot, revolve(round_corners(line, radius) if radius else line, segments))


def box(slot: str, size: Vector, radius: float, at: Vector = (0, 0, 0), yaw: float = 0.0, pitch: float = 0.0) -> Part:
    """Make a rounded box, turn it and move it."""
    return Part(slot, move(rounded_box(size, radius), at, yaw, pitch))


def mirror(slot: str, make: Callable[[float], Mesh]) -> tuple[Part, Part]:
    """Make the same part on both sides: `make` gets -1 and 1."""
    return Part(slot, make(-1.0)), Part(slot, make(1.0))
