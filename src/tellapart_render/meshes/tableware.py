"""Models of tableware and containers: mostly surfaces of revolution with the profiles of real pieces.

Each entry makes a `Model`; sizes are relative, `objects.shape` brings every model to unit extent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tellapart_render.meshes.parts import Model, Part, Top, box, build, lathe
from tellapart_render.meshes.solids import (
    Mesh,
    Points,
    move,
    points,
    revolve,
    round_corners,
    rounded_box,
    square_off,
    stretch,
    tube,
)

_PLATE = "0,0 .28,0 .31,.015 .4,.05 .5,.085 .5,.1 .4,.068 .32,.035 0,.03"


def _draw_arc(x: float, z: float, radii: tuple[float, float], start: float, end: float) -> Points:
    """Return points of an ellipse in the x-z plane, angles in degrees."""
    angles = np.radians(np.linspace(start, end, 13))
    return [(float(x + radii[0] * np.cos(t)), 0.0, float(z + radii[1] * np.sin(t))) for t in angles]


def _add_ridges(dish: Mesh) -> Mesh:
    """Add the ridges that make a ramekin a ramekin; the rim and the inside stay round."""
    angle = np.arctan2(dish.vertices[:, 1], dish.vertices[:, 0])
    outside = (np.hypot(dish.vertices[:, 0], dish.vertices[:, 1]) > 0.415) & (dish.vertices[:, 2] < 0.41)
    radial = dish.normals[:, 0] * np.cos(angle) + dish.normals[:, 1] * np.sin(angle)
    depth = np.where(outside & (radial > 0.3), 0.012 * np.cos(24 * angle), 0.0)
    bump = np.stack([np.cos(angle) * depth, np.sin(angle) * depth, np.zeros_like(depth)], axis=1)
    slope = np.where(depth != 0, 0.6 * np.sin(24 * angle), 0.0)[:, None]
    along = np.stack([-np.sin(angle), np.cos(angle), np.zeros_like(angle)], axis=1)
    normals = dish.normals + slope * along
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    return replace(dish, vertices=(dish.vertices + bump).astype(np.float32), normals=normals.astype(np.float32))


_RAMEKIN = "0,0 .42,0 .45,.05 .47,.42 .5,.45 .5,.5 .44,.5 .41,.08 0,.07"
_SPOUT = "0.44,0,0.2 0.56,0,0.25 0.64,0,0.34 0.69,0,0.46 0.75,0,0.57 0.82,0,0.62"
_PAN_HANDLE = "0.46,0,0.12 0.58,0,0.16 0.72,0,0.19 0.88,0,0.205 1,0,0.2 1.04,0,0.195"

TABLEWARE: dict[str, Callable[[], Model]] = {
    "mug": lambda: build(
        lathe("main", "0,0 .36,0 .4,.08 .4,.92 .36,.92 .36,.08 0,.06", 0.05),
        Part("main", tube(_draw_arc(0.38, 0.47, (0.26, 0.27), -88, 88), (0.035, 0.06))),
        top=Top("rim", 0.92, 0.4),
    ),
    "teapot": lambda: build(
        lathe("main", "0,0 .3,0 .32,.03 .46,.14 .53,.32 .48,.5 .34,.62 .22,.65 0,.65", 0.09),
        lathe("main", "0,.64 .25,.64 .24,.68 .14,.74 .05,.76 .04,.79 .075,.83 .06,.88 0,.89", 0.03),
        Part("main", tube(points(_SPOUT), (0.095, 0.095), taper=0.45)),
        Part("main", tube(_draw_arc(-0.44, 0.36, (0.3, 0.22), 75, 285), (0.032, 0.045))),
    ),
    "ramekin": lambda: build(
        Part("main", _add_ridges(revolve(round_corners(points(_RAMEKIN), 0.03), segments=96))),
        top=Top("rim", 0.5, 0.48),
    ),
    "bowl": lambda: build(
        lathe(
            "main",
            "0,0 .2,0 .22,.05 .24,.07 .34,.12 .43,.22 .485,.34 .5,.44 .47,.44 .455,.34 .4,.23 .31,.14 .2,.09 0,.07",
            0.06,
        ),
        top=Top("rim", 0.44, 0.5),
    ),
    "dog bowl": lambda: build(
        lathe("main", "0,0 .5,0 .5,.03 .43,.3 .4,.33 .36,.3 .3,.1 0,.08", 0.04),
        lathe("dark", ".3,0 .515,0 .515,.035 .49,.045", 0.012),
        top=Top("rim", 0.33, 0.42),
    ),
    "round plate": lambda: build(lathe("main", _PLATE, 0.03, segments=56), top=Top("dish", 0.03, 0.3)),
    "square plate": lambda: build(
        Part("main", square_off(lathe("main", _PLATE, 0.03, segments=72).mesh, 9.0)), top=Top("dish", 0.03, 0.3)
    ),
    "plant container": lambda: build(
        lathe("main", "0,0 .29,0 .3,.03 .38,.6 .42,.62 .43,.78 .385,.78 .37,.6 0,.6", 0.025),
        lathe("soil", ".38,.68 0,.69"),
        top=Top("rim", 0.78, 0.43),
    ),
    "drug bottle": lambda: build(
        lathe("main", "0,0 .26,0 .27,.02 .27,.6 .18,.7 .18,.74 0,.74", 0.05),
        lathe("cap", ".15,.71 .215,.71 .215,.92 .2,.94 0,.94", 0.02),
        lathe("label", ".272,.16 .274,.17 .274,.41 .272,.42"),
        top=Top("flat", 0.94, 0.2),
    ),
    "bottle": lambda: build(
        lathe("main", "0,0 .19,0 .2,.02 .2,.62 .17,.74 .09,.83 .08,.88 0,.88", 0.05),
        lathe("steel", ".07,.86 .105,.86 .1,.98 .085,1 0,1", 0.02),
    ),
    "frypan": lambda: build(
        lathe("main", "0,0 .36,0 .4,.02 .48,.13 .5,.15 .48,.155 .455,.125 .37,.035 0,.025", 0.03, segments=56),
        Part("dark", tube(points(_PAN_HANDLE), (0.022, 0.042))),
        top=Top("dish", 0.025, 0.33),
    ),
    "milk frother": lambda: build(
        lathe("steel", "0,.12 .27,.12 .28,.14 .26,.74 .25,.76 0,.76", 0.03),
        lathe("black", "0,0 .33,0 .34,.02 .33,.1 .28,.12 0,.12", 0.02),
        lathe("black", "0,.75 .262,.75 .262,.81 .24,.83 0,.83", 0.02),
        Part("black", tube(_draw_arc(0.25, 0.47, (0.22, 0.23), -80, 80), (0.035, 0.05))),
        top=Top("flat", 0.83, 0.24),
    ),
    "pressure cooker": lambda: build(
        lathe("main", "0,0 .42,0 .46,.04 .46,.46 .44,.48 0,.48", 0.04),
        lathe("steel", ".462,.4 .475,.41 .475,.46 .462,.47"),
        lathe("main", "0,.47 .45,.47 .46,.51 .4,.6 .22,.66 0,.67", 0.05),
        lathe("steel", ".05,.65 .06,.71 .12,.73 .12,.78 0,.79", 0.02),
        # Stretching by 1 scales its normals to unit length once more: the pictures' bytes depend on it.
        Part("steel", move(stretch(rounded_box((0.3, 0.06, 0.24), 0.02), (1, 1, 1)), (0.0, -0.45, 0.1))),
        box("main", (0.14, 0.2, 0.05), 0.02, (0.5, 0, 0.36)),
        box("main", (0.14, 0.2, 0.05), 0.02, (-0.5, 0, 0.36)),
    ),
    "basket": lambda: build(
        lathe("main", "0,0 .36,0 .38,.03 .44,.5 .46,.55 .41,.55 .36,.06 0,.05", 0.04),
        [
            Part("leather", move(tube(_draw_arc(0.0, 0.5, (0.12, 0.15), 0, 180), (0.022, 0.022)), (0, y, 0)))
            for y in (-0.44, 0.44)
        ],
    ),
}
