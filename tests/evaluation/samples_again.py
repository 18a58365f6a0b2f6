"""A run's numbers, measured again from its samples alone."""

from pathlib import Path

from tellapart.evaluation.evaluate import remeasure_samples
from tellapart.metrics.tabulate import Tabulated
from tellapart.records.run_folder import read_stored
from tellapart.records.samples import read_samples


def remeasure(folder: Path, benchmark: str) -> Tabulated:
    """Return the numbers of a benchmark, which are those of the record."""
    result = read_stored(folder).result
    record = result.benchmarks[benchmark]
    return remeasure_samples(benchmark, record, read_samples(folder, benchmark, record), seed=result.run.seed).table
