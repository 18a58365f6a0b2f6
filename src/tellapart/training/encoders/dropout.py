"""Dropout of the outputs of a model's parts, named by patterns: the models here have none."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from tellapart.errors import DataError
from tellapart.models.torch.backend import import_torch

if TYPE_CHECKING:
    from torch import nn


def add_dropout(module: nn.Module, patterns: Mapping[str, float]) -> None:
    """Have parts of a module lose a share of their output while it trains; the first pattern that matches counts.

    >>> torch = import_torch()
    >>> layers = torch.nn.Sequential(torch.nn.Identity()).train()
    >>> add_dropout(layers, {"0": 0.5})
    >>> sorted(set(layers(torch.ones(100)).tolist())), layers.eval()(torch.ones(1)).tolist()
    ([0.0, 2.0], [1.0])
    """
    drop, names = import_torch().nn.functional.dropout, dict(module.named_modules())
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise DataError(
                f"dropout: no part of the model has a name that matches {pattern!r}; {list(names)[-1]} is one"
            )
    for name, part in names.items():
        share = next((share for pattern, share in patterns.items() if fnmatchcase(name, pattern)), 0.0)
        if share:
            part.register_forward_hook(
                lambda own, _, output, share=share: drop(output, share, own.training),
            )
