"""Check a quadruple against its object masks: a picture must show its caption's content."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import DataError
from tellapart_render.captions.grammar import ASPECTS
from tellapart_render.meshes.objects import shape
from tellapart_render.renderers.mitsuba import masks as mitsuba_masks
from tellapart_render.scenes.levels import draw_level
from tellapart_render.scenes.quadruple import Fact, Key, Quadruple, draw
from tellapart_render.scenes.scene import Scene, project

Masks = Callable[[Scene, int], tuple[NDArray[np.int16], list[int]]]

MIN_AREA = 0.008
"""Smallest visible part of an object, as a share of the picture."""
MIN_SHARE = 0.5
"""Smallest visible part of an object, as a share of what it would fill alone."""
MIN_OFFSET = 0.08
"""Smallest horizontal distance of mask centroids for left and right, as a share of the picture's width."""
MAX_SLANT = 0.6
"""Largest offset across a relation's axis, as a share of the offset along it."""

REASONS = ("too small", "occluded", "cut off", "wrong count", "wrong side", "wrong depth", "not on top")


def draw_accepted(key: Key, attempts: int, size: int, masks: Masks = mitsuba_masks) -> tuple[Quadruple, list[str]]:
    """Return a key's first draw that its masks confirm, and the reasons for which the earlier ones were rejected.

    >>> quadruple, rejected = draw_accepted(Key("test", 0, "location", 1), 60, 48)
    >>> quadruple.key.attempt == len(rejected)
    True
    """
    rejected: list[str] = []
    for attempt in range(attempts):
        quadruple = (draw if key.aspect in ASPECTS else draw_level)(replace(key, attempt=attempt))
        reason = check(quadruple, size, masks)
        if reason is None:
            return quadruple, rejected
        rejected.append(reason)
    raise DataError(
        f"{key.name}: none of {attempts} draws shows its captions' content ({dict(Counter(rejected))}); "
        "change the seed or raise the attempts"
    )


def check(quadruple: Quadruple, size: int, masks: Masks = mitsuba_masks) -> str | None:
    """Render both scenes' masks at `size` pixels, by the renderer that draws them, and return the first fault, or
    None.
    """
    pairs = zip(quadruple.scenes, quadruple.facts, strict=True)
    faults = (find_fault(scene, fact, *masks(scene, size)) for scene, fact in pairs)
    return next((fault for fault in faults if fault is not None), None)


def find_fault(scene: Scene, fact: Fact, visible: NDArray[np.int16], alone: list[int]) -> str | None:
    """Return the reason why a scene does not show a fact, or None."""
    area = [int((visible == k).sum()) for k in range(len(scene.things))]
    if min(area) < fact.slack * MIN_AREA * visible.size:
        return "too small"
    if any(part < fact.slack * MIN_SHARE * lone for part, lone in zip(area, alone, strict=True)):
        return "occluded"
    border = np.concatenate([visible[0], visible[-1], visible[:, 0], visible[:, -1]])
    if (border >= 0).any():
        return "cut off"
    if len(area) != fact.count:
        return "wrong count"
    return None if fact.relation is None else _relation_fault(scene, fact, visible)


def _relation_fault(scene: Scene, fact: Fact, visible: NDArray[np.int16]) -> str | None:
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
        columns = [float(np.nonzero(visible == k)[1].mean()) for k in (0, 1)]
        offset = (columns[0] - columns[1]) / visible.shape[1] * (1.0 if fact.relation == "right" else -1.0)
        return None if offset >= MIN_OFFSET and abs(shift[1]) <= MAX_SLANT * abs(shift[0]) else "wrong side"
    depth = project(np.array([thing.position, subject.position]), scene.camera)[:, 2]
    nearer = (depth[1] - depth[0]) * (1.0 if fact.relation == "front" else -1.0)
    return None if nearer > 0 and abs(shift[0]) <= MAX_SLANT * abs(shift[1]) else "wrong depth"
