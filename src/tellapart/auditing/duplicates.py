"""Find captions and pictures that occur twice in a set, and those that it shares with another set."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tellapart.auditing.change import Change, change_of
from tellapart.auditing.finding import Finding, at_most
from tellapart.data.images import pixel_hash
from tellapart.data.pairset import PairSet
from tellapart.data.perceptual import BITS, ImageHashes, gather_hashes, near_duplicates, perceptual_hash, thumbnail
from tellapart.data.progress import Progress
from tellapart.data.video import as_picture


@dataclass(frozen=True, slots=True, eq=False)
class ImageScan:
    """The facts of a set's pictures that the checks need.

    Attributes:
        references: distinct references, in the order in which items name them.
        pixels: reference -> hash of the decoded pixels.
        hashes: perceptual hash and thumbnail of each reference; of a video as `as_picture` shows it.
        changes: of each item; empty if items have one picture.
    """

    references: tuple[str, ...]
    pixels: dict[str, str]
    hashes: ImageHashes
    changes: tuple[Change, ...]


def scan_images(pairs: PairSet, *, changes: bool = True, progress: Progress | None = None) -> ImageScan:
    """Decode a set's pictures, item by item."""
    compare = changes and pairs.shape[0] > 1
    pixels: dict[str, str] = {}
    hashes: list[tuple[int, NDArray[np.uint8]]] = []
    item_changes: list[Change] = []
    for done, item in enumerate(pairs.items, start=1):
        names = item.images if compare else [name for name in item.images if name not in pixels]
        decoded = {name: pairs.pixels(name) for name in dict.fromkeys(names)}
        for name, picture in decoded.items():
            if name not in pixels:
                pixels[name] = pixel_hash(picture)
                look = as_picture(picture)
                hashes.append((perceptual_hash(look), thumbnail(look)))
        if compare:
            item_changes.append(change_of([decoded[name] for name in item.images]))
        if progress:
            progress("items", done, len(pairs))
    return ImageScan(tuple(pixels), pixels, gather_hashes(hashes), tuple(item_changes))


#: The share of items whose captions may all be those of an item of another cluster.
_SHARED_CAPTIONS = 0.05

#: The share of items that may look like those of another cluster, or share a caption with another set: hashes and short
#: captions sometimes agree by chance.
_FEW = 0.01

_UNSOLVABLE = "no model can solve them"
_DEPENDENT = "not independent: give such items one cluster, or intervals are too narrow"
_LOOKS_ALIKE = f"perceptual hashes of 64 bits differ in at most {BITS}, and thumbnails agree"


def caption_duplicates(pairs: PairSet) -> list[Finding]:
    """Find items with the same caption twice, and items whose captions all occur in an item of another cluster, too."""
    twice = [len(set(item.texts)) < len(item.texts) for item in pairs.items]
    shared = _in_several_clusters([[tuple(sorted(item.texts))] for item in pairs.items], pairs)
    same = "items whose captions are all those of an item of another cluster"
    return [
        at_most(0, "captions: twice in an item", "items with the same caption twice", twice, pairs, _UNSOLVABLE),
        at_most(_SHARED_CAPTIONS, "captions: shared", same, shared, pairs, _DEPENDENT),
    ]


def picture_duplicates(pairs: PairSet, scan: ImageScan) -> list[Finding]:
    """Find items with a picture twice, items that occur twice, and pictures that clusters share or nearly share."""
    pixels = [tuple(scan.pixels[name] for name in item.images) for item in pairs.items]
    twice = [len(set(hashes)) < len(hashes) for hashes in pixels]
    contents = [(*sorted(hashes), *sorted(item.texts)) for hashes, item in zip(pixels, pairs.items, strict=True)]
    counts = Counter(contents)
    repeated = [counts[content] > 1 for content in contents]
    same_item = "items with the same pictures and captions as another one"
    exact = "items with a picture that an item of another cluster has, pixel for pixel"
    alike = "items with a picture that looks like one of another cluster, with other pixels"
    shared, near = _in_several_clusters(pixels, pairs), _near_items(pairs, scan)
    return [
        at_most(0, "images: twice in an item", "items with the same picture twice", twice, pairs, _UNSOLVABLE),
        at_most(0, "items: twice", same_item, repeated, pairs, "keep one of them"),
        at_most(0, "images: shared", exact, shared, pairs, _DEPENDENT),
        at_most(_FEW, "images: near-duplicates", alike, near, pairs, _LOOKS_ALIKE),
    ]


def caption_leak(pairs: PairSet, other: PairSet) -> Finding:
    """Find the items with a caption of the other set; case and spaces do not count."""
    other_texts = {_normalize_text(text) for item in other.items for text in item.texts}
    hits = [any(_normalize_text(text) in other_texts for text in item.texts) for item in pairs.items]
    return at_most(
        _FEW, "leak: captions", f"items with a caption of {other.name}", hits, pairs, "case and spaces do not count"
    )


def picture_leak(pairs: PairSet, scan: ImageScan, other: PairSet, other_scan: ImageScan) -> list[Finding]:
    """Find the items with exactly a picture of the other set, and the items with one that only looks like it."""
    other_pixels = set(other_scan.pixels.values())
    exact = {name for name, value in scan.pixels.items() if value in other_pixels}
    alike = {scan.references[k] for i, _ in near_duplicates(scan.hashes, other_scan.hashes) for k in i} - exact
    in_exact, in_alike = ([not names.isdisjoint(item.images) for item in pairs.items] for names in (exact, alike))
    same = f"items with a picture that {other.name} has, pixel for pixel"
    near = f"items with a picture that looks like one of {other.name}, with other pixels"
    warning = "do not train on one of the two sets and measure on the other"
    return [
        at_most(0, "leak: images", same, in_exact, pairs, warning),
        at_most(_FEW, "leak: near-duplicates", near, in_alike, pairs, _LOOKS_ALIKE),
    ]


def _in_several_clusters(contents: Iterable[Iterable[Hashable]], pairs: PairSet) -> list[bool]:
    """Return for each item whether an item of another cluster has one of its contents, too."""
    rows = [[*row] for row in contents]
    clusters: defaultdict[Hashable, set[str]] = defaultdict(set)
    for item, row in zip(pairs.items, rows, strict=True):
        for content in row:
            clusters[content].add(item.cluster)
    return [any(len(clusters[content]) > 1 for content in row) for row in rows]


def _near_items(pairs: PairSet, scan: ImageScan) -> list[bool]:
    """Return for each item whether a picture looks like one of another cluster, with other pixels."""
    cluster: dict[str, str] = {}
    for item in pairs.items:
        for name in item.images:
            cluster.setdefault(name, item.cluster)
    clusters = np.unique([cluster[name] for name in scan.references], return_inverse=True)[1]
    pixels = np.unique([scan.pixels[name] for name in scan.references], return_inverse=True)[1]
    alike: NDArray[np.bool_] = np.zeros(len(scan.references), dtype=bool)
    for i, j in near_duplicates(scan.hashes, scan.hashes):
        alike[i[(clusters[i] != clusters[j]) & (pixels[i] != pixels[j])]] = True
    names = {name for name, hit in zip(scan.references, alike, strict=True) if hit}
    return [not names.isdisjoint(item.images) for item in pairs.items]


def _normalize_text(text: str) -> str:
    return " ".join(text.casefold().split())
