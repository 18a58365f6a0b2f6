"""The papers' hyper-parameters, by name: a preset fills in the keys that a configuration leaves out.

Each is declared with its loss, its source and its differences from the release.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tellapart.catalog import LOSSES, names, nearest
from tellapart.errors import DataError
from tellapart.training.losses.loss import find_loss
from tellapart.training.losses.preset import Preset

#: Released code takes equal captions, and copies of a picture, for each other's negatives.
_RELEASED: Mapping[str, Any] = {"data": {"duplicates": "negatives"}}


def list_presets() -> dict[str, Preset]:
    """Return the presets of every loss, by name; those of other packages' losses last.

    All have `data.duplicates = "negatives"`, as the released code, unless they name it themselves.
    A loss of another package that cannot be loaded has none.

    >>> list_presets()["trohn-text"].values["loss"]
    {'name': 'negclip'}
    """
    presets: dict[str, Preset] = {}
    for name in names("loss"):
        try:
            declared = find_loss(name).presets
        except Exception:  # `tellapart ls losses` shows why
            if name in LOSSES:
                raise
            continue
        for key, preset in declared.items():
            presets.setdefault(key, replace(preset, values=merge_preset(_RELEASED, preset.values)))
    return presets


def find_preset(name: str) -> Preset:
    """Return a preset by its name.

    >>> find_preset("negclip").values["batch"]
    {'size': 256}
    """
    presets = list_presets()
    if name not in presets:
        hint = nearest(name, presets) or ";"
        raise DataError(f"no preset {name!r}{hint} the presets are {', '.join(presets)}")
    return presets[name]


def merge_preset(preset: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return `values` completed by the preset's, table by table.

    A loss of another name takes none of the preset's options, and steps take the place of epochs. Losses of
    `[loss.also]` are completed one by one.

    >>> merge_preset({"batch": {"size": 8, "chunk": 2}, "seed": 1}, {"batch": {"size": 4}})
    {'batch': {'size': 4, 'chunk': 2}, 'seed': 1}
    >>> merge_preset({"optimiser": {"epochs": 5, "learning_rate": 1.0}}, {"optimiser": {"steps": 9}})
    {'optimiser': {'learning_rate': 1.0, 'steps': 9}}
    """
    merged: dict[str, Any] = dict(preset)
    for key, value in values.items():
        base = merged.get(key)
        if not isinstance(value, Mapping) or not isinstance(base, Mapping):
            merged[key] = value
            continue
        if key == "loss" and value.get("name", base.get("name")) != base.get("name"):
            base = {}
        if key == "optimiser" and (lengths := {"steps", "epochs", "minutes"}) & set(value):
            base = {name: number for name, number in base.items() if name not in lengths}
        merged[key] = {**base, **value}
        if key == "loss" and isinstance(base.get("also"), Mapping) and isinstance(value.get("also"), Mapping):
            merged[key]["also"] = merge_preset(base["also"], value["also"])
    return merged
