"""Generalisation outside the training domain: the loss of each model, and the correlation over models."""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum, sqrt

import numpy as np
from numpy.typing import ArrayLike

from tellapart.data.scores import join_names
from tellapart.errors import MetricError


def generalisation_gap(in_domain: Mapping[str, float], out_of_domain: Mapping[str, float]) -> dict[str, float]:
    """Return, for each task, the in-domain score less the out-of-domain score; positive if the model loses.

    Both scores of a task are in the same unit, and so is the gap.

    Source: VLUE section 4.3 and Table 2.

    >>> generalisation_gap({"retrieval": 0.804, "vqa": 0.5}, {"retrieval": 0.641, "vqa": 0.25})["vqa"]
    0.25
    """
    only_one = sorted(in_domain.keys() ^ out_of_domain.keys())
    if only_one or not in_domain:
        raise MetricError(
            "generalisation_gap needs both scores of each task; one is missing for: "
            f"{join_names(only_one) or 'every task'}"
        )
    for task, score in (*in_domain.items(), *out_of_domain.items()):
        if not np.isfinite(score):
            raise MetricError(f"generalisation_gap: a score of {task!r} is {score}; measure it again")
    return {task: in_domain[task] - out_of_domain[task] for task in in_domain}


def pearson(x: ArrayLike, y: ArrayLike) -> float | None:
    """Return Pearson's correlation over models, -1 to 1; None if one of the two does not vary.

    Source: VLUE section 5 (over its models, in-domain against out-of-domain).

    >>> pearson([60.0, 70.0, 80.0], [30.0, 35.0, 40.0])
    1.0
    >>> pearson([60.0, 70.0], [30.0, 30.0]) is None
    True
    """
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape or len(a) < 2:
        raise MetricError(f"pearson needs two numbers for each of two or more models; got shapes {a.shape}, {b.shape}")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise MetricError("pearson: a number is not finite; leave out models that were not measured on both")
    if a.min() == a.max() or b.min() == b.max():
        return None
    # Scaled before they are squared, so that neither tiny nor huge spreads are lost; sums are exact in any order.
    a, b = ((v - fsum(v) / len(v)) for v in (a, b))
    a, b = a / np.abs(a).max(), b / np.abs(b).max()
    return max(-1.0, min(1.0, fsum(a * b) / sqrt(fsum(a * a) * fsum(b * b))))
