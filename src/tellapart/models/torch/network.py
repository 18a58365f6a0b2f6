"""The type of torch's modules whose parts are named by a file."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["Network"]


class Network(Protocol):
    """A `torch.nn.Module` whose parts have the names of its weights' file, so that no type can list them."""

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Compute a forward pass."""

    def __getattr__(self, name: str) -> Any:
        """Return a part or a method of the module."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Add or replace a part."""
