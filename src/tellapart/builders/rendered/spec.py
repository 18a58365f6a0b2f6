"""A scene as JSON: everything that determines a picture's pixels, to be written, edited, read and rendered again.

`python -m tellapart.builders.rendered.spec export SET ITEM SIDE --out scene.json` takes it from an item's provenance;
`... render scene.json --out picture.png` draws it. Fields: `format` (1); `settings` (`renderer`, `size` in pixels, `samples`,
`depth`, `seed`); `camera`, `light`, `ground` and each of `things` with the fields of `scene.Camera`, `Light`, `Ground`, `Thing`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tellapart.builders.rendered.assets import Up, find_assets, read_asset, register
from tellapart.builders.rendered.blender import Blender
from tellapart.builders.rendered.materials import FLOORS, PALETTE, WALLS
from tellapart.builders.rendered.objects import shape
from tellapart.builders.rendered.render import Settings
from tellapart.builders.rendered.renderers import MITSUBA, Renderer
from tellapart.builders.rendered.scene import Camera, Ground, Light, Scene, Thing
from tellapart.data.folder import read_pair_set
from tellapart.data.item import Item
from tellapart.data.validation import Problem
from tellapart.errors import DataError, UnknownNameError

__all__ = ["RendererName", "Spec", "main", "read_spec", "renderer", "spec_of", "write_spec"]

RendererName = Literal["mitsuba", "blender"]
_Vector = tuple[float, float, float]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class _Settings(_Strict):
    renderer: RendererName = "mitsuba"
    size: int = Field(ge=16, le=2048)
    samples: int = Field(ge=1, le=4096)
    depth: int = Field(ge=1, le=32)
    seed: int = Field(ge=0)


class _Camera(_Strict):
    position: _Vector
    target: _Vector
    field: float = Field(gt=0, lt=180)
    lens: float = Field(ge=0)


class _Light(_Strict):
    azimuth: float
    elevation: float
    spread: float = Field(gt=0)
    strength: float = Field(ge=0)
    warmth: float = Field(ge=-1, le=1)
    room: int = Field(ge=0)


class _Ground(_Strict):
    floor: str
    variant: int = Field(ge=0)
    tile: float = Field(gt=0)
    yaw: float
    wall: int = Field(ge=-1, lt=len(WALLS))
    wall_distance: float


class _Thing(_Strict):
    shape: str
    colour: str
    size: float = Field(gt=0)
    position: _Vector
    yaw: float


class _File(_Strict):
    format: Literal[1]
    settings: _Settings
    camera: _Camera
    light: _Light
    ground: _Ground
    things: tuple[_Thing, ...]


@dataclass(frozen=True, slots=True)
class Spec:
    """A scene, how it is rendered, and by what.

    >>> from tellapart.builders.rendered.quadruple import Key, draw
    >>> Spec(draw(Key("test", 0, "counting", 0)).scenes[0], Settings()).renderer
    'mitsuba'
    """

    scene: Scene
    settings: Settings
    renderer: RendererName = "mitsuba"

    def to_json(self) -> dict[str, Any]:
        """Return JSON types with every field by name.

        >>> from tellapart.builders.rendered.quadruple import Key, draw
        >>> sorted(Spec(draw(Key("test", 0, "counting", 0)).scenes[0], Settings()).to_json())
        ['camera', 'format', 'ground', 'light', 'settings', 'things']
        """
        settings = {"renderer": self.renderer, **asdict(self.settings)}
        told: dict[str, Any] = json.loads(json.dumps({"format": 1, "settings": settings, **asdict(self.scene)}))
        return told


def write_spec(path: Path, spec: Spec) -> None:
    """Write a spec as JSON.

    >>> import tempfile
    >>> from tellapart.builders.rendered.quadruple import Key, draw
    >>> spec = Spec(draw(Key("test", 0, "counting", 0)).scenes[0], Settings())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_spec(Path(folder) / "scene.json", spec)
    ...     read_spec(Path(folder) / "scene.json") == spec
    True
    """
    path.write_text(json.dumps(spec.to_json(), indent=1) + "\n", encoding="utf-8")


def read_spec(path: Path) -> Spec:
    """Read a spec. Assets that it shows must be registered first.

    Raises:
        DataError: the file is missing or not JSON, a field is missing, unknown or out of range, or names nothing there is.

    >>> read_spec(Path("missing.json"))
    Traceback (most recent call last):
    tellapart.errors.DataError: missing.json: no such scene; write one with python -m tellapart.builders.rendered.spec export
    """
    try:
        read = _File.model_validate_json(path.read_bytes())
    except FileNotFoundError as missing:
        raise DataError(
            f"{path}: no such scene; write one with python -m tellapart.builders.rendered.spec export"
        ) from missing
    except ValidationError as invalid:
        raise DataError(f"{path}: {Problem.first(invalid)}; correct it, or export the scene again") from invalid
    if read.ground.floor not in FLOORS:
        raise DataError(f"{path}: field 'ground.floor': no floor {read.ground.floor!r}; there are {', '.join(FLOORS)}")
    for number, thing in enumerate(read.things):
        try:
            shape(thing.shape)
        except UnknownNameError as unknown:
            raise DataError(f"{path}: field 'things[{number}].shape': {unknown}") from unknown
        if thing.colour not in {"", "metallic", *PALETTE}:
            raise DataError(
                f"{path}: field 'things[{number}].colour': no colour {thing.colour!r}; there are metallic, "
                f"{', '.join(PALETTE)} and none ('')"
            )
    values = read.model_dump(exclude={"things", "settings", "format"})
    scene = Scene(
        Camera(**values["camera"]),
        Light(**values["light"]),
        Ground(**values["ground"]),
        tuple(Thing(**thing.model_dump()) for thing in read.things),
    )
    return Spec(scene, Settings(**read.settings.model_dump(exclude={"renderer"})), read.settings.renderer)


def spec_of(item: Item, side: int) -> Spec:
    """Return what an item of a rendered set shows on one side, from its provenance.

    Raises:
        DataError: the provenance is not that of a rendered item.

    >>> spec_of(Item(id="a", images=("a.png",), texts=("x", "y")), 0)
    Traceback (most recent call last):
    tellapart.errors.DataError: item 'a': its provenance tells no scene (missing 'camera'); name an item that the builder scenes made
    """
    told: Mapping[str, Any] = item.provenance
    try:
        record = {name: told[name] for name in ("camera", "light", "ground")} | {"things": told["things"][side]}
        settings = dict(told["settings"])
    except (KeyError, IndexError) as missing:
        raise DataError(
            f"item {item.id!r}: its provenance tells no scene (missing {missing}); name an item that the builder scenes made"
        ) from missing
    name = settings.pop("renderer")
    return Spec(Scene.from_record(record), Settings(**settings), name)


def renderer(name: RendererName, blender_python: str = "") -> Renderer:
    """Return the renderer of that name.

    >>> renderer("mitsuba") is MITSUBA
    True
    """
    return Blender(blender_python) if name == "blender" else MITSUBA


def main(arguments: Sequence[str] | None = None) -> int:
    """Export or render a scene from the command line; returns the exit status.

    Raises:
        DataError: the set, the item or the scene cannot be read.

    >>> main(["render", "missing.json", "--out", "unused.png"])
    Traceback (most recent call last):
    tellapart.errors.DataError: missing.json: no such scene; write one with python -m tellapart.builders.rendered.spec export
    """
    parser = argparse.ArgumentParser(prog="python -m tellapart.builders.rendered.spec", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    export = commands.add_parser("export", help="write the scene of an item's picture")
    export.add_argument("set", type=Path, help="a pair set folder")
    export.add_argument("item", help="the item's id")
    export.add_argument("side", type=int, choices=(0, 1), help="which picture")
    drawing = commands.add_parser("render", help="draw a scene")
    drawing.add_argument("scene", type=Path)
    drawing.add_argument("--assets", type=Path, help="a folder of scanned objects that the scene shows")
    drawing.add_argument("--up", choices=("y", "z"), default="z", help="which axis of the assets points up")
    drawing.add_argument("--blender-python", default="", help="a Python that has bpy")
    for command in (export, drawing):
        command.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args(arguments)
    if chosen.command == "export":
        items = {item.id: item for item in read_pair_set(chosen.set).items}
        if chosen.item not in items:
            raise DataError(
                f"{chosen.set}: has no item {chosen.item!r}; its items are {', '.join(list(items)[:8])} ..."
            )
        write_spec(chosen.out, spec_of(items[chosen.item], chosen.side))
        return 0
    if chosen.assets is not None:
        _register_all(chosen.assets, chosen.up)
    spec = read_spec(chosen.scene)
    from PIL import Image

    Image.fromarray(renderer(spec.renderer, chosen.blender_python).render(spec.scene, spec.settings)).save(chosen.out)
    return 0


def _register_all(folder: Path, up: Up) -> None:
    """Read every asset of a folder."""
    for name in find_assets(folder):
        register(read_asset(folder, name, up))
