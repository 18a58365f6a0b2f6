"""Types of torch and transformers, neither of which is imported for them, and how a file's tensors differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from tellapart.data.scores import join_names

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import (
        BaseImageProcessor,
        GenerationConfig,
        PreTrainedConfig,
        PreTrainedModel,
        PreTrainedTokenizerBase,
        ProcessorMixin,
    )
else:
    Tensor = BaseImageProcessor = GenerationConfig = PreTrainedConfig = PreTrainedModel = Any
    PreTrainedTokenizerBase = ProcessorMixin = Any

__all__ = [
    "BaseImageProcessor", "GenerationConfig", "Network", "PreTrainedConfig", "PreTrainedModel",
    "PreTrainedTokenizerBase", "ProcessorMixin", "Tensor", "describe_misfit",
]  # fmt: skip


class Network(Protocol):
    """A `torch.nn.Module` whose parts have the names of its weights' file, so that no type can list them."""

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Compute a forward pass."""

    def __getattr__(self, name: str) -> Any:
        """Return a part or a method of the module."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Add or replace a part."""


def describe_misfit(
    expected: Mapping[str, tuple[int, ...]], actual: Mapping[str, tuple[int, ...]], *, strange: str = "unknown"
) -> str:
    """Describe in one line how the shapes of a checkpoint's tensors differ from a module's; nothing if they fit.

    >>> describe_misfit({"a": (2,), "b": (3,)}, {"a": (4,), "c": (1,)})
    '1 missing (b); 1 unknown (c); 1 of another shape (a (4,), not (2,))'
    """
    differing = [name for name in expected if actual.get(name, expected[name]) != expected[name]]
    problems = {
        "missing": [name for name in expected if name not in actual],
        strange: [name for name in actual if name not in expected],
        "of another shape": [f"{name} {actual[name]}, not {expected[name]}" for name in differing],
    }
    return "; ".join(f"{len(names)} {problem} ({join_names(names, 3)})" for problem, names in problems.items() if names)
