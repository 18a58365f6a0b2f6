"""A confidence interval, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Reduce = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""Component means `(..., component)` -> `(...)`."""

#: A method names the number of clusters below this one.
FEW_CLUSTERS = 20


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval; `low` and `high` are None where no method holds its level on such data.

    `method` names the estimator and warns (`few clusters`) where it leans on little; `reason` explains a missing
    interval, and is empty beside one.
    """

    low: float | None
    high: float | None
    level: float
    method: str
    reason: str = ""


def without_bounds(level: float, why: str) -> Interval:
    """Return the interval that is none, with its reason."""
    return Interval(None, None, level, f"none: {why}", f"too few for an interval: {why}")


def name_few(method: str, clusters: int) -> str:
    """Return the method with a warning where it leans on few clusters."""
    return f"{method}, few clusters ({clusters})" if clusters < FEW_CLUSTERS else method
