"""One table over many benchmarks: models down, a benchmark a column, by the number that its paper puts first."""

from __future__ import annotations
