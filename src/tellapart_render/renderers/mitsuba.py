"""Mitsuba 3 (`scalar_rgb`) as the renderer, in this process, denoised by Open Image Denoise.

The pictures and the masks come from the same geometry. A colour pass gives radiance, albedo and normals; a separate
pass without light transport gives the index of the object that each pixel sees.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, lru_cache
from importlib import metadata
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import require
from tellapart_render.meshes.materials import UNSEEN_WALLS, WALLS, Surface, floor_surface, surface
from tellapart_render.meshes.mesh import yaw_matrix
from tellapart_render.meshes.objects import shape
from tellapart_render.renderers.renderer import Settings, develop, environment
from tellapart_render.scenes.scene import Camera, Scene, Thing, place_points

if TYPE_CHECKING:
    from mitsuba import BSDF, Mesh


@cache
def _load_mitsuba() -> ModuleType:
    """Load Mitsuba in its scalar variant with one thread: processes are the unit of parallel work."""
    os.environ.setdefault("OIDN_NUM_THREADS", "1")
    os.environ.setdefault("OIDN_SET_AFFINITY", "0")
    mi = require("mitsuba", extra="render")
    require("pyoidn", extra="render")
    mi.set_variant("scalar_rgb")
    mi.set_log_level(mi.LogLevel.Error)
    require("drjit", extra="render").set_thread_count(1)
    return mi


def _make_mesh(thing: Thing, part: int) -> Mesh:
    """Return one part of a thing, in the thing's place, as a Mitsuba mesh."""
    mi = _load_mitsuba()
    piece = shape(thing.shape).parts[part]
    props = mi.Properties()
    props["material"] = _make_material(thing.shape, piece.slot, thing.colour)
    counts = {"vertex_count": len(piece.mesh.vertices), "face_count": len(piece.mesh.faces)}
    mesh: Mesh = mi.Mesh("part", **counts, has_vertex_normals=True, has_vertex_texcoords=True, props=props)
    values = mi.traverse(mesh)
    values["vertex_positions"] = place_points(piece.mesh.vertices, thing).astype(np.float32).ravel()
    values["vertex_normals"] = (piece.mesh.normals @ yaw_matrix(thing.yaw)).astype(np.float32).ravel()
    values["vertex_texcoords"] = piece.mesh.uv.ravel()
    values["faces"] = piece.mesh.faces.ravel()
    values.update()
    return mesh


def _list_meshes(things: tuple[Thing, ...]) -> list[tuple[str, int, Any]]:
    """Return every part of every thing: a key, the index of the thing, and the mesh."""
    return [
        (f"{number:02d}-{part:02d}", number, _make_mesh(thing, part))
        for number, thing in enumerate(things)
        for part in range(len(shape(thing.shape).parts))
    ]


def _describe_bsdf(described: Surface, repeat: float = 1.0) -> dict[str, Any]:
    """Describe a surface for Mitsuba; `repeat` is how often its picture is repeated in each direction."""
    mi = _load_mitsuba()
    colour: dict[str, Any]
    if isinstance(described.colour, tuple):
        colour = {"type": "rgb", "value": list(described.colour)}
    else:
        colour = {"type": "bitmap", "bitmap": mi.Bitmap(described.colour), "raw": True}
        if repeat != 1.0:
            colour["to_uv"] = mi.ScalarTransform3f().scale([repeat, repeat])
    if not described.terms:
        return {"type": "diffuse", "reflectance": colour}
    return {"type": "principled", "base_color": colour, **described.terms}


@cache
def _make_material(name: str, slot: str, colour: str) -> BSDF:
    """Make a material once a process."""
    bsdf: BSDF = _load_mitsuba().load_dict({"type": "twosided", "m": _describe_bsdf(surface(name, slot, colour))})
    return bsdf


@cache
def _floor_material(kind: str, variant: int, tile: float) -> BSDF:
    """Make a floor's material once a process."""
    bsdf: BSDF = _load_mitsuba().load_dict(_describe_bsdf(floor_surface(kind, variant), 60.0 / tile))
    return bsdf


def _describe_surroundings(scene: Scene) -> dict[str, Any]:
    """Describe floor, wall and light."""
    mi = _load_mitsuba()
    ground, transform, walls = scene.ground, mi.ScalarTransform4f, (*WALLS, *UNSEEN_WALLS)
    parts: dict[str, Any] = {
        "floor": {
            "type": "rectangle",
            "to_world": transform().rotate([0, 0, 1], float(np.degrees(ground.yaw))).scale([30, 30, 1]),
            "bsdf": _floor_material(ground.floor, ground.variant, ground.tile),
        },
        "sky": {
            "type": "envmap",
            "bitmap": mi.Bitmap(environment(scene.light)),
            "to_world": transform().rotate([1, 0, 0], 90),  # z up
        },
    }
    if ground.wall >= 0:
        parts["wall"] = {
            "type": "rectangle",
            "to_world": transform().translate([0, ground.wall_distance, 0]).rotate([1, 0, 0], 90).scale([30, 30, 1]),
            "bsdf": {"type": "diffuse", "reflectance": {"type": "rgb", "value": list(walls[ground.wall])}},
        }
    return parts


def _describe_sensor(camera: Camera, size: int, samples: int, seed: int) -> dict[str, Any]:
    """Describe the camera and its film; the denoiser needs the box filter."""
    mi = _load_mitsuba()
    distance = float(np.linalg.norm(np.subtract(camera.position, camera.target)))
    view = mi.ScalarTransform4f().look_at(origin=list(camera.position), target=list(camera.target), up=[0, 0, 1])
    film = {"type": "hdrfilm", "width": size, "height": size, "rfilter": {"type": "box"}}
    sensor: dict[str, Any] = {
        "type": "thinlens" if camera.lens > 0 else "perspective",
        "fov": camera.field,
        "to_world": view,
        "film": {**film, "pixel_format": "rgb", "component_format": "float32"},
        "sampler": {"type": "multijitter" if samples >= 4 else "independent", "sample_count": samples, "seed": seed},
    }
    if camera.lens > 0:
        sensor |= {"aperture_radius": camera.lens, "focus_distance": distance}
    return sensor


def render(scene: Scene, settings: Settings) -> NDArray[np.uint8]:
    """Render a scene: sRGB uint8 `(size, size, 3)`."""
    mi = _load_mitsuba()
    loaded = mi.load_dict(
        {
            "type": "scene",
            "sensor": _describe_sensor(scene.camera, settings.size, settings.samples, settings.seed),
            **_describe_surroundings(scene),
            **{key: mesh for key, _, mesh in _list_meshes(scene.things)},
        }
    )
    # Two passes: Mitsuba's combined pass (path inside aov) takes about 1.7 times as long as both apart.
    passes = (
        {"type": "path", "max_depth": settings.depth, "rr_depth": 4},
        {"type": "aov", "aovs": "albedo:albedo,normal:sh_normal"},
    )
    layers = [
        np.array(mi.render(loaded, integrator=mi.load_dict(layer), spp=settings.samples, seed=settings.seed))
        for layer in passes
    ]
    return develop(_denoise_radiance(layers[0], layers[1][..., :3], layers[1][..., 3:]))


def _denoise_radiance(
    colour: NDArray[np.float32], albedo: NDArray[np.float32], normal: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Denoise radiance with the help of albedo and normals, each `(h, w, 3)`."""
    import pyoidn

    clean: NDArray[np.float32] = pyoidn.denoise(
        np.ascontiguousarray(colour, dtype=np.float32),
        np.ascontiguousarray(np.clip(albedo, 0, 1), dtype=np.float32),
        np.ascontiguousarray(np.clip(normal, -1, 1), dtype=np.float32),
        hdr=True,
    )
    return clean


def masks(scene: Scene, size: int) -> tuple[NDArray[np.int16], list[int]]:
    """Return which thing each pixel sees, and how many pixels each would fill alone, as `Renderer.masks` does."""
    visible = _render_indices(scene.camera, scene.things, size)
    return visible, [count_lone_pixels(scene.camera, thing, size) for thing in scene.things]


@lru_cache(maxsize=64)
def count_lone_pixels(camera: Camera, thing: Thing, size: int) -> int:
    """Count the pixels of one object with nothing else in the scene."""
    return int((_render_indices(camera, (thing,), size) >= 0).sum())


def _render_indices(camera: Camera, things: tuple[Thing, ...], size: int) -> NDArray[np.int16]:
    """Return the index of the thing that each pixel sees, or -1: int16 `(size, size)`."""
    mi = _load_mitsuba()
    meshes = _list_meshes(things)
    loaded = mi.load_dict(
        {
            "type": "scene",
            "integrator": {"type": "aov", "aovs": "index:shape_index"},
            "sensor": _describe_sensor(replace(camera, lens=0.0), size, 1, 0),
            **{key: mesh for key, _, mesh in meshes},
        }
    )
    # The pass counts shapes from 1 in the scene's order; 0 is a ray that met nothing.
    things_by_key = {key: number for key, number, _ in meshes}
    lookup = np.array([-1, *(things_by_key[mesh.id()] for mesh in loaded.shapes())], dtype=np.int16)
    layer = np.array(mi.render(loaded, spp=1, seed=0))[..., 0]
    return np.asarray(lookup[np.rint(layer).astype(np.int64)])


class Mitsuba:
    """The `Renderer` that is used by default."""

    name = "mitsuba"
    render = staticmethod(render)
    masks = staticmethod(masks)

    @property
    def versions(self) -> Mapping[str, str]:
        """The versions of Mitsuba and of the denoiser."""
        for package in ("mitsuba", "pyoidn"):
            require(package, extra="render")
        return {name: metadata.version(name) for name in ("mitsuba", "pyoidn")}


MITSUBA = Mitsuba()
"""The default renderer."""
