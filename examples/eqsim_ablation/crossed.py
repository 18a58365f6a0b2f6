"""Paired differences by seed and item, both drawn from many, and crossed: how they vary, and a test of their mean."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Components:
    """The variance of a difference: of items, of seeds, and of what is left of both.

    >>> round(Components(0.02, 0.0001, 0.2).error(5, 2000), 4)
    0.0071
    """

    items: float
    seeds: float
    rest: float

    def error(self, seeds: int, items: int) -> float:
        """Return the standard error of a mean over so many seeds and items."""
        return float(np.sqrt(self.items / items + self.seeds / seeds + self.rest / (seeds * items)))


@dataclass(frozen=True, slots=True)
class Verdict:
    """Mean differences, standard errors, and degrees of freedom of Student's distribution, each float64 `(...)`."""

    value: NDArray[np.float64]
    error: NDArray[np.float64]
    freedom: NDArray[np.float64]

    @property
    def p(self) -> NDArray[np.float64]:
        """Two-sided p-values of no difference; 1 where nothing differs."""
        from scipy.special import stdtr

        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(self.error > 0, np.abs(self.value) / self.error, np.where(self.value == 0, 0.0, np.inf))
        return np.asarray(2 * stdtr(self.freedom, -t))

    def half(self, alpha: float = 0.05) -> NDArray[np.float64]:
        """Return half the length of the interval of level `1 - alpha`."""
        from scipy.special import stdtrit

        return np.asarray(stdtrit(self.freedom, 1 - alpha / 2) * self.error)


def compare_crossed(differences: NDArray[np.float64]) -> Verdict:
    """Test the mean of differences `(..., seed, item)`.

    The variance is that of item means over items, and of seed means over seeds, less what is counted twice (never less
    than nothing); the degrees of freedom are Satterthwaite's.

    Source: Searle, Casella & McCulloch (1992), Variance Components, section 4.5; Satterthwaite (1946), Biometrics 2.

    >>> rng = np.random.default_rng(0)
    >>> found = compare_crossed(0.1 + 0.3 * rng.standard_normal((5, 400)))
    >>> round(float(found.value), 2), bool(found.p < 0.001)
    (0.09, True)
    """
    seeds, items = differences.shape[-2:]
    by_item, by_seed, both = _squares(differences)
    parts = np.stack([by_item / items, by_seed / seeds, both / (seeds * items)])
    over_seeds = np.maximum(parts[1] - parts[2], 0.0)
    freedom = np.array([items - 1, seeds - 1, (items - 1) * (seeds - 1)]).reshape(3, *[1] * by_item.ndim)
    variance = parts[0] + over_seeds
    below = (parts**2 / freedom).sum(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Where no seed deviates more than items explain, the items alone are the sample.
        share = np.where(over_seeds > 0, variance**2 / below, items - 1)
    return Verdict(differences.mean((-2, -1)), np.sqrt(variance), np.maximum(share, seeds - 1))


def components(differences: NDArray[np.float64]) -> Components:
    """Estimate the variances of differences `(seed, item)` without bias: where one is near 0, it may come out below.

    >>> found = components(np.array([[0.0, 1.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0]]))
    >>> round(float(found.items), 3), float(found.seeds), float(found.rest)
    (0.333, 0.0, 0.0)
    """
    seeds, items = differences.shape
    by_item, by_seed, both = (float(value) for value in _squares(differences))
    return Components(by_item - both / seeds, by_seed - both / items, both)


def _squares(differences: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """Return the variance of item means, the variance of seed means, and that of what neither explains, `(...)`."""
    of_items, of_seeds = differences.mean(-2), differences.mean(-1)
    seeds, items = differences.shape[-2:]
    total = ((differences - differences.mean((-2, -1), keepdims=True)) ** 2).sum((-2, -1))
    by_item, by_seed = of_items.var(-1, ddof=1), of_seeds.var(-1, ddof=1)
    left = total - by_item * seeds * (items - 1) - by_seed * items * (seeds - 1)
    return by_item, by_seed, np.maximum(left, 0.0) / ((seeds - 1) * (items - 1))
