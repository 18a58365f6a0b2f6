"""The tests that hold at every look: false alarms, power, when they stop, and what they cost in width (a minute).

Two models are looked at after every item. What a look may find is counted out, not drawn; the widths are of drawn runs.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from record import run_bench

from tellapart.stats.paired import anytime_bounds, evidence, mcnemar_p, paired_difference

LOOKS, DISCORDANT, WON = 400, 0.2, 0.75

Rule = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]]


def anytime_rejects(only_a: NDArray[np.int64], only_b: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return where the evidence is 20."""
    return np.asarray(evidence(only_a, only_b) >= math.log(20))


def fixed_rejects(only_a: NDArray[np.int64], only_b: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return where McNemar's p, which is of one look, is at most 5%."""
    return np.asarray(mcnemar_p(only_a, only_b) <= 0.05)


def stop_probabilities(rejects: Rule, looks: int, discordant: float, won: float) -> NDArray[np.float64]:
    """Return the probability that each look is the first to reject, float64 `(look,)`."""
    counts = np.arange(looks + 1)
    stops = rejects(counts[:, None], counts)
    going, first = np.zeros((looks + 1, looks + 1)), np.zeros(looks)
    going[0, 0] = 1.0
    for look in range(looks):
        after = (1 - discordant) * going
        after[1:] += discordant * won * going[:-1]
        after[:, 1:] += discordant * (1 - won) * going[:, :-1]
        first[look] = after[stops].sum()
        going = np.where(stops, 0.0, after)
    return first


def width_ratios(datasets: int, seed: int = 0) -> NDArray[np.float64]:
    """Return how many times as wide as the fixed interval the one of all looks is, after the last look."""
    rng = np.random.default_rng(seed)
    ratios = []
    for _ in range(datasets):
        differs, wins = rng.random(LOOKS) < DISCORDANT, rng.random(LOOKS) < WON
        a, b = (differs & wins).astype(float), (differs & ~wins).astype(float)
        low, high = anytime_bounds(int(a.sum()), int(b.sum()), int((~differs).sum()))
        fixed = paired_difference(a, b, None, binary=True)
        assert fixed.low is not None and fixed.high is not None
        ratios.append((high - low) / (fixed.high - fixed.low))
    return np.array(ratios)


def median_stop(first: NDArray[np.float64], *, stopped: bool) -> int:
    """Return the look by which half have stopped: of all, or of those that ever stop."""
    half = first.sum() / 2 if stopped else 0.5
    return int(np.searchsorted(first.cumsum(), half - 1e-12)) + 1


def measure(datasets: int = 500) -> dict[str, Any]:
    """Measure everything; rates are shares of all runs."""
    equal = {rule: stop_probabilities(rule, LOOKS, DISCORDANT, 0.5) for rule in (anytime_rejects, fixed_rejects)}
    better = stop_probabilities(anytime_rejects, LOOKS, DISCORDANT, WON)
    return {
        "looks": LOOKS,
        "discordant": DISCORDANT,
        "won": WON,
        "false alarms": round(float(equal[anytime_rejects].sum()), 4),
        "false alarms, fixed p at every look": round(float(equal[fixed_rejects].sum()), 4),
        "power": round(float(better.sum()), 4),
        "median stop": median_stop(better, stopped=False),
        "median stop, of those that stop": median_stop(better, stopped=True),
        "datasets": datasets,
        "median width over the fixed interval": round(float(np.median(width_ratios(datasets))), 3),
    }


if __name__ == "__main__":
    run_bench(measure, "anytime")
