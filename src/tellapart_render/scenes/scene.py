"""Scenes as plain numbers: the things, camera, light and ground that a renderer needs; and functions that draw them.

Axes: x to the right of the camera, y away from it, z up; the ground is z = 0. Lengths are in scene units, angles in
radians.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from tellapart.errors import DataError
from tellapart_render.captions.grammar import Relation
from tellapart_render.meshes.materials import FLOORS, UNSEEN_FLOORS, UNSEEN_WALLS, WALLS
from tellapart_render.meshes.mesh import Vector, yaw_matrix
from tellapart_render.meshes.objects import shape

#: How pydantic reads a scene's file; it checks the bounds of the fields then, and not where a scene is drawn.
_READ = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
_Positive = Annotated[float, Field(gt=0)]
_Whole = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class Thing:
    """An object in a scene: shape, colour name (or ""), size of its longest side, position of its base, yaw."""

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
    """A soft box, and a room with a graded sky and three windows, drawn by the number `room`.

    `azimuth`, `elevation` and `spread` are the soft box's; `warmth` in [-1, 1] is from blue to yellow.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _READ

    azimuth: float
    elevation: float
    spread: _Positive
    strength: Annotated[float, Field(ge=0)]
    warmth: Annotated[float, Field(ge=-1, le=1)]
    room: _Whole


@dataclass(frozen=True, slots=True)
class Ground:
    """The floor's kind, variant, length of a texture tile and yaw; the wall's number (-1: no wall) and distance."""

    __pydantic_config__: ClassVar[ConfigDict] = _READ

    floor: str
    variant: _Whole
    tile: _Positive
    yaw: float
    wall: Annotated[int, Field(ge=-1, lt=len(WALLS) + len(UNSEEN_WALLS))]
    wall_distance: float


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that one picture shows."""

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
    """Return the fields of a part, with vectors as lists."""
    return [list(value) if isinstance(value, tuple) else value for value in astuple(part)]


def _to_tuples(row: list[Any]) -> list[Any]:
    """Return the fields in a row, with lists as vectors."""
    return [tuple(value) if isinstance(value, list) else value for value in row]


def place_points(points: NDArray[Any], thing: Thing) -> NDArray[np.float64]:
    """Scale, turn and move points `(n, 3)` of a shape as the thing is in the scene."""
    placed: NDArray[np.float64] = points * thing.size @ yaw_matrix(thing.yaw) + np.asarray(thing.position)
    return placed


def corners(thing: Thing) -> NDArray[np.float64]:
    """Return the vertices of an object in the scene, float64 `(n, 3)`."""
    return place_points(shape(thing.shape).hull, thing)


def project(points: NDArray[np.float64], camera: Camera) -> NDArray[np.float64]:
    """Project points `(n, 3)` to the picture: `(n, 3)` of x (right) and y (up), within [-1, 1] if seen, and depth."""
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
    """Return the cross product of two vectors; `numpy.cross` takes ten times as long for a single pair."""
    (a, b, c), (x, y, z) = one, other
    return np.array([b * z - c * y, c * x - a * z, a * y - b * x])


# By colour: the floors on which it would be hard to see.
_CAMOUFLAGE = {"white": ("marble", "paper"), "black": ("slate", "walnut"), "brown": ("walnut",), "grey": ("concrete",)}
_CAMOUFLAGE |= {"green": ("felt",), "red": ("terracotta",), "blue": ("gingham",)}
FLAT: tuple[Relation, ...] = ("left", "right", "front", "behind")
"""The relations of two things on the ground."""
#: By relation: the direction on the ground from the subject to the object, in radians from x to y.
_DIRECTIONS = {"right": 0.0, "behind": np.pi / 2, "left": np.pi, "front": -np.pi / 2}


def can_carry(below: Thing, above: Thing) -> bool:
    """Return whether `above` rests stably on `below`: on a plateau, across a rim, or within a dish."""
    top = shape(below.shape).top
    if top is None:
        return False
    narrow, wide = (half * above.size for half in shape(above.shape).base)
    radius = top.radius * below.size
    if top.kind == "rim":
        return narrow >= 1.05 * radius or (above.shape == "round plate" and narrow >= 0.7 * radius)
    if top.kind == "dish":
        return wide <= 1.02 * radius
    # Both have one axis, so that an overhang is stable, but a thing on a much smaller one looks wrong.
    return narrow <= 1.7 * radius and wide >= 0.25 * radius


def _round_vector(x: float, y: float, z: float) -> Vector:
    return (round(float(x), 4), round(float(y), 4), round(float(z), 4))


def relate(thing: Thing, relation: Relation, subject: Thing, rng: np.random.Generator) -> Thing:
    """Return `thing` moved into a relation to `subject`, as the camera sees it."""
    x, y, z = subject.position
    if relation == "top":
        top = shape(subject.shape).top
        height = 0.0 if top is None else top.height * subject.size
        return replace(thing, position=_round_vector(x, y, z + height))
    gap = rng.uniform(0.06, 0.40)
    distance = shape(thing.shape).reach * thing.size + shape(subject.shape).reach * subject.size + gap
    angle = _DIRECTIONS[relation] + rng.uniform(-0.35, 0.35)
    return replace(thing, position=_round_vector(x + distance * np.cos(angle), y + distance * np.sin(angle), z))


def scatter(count: int, size: float, reach: float, rng: np.random.Generator) -> list[Vector]:
    """Return `count` positions for things of one size and reach that do not touch; after 400 tries draw all again."""
    clear = 2.0 * reach * size + 0.08  # the least distance of two positions
    half = np.array([0.62, 0.74]) * clear * np.sqrt(max(count, 2))  # half the sides of the field
    spots: list[NDArray[np.float64]] = []
    for _ in range(400):
        spot = rng.uniform(-half, half)
        if all(np.hypot(*(spot - other)) >= clear for other in spots):
            spots.append(spot)
            if len(spots) == count:
                return [_round_vector(s[0], s[1], 0.0) for s in spots]
    return scatter(count, size, reach, rng)


def _box_corners(things: Sequence[Thing]) -> NDArray[np.float64]:
    """Return the eight corners of the upright box round each thing, float64 `(8 * things, 3)`."""
    points = []
    for thing in things:
        hull = shape(thing.shape).hull
        low, high = hull.min(axis=0), hull.max(axis=0)
        box = np.array([(x, y, z) for x in (low[0], high[0]) for y in (low[1], high[1]) for z in (low[2], high[2])])
        points.append(place_points(box, thing))
    return np.concatenate(points)


def camera_for(things: Sequence[Thing], rng: np.random.Generator, *, high: bool, unseen: bool = False) -> Camera:
    """Return the nearest camera that has every thing in view; `things` are those of all pictures that share it.

    `high` looks down more steeply, for things behind one another; `unseen` still more, with a wider field of view.
    """
    elevation = rng.uniform(0.52, 0.80) if high else rng.uniform(0.38, 0.66)
    field = rng.uniform(26.0, 40.0)
    if unseen:
        elevation, field = elevation + (0.30 if high else 0.44), field + 16.0
    slack = rng.uniform(1.05, 1.20)
    lens = rng.uniform(0.0, 0.035)
    points = _box_corners(things)
    middle = (points.min(axis=0) + points.max(axis=0)) / 2
    direction = np.array([0.0, -np.cos(elevation), np.sin(elevation)])
    near, far = 0.5, 60.0  # bounds of the distance, which each step halves
    for _ in range(22):
        distance = (near + far) / 2
        view = project(points, Camera(tuple(middle + distance * direction), tuple(middle), field, 0.0))
        is_inside = np.abs(view[:, :2]).max() * slack <= 1.0 and view[:, 2].min() > 0.2
        near, far = (near, distance) if is_inside else (distance, far)
    # A tilt of the aim moves the group off the centre within the slack.
    tilt = rng.uniform(-1, 1, 3) * np.array([0.5, 0.0, 0.3])
    aim = middle + tilt * (slack - 1.05) * far * np.tan(np.radians(field) / 2)
    return Camera(_round_vector(*(middle + far * direction)), _round_vector(*aim), round(field, 3), round(lens, 4))


def draw_light(rng: np.random.Generator, *, unseen: bool = False) -> Light:
    """Draw a soft box above and to a side, and a room; if `unseen`, a larger, coloured box overhead and other rooms."""
    light = Light(
        # From a side or over the viewer's shoulder: the wall shades light from behind it.
        azimuth=round(float(np.pi + rng.choice([-1.0, 1.0]) * rng.uniform(0.45, 1.55)), 4),
        elevation=round(float(rng.uniform(0.55, 1.10)), 4),
        spread=round(float(rng.uniform(0.16, 0.42)), 4),
        strength=round(float(rng.uniform(0.85, 1.2)), 4),
        warmth=round(float(rng.uniform(-1.0, 1.0)), 4),
        room=int(rng.integers(0, 16)),
    )
    if not unseen:
        return light
    elevation, spread = round(light.elevation + 0.56, 4), round(light.spread + 0.27, 4)
    strength, warmth = light.strength + 0.36, light.warmth + (1.05 if light.warmth > 0 else -1.05)
    return Light(light.azimuth, elevation, spread, round(strength, 4), round(warmth, 4), light.room + 16)


def draw_ground(things: Sequence[Thing], rng: np.random.Generator, *, unseen: bool = False) -> Ground:
    """Draw a floor, and a wall behind everything; `unseen`: of other materials, colours and tiles."""
    depth = float(_box_corners(things)[:, 1].max())
    colours = {thing.colour or "white" for thing in things}
    hiding = {floor for colour in colours for floor in _CAMOUFLAGE.get(colour, ())}
    floors = [floor for floor in (UNSEEN_FLOORS if unseen else FLOORS) if floor not in hiding]
    return Ground(
        floor=floors[int(rng.integers(len(floors)))],
        variant=int(rng.integers(0, 4)),
        tile=round(float(rng.choice([2.0, 6.0, 7.0] if unseen else [3.0, 4.0, 5.0])), 4),
        yaw=round(float(rng.uniform(-np.pi, np.pi)), 4),
        wall=len(WALLS) + int(rng.integers(len(UNSEEN_WALLS))) if unseen else int(rng.integers(len(WALLS))),
        wall_distance=round(depth + float(rng.uniform(0.7, 4.0)), 4),
    )
