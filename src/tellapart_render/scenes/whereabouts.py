"""Captions that name an object's place in a picture, as cells of a grid: `red coffee mug 2 3.`

Trained on the grammar's captions alone, an encoder learns colours at once, and neither places nor counts: nothing shows
it which of two objects is the "left" one before it knows them apart. These captions do.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tellapart_render.scenes.quadruple import Quadruple
from tellapart_render.scenes.scene import corners, project

__all__ = ["GRID", "Whereabouts", "draw_whereabouts", "say_whereabouts"]

#: Columns and rows of the grid; the vocabulary's numbers go as far.
GRID = 5

#: A noun phrase, and the column and the row of the middle of the object's outline, from 1, rightwards and downwards.
Whereabouts = tuple[str, int, int]

_FALSE = 7


def draw_whereabouts(quadruple: Quadruple, flip: bool, rng: np.random.Generator) -> Iterator[tuple[str, list[str]]]:
    """Yield, for each side, a caption of one object's place, and captions that are false of both pictures.

    The object is one that the other side does not show there, if there is such a one.

    Args:
        quadruple: as drawn.
        flip: the pictures are mirrored.
        rng: draws the object, and the false places and names.

    >>> from tellapart_render.scenes.quadruple import Key, draw
    >>> drawn = list(draw_whereabouts(draw(Key("test", 0, "location", 0)), False, np.random.default_rng(0)))
    >>> [caption in false for caption, false in drawn]
    [False, False]
    """
    sides = [_list_places(quadruple, side, flip) for side in (0, 1)]
    shown = set(sides[0]) | set(sides[1])
    for side in (0, 1):
        own = [place for place in sides[side] if place not in sides[1 - side]] or sides[side]
        true = own[int(rng.integers(len(own)))]
        false = [
            false for false in _draw_neighbours(true, sorted({name for name, _, _ in shown}), rng) if false not in shown
        ]
        yield say_whereabouts(true), [say_whereabouts(place) for place in dict.fromkeys(false)][:_FALSE]


def say_whereabouts(place: Whereabouts) -> str:
    """Return the caption of an object's place.

    >>> say_whereabouts(("red coffee mug", 2, 3))
    'red coffee mug 2 3.'
    """
    return "{} {} {}.".format(*place)


def _list_places(quadruple: Quadruple, side: int, flip: bool) -> list[Whereabouts]:
    scene, nouns = quadruple.scenes[side], quadruple.nouns[side]
    places = []
    for number, thing in enumerate(scene.things):
        outline = project(corners(thing), scene.camera)[:, :2]
        right, up = (outline.min(axis=0) + outline.max(axis=0)) / 2  # from -1 to 1 within the picture
        column, row = (int(np.clip((at + 1) / 2 * GRID, 0, GRID - 1)) + 1 for at in (-right if flip else right, -up))
        places.append((nouns[number if len(nouns) > 1 else 0].phrase(), column, row))
    return places


def _draw_neighbours(true: Whereabouts, names: list[str], rng: np.random.Generator) -> Iterator[Whereabouts]:
    """Yield drawn places of the same object, near and far, and other objects' names at its place."""
    name, column, row = true
    for _ in range(5 * _FALSE):
        match int(rng.integers(3)):
            case 0:
                near = np.clip(np.array([column, row]) + rng.integers(-2, 3, 2), 1, GRID)
                yield name, int(near[0]), int(near[1])
            case 1 if len(names) > 1:
                yield names[int(rng.integers(len(names)))], column, row
            case _:
                yield name, int(rng.integers(1, GRID + 1)), int(rng.integers(1, GRID + 1))
