"""Models of things people carry: gloves, scissors, a hammer, a backpack, small electronics and their storage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tellapart_render.meshes.organic import ball, limb, loft, ring
from tellapart_render.meshes.parts import QUARTER, SIDES, Model, Part, box, build, lathe, mirror
from tellapart_render.meshes.solids import Mesh, extrude, move, points

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
