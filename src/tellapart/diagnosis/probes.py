"""What is left of a model's score without pictures or word order: each probe against the set, item by item."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict

from tellapart.benchmarks.probes import PREFIXES
from tellapart.evaluation.systems import System, is_testable, lay_out_outcomes, share_items
from tellapart.records.samples import read_samples
from tellapart.stats.clusters import is_binary
from tellapart.stats.paired import paired_difference
from tellapart.tasks.registry import headline


class ProbeRow(BaseModel):
    """One metric of one model, on a set and on its probe (without pictures, or word order), over the items of both.

    Attributes:
        real, left: the metric on the set, and on the probe, as fractions.
        difference: left minus real, with its paired 95% interval, None for the `reason`.
        chance: of a model without information, if it is defined.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    benchmark: str
    probe: str
    metric: str
    n: int
    real: float
    left: float
    difference: float
    low: float | None
    high: float | None
    reason: str = ""
    chance: float | None = None


def probe_rows(systems: Sequence[System], *, seed: int = 0) -> list[ProbeRow]:
    """Compare each probe of a run with the same model's measurement of the set itself."""
    return [row for system in systems for row in _rows_of(system, seed)]


def _rows_of(system: System, seed: int) -> Iterator[ProbeRow]:
    for name in system.result.benchmarks:
        prefix = next(filter(name.startswith, PREFIXES), "")
        real = name.removeprefix(prefix)
        if not prefix or real not in system.result.benchmarks:
            continue
        record = system.record(real)
        shared = share_items(read_samples(system.folders[of], of, system.record(of)) for of in (real, name))
        clusters = [sample.cluster for sample in shared[0]]
        outcomes = lay_out_outcomes(shared, [*filter(is_testable, headline(record.metrics))])
        for metric, values in outcomes.items():
            before, after = values.T
            difference = paired_difference(after, before, clusters, binary=is_binary(values), seed=seed)
            yield ProbeRow(
                model=system.label,
                benchmark=real,
                probe=prefix[:-1],
                metric=metric,
                n=len(clusters),
                real=float(np.mean(before)),
                left=float(np.mean(after)),
                difference=difference.value,
                low=difference.low,
                high=difference.high,
                reason=difference.reason or "",
                chance=record.metrics[metric].chance,
            )
