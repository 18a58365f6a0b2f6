"""Small scanned objects for tests: textured OBJ boxes, written in the layouts that assets may have."""

from pathlib import Path

import numpy as np
from PIL import Image

CORNERS = [(x, y, z) for z in (0.0, 1.0) for y in (0.0, 1.0) for x in (0.0, 1.0)]
SIDES = ((1, 3, 4, 2), (5, 6, 8, 7), (1, 2, 6, 5), (3, 7, 8, 4), (1, 5, 7, 3), (2, 4, 8, 6))


def box(size: tuple[float, float, float], offset: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> str:
    """The text of a box: quadrilaterals with texture coordinates, and a material library that must not be read."""
    lines = ["mtllib ../../../../etc/passwd", "usemtl none"]
    points = [[str(c * s + o) for c, s, o in zip(corner, size, offset, strict=True)] for corner in CORNERS]
    lines += ["v " + " ".join(point) for point in points]
    lines += ["vt 0 0", "vt 1 0", "vt 1 1", "vt 0 1"]
    lines += ["f " + " ".join(f"{v}/{t}" for t, v in enumerate(side, start=1)) for side in SIDES]
    return "\n".join(lines) + "\n"


def write_asset(
    folder: Path, name: str, colour: tuple[int, int, int], size: tuple[float, float, float], *, flat: bool = False
) -> Path:
    """Write a box of one colour as an asset; returns its OBJ file."""
    mesh = folder / name / ("model.obj" if flat else "meshes/model.obj")
    picture = folder / name / ("texture.png" if flat else "materials/textures/texture.png")
    for path in (mesh, picture):
        path.parent.mkdir(parents=True, exist_ok=True)
    mesh.write_text(box(size, (0.3, -2.0, 0.7)))
    Image.fromarray(np.full((4, 4, 3), colour, dtype=np.uint8)).save(picture)
    return mesh


def shelf(folder: Path) -> Path:
    """Write three assets: two crates and a brick; returns the folder."""
    write_asset(folder, "Crate_Red", (200, 20, 20), (0.2, 0.2, 0.2))
    write_asset(folder, "Crate_Blue", (20, 20, 200), (0.2, 0.2, 0.2), flat=True)
    write_asset(folder, "Brick", (180, 120, 60), (0.4, 0.2, 0.2))
    return folder
