"""Change within an item: the share of the picture that differs, and its place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from tellapart.auditing.finding import Finding, at_most, judge, mean_with_interval
from tellapart.data.pairset import PairSet

#: A pixel has changed if one of its channels differs by more than this, of 255: above the noise of JPEG and of
#: renderers.
LEVEL = 24

#: A change is minimal if at most this share of the pixels has changed.
_MINIMAL = 0.25

#: A change of fewer pixels than this share can hardly be seen: a patch of 7 by 7 pixels in 224 by 224.
_INVISIBLE = 0.001

#: Items that may fail, as a share.
_EXCEPTIONS = 0.1


class Change(BaseModel):
    """The difference between an item's first picture and the one that differs most from it.

    Attributes:
        share: of the pixels that changed, of videos in all frames; None if the pictures have different sizes.
        box: the smallest box around them, `(left, top, right, bottom)` as shares of width and height.
        box_share: the box's share of the picture.
        mean_absolute: over all pixels and channels, in levels of 255.
        centre: of the changed pixels, `(x, y)` as shares.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

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


def _compare_pictures(one: NDArray[np.uint8], other: NDArray[np.uint8]) -> Change:
    difference = np.abs(one.astype(np.int16) - other)
    changed = (difference.max(axis=-1) > LEVEL).reshape(-1, *one.shape[-3:-1])  # (frames, height, width)
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
    sizes = sum(change.share is None for change in changes)
    unequal = f"; {sizes:,} items have pictures of different sizes and count as not minimal" if sizes else ""
    large = [change.share is None or change.share > _MINIMAL for change in changes]
    faint = [change.share is not None and change.share < _INVISIBLE for change in changes]
    much = f"items of which more than {100 * _MINIMAL:g} % of the pixels change by more than {LEVEL} of 255 levels"
    little = f"items of which less than {100 * _INVISIBLE:g} % of the pixels change"
    same = "look at them: the pictures are the same to the eye"
    findings = [
        at_most(_EXCEPTIONS, "change: not minimal", much, large, pairs, f"not minimal to the eye{unequal}"),
        at_most(0, "change: hardly seen", little, faint, pairs, same),
    ]
    return findings + ([_mean_change(changes, pairs)] if sizes < len(changes) else [])


def _mean_change(changes: Sequence[Change], pairs: PairSet) -> Finding:
    places = [k for k, change in enumerate(changes) if change.share is not None]
    shares = np.array([changes[k].share for k in places], np.float64)
    mean = mean_with_interval(shares, pairs.select(places), bounds=(0.0, 1.0))
    boxes = np.mean([changes[k].box_share for k in places])
    difference = np.mean([changes[k].mean_absolute or 0.0 for k in places])
    largest = sorted(places, key=lambda k: -(changes[k].share or 0))
    says = (
        f"median {100 * np.median(shares):.1f} %; the box around them holds {100 * boxes:.1f} % of the picture; "
        f"mean absolute difference {difference:.1f} of 255; audit.json names the largest"
    )
    warns, ids = mean["value"] > _MINIMAL, [pairs.items[k].id for k in largest]
    allowed = f"at most {100 * _MINIMAL:g} %"
    return judge("change: share", "pixels that change, on average", mean, allowed, warns, says, items=ids)


def changes_by_field(changes: Sequence[Change]) -> list[list[int]]:
    """Count changes by the place of their centre: 3 rows of 3 fields of the picture.

    >>> changes_by_field([Change(share=0.1, mean_absolute=1.0, centre=(0.9, 0.5))])
    [[0, 0, 0], [0, 0, 1], [0, 0, 0]]
    """
    fields = [[0] * 3 for _ in range(3)]
    for change in changes:
        if change.centre is not None:
            x, y = (min(2, int(3 * part)) for part in change.centre)
            fields[y][x] += 1
    return fields
