"""Check a quadruple against its own object masks: a picture must show what its caption says.

A candidate that fails is named with a reason; the builder counts the reasons and draws again.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tellapart.builders.rendered.objects import shape
from tellapart.builders.rendered.quadruple import Fact, Quadruple
from tellapart.builders.rendered.render import masks as mitsuba_masks
from tellapart.builders.rendered.scene import Scene, projected

Masks = Callable[[Scene, int], tuple[NDArray[np.int16], list[int]]]

__all__ = ["MIN_AREA", "MIN_SHARE", "REASONS", "check", "fault"]

MIN_AREA = 0.008
"""Smallest visible part of an object, as a share of the picture."""
MIN_SHARE = 0.5
"""Smallest visible part of an object, as a share of what it would fill alone."""
MIN_OFFSET = 0.08
"""Smallest horizontal distance of mask centroids for left and right, as a share of the picture's width."""
MAX_SLANT = 0.6
"""Largest offset across a relation's axis, as a share of the offset along it."""

REASONS: tuple[str, ...] = (
    "too small",
    "occluded",
    "cut off",
    "wrong count",
    "wrong side",
    "wrong depth",
    "not on top",
)


def check(quadruple: Quadruple, size: int, masks: Masks = mitsuba_masks) -> str | None:
    """Render both scenes' masks at `size` pixels, by the renderer that draws them, and return the first fault, or None.

    Raises:
        MissingDependencyError: the renderer is not installed.

    >>> from dataclasses import replace
    >>> from tellapart.builders.rendered.quadruple import Key, draw
    >>> quadruple = draw(Key("test", 0, "counting", 0))
    >>> check(quadruple, 64), check(replace(quadruple, scenes=quadruple.scenes[::-1]), 64)
    (None, 'wrong count')
    """
    for scene, fact in zip(quadruple.scenes, quadruple.facts, strict=True):
        seen, alone = masks(scene, size)
        reason = fault(scene, fact, seen, alone)
        if reason is not None:
            return reason
    return None


def fault(scene: Scene, fact: Fact, seen: NDArray[np.int16], alone: list[int]) -> str | None:
    """Return why a scene does not show the fact, or None.

    Args:
        scene: what was rendered.
        fact: what the caption says.
        seen: int16 `(size, size)`, the index of the thing at each pixel, -1 elsewhere.
        alone: pixels of each thing without the others.

    >>> from tellapart.builders.rendered.quadruple import Key, draw
    >>> quadruple = draw(Key("test", 0, "location", 0))
    >>> fault(quadruple.scenes[0], quadruple.facts[0], np.full((64, 64), -1, dtype=np.int16), [100, 100])
    'too small'
    """
    area = [int((seen == k).sum()) for k in range(len(scene.things))]
    if min(area) < MIN_AREA * seen.size:
        return "too small"
    if any(visible < MIN_SHARE * lone for visible, lone in zip(area, alone, strict=True)):
        return "occluded"
    border = np.concatenate([seen[0], seen[-1], seen[:, 0], seen[:, -1]])
    if (border >= 0).any():
        return "cut off"
    if len(area) != fact.count:
        return "wrong count"
    return None if fact.relation is None else _relation_fault(scene, fact, seen)


def _relation_fault(scene: Scene, fact: Fact, seen: NDArray[np.int16]) -> str | None:
    """Check thing 0 against thing 1: sides by centroid, depth by the camera, top by geometry."""
    thing, subject = scene.things[:2]
    shift = np.subtract(thing.position, subject.position)
    if fact.relation == "top":
        top = shape(subject.shape).top
        resting = top is not None and abs(shift[2] - top.height * subject.size) < 1e-3
        return None if resting and float(np.hypot(shift[0], shift[1])) < 1e-3 else "not on top"
    if abs(shift[2]) > 1e-3:
        return "not on top"
    if fact.relation in ("left", "right"):
        columns = [float(np.nonzero(seen == k)[1].mean()) for k in (0, 1)]
        offset = (columns[0] - columns[1]) / seen.shape[1] * (1.0 if fact.relation == "right" else -1.0)
        return None if offset >= MIN_OFFSET and abs(shift[1]) <= MAX_SLANT * abs(shift[0]) else "wrong side"
    depth = projected(np.array([thing.position, subject.position]), scene.camera)[:, 2]
    nearer = (depth[1] - depth[0]) * (1.0 if fact.relation == "front" else -1.0)
    return None if nearer > 0 and abs(shift[0]) <= MAX_SLANT * abs(shift[1]) else "wrong depth"
