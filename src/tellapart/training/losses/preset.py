"""A paper's hyper-parameters, declared with its loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Preset:
    """Values that fill in the keys that a configuration leaves out; it gives the model, the data and the device itself.

    Attributes:
        values: tables of a configuration. They are the paper's or its released code's, but for `ours`.
        source: the paper, and the released command.
        ours: a key, or a step of training -> the released form, and the reason for another one here. All else is as
            released.

    >>> Preset({"loss": {"name": "itc"}}, source="a paper", ours={"batch.size": "not published"}).ours
    {'batch.size': 'not published'}
    """

    values: Mapping[str, Any]
    source: str
    ours: Mapping[str, str] = field(default_factory=dict)
