"""From a map of a model's attention to a box: the one with the most heat for its size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tellapart.models.protocols import Sides
from tellapart.models.torch.backend import import_torch

__all__ = ["heat_box"]


def heat_box(heat: NDArray[np.float32], size: tuple[int, int], candidates: Sequence[Sides] = ()) -> Sides:
    """Return the box whose sum of heat over the square root of its area is the greatest; of equal ones the first.

    With candidates (a detector's proposals) it is one of them: the map is enlarged to the image, bicubic, and summed
    over each one's pixels, as ALBEF's authors do with MAttNet's proposals. If none has any heat they keep the box of
    the image before; here it is the first. Without candidates it is one of all rectangles of the map's cells, which
    nobody published numbers for.

    Args:
        heat: `(rows, columns)`, of all of the image.
        size: width and height of the image in pixels.
        candidates: x, y, width, height in pixels.

    >>> heat = np.zeros((4, 4), np.float32)
    >>> heat[1:3, 2] = 1
    >>> heat_box(heat, (80, 40))
    (40.0, 10.0, 20.0, 20.0)
    >>> heat_box(heat, (80, 40), [(0, 0, 40, 40), (42, 9, 20, 20), (0, 0, 80, 40)])
    (42.0, 9.0, 20.0, 20.0)
    """
    if not candidates:
        return _best_cells(heat, size)
    torch = import_torch()
    whole = torch.nn.functional.interpolate(
        torch.from_numpy(np.ascontiguousarray(heat))[None, None], (size[1], size[0]), mode="bicubic"
    )[0, 0].numpy()
    shares = []
    for x, y, width, height in candidates:
        inside = whole[max(int(y), 0) : int(y + height), max(int(x), 0) : int(x + width)]
        shares.append(inside.sum(dtype=np.float64) / max(width * height, 1e-9) ** 0.5)
    x, y, width, height = candidates[int(np.argmax(shares))]
    return float(x), float(y), float(width), float(height)


def _best_cells(heat: NDArray[np.float32], size: tuple[int, int]) -> Sides:
    """Find the best of all rectangles of cells, by sums of all rectangles that begin in the corner."""
    rows, columns = heat.shape
    corner = np.zeros((rows + 1, columns + 1))
    corner[1:, 1:] = heat.astype(np.float64).cumsum(0).cumsum(1)
    top, bottom = np.triu_indices(rows + 1, 1)
    left, right = np.triu_indices(columns + 1, 1)
    between = corner[bottom] - corner[top]  # (pairs of rows, columns + 1)
    sums = between[:, right] - between[:, left]
    area = np.multiply.outer((bottom - top) / rows * size[1], (right - left) / columns * size[0])
    across, along = np.unravel_index(int(np.argmax(sums / area**0.5)), sums.shape)
    wide, high = size[0] / columns, size[1] / rows
    x, y = left[along] * wide, top[across] * high
    return float(x), float(y), float(right[along] * wide - x), float(bottom[across] * high - y)
