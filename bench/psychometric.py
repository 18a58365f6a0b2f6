"""Psychometric functions on simulated models: coverage of thresholds and of differences, false alarms (15 minutes)."""

import json
from itertools import cycle, product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from record import run_bench
from scipy.special import expit, ndtr

from tellapart.diagnosis.psychometric import fit_psychometric
from tellapart.stats.interval import Interval

Floats = NDArray[np.float64]
#: Thresholds of two models on values from 0 to 1, their slope and lapse.
MODELS = (((0.5, 0.6), 10.0, 0.03), ((0.2, 0.2), 8.0, 0.0), ((0.7, 0.9), 20.0, 0.1))
#: Models that hardly rise above chance.
FAINT = ((1.1, 1.1), 5.0, 0.0)
#: Items, and items of a cluster.
SIZES = ((60, 1), (100, 5), (400, 1))
#: Different values; 0 for as many as items.
LEVELS = (3, 5, 10, 0)
#: The normal deviates that decide outcomes: their correlation within a cluster, and between the models.
WITHIN, BETWEEN = 0.3, 0.5
RESAMPLES = 400
#: Below this a cell is measured again on four times the data sets, the first ones included.
NEAR = 0.935


def draw_outcomes(
    rng: np.random.Generator, guess: float, items: int, together: int, levels: int, models: tuple[Any, float, float]
) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Draw values, outcomes `(item, model)` and clusters."""
    thresholds, slope, lapse = models
    values = rng.permutation(np.resize(np.linspace(0, 1, levels), items)) if levels else rng.random(items)
    clusters = np.arange(items) // together
    shared = rng.standard_normal(items)
    if together > 1:
        shared = WITHIN**0.5 * rng.standard_normal(items)[clusters] + (1 - WITHIN) ** 0.5 * shared
    right = []
    for threshold in thresholds:
        deviate = BETWEEN**0.5 * shared + (1 - BETWEEN) ** 0.5 * rng.standard_normal(items)
        right.append(ndtr(deviate) < guess + (1 - guess - lapse) * expit(slope * (values - threshold)))
    return values, np.array(right, np.float64).T, clusters


def covers(interval: Interval, truth: float) -> bool:
    """Return whether an interval holds the truth; an end that is None is open."""
    low, high = interval.low, interval.high
    return (low is None or low <= truth) and (high is None or truth <= high)


def measure_cell(guess: float, size: tuple[int, int], levels: int, models: tuple[Any, ...], datasets: int) -> Any:
    """Measure one setting."""
    (a, b), _, _ = models
    rng = np.random.default_rng([2026, int(100 * guess), *size, levels, (*MODELS, FAINT).index(models)])
    found: dict[str, list[float]] = {"threshold": [], "difference": [], "alarms": [], "fit": [], "width": []}
    for _ in range(datasets):
        values, right, clusters = draw_outcomes(rng, guess, *size, levels, models)
        first, second = fit_psychometric(values, right, clusters, guess=guess, resamples=RESAMPLES)
        _, difference, p = first.minus(second)
        low, high = first.interval.low, first.interval.high
        found["threshold"].append(covers(first.interval, a))
        found["difference"].append(covers(difference, a - b))
        found["width"].append((values.max() if high is None else high) - (values.min() if low is None else low))
        if a == b:
            found["alarms"].append(p is not None and p <= 0.05)
        if first.p_fit is not None:
            found["fit"].append(first.p_fit <= 0.05)
    return {
        "setting": {"guess": round(guess, 3), "items": size[0], "of a cluster": size[1], "values": levels or size[0],
                    "thresholds": [a, b], "slope": models[1], "lapse": models[2]},
        "datasets": datasets,
        "median width": round(float(np.median(found.pop("width"))), 3),
        **{name: round(float(np.mean(each)), 4) for name, each in found.items() if each},
    }  # fmt: skip


def measure(datasets: int = 200) -> dict[str, Any]:
    """Measure every setting."""
    cells, settings = [], list(zip(product((0.5, 1 / 6), SIZES, LEVELS), cycle(MODELS), strict=False))
    for setting, models in settings + [((0.5, size, 0), FAINT) for size in SIZES]:
        cell = measure_cell(*setting, models, datasets)
        near = min(cell["threshold"], cell["difference"]) < NEAR
        cells.append(measure_cell(*setting, models, 4 * datasets) if near else cell)
        print(json.dumps(cells[-1]), flush=True)
    names = ("threshold", "difference", "alarms", "fit")
    rates = {name: [cell[name] for cell in cells[: len(settings)] if name in cell] for name in names}
    summary = {f"{name}, {kind.__name__}": kind(values) for name, values in rates.items() for kind in (min, max)}
    summary |= {f"{name}, mean": round(float(np.mean(values)), 4) for name, values in rates.items()}
    summary["threshold, min of faint models"] = min(cell["threshold"] for cell in cells[len(settings) :])
    return {"summary": summary, "cells": cells}


if __name__ == "__main__":
    run_bench(measure, "psychometric")
