"""Scenes to pixels with Mitsuba 3 (`scalar_rgb`), denoised by Open Image Denoise; and object masks.

The pictures and the masks come from the same geometry. A colour pass gives radiance, albedo and normals; a separate
pass without light transport gives the index of the object that each pixel sees.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.builders.rendered.materials import WALLS, Surface, floor_surface, surface
from tellapart.builders.rendered.objects import shape
from tellapart.builders.rendered.scene import Camera, Light, Scene, Thing
from tellapart.errors import require

__all__ = ["Settings", "developed", "environment", "lone_pixels", "masks", "render"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Side of the square picture in pixels, samples per pixel, longest light path, seed of the sampler.

    >>> Settings().samples
    8
    """

    size: int = 160
    samples: int = 8
    depth: int = 6
    seed: int = 0


@cache
def _mitsuba() -> Any:
    """Load Mitsuba in its scalar variant with one thread: processes are the unit of parallel work."""
    os.environ.setdefault("OIDN_NUM_THREADS", "1")
    os.environ.setdefault("OIDN_SET_AFFINITY", "0")
    mi = require("mitsuba", extra="render")
    require("pyoidn", extra="render")
    mi.set_variant("scalar_rgb")
    mi.set_log_level(mi.LogLevel.Error)
    require("drjit", extra="render").set_thread_count(1)
    return mi


@lru_cache(maxsize=4)
def environment(light: Light, height: int = 48) -> NDArray[np.float32]:
    """Draw the surroundings as latitude-longitude radiance, float32 `(height, 2 height, 3)`.

    Row 0 is straight up; column 0 looks along +y, and a quarter of the width farther along +x.

    >>> environment(Light(0.5, 0.9, 0.4, 1.0, 0.2, 0)).shape
    (48, 96, 3)
    """
    polar = (np.arange(height) + 0.5) / height * np.pi
    turn = (np.arange(2 * height) + 0.5) / height * np.pi
    direction = np.stack(
        [
            np.sin(polar)[:, None] * np.sin(turn)[None],
            np.sin(polar)[:, None] * np.cos(turn)[None],
            np.broadcast_to(np.cos(polar)[:, None], (height, 2 * height)),
        ],
        axis=2,
    )
    rng = np.random.default_rng([23, light.room])
    warm = np.array([1.0 + 0.18 * light.warmth, 1.0, 1.0 - 0.22 * light.warmth])
    up = direction[..., 2:]
    sky = 0.20 + 0.22 * np.clip(up, 0, 1) - 0.08 * np.clip(-up, 0, 1)
    image: NDArray[np.float64] = sky * (2.0 - warm) * 0.9

    def blob(azimuth: float, elevation: float, spread: float) -> NDArray[np.float64]:
        axis = np.array([np.cos(elevation) * np.sin(azimuth), np.cos(elevation) * np.cos(azimuth), np.sin(elevation)])
        angle = np.arccos(np.clip(direction @ axis, -1, 1))
        return np.asarray(1.0 / (1.0 + np.exp((angle - spread) / (0.12 * spread))))[..., None]

    # Radiant power, not radiance, is what must stay equal when the soft box grows.
    image = image + blob(light.azimuth, light.elevation, light.spread) * warm * light.strength * 1.9 / light.spread**2
    for _ in range(3):
        side = float(rng.uniform(-np.pi, np.pi))
        image = image + blob(side, float(rng.uniform(0.1, 0.6)), 0.22) * (2.0 - warm) * float(rng.uniform(0.5, 2.2))
    return image.astype(np.float32)


def _sky(light: Light) -> dict[str, Any]:
    """Describe the environment emitter with z up."""
    mi = _mitsuba()
    turn = mi.ScalarTransform4f().rotate([1, 0, 0], 90)
    return {"type": "envmap", "bitmap": mi.Bitmap(environment(light)), "to_world": turn}


def _placed(thing: Thing, part: int) -> Any:
    """Move a cached mesh to where the thing stands; returns the mesh."""
    mi = _mitsuba()
    piece = shape(thing.shape).parts[part]
    props = mi.Properties()
    props["material"] = _material(thing.shape, piece.slot, thing.colour)
    mesh = mi.Mesh(
        "part",
        vertex_count=len(piece.mesh.vertices),
        face_count=len(piece.mesh.faces),
        has_vertex_normals=True,
        has_vertex_texcoords=True,
        props=props,
    )
    cos, sin = np.cos(thing.yaw), np.sin(thing.yaw)
    turn = np.array([[cos, sin, 0.0], [-sin, cos, 0.0], [0.0, 0.0, 1.0]])
    values = mi.traverse(mesh)
    position = np.asarray(thing.position)
    values["vertex_positions"] = (piece.mesh.vertices * thing.size @ turn + position).astype(np.float32).ravel()
    values["vertex_normals"] = (piece.mesh.normals @ turn).astype(np.float32).ravel()
    values["vertex_texcoords"] = piece.mesh.uv.ravel()
    values["faces"] = piece.mesh.faces.ravel()
    values.update()
    return mesh


def _bsdf(described: Surface, repeat: float = 1.0) -> dict[str, Any]:
    """Say a surface in Mitsuba's words; `repeat`: how often its picture fills the texture space."""
    mi = _mitsuba()
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
def _material(name: str, slot: str, colour: str) -> Any:
    """Make a material once a process."""
    return _mitsuba().load_dict({"type": "twosided", "m": _bsdf(surface(name, slot, colour))})


@cache
def _floor_material(kind: str, variant: int, tile: float) -> Any:
    """Make a floor's material once a process."""
    return _mitsuba().load_dict(_bsdf(floor_surface(kind, variant), 60.0 / tile))


def _surroundings(scene: Scene) -> dict[str, Any]:
    """Describe floor, wall and light."""
    mi = _mitsuba()
    ground = scene.ground
    transform = mi.ScalarTransform4f
    turned = transform().rotate([0, 0, 1], float(np.degrees(ground.yaw))).scale([30, 30, 1])
    parts: dict[str, Any] = {
        "floor": {
            "type": "rectangle",
            "to_world": turned,
            "bsdf": _floor_material(ground.floor, ground.variant, ground.tile),
        },
        "sky": _sky(scene.light),
    }
    if ground.wall >= 0:
        upright = transform().translate([0, ground.wall_distance, 0]).rotate([1, 0, 0], 90).scale([30, 30, 1])
        colour = {"type": "rgb", "value": list(WALLS[ground.wall])}
        parts["wall"] = {
            "type": "rectangle",
            "to_world": upright,
            "bsdf": {"type": "diffuse", "reflectance": colour},
        }
    return parts


def _sensor(camera: Camera, size: int, samples: int, seed: int) -> dict[str, Any]:
    """Describe the camera and its film; the denoiser needs the box filter."""
    mi = _mitsuba()
    distance = float(np.linalg.norm(np.subtract(camera.position, camera.target)))
    look = mi.ScalarTransform4f().look_at(origin=list(camera.position), target=list(camera.target), up=[0, 0, 1])
    sensor: dict[str, Any] = {
        "type": "thinlens" if camera.lens > 0 else "perspective",
        "fov": camera.field,
        "to_world": look,
        "film": {
            "type": "hdrfilm",
            "width": size,
            "height": size,
            "rfilter": {"type": "box"},
            "pixel_format": "rgb",
            "component_format": "float32",
        },
        "sampler": {"type": "multijitter" if samples >= 4 else "independent", "sample_count": samples, "seed": seed},
    }
    if camera.lens > 0:
        sensor |= {"aperture_radius": camera.lens, "focus_distance": distance}
    return sensor


def render(scene: Scene, settings: Settings) -> NDArray[np.uint8]:
    """Render a scene: sRGB uint8 `(size, size, 3)`.

    Raises:
        MissingDependencyError: Mitsuba or pyoidn is not installed.

    >>> from tellapart.builders.rendered.quadruple import Key, draw
    >>> render(draw(Key("test", 0, "counting", 0)).scenes[0], Settings(size=32, samples=1, depth=2)).shape
    (32, 32, 3)
    """
    mi = _mitsuba()
    loaded = mi.load_dict(
        {
            "type": "scene",
            "sensor": _sensor(scene.camera, settings.size, settings.samples, settings.seed),
            **_surroundings(scene),
            **{key: mesh for key, _, mesh in _meshes(scene.things)},
        }
    )
    # Two passes: Mitsuba's combined pass (path inside aov) takes about 1.7 times as long as both apart.
    passes = (
        {"type": "path", "max_depth": settings.depth, "rr_depth": 4},
        {"type": "aov", "aovs": "albedo:albedo,normal:sh_normal"},
    )
    layers = [
        np.array(mi.render(loaded, integrator=mi.load_dict(each), spp=settings.samples, seed=settings.seed))
        for each in passes
    ]
    return developed(_denoised(layers[0], layers[1][..., :3], layers[1][..., 3:]))


def _meshes(things: tuple[Thing, ...]) -> list[tuple[str, int, Any]]:
    """Return key, index of the thing and Mitsuba mesh of every part of every thing."""
    return [
        (f"{number:02d}-{part:02d}", number, _placed(thing, part))
        for number, thing in enumerate(things)
        for part in range(len(shape(thing.shape).parts))
    ]


def _denoised(
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


def developed(radiance: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Tone-map radiance with a fixed film curve and encode as sRGB; nothing depends on the picture's content.

    >>> developed(np.zeros((1, 1, 3), dtype=np.float32)).tolist()
    [[[0, 0, 0]]]
    """
    x = np.clip(radiance, 0.0, None) * 0.62
    # Narkowicz's fit of the ACES film curve.
    film = np.clip(x * (2.51 * x + 0.03) / (x * (2.43 * x + 0.59) + 0.14), 0.0, 1.0)
    encoded = np.where(film <= 0.0031308, 12.92 * film, 1.055 * film ** (1 / 2.4) - 0.055)
    return np.asarray(np.round(encoded * 255.0), dtype=np.uint8)


def masks(scene: Scene, size: int) -> tuple[NDArray[np.int16], list[int]]:
    """Return which object each pixel sees, and how many pixels each object would fill if it stood alone.

    The first is int16 `(size, size)`: the index of the thing, -1 for surroundings. One ray a pixel, no lens blur.

    Raises:
        MissingDependencyError: Mitsuba is not installed.

    >>> from tellapart.builders.rendered.quadruple import Key, draw
    >>> seen, alone = masks(draw(Key("test", 0, "attribute", 0)).scenes[0], 32)
    >>> seen.shape, len(alone), int(seen.max())
    ((32, 32), 2, 1)
    """
    whole = _indices(scene.camera, scene.things, size)
    return whole, [lone_pixels(scene.camera, thing, size) for thing in scene.things]


@lru_cache(maxsize=64)
def lone_pixels(camera: Camera, thing: Thing, size: int) -> int:
    """Count the pixels of one object with nothing else in the scene.

    Raises:
        MissingDependencyError: Mitsuba is not installed.

    >>> camera = Camera((0.0, -4.0, 1.0), (0.0, 0.0, 0.4), 30.0, 0.0)
    >>> 0 < lone_pixels(camera, Thing("mug", "red", 1.0, (0.0, 0.0, 0.0), 0.0), 32) < 32 * 32
    True
    """
    return int((_indices(camera, (thing,), size) >= 0).sum())


def _indices(camera: Camera, things: tuple[Thing, ...], size: int) -> NDArray[np.int16]:
    """Render the `shape_index` pass of some things and map Mitsuba's shapes back to things."""
    mi = _mitsuba()
    meshes = _meshes(things)
    loaded = mi.load_dict(
        {
            "type": "scene",
            "integrator": {"type": "aov", "aovs": "index:shape_index"},
            "sensor": _sensor(replace(camera, lens=0.0), size, 1, 0),
            **{key: mesh for key, _, mesh in meshes},
        }
    )
    # The pass counts shapes from 1 in the scene's own order; 0 is a ray that met nothing.
    owner = {key: number for key, number, _ in meshes}
    lookup = np.array([-1, *(owner[each.id()] for each in loaded.shapes())], dtype=np.int16)
    layer = np.array(mi.render(loaded, spp=1, seed=0))[..., 0]
    return np.asarray(lookup[np.rint(layer).astype(np.int64)])
