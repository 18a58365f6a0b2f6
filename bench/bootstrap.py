"""Time the cluster bootstrap at SugarCrepe's size: 7,512 items in 1,561 clusters, 10,000 resamples.

Run as `OPENBLAS_NUM_THREADS=1 python bench/bootstrap.py` to time one core.
"""

from __future__ import annotations

import resource
import time

import numpy as np

from tellapart.stats.bootstrap import cluster_bootstrap
from tellapart.stats.intervals import Column, intervals_for


def best_of(repeats: int, work: object) -> tuple[float, float]:
    """Return the least wall and processor seconds of several calls.

    >>> best_of(1, lambda: None)[0] < 1
    True
    """
    assert callable(work)
    times = []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
    return min(wall for wall, _ in times), min(cpu for _, cpu in times)


def main() -> None:
    """Print one line for one metric and one for twenty that share the draws.

    >>> main.__name__
    'main'
    """
    rng = np.random.default_rng(0)
    clusters = np.concatenate([np.arange(1561), rng.integers(0, 1561, 7512 - 1561)])
    right = (rng.random(7512) < 0.7).astype(np.float64)
    many = [Column((rng.random(7512) < 0.7).astype(np.float64), binary=True) for _ in range(20)]
    cluster_bootstrap(right[:100], clusters[:100])  # pays for the imports
    for name, work in (
        ("1 metric", lambda: cluster_bootstrap(right, clusters)),
        ("20 metrics", lambda: intervals_for(many, clusters)),
    ):
        wall, cpu = best_of(5, work)
        print(f"10,000 resamples, 7,512 items, 1,561 clusters, {name}: {wall:.3f} s wall, {cpu:.3f} s cpu")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
