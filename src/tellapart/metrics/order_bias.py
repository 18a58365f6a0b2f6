"""Order bias of models that answer (1) or (2): each item is asked with the true caption first, then second.

The difference of the two accuracies is the effect of the order; a model that distinguishes the captions is right both
times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.errors import MetricError


@dataclass(frozen=True, slots=True, eq=False)
class OrderBias:
    """Outcomes of the same items in both orders; each array is float64 `(item,)`.

    1 if the answer is right with the true caption first, with it second, and in both orders: chance 1/4; and of the two
    answers the share that took the first place, with 1/2 for an answer that took neither.
    """

    true_first: NDArray[np.float64]
    true_second: NDArray[np.float64]
    both: NDArray[np.float64]
    chose_first: NDArray[np.float64]

    @property
    def difference(self) -> NDArray[np.float64]:
        """Right with the true caption first, less right with it second: -1, 0 or 1 an item; the mean is the bias."""
        return self.true_first - self.true_second

    def notes(self, name: str, first: str, second: str) -> tuple[str, ...]:
        """Return a sentence on what the bias leans to, `first` or `second`; none without a bias."""
        ordered, turned = self.true_first.mean(), self.true_second.mean()
        wrong, right = sorted((ordered, turned))
        lean = first if right == ordered else second
        shares = f"{right:.2%} of {len(self.both):,} items are right if it is true, {wrong:.2%} if not"
        return (f"{name} {100 * (ordered - turned):+.2f} leans to {lean}: {shares}",) if ordered != turned else ()


def order_bias(true_first: ArrayLike, true_second: ArrayLike) -> OrderBias:
    """Compare the answers to the same items `(item,)`, asked with the true caption first, and second.

    An answer is 1 if the true caption was chosen, -1 if the false one was, 0 if neither.

    Source: SugarCrepe `gpt-4v-results`; EqBen Table 7 (caption order).

    >>> always_first = order_bias([1, 1, 1], [-1, -1, -1])
    >>> always_first.difference.mean(), always_first.chose_first.mean(), always_first.both.mean()
    (np.float64(1.0), np.float64(1.0), np.float64(0.0))
    """
    first, second = _check_choices(true_first), _check_choices(true_second)
    if first.shape != second.shape:
        raise MetricError(
            f"order_bias: {len(first)} answers with the true caption first and {len(second)} with it second; "
            "give both for the same items"
        )
    right_first, right_second = (np.asarray(choice == 1, np.float64) for choice in (first, second))
    return OrderBias(right_first, right_second, right_first * right_second, 0.5 + (first - second) / 4)


def _check_choices(values: ArrayLike) -> NDArray[np.float64]:
    choices: NDArray[Any] = np.asarray(values)
    if (
        choices.ndim != 1
        or choices.size == 0
        or choices.dtype.kind not in "if"
        or not np.isin(choices, (-1, 0, 1)).all()
    ):
        raise MetricError(
            f"order_bias needs one answer an item: 1 for the true caption, -1 for the false one, 0 for neither; got an "
            f"array of {choices.dtype} {choices.shape}"
        )
    return choices.astype(np.float64)
