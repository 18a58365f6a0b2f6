"""The plan of the ablation: its rows, and the configuration of each run."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tellapart.train.config import TrainConfig
from tellapart.train.presets import merge_preset

__all__ = ["HERE", "SETS", "Method", "fine_tuning", "methods", "pretraining"]

#: The folder of the configurations.
HERE = Path(__file__).resolve().parent

#: Set -> the recipe that renders it.
SETS = {"train": HERE / "train_scenes.toml", "validation": HERE / "validation_scenes.toml"}


@dataclass(frozen=True, slots=True)
class Method:
    """A row of the table.

    Attributes:
        name: in the record and in names of folders.
        title: in tables.
        about: what it is, in words.
        loss: the loss's name and options.
        data: what it changes in `[data]`.
        against: name of a row that it is compared with beside the first.

    >>> Method("ft", "FT", "contrast", {"name": "itc"}).data
    {}
    """

    name: str
    title: str
    about: str
    loss: dict[str, Any]
    data: dict[str, Any] = field(default_factory=dict)
    against: str = ""


def methods() -> list[Method]:
    """Read the rows from `methods.toml`; the first is what the others are compared with.

    >>> methods()[0].title
    'FT'
    """
    table = tomllib.loads((HERE / "methods.toml").read_text(encoding="utf-8"))
    return [Method(**values) for values in table["methods"]]


def pretraining(work: Path) -> TrainConfig:
    """Return the configuration of the common start, its sets in a work folder.

    >>> pretraining(Path("work")).data.train
    ['folder:work/sets/train']
    """
    return TrainConfig(**_configure("pretrain.toml", work, {"model": f"new:{HERE / 'arch'}"}))


def fine_tuning(method: Method, seed: int, work: Path, start: str) -> TrainConfig:
    """Return the configuration of one run of a row.

    Args:
        method: the row.
        seed: of the order and the draws; the same for all rows.
        work: the folder that holds the sets.
        start: name of the common start.

    >>> fine_tuning(methods()[1], 3, Path("work"), "local-dir:start").name
    'ft-apart-3'
    """
    changes = {
        "name": f"{method.name}-{seed}",
        "model": start,
        "seed": seed,
        "loss": method.loss,
        "data": method.data,
    }
    return TrainConfig(**_configure("fine_tune.toml", work, changes))


def _configure(file: str, work: Path, changes: dict[str, Any]) -> dict[str, Any]:
    """Read a configuration, change it, and take its sets from the work folder."""
    table = tomllib.loads((HERE / file).read_text(encoding="utf-8"))
    values = merge_preset({**table, "loss": {}}, {"loss": table["loss"], **changes})
    train, validation = (f"folder:{work / 'sets' / name}" for name in SETS)
    values["data"] |= {"train": [train], "validation": validation}
    return values
