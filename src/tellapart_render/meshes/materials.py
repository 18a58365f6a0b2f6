"""Materials: the palette of the colours that captions name, and descriptions of surfaces for renderers.

Their numbers are in `surfaces.toml`. Colours are linear RGB in [0, 1]; textures are computed from a seed, so no image
files ship.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from tellapart_render.meshes.assets import asset_texture

RGB = tuple[float, float, float]

_FILE = tomllib.loads(files("tellapart_render.meshes").joinpath("surfaces.toml").read_text(encoding="utf-8"))
_GROUND = _FILE["surroundings"]

PALETTE: dict[str, RGB] = {name: tuple(colour) for name, colour in _FILE["palette"].items()}

FLOORS, WALLS = tuple(_GROUND["floors"]), tuple(map(tuple, _GROUND["walls"]))

#: Floors and walls of scenes whose recipe has `unseen = ["ground"]` alone; their numbers follow those of FLOORS, WALLS.
UNSEEN_FLOORS, UNSEEN_WALLS = tuple(_GROUND["unseen_floors"]), tuple(map(tuple, _GROUND["unseen_walls"]))

#: The terms of the material whose colour captions name: by shape, and of all other shapes.
_FINISHES = {shape: finish["terms"] for finish in _FILE["finishes"] for shape in finish["shapes"]}
_GLAZED = _FILE["finishes"][0]["terms"]


def _smooth_noise(rng: np.random.Generator, size: tuple[int, int], cells: tuple[int, int]) -> NDArray[np.float64]:
    """Return noise in [0, 1] that repeats at the edges: random cells, smoothly interpolated, float64 `size`."""
    noise: NDArray[np.float64] = rng.random(cells)
    for axis in (0, 1):
        position = np.arange(size[axis]) * cells[axis] / size[axis]
        cell = position.astype(int)
        share = position - cell
        share = share * share * (3 - 2 * share)
        share = share[:, None] if axis == 0 else share[None, :]
        before, after = (np.take(noise, k % cells[axis], axis=axis) for k in (cell, cell + 1))
        noise = before * (1 - share) + after * share
    return noise


def _fractal_noise(rng: np.random.Generator, size: int, cells: tuple[int, int], octaves: int) -> NDArray[np.float64]:
    """Return the mean of octaves of smooth noise, each with half the weight of the last: float64 `(size, size)`."""
    total, weight = np.zeros((size, size)), 0.0
    for octave in range(octaves):
        scale = 2**octave
        if max(cells) * scale > size:
            break
        total += _smooth_noise(rng, (size, size), (cells[0] * scale, cells[1] * scale)) / scale
        weight += 1.0 / scale
    return total / weight


def _draw_wood(rng: np.random.Generator, size: int, light: RGB, dark: RGB) -> NDArray[np.float64]:
    """Planks along u, with grain, a tone for each plank and thin dark joints."""
    planks = 6
    row = np.arange(size) * planks // size
    tone = rng.uniform(-0.14, 0.14, planks)[row][:, None]
    grain = _fractal_noise(rng, size, (24, 3), 4)
    rings = 0.5 + 0.5 * np.sin(
        2 * np.pi * (6 * _fractal_noise(rng, size, (6, 1), 3) + np.arange(size)[:, None] * 14 / size)
    )
    mix = np.clip(0.55 * grain + 0.3 * rings + tone, 0, 1)[..., None]
    image = np.asarray(light) * (1 - mix) + np.asarray(dark) * mix
    is_joint = (np.arange(size) * planks / size) % 1.0 < 0.02
    image[is_joint] *= 0.35
    ends = rng.integers(0, size, planks)
    for k in range(planks):
        band = slice(k * size // planks, (k + 1) * size // planks)
        image[band, ends[k] : ends[k] + 2] *= 0.4
    return image


def _draw_marble(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    """White stone with thin grey veins."""
    warp = _fractal_noise(rng, size, (3, 3), 5)
    vein = np.abs(_fractal_noise(rng, size, (4, 4), 5) + 0.6 * warp - 0.8)
    mix = np.exp(-vein * 28)[..., None] * 0.55 + 0.15 * warp[..., None]
    stone: NDArray[np.float64] = np.array([0.72, 0.71, 0.69]) * (1 - mix) + np.array([0.28, 0.28, 0.30]) * mix
    return stone


def _draw_tiles(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    """Two-tone square tiles with pale joints."""
    cells = 8
    row, column = np.indices((size, size)) * cells // size
    checker = ((row + column) % 2)[..., None]
    tone = rng.uniform(0.92, 1.08, (cells, cells))[row, column][..., None]
    image = np.where(checker == 0, [[[0.62, 0.60, 0.55]]], [[[0.22, 0.23, 0.24]]]) * tone
    fraction = np.indices((size, size)) * cells / size % 1.0
    is_joint = (fraction < 0.03).any(axis=0)
    image[is_joint] = (0.42, 0.41, 0.39)
    return image * (0.94 + 0.12 * _fractal_noise(rng, size, (16, 16), 3)[..., None])


@cache
def floor_texture(kind: str, variant: int, size: int = 384) -> NDArray[np.float32]:
    """Return a floor's colour picture, float32 `(size, size, 3)`, linear RGB; the same for the same arguments."""
    rng = np.random.default_rng([7, (*FLOORS, *UNSEEN_FLOORS).index(kind), variant])
    if kind in ("oak", "walnut", "birch"):
        tones = {"oak": ((0.50, 0.33, 0.18), (0.27, 0.15, 0.07)), "walnut": ((0.19, 0.11, 0.065), (0.07, 0.035, 0.02))}
        tones["birch"] = ((0.72, 0.60, 0.42), (0.55, 0.42, 0.27))
        image = _draw_wood(rng, size, *tones[kind])
    elif kind == "marble":
        image = _draw_marble(rng, size)
    elif kind == "tile":
        image = _draw_tiles(rng, size)
    elif kind == "linen":
        weave = rng.random((size, 1, 1)) * 0.5 + rng.random((1, size, 1)) * 0.5
        image = np.array([0.50, 0.46, 0.38]) * (0.72 + 0.4 * weave) * (0.9 + 0.2 * rng.random((size, size, 1)))
    elif kind == "gingham":
        stripe = (np.arange(size) * 12 // size % 2) / 2
        image = 0.70 - (stripe[:, None, None] + stripe[None, :, None]) * np.array([0.55, 0.50, 0.20])
    else:
        base = {"concrete": (0.36, 0.36, 0.35), "slate": (0.075, 0.08, 0.088), "paper": (0.66, 0.63, 0.58)}
        base |= {"terracotta": (0.40, 0.17, 0.09), "felt": (0.05, 0.16, 0.11)}
        rough = {"concrete": 0.5, "slate": 0.6, "paper": 0.08, "terracotta": 0.35, "felt": 0.3}[kind]
        cloud = _fractal_noise(rng, size, (4, 4), 6)[..., None]
        image = np.array(base[kind]) * (1 - rough / 2 + rough * cloud)
    tint = 1.0 + rng.uniform(-0.06, 0.06, 3)
    return np.clip(image * tint, 0.0, 0.9).astype(np.float32)


def _cloth_rng(pattern: int, colour: str) -> np.random.Generator:
    return np.random.default_rng([pattern, sorted(PALETTE).index(colour)])


@cache
def _draw_stripes(colour: str, size: int = 192) -> NDArray[np.float32]:
    """Terry cloth with coloured stripes across u."""
    is_stripe = (np.floor(np.arange(size) / size * 11) % 2 == 1)[None, :, None]
    image = np.where(is_stripe, np.asarray(PALETTE[colour]), np.array([0.80, 0.78, 0.74]))
    image = np.broadcast_to(image, (size, size, 3)) * _cloth_rng(11, colour).uniform(0.72, 1.1, (size, size, 1))
    return np.clip(image, 0, 0.9).astype(np.float32)


@cache
def _draw_weave(colour: RGB, size: int = 192) -> NDArray[np.float32]:
    """Basket weave: over and under strands."""
    rng = np.random.default_rng(13)
    v, u = np.indices((size, size)) / size
    phase = np.sin(2 * np.pi * 24 * u) * np.sign(np.sin(2 * np.pi * 12 * v))
    strand = np.abs(np.sin(2 * np.pi * 12 * v))
    shade = np.clip(0.35 + 0.65 * strand, 0, 1) * np.clip(0.75 + 0.35 * phase, 0.3, 1.1)
    strands = (shade * rng.uniform(0.9, 1.1, (size, size)))[..., None]
    return np.asarray(np.clip(np.asarray(colour) * strands, 0, 0.9), dtype=np.float32)


@cache
def _draw_terry(colour: str, size: int = 192) -> NDArray[np.float32]:
    """Plain terry cloth with a woven border."""
    image = np.asarray(PALETTE[colour]) * _cloth_rng(17, colour).uniform(0.65, 1.15, (size, size, 1))
    image[:, (np.abs(np.arange(size) / size - 0.88) < 0.02)] *= 0.6
    return np.clip(image, 0, 0.9).astype(np.float32)


@cache
def _draw_damask(colour: str, size: int = 192) -> NDArray[np.float32]:
    """Terry cloth with a woven pattern of ogees and flowers, tone in tone."""
    v, u = np.indices((size, size)) / size
    a, b = 2 * np.pi * 4 * u, 2 * np.pi * 4 * v
    figure = (
        np.cos(a) * np.cos(b) + 0.5 * np.cos(2 * a + np.sin(b)) * np.cos(2 * b) + 0.35 * np.sin(3 * a) * np.sin(3 * b)
    )
    light = np.where(figure > 0.15, 1.12, 0.55)[..., None]
    image = np.asarray(PALETTE[colour]) * light * _cloth_rng(29, colour).uniform(0.85, 1.05, (size, size, 1))
    return np.clip(image, 0, 0.9).astype(np.float32)


_CLOTHS = {"stripe towel": _draw_stripes, "wash towel": _draw_terry, "bath towel": _draw_damask}


@cache
def _draw_label(size: int = 192) -> NDArray[np.float32]:
    """A paper label: a coloured title block and lines of grey print, repeated twice round the bottle."""
    image = np.full((size, size, 3), 0.78)
    rng = np.random.default_rng(19)
    for half in (0, size // 2):
        image[size // 8 : size // 3, half + 8 : half + size // 2 - 12] = (0.10, 0.14, 0.17)
        for line in range(5):
            row = int(size * (0.45 + 0.1 * line))
            image[row : row + 6, half + 8 : half + int(rng.integers(40, size // 2 - 10))] = (0.25, 0.25, 0.25)
    return image.astype(np.float32)


@cache
def _draw_keys(size: int = 256) -> NDArray[np.float32]:
    """Dark key caps, 15 to a row, with light legends."""
    image = np.full((size, size, 3), 0.010)
    v, u = np.indices((size, size)) / size
    rows, columns = 5, 15
    x, y = (u * columns) % 1.0, (v * rows) % 1.0  # within a key
    is_cap = (np.abs(x - 0.5) < 0.40) & (np.abs(y - 0.5) < 0.40)
    image[is_cap] = 0.055
    is_legend = (np.abs(x - 0.42) < 0.10) & (np.abs(y - 0.58) < 0.12)
    image[is_legend & is_cap] = 0.45
    return image.astype(np.float32)


@cache
def _draw_dial(size: int = 192) -> NDArray[np.float32]:
    """A clock face; `u` is the angle and `v` runs from the rim to the centre."""
    image = np.full((size, size, 3), 0.78)
    v, u = np.indices((size, size)) / size
    from_hour = np.abs((u * 12 + 0.5) % 1.0 - 0.5)
    image[(from_hour < 0.13) & (v > 0.08) & (v < 0.32)] = 0.03
    return image.astype(np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class Surface:
    """A surface for renderers: its colour (linear RGB, or a picture float32 `(h, w, 3)`) and its terms.

    The terms are those of the principled model (Burley, 2012); without terms the surface is matt.
    """

    colour: RGB | NDArray[np.float32]
    terms: Mapping[str, float]


def is_colour(name: str) -> bool:
    """Return whether a thing can have that colour: none, `metallic`, a paint, or two mixed (`red 0.25 blue`)."""
    paints = "|".join(PALETTE)
    return re.fullmatch(rf"|metallic|({paints})( [01]\.\d+ ({paints}))?", name) is not None


def mix_paint(colour: str) -> RGB:
    """Return a colour's linear RGB; `red 0.25 blue` is three quarters red, a name without a paint is white."""
    name, share, other = (*colour.split(" "), "0", "white")[:3]
    base = PALETTE.get(name, PALETTE["white"])
    red, green, blue = (a + float(share) * (b - a) for a, b in zip(base, PALETTE[other], strict=True))
    return (red, green, blue)


def _main_surface(shape: str, colour: str) -> Surface:
    """Return the material whose colour captions name."""
    if shape in _CLOTHS:
        return Surface(_CLOTHS[shape](colour), {})
    if colour == "metallic":
        return _fixed_surface("steel")
    base = _draw_weave((0.55, 0.46, 0.34)) if shape == "basket" else mix_paint(colour)
    # The order of the terms is fixed: another one could change the bytes of pictures.
    terms = {"metallic": 0.0, **_FINISHES.get(shape, _GLAZED)}
    return Surface(base, terms)


def _fixed_surface(slot: str) -> Surface:
    """Return the material of a slot that looks the same on every object."""
    colour, roughness, metallic = _FILE["slots"][slot]
    rgb = PALETTE[colour] if isinstance(colour, str) else tuple(colour)
    return Surface(rgb, {"roughness": roughness, "metallic": metallic})


@cache
def surface(shape: str, slot: str, colour: str) -> Surface:
    """Describe the material of one slot of a shape; `colour` is a name of `PALETTE`, `metallic` or `""`."""
    if slot == "main":
        return _main_surface(shape, colour)
    if slot == "texture":
        return Surface(asset_texture(shape), {"roughness": 0.55, "metallic": 0.0, "specular": 0.4})
    if slot in ("label", "dial"):
        return Surface(_draw_label() if slot == "label" else _draw_dial(), {})
    if slot == "keys":
        return Surface(_draw_keys(), {"roughness": 0.5, "metallic": 0.0})
    return _fixed_surface(slot)


def floor_surface(kind: str, variant: int) -> Surface:
    """Describe a floor's material; its picture repeats."""
    roughness = {"marble": 0.22, "tile": 0.3, "slate": 0.45, "oak": 0.42, "walnut": 0.38}.get(kind)
    terms = {} if roughness is None else {"roughness": roughness, "specular": 0.4}
    return Surface(floor_texture(kind, variant), terms)
