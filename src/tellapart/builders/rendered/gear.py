"""Models of things people carry and use: gloves, scissors, a hammer, a backpack, small electronics and their storage."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tellapart.builders.rendered.organic import ball, limb, loft, ring
from tellapart.builders.rendered.solids import Mesh, extruded, place, revolve, rounded_box, rounded_profile
from tellapart.builders.rendered.tableware import Model, Part

__all__ = ["GEAR"]

_QUARTER = float(np.pi / 2)


def _laid(mesh: Mesh, z: float) -> Mesh:
    """Lay what was drawn in the x-z plane flat on the ground, at height z."""
    return place(mesh, (0.0, 0.0, z), pitch=-_QUARTER)


def _mirrored(mesh: Mesh) -> Mesh:
    """Change left and right (y), and the triangles' direction with them."""
    flip = np.array([1.0, -1.0, 1.0], dtype=np.float32)
    return Mesh(mesh.vertices * flip, mesh.normals * flip, mesh.uv, mesh.faces[:, ::-1].copy())


def _bath_towel() -> Model:
    roll = rounded_profile([(0, 0), (0.2, 0), (0.22, 0.02), (0.22, 0.86), (0.2, 0.88), (0, 0.88)], 0.03)
    parts = []
    for level, (width, depth) in enumerate(((0.96, 0.7), (0.94, 0.69), (0.95, 0.7), (0.93, 0.68))):
        parts.append(Part("main", place(rounded_box((width, depth, 0.09), 0.043), (0.004 * level, 0, 0.08 * level))))
    lying = place(place(revolve(roll, 32), pitch=_QUARTER), yaw=-_QUARTER)
    parts.append(Part("main", place(lying, (0.44, 0.0, 0.52))))
    return Model(tuple(parts))


def _gloves() -> Model:
    parts: list[Part] = []
    for y, lift, turn in ((-0.26, 0.0, 0.12), (0.26, 0.0, -0.12)):
        side = 1.0 if y < 0 else -1.0
        pieces = [loft([(-0.16, 0.02, 0.14, 0.13), (0.0, 0.01, 0.15, 0.17), (0.18, 0.01, 0.13, 0.17), (0.24, 0.03, 0.1, 0.1)],
                       2.8)]  # fmt: skip
        for k, length in enumerate((0.24, 0.3, 0.28, 0.2)):
            offset = side * (0.12 - 0.08 * k)
            pieces.append(limb([(0.17, offset, 0.07), (0.22 + length, offset * 1.25, 0.055)], [0.046, 0.038]))
        thumb = [(-0.02, side * 0.13, 0.07), (0.08, side * 0.25, 0.07), (0.18, side * 0.3, 0.06)]
        pieces.append(limb(thumb, [0.06, 0.05, 0.04]))
        parts += [Part("main", place(piece, (0, y, lift), yaw=turn)) for piece in pieces]
        cuff = loft([(-0.4, 0.005, 0.15, 0.14), (-0.28, 0.005, 0.15, 0.145), (-0.14, 0.02, 0.14, 0.125)], 2.8)
        parts.append(Part("dark", place(cuff, (0, y, lift), yaw=turn)))
    return Model(tuple(parts))


def _gaming_mouse() -> Model:
    body = loft([(-0.5, 0.03, 0.12, 0.14), (-0.4, 0.01, 0.28, 0.26), (-0.12, 0.01, 0.38, 0.29), (0.2, 0.01, 0.29, 0.26),
                 (0.44, 0.02, 0.15, 0.23), (0.5, 0.04, 0.1, 0.16)], 2.6)  # fmt: skip
    wheel = revolve(rounded_profile([(0, 0), (0.075, 0), (0.075, 0.06), (0, 0.06)], 0.015), 24)
    seam = [(0.0, 0.0, 0.372), (0.2, 0.0, 0.297), (0.36, 0.0, 0.21), (0.47, 0.0, 0.125)]
    cable = [(0.48, 0.0, 0.08), (0.6, 0.05, 0.02), (0.72, -0.06, 0.02), (0.86, 0.02, 0.02)]
    return Model(
        (
            Part("main", body),
            Part("black", place(wheel, (0.26, 0.03, 0.25), pitch=_QUARTER)),
            Part("dark", limb(seam, [0.008] * 4)),
            Part(
                "dark",
                limb([(-0.32, 0.0, 0.36), (-0.12, 0.0, 0.385), (0.02, 0.0, 0.372)], [0.03, 0.04, 0.03], flat=1.2),
            ),
            Part("glow", limb([(-0.44, 0.0, 0.24), (-0.36, 0.0, 0.33)], [0.02, 0.02])),
            *(Part("dark", limb([(-0.1, s * 0.285, 0.22), (0.12, s * 0.27, 0.2)], [0.035, 0.03])) for s in (-1.0, 1.0)),
            Part("black", limb(cable, [0.014] * 4)),
        )
    )


def _scissors() -> Model:
    parts: list[Part] = []
    for side, height in ((1.0, 0.05), (-1.0, 0.075)):
        blade = extruded([(0.0, -0.03), (0.3, -0.028), (0.56, 0.0), (0.3, 0.03), (0.0, 0.035)][::1], 0.02)
        arm = limb([(0.02, 0, 0), (-0.15, 0.03, 0), (-0.27, 0.07, 0)], [0.034, 0.032, 0.034])
        loop = ring((-0.42, 0.1, 0.0), (0.155, 0.095), 0.036)
        turn = side * 0.16
        parts.append(Part("steel", place(_laid(blade, 0.0), (0, 0, height), yaw=-turn)))
        for mesh in (arm, loop):
            flipped = _mirrored(mesh) if side < 0 else mesh
            parts.append(Part("main", place(flipped, (0, 0, 0.05 if side > 0 else 0.06), yaw=-turn)))
    parts.append(Part("steel", place(revolve([(0, 0), (0.03, 0), (0.03, 0.03), (0, 0.035)], 20), (0, 0, 0.07))))
    return Model(tuple(parts))


def _game_console() -> Model:
    """A hand-held console of two buttons and a cross, leaning back a little."""
    pieces: list[tuple[str, Mesh]] = [
        ("main", place(rounded_box((0.6, 0.14, 0.98), 0.05), (0, 0, 0))),
        ("ribbon", place(rounded_box((0.62, 0.09, 1.0), 0.04), (0, 0.03, -0.01))),
        ("grey", place(rounded_box((0.5, 0.02, 0.4), 0.01), (0, -0.07, 0.5))),
        ("lcd", place(rounded_box((0.36, 0.02, 0.31), 0.005), (0, -0.078, 0.545))),
        ("grey", place(rounded_box((0.17, 0.03, 0.055), 0.01), (-0.16, -0.075, 0.29))),
        ("grey", place(rounded_box((0.055, 0.03, 0.17), 0.01), (-0.16, -0.075, 0.232))),
    ]
    pieces += [("ribbon", ball((x, -0.075, z), (0.045, 0.022, 0.045))) for x, z in ((0.1, 0.27), (0.21, 0.34))]
    pieces += [("grey", limb([(x, -0.073, 0.12), (x + 0.07, -0.073, 0.145)], [0.014, 0.014])) for x in (-0.1, 0.02)]
    pieces += [
        ("dark", limb([(x, -0.071, 0.08), (x + 0.03, -0.071, 0.17)], [0.009, 0.009])) for x in (0.14, 0.18, 0.22)
    ]
    leaning = [Part(slot, place(mesh, pitch=-0.22)) for slot, mesh in pieces]
    stand = place(rounded_box((0.4, 0.34, 0.04), 0.012), (0.0, 0.1, 0.0))
    return Model((*leaning, Part("dark", stand)))


def _backpack() -> Model:
    body = loft([(-0.36, 0.06, 0.62, 0.12), (-0.3, 0.0, 0.82, 0.19), (0.0, 0.0, 0.98, 0.23), (0.3, 0.0, 0.82, 0.19),
                 (0.36, 0.06, 0.62, 0.12)], 3.2)  # fmt: skip
    pocket = loft([(-0.27, 0.07, 0.34, 0.05), (-0.22, 0.05, 0.42, 0.1), (0.22, 0.05, 0.42, 0.1), (0.27, 0.07, 0.34, 0.05)],
                  3.2)  # fmt: skip
    zip_ = [(-0.29, -0.185, 0.5), (-0.2, -0.17, 0.76), (0.0, -0.165, 0.86), (0.2, -0.17, 0.76), (0.29, -0.185, 0.5)]
    grip = [(-0.09, 0.03, 0.95), (-0.06, 0.03, 1.04), (0.06, 0.03, 1.04), (0.09, 0.03, 0.95)]
    parts = [
        Part("main", body),
        Part("black", place(pocket, (0, -0.2, 0.02))),
        Part("black", place(rounded_box((0.68, 0.42, 0.09), 0.04))),
        Part("black", limb(zip_, [0.016] * 5)),
        Part("silver", limb([(-0.2, -0.305, 0.385), (0.2, -0.305, 0.385)], [0.01, 0.01])),
        Part("black", limb(grip, [0.022] * 4)),
    ]
    for side in (-1.0, 1.0):
        strap = [
            (side * 0.15, 0.17, 0.86),
            (side * 0.2, 0.36, 0.62),
            (side * 0.21, 0.34, 0.3),
            (side * 0.24, 0.17, 0.08),
        ]
        parts.append(Part("black", limb(strap, [0.035] * 4)))
        parts.append(Part("black", ball((side * 0.35, -0.01, 0.27), (0.05, 0.13, 0.2))))
    return Model(tuple(parts))


def _hammer() -> Model:
    handle = limb([(-0.5, 0, 0), (-0.2, 0, 0), (0.2, 0, 0), (0.4, 0, 0)], [0.055, 0.062, 0.04, 0.038])
    bands = [limb([(x, 0, 0), (x + 0.05, 0, 0)], [0.061, 0.061]) for x in (-0.4, -0.26, -0.12)]
    neck = limb([(0.4, -0.07, 0), (0.4, 0.09, 0)], [0.065, 0.06])
    face = place(
        revolve([(0, 0), (0.085, 0), (0.085, 0.1), (0.055, 0.13), (0, 0.13)], 28), (0.4, -0.21, 0), pitch=-_QUARTER
    )
    claws = [limb([(0.4 + s * 0.015, 0.1, 0.01), (0.4 + s * 0.045, 0.22, 0.0), (0.4 + s * 0.06, 0.33, -0.035)],
                  [0.045, 0.034, 0.012]) for s in (-1.0, 1.0)]  # fmt: skip
    pieces = [("black", handle), *(("main", band) for band in bands), ("main", limb([(0.1, 0, 0), (0.26, 0, 0)], [0.045, 0.042])),
              ("steel", neck), ("steel", face), *(("steel", claw) for claw in claws)]  # fmt: skip
    return Model(tuple(Part(slot, place(mesh, (0, 0, 0.085))) for slot, mesh in pieces))


def _device_storage(tray: str) -> Model:
    """A desk rack with leaning dividers, a telephone and a tablet in it."""
    parts = [
        Part("main", rounded_box((0.9, 0.56, 0.1), 0.025)),
        Part(tray, place(rounded_box((0.92, 0.06, 0.2), 0.02), (0, -0.27, 0.0))),
        Part("main", place(rounded_box((0.9, 0.05, 0.62), 0.02), (0, 0.27, 0.0))),
    ]
    dividers = (-0.1, 0.09)
    for y, height in zip(dividers, (0.32, 0.46), strict=True):
        parts.append(Part("main", place(rounded_box((0.88, 0.035, height), 0.015), (0, y, 0.06))))
    for side in (-1.0, 1.0):
        outline = [(-0.27, 0.0), (0.27, 0.0), (0.27, 0.6), (-0.27, 0.2)]
        parts.append(Part(tray, place(extruded(outline, 0.035), (side * 0.455, 0, 0.01), yaw=-_QUARTER)))
    for x, y, size in ((-0.22, -0.18, (0.24, 0.03, 0.5)), (0.16, 0.0, (0.46, 0.03, 0.66))):
        device = rounded_box(size, 0.014)
        screen = rounded_box((size[0] * 0.9, 0.006, size[2] * 0.88), 0.002)
        parts.append(Part("dark", place(device, (x, y, 0.1), pitch=-0.12)))
        parts.append(Part("display", place(place(screen, (0, -0.015, size[2] * 0.06)), (x, y, 0.1), pitch=-0.12)))
    return Model(tuple(parts))


GEAR: dict[str, Callable[[], Model]] = {
    "bath towel": _bath_towel,
    "gloves": _gloves,
    "gaming mouse": _gaming_mouse,
    "scissors": _scissors,
    "game console": _game_console,
    "backpack": _backpack,
    "hammer": _hammer,
    "device storage": lambda: _device_storage("main"),
    "two-tone device storage": lambda: _device_storage("white"),
}
