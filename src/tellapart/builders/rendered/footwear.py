"""Models of shoes and boots: lofted soles and uppers, seen from the side, the toe to the right (+x)."""

from __future__ import annotations

from collections.abc import Callable

from tellapart.builders.rendered.organic import ball, limb, loft, ring
from tellapart.builders.rendered.solids import place, revolve, rounded_box
from tellapart.builders.rendered.tableware import Model, Part

__all__ = ["FOOTWEAR"]

_Rows = list[tuple[float, float, float, float]]

_SOLE: _Rows = [(-0.5, 0.02, 0.07, 0.1), (-0.44, 0.0, 0.09, 0.145), (-0.1, 0.0, 0.08, 0.13), (0.25, 0.0, 0.075, 0.18),
                (0.42, 0.0, 0.08, 0.14), (0.5, 0.02, 0.07, 0.07)]  # fmt: skip
_UPPER: _Rows = [(-0.49, 0.05, 0.26, 0.07), (-0.44, 0.04, 0.4, 0.12), (-0.25, 0.04, 0.38, 0.12),
                 (-0.02, 0.04, 0.34, 0.125), (0.2, 0.04, 0.22, 0.16), (0.4, 0.04, 0.16, 0.13),
                 (0.48, 0.05, 0.11, 0.06)]  # fmt: skip


def _scaled(rows: _Rows, height: float) -> _Rows:
    """Make a sole or an upper thicker: heights times a factor."""
    return [(x, low * height, high * height, half) for x, low, high, half in rows]


def _laces(slot: str, count: int) -> list[Part]:
    """Bars across the instep, from its top to the toe."""
    parts = []
    for k in range(count):
        share = k / max(count - 1, 1)
        x, z = 0.01 + 0.2 * share, 0.345 - 0.115 * share
        path = [(x, -0.075, z - 0.025), (x + 0.005, 0.0, z), (x, 0.075, z - 0.025)]
        parts.append(Part(slot, limb(path, [0.013, 0.014, 0.013])))
    return parts


def _mouth(slot: str = "main", lift: float = 0.0) -> list[Part]:
    """A padded collar round the dark opening above the heel."""
    return [
        Part(slot, ring((-0.25, 0.0, 0.365 + lift), (0.165, 0.075), 0.03)),
        Part("dark", ball((-0.25, 0.0, 0.37 + lift), (0.155, 0.065, 0.02))),
    ]


def _shoe() -> Model:
    heel = rounded_box((0.22, 0.26, 0.09), 0.02)
    welt: _Rows = [(x, low + 0.03, high - 0.015, half) for x, low, high, half in _SOLE]
    return Model(
        (
            Part("sole", loft(welt, 4.0)),
            Part("sole", place(heel, (-0.36, 0.0, 0.0))),
            Part("sole", place(rounded_box((0.5, 0.27, 0.045), 0.015), (0.18, 0.0, 0.0))),
            Part("main", loft(_UPPER, 2.4)),
            Part("main", limb([(0.0, 0.0, 0.285), (0.2, 0.0, 0.185)], [0.07, 0.075], flat=1.3)),
            *_mouth(),
            *_laces("dark", 4),
        )
    )


def _sneaker() -> Model:
    return Model(
        (
            Part("white", loft(_scaled(_SOLE, 1.25), 4.0)),
            Part("main", loft(_UPPER, 2.4)),
            *_mouth(),
            Part("white", ball((0.42, 0.0, 0.095), (0.09, 0.125, 0.06))),
            *_laces("white", 5),
        )
    )


def _canvas_shoe() -> Model:
    stripe: _Rows = [(x, 0.055, 0.07, half + 0.006) for x, _, _, half in _SOLE]
    return Model(
        (
            Part("white", loft(_scaled(_SOLE, 1.1), 4.0)),
            Part("blue", loft(stripe, 4.0)),
            Part("canvas", loft(_UPPER, 2.3)),
            *_mouth("canvas"),
            Part("white", ball((0.41, 0.0, 0.095), (0.095, 0.135, 0.07))),
            Part("canvas", limb([(0.0, 0.0, 0.34), (0.2, 0.0, 0.225)], [0.05, 0.06], flat=1.2)),
            *_laces("dark", 5),
        )
    )


def _running_shoe() -> Model:
    sole = [(x, low * 1.5 + (0.06 if x > 0.41 else 0.0), high * 1.5 + (0.02 if x < -0.4 else 0.0), half * 1.08)
            for x, low, high, half in _SOLE]  # fmt: skip
    upper = [(x, low + 0.03, high + 0.03, half) for x, low, high, half in _UPPER]
    parts = [Part("white", loft(sole, 4.0)), Part("main", loft(upper, 2.4)), *_mouth(lift=0.03)]
    # The slanted stripes of a running shoe, on both sides.
    for side in (-1.0, 1.0):
        for k in range(3):
            x = -0.17 + 0.1 * k
            path = [(x, side * 0.128, 0.11), (x + 0.05, side * 0.138, 0.2), (x + 0.09, side * 0.112, 0.3)]
            parts.append(Part("silver", limb(path, [0.02, 0.019, 0.015])))
    parts += [Part("silver", place(part.mesh, (0, 0, 0.03))) for part in _laces("silver", 5)]
    parts.append(Part("silver", limb([(-0.475, 0, 0.28), (-0.5, 0, 0.42)], [0.03, 0.025])))
    return Model(tuple(parts))


def _boot() -> Model:
    shaft = [(0.0, 0.3), (0.145, 0.3), (0.15, 0.5), (0.17, 0.86), (0.165, 0.88), (0.14, 0.87), (0.0, 0.8)]
    return Model(
        (
            Part("sole", loft(_scaled(_SOLE, 0.9), 4.0)),
            Part("sole", place(rounded_box((0.24, 0.27, 0.1), 0.02), (-0.36, 0.0, 0.0))),
            Part("main", loft(_UPPER, 2.4)),
            Part("main", place(revolve(shaft), (-0.28, 0.0, 0.0))),
            Part("main", limb([(-0.24, 0.0, 0.42), (0.02, 0.0, 0.26)], [0.15, 0.11])),
            Part("dark", ring((-0.28, 0.0, 0.87), (0.158, 0.158), 0.02)),
            Part("steel", limb([(-0.28, -0.165, 0.42), (-0.16, -0.15, 0.4)], [0.028, 0.028])),
        )
    )


def _high_heel() -> Model:
    sole: _Rows = [(-0.42, 0.4, 0.43, 0.08), (-0.3, 0.36, 0.4, 0.085), (-0.1, 0.21, 0.25, 0.06), (0.1, 0.05, 0.09, 0.08),
                   (0.24, 0.0, 0.035, 0.115), (0.4, 0.0, 0.03, 0.08), (0.5, 0.01, 0.03, 0.015)]  # fmt: skip
    vamp: _Rows = [(0.12, 0.04, 0.1, 0.088), (0.2, 0.02, 0.13, 0.11), (0.3, 0.02, 0.125, 0.11), (0.41, 0.02, 0.09, 0.075),
                   (0.51, 0.015, 0.035, 0.012)]  # fmt: skip
    back: list[tuple[float, float, float]] = [(-0.1, 0.1, 0.29), (-0.3, 0.1, 0.45), (-0.45, 0.0, 0.54),
                                              (-0.3, -0.1, 0.45), (-0.1, -0.1, 0.29)]  # fmt: skip
    sides = []
    for y in (-1.0, 1.0):
        path = [(-0.42, y * 0.06, 0.47), (-0.25, y * 0.086, 0.4), (-0.05, y * 0.075, 0.25), (0.16, y * 0.09, 0.09)]
        sides.append(Part("main", limb(path, [0.062, 0.05, 0.038, 0.045], flat=0.3)))
    return Model(
        (
            Part("main", loft(sole, 3.0)),
            Part("main", loft(vamp, 2.2)),
            *sides,
            Part("main", limb([(p[0], p[1] * 0.8, p[2]) for p in back[1:4]], [0.03, 0.04, 0.03])),
            Part("main", limb([(-0.41, 0.0, 0.38), (-0.44, 0.0, 0.2), (-0.45, 0.0, 0.02)], [0.07, 0.032, 0.022])),
            Part("sole", ball((0.13, 0.0, 0.085), (0.08, 0.07, 0.03))),
        )
    )


FOOTWEAR: dict[str, Callable[[], Model]] = {
    "shoe": _shoe,
    "sneaker": _sneaker,
    "canvas shoe": _canvas_shoe,
    "running shoe": _running_shoe,
    "boot": _boot,
    "high heel": _high_heel,
}
