"""Models of tableware and containers: mostly surfaces of revolution with the profiles of real pieces.

Each builder returns a `Model`; sizes are relative, `objects.model` brings every model to unit extent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tellapart.builders.rendered.solids import (
    Mesh,
    place,
    revolve,
    rounded_box,
    rounded_profile,
    squared,
    stretched,
    tube,
)

__all__ = ["TABLEWARE", "Model", "Part", "Top"]


@dataclass(frozen=True, slots=True)
class Part:
    """A mesh and the name of its material slot (`main` takes the object's attribute).

    >>> Part("main", rounded_box((1.0, 1.0, 1.0), 0.1)).slot
    'main'
    """

    slot: str
    mesh: Mesh


@dataclass(frozen=True, slots=True)
class Top:
    """Where another object can rest: on a `flat` plateau, on the `rim` of a hollow thing, or in a `dish`.

    `height` above the ground and `radius` of the plateau, rim or recess, in the model's units.

    >>> Top("flat", 1.0, 0.5).radius
    0.5
    """

    kind: Literal["flat", "rim", "dish"]
    height: float
    radius: float


@dataclass(frozen=True, slots=True)
class Model:
    """Parts of an object standing on z = 0, and its `top`; None where nothing can stand.

    >>> Model((Part("main", rounded_box((1.0, 1.0, 1.0), 0.1)),)).top is None
    True
    """

    parts: tuple[Part, ...]
    top: Top | None = None


def _arc(x: float, z: float, radii: tuple[float, float], start: float, end: float) -> list[tuple[float, float, float]]:
    """Points of an ellipse in the x-z plane, angles in degrees."""
    angles = np.radians(np.linspace(start, end, 13))
    return [(float(x + radii[0] * np.cos(t)), 0.0, float(z + radii[1] * np.sin(t))) for t in angles]


def _mug() -> Model:
    wall = [(0.0, 0.0), (0.36, 0.0), (0.40, 0.08), (0.40, 0.92), (0.36, 0.92), (0.36, 0.08), (0.0, 0.06)]
    handle = tube(_arc(0.38, 0.47, (0.26, 0.27), -88, 88), (0.035, 0.06))
    return Model((Part("main", revolve(rounded_profile(wall, 0.05))), Part("main", handle)), top=Top("rim", 0.92, 0.4))


def _teapot() -> Model:
    body = [
        (0, 0),
        (0.30, 0),
        (0.32, 0.03),
        (0.46, 0.14),
        (0.53, 0.32),
        (0.48, 0.5),
        (0.34, 0.62),
        (0.22, 0.65),
        (0, 0.65),
    ]
    lid = [
        (0.0, 0.64),
        (0.25, 0.64),
        (0.24, 0.68),
        (0.14, 0.74),
        (0.05, 0.76),
        (0.04, 0.79),
        (0.075, 0.83),
        (0.06, 0.88),
        (0, 0.89),
    ]
    spout = [(0.44, 0, 0.2), (0.56, 0, 0.25), (0.64, 0, 0.34), (0.69, 0, 0.46), (0.75, 0, 0.57), (0.82, 0, 0.62)]
    handle = tube(_arc(-0.44, 0.36, (0.3, 0.22), 75, 285), (0.032, 0.045))
    return Model(
        (
            Part("main", revolve(rounded_profile(body, 0.09))),
            Part("main", revolve(rounded_profile(lid, 0.03))),
            Part("main", tube(spout, (0.095, 0.095), taper=0.45)),
            Part("main", handle),
        )
    )


def _ramekin() -> Model:
    wall = [
        (0, 0),
        (0.42, 0),
        (0.45, 0.05),
        (0.47, 0.42),
        (0.5, 0.45),
        (0.5, 0.5),
        (0.44, 0.5),
        (0.41, 0.08),
        (0, 0.07),
    ]
    dish = revolve(rounded_profile(wall, 0.03), segments=96)
    # Fluting: the ridges that make a ramekin a ramekin; the rim and the inside stay round.
    angle = np.arctan2(dish.vertices[:, 1], dish.vertices[:, 0])
    outside = (np.hypot(dish.vertices[:, 0], dish.vertices[:, 1]) > 0.415) & (dish.vertices[:, 2] < 0.41)
    outside &= dish.normals[:, :2].max(axis=1) > -2
    radial = dish.normals[:, 0] * np.cos(angle) + dish.normals[:, 1] * np.sin(angle)
    depth = np.where(outside & (radial > 0.3), 0.012 * np.cos(24 * angle), 0.0)
    bump = np.stack([np.cos(angle) * depth, np.sin(angle) * depth, np.zeros_like(depth)], axis=1)
    slope = np.where(depth != 0, 0.6 * np.sin(24 * angle), 0.0)[:, None]
    along = np.stack([-np.sin(angle), np.cos(angle), np.zeros_like(angle)], axis=1)
    normals = dish.normals + slope * along
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    fluted = Mesh((dish.vertices + bump).astype(np.float32), normals.astype(np.float32), dish.uv, dish.faces)
    return Model((Part("main", fluted),), top=Top("rim", 0.5, 0.48))


def _bowl() -> Model:
    outside = [(0, 0), (0.2, 0), (0.22, 0.05), (0.24, 0.07), (0.34, 0.12), (0.43, 0.22), (0.485, 0.34), (0.5, 0.44)]
    inside = [(0.47, 0.44), (0.455, 0.34), (0.4, 0.23), (0.31, 0.14), (0.2, 0.09), (0, 0.07)]
    return Model((Part("main", revolve(rounded_profile(outside + inside, 0.06))),), top=Top("rim", 0.44, 0.5))


def _dog_bowl() -> Model:
    wall = [(0, 0), (0.5, 0), (0.5, 0.03), (0.43, 0.3), (0.4, 0.33), (0.36, 0.3), (0.3, 0.1), (0, 0.08)]
    foot = [(0.3, 0.0), (0.515, 0.0), (0.515, 0.035), (0.49, 0.045)]
    return Model(
        (Part("main", revolve(rounded_profile(wall, 0.04))), Part("dark", revolve(rounded_profile(foot, 0.012)))),
        top=Top("rim", 0.33, 0.42),
    )


def _plate_profile() -> list[tuple[float, float]]:
    lower = [(0, 0.0), (0.28, 0.0), (0.31, 0.015), (0.4, 0.05), (0.5, 0.085)]
    return rounded_profile([*lower, (0.5, 0.1), (0.4, 0.068), (0.32, 0.035), (0, 0.03)], 0.03)


def _round_plate() -> Model:
    return Model((Part("main", revolve(_plate_profile(), segments=56)),), top=Top("dish", 0.03, 0.3))


def _square_plate() -> Model:
    return Model((Part("main", squared(revolve(_plate_profile(), segments=72), 9.0)),), top=Top("dish", 0.03, 0.3))


def _plant_container() -> Model:
    wall = [
        (0, 0),
        (0.29, 0),
        (0.3, 0.03),
        (0.38, 0.6),
        (0.42, 0.62),
        (0.43, 0.78),
        (0.385, 0.78),
        (0.37, 0.6),
        (0, 0.6),
    ]
    soil = [(0.0, 0.69), (0.38, 0.68)]
    return Model(
        (Part("main", revolve(rounded_profile(wall, 0.025))), Part("soil", revolve(soil[::-1]))),
        top=Top("rim", 0.78, 0.43),
    )


def _drug_bottle() -> Model:
    body = [(0, 0), (0.26, 0), (0.27, 0.02), (0.27, 0.6), (0.18, 0.7), (0.18, 0.74), (0, 0.74)]
    cap = [(0.15, 0.71), (0.215, 0.71), (0.215, 0.92), (0.2, 0.94), (0, 0.94)]
    label = [(0.272, 0.16), (0.274, 0.17), (0.274, 0.41), (0.272, 0.42)]
    return Model(
        (
            Part("main", revolve(rounded_profile(body, 0.05))),
            Part("cap", revolve(rounded_profile(cap, 0.02))),
            Part("label", revolve(label)),
        ),
        top=Top("flat", 0.94, 0.2),
    )


def _bottle() -> Model:
    body = [(0, 0), (0.19, 0), (0.2, 0.02), (0.2, 0.62), (0.17, 0.74), (0.09, 0.83), (0.08, 0.88), (0, 0.88)]
    cap = [(0.07, 0.86), (0.105, 0.86), (0.1, 0.98), (0.085, 1.0), (0, 1.0)]
    return Model(
        (Part("main", revolve(rounded_profile(body, 0.05))), Part("steel", revolve(rounded_profile(cap, 0.02))))
    )


def _frypan() -> Model:
    outside = [(0, 0), (0.36, 0), (0.4, 0.02), (0.48, 0.13), (0.5, 0.15)]
    pan = [*outside, (0.48, 0.155), (0.455, 0.125), (0.37, 0.035), (0, 0.025)]
    handle = [(0.46, 0, 0.12), (0.58, 0, 0.16), (0.72, 0, 0.19), (0.88, 0, 0.205), (1.0, 0, 0.2), (1.04, 0, 0.195)]
    return Model(
        (
            Part("main", revolve(rounded_profile(pan, 0.03), segments=56)),
            Part("dark", tube(handle, (0.022, 0.042))),
        ),
        top=Top("dish", 0.025, 0.33),
    )


def _milk_frother() -> Model:
    jug = [(0, 0.12), (0.27, 0.12), (0.28, 0.14), (0.26, 0.74), (0.25, 0.76), (0, 0.76)]
    base = [(0, 0), (0.33, 0), (0.34, 0.02), (0.33, 0.1), (0.28, 0.12), (0, 0.12)]
    lid = [(0, 0.75), (0.262, 0.75), (0.262, 0.81), (0.24, 0.83), (0, 0.83)]
    handle = tube(_arc(0.25, 0.47, (0.22, 0.23), -80, 80), (0.035, 0.05))
    return Model(
        (
            Part("steel", revolve(rounded_profile(jug, 0.03))),
            Part("black", revolve(rounded_profile(base, 0.02))),
            Part("black", revolve(rounded_profile(lid, 0.02))),
            Part("black", handle),
        ),
        top=Top("flat", 0.83, 0.24),
    )


def _pressure_cooker() -> Model:
    pot = [(0, 0), (0.42, 0), (0.46, 0.04), (0.46, 0.46), (0.44, 0.48), (0, 0.48)]
    band = [(0.462, 0.4), (0.475, 0.41), (0.475, 0.46), (0.462, 0.47)]
    lid = [(0, 0.47), (0.45, 0.47), (0.46, 0.51), (0.4, 0.6), (0.22, 0.66), (0, 0.67)]
    knob = [(0.05, 0.65), (0.06, 0.71), (0.12, 0.73), (0.12, 0.78), (0, 0.79)]
    panel = stretched(rounded_box((0.3, 0.06, 0.24), 0.02), (1, 1, 1))
    return Model(
        (
            Part("main", revolve(rounded_profile(pot, 0.04))),
            Part("steel", revolve(band)),
            Part("main", revolve(rounded_profile(lid, 0.05))),
            Part("steel", revolve(rounded_profile(knob, 0.02))),
            Part("steel", place(panel, (0.0, -0.45, 0.1))),
            Part("main", place(rounded_box((0.14, 0.2, 0.05), 0.02), (0.5, 0, 0.36))),
            Part("main", place(rounded_box((0.14, 0.2, 0.05), 0.02), (-0.5, 0, 0.36))),
        )
    )


def _basket() -> Model:
    wall = [(0, 0), (0.36, 0), (0.38, 0.03), (0.44, 0.5), (0.46, 0.55), (0.41, 0.55), (0.36, 0.06), (0, 0.05)]
    loops = [place(tube(_arc(0.0, 0.5, (0.12, 0.15), 0, 180), (0.022, 0.022)), (0, y, 0)) for y in (-0.44, 0.44)]
    return Model((Part("main", revolve(rounded_profile(wall, 0.04))), *(Part("leather", loop) for loop in loops)))


TABLEWARE: dict[str, Callable[[], Model]] = {
    "mug": _mug,
    "teapot": _teapot,
    "ramekin": _ramekin,
    "bowl": _bowl,
    "dog bowl": _dog_bowl,
    "round plate": _round_plate,
    "square plate": _square_plate,
    "plant container": _plant_container,
    "drug bottle": _drug_bottle,
    "bottle": _bottle,
    "frypan": _frypan,
    "milk frother": _milk_frother,
    "pressure cooker": _pressure_cooker,
    "basket": _basket,
}
