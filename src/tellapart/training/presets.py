"""The papers' hyper-parameters, by name: a preset fills in the keys that a configuration leaves out.

Each is a table of the file `presets.toml` beside its loss, with its source and its differences from the release.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tellapart.catalog import LOSSES, names
from tellapart.data.rows import read_toml
from tellapart.errors import DataError, nearest
from tellapart.training.losses.loss import find_loss

#: Released code takes equal captions, and copies of a picture, for each other's negatives.
_RELEASED: Mapping[str, Any] = {"data": {"duplicates": "negatives"}}


@dataclass(frozen=True, slots=True)
class Preset:
    """Values that fill in the keys that a configuration leaves out; it gives the model, the data and the device itself.

    `source` is the paper, and the released command. `ours` has each key, or step of training, that is not as released,
    with the reason.
    """

    values: Mapping[str, Any]
    source: str
    ours: Mapping[str, str] = field(default_factory=dict)


def list_presets() -> dict[str, Preset]:
    """Return the presets of every loss, by name; those of other packages' losses last.

    All have `data.duplicates = "negatives"`, as the released code, unless they name it themselves.
    A loss of another package that cannot be loaded has none.
    """
    presets: dict[str, Preset] = {}
    for name in names("loss"):
        try:
            path = Path(inspect.getfile(find_loss(name).function)).with_name("presets.toml")
        except Exception:  # `tellapart ls losses` shows why
            if name in LOSSES:
                raise
            continue
        for key, preset in _read_presets(path).items():
            if preset.values.get("loss", {}).get("name") == name:
                presets.setdefault(key, preset)
    return presets


@cache
def _read_presets(path: Path) -> dict[str, Preset]:
    """Return the presets of a file; none if there is no file."""
    presets: dict[str, Preset] = {}
    for name, table in (read_toml(path) if path.is_file() else {}).items():
        like, unset, ours = table.pop("like", None), table.pop("unset", ()), table.pop("ours", {})
        if like is not None and like not in presets:
            raise DataError(f"{path}: [{name}]: like = {like!r} names no preset before it", path=path, field="like")
        base = Preset(_RELEASED, "") if like is None else presets[like]
        for key in unset:
            part, _, last = key.rpartition(".")
            (table.setdefault(part, {}) if part else table)[last] = None
        source = table.pop("source", base.source)
        presets[name] = Preset(merge_preset(base.values, table), source, {**base.ours, **ours})
    return presets


def find_preset(name: str) -> Preset:
    """Return a preset by its name."""
    presets = list_presets()
    if name not in presets:
        hint = nearest(name, presets) or ";"
        raise DataError(f"no preset {name!r}{hint} the presets are {', '.join(presets)}")
    return presets[name]


def merge_preset(preset: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return `values` completed by the preset's, table by table.

    A loss of another name takes none of the preset's options, and steps take the place of epochs. Losses of
    `[loss.also]` are completed one by one.
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
