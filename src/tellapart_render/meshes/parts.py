"""An object's model: its parts with their material slots, the place for an object on it, and shorthands for parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from tellapart_render.meshes.solids import Mesh, Vector, move, points, revolve, round_corners, rounded_box

QUARTER = 1.5707963267948966
"""A quarter turn in radians."""

SIDES = (-1.0, 1.0)
"""The signs of y (or x) of what an object has on both sides."""


@dataclass(frozen=True, slots=True)
class Part:
    """A mesh and the name of its material slot (`main` takes the object's attribute)."""

    slot: str
    mesh: Mesh


@dataclass(frozen=True, slots=True)
class Top:
    """A place on which another object can rest: a `flat` plateau, the `rim` of a hollow thing, or a `dish`.

    `height` above the ground and `radius` of the plateau, rim or recess, in the model's units.
    """

    kind: Literal["flat", "rim", "dish"]
    height: float
    radius: float


@dataclass(frozen=True, slots=True)
class Model:
    """The parts of an object with its base at z = 0, and its `top`; None if nothing can rest."""

    parts: tuple[Part, ...]
    top: Top | None = None


def build(*parts: Part | Iterable[Part], top: Top | None = None) -> Model:
    """Make a model of single parts and groups of parts, in the order given."""
    groups = ((part,) if isinstance(part, Part) else part for part in parts)
    return Model(tuple(part for group in groups for part in group), top)


def lathe(slot: str, profile: str, radius: float = 0.0, segments: int = 40) -> Part:
    """Revolve a profile, its corners rounded by `radius`."""
    line = points(profile)
    return Part(slot, revolve(round_corners(line, radius) if radius else line, segments))


def box(slot: str, size: Vector, radius: float, at: Vector = (0, 0, 0), yaw: float = 0.0, pitch: float = 0.0) -> Part:
    """Make a rounded box, turn it and move it."""
    return Part(slot, move(rounded_box(size, radius), at, yaw, pitch))


def mirror(slot: str, make: Callable[[float], Mesh]) -> tuple[Part, Part]:
    """Make the same part on both sides: `make` gets -1 and 1."""
    return Part(slot, make(-1.0)), Part(slot, make(1.0))
