"""The rows of a comparison: one metric of two models, and the tiers of many models by one metric."""

from __future__ import annotations

from pydantic import BaseModel

from tellapart.stats.paired import at_floor, write_p
from tellapart.stats.tiers import Tier


class MetricComparison(BaseModel, frozen=True):
    """One metric of one benchmark in both runs.

    Attributes:
        subset: the tag's value that all these items carry; None for all items.
        n: number of items.
        clusters: of the items that were tested; None if that is not known.
        limited_from: the benchmark's number of items, if the runs measured a part of them.
        a, b: the metric's values in the two runs; a tie counts as wrong.
        difference, low, high, method: b minus a, new minus old, and its paired interval.
        reason: why there is no interval; None if there is one.
        only_a, only_b: items that only run a, or only run b, got right; the others both or neither did.
        p: of the test; two-sided.
        p_holm: p, adjusted for all rows of the comparison (Holm).
        test: `exact McNemar` if items are independent, else `cluster sign flips`; `anytime` if it holds at every look.
        flips: the number of sign vectors that the test of sign flips draws if it cannot try them all; None for the
            exact test.
        detectable: the smallest difference that is detected with a power of 0.8 on this many items, given how often the
            two runs disagree; None if there is none.
    """

    benchmark: str
    metric: str
    subset: str | None = None
    n: int
    clusters: int | None = None
    limited_from: int | None = None
    a: float
    b: float
    difference: float
    low: float | None
    high: float | None
    method: str
    reason: str | None = None
    only_a: int
    only_b: int
    p: float
    p_holm: float
    test: str
    flips: int | None = None
    detectable: float | None

    @property
    def at_floor(self) -> bool:
        """Whether no drawn sign vector was as extreme as the data, so p is the smallest that the draws can give."""
        return at_floor(self.p, self.flips)

    @property
    def p_text(self) -> str:
        """The p as it is printed."""
        return write_p(self.p, at_most=self.at_floor)

    @property
    def p_holm_text(self) -> str:
        """The adjusted p as it is printed; if p is an upper bound, so is this."""
        return write_p(self.p_holm, at_most=self.at_floor)


class MetricTiers(BaseModel, frozen=True):
    """The ranking of the models by one metric of one benchmark, as tiers (Holm over its pairs of models, 5 %)."""

    benchmark: str
    metric: str
    n: int
    clusters: int | None = None
    limited_from: int | None = None
    tiers: tuple[Tier, ...]
