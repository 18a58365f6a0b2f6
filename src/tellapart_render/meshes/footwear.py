"""Models of shoes and boots: lofted soles and uppers, seen from the side, the toe to the right (+x)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tellapart_render.meshes.organic import ball, limb, loft, ring
from tellapart_render.meshes.parts import SIDES, Model, Part, box, build, lathe
from tellapart_render.meshes.solids import Mesh, move, points

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
