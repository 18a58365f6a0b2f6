"""Every object's model, scaled so that its longest side is 1, and the measures by which scenes place it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import UnknownNameError
from tellapart_render.meshes.assets import asset_model
from tellapart_render.meshes.solids import (
    QUARTER,
    SIDES,
    Mesh,
    Model,
    Part,
    Points,
    Top,
    Vector,
    ball,
    box,
    build,
    extrude,
    lathe,
    limb,
    loft,
    mirror,
    move,
    points,
    revolve,
    ring,
    round_corners,
    rounded_box,
    square_off,
    stretch,
    tube,
)

# Models of tableware and containers: mostly surfaces of revolution with the profiles of real pieces.
#
# Each entry makes a `Model`; sizes are relative, `objects.shape` brings every model to unit extent.

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


# Stations of a loft: x, lowest z, highest z, half width.
_SOLE = points("-.5,.02,.07,.1 -.44,0,.09,.145 -.1,0,.08,.13 .25,0,.075,.18 .42,0,.08,.14 .5,.02,.07,.07")
_UPPER = points(
    "-.49,.05,.26,.07 -.44,.04,.4,.12 -.25,.04,.38,.12 -.02,.04,.34,.125 .2,.04,.22,.16 .4,.04,.16,.13 .48,.05,.11,.06"
)


def _make_laces(slot: str, count: int, lift: float = 0.0) -> list[Part]:
    """Bars across the instep, from its top to the toe."""
    parts = []
    for k in range(count):
        share = k / max(count - 1, 1)
        x, z = 0.01 + 0.2 * share, 0.345 - 0.115 * share
        path = [(x, -0.075, z - 0.025), (x + 0.005, 0.0, z), (x, 0.075, z - 0.025)]
        parts.append(Part(slot, move(limb(path, [0.013, 0.014, 0.013]), (0, 0, lift))))
    return parts


def _make_mouth(slot: str = "main", lift: float = 0.0) -> list[Part]:
    """A padded collar round the dark opening above the heel."""
    return [
        Part(slot, ring((-0.25, 0.0, 0.365 + lift), (0.165, 0.075), 0.03)),
        Part("dark", ball((-0.25, 0.0, 0.37 + lift), (0.155, 0.065, 0.02))),
    ]


def _canvas_shoe() -> Model:
    stripe = [(x, 0.055, 0.07, half + 0.006) for x, _, _, half in _SOLE]
    return build(
        Part("white", loft(_SOLE * [1, 1.1, 1.1, 1], 4.0)),
        Part("blue", loft(stripe, 4.0)),
        Part("canvas", loft(_UPPER, 2.3)),
        _make_mouth("canvas"),
        Part("white", ball((0.41, 0.0, 0.095), (0.095, 0.135, 0.07))),
        Part("canvas", limb([(0.0, 0.0, 0.34), (0.2, 0.0, 0.225)], [0.05, 0.06], flat=1.2)),
        _make_laces("dark", 5),
    )


def _running_shoe() -> Model:
    sole = _SOLE * [1, 1.5, 1.5, 1.08]
    sole[:, 1] += np.where(sole[:, 0] > 0.41, 0.06, 0.0)
    sole[:, 2] += np.where(sole[:, 0] < -0.4, 0.02, 0.0)

    def stripe(x: float, side: float) -> Mesh:
        path = [(x, side * 0.128, 0.11), (x + 0.05, side * 0.138, 0.2), (x + 0.09, side * 0.112, 0.3)]
        return limb(path, [0.02, 0.019, 0.015])

    return build(
        Part("white", loft(sole, 4.0)),
        Part("main", loft(_UPPER + np.array([0, 0.03, 0.03, 0]), 2.4)),
        _make_mouth(lift=0.03),
        # The slanted stripes of a running shoe.
        [Part("silver", stripe(-0.17 + 0.1 * k, side)) for side in SIDES for k in range(3)],
        _make_laces("silver", 5, lift=0.03),
        Part("silver", limb([(-0.475, 0, 0.28), (-0.5, 0, 0.42)], [0.03, 0.025])),
    )


def _high_heel() -> Model:
    sole = "-.42,.4,.43,.08 -.3,.36,.4,.085 -.1,.21,.25,.06 .1,.05,.09,.08 .24,0,.035,.115 .4,0,.03,.08 .5,.01,.03,.015"
    vamp = ".12,.04,.1,.088 .2,.02,.13,.11 .3,.02,.125,.11 .41,.02,.09,.075 .51,.015,.035,.012"
    strap = points("-.42,.06,.47 -.25,.086,.4 -.05,.075,.25 .16,.09,.09")
    back = [(-0.3, 0.1 * 0.8, 0.45), (-0.45, 0.0, 0.54), (-0.3, -0.1 * 0.8, 0.45)]
    return build(
        Part("main", loft(points(sole), 3.0)),
        Part("main", loft(points(vamp), 2.2)),
        [Part("main", limb(strap * [1, y, 1], [0.062, 0.05, 0.038, 0.045], flat=0.3)) for y in SIDES],
        Part("main", limb(back, [0.03, 0.04, 0.03])),
        Part("main", limb(points("-.41,0,.38 -.44,0,.2 -.45,0,.02"), [0.07, 0.032, 0.022])),
        Part("sole", ball((0.13, 0.0, 0.085), (0.08, 0.07, 0.03))),
    )


FOOTWEAR: dict[str, Callable[[], Model]] = {
    "shoe": lambda: build(
        Part("sole", loft(_SOLE + np.array([0, 0.03, -0.015, 0]), 4.0)),
        box("sole", (0.22, 0.26, 0.09), 0.02, (-0.36, 0.0, 0.0)),
        box("sole", (0.5, 0.27, 0.045), 0.015, (0.18, 0.0, 0.0)),
        Part("main", loft(_UPPER, 2.4)),
        Part("main", limb([(0.0, 0.0, 0.285), (0.2, 0.0, 0.185)], [0.07, 0.075], flat=1.3)),
        _make_mouth(),
        _make_laces("dark", 4),
    ),
    "sneaker": lambda: build(
        Part("white", loft(_SOLE * [1, 1.25, 1.25, 1], 4.0)),
        Part("main", loft(_UPPER, 2.4)),
        _make_mouth(),
        Part("white", ball((0.42, 0.0, 0.095), (0.09, 0.125, 0.06))),
        _make_laces("white", 5),
    ),
    "canvas shoe": _canvas_shoe,
    "running shoe": _running_shoe,
    "boot": lambda: build(
        Part("sole", loft(_SOLE * [1, 0.9, 0.9, 1], 4.0)),
        box("sole", (0.24, 0.27, 0.1), 0.02, (-0.36, 0.0, 0.0)),
        Part("main", loft(_UPPER, 2.4)),
        Part("main", move(lathe("main", "0,.3 .145,.3 .15,.5 .17,.86 .165,.88 .14,.87 0,.8").mesh, (-0.28, 0.0, 0.0))),
        Part("main", limb([(-0.24, 0.0, 0.42), (0.02, 0.0, 0.26)], [0.15, 0.11])),
        Part("dark", ring((-0.28, 0.0, 0.87), (0.158, 0.158), 0.02)),
        Part("steel", limb([(-0.28, -0.165, 0.42), (-0.16, -0.15, 0.4)], [0.028, 0.028])),
    ),
    "high heel": _high_heel,
}


def _flip_y(mesh: Mesh) -> Mesh:
    """Change left and right (y), and the triangles' direction with them."""
    flip = np.array([1.0, -1.0, 1.0], dtype=np.float32)
    return replace(mesh, vertices=mesh.vertices * flip, normals=mesh.normals * flip, faces=mesh.faces[:, ::-1].copy())


def _bath_towel() -> Model:
    roll = lathe("main", "0,0 .2,0 .22,.02 .22,.86 .2,.88 0,.88", 0.03, 32).mesh
    sizes = ((0.96, 0.7), (0.94, 0.69), (0.95, 0.7), (0.93, 0.68))
    return build(
        [box("main", (w, d, 0.09), 0.043, (0.004 * level, 0, 0.08 * level)) for level, (w, d) in enumerate(sizes)],
        Part("main", move(move(move(roll, pitch=QUARTER), yaw=-QUARTER), (0.44, 0.0, 0.52))),
    )


def _build_gloves() -> Model:
    parts: list[Part] = []
    for side, y, turn in ((1.0, -0.26, 0.12), (-1.0, 0.26, -0.12)):
        pieces = [loft(points("-.16,.02,.14,.13 0,.01,.15,.17 .18,.01,.13,.17 .24,.03,.1,.1"), 2.8)]
        for k, length in enumerate((0.24, 0.3, 0.28, 0.2)):
            offset = side * (0.12 - 0.08 * k)
            pieces.append(limb([(0.17, offset, 0.07), (0.22 + length, offset * 1.25, 0.055)], [0.046, 0.038]))
        thumb = points("-.02,.13,.07 .08,.25,.07 .18,.3,.06") * [1, side, 1]
        pieces.append(limb(thumb, [0.06, 0.05, 0.04]))
        parts += [Part("main", move(piece, (0, y, 0.0), yaw=turn)) for piece in pieces]
        cuff = loft(points("-.4,.005,.15,.14 -.28,.005,.15,.145 -.14,.02,.14,.125"), 2.8)
        parts.append(Part("dark", move(cuff, (0, y, 0.0), yaw=turn)))
    return build(parts)


def _gaming_mouse() -> Model:
    body = points("-.5,.03,.12,.14 -.4,.01,.28,.26 -.12,.01,.38,.29 .2,.01,.29,.26 .44,.02,.15,.23 .5,.04,.1,.16")
    wheel = lathe("black", "0,0 .075,0 .075,.06 0,.06", 0.015, 24).mesh
    return build(
        Part("main", loft(body, 2.6)),
        Part("black", move(wheel, (0.26, 0.03, 0.25), pitch=QUARTER)),
        Part("dark", limb(points("0,0,.372 .2,0,.297 .36,0,.21 .47,0,.125"), [0.008] * 4)),
        Part("dark", limb(points("-.32,0,.36 -.12,0,.385 .02,0,.372"), [0.03, 0.04, 0.03], flat=1.2)),
        Part("glow", limb(points("-.44,0,.24 -.36,0,.33"), [0.02, 0.02])),
        mirror("dark", lambda s: limb([(-0.1, s * 0.285, 0.22), (0.12, s * 0.27, 0.2)], [0.035, 0.03])),
        Part("black", limb(points(".48,0,.08 .6,.05,.02 .72,-.06,.02 .86,.02,.02"), [0.014] * 4)),
    )


def _build_scissors() -> Model:
    parts: list[Part] = []
    for side, blade_height, grip_height in ((1.0, 0.05, 0.05), (-1.0, 0.075, 0.06)):
        turn = side * 0.16
        # The blade is drawn in the x-z plane and laid flat.
        blade = move(extrude(points("0,-.03 .3,-.028 .56,0 .3,.03 0,.035"), 0.02), pitch=-QUARTER)
        parts.append(Part("steel", move(blade, (0, 0, blade_height), yaw=-turn)))
        arm = limb(points(".02,0,0 -.15,.03,0 -.27,.07,0"), [0.034, 0.032, 0.034])
        grip = [arm, ring((-0.42, 0.1, 0.0), (0.155, 0.095), 0.036)]
        grip = [_flip_y(mesh) for mesh in grip] if side < 0 else grip
        parts += [Part("main", move(mesh, (0, 0, grip_height), yaw=-turn)) for mesh in grip]
    parts.append(Part("steel", move(lathe("steel", "0,0 .03,0 .03,.03 0,.035", segments=20).mesh, (0, 0, 0.07))))
    return build(parts)


def _game_console() -> Model:
    """A hand-held console of two buttons and a cross, leaning back a little."""
    upright = build(
        box("main", (0.6, 0.14, 0.98), 0.05),
        box("ribbon", (0.62, 0.09, 1.0), 0.04, (0, 0.03, -0.01)),
        box("grey", (0.5, 0.02, 0.4), 0.01, (0, -0.07, 0.5)),
        box("lcd", (0.36, 0.02, 0.31), 0.005, (0, -0.078, 0.545)),
        box("grey", (0.17, 0.03, 0.055), 0.01, (-0.16, -0.075, 0.29)),
        box("grey", (0.055, 0.03, 0.17), 0.01, (-0.16, -0.075, 0.232)),
        [Part("ribbon", ball((x, -0.075, z), (0.045, 0.022, 0.045))) for x, z in ((0.1, 0.27), (0.21, 0.34))],
        [Part("grey", limb([(x, -0.073, 0.12), (x + 0.07, -0.073, 0.145)], [0.014, 0.014])) for x in (-0.1, 0.02)],
        [Part("dark", limb([(x, -0.071, 0.08), (x + 0.03, -0.071, 0.17)], [0.009, 0.009])) for x in (0.14, 0.18, 0.22)],
    )
    return build(
        (Part(part.slot, move(part.mesh, pitch=-0.22)) for part in upright.parts),
        box("dark", (0.4, 0.34, 0.04), 0.012, (0.0, 0.1, 0.0)),
    )


def _build_backpack() -> Model:
    body = points("-.36,.06,.62,.12 -.3,0,.82,.19 0,0,.98,.23 .3,0,.82,.19 .36,.06,.62,.12")
    pocket = points("-.27,.07,.34,.05 -.22,.05,.42,.1 .22,.05,.42,.1 .27,.07,.34,.05")
    zip_ = points("-.29,-.185,.5 -.2,-.17,.76 0,-.165,.86 .2,-.17,.76 .29,-.185,.5")
    strap = points(".15,.17,.86 .2,.36,.62 .21,.34,.3 .24,.17,.08")
    return build(
        Part("main", loft(body, 3.2)),
        Part("black", move(loft(pocket, 3.2), (0, -0.2, 0.02))),
        box("black", (0.68, 0.42, 0.09), 0.04),
        Part("black", limb(zip_, [0.016] * 5)),
        Part("silver", limb([(-0.2, -0.305, 0.385), (0.2, -0.305, 0.385)], [0.01, 0.01])),
        Part("black", limb(points("-.09,.03,.95 -.06,.03,1.04 .06,.03,1.04 .09,.03,.95"), [0.022] * 4)),
        *(
            (
                Part("black", limb(strap * [side, 1, 1], [0.035] * 4)),
                Part("black", ball((side * 0.35, -0.01, 0.27), (0.05, 0.13, 0.2))),
            )
            for side in SIDES
        ),
    )


def _build_hammer() -> Model:
    face = lathe("steel", "0,0 .085,0 .085,.1 .055,.13 0,.13", segments=28).mesh
    lying = build(
        Part("black", limb(points("-.5,0,0 -.2,0,0 .2,0,0 .4,0,0"), [0.055, 0.062, 0.04, 0.038])),
        [Part("main", limb([(x, 0, 0), (x + 0.05, 0, 0)], [0.061, 0.061])) for x in (-0.4, -0.26, -0.12)],
        Part("main", limb([(0.1, 0, 0), (0.26, 0, 0)], [0.045, 0.042])),
        Part("steel", limb([(0.4, -0.07, 0), (0.4, 0.09, 0)], [0.065, 0.06])),
        Part("steel", move(face, (0.4, -0.21, 0), pitch=-QUARTER)),
        mirror("steel", lambda s: limb([(0.4 + s * 0.015, 0.1, 0.01), (0.4 + s * 0.045, 0.22, 0.0),
                                        (0.4 + s * 0.06, 0.33, -0.035)], [0.045, 0.034, 0.012])),
    )  # fmt: skip
    return build(Part(part.slot, move(part.mesh, (0, 0, 0.085))) for part in lying.parts)


def _device_storage(tray: str) -> Model:
    """A desk rack with leaning dividers, a telephone and a tablet in it."""
    side = extrude(points("-.27,0 .27,0 .27,.6 -.27,.2"), 0.035)
    parts = [
        box("main", (0.9, 0.56, 0.1), 0.025),
        box(tray, (0.92, 0.06, 0.2), 0.02, (0, -0.27, 0.0)),
        box("main", (0.9, 0.05, 0.62), 0.02, (0, 0.27, 0.0)),
        *(box("main", (0.88, 0.035, height), 0.015, (0, y, 0.06)) for y, height in ((-0.1, 0.32), (0.09, 0.46))),
        *mirror(tray, lambda sign: move(side, (sign * 0.455, 0, 0.01), yaw=-QUARTER)),
    ]
    for x, y, size in ((-0.22, -0.18, (0.24, 0.03, 0.5)), (0.16, 0.0, (0.46, 0.03, 0.66))):
        screen = box("display", (size[0] * 0.9, 0.006, size[2] * 0.88), 0.002, (0, -0.015, size[2] * 0.06)).mesh
        parts.append(box("dark", size, 0.014, (x, y, 0.1), pitch=-0.12))
        parts.append(Part("display", move(screen, (x, y, 0.1), pitch=-0.12)))
    return build(parts)


GEAR: dict[str, Callable[[], Model]] = {
    "bath towel": _bath_towel,
    "gloves": _build_gloves,
    "gaming mouse": _gaming_mouse,
    "scissors": _build_scissors,
    "game console": _game_console,
    "backpack": _build_backpack,
    "hammer": _build_hammer,
    "device storage": lambda: _device_storage("main"),
    "two-tone device storage": lambda: _device_storage("white"),
}


def _make_oval(slot: str, profile: str) -> Part:
    return Part(slot, stretch(lathe(slot, profile, 0.05).mesh, (1.0, 0.86, 1.0)))


def _make_axle(slot: str, profile: str, offset: Vector, radius: float = 0.0, segments: int = 32) -> Part:
    """A solid of revolution lying on its side: its axis points to the viewer (-y)."""
    return Part(slot, move(lathe(slot, profile, radius, segments).mesh, offset, pitch=QUARTER))


def _build_towel() -> Model:
    layers = [(0.92, 0.66, 0.0, 0.0), (0.9, 0.64, 0.01, -0.008), (0.915, 0.65, -0.008, 0.006)]
    return build(
        [box("main", (w, d, 0.085), 0.04, (x, y, 0.075 * level)) for level, (w, d, x, y) in enumerate(layers)],
        top=Top("flat", 0.235, 0.34),
    )


def _lean_mesh(mesh: Mesh, angle: float) -> Mesh:
    """Lean a mesh to the right by `angle` radians (about the y axis)."""
    return move(move(move(mesh, yaw=QUARTER), pitch=angle), yaw=-QUARTER)


def _alarm_clock() -> Model:
    centre = (0, 0.14, 0.46)
    parts = [
        _make_axle("brass", "0,0 .36,0 .38,.03 .38,.26 .34,.28 .33,.25", centre, 0.03),
        _make_axle("dial", ".33,.25 0,.25", centre),
    ]
    for sign in SIDES:
        bell = lathe("brass", ".15,0 .145,.05 .1,.11 0,.14", 0.04, 24).mesh
        parts.append(Part("brass", move(_lean_mesh(bell, sign * 0.6), (sign * 0.22, 0.0, 0.8))))
        leg = points("0.2,0,0.14 0.25,0,0.07 0.3,0,0") * [sign, 1, 1]
        parts.append(Part("brass", tube(leg, (0.035, 0.035), taper=0.7)))
    arch = [(float(0.1 * np.cos(t)), 0.0, float(0.9 + 0.12 * np.sin(t))) for t in np.linspace(0, np.pi, 11)]
    parts.append(Part("brass", tube(arch, (0.018, 0.03))))
    for angle, length in ((0.5, 0.2), (-1.15, 0.27)):
        tip = (float(length * np.sin(angle)), -0.115, float(0.46 + length * np.cos(angle)))
        parts.append(Part("black", tube([(0.0, -0.115, 0.46), tip], (0.014, 0.006), taper=0.5, segments=6)))
    return build(parts)


def _build_laptop() -> Model:
    lid = move(box("black", (0.96, 0.03, 0.62), 0.012, pitch=-0.3).mesh, (0, 0.33, 0.03))
    screen = move(box("screen", (0.88, 0.01, 0.53), 0.004, (0, -0.016, 0.05), pitch=-0.3).mesh, (0, 0.33, 0.03))
    return build(
        box("black", (0.96, 0.66, 0.035), 0.015),
        box("keys", (0.84, 0.3, 0.006), 0.002, (0, 0.08, 0.033)),
        box("dark", (0.26, 0.16, 0.004), 0.001, (0, -0.2, 0.033)),
        Part("black", lid),
        Part("screen", screen),
    )


FURNISHINGS: dict[str, Callable[[], Model]] = {
    "hat": lambda: build(
        _make_oval("main", ".2,.04 .38,0 .49,.03 .5,.05 .48,.05 .38,.025 .26,.06"),
        _make_oval("main", ".27,.03 .26,.12 .235,.3 .2,.37 .1,.355 0,.33"),
        _make_oval("band", ".268,.055 .276,.06 .268,.125 .258,.13"),
        top=Top("flat", 0.37, 0.21),
    ),
    "stripe towel": _build_towel,
    "wash towel": _build_towel,
    "block": lambda: build(box("wood", (1.0, 1.0, 1.0), 0.03), top=Top("flat", 1.0, 0.48)),
    "gift box": lambda: build(
        box("white", (0.8, 0.8, 0.5), 0.015),
        box("white", (0.86, 0.86, 0.16), 0.015, (0, 0, 0.44)),
        *(
            (
                box("ribbon", (0.12, 0.812, 0.505), 0.004, yaw=yaw),
                box("ribbon", (0.12, 0.872, 0.17), 0.004, (0, 0, 0.436), yaw=yaw),
            )
            for yaw in (0.0, QUARTER)
        ),
        top=Top("flat", 0.606, 0.42),
    ),
    "alarm clock": _alarm_clock,
    "laptop": _build_laptop,
    "toaster": lambda: build(
        box("steel", (0.9, 0.5, 0.54), 0.11, (0, 0, 0.06)),
        box("black", (0.86, 0.48, 0.1), 0.03),
        box("black", (0.07, 0.12, 0.05), 0.015, (0.47, 0, 0.4)),
        box("dark", (0.012, 0.03, 0.3), 0.004, (0.45, 0, 0.18)),
        _make_axle("black", "0,0 .05,0 .05,.05 0,.05", (0.3, -0.24, 0.24), 0.01),
        [box("dark", (0.66, 0.075, 0.02), 0.008, (0, y, 0.585)) for y in (-0.09, 0.09)],
        top=Top("flat", 0.605, 0.25),
    ),
    "sofa": lambda: build(
        box("main", (1.0, 0.46, 0.18), 0.04, (0, 0, 0.06)),
        box("main", (1.0, 0.14, 0.5), 0.06, (0, 0.2, 0.06)),
        *(
            (
                box("main", (0.13, 0.48, 0.34), 0.06, (sign * 0.45, 0, 0.06)),
                box("main", (0.38, 0.36, 0.11), 0.05, (sign * 0.193, -0.04, 0.22)),
                *(box("wood", (0.05, 0.05, 0.08), 0.01, (sign * 0.44, y, 0.0)) for y in (-0.18, 0.2)),
            )
            for sign in SIDES
        ),
    ),
    "refrigerator": lambda: build(
        box("main", (0.5, 0.44, 0.95), 0.04, (0, 0.02, 0.05)),
        box("dark", (0.46, 0.42, 0.06), 0.01),
        box("main", (0.5, 0.06, 0.6), 0.03, (0, -0.22, 0.06)),
        box("main", (0.5, 0.06, 0.32), 0.03, (0, -0.22, 0.675)),
        [
            Part("steel", tube([(0.18, -0.28, z) for z in (low, (low + high) / 2, high)], (0.018, 0.018)))
            for low, high in ((0.4, 0.6), (0.72, 0.85))
        ],
        top=Top("flat", 1.0, 0.22),
    ),
    "school bus": lambda: build(
        Part("main", move(extrude(points("-.5,0 .3,0 .3,.36 .27,.4 -.47,.4 -.5,.36"), 0.4), (0, 0, 0.08))),
        box("main", (0.24, 0.36, 0.2), 0.04, (0.38, 0, 0.08)),
        box("black", (0.82, 0.408, 0.025), 0.003, (-0.1, 0, 0.2)),
        box("glass", (0.012, 0.34, 0.13), 0.004, (0.302, 0, 0.3)),
        box("black", (0.04, 0.38, 0.05), 0.01, (0.5, 0, 0.08)),
        box("black", (0.04, 0.4, 0.05), 0.01, (-0.5, 0, 0.08)),
        [box("glass", (0.105, 0.408, 0.12), 0.004, (float(x), 0, 0.31)) for x in np.linspace(-0.4, 0.18, 5)],
        *(
            (
                _make_axle("black", "0,0 .1,0 .1,.07 0,.07", (x, y, 0.1), 0.02, 24),
                _make_axle("steel", ".05,.072 0,.076", (x, y, 0.1), segments=24),
            )
            for x in (-0.3, 0.36)
            for y in (-0.145, 0.215)
        ),
        top=Top("flat", 0.48, 0.19),
    ),
    "keyboard": lambda: build(
        box("black", (1.0, 0.36, 0.04), 0.015),
        box("keys", (0.95, 0.31, 0.014), 0.004, (0, 0, 0.036)),
        top=Top("flat", 0.05, 0.18),
    ),
}


def _loft_stations(slot: str, stations: str) -> Part:
    return Part(slot, loft(points(stations)))


def _make_limb(slot: str, path: str, *radii: float, flat: float = 1.0, side: float = 1.0) -> Part:
    """A limb along a path whose y is multiplied by `side`."""
    return Part(slot, limb(points(path) * [1, side, 1], radii, flat))


def _both_limbs(slot: str, path: str, *radii: float, flat: float = 1.0) -> list[Part]:
    """The same limb on both sides."""
    return [_make_limb(slot, path, *radii, flat=flat, side=side) for side in SIDES]


def _two_eyes(x: float, y: float, z: float, radius: float) -> tuple[Part, Part]:
    """Two dark beads."""
    return mirror("black", lambda s: ball((x, s * y, z), (radius, radius, radius), 12))


def _four_legs(slot: str, at: tuple[float, float], y: float, top: float, radii: tuple[float, float]) -> list[Part]:
    """Four upright legs that end flat on the ground: at two places along x, `y` from the middle."""
    widths = [radii[0], (radii[0] + radii[1]) / 2, radii[1]]
    return [
        Part(slot, limb([(x, side * y, z) for z in (top, top / 2, 0.8 * radii[1])], widths))
        for x in at
        for side in SIDES
    ]


def _four_toes(slot: str, at: tuple[float, float], offset: Vector, radii: Vector) -> list[Part]:
    """A ball at the foot of each of four legs."""
    x, y, z = offset
    return [Part(slot, ball((leg + x, side * y, z), radii)) for leg in at for side in SIDES]


def _build_turtle() -> Model:
    plates: list[Vector] = [(0, 0, 0.36), (-0.17, 0, 0.33), (0.17, 0, 0.33)]
    plates += [(x, s * 0.17, 0.29) for x in (-0.12, 0.08) for s in SIDES]
    flippers = []
    for x, reach in ((0.22, 0.1), (-0.24, -0.08)):
        for side in SIDES:
            path = [(x, side * 0.22, 0.11), (x + reach / 2, side * 0.33, 0.08), (x + reach, side * 0.41, 0.05)]
            flippers.append(Part("lime", limb(path, [0.07, 0.065, 0.05])))
    return build(
        _loft_stations("main", "-.36,.12,.16,.06 -.28,.1,.27,.22 0,.1,.37,.3 .26,.1,.28,.22 .34,.12,.17,.07"),
        _loft_stations("olive", "-.4,.1,.14,.08 -.3,.08,.15,.27 0,.08,.15,.35 .28,.08,.15,.27 .38,.1,.14,.09"),
        [Part("olive", ball(centre, (0.075, 0.07, 0.035))) for centre in plates],
        _make_limb("lime", ".3,0,.14 .42,0,.2 .5,0,.25", 0.06, 0.06, 0.085),
        _two_eyes(0.56, 0.055, 0.29, 0.016),
        flippers,
        _make_limb("lime", "-.36,0,.1 -.48,0,.06", 0.035, 0.01),
    )


def _build_dog() -> Model:
    at = (-0.2, 0.19)
    return build(
        _loft_stations("main", "-.3,.3,.4,.06 -.24,.24,.5,.13 0,.26,.48,.13 .2,.22,.52,.15 .29,.3,.5,.07"),
        _make_limb("main", ".2,0,.43 .33,0,.6", 0.11, 0.1),
        Part("main", ball((0.36, 0, 0.66), (0.14, 0.125, 0.13))),
        _make_limb("main", ".42,0,.63 .54,0,.6", 0.085, 0.06),
        Part("black", ball((0.595, 0, 0.62), (0.03, 0.035, 0.026))),
        _make_limb("main", "-.27,0,.43 -.37,0,.52 -.4,0,.64", 0.045, 0.04, 0.02),
        _make_limb("ribbon", ".22,0,.555 .36,0,.5", 0.1, 0.1, flat=1.05),
        _both_limbs("dark", ".31,.11,.74 .3,.155,.66 .31,.16,.55", 0.04, 0.06, 0.05, flat=0.45),
        _two_eyes(0.46, 0.065, 0.7, 0.02),
        _four_legs("main", at, 0.085, 0.32, (0.065, 0.055)),
        _four_toes("main", at, (0.035, 0.085, 0.035), (0.075, 0.055, 0.036)),
    )


def _build_shark() -> Model:
    body = "-.5,.2,.24,.02 -.3,.16,.27,.05 0,.09,.33,.12 .24,.1,.32,.12 .42,.15,.28,.07 .52,.2,.24,.02"
    gills = [
        Part("dark", limb([(x, side * 0.122, 0.18), (x + 0.01, side * 0.122, 0.25)], [0.006, 0.006]))
        for x in (0.24, 0.205, 0.17)
        for side in SIDES
    ]
    return build(
        _loft_stations("sharkskin", body),
        _loft_stations("white", "-.34,.165,.19,.03 0,.08,.2,.115 .24,.09,.2,.115 .44,.155,.2,.05"),
        _make_limb("sharkskin", ".06,0,.29 -.02,0,.4 -.1,0,.49", 0.11, 0.07, 0.012, flat=0.16),
        _make_limb("sharkskin", "-.47,0,.22 -.54,0,.34 -.62,0,.46", 0.055, 0.05, 0.012, flat=0.2),
        _make_limb("sharkskin", "-.47,0,.22 -.52,0,.12 -.57,0,.05", 0.055, 0.04, 0.012, flat=0.2),
        _both_limbs("sharkskin", ".16,.08,.15 .05,.22,.07 -.03,.32,.02", 0.07, 0.055, 0.012, flat=0.9),
        _two_eyes(0.4, 0.072, 0.24, 0.017),
        _make_limb("dark", ".43,-.062,.175 .48,0,.175 .43,.062,.175", 0.008, 0.012, 0.008),
        gills,
    )


def _build_elephant() -> Model:
    at = (-0.24, 0.14)
    trunk = ".4,0,.5 .53,0,.36 .55,0,.2 .61,0,.09 .68,0,.1"
    return build(
        _loft_stations("main", "-.38,.3,.48,.1 -.3,.22,.62,.2 -.02,.18,.68,.24 .2,.24,.64,.2 .28,.34,.54,.1"),
        Part("main", ball((0.32, 0, 0.58), (0.17, 0.16, 0.19))),
        _make_limb("main", trunk, 0.11, 0.075, 0.058, 0.045, 0.036),
        _make_limb("main", "-.37,0,.48 -.44,0,.32", 0.018, 0.014),
        mirror("main", lambda s: ball((0.2, s * 0.24, 0.57), (0.13, 0.035, 0.19))),
        _both_limbs("bone", ".41,.08,.42 .5,.1,.34 .6,.1,.37", 0.026, 0.022, 0.006),
        _two_eyes(0.43, 0.1, 0.62, 0.017),
        _four_legs("main", at, 0.13, 0.32, (0.1, 0.095)),
        _four_toes("bone", at, (0.075, 0.13, 0.03), (0.03, 0.06, 0.03)),
    )


def _build_wing(side: float) -> list[Part]:
    """A wing raised and spread to one side, feathers fanned at the tip; and the leg below it."""
    feathers = []
    for k in range(5):
        tip = (-0.28 + 0.05 * k, side * (0.36 + 0.085 * k), 0.47 + 0.075 * k)
        root = (-0.04, side * (0.22 + 0.075 * k), 0.58 + 0.035 * k)
        feathers.append(Part("feather", limb([root, tip], [0.05, 0.022], flat=0.6)))
    toes = [
        Part("beak", limb([(0.02, side * 0.07, 0.05), (0.11, side * (0.07 + spread), 0.045)], [0.02, 0.012]))
        for spread in (-0.04, 0.0, 0.04)
    ]
    arm = _make_limb("wood", ".02,.1,.52 -.02,.32,.64 -.06,.52,.72", 0.13, 0.13, 0.09, flat=0.28, side=side)
    return [arm, *feathers, _make_limb("beak", "0,.07,.3 .02,.07,.05", 0.04, 0.025, side=side), *toes]


def _build_eagle() -> Model:
    model = build(
        _make_limb("wood", "-.16,0,.34 0,0,.44 .1,0,.58", 0.1, 0.16, 0.11),
        Part("white", ball((0.14, 0, 0.72), (0.105, 0.095, 0.11))),
        _make_limb("white", ".1,0,.6 .13,0,.7", 0.12, 0.1),
        _make_limb("beak", ".22,0,.73 .29,0,.715 .315,0,.66", 0.045, 0.034, 0.008),
        _make_limb("white", "-.2,0,.3 -.42,0,.2", 0.09, 0.13, flat=0.6),
        Part("wood", ball((0, 0, 0.02), (0.2, 0.18, 0.02))),
        *(_build_wing(side) for side in SIDES),
        _two_eyes(0.21, 0.07, 0.755, 0.016),
    )
    # Wings are seen from the front.
    return build(Part(part.slot, move(part.mesh, yaw=-QUARTER)) for part in model.parts)


def _build_bull() -> Model:
    at = (-0.3, 0.2)
    body = "-.42,.34,.48,.08 -.34,.26,.58,.16 -.05,.24,.58,.18 .18,.22,.7,.2 .3,.28,.68,.14 .36,.38,.6,.07"
    hooves = [Part("dark", limb([(x, s * 0.11, 0.05), (x, s * 0.11, 0.04)], [0.055, 0.057])) for x in at for s in SIDES]
    return build(
        _loft_stations("main", body),
        _make_limb("main", ".28,0,.52 .43,0,.55", 0.15, 0.11),
        _make_limb("main", ".42,0,.57 .5,0,.48 .56,0,.4", 0.105, 0.085, 0.07),
        Part("bone", ball((0.59, 0, 0.38), (0.055, 0.066, 0.05))),
        _make_limb("main", "-.41,0,.5 -.49,0,.42 -.48,0,.22", 0.025, 0.018, 0.014),
        Part("dark", ball((-0.48, 0, 0.17), (0.03, 0.03, 0.06))),
        _both_limbs("bone", ".44,.09,.65 .47,.2,.68 .53,.25,.79", 0.036, 0.032, 0.007),
        _both_limbs("main", ".4,.1,.6 .37,.21,.57", 0.045, 0.03, flat=0.6),
        mirror("dark", lambda s: ball((0.63, s * 0.028, 0.395), (0.014, 0.014, 0.014), 10)),
        _two_eyes(0.5, 0.082, 0.56, 0.017),
        _four_legs("main", at, 0.11, 0.36, (0.08, 0.05)),
        hooves,
    )


ANIMALS: dict[str, Callable[[], Model]] = {
    "turtle": _build_turtle,
    "dog": _build_dog,
    "shark": _build_shark,
    "elephant": _build_elephant,
    "eagle": _build_eagle,
    "bull": _build_bull,
}


_BUILDERS = TABLEWARE | FURNISHINGS | ANIMALS | FOOTWEAR | GEAR

SHAPES: tuple[str, ...] = tuple(_BUILDERS)


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
