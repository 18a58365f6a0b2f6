"""What draws a scene: the protocol that renderers meet, and Mitsuba's side of it. Blender's is in `blender`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tellapart.builders.rendered.render import Settings, masks, render
from tellapart.builders.rendered.scene import Scene
from tellapart.errors import require

__all__ = ["MITSUBA", "Mitsuba", "Renderer"]


class Renderer(Protocol):
    """Draws scenes and says which object each pixel sees; the same scene and settings give the same pixels.

    >>> isinstance(MITSUBA.name, str)
    True
    """

    @property
    def name(self) -> str:
        """What recipes and specs call it."""

    @property
    def versions(self) -> Mapping[str, str]:
        """The programs it is made of, with their versions."""

    def render(self, scene: Scene, settings: Settings) -> NDArray[np.uint8]:
        """Render a scene: sRGB uint8 `(size, size, 3)`."""

    def masks(self, scene: Scene, size: int) -> tuple[NDArray[np.int16], list[int]]:
        """Return the thing that each pixel sees, int16 `(size, size)`, -1 for none, and each thing's pixels alone."""


class Mitsuba:
    """Mitsuba 3 in this process, denoised by Open Image Denoise.

    >>> Mitsuba().name
    'mitsuba'
    """

    name = "mitsuba"

    @property
    def versions(self) -> Mapping[str, str]:
        """Both packages' versions.

        Raises:
            MissingDependencyError: one of them is not installed.

        >>> sorted(Mitsuba().versions)
        ['mitsuba', 'pyoidn']
        """
        for package in ("mitsuba", "pyoidn"):
            require(package, extra="render")
        return {name: metadata.version(name) for name in ("mitsuba", "pyoidn")}

    def render(self, scene: Scene, settings: Settings) -> NDArray[np.uint8]:
        """Render a scene: sRGB uint8 `(size, size, 3)`.

        >>> from tellapart.builders.rendered.quadruple import Key, draw
        >>> Mitsuba().render(draw(Key("test", 0, "counting", 0)).scenes[0], Settings(24, 1, 2)).shape
        (24, 24, 3)
        """
        return render(scene, settings)

    def masks(self, scene: Scene, size: int) -> tuple[NDArray[np.int16], list[int]]:
        """Return the thing that each pixel sees and each thing's pixels alone.

        >>> from tellapart.builders.rendered.quadruple import Key, draw
        >>> len(Mitsuba().masks(draw(Key("test", 0, "attribute", 0)).scenes[0], 24)[1])
        2
        """
        return masks(scene, size)


MITSUBA = Mitsuba()
"""The default renderer."""
