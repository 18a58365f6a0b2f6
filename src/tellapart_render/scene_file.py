"""A scene as a JSON file, with everything that determines a picture's pixels, to be written, edited, read and rendered.

`python -m tellapart_render.scene_file export SET ITEM SIDE --out scene.json` writes the scene of an item's picture;
`... render scene.json --out picture.png` draws it. Fields: `format` (1); `settings` (`renderer`, `size` in pixels,
`samples`, `depth`, `seed`); `camera`, `light`, `ground` and the list `things`, with the fields of `scene.Camera`,
`Light`, `Ground` and `Thing`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tellapart.data.folder import read_pair_set
from tellapart.data.item import Item
from tellapart.data.strict_json import decode_text, parse_json, read_whole
from tellapart.data.validation import first_problem
from tellapart.errors import DataError, UnknownNameError
from tellapart_render.meshes.assets import find_assets, read_asset, register
from tellapart_render.meshes.materials import FLOORS, PALETTE, UNSEEN_FLOORS, is_colour
from tellapart_render.meshes.objects import shape
from tellapart_render.renderers.blender import Blender
from tellapart_render.renderers.mitsuba import MITSUBA
from tellapart_render.renderers.renderer import Renderer, Settings
from tellapart_render.scenes.scene import Camera, Ground, Light, Scene, Thing

RendererName = Literal["mitsuba", "blender"]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class _Settings(_Strict):
    renderer: RendererName = "mitsuba"
    size: int = Field(ge=16, le=2048)
    samples: int = Field(ge=1, le=4096)
    depth: int = Field(ge=1, le=32)
    seed: int = Field(ge=0)


class _File(_Strict):
    format: Literal[1]
    settings: _Settings
    camera: Camera
    light: Light
    ground: Ground
    things: tuple[Thing, ...]


@dataclass(frozen=True, slots=True)
class SceneFile:
    """A scene, the settings of its picture, and the renderer's name."""

    scene: Scene
    settings: Settings
    renderer: RendererName = "mitsuba"

    def to_json(self) -> dict[str, Any]:
        """Return JSON types with every field by name."""
        settings = {"renderer": self.renderer, **asdict(self.settings)}
        fields: dict[str, Any] = json.loads(json.dumps({"format": 1, "settings": settings, **asdict(self.scene)}))
        return fields


def write_scene_file(path: Path, content: SceneFile) -> None:
    """Write a scene as JSON."""
    path.write_text(json.dumps(content.to_json(), indent=1) + "\n", encoding="utf-8")


def read_scene_file(path: Path) -> SceneFile:
    """Read a scene. Assets that it shows must be registered first."""
    if not path.exists():
        raise DataError(f"{path}: no such scene; write one with python -m tellapart_render.scene_file export")
    text = decode_text(read_whole(path), path)
    parse_json(text, path)  # refuses a key that appears twice, which pydantic's reader does not
    try:
        content = _File.model_validate_json(text)
    except ValidationError as invalid:
        raise DataError(f"{path}: {first_problem(invalid)}; correct it, or export the scene again") from invalid
    floors = (*FLOORS, *UNSEEN_FLOORS)
    if content.ground.floor not in floors:
        raise DataError(
            f"{path}: field 'ground.floor': no floor {content.ground.floor!r}; there are {', '.join(floors)}"
        )
    for number, thing in enumerate(content.things):
        try:
            shape(thing.shape)
        except UnknownNameError as unknown:
            raise DataError(f"{path}: field 'things[{number}].shape': {unknown}") from unknown
        if not is_colour(thing.colour):
            choices = f"metallic, {', '.join(PALETTE)}, two of them mixed ('red 0.25 blue') and none ('')"
            raise DataError(f"{path}: field 'things[{number}].colour': no colour {thing.colour!r}; there are {choices}")
    scene = Scene(content.camera, content.light, content.ground, content.things)
    return SceneFile(scene, Settings(**content.settings.model_dump(exclude={"renderer"})), content.settings.renderer)


def scene_of_item(item: Item, side: int) -> SceneFile:
    """Return the scene that an item of a rendered set shows on one side, from its provenance."""
    provenance: Mapping[str, Any] = item.provenance
    try:
        record = {name: provenance[name] for name in ("camera", "light", "ground")}
        record["things"] = provenance["things"][side]
        settings = dict(provenance["settings"])
    except (KeyError, IndexError) as missing:
        fault = f"its provenance holds no scene (missing {missing}); name an item that the builder scenes made"
        raise DataError(f"item {item.id!r}: {fault}") from missing
    name = settings.pop("renderer")
    return SceneFile(Scene.from_record(record), Settings(**settings), name)


def load_renderer(name: RendererName, blender_python: str = "") -> Renderer:
    """Return the renderer of that name; `blender_python` comes from the user's command line, never from a file."""
    return Blender(blender_python) if name == "blender" else MITSUBA


def main(arguments: Sequence[str] | None = None) -> int:
    """Export or render a scene from the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tellapart_render.scene_file", description=__doc__)
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
    options = parser.parse_args(arguments)
    if options.command == "export":
        items = {item.id: item for item in read_pair_set(options.set).items}
        if options.item not in items:
            listed = ", ".join(list(items)[:8])
            raise DataError(f"{options.set}: has no item {options.item!r}; its items are {listed} ...")
        write_scene_file(options.out, scene_of_item(items[options.item], options.side))
        return 0
    for name in find_assets(options.assets) if options.assets is not None else ():
        register(read_asset(options.assets, name, options.up))
    content = read_scene_file(options.scene)
    from PIL import Image

    renderer = load_renderer(content.renderer, options.blender_python)
    Image.fromarray(renderer.render(content.scene, content.settings)).save(options.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
