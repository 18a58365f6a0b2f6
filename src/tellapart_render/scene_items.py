"""Items of rendered scenes: a key's first draw whose masks confirm its captions, its pictures, and its provenance."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.item import Item
from tellapart.errors import DataError
from tellapart_render.captions.grammar import ASPECTS
from tellapart_render.meshes.objects import shape
from tellapart_render.recipe import Recipe
from tellapart_render.renderers.mitsuba import MITSUBA
from tellapart_render.renderers.mitsuba import masks as mitsuba_masks
from tellapart_render.renderers.renderer import Renderer
from tellapart_render.scenes.levels import LEVELS, View, draw_level, measure_level
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


ABOUT: dict[str, str] = {
    "title": "Rendered scenes that differ in one attribute, count or location, or in the order of words",
    "description": "2x2 minimal pairs after EqBen's Eq-Kubric: both captions differ in the changed phrase alone, or "
    "(order) in the order of the same words; both pictures share camera, light, floor and all other objects. Checked "
    "against the renderer's object masks.",
    "licence": "Apache-2.0",
    "citation": "Templates and vocabulary after Wang et al., Equivariant Similarity for Vision-Language Foundation "
    "Models (EqBen), ICCV 2023, Figure 14",
}
"""The fields that every rendered set's card has."""


def pictures(quadruple: Quadruple, recipe: Recipe, renderer: Renderer = MITSUBA) -> list[NDArray[np.uint8]]:
    """Render both pictures of a quadruple: sRGB uint8 `(size, size, 3)` each."""
    return [renderer.render(scene, recipe.settings(quadruple.key)) for scene in quadruple.scenes]


def encode(pixels: NDArray[np.uint8], quality: int) -> bytes:
    """Encode a picture as WebP."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "WEBP", quality=quality, method=6)
    return buffer.getvalue()


def _item_provenance(quadruple: Quadruple, recipe: Recipe, renderer: Renderer) -> dict[str, Any]:
    """Return an item's provenance: the parts that both scenes share, each scene's things, the renderer and settings."""
    first, second = (scene.to_record() for scene in quadruple.scenes)
    return {
        **{name: first[name] for name in ("camera", "light", "ground")},
        "things": [first["things"], second["things"]],
        "renderer": ", ".join(f"{name} {version}" for name, version in renderer.versions.items()),
        "attempt": quadruple.key.attempt,
        "settings": {"renderer": renderer.name, **asdict(recipe.settings(quadruple.key))},
    }


def make_item(key: Key, recipe: Recipe, renderer: Renderer = MITSUBA) -> tuple[Item, dict[str, bytes], list[str]]:
    """Draw, check and render one item; return it, its pictures by reference, and its rejected draws' reasons."""
    quadruple, rejected = draw_accepted(key, recipe.attempts, recipe.size, renderer.masks)
    names = [f"images/{key.name}_{side}.webp" for side in (0, 1)]
    rendered = pictures(quadruple, recipe, renderer)
    files = {name: encode(pixels, recipe.quality) for name, pixels in zip(names, rendered, strict=True)}
    tags = {"aspect": key.aspect, "change": quadruple.change, "held_out": key.held_out}
    if key.aspect in LEVELS:
        masks = (renderer.masks(scene, recipe.size) for scene in quadruple.scenes)
        views = [View(pixels, *mask) for pixels, mask in zip(rendered, masks, strict=True)]
        tags["level"] = f"{measure_level(key.aspect, quadruple.scenes, views):g}"
    item = {
        "id": key.name,
        "images": names,
        "texts": quadruple.captions,
        "tags": tags,
        "cluster": key.name,
        "provenance": _item_provenance(quadruple, recipe, renderer),
    }
    # Through JSON, so that an item is the same whether it was just made or read back.
    return Item.model_validate_json(json.dumps(item)), files, rejected
