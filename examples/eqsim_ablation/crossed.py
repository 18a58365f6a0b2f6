"""Paired differences by seed and item, both drawn from many, and crossed: how they vary, and a test of their mean."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from examples.findings.frame import bounds, points


class Components(NamedTuple):
    """The variance of a difference: of items, of seeds, and of what is left of both."""

    items: float
    seeds: float
    rest: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """A mean difference, its standard error, and the degrees of freedom of Student's distribution.

    >>> print(Verdict(0.012, 0.002, 1000.0))
    +1.2 [+0.8, +1.6]
    """

    value: float
    error: float
    freedom: float

    def __str__(self) -> str:
        return f"{points(self.value)} {bounds(*self.ends, points)}"

    @property
    def p(self) -> float:
        """Two-sided p-value of no difference; 1 where nothing differs."""
        return float(2 * stdtr(self.freedom, -abs(self.value) / self.error) if self.error else self.value == 0)

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of the 95 % interval."""
        return self.value - self.half(), self.value + self.half()

    def half(self, alpha: float = 0.05) -> float:
        """Return half the length of the interval of level `1 - alpha`."""
        return float(stdtrit(self.freedom, 1 - alpha / 2) * self.error)


def compare_crossed(differences: NDArray[np.float64]) -> Verdict:
    """Test the mean of differences `(seed, item)`.

    The variance is that of item means over items, and of seed means over seeds, less what is counted twice (never less
    than nothing); the degrees of freedom are Satterthwaite's.

    Source: Searle, Casella & McCulloch (1992), Variance Components, section 4.5; Satterthwaite (1946), Biometrics 2.

    >>> rng = np.random.default_rng(0)
    >>> found = compare_crossed(0.1 + 0.3 * rng.standard_normal((5, 400)))
    >>> round(found.value, 2), found.p < 0.001
    (0.09, True)
    """
    seeds, items = differences.shape
    by_item, by_seed, both = _squares(differences)
    parts = np.array([by_item / items, by_seed / seeds, both / (seeds * items)])
    over_seeds = max(parts[1] - parts[2], 0.0)
    variance = parts[0] + over_seeds
    # If no seed deviates more than items explain, the items alone are the sample.
    freedom = items - 1
    if over_seeds:
        freedom = variance**2 / (parts**2 / [items - 1, seeds - 1, (items - 1) * (seeds - 1)]).sum()
    return Verdict(float(differences.mean()), float(np.sqrt(variance)), float(max(freedom, seeds - 1)))


def components(differences: NDArray[np.float64]) -> Components:
    """Estimate the variances of differences `(seed, item)` without bias: where one is near 0, it may come out below.

    >>> found = components(np.array([[0.0, 1.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0]]))
    >>> round(found.items, 3), found.seeds, found.rest
    (0.333, 0.0, 0.0)
    """
    seeds, items = differences.shape
    by_item, by_seed, both = _squares(differences)
    return Components(by_item - both / seeds, by_seed - both / items, both)


def _squares(differences: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return the variance of item means, the variance of seed means, and that of what neither explains."""
    seeds, items = differences.shape
    total = float(((differences - differences.mean()) ** 2).sum())
    by_item, by_seed = (float(differences.mean(axis).var(ddof=1)) for axis in (0, 1))
    left = total - by_item * seeds * (items - 1) - by_seed * items * (seeds - 1)
    return by_item, by_seed, max(left, 0.0) / ((seeds - 1) * (items - 1))
