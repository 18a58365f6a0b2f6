"""Checks of pictures, and of duplicates: the change within an item, what occurs twice, and leaks from another set."""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tellapart.auditing.finding import Finding, at_most, judge, mean_with_interval, split_texts
from tellapart.data.images import pixel_hash
from tellapart.data.pairset import PairSet
from tellapart.data.perceptual import BITS, ImageHashes, gather_hashes, near_duplicates, perceptual_hash, thumbnail
from tellapart.data.progress import Progress
from tellapart.data.video import as_picture
from tellapart.records.result import Record

#: A pixel has changed if one of its channels differs by more than this, of 255: above the noise of JPEG and of
#: renderers.
LEVEL = 24

#: A change is minimal if at most this share of the pixels has changed.
_MINIMAL = 0.25

#: A change of fewer pixels than this share can hardly be seen: a patch of 7 by 7 pixels in 224 by 224.
_INVISIBLE = 0.001


class Change(Record):
    """The difference between an item's first picture and the one that differs most from it.

    `share` is that of the changed pixels, of a video in all frames; None if the sizes differ. The smallest box around
    these pixels and their centre are shares of width and height; `mean_absolute` is of all pixels, in levels of 255.
    """

    share: float | None = None
    box: tuple[float, float, float, float] | None = None
    box_share: float = 0.0
    mean_absolute: float | None = None
    centre: tuple[float, float] | None = None


def change_of(pictures: Sequence[NDArray[np.uint8]]) -> Change:
    """Compare an item's first picture with each other one, and return the largest change."""
    if any(picture.shape != pictures[0].shape for picture in pictures):
        return Change()
    return max((_compare_pictures(pictures[0], other) for other in pictures[1:]), key=lambda change: change.share or 0)


def _compare_pictures(first: NDArray[np.uint8], other: NDArray[np.uint8]) -> Change:
    difference = np.abs(first.astype(np.int16) - other)
    changed = (difference.max(axis=-1) > LEVEL).reshape(-1, *first.shape[-3:-1])  # (frames, height, width)
    mean_absolute = float(difference.mean())
    if not changed.any():
        return Change(share=0.0, mean_absolute=mean_absolute)
    _, height, width = changed.shape
    rows, columns = np.flatnonzero(changed.any(axis=(0, 2))), np.flatnonzero(changed.any(axis=(0, 1)))
    left, right = int(columns[0]) / width, (int(columns[-1]) + 1) / width
    top, bottom = int(rows[0]) / height, (int(rows[-1]) + 1) / height
    _, y, x = np.nonzero(changed)
    return Change(
        share=float(changed.mean()),
        box=(left, top, right, bottom),
        box_share=(right - left) * (bottom - top),
        mean_absolute=mean_absolute,
        centre=((float(x.mean()) + 0.5) / width, (float(y.mean()) + 0.5) / height),
    )


def change_findings(changes: Sequence[Change], pairs: PairSet) -> list[Finding]:
    """Return how many changes are not minimal, how many can hardly be seen, and the mean share, box and difference."""
    unsized = sum(change.share is None for change in changes)
    unequal = f"; {unsized:,} items have pictures of different sizes and count as not minimal" if unsized else ""
    shares = [change.share for change in changes]
    large = [share is None or share > _MINIMAL for share in shares]
    faint = [share is not None and share < _INVISIBLE for share in shares]
    return [
        at_most("change: not minimal", large, pairs, minimal=100 * _MINIMAL, level=LEVEL, unequal=unequal),
        at_most("change: hardly seen", faint, pairs, invisible=100 * _INVISIBLE),
        *([_mean_change(changes, pairs)] if unsized < len(changes) else []),
    ]


def _mean_change(changes: Sequence[Change], pairs: PairSet) -> Finding:
    sized = [(k, change.share, change) for k, change in enumerate(changes) if change.share is not None]
    shares = np.array([share for _, share, _ in sized], np.float64)
    mean = mean_with_interval(shares, pairs.select([k for k, *_ in sized]))
    boxes = np.mean([change.box_share for *_, change in sized])
    difference = np.mean([change.mean_absolute or 0.0 for *_, change in sized])
    says = (
        f"median {100 * np.median(shares):.1f} %; the box around them holds {100 * boxes:.1f} % of the picture; "
        f"mean absolute difference {difference:.1f} of 255; audit.json names the largest"
    )
    ids = [pairs.items[k].id for k, *_ in sorted(sized, key=lambda row: -row[1])]
    allowed, warns = f"at most {100 * _MINIMAL:g} %", mean["value"] > _MINIMAL
    return judge("change: share", "pixels that change, on average", mean, allowed, warns, says, items=ids)


def changes_by_field(changes: Sequence[Change]) -> list[list[int]]:
    """Count changes by the place of their centre: 3 rows of 3 fields of the picture."""
    fields = [[0] * 3 for _ in range(3)]
    for change in changes:
        if change.centre is not None:
            x, y = (min(2, int(3 * part)) for part in change.centre)
            fields[y][x] += 1
    return fields


@dataclass(frozen=True, slots=True, eq=False)
class ImageScan:
    """The facts of a set's pictures: by reference the hash of the pixels and the perceptual one; each item's change."""

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
                still = as_picture(picture)
                hashes.append((perceptual_hash(still), thumbnail(still)))
        if compare:
            item_changes.append(change_of([decoded[name] for name in item.images]))
        if progress:
            progress("items", done, len(pairs))
    return ImageScan(tuple(pixels), pixels, gather_hashes(hashes), tuple(item_changes))


def caption_duplicates(pairs: PairSet) -> list[Finding]:
    """Find items with the same caption twice, and items whose captions all occur in an item of another cluster, too."""
    # Of several true captions two may be equal: the item can still be solved.
    twice = [len({*false} - true) < len(false) for true, false in map(split_texts, pairs.items)]
    shared = _in_several_clusters([[tuple(sorted(item.texts))] for item in pairs.items], pairs)
    return [at_most("captions: twice in an item", twice, pairs), at_most("captions: shared", shared, pairs)]


def picture_duplicates(pairs: PairSet, scan: ImageScan) -> list[Finding]:
    """Find items with a picture twice, items that occur twice, and pictures that clusters share or nearly share."""
    pixels = [tuple(scan.pixels[name] for name in item.images) for item in pairs.items]
    contents = [(*sorted(hashes), *sorted(item.texts)) for hashes, item in zip(pixels, pairs.items, strict=True)]
    counts = Counter(contents)
    findings = {
        "images: twice in an item": [len(set(hashes)) < len(hashes) for hashes in pixels],
        "items: twice": [counts[content] > 1 for content in contents],
        "images: shared": _in_several_clusters(pixels, pairs),
        "images: near-duplicates": _near_items(pairs, scan),
    }
    return [at_most(name, hits, pairs, bits=BITS) for name, hits in findings.items()]


def caption_leak(pairs: PairSet, other: PairSet) -> Finding:
    """Find the items with a caption of the other set; case, spaces and forms of Unicode do not count."""

    def normalize(text: str) -> str:
        return " ".join(unicodedata.normalize("NFKC", text).casefold().split())

    texts = {normalize(text) for item in other.items for text in item.texts}
    hits = [any(normalize(text) in texts for text in item.texts) for item in pairs.items]
    return at_most("leak: captions", hits, pairs, other=other.name)


def picture_leak(pairs: PairSet, scan: ImageScan, other: PairSet, other_scan: ImageScan) -> list[Finding]:
    """Find the items with exactly a picture of the other set, and the items with one that only looks like it."""
    other_pixels = set(other_scan.pixels.values())
    exact = {name for name, value in scan.pixels.items() if value in other_pixels}
    near = {scan.references[k] for i, _ in near_duplicates(scan.hashes, other_scan.hashes) for k in i} - exact
    findings = {
        name: [not references.isdisjoint(item.images) for item in pairs.items]
        for name, references in (("leak: images", exact), ("leak: near-duplicates", near))
    }
    return [at_most(name, hits, pairs, other=other.name, bits=BITS) for name, hits in findings.items()]


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
    near: NDArray[np.bool_] = np.zeros(len(scan.references), dtype=bool)
    for i, j in near_duplicates(scan.hashes, scan.hashes):  # each pair in both orders
        near[i[(clusters[i] != clusters[j]) & (pixels[i] != pixels[j])]] = True
    names = {name for name, hit in zip(scan.references, near, strict=True) if hit}
    return [not names.isdisjoint(item.images) for item in pairs.items]
