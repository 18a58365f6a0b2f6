"""How many items a threshold takes: chosen one by one, against as many of every value (three minutes of one core).

Run with OPENBLAS_NUM_THREADS=1. Both designs have the same posterior, so that the choice of items alone differs.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from record import run_bench
from scipy.special import expit

from tellapart.diagnosis.psychometric import ThresholdSearch

#: Threshold on values from 0 to 1, slope and lapse: from a curve that rises over half of the range to a step.
MODELS = ((0.5, 10.0, 0.03), (0.3, 20.0, 0.02), (0.25, 40.0, 0.05), (0.6, 100.0, 0.02), (0.45, 300.0, 0.0))
#: Values of the tag, and the guess rate.
VALUES, GUESS = 32, 0.5
#: Items after which a width is taken: of the adaptive design, and of the fixed one.
ADAPTIVE, FIXED = (60, 100, 150, 200), (*range(60, 200, 20), *range(200, 1601, 50))


def run_design(model: tuple[float, float, float], looks: tuple[int, ...], adaptive: bool, seed: int) -> Any:
    """Simulate one model, and return the interval's width and whether it holds the threshold, `(look, 2)`."""
    threshold, slope, lapse = model
    values, rng = np.linspace(0, 1, VALUES), np.random.default_rng([seed, int(adaptive)])
    right = GUESS + (1 - GUESS - lapse) * expit(slope * (values - threshold))
    search, free = ThresholdSearch(values, GUESS), np.ones(VALUES, np.bool_)
    order = rng.permutation(np.resize(np.arange(VALUES), looks[-1]))
    found = []
    for k in range(looks[-1]):
        level = search.choose(free) if adaptive else int(order[k])
        search.add(level, float(rng.random() < right[level]))
        if k + 1 in looks:
            interval = search.fitted().interval
            low, high = (0 if interval.low is None else interval.low), (1 if interval.high is None else interval.high)
            found.append((high - low, low <= threshold <= high))
    return np.array(found, np.float64)


def measure_model(model: tuple[float, float, float], runs: int) -> list[dict[str, Any]]:
    """Return, for each number of adaptive items, the fixed design's number with the same median width."""
    means: list[NDArray[np.float64]] = []
    for adaptive, looks in ((True, ADAPTIVE), (False, FIXED)):
        every = np.stack([run_design(model, looks, adaptive, seed) for seed in range(runs)])
        means.append(np.stack([np.median(every[..., 0], axis=0), every[..., 1].mean(axis=0)], axis=1))
    rows = []
    for items, (width, covered) in zip(ADAPTIVE, means[0], strict=True):
        enough = np.flatnonzero(means[1][:, 0] <= width)
        fixed = FIXED[enough[0]] if len(enough) else None
        rows.append(
            {"threshold": model[0], "slope": model[1], "lapse": model[2], "items": items, "width": round(width, 4),
             "covered": round(covered, 3), "fixed": fixed, "ratio": None if fixed is None else round(fixed / items, 2)}
        )  # fmt: skip
    return rows


def measure(runs: int = 60) -> dict[str, Any]:
    """Measure every model."""
    return {"runs": runs, "rows": [row for model in MODELS for row in measure_model(model, runs)]}


if __name__ == "__main__":
    run_bench(measure, "adaptive")
