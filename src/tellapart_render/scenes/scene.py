"""Scenes as plain numbers: things, camera, light and ground are all that a renderer needs.

Axes: x to the right of the camera, y away from it, z up; the ground is z = 0. Lengths in scene units, angles in
radians.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from tellapart.errors import DataError
from tellapart_render.meshes.materials import UNSEEN_WALLS, WALLS
from tellapart_render.meshes.objects import shape
from tellapart_render.meshes.solids import Vector, yaw_matrix

#: How a scene's file is read; the bounds of the fields hold there, and cost nothing where a scene is drawn.
_READ = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
_Positive = Annotated[float, Field(gt=0)]
_Whole = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class Thing:
    """An object in its place: shape, colour name (or ""), size of its longest side, position of its base, yaw."""

    __pydantic_config__: ClassVar[ConfigDict] = _READ

    shape: str
    colour: str
    size: _Positive
    position: Vector
    yaw: float


@dataclass(frozen=True, slots=True)
class Camera:
    """A thin-lens camera: its position, the point it aims at, horizontal field of view (degrees), lens radius."""

    __pydantic_config__: ClassVar[ConfigDict] = _READ

    position: Vector
    target: Vector
    field: Annotated[float, Field(gt=0, lt=180)]
    lens: Annotated[float, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class Light:
    """A soft box, a window and a graded sky: directions (radians), strength ratio, warmth in [-1, 1]."""

    __pydantic_config__: ClassVar[ConfigDict] = _READ

    azimuth: float
    elevation: float
    spread: _Positive
    strength: Annotated[float, Field(ge=0)]
    warmth: Annotated[float, Field(ge=-1, le=1)]
    room: _Whole


@dataclass(frozen=True, slots=True)
class Ground:
    """Floor kind and variant, length of one texture tile, its turn; the wall's colour and its distance."""

    __pydantic_config__: ClassVar[ConfigDict] = _READ

    floor: str
    variant: _Whole
    tile: _Positive
    yaw: float
    wall: Annotated[int, Field(ge=-1, lt=len(WALLS) + len(UNSEEN_WALLS))]
    wall_distance: float


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that one picture shows.

    >>> scene = Scene(Camera((0, -5, 2), (0, 0, 0), 35, 0), Light(0, 1, 0.4, 1, 0, 0),
    ...               Ground("oak", 0, 4, 0, 0, 3), (Thing("mug", "red", 1.0, (0, 0, 0), 0.0),))
    >>> scene.to_record()["camera"], Scene.from_record(scene.to_record()) == scene
    ([[0, -5, 2], [0, 0, 0], 35, 0], True)
    """

    camera: Camera
    light: Light
    ground: Ground
    things: tuple[Thing, ...]

    def to_record(self) -> dict[str, Any]:
        """Return JSON types: for camera, light, ground and each thing the list of its fields in order."""
        shared = {"camera": _to_row(self.camera), "light": _to_row(self.light), "ground": _to_row(self.ground)}
        return {**shared, "things": [_to_row(thing) for thing in self.things]}

    @staticmethod
    def from_record(record: dict[str, Any]) -> Scene:
        """Rebuild a scene from a record of `to_record` (or its JSON)."""
        try:
            return Scene(
                Camera(*_to_tuples(record["camera"])),
                Light(*_to_tuples(record["light"])),
                Ground(*_to_tuples(record["ground"])),
                tuple(Thing(*_to_tuples(row)) for row in record["things"]),
            )
        except KeyError as missing:
            raise DataError(f"Scene.from_record: not a scene record: missing {missing}") from missing
        except TypeError as wrong:
            raise DataError(f"Scene.from_record: not a scene record: {wrong}") from wrong


def _to_row(part: Thing | Camera | Light | Ground) -> list[Any]:
    """Return a record's values; vectors become lists."""
    return [list(value) if isinstance(value, tuple) else value for value in astuple(part)]


def _to_tuples(row: list[Any]) -> list[Any]:
    """Return a record's values; lists become vectors."""
    return [tuple(value) if isinstance(value, list) else value for value in row]


def place_points(points: NDArray[Any], thing: Thing) -> NDArray[np.float64]:
    """Scale, turn and move points `(n, 3)` of a shape to the thing's place."""
    placed: NDArray[np.float64] = points * thing.size @ yaw_matrix(thing.yaw) + np.asarray(thing.position)
    return placed


def corners(thing: Thing) -> NDArray[np.float64]:
    """Return the vertices of an object in its place, float64 `(n, 3)`."""
    return place_points(shape(thing.shape).hull, thing)


def project(points: NDArray[np.float64], camera: Camera) -> NDArray[np.float64]:
    """Project points to the picture: `(n, 3)` of x and y in [-1, 1] (right, up) if visible, and depth.

    >>> project(np.array([[0.0, 0.0, 0.0]]), Camera((0, -4, 0), (0, 0, 0), 90.0, 0.0)).tolist()
    [[0.0, 0.0, 4.0]]
    """
    eye, target = np.asarray(camera.position, dtype=np.float64), np.asarray(camera.target, dtype=np.float64)
    forward = (target - eye) / np.linalg.norm(target - eye)
    right = _cross_product(forward, (0.0, 0.0, 1.0))
    right /= np.linalg.norm(right)
    up = _cross_product(right, forward)
    local = (points - eye) @ np.stack([right, up, forward], axis=1)
    depth = np.maximum(local[:, 2], 1e-6)
    scale = np.tan(np.radians(camera.field) / 2)
    return np.stack([local[:, 0] / depth / scale, local[:, 1] / depth / scale, local[:, 2]], axis=1)


def _cross_product(
    one: Sequence[float] | NDArray[np.float64], other: Sequence[float] | NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the cross product of two vectors, as `numpy.cross` does, in a tenth of its time for a single pair."""
    (a, b, c), (x, y, z) = one, other
    return np.array([b * z - c * y, c * x - a * z, a * y - b * x])
