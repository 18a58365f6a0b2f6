"""Measure how often each interval covers the truth, on simulated clusters; the choices of `stats` rest on this.

Run as `OPENBLAS_NUM_THREADS=1 python bench/coverage.py`; the default 400 data sets take minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray

from tellapart.stats.intervals import cluster_bootstrap, interval_for, wilson
from tellapart.stats.paired import paired_difference

Floats = NDArray[np.float64]


def outcomes(rng: np.random.Generator, clusters: int, shares: Floats, icc: float) -> tuple[NDArray[np.int64], Floats]:
    """Draw one category an item, 1 to 8 items a cluster, categories' shares Dirichlet with this correlation.

    >>> outcomes(np.random.default_rng(0), 5, np.array([0.5, 0.5]), 0.2)[1].max() <= 4
    True
    """
    sizes = rng.integers(1, 9, clusters)
    inside = rng.dirichlet(shares * (1 - icc) / icc, clusters) if icc else np.tile(shares, (clusters, 1))
    codes = np.repeat(np.arange(clusters), sizes)
    drawn = (rng.random(len(codes))[:, None] > inside.cumsum(axis=1)[codes][:, :-1]).sum(axis=1)
    return drawn, codes.astype(np.float64)


def of_proportions(datasets: int) -> Iterator[str]:
    """Yield a line for each setting: coverage by `interval_for`, by the bootstrap alone, and ignoring clusters.

    >>> next(of_proportions(1)).split()[0]
    '10'
    """
    for clusters, share, icc in product((10, 20, 40, 150), (0.02, 0.1, 0.25, 0.5), (0.0, 0.2, 0.6)):
        rng = np.random.default_rng(1)
        hits = np.zeros(3)
        for _ in range(datasets):
            right, codes = outcomes(rng, clusters, np.array([1 - share, share]), icc)
            names = codes.astype(np.int64)
            for at, found in enumerate(
                (
                    interval_for(right, names, binary=True),
                    cluster_bootstrap(right, names),
                    wilson(int(right.sum()), len(right)),
                )
            ):
                assert found.low is not None
                assert found.high is not None
                hits[at] += found.low <= share <= found.high
        yield f"{clusters:8} {share:5} {icc:4}  " + "  ".join(f"{rate:8.3f}" for rate in hits / datasets)


def of_differences(datasets: int) -> Iterator[str]:
    """Yield a line for each setting: coverage by `paired_difference`; only A, only B are shares of items.

    >>> next(of_differences(1)).split()[0]
    '20'
    """
    settings = ((0.02, 0.02), (0.05, 0.01), (0.001, 0.05), (0.2, 0.1), (0.3, 0.05))
    for clusters, (only_a, only_b), icc in product((20, 60, 200), settings, (0.0, 0.4)):
        rng = np.random.default_rng(2)
        hits = 0
        for _ in range(datasets):
            kind, codes = outcomes(rng, clusters, np.array([only_a, only_b, 1 - only_a - only_b]), icc)
            found = paired_difference(kind == 0, kind == 1, codes.astype(np.int64), binary=True)
            assert found.low is not None
            assert found.high is not None
            hits += found.low <= only_a - only_b <= found.high
        yield f"{clusters:8} {only_a:6} {only_b:6} {icc:4}  {hits / datasets:8.3f}"


def main() -> None:
    """Print both tables.

    >>> main.__name__
    'main'
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", type=int, default=400)
    datasets = parser.parse_args().datasets
    print("clusters share  icc  interval_for  bootstrap  ignoring clusters   (nominal 0.950)")
    for line in of_proportions(datasets):
        print(line, flush=True)
    print("clusters only_a only_b  icc  paired_difference   (nominal 0.950)")
    for line in of_differences(datasets):
        print(line, flush=True)


if __name__ == "__main__":
    main()
