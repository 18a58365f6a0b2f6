"""Captions of places: the object is in that cell, a mirrored picture mirrors the columns, and false ones are false."""

from __future__ import annotations

import numpy as np
import pytest

from tellapart_render.scenes.quadruple import Aspect, Key, Quadruple, draw
from tellapart_render.scenes.scene import corners, project
from tellapart_render.training_rows import GRID, draw_whereabouts


def _drawn(aspect: Aspect, index: int) -> Quadruple:
    return draw(Key("test", 5, aspect, index))


def _all_places(quadruple: Quadruple, flip: bool) -> list[set[str]]:
    """What `draw_whereabouts` may call true of each side, found by drawing many times."""
    found: list[set[str]] = [set(), set()]
    for seed in range(20):
        for side, (caption, _) in enumerate(draw_whereabouts(quadruple, flip, np.random.default_rng(seed))):
            found[side].add(caption)
    return found


@pytest.mark.parametrize("aspect", ["attribute", "counting", "location"])
def test_the_column_and_the_row_hold_the_middle_of_the_outline(aspect: Aspect) -> None:
    for index in range(2):
        quadruple = _drawn(aspect, index)
        for side, captions in enumerate(_all_places(quadruple, flip=False)):
            middles = []
            for thing in quadruple.scenes[side].things:
                outline = project(corners(thing), quadruple.scenes[side].camera)[:, :2]
                middles.append((outline.min(axis=0) + outline.max(axis=0)) / 2)
            for caption in captions:
                *_, column, row = caption.removesuffix(".").split()
                left, top = -1 + (int(column) - 1) * 2 / GRID, 1 - (int(row) - 1) * 2 / GRID
                assert any(left <= x <= left + 2 / GRID and top - 2 / GRID <= y <= top for x, y in middles)


@pytest.mark.parametrize("aspect", ["attribute", "counting", "location"])
def test_a_mirrored_picture_has_the_columns_from_the_other_side(aspect: Aspect) -> None:
    def mirrored(caption: str) -> str:
        *name, column, row = caption.removesuffix(".").split()
        return " ".join([*name, str(GRID + 1 - int(column)), row]) + "."

    quadruple = _drawn(aspect, 0)
    plain, flipped = _all_places(quadruple, flip=False), _all_places(quadruple, flip=True)
    assert [{mirrored(caption) for caption in side} for side in plain] == flipped


@pytest.mark.parametrize("aspect", ["attribute", "counting", "location"])
def test_what_is_false_is_true_of_neither_picture(aspect: Aspect) -> None:
    for index in range(2):
        quadruple = _drawn(aspect, index)
        first, second = _all_places(quadruple, flip=False)
        for _, false in draw_whereabouts(quadruple, False, np.random.default_rng(index)):
            assert len(false) == len(set(false)) > 2
            assert not set(false) & (first | second)
