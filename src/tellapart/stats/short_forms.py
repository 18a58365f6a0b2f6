"""Short forms: few items whose score replaces that of all, and the error that this costs for other systems."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import MetricError
from tellapart.stats.clusters import Clusters
from tellapart.stats.item_analysis import check_outcomes, reliability

_FOLDS = 5
_RANDOM_FORMS = 20


@dataclass(frozen=True, slots=True)
class ShortForm:
    """The cost of one size of short form, for systems that were not used to choose its items.

    Attributes:
        size: items.
        error: root mean square error of the score on all items, as predicted from the short form by a straight line.
        ordered: the share of pairs of systems that the short form puts in the order of all items; a tie is one half.
        alpha: reliability on those systems, a mean over folds; None if they all score the same.
        random_error, random_ordered: the same of items drawn at random.
    """

    size: int
    error: float
    ordered: float
    alpha: float | None
    random_error: float
    random_ordered: float


def order_items(values: Any, most: int | None = None) -> list[int]:
    """Order items so that the first k are a short form, for every k.

    Each step adds the item with which the short form's score correlates most, over systems, with the score on all
    items; of equal ones the first. Forms are nested: a longer one holds all shorter ones.

    `values`: float `(item, system)`; `most`: items to order; all if None.

    >>> order_items([[1, 0, 1, 0], [1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1]], 2)
    [1, 0]
    """
    array, _ = check_outcomes("order_items", values)
    centred = array - array.mean(axis=1, keepdims=True)
    total = centred.sum(axis=0)
    with_total, variances = centred @ total, (centred**2).sum(axis=1)
    score, left = np.zeros(array.shape[1]), np.ones(len(array), np.bool_)
    positions: list[int] = []
    for _ in range(len(array) if most is None else min(most, len(array))):
        spread = score @ score + 2 * (centred @ score) + variances
        varied = left & (spread > 1e-12)
        gains = np.where(left, -1.0, -np.inf)
        np.divide(score @ total + with_total, np.sqrt(np.where(varied, spread, 1)), out=gains, where=varied)
        # Rounded, so that equal items are equal and the first is taken.
        item = int(np.argmax(np.round(gains / max(float(np.sqrt(total @ total)), 1e-12), 9)))
        positions.append(item)
        left[item] = False
        score = score + centred[item]
    return positions


def try_short_forms(values: Any, families: Clusters | None, sizes: Sequence[int], *, seed: int = 0) -> list[ShortForm]:
    """Return the cost of short forms for systems that had no part in choosing their items.

    Systems are parted into five folds, families never split. Items are chosen, and the line to the score on all items
    is fitted, on four folds; error, order and reliability are those of the systems of the fifth.

    `values`: float `(item, system)`; `sizes`: numbers of items, each from 1 to all.

    >>> rng = np.random.default_rng(0)
    >>> able, hard = rng.standard_normal(40), rng.standard_normal((60, 1))
    >>> outcomes = rng.random((60, 40)) < 1 / (1 + np.exp(hard - 2 * able))
    >>> found = try_short_forms(outcomes, None, [10, 60])
    >>> found[0].ordered > 0.8, found[1].error < 1e-9, found[1].ordered > 0.95
    (True, True, True)
    """
    call = "try_short_forms"
    array, family = check_outcomes(call, values, families)
    if wrong := [size for size in sizes if not 1 <= size <= len(array)]:
        raise MetricError(f"{call}: got a size of {wrong[0]} of {len(array)} items; pass sizes from 1 to that")
    if int(family.max()) + 1 < _FOLDS or array.shape[1] < 2 * _FOLDS:
        raise MetricError(
            f"{call}: got {array.shape[1]} systems in {int(family.max()) + 1} families; to choose items on some and "
            f"try them on others takes {2 * _FOLDS} systems in {_FOLDS} families"
        )
    rng = np.random.default_rng(seed)
    fold = (rng.permutation(int(family.max()) + 1) % _FOLDS)[family]
    tried: dict[int, list[_Tried]] = {size: [] for size in sizes}
    drawn: dict[int, list[_Tried]] = {size: [] for size in sizes}
    for number in range(_FOLDS):
        train, held = array[:, fold != number], array[:, fold == number]
        order = order_items(train, max(sizes))
        for size in sizes:
            tried[size].append(_try_form(train, held, order[:size]))
            drawn[size] += [_try_form(train, held, form) for form in _draw_forms(rng, len(array), size)]
    forms = []
    for size in sizes:
        (error, ordered), (random_error, random_ordered) = _join_tries(tried[size]), _join_tries(drawn[size])
        alphas = [one.alpha for one in tried[size] if one.alpha is not None]
        alpha = float(np.mean(alphas)) if alphas else None
        forms.append(ShortForm(size, error, ordered, alpha, random_error, random_ordered))
    return forms


@dataclass(frozen=True, slots=True)
class _Tried:
    """A form on the systems of one fold: squared errors, pairs in order, pairs that have one, reliability."""

    squares: NDArray[np.float64]
    ordered: float
    pairs: int
    alpha: float | None


def _try_form(train: NDArray[np.float64], held: NDArray[np.float64], form: Sequence[int]) -> _Tried:
    short, full = train[form].mean(axis=0), train.mean(axis=0)
    slope = float(np.cov(short, full)[0, 1] / short.var(ddof=1)) if np.ptp(short) else 0.0
    score, truth = held[form].mean(axis=0), held.mean(axis=0)
    predicted = full.mean() + slope * (score - short.mean())
    pairs = [(a, b) for a, b in combinations(range(len(truth)), 2) if abs(truth[a] - truth[b]) > 1e-12]
    signs = [np.sign(round(score[a] - score[b], 12)) * np.sign(truth[a] - truth[b]) for a, b in pairs]
    alpha = reliability(held[form]).alpha if len(form) > 1 and len(truth) > 2 else None
    return _Tried((predicted - truth) ** 2, float(sum((1 + sign) / 2 for sign in signs)), len(pairs), alpha)


def _draw_forms(rng: np.random.Generator, items: int, size: int) -> Iterator[list[int]]:
    for _ in range(_RANDOM_FORMS):
        yield rng.choice(items, size, replace=False).tolist()


def _join_tries(tries: Sequence[_Tried]) -> tuple[float, float]:
    """Return the root mean square error and the share of ordered pairs over folds."""
    pairs = sum(trial.pairs for trial in tries)
    squares = np.concatenate([trial.squares for trial in tries])
    return float(np.sqrt(squares.mean())), sum(trial.ordered for trial in tries) / pairs if pairs else 0.5
