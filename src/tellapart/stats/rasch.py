"""The Rasch model: the log odds that a system gets an item are the system's ability minus the item's difficulty.

Fitted by joint maximum likelihood. A system's score and an item's count of right answers are all that it uses, so it
adds a scale to them on which differences near 0 and 100% compare with those in the middle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import MetricError
from tellapart.stats.clusters import check_values

#: Systems from which on difficulties are stable to one logit, 95% of the time.
LEAST_SYSTEMS = 30
_STEPS = 200
#: Log odds beyond which a fitted value is one of an item, or of a system, without any or without a wrong answer.
_FARTHEST = 15.0


@dataclass(frozen=True, slots=True, eq=False)
class Rasch:
    """Items and systems on one scale, in logits (log odds); the mean difficulty is 0.

    Attributes:
        difficulty, difficulty_error: float64 `(item,)`; NaN of an item that all systems get, or none does.
        infit: float64 `(item,)`: squared residuals over their expectation. Near 1 fits; well above 1 the item is got by
            other systems than its difficulty predicts.
        ability, ability_error: float64 `(system,)`; NaN of a system that gets all items, or none.
    """

    difficulty: NDArray[np.float64]
    difficulty_error: NDArray[np.float64]
    infit: NDArray[np.float64]
    ability: NDArray[np.float64]
    ability_error: NDArray[np.float64]


def fit_rasch(values: Any, *, least: int = LEAST_SYSTEMS) -> Rasch:
    """Fit the Rasch model to right and wrong answers, by joint maximum likelihood.

    Limits: items and systems without any right, or any wrong, answer have no finite estimate and are left out. The
    estimates of n items are too far apart by n / (n - 1), which is taken back. All items discriminate alike in this
    model; a slope of each would need hundreds of systems.

    `values`: 0 or 1 `(item, system)`.

    Source: Wright & Panchapakesan (1969), Educ. Psychol. Meas. 29, 23-48; 30 systems: Linacre (1994), Rasch Measurement
    Transactions 7:4, 328.

    >>> rng = np.random.default_rng(0)
    >>> true, able = np.linspace(-2, 2, 50), rng.standard_normal(400)
    >>> found = fit_rasch(rng.random((50, 400)) < 1 / (1 + np.exp(true[:, None] - able)))
    >>> bool(np.abs(found.difficulty - true).max() < 0.5), bool(np.corrcoef(found.ability, able)[0, 1] > 0.9)
    (True, True)
    """
    array = check_values("fit_rasch", values, binary=True)
    if array.ndim != 2 or array.shape[1] < least:
        systems = array.shape[1] if array.ndim == 2 else 0
        raise MetricError(
            f"fit_rasch: got {systems} systems; difficulties on this scale need {least}: below that they are not "
            "stable to one logit; take each item's share of right answers"
        )
    items, systems, items_logit, systems_logit = _fit_margins(array)
    if items.sum() < 2 or systems.sum() < 2:
        raise MetricError(
            f"fit_rasch: {int(items.sum())} items and {int(systems.sum())} systems are neither all right nor all "
            "wrong; it takes two of each"
        )
    share = _sigmoid(systems_logit - items_logit[:, None])
    weight = share * (1 - share)
    selected = array[np.ix_(items, systems)]
    infit = ((selected - share) ** 2).sum(axis=1) / weight.sum(axis=1)
    shrink = (len(items_logit) - 1) / len(items_logit)
    return Rasch(
        difficulty=_spread(items, items_logit * shrink),
        difficulty_error=_spread(items, 1 / np.sqrt(weight.sum(axis=1))),
        infit=_spread(items, infit),
        ability=_spread(systems, systems_logit * shrink),
        ability_error=_spread(systems, 1 / np.sqrt(weight.sum(axis=0))),
    )


def expected_outcomes(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each outcome's probability `(item, system)` by difficulty and ability alone; its sums are the data's."""
    items, systems, items_logit, systems_logit = _fit_margins(values)
    expected = values.copy()
    if items.any() and systems.any():
        expected[np.ix_(items, systems)] = _sigmoid(systems_logit - items_logit[:, None])
    return expected


def _fit_margins(
    values: NDArray[np.float64],
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64]]:
    """Return the items and systems with finite estimates (masks), and the estimates; the items' mean is 0."""
    items, systems = np.ones(len(values), np.bool_), np.ones(values.shape[1], np.bool_)
    while True:  # leaving out a system may leave an item without a wrong answer
        of_items, of_systems = values[:, systems].mean(axis=1), values[items].mean(axis=0)
        keep_items, keep_systems = (
            items & (of_items > 0) & (of_items < 1),
            systems & (of_systems > 0) & (of_systems < 1),
        )
        if (keep_items == items).all() and (keep_systems == systems).all():
            break
        items, systems = keep_items, keep_systems
        if not (items.any() and systems.any()):
            return np.zeros_like(items), np.zeros_like(systems), np.zeros(0), np.zeros(0)
    selected = values[np.ix_(items, systems)]
    difficulty, ability = -_logit(selected.mean(axis=1)), _logit(selected.mean(axis=0))
    difficulty -= difficulty.mean()
    for _ in range(_STEPS):
        share = _sigmoid(ability - difficulty[:, None])
        step = (selected - share).sum(axis=0) / (share * (1 - share)).sum(axis=0)
        ability = np.clip(ability + np.clip(step, -1, 1), -_FARTHEST, _FARTHEST)
        share = _sigmoid(ability - difficulty[:, None])
        change = (share - selected).sum(axis=1) / (share * (1 - share)).sum(axis=1)
        difficulty = np.clip(difficulty + np.clip(change, -1, 1), -_FARTHEST, _FARTHEST)
        centre = difficulty.mean()
        difficulty, ability = difficulty - centre, ability - centre
        if max(np.abs(step).max(), np.abs(change).max()) < 1e-10:
            break
    return items, systems, difficulty, ability


def _spread(chosen: NDArray[np.bool_], values: NDArray[np.float64]) -> NDArray[np.float64]:
    everywhere = np.full(len(chosen), np.nan)
    everywhere[chosen] = values
    return everywhere


def _logit(share: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.log(share / (1 - share))


def _sigmoid(logit: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1 / (1 + np.exp(-logit))
