"""One forward pass of a torch model: shapes that depend on a sample alone, and errors that take one line."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from tellapart.errors import ModelError, first_sentence
from tellapart.models.torch_backend import import_torch

__all__ = ["bucket", "forward", "positions_by_key"]

Key = TypeVar("Key", bound=Hashable)


def bucket(length: int, limit: int | None = None, *, step: int = 8) -> int:
    """Round a length up to a multiple, and no further than a limit: few shapes occur, each by its own sample alone.

    >>> [bucket(length, 77) for length in (1, 8, 9, 77, 300)]
    [8, 8, 16, 77, 77]
    """
    up = -(-length // step) * step
    return up if limit is None else min(up, limit)


def positions_by_key(keys: Iterable[Key]) -> dict[Key, list[int]]:
    """Return the positions that share a key, by first appearance: samples of one shape, which can share a batch.

    >>> positions_by_key([8, 16, 8])
    {8: [0, 2], 16: [1]}
    """
    found: dict[Key, list[int]] = {}
    for position, key in enumerate(keys):
        found.setdefault(key, []).append(position)
    return found


@contextmanager
def forward(name: str, model: Any) -> Iterator[None]:
    """Compute without gradients, and say in one line what the library raises; full memory is left to the caller.

    Raises:
        ModelError: the model fails on what it is given.

    >>> torch = import_torch()
    >>> with forward("m", torch.nn.Linear(2, 1)):
    ...     torch.ones(2) @ torch.ones(3)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tellapart.errors.ModelError: m: Linear fails: ...
    """
    torch = import_torch()
    try:
        with torch.inference_mode():
            yield
    except torch.cuda.OutOfMemoryError:
        raise
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        raise ModelError(f"{name}: {type(model).__name__} fails: {first_sentence(error)}") from error
