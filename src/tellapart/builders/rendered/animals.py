"""Models of toy animals: lofted bodies with limbs, seen from the side, the head to the right (+x)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tellapart.builders.rendered.organic import ball, limb, loft
from tellapart.builders.rendered.solids import Mesh, place
from tellapart.builders.rendered.tableware import Model, Part

__all__ = ["ANIMALS"]

Vector = tuple[float, float, float]

_QUARTER = float(np.pi / 2)


def _mirrored(slot: str, make: Callable[[float], Mesh]) -> tuple[Part, Part]:
    """The same part on both sides: `make` is given -1 and 1."""
    return Part(slot, make(-1.0)), Part(slot, make(1.0))


def _eyes(x: float, y: float, z: float, radius: float) -> tuple[Part, Part]:
    """Two dark beads."""
    return _mirrored("black", lambda s: ball((x, s * y, z), (radius, radius, radius), 12))


def _legs(slot: str, at: tuple[float, float], y: float, top: float, radii: tuple[float, float]) -> list[Part]:
    """Four upright legs that end flat on the ground: at two places along x, `y` from the middle."""
    parts: list[Part] = []
    for x in at:
        for side in (-1.0, 1.0):
            path = [(x, side * y, top), (x, side * y, top / 2), (x, side * y, 0.8 * radii[1])]
            parts.append(Part(slot, limb(path, [radii[0], (radii[0] + radii[1]) / 2, radii[1]])))
    return parts


def _turtle() -> Model:
    shell = loft(
        [(-0.36, 0.12, 0.16, 0.06), (-0.28, 0.1, 0.27, 0.22), (0, 0.1, 0.37, 0.3), (0.26, 0.1, 0.28, 0.22),
         (0.34, 0.12, 0.17, 0.07)]
    )  # fmt: skip
    rim = loft([(-0.4, 0.1, 0.14, 0.08), (-0.3, 0.08, 0.15, 0.27), (0, 0.08, 0.15, 0.35), (0.28, 0.08, 0.15, 0.27),
                (0.38, 0.1, 0.14, 0.09)])  # fmt: skip
    plates: list[Vector] = [(0, 0, 0.36), (-0.17, 0, 0.33), (0.17, 0, 0.33)]
    plates += [(x, s * 0.17, 0.29) for x in (-0.12, 0.08) for s in (-1.0, 1.0)]
    parts = [Part("main", shell), Part("olive", rim)]
    parts += [Part("olive", ball(centre, (0.075, 0.07, 0.035))) for centre in plates]
    parts.append(Part("lime", limb([(0.3, 0, 0.14), (0.42, 0, 0.2), (0.5, 0, 0.25)], [0.06, 0.06, 0.085])))
    parts += _eyes(0.56, 0.055, 0.29, 0.016)
    for x, reach in ((0.22, 0.1), (-0.24, -0.08)):
        for side in (-1.0, 1.0):
            path = [(x, side * 0.22, 0.11), (x + reach / 2, side * 0.33, 0.08), (x + reach, side * 0.41, 0.05)]
            parts.append(Part("lime", limb(path, [0.07, 0.065, 0.05])))
    parts.append(Part("lime", limb([(-0.36, 0, 0.1), (-0.48, 0, 0.06)], [0.035, 0.01])))
    return Model(tuple(parts))


def _dog() -> Model:
    body = loft([(-0.3, 0.3, 0.4, 0.06), (-0.24, 0.24, 0.5, 0.13), (0, 0.26, 0.48, 0.13), (0.2, 0.22, 0.52, 0.15),
                 (0.29, 0.3, 0.5, 0.07)])  # fmt: skip
    parts = [
        Part("main", body),
        Part("main", limb([(0.2, 0, 0.43), (0.33, 0, 0.6)], [0.11, 0.1])),
        Part("main", ball((0.36, 0, 0.66), (0.14, 0.125, 0.13))),
        Part("main", limb([(0.42, 0, 0.63), (0.54, 0, 0.6)], [0.085, 0.06])),
        Part("black", ball((0.595, 0, 0.62), (0.03, 0.035, 0.026))),
        Part("main", limb([(-0.27, 0, 0.43), (-0.37, 0, 0.52), (-0.4, 0, 0.64)], [0.045, 0.04, 0.02])),
        Part("ribbon", limb([(0.22, 0, 0.555), (0.36, 0, 0.5)], [0.1, 0.1], flat=1.05)),
    ]
    parts += _mirrored("dark", lambda s: limb([(0.31, s * 0.11, 0.74), (0.3, s * 0.155, 0.66), (0.31, s * 0.16, 0.55)],
                                              [0.04, 0.06, 0.05], flat=0.45))  # fmt: skip
    parts += _eyes(0.46, 0.065, 0.7, 0.02)
    parts += _legs("main", (-0.2, 0.19), 0.085, 0.32, (0.065, 0.055))
    parts += [Part("main", ball((x + 0.035, s * 0.085, 0.035), (0.075, 0.055, 0.036)))
              for x in (-0.2, 0.19) for s in (-1.0, 1.0)]  # fmt: skip
    return Model(tuple(parts))


def _shark() -> Model:
    body = loft([(-0.5, 0.2, 0.24, 0.02), (-0.3, 0.16, 0.27, 0.05), (0, 0.09, 0.33, 0.12), (0.24, 0.1, 0.32, 0.12),
                 (0.42, 0.15, 0.28, 0.07), (0.52, 0.2, 0.24, 0.02)])  # fmt: skip
    belly = loft(
        [(-0.34, 0.165, 0.19, 0.03), (0, 0.08, 0.2, 0.115), (0.24, 0.09, 0.2, 0.115), (0.44, 0.155, 0.2, 0.05)]
    )
    fins = [
        limb([(0.06, 0, 0.29), (-0.02, 0, 0.4), (-0.1, 0, 0.49)], [0.11, 0.07, 0.012], flat=0.16),
        limb([(-0.47, 0, 0.22), (-0.54, 0, 0.34), (-0.62, 0, 0.46)], [0.055, 0.05, 0.012], flat=0.2),
        limb([(-0.47, 0, 0.22), (-0.52, 0, 0.12), (-0.57, 0, 0.05)], [0.055, 0.04, 0.012], flat=0.2),
    ]
    parts = [Part("sharkskin", body), Part("white", belly), *(Part("sharkskin", fin) for fin in fins)]
    parts += _mirrored(
        "sharkskin", lambda s: limb([(0.16, s * 0.08, 0.15), (0.05, s * 0.22, 0.07), (-0.03, s * 0.32, 0.02)],
                                    [0.07, 0.055, 0.012], flat=0.9))  # fmt: skip
    parts += _eyes(0.4, 0.072, 0.24, 0.017)
    parts.append(Part("dark", limb([(0.43, -0.062, 0.175), (0.48, 0, 0.175), (0.43, 0.062, 0.175)],
                                   [0.008, 0.012, 0.008])))  # fmt: skip
    for x in (0.24, 0.205, 0.17):
        for side in (-1.0, 1.0):
            gill = [(x, side * 0.122, 0.18), (x + 0.01, side * 0.122, 0.25)]
            parts.append(Part("dark", limb(gill, [0.006, 0.006])))
    return Model(tuple(parts))


def _elephant() -> Model:
    body = loft([(-0.38, 0.3, 0.48, 0.1), (-0.3, 0.22, 0.62, 0.2), (-0.02, 0.18, 0.68, 0.24), (0.2, 0.24, 0.64, 0.2),
                 (0.28, 0.34, 0.54, 0.1)])  # fmt: skip
    trunk = [(0.4, 0, 0.5), (0.53, 0, 0.36), (0.55, 0, 0.2), (0.61, 0, 0.09), (0.68, 0, 0.1)]
    parts = [
        Part("main", body),
        Part("main", ball((0.32, 0, 0.58), (0.17, 0.16, 0.19))),
        Part("main", limb(trunk, [0.11, 0.075, 0.058, 0.045, 0.036])),
        Part("main", limb([(-0.37, 0, 0.48), (-0.44, 0, 0.32)], [0.018, 0.014])),
    ]
    parts += _mirrored("main", lambda s: ball((0.2, s * 0.24, 0.57), (0.13, 0.035, 0.19)))
    parts += _mirrored("bone", lambda s: limb([(0.41, s * 0.08, 0.42), (0.5, s * 0.1, 0.34), (0.6, s * 0.1, 0.37)],
                                              [0.026, 0.022, 0.006]))  # fmt: skip
    parts += _eyes(0.43, 0.1, 0.62, 0.017)
    parts += _legs("main", (-0.24, 0.14), 0.13, 0.32, (0.1, 0.095))
    parts += [Part("bone", ball((x + 0.075, s * 0.13, 0.03), (0.03, 0.06, 0.03)))
              for x in (-0.24, 0.14) for s in (-1.0, 1.0)]  # fmt: skip
    return Model(tuple(parts))


def _eagle() -> Model:
    body = limb([(-0.16, 0, 0.34), (0, 0, 0.44), (0.1, 0, 0.58)], [0.1, 0.16, 0.11])
    parts = [
        Part("wood", body),
        Part("white", ball((0.14, 0, 0.72), (0.105, 0.095, 0.11))),
        Part("white", limb([(0.1, 0, 0.6), (0.13, 0, 0.7)], [0.12, 0.1])),
        Part("beak", limb([(0.22, 0, 0.73), (0.29, 0, 0.715), (0.315, 0, 0.66)], [0.045, 0.034, 0.008])),
        Part("white", limb([(-0.2, 0, 0.3), (-0.42, 0, 0.2)], [0.09, 0.13], flat=0.6)),
        Part("wood", ball((0, 0, 0.02), (0.2, 0.18, 0.02))),
    ]
    # Wings raised and spread to both sides, feathers fanned at the tips.
    for side in (-1.0, 1.0):
        arm = [(0.02, side * 0.1, 0.52), (-0.02, side * 0.32, 0.64), (-0.06, side * 0.52, 0.72)]
        parts.append(Part("wood", limb(arm, [0.13, 0.13, 0.09], flat=0.28)))
        for k in range(5):
            tip = (-0.28 + 0.05 * k, side * (0.36 + 0.085 * k), 0.47 + 0.075 * k)
            root = (-0.04, side * (0.22 + 0.075 * k), 0.58 + 0.035 * k)
            parts.append(Part("feather", limb([root, tip], [0.05, 0.022], flat=0.6)))
        parts.append(Part("beak", limb([(0.0, side * 0.07, 0.3), (0.02, side * 0.07, 0.05)], [0.04, 0.025])))
        parts += [Part("beak", limb([(0.02, side * 0.07, 0.05), (0.11, side * (0.07 + spread), 0.045)], [0.02, 0.012]))
                  for spread in (-0.04, 0.0, 0.04)]  # fmt: skip
    parts += _eyes(0.21, 0.07, 0.755, 0.016)
    # Wings are seen from the front.
    return Model(tuple(Part(part.slot, place(part.mesh, yaw=-_QUARTER)) for part in parts))


def _bull() -> Model:
    body = loft([(-0.42, 0.34, 0.48, 0.08), (-0.34, 0.26, 0.58, 0.16), (-0.05, 0.24, 0.58, 0.18),
                 (0.18, 0.22, 0.7, 0.2), (0.3, 0.28, 0.68, 0.14), (0.36, 0.38, 0.6, 0.07)])  # fmt: skip
    parts = [
        Part("main", body),
        Part("main", limb([(0.28, 0, 0.52), (0.43, 0, 0.55)], [0.15, 0.11])),
        Part("main", limb([(0.42, 0, 0.57), (0.5, 0, 0.48), (0.56, 0, 0.4)], [0.105, 0.085, 0.07])),
        Part("bone", ball((0.59, 0, 0.38), (0.055, 0.066, 0.05))),
        Part("main", limb([(-0.41, 0, 0.5), (-0.49, 0, 0.42), (-0.48, 0, 0.22)], [0.025, 0.018, 0.014])),
        Part("dark", ball((-0.48, 0, 0.17), (0.03, 0.03, 0.06))),
    ]
    horn = [(0.44, 0.09, 0.65), (0.47, 0.2, 0.68), (0.53, 0.25, 0.79)]
    parts += _mirrored("bone", lambda s: limb([(x, s * y, z) for x, y, z in horn], [0.036, 0.032, 0.007]))
    parts += _mirrored("main", lambda s: limb([(0.4, s * 0.1, 0.6), (0.37, s * 0.21, 0.57)], [0.045, 0.03], flat=0.6))
    parts += _mirrored("dark", lambda s: ball((0.63, s * 0.028, 0.395), (0.014, 0.014, 0.014), 10))
    parts += _eyes(0.5, 0.082, 0.56, 0.017)
    parts += _legs("main", (-0.3, 0.2), 0.11, 0.36, (0.08, 0.05))
    parts += [Part("dark", limb([(x, s * 0.11, 0.05), (x, s * 0.11, 0.04)], [0.055, 0.057]))
              for x in (-0.3, 0.2) for s in (-1.0, 1.0)]  # fmt: skip
    return Model(tuple(parts))


ANIMALS: dict[str, Callable[[], Model]] = {
    "turtle": _turtle,
    "dog": _dog,
    "shark": _shark,
    "elephant": _elephant,
    "eagle": _eagle,
    "bull": _bull,
}
