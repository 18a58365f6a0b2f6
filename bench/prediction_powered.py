"""How often prediction-powered intervals hold the true share, and how much shorter they are than Wilson's.

People are right with probability p, of n items and of 1,000 others that only the judge answers; the judge agrees with
them with probability a.
"""

from itertools import product
from typing import Any

import numpy as np
from record import run_bench

from tellapart.stats.intervals import wilson
from tellapart.stats.prediction_powered import prediction_powered

OTHERS = 1000


def measure_cell(n: int, share: float, agrees: float, draws: int) -> dict[str, float]:
    """Return the coverage of one cell and the length beside people's interval."""
    rng = np.random.default_rng([n, round(100 * share), round(100 * agrees)])
    held, lengths, alone = 0, 0.0, 0.0
    for _ in range(draws):
        right = (rng.random(n + OTHERS) < share).astype(float)
        judge = np.where(rng.random(n + OTHERS) < agrees, right, 1 - right)
        interval = prediction_powered(right[:n], judge[:n], judge[n:]).interval
        people = wilson(int(right[:n].sum()), n)
        held += interval.low <= share <= interval.high
        lengths, alone = lengths + interval.high - interval.low, alone + people.high - people.low
    return {"n": n, "p": share, "agrees": agrees, "coverage": held / draws, "shorter": round(lengths / alone, 3)}


def measure(draws: int = 2000) -> dict[str, Any]:
    """Measure all cells."""
    grid = product((20, 50, 100, 300), (0.5, 0.8, 0.95, 0.98), (0.6, 0.8, 0.95))
    cells = [measure_cell(*cell, draws) for cell in grid]
    return {"draws": draws, "others": OTHERS, "lowest": min(cell["coverage"] for cell in cells), "cells": cells}


if __name__ == "__main__":
    run_bench(measure, "prediction_powered")
