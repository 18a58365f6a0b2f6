"""The protocol that renderers meet, and the parts they share: settings, surroundings and the film curve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tellapart_render.scenes.scene import Light, Scene


@dataclass(frozen=True, slots=True)
class Settings:
    """Side of the square picture in pixels, samples per pixel, longest light path, seed of the sampler."""

    size: int = 160
    samples: int = 8
    depth: int = 6
    seed: int = 0


class Renderer(Protocol):
    """Draws scenes and finds the object that each pixel sees; the same scene and settings give the same pixels."""

    @property
    def name(self) -> str:
        """The name that recipes and scene files use."""

    @property
    def versions(self) -> Mapping[str, str]:
        """The programs it is made of, with their versions."""

    def render(self, scene: Scene, settings: Settings) -> NDArray[np.uint8]:
        """Render a scene: sRGB uint8 `(size, size, 3)`."""

    def masks(self, scene: Scene, size: int) -> tuple[NDArray[np.int16], list[int]]:
        """Return which object each pixel sees, and how many pixels each object would fill if nothing hid it.

        The first is int16 `(size, size)`: the object's index, -1 for surroundings. One ray a pixel, no lens blur.
        """


@lru_cache(maxsize=4)
def environment(light: Light, height: int = 48) -> NDArray[np.float32]:
    """Draw sky, soft box and windows as latitude-longitude radiance, float32 `(height, 2 * height, 3)`.

    Row 0 is straight up; column 0 looks along +y, and a quarter of the width farther along +x.
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
        """Return a disc of light with soft edges, from 0 to 1, `(height, 2 * height, 1)`."""
        axis = np.array([np.cos(elevation) * np.sin(azimuth), np.cos(elevation) * np.cos(azimuth), np.sin(elevation)])
        angle = np.arccos(np.clip(direction @ axis, -1, 1))
        return np.asarray(1.0 / (1.0 + np.exp((angle - spread) / (0.12 * spread))))[..., None]

    # Divided by the area of the box, so that a larger box gives as much light.
    image = image + blob(light.azimuth, light.elevation, light.spread) * warm * light.strength * 1.9 / light.spread**2
    for _ in range(3):  # windows
        azimuth = float(rng.uniform(-np.pi, np.pi))
        image = image + blob(azimuth, float(rng.uniform(0.1, 0.6)), 0.22) * (2.0 - warm) * float(rng.uniform(0.5, 2.2))
    return image.astype(np.float32)


def develop(radiance: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Tone-map radiance with a fixed film curve and encode as sRGB uint8; a pixel depends on its radiance alone."""
    x = np.clip(radiance, 0.0, None) * 0.62
    # Narkowicz's fit of the ACES film curve.
    film = np.clip(x * (2.51 * x + 0.03) / (x * (2.43 * x + 0.59) + 0.14), 0.0, 1.0)
    encoded = np.where(film <= 0.0031308, 12.92 * film, 1.055 * film ** (1 / 2.4) - 0.055)
    return np.asarray(np.round(encoded * 255.0), dtype=np.uint8)
