"""Forward passes of torch models: shapes that depend on a sample alone, and errors of one line."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from tellapart.errors import ModelError, first_sentence
from tellapart.models.torch_backend import import_torch

__all__ = ["bucket", "forward", "positions_by_key"]

Key = TypeVar("Key", bound=Hashable)


def bucket(length: int, limit: int | None = None, *, step: int = 8) -> int:
    """Round a length up to a multiple, and no further than a limit, so that few shapes occur.

    >>> [bucket(length, 77) for length in (1, 8, 9, 77, 300)]
    [8, 8, 16, 77, 77]
    """
    up = -(-length // step) * step
    return up if limit is None else min(up, limit)


def positions_by_key(keys: Iterable[Key]) -> dict[Key, list[int]]:
    """Return the positions of each key, by first appearance: samples of one shape can share a batch.

    >>> positions_by_key([8, 16, 8])
    {8: [0, 2], 16: [1]}
    """
    positions: dict[Key, list[int]] = {}
    for position, key in enumerate(keys):
        positions.setdefault(key, []).append(position)
    return positions


@contextmanager
def forward(name: str, model: Any) -> Iterator[None]:
    """Compute without gradients, and report in one line what the library raises; full memory is left to the caller.

    Raises:
        ModelError: the model fails on its input.
    """
    torch = import_torch()
    try:
        with torch.inference_mode():
            yield
    except torch.cuda.OutOfMemoryError:
        raise
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        raise ModelError(f"{name}: {type(model).__name__} fails: {first_sentence(error)}") from error
