"""What a set shares with another one: what was trained on must not be measured on."""

from __future__ import annotations

import numpy as np

from tellapart.audit.finding import Finding, at_most
from tellapart.audit.image_scan import Look
from tellapart.data.pairset import PairSet
from tellapart.data.perceptual import BITS, near

__all__ = ["caption_leak", "picture_leak"]

#: Items that may have a caption, or a look-alike, of the other set: short captions and hashes agree now and then.
_FEW = 0.01


def caption_leak(pairs: PairSet, other: PairSet) -> Finding:
    """Return the items with a caption that stands in the other set, case and blanks aside.

    >>> from pathlib import Path
    >>> from tellapart.data.item import Item
    >>> one = PairSet("a", (Item(id="1", images=("0.png",), texts=("A cat", "a dog")),), Path("."))
    >>> two = PairSet("b", (Item(id="2", images=("0.png",), texts=("a  cat", "a cow")),), Path("."))
    >>> caption_leak(one, two).items
    ('1',)
    """
    known = {_plain(text) for item in other.items for text in item.texts}
    hit = [any(_plain(text) in known for text in item.texts) for item in pairs.items]
    title = f"items with a caption of {other.name}"
    return at_most(_FEW, "leak: captions", title, hit, pairs, "case and blanks aside")


def picture_leak(pairs: PairSet, seen: Look, other: PairSet, seen_there: Look) -> list[Finding]:
    """Return the items with a picture of the other set, to the pixel, and with one that looks like it.

    >>> from tellapart.audit.image_scan import look
    >>> from tellapart.benchmarks.benchmark import find_benchmark
    >>> demo = find_benchmark("demo").pairs()
    >>> ours, theirs = demo.select(range(2)), demo.select(range(1, 3))
    >>> [found.items for found in picture_leak(ours, look(ours), theirs, look(theirs))]
    [('attribute-001',), ()]
    """
    there = set(seen_there.pixels.values())
    exact = {name for name, value in seen.pixels.items() if value in there}
    alike = np.zeros(len(seen.references), dtype=bool)
    for i, _ in near(seen.prints, seen_there.prints):
        alike[i] = True
    looks = {name for name, hit in zip(seen.references, alike, strict=True) if hit} - exact
    return [
        at_most(
            0,
            "leak: images",
            f"items with a picture, to the pixel, of {other.name}",
            (not exact.isdisjoint(item.images) for item in pairs.items),
            pairs,
            "train on one of the two and measure on the other, and the number means nothing",
        ),
        at_most(
            _FEW,
            "leak: near-duplicates",
            f"items with a picture that looks like one of {other.name}, and is not it",
            (not looks.isdisjoint(item.images) for item in pairs.items),
            pairs,
            f"perceptual hashes of 64 bits differ in at most {BITS}, and thumbnails agree",
        ),
    ]


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
