"""Models of toy animals: lofted bodies with limbs, seen from the side, the head to the right (+x)."""

from __future__ import annotations

from collections.abc import Callable

from tellapart_render.meshes.organic import ball, limb, loft
from tellapart_render.meshes.parts import QUARTER, SIDES, Model, Part, build, mirror
from tellapart_render.meshes.solids import Vector, move, points


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
