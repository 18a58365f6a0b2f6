"""Multiple testing: the adjusted p-values of Holm, and of Benjamini and Hochberg."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import MetricError


def holm(p_values: Any) -> NDArray[np.float64]:
    """Return Holm's step-down adjusted p-values `(test,)`; those <= alpha keep the family-wise error <= alpha.

    Source: Holm (1979), Scand. J. Stat. 6, 65-70.

    >>> [round(float(p), 3) for p in holm([0.01, 0.04, 0.03, 0.005])]
    [0.03, 0.06, 0.06, 0.02]
    """
    raw = _check_p_values("holm", p_values)
    order = np.argsort(raw, kind="stable")
    steps = raw[order] * np.arange(len(raw), 0, -1)
    adjusted = np.empty_like(raw)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return adjusted


def benjamini_hochberg(p_values: Any) -> NDArray[np.float64]:
    """Return Benjamini and Hochberg's adjusted p-values `(test,)`, which bound the false discovery rate.

    Source: Benjamini & Hochberg (1995), J. R. Stat. Soc. B 57, 289-300.
    """
    from scipy.stats import false_discovery_control

    return np.asarray(false_discovery_control(_check_p_values("benjamini_hochberg", p_values)), dtype=np.float64)


def _check_p_values(call: str, p_values: Any) -> NDArray[np.float64]:
    """Return p-values as float64 `(test,)`."""
    raw = np.asarray(p_values, dtype=np.float64)
    if raw.ndim != 1 or raw.size == 0:
        raise MetricError(f"{call}: expected one p-value a test, got shape {raw.shape}; pass a flat list")
    bad = np.flatnonzero(~((raw >= 0) & (raw <= 1)))
    if bad.size:
        raise MetricError(f"{call}: expected p-values in [0, 1], got {raw[bad[0]]:g} at index {bad[0]}; drop that test")
    return raw
