"""What stands in a set twice: captions or pictures within an item, whole items, and what items of different clusters share."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable

import numpy as np
from numpy.typing import NDArray

from tellapart.audit.finding import Finding, at_most
from tellapart.audit.image_scan import Look
from tellapart.data.pairset import PairSet
from tellapart.data.perceptual import BITS, near

__all__ = ["caption_duplicates", "picture_duplicates"]

#: Items that may share all their captions with another cluster's item.
_CAPTIONS = 0.05

#: Items that may have a picture that looks like another cluster's: a perceptual hash errs now and then.
_NEAR = 0.01


def caption_duplicates(pairs: PairSet) -> list[Finding]:
    """Return items with a caption twice, and items whose captions are another cluster's, too.

    >>> from pathlib import Path
    >>> from tellapart.data.item import Item
    >>> texts = [("x", "y"), ("y", "x"), ("z", "z")]
    >>> items = tuple(Item(id=str(k), images=("0.png",), texts=pair) for k, pair in enumerate(texts))
    >>> [found.items for found in caption_duplicates(PairSet("s", items, Path(".")))]
    [('2',), ('0', '1')]
    """
    twice = [len(set(item.texts)) < len(item.texts) for item in pairs.items]
    shared = _shared([[tuple(sorted(item.texts))] for item in pairs.items], pairs)
    return [
        at_most(
            0,
            "captions: twice in an item",
            "items with the same caption twice",
            twice,
            pairs,
            "no model can solve them",
        ),
        at_most(
            _CAPTIONS,
            "captions: shared",
            "items whose captions are all those of an item of another cluster",
            shared,
            pairs,
            "not independent: give such items one cluster, or intervals are too narrow",
        ),
    ]


def picture_duplicates(pairs: PairSet, seen: Look) -> list[Finding]:
    """Return items with a picture twice, items that stand twice, and pictures that items of other clusters share.

    >>> from tellapart.audit.image_scan import look
    >>> from tellapart.benchmarks.benchmark import find_benchmark
    >>> pairs = find_benchmark("demo").pairs().select(range(3))
    >>> [found.value for found in picture_duplicates(pairs, look(pairs))]
    [0.0, 0.0, 0.0, 0.0]
    """
    pixels = [tuple(seen.pixels[name] for name in item.images) for item in pairs.items]
    twice = [len(set(hashes)) < len(hashes) for hashes in pixels]
    contents = [
        (tuple(sorted(hashes)), tuple(sorted(item.texts))) for hashes, item in zip(pixels, pairs.items, strict=True)
    ]
    often = Counter(contents)
    return [
        at_most(
            0, "images: twice in an item", "items with the same picture twice", twice, pairs, "no model can solve them"
        ),
        at_most(
            0,
            "items: twice",
            "items with the same pictures and captions as another one",
            (often[content] > 1 for content in contents),
            pairs,
            "keep one of them",
        ),
        at_most(
            0,
            "images: shared",
            "items with a picture, to the pixel, of an item of another cluster",
            _shared(pixels, pairs),
            pairs,
            "not independent: give such items one cluster, or intervals are too narrow",
        ),
        at_most(
            _NEAR,
            "images: near-duplicates",
            "items with a picture that looks like one of another cluster, and is not it",
            _near(pairs, seen),
            pairs,
            f"perceptual hashes of 64 bits differ in at most {BITS}, and thumbnails agree",
        ),
    ]


def _shared(contents: Iterable[Iterable[Hashable]], pairs: PairSet) -> list[bool]:
    """Return which items have a content that an item of another cluster has, too."""
    listed = [[*each] for each in contents]
    clusters: defaultdict[Hashable, set[str]] = defaultdict(set)
    for item, each in zip(pairs.items, listed, strict=True):
        for content in each:
            clusters[content].add(item.cluster)
    return [any(len(clusters[content]) > 1 for content in each) for each in listed]


def _near(pairs: PairSet, seen: Look) -> NDArray[np.bool_]:
    """Return which items have a picture that is near another cluster's, bool `(item,)`."""
    place = {name: k for k, name in enumerate(seen.references)}
    cluster: dict[str, str] = {}
    for item in pairs.items:
        for name in item.images:
            cluster.setdefault(name, item.cluster)
    clusters = np.unique([cluster[name] for name in seen.references], return_inverse=True)[1]
    pixels = np.unique([seen.pixels[name] for name in seen.references], return_inverse=True)[1]
    alike = np.zeros(len(seen.references), dtype=bool)
    for i, j in near(seen.prints, seen.prints):
        apart = (clusters[i] != clusters[j]) & (pixels[i] != pixels[j])
        alike[i[apart]] = True
    return np.array([any(alike[place[name]] for name in item.images) for item in pairs.items])
