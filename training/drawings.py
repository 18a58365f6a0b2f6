"""Flat drawings of the grammar's scenes: seconds instead of an hour, to try the whole script end to end."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from training.quadruples import Quadruples

__all__ = ["draw_quadruples"]

_COLOURS = {"red": (205, 50, 45), "green": (50, 160, 70), "blue": (50, 80, 200), "yellow": (225, 200, 60)}
_SHAPES = ("plate", "box", "hat")


def _paint(canvas: Any, shape: str, colour: str, centre: tuple[float, float], radius: float) -> None:
    x, y = centre
    box = (x - radius, y - radius, x + radius, y + radius)
    fill, edge = _COLOURS[colour], (30, 30, 30)
    if shape == "plate":
        canvas.ellipse(box, fill=fill, outline=edge)
    elif shape == "box":
        canvas.rectangle(box, fill=fill, outline=edge)
    else:
        canvas.polygon([(x, y - radius), (x + radius, y + radius), (x - radius, y + radius)], fill=fill, outline=edge)


def _picture(things: list[tuple[str, str, tuple[float, float], float]], ground: int, size: int) -> NDArray[np.uint8]:
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (size, size), (ground, ground, ground - 8))
    canvas = ImageDraw.Draw(image)
    for shape, colour, (x, y), radius in things:
        _paint(canvas, shape, colour, (x * size, y * size), radius * size)
    return np.asarray(image)


def _attribute(rng: np.random.Generator) -> tuple[list[Any], list[str]]:
    shape, other = rng.choice(_SHAPES, 2, replace=False)
    first, second, third = rng.choice(list(_COLOURS), 3, replace=False)
    y = rng.uniform(0.35, 0.65)
    scenes = [[(shape, c, (0.27, y), 0.17), (other, third, (0.73, y), 0.17)] for c in (first, second)]
    texts = [f"The large {c} {shape} is on the left of the large {third} {other}." for c in (first, second)]
    return scenes, texts


def _counting(rng: np.random.Generator) -> tuple[list[Any], list[str]]:
    shape, colour = rng.choice(_SHAPES), rng.choice(list(_COLOURS))
    counts = rng.choice(np.arange(2, 6), 2, replace=False)
    places = [((0.2 + 0.3 * (k % 3), 0.3 + 0.4 * (k // 3))) for k in rng.permutation(6)]
    scenes = [[(shape, colour, places[k], 0.1) for k in range(count)] for count in counts]
    return scenes, [f"There are {count} {colour} {shape}s in the scene." for count in counts]


def _location(rng: np.random.Generator) -> tuple[list[Any], list[str]]:
    shape, other = rng.choice(_SHAPES, 2, replace=False)
    colour, second = rng.choice(list(_COLOURS), 2)
    spots = {"on the left of": (0.2, 0.5), "on the right of": (0.8, 0.5)}
    spots |= {"in front of": (0.5, 0.82), "behind": (0.5, 0.18)}
    places = rng.choice(list(spots), 2, replace=False)
    scenes = [[(other, second, (0.5, 0.5), 0.12), (shape, colour, spots[p], 0.12)] for p in places]
    return scenes, [f"The {colour} {shape} is {p} the {second} {other}." for p in places]


def draw_quadruples(count: int, seed: int, size: int = 112) -> Quadruples:
    """Draw `count` quadruples, the three aspects in turn; images are uint8 `(count, 2, size, size, 3)`."""
    aspects = ("attribute", "counting", "location")
    makers = (_attribute, _counting, _location)
    images = np.empty((count, 2, size, size, 3), np.uint8)
    places = np.full((count, 2, 5, 3), -1.0, np.float32)
    texts: list[tuple[str, str]] = []
    for index in range(count):
        rng = np.random.default_rng([seed, index])
        scenes, captions = makers[index % 3](rng)
        ground = int(rng.integers(150, 240))
        for side in (0, 1):
            images[index, side] = _picture(scenes[side], ground, size)
            for place, (shape, colour, (x, y), _) in enumerate(scenes[side]):
                number = _SHAPES.index(shape) * len(_COLOURS) + list(_COLOURS).index(colour)
                places[index, side, place] = (number, 2 * x - 1, 2 * y - 1)
        texts.append((captions[0], captions[1]))
    return Quadruples(
        ids=tuple(f"drawing-{seed}-{index}" for index in range(count)),
        images=images,
        texts=tuple(texts),
        paraphrases=(((), ()),) * count,
        foils=(((), ()),) * count,
        aspects=tuple(aspects[index % 3] for index in range(count)),
        places=places,
        source={"made": "flat drawings", "seed": seed},
    )
