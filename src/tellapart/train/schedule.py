"""The learning rate of each step: up on a line, down on a cosine or a line."""

from __future__ import annotations

import math

__all__ = ["rate"]


def rate(step: int, steps: int, warm_up: int, decay: str = "cosine") -> float:
    """Return the share of the highest learning rate that step `step` of `steps` has, the first being 0.

    It rises by equal parts over the warm-up and falls on half a cosine, or on a line, to 0, which the step after the last
    would have.

    >>> [round(rate(step, 6, 2), 3) for step in range(7)]
    [0.5, 1.0, 1.0, 0.854, 0.5, 0.146, 0.0]
    >>> [rate(step, 6, 2, "linear") for step in range(7)]
    [0.5, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0]
    """
    if step < warm_up:
        return (step + 1) / warm_up
    if steps <= warm_up:
        return 1.0
    done = (step - warm_up) / (steps - warm_up)
    return 1 - done if decay == "linear" else 0.5 * (1 + math.cos(math.pi * done))
