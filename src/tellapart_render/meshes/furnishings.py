"""Models of things that are not tableware: textiles, boxes, appliances and toys, from rounded boxes and tubes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tellapart_render.meshes.parts import QUARTER, SIDES, Model, Part, Top, box, build, lathe
from tellapart_render.meshes.solids import Mesh, Vector, extrude, move, points, stretch, tube


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
