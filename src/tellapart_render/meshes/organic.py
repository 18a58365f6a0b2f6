"""Triangle meshes of grown shapes: lofts through oval sections, balls, and limbs between points.

Lengths are in scene units; z points up. Animals, shoes and gloves are made of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tellapart_render.meshes.solids import Mesh, Points, Vector, area_normals, grid_faces


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
