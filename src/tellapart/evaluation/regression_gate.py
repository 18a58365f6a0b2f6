"""A gate: whether a new run of a model is worse than a base run, on the items that both measured.

A headline that fell significantly (the paired tests of `compare`, Holm over all headlines) stops the gate, as does one
that fell by more than a limit. So does everything that could hide a fall: a benchmark that the new run lacks, items
that differ from the base's, and a benchmark with too few items to show any fall.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from tellapart.errors import RunError
from tellapart.evaluation.compare import ALPHA, MetricComparison, compare_pairs
from tellapart.evaluation.systems import (
    SharedBenchmark,
    System,
    gather,
    leave_references,
    match_benchmarks,
    read_shared,
)
from tellapart.records.run_folder import RESULTS
from tellapart.stats.clusters import ClusterTotals
from tellapart.stats.power import detectable_fall
from tellapart.tasks.registry import headline

#: Headlines that are best at 0, with falls and rises equally bad: the effect of the options' order on an answer.
_SIGNED = frozenset({"order_bias", "pairing_bias"})

Verdict = Literal[
    "regression", "improvement", "no difference seen", "too few items", "not tested", "missing", "not comparable"
]


class GateRow(BaseModel, frozen=True):
    """One headline of one benchmark, or a benchmark that cannot be judged.

    Attributes:
        metric: None if the row is about the benchmark itself.
        verdict: `too few items` if even a fall to 0 would not be significant; `not tested` if the metric has no value
            per item, so that only the limit can judge it.
        fails: whether the gate stops for this row.
        reason: why it stops, or why it cannot judge; empty if the numbers are enough.
        n, limited_from, low, high, p, p_holm, test: as of `MetricComparison`; p is corrected for all headlines.
        base, new: the values of the metric; a tie counts as wrong.
        change: new minus base.
        p_holm_text: the adjusted p, for print.
        could_see: the smallest true fall that would be significant here in four cases out of five; None if none
            would.
        no_interval: why the change has no interval.
    """

    benchmark: str
    metric: str | None = None
    verdict: Verdict
    fails: bool = False
    reason: str = ""
    n: int = 0
    limited_from: int | None = None
    base: float | None = None
    new: float | None = None
    change: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    p_holm: float | None = None
    p_holm_text: str = ""
    test: str | None = None
    could_see: float | None = None
    no_interval: str | None = None

    @property
    def says(self) -> str:
        """The verdict in words; if no difference was seen, with the smallest fall that could have been."""
        if self.reason:
            return f"{self.verdict}: {self.reason}"
        if self.verdict == "no difference seen" and self.could_see is not None:
            return f"no difference seen (could have seen {100 * self.could_see:.1f} points)"
        return self.verdict


class GateResult(BaseModel, frozen=True):
    """A new run judged against a base run.

    Attributes:
        base, new: the models; of `tellapart compare`, with their folders if both have one name.
        max_drop: the limit, in points; None if there is none.
        by_chance: an upper bound on the probability that the limit stops a model as good as the base; None without a
            limit.
        rows: every headline, in the base's order; then the benchmarks that cannot be judged.
        added: benchmarks that only the new run measured.
        on_trust: benchmarks on which one run has scores made elsewhere: only the ids are known to agree.
        dtypes: the precisions of base and new, if they differ.
    """

    base: str
    new: str
    max_drop: float | None = None
    by_chance: float | None = None
    rows: tuple[GateRow, ...]
    added: tuple[str, ...] = ()
    on_trust: tuple[str, ...] = ()
    dtypes: tuple[str, str] | None = None

    @property
    def passed(self) -> bool:
        """Whether no row stops the gate."""
        return not any(row.fails for row in self.rows)


def regression_gate(base: Path, new: Path, *, max_drop: float | None = None, seed: int = 0) -> GateResult:
    """Judge a new run against a base run by the headline metrics of every benchmark of the base.

    Each folder is a run of one model. No headline may fall by more than `max_drop` points, whether significantly or
    not.
    """
    if max_drop is not None and not 0 <= max_drop < 100:
        raise RunError(f"max_drop={max_drop:g}: expected points from 0 to below 100; a point is 0.01 of a score")
    systems = [_only_model(base), _only_model(new)]
    matched = match_benchmarks([system.result for system in systems])
    shared: list[SharedBenchmark] = []
    unjudged: list[GateRow] = []
    for name, sides in matched.items():
        if 1 not in sides:
            reason = f"{new} did not measure it"
            unjudged.append(GateRow(benchmark=name, verdict="missing", fails=True, reason=reason))
        elif 0 in sides:
            try:
                shared += read_shared(systems, {name: sides})
            except RunError as error:
                row = GateRow(benchmark=name, verdict="not comparable", fails=True, reason=str(error))
                unjudged.append(row)
    added = [name for name, sides in matched.items() if 0 not in sides]
    return judge(systems, shared, max_drop=max_drop, seed=seed, unjudged=unjudged, added=added)


def judge(
    systems: Sequence[System],
    shared: Sequence[SharedBenchmark],
    *,
    max_drop: float | None = None,
    seed: int = 0,
    unjudged: Sequence[GateRow] = (),
    added: Sequence[str] = (),
) -> GateResult:
    """Judge the second of two systems by the benchmarks that both measured."""
    shared = [
        replace(entry, outcomes={metric: values for metric, values in entry.outcomes.items() if metric not in _SIGNED})
        for entry in shared
    ]
    testable = [entry for entry in shared if entry.outcomes]
    compared = compare_pairs(systems, testable, [(0, 1)], seed=seed)[0] if testable else None
    tests = compared.rows if compared else ()
    by_name = {entry.name: entry for entry in shared}
    rows = [_judge_row(row, by_name[row.benchmark], len(tests), max_drop) for row in tests]
    seeing = {row.benchmark for row in rows if row.could_see is not None}
    # A benchmark on which no headline could show a fall does not pass.
    rows = [row if row.benchmark in seeing else row.model_copy(update={"fails": True}) for row in rows]
    for entry in shared:
        rows += _judge_untested(entry, max_drop)
    tested = [by_name[row.benchmark].values(row.metric, (0, 1)) for row in tests]
    return GateResult(
        base=systems[0].label,
        new=systems[1].label,
        max_drop=max_drop,
        by_chance=None if max_drop is None else _by_chance(max_drop / 100, tested),
        rows=(*rows, *unjudged),
        added=tuple(added),
        on_trust=compared.on_trust if compared else (),
        dtypes=compared.dtypes if compared else None,
    )


def _only_model(folder: Path) -> System:
    """Read the subject of a run folder, without its further models, or the only model of a folder of runs."""
    if (folder / RESULTS).is_file():
        return System.of(folder)
    systems = gather([folder])
    models = leave_references(systems)
    if len(models) != 1:
        names = ", ".join(system.label for system in models)
        raise RunError(f"{folder} holds {len(models)} models ({names}), and a gate judges one; name one run folder")
    return models[0]


def _judge_row(row: MetricComparison, benchmark: SharedBenchmark, tests: int, max_drop: float | None) -> GateRow:
    values, clusters = benchmark.values(row.metric, (0, 1))
    could_see = detectable_fall(values[:, 0], values[:, 1], clusters, tests=tests, alpha=ALPHA)
    significant = row.p_holm <= ALPHA
    verdict: Verdict = "no difference seen"
    reason = ""
    if significant:
        verdict = "regression" if row.difference < 0 else "improvement"
    elif could_see is None:
        verdict = "too few items"
        reason = f"the base is right on so few ({int((values[:, 0] > 0).sum())} of {row.n}) that no fall could be seen"
    if verdict != "regression" and _exceeds_drop(-row.difference, max_drop):
        verdict, reason = "regression", f"not significant, but beyond --max-drop {max_drop:g}"
    return GateRow(
        verdict=verdict,
        fails=verdict == "regression",
        reason=reason,
        base=row.a,
        new=row.b,
        change=row.difference,
        p_holm_text=row.p_holm_text,
        could_see=could_see,
        no_interval=row.reason,
        **row.model_dump(include={"benchmark", "metric", "n", "limited_from", "low", "high", "p", "p_holm", "test"}),
    )


def _judge_untested(benchmark: SharedBenchmark, max_drop: float | None) -> Iterator[GateRow]:
    """Judge by the limit the headline metrics that have no value per item, such as BLEU or `min_pc_pf`."""
    base, new = (benchmark.records[run] for run in (0, 1))
    for metric in headline(base.metrics):
        if metric in benchmark.outcomes:
            continue
        if metric not in new.metrics:
            reason = "the new run did not measure it"
            yield GateRow(benchmark=benchmark.name, metric=metric, verdict="missing", fails=True, reason=reason)
            continue
        before, after = base.metrics[metric], new.metrics[metric]
        beyond = metric not in _SIGNED and _exceeds_drop(before.value - after.value, max_drop)
        why = "0 is best, and neither more nor less is better" if metric in _SIGNED else "it has no value per item"
        yield GateRow(
            benchmark=benchmark.name,
            metric=metric,
            verdict="regression" if beyond else "not tested",
            fails=beyond,
            reason=f"beyond --max-drop {max_drop:g}" if beyond else why,
            n=before.n,
            limited_from=base.limited_from,
            base=before.value,
            new=after.value,
            change=after.value - before.value,
        )


def _exceeds_drop(fall: float, max_drop: float | None) -> bool:
    # Values are quotients: without the margin, a rounding error could make a fall of exactly the limit exceed it.
    return max_drop is not None and 100 * fall > max_drop + 1e-9


def _by_chance(limit: float, tests: Sequence[tuple[NDArray[np.float64], NDArray[np.str_]]]) -> float:
    """Return an upper bound on the probability that any headline falls beyond the limit without a true change."""
    from scipy.special import ndtr

    totals = [ClusterTotals.of("regression_gate", values[:, 0] - values[:, 1], groups) for values, groups in tests]
    errors = [float(np.sqrt(total.variance())) for total in totals if len(total) > 1]
    return min(1.0, sum(float(ndtr(-limit / error)) for error in errors if error > 0))
