"""Do two annotators agree: the share of equal labels, and Cohen's kappa, which takes luck out of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import MetricError

__all__ = ["cohens_kappa", "percent_agreement"]

Labels = Sequence[str] | Sequence[int] | NDArray[Any]


def percent_agreement(a: Labels, b: Labels) -> float:
    """Return the share, 0 to 1, of items to which two annotators gave the same label.

    Raises:
        MetricError: no labels, or not one an item from each.

    >>> percent_agreement(["yes", "no", "no", "yes"], ["yes", "no", "yes", "yes"])
    0.75
    """
    first, second, _ = _coded("percent_agreement", a, b)
    return float((first == second).mean())


def cohens_kappa(a: Labels, b: Labels) -> float | None:
    """Return Cohen's kappa, unweighted: (agreement - agreement by luck) / (1 - agreement by luck).

    None where both annotators gave one and the same label to everything: luck explains all, kappa is 0 / 0.

    Raises:
        MetricError: no labels, or not one an item from each.

    Source: Cohen (1960), Educ. Psychol. Meas. 20, 37-46.

    >>> cohens_kappa(["yes", "no", "no", "yes"], ["yes", "no", "yes", "yes"])
    0.5
    >>> cohens_kappa(["yes", "yes"], ["yes", "yes"]) is None
    True
    """
    first, second, labels = _coded("cohens_kappa", a, b)
    items = len(first)
    # Whole-number products, so that two constant annotators give exactly 1.
    luck = int(np.bincount(first, minlength=labels) @ np.bincount(second, minlength=labels))
    if luck == items**2:
        return None
    agreed = int((first == second).sum()) * items
    return (agreed - luck) / (items**2 - luck)


def _coded(call: str, a: Labels, b: Labels) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return both annotators' labels as numbers from 0, and how many distinct labels there are."""
    first, second = np.asarray(a), np.asarray(b)
    if first.ndim != 1 or first.shape != second.shape or first.size == 0:
        raise MetricError(
            f"{call}: got labels of shape {first.shape} and {second.shape}; pass one label an item from each annotator"
        )
    if (first.dtype.kind in "US") != (second.dtype.kind in "US") or "O" in first.dtype.char + second.dtype.char:
        raise MetricError(
            f"{call}: got labels of {first.dtype} and {second.dtype}; give both as strings or both as numbers"
        )
    labels, codes = np.unique(np.concatenate([first, second]), return_inverse=True)
    return codes[: first.size], codes[first.size :], len(labels)
