"""Position embeddings at another image size, by the family's method; libraries' resizers give other numbers."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor


def resize_grid(tensors: dict[str, Tensor], positions: str, patches: str, size: int) -> dict[str, Tensor]:
    """Resize positions `(1, 1 + side * side, width)` to an image size, bicubic on the grid behind the class token.

    ALBEF, BLIP and METER do so.
    """
    table = tensors[positions]
    rows = table.reshape(-1, table.shape[-1])
    old, new = round((len(rows) - 1) ** 0.5), size // tensors[patches].shape[-1]
    if new == old:
        return tensors
    grid = rows[1:].float().T.reshape(1, -1, old, old)
    grid = torch.nn.functional.interpolate(grid, size=(new, new), mode="bicubic", align_corners=False)
    resized = torch.cat([rows[:1].float(), grid.flatten(2)[0].T])
    return {**tensors, positions: resized.reshape(*table.shape[:-2], *resized.shape)}


def resize_window_biases(tensors: dict[str, Tensor], window: int) -> dict[str, Tensor]:
    """Resize the tables of biases `((2 * w - 1) ** 2, heads)` of a Swin transformer to another window, by a spline.

    X-VLM does so, as BEiT does: the old offsets are set apart by growing steps, so that near the middle, where biases
    change the most, the new ones lie between few old ones.
    """
    marker = "relative_position_bias_table"
    return {
        name: _resize_table(tensor, window) if name.endswith(marker) else tensor for name, tensor in tensors.items()
    }


def _resize_table(table: Tensor, window: int) -> Tensor:
    from scipy.interpolate import RectBivariateSpline

    old, new = math.isqrt(len(table)), 2 * window - 1
    if old == new:
        return table
    ratio = _growth_ratio(old // 2, new // 2)
    right = np.cumsum(ratio ** np.arange(old // 2))
    places = np.concatenate([-right[::-1], [0.0], right])
    wanted = np.arange(new) - new // 2
    numbers = table.double().numpy()
    heads = [RectBivariateSpline(places, places, head.reshape(old, old))(wanted, wanted) for head in numbers.T]
    return torch.tensor(np.stack([head.ravel() for head in heads], axis=1), dtype=table.dtype)


def _growth_ratio(steps: int, reach: int) -> float:
    """Return the ratio between 1.01 and 1.5 of steps that grow so and together reach so far."""
    low, high = 1.01, 1.5
    while high - low > 1e-6:
        ratio = (low + high) / 2
        if (ratio**steps - 1) / (ratio - 1) > reach:
            high = ratio
        else:
            low = ratio
    return ratio
