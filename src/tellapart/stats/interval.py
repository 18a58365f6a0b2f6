"""A confidence interval, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Reduce = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""Component means `(..., component)` -> `(...)`."""

#: If there are fewer clusters than this, the name of the method gives their number.
FEW_CLUSTERS = 20


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval; `low` and `high` are None if no method keeps its level on such data.

    `method` names the estimator, with a warning (`hall, few clusters (12)`) of fewer than 20 clusters; `reason` is why
    there are no bounds, and empty if there are some.
    """

    low: float | None
    high: float | None
    level: float
    method: str
    reason: str = ""


def without_bounds(level: float, why: str) -> Interval:
    """Return an interval without bounds, for the reason `why`: `1 cluster`, for example."""
    return Interval(None, None, level, f"none: {why}", f"too few for an interval: {why}")


def name_few(method: str, clusters: int) -> str:
    """Return the name of a method, with the number of clusters if they are few."""
    return f"{method}, few clusters ({clusters})" if clusters < FEW_CLUSTERS else method
