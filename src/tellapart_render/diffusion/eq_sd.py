"""Pairs of captions after EqBen's Eq-SD: one object, scene or attribute changes in a short prompt.

Source: EqBen, appendix B.5 and Figure 15 (its examples in Figure 16: "A painting of cat wearing a cap.", "A pencil
sketch of train."). Slips of the figure are corrected: "earing a scarf", "a sunglasses", "an Van Gogh", "heavy raining",
"aside the river".
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from itertools import combinations, product
from types import MappingProxyType
from typing import Literal

import numpy as np

from tellapart.builders.caption_files import CaptionPair
from tellapart.errors import DataError

Aspect = Literal["object", "scene", "attribute"]
SceneRule = Literal["added", "swapped"]
ASPECTS: tuple[Aspect, ...] = ("object", "scene", "attribute")

_MEDIA = ("photo", "painting")

_OBJECTS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (
        ("cattle", "horse", "elephant", "goat", "deer", "camel", "zebra"),
        ("standing on the grass", "in the desert", "near the river", "in the zoo"),
    ),
    (
        ("rabbit", "cat", "dog", "wolf", "fox", "rat", "squirrel"),
        ("standing on the grass", "eating", "in the wild", "on the desk", "on the bench"),
    ),
    (("monkey", "koala", "panda"), ("standing on the grass", "in the jungle", "on the tree", "in the wild")),
    (("bird", "eagle", "dove"), ("in the sky", "on the tree", "standing on the branch")),
    (("duck", "chicken"), ("on the ground", "in the wild")),
    (("shark", "fish", "shrimp", "whale", "dolphin"), ("in the river", "under the water")),
    (("crab", "frog"), ("beside the river", "under the water")),
    (("bear", "tiger", "lion", "pig"), ("in the desert", "near the river", "in the zoo")),
)

_SCENES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "a house on a mountain": ("at sunset", "at night", "at winter", "at fall", "at fog", "in the desert"),
        "a river through the valley": (
            "at sunset with clouds",
            "under noon sunshine",
            "at winter with snow",
            "at fall",
            "at fog",
        ),
        "modern city street": ("at sunset with clouds", "at winter with snow", "at fall", "at fog", "in heavy rain"),
        "beach": ("at sunset", "at fog", "at rainstorm"),
    }
)

_WORN = ("", "wearing sunglasses", "wearing a scarf", "wearing a crown", "wearing a cap", "wearing a cowboy hat")
_COLOURS = ("black", "blue", "brown", "red")
_STYLES = ("a real image of", "an oil painting of", "a pencil sketch of", "a Van Gogh post-impressionism painting of")
_STYLED = ("dog", "car", "bicycle", "cat", "bus", "train", "bird", "horse", "cake", "desk")

Pairs = list[tuple[str, str]]


def families(aspect: Aspect, scene_rule: SceneRule = "added") -> list[Pairs]:
    """Return every pair of captions of an aspect, by the row or set of Figure 15 that it comes from.

    >>> families("object")[4][0]
    ('A photo of duck on the ground.', 'A photo of chicken on the ground.')
    >>> families("scene")[3][0], families("scene", "swapped")[3][0]
    (('A photo of beach.', 'A photo of beach at sunset.'), ('A photo of beach at sunset.', 'A photo of beach at fog.'))
    """
    if aspect == "object":
        return [
            [
                (_make_caption("a", medium, "of", a, scene), _make_caption("a", medium, "of", b, scene))
                for medium, (a, b), scene in product(_MEDIA, combinations(objects, 2), scenes)
            ]
            for objects, scenes in _OBJECTS
        ]
    if aspect == "scene":
        rows = []
        for thing, scenes in _SCENES.items():
            chosen = combinations(scenes, 2) if scene_rule == "swapped" else product(("",), scenes)
            rows.append(
                [(_make_caption("a photo of", thing, a), _make_caption("a photo of", thing, b)) for a, b in chosen]
            )
        return rows
    return [
        [
            (_make_caption("a", medium, "of", thing, a), _make_caption("a", medium, "of", thing, b))
            for medium, thing, (a, b) in product(_MEDIA, ("dog", "cat"), combinations(_WORN, 2))
        ],
        [
            (_make_caption("a", medium, "of a", a, thing), _make_caption("a", medium, "of a", b, thing))
            for medium, thing, (a, b) in product(_MEDIA, ("dog", "cat"), combinations(_COLOURS, 2))
        ],
        [
            (_make_caption(a, thing), _make_caption(b, thing))
            for thing, (a, b) in product(_STYLED, combinations(_STYLES, 2))
        ],
    ]


def eq_sd_pairs(items: Mapping[Aspect, int], seed: int, scene_rule: SceneRule = "added") -> dict[str, CaptionPair]:
    """Draw pairs of captions by chance: a family, then a pair of it, then which of the two comes first; no pair twice.

    More items of an aspect leave the first ones unchanged. `scene_rule` is as in `families`.

    >>> pairs = eq_sd_pairs({"object": 1, "attribute": 1}, seed=1)
    >>> list(pairs), list(eq_sd_pairs({"object": 2}, seed=1).values())[0] == pairs["object-000"]
    (['object-000', 'attribute-000'], True)
    """
    pairs: dict[str, CaptionPair] = {}
    for aspect, count in items.items():
        rows = families(aspect, scene_rule)
        if count > (most := sum(map(len, rows))):
            raise DataError(f"eq_sd: {count} pairs of aspect {aspect!r} are asked for; Figure 15 has {most}")
        rng = np.random.default_rng(list(hashlib.sha256(f"eq-sd:{seed}:{aspect}".encode()).digest()))
        draws: dict[tuple[int, int], bool] = {}
        while len(draws) < count:
            row = int(rng.integers(len(rows)))
            draws.setdefault((row, int(rng.integers(len(rows[row])))), bool(rng.integers(2)))
        for index, ((row, column), turned) in enumerate(draws.items()):
            captions = rows[row][column][::-1] if turned else rows[row][column]
            name = f"{aspect}-{index:03d}"
            pairs[name] = CaptionPair(name, (captions[0], captions[1]), name, {"aspect": aspect})
    return pairs


def _make_caption(*parts: str) -> str:
    text = " ".join(part for part in parts if part)
    return f"{text[0].upper()}{text[1:]}."
