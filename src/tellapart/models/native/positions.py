"""Position embeddings at another image size, by each family's own method; libraries' resizers give other numbers."""

from __future__ import annotations

from typing import Any

from tellapart.models.torch_backend import import_torch

__all__ = ["resize_grid"]


def resize_grid(tensors: dict[str, Any], positions: str, patches: str, size: int) -> dict[str, Any]:
    """Resize positions `(1, 1 + side * side, width)` to an image size, bicubic on the grid behind the class token.

    ALBEF, BLIP and METER do so.

    Args:
        tensors: by name; a new dictionary is returned.
        positions: the name of the positions, `(1, rows, width)` or `(rows, width)`.
        patches: the name of the patch projection, which tells the patch's side.
        size: of the image, in pixels.
    """
    torch = import_torch()
    table = tensors[positions]
    rows = table.reshape(-1, table.shape[-1])
    old, new = round((len(rows) - 1) ** 0.5), size // tensors[patches].shape[-1]
    if new == old:
        return tensors
    grid = rows[1:].float().T.reshape(1, -1, old, old)
    grid = torch.nn.functional.interpolate(grid, size=(new, new), mode="bicubic", align_corners=False)
    resized = torch.cat([rows[:1].float(), grid.flatten(2)[0].T])
    return {**tensors, positions: resized.reshape(*table.shape[:-2], *resized.shape)}
