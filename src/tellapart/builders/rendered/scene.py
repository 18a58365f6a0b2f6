"""What a scene is: plain numbers that say everything the renderer needs, and nothing else.

Axes: x to the right of the camera, y away from it, z up; the ground is z = 0. Lengths in scene units, angles in radians.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.builders.rendered.objects import shape
from tellapart.errors import DataError

__all__ = ["Camera", "Ground", "Light", "Scene", "Thing", "corners", "projected"]

Vector = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Thing:
    """An object in its place: shape, colour name (or ""), size of its longest side, position of its base, yaw.

    >>> Thing("mug", "red", 1.0, (0.0, 0.0, 0.0), 0.5).colour
    'red'
    """

    shape: str
    colour: str
    size: float
    position: Vector
    yaw: float


@dataclass(frozen=True, slots=True)
class Camera:
    """A thin-lens camera: where it stands, where it looks, horizontal field of view (degrees), lens radius.

    >>> Camera((0.0, -5.0, 2.0), (0.0, 0.0, 0.3), 35.0, 0.02).field
    35.0
    """

    position: Vector
    target: Vector
    field: float
    lens: float


@dataclass(frozen=True, slots=True)
class Light:
    """A soft box, a window and a graded sky: directions (radians), strength ratio, warmth in [-1, 1].

    >>> Light(0.5, 0.9, 0.4, 1.0, 0.2, 0).warmth
    0.2
    """

    azimuth: float
    elevation: float
    spread: float
    strength: float
    warmth: float
    room: int


@dataclass(frozen=True, slots=True)
class Ground:
    """Floor kind and variant, length of one texture tile, its turn; the wall's colour and its distance.

    >>> Ground("oak", 0, 4.0, 0.1, 2, 3.0).floor
    'oak'
    """

    floor: str
    variant: int
    tile: float
    yaw: float
    wall: int
    wall_distance: float


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that one picture shows.

    >>> scene = Scene(Camera((0, -5, 2), (0, 0, 0), 35, 0), Light(0, 1, 0.4, 1, 0, 0),
    ...               Ground("oak", 0, 4, 0, 0, 3), (Thing("mug", "red", 1.0, (0, 0, 0), 0.0),))
    >>> Scene.from_record(scene.to_record()) == scene
    True
    """

    camera: Camera
    light: Light
    ground: Ground
    things: tuple[Thing, ...]

    def to_record(self) -> dict[str, Any]:
        """Return JSON types: for camera, light, ground and each thing the list of its fields in order.

        >>> Scene(Camera((0, -5, 2), (0, 0, 0), 35, 0), Light(0, 1, 0.4, 1, 0, 0),
        ...       Ground("oak", 0, 4, 0, 0, 3), ()).to_record()["camera"]
        [[0, -5, 2], [0, 0, 0], 35, 0]
        """
        return {
            "camera": _row(self.camera),
            "light": _row(self.light),
            "ground": _row(self.ground),
            "things": [_row(thing) for thing in self.things],
        }

    @staticmethod
    def from_record(record: dict[str, Any]) -> Scene:
        """Rebuild a scene from `to_record`'s answer (or its JSON).

        Raises:
            DataError: a field is missing, or has too many or too few values.

        >>> Scene.from_record({})
        Traceback (most recent call last):
        tellapart.errors.DataError: Scene.from_record: not a scene record: missing 'camera'
        """
        try:
            return Scene(
                Camera(*_tuples(record["camera"])),
                Light(*_tuples(record["light"])),
                Ground(*_tuples(record["ground"])),
                tuple(Thing(*_tuples(row)) for row in record["things"]),
            )
        except KeyError as missing:
            raise DataError(f"Scene.from_record: not a scene record: missing {missing}") from missing
        except TypeError as wrong:
            raise DataError(f"Scene.from_record: not a scene record: {wrong}") from wrong


def _row(part: Thing | Camera | Light | Ground) -> list[Any]:
    """Return a record's values; vectors become lists."""
    return [list(value) if isinstance(value, tuple) else value for value in astuple(part)]


def _tuples(row: list[Any]) -> list[Any]:
    """Return a record's values; lists become vectors."""
    return [tuple(value) if isinstance(value, list) else value for value in row]


def corners(thing: Thing) -> NDArray[np.float64]:
    """Return the vertices of an object in its place, float64 `(n, 3)`.

    >>> corners(Thing("mug", "red", 2.0, (1.0, 0.0, 0.0), 0.0))[:, 2].max().round(2).item()
    1.71
    """
    cos, sin = np.cos(thing.yaw), np.sin(thing.yaw)
    turn = np.array([[cos, sin, 0.0], [-sin, cos, 0.0], [0.0, 0.0, 1.0]])
    placed: NDArray[np.float64] = shape(thing.shape).hull * thing.size @ turn + np.asarray(thing.position)
    return placed


def projected(points: NDArray[np.float64], camera: Camera) -> NDArray[np.float64]:
    """Project points to the picture: `(n, 3)` of x and y in [-1, 1] (right, up) where visible, and depth.

    >>> projected(np.array([[0.0, 0.0, 0.0]]), Camera((0, -4, 0), (0, 0, 0), 90.0, 0.0)).tolist()
    [[0.0, 0.0, 4.0]]
    """
    eye, target = np.asarray(camera.position, dtype=np.float64), np.asarray(camera.target, dtype=np.float64)
    forward = (target - eye) / np.linalg.norm(target - eye)
    right = np.cross(forward, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    up = np.cross(right, forward)
    local = (points - eye) @ np.stack([right, up, forward], axis=1)
    depth = np.maximum(local[:, 2], 1e-6)
    scale = np.tan(np.radians(camera.field) / 2)
    return np.stack([local[:, 0] / depth / scale, local[:, 1] / depth / scale, local[:, 2]], axis=1)
