"""The papers' hyper-parameters, by name: what stands for everything that a configuration does not say."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

__all__ = ["PRESETS", "merged"]

PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType({})


def merged(preset: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return `values` with the preset's where they say nothing, table by table.

    A loss of another name takes none of the preset's options, and steps take the place of epochs.

    >>> merged({"batch": {"size": 8, "chunk": 2}, "seed": 1}, {"batch": {"size": 4}})
    {'batch': {'size': 4, 'chunk': 2}, 'seed': 1}
    >>> merged({"optimiser": {"epochs": 5, "learning_rate": 1.0}}, {"optimiser": {"steps": 9}})
    {'optimiser': {'learning_rate': 1.0, 'steps': 9}}
    """
    found: dict[str, Any] = dict(preset)
    for key, value in values.items():
        base = found.get(key)
        if not isinstance(value, Mapping) or not isinstance(base, Mapping):
            found[key] = value
            continue
        if key == "loss" and value.get("name", base.get("name")) != base.get("name"):
            base = {}
        if key == "optimiser" and {"steps", "epochs"} & set(value):
            base = {name: kept for name, kept in base.items() if name not in {"steps", "epochs"}}
        found[key] = {**base, **value}
    return found
