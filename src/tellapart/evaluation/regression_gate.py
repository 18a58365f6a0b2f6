"""A gate: whether a new run of a model is worse than a base run, on the items that both measured.

A headline that fell significantly (the paired tests of `compare`, Holm over all headlines) stops the gate, as does one
that fell by more than a limit. So does all that would let a fall pass unseen: a benchmark that the new run lacks, other
items than the base's, and a benchmark whose items are too few to show any fall.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel

from tellapart.catalog import REFERENCES
from tellapart.errors import RunError
from tellapart.evaluation.compare import MetricComparison, compare_pairs, match_benchmarks
from tellapart.evaluation.shared_benchmarks import SharedBenchmark, read_shared
from tellapart.records.result import BenchmarkResult
from tellapart.records.run_folder import RESULTS
from tellapart.records.systems import System, gather
from tellapart.stats.clusters import ClusterTotals
from tellapart.stats.effective import detectable_fall
from tellapart.tasks.registry import headline

__all__ = ["ALPHA", "GateResult", "GateRow", "judge", "regression_gate"]

#: The family-wise error over all headlines of the gate.
ALPHA = 0.05

#: Headlines of which neither more nor less is better: the effect of the order of the options on an answer.
_SIGNED = frozenset({"order_bias", "pairing_bias"})

Verdict = Literal[
    "regression", "improvement", "no difference seen", "too few items", "not tested", "missing", "not comparable"
]


class GateRow(BaseModel, frozen=True):
    """One headline of one benchmark, or a benchmark that cannot be judged.

    Attributes:
        metric: None if the row is about the benchmark itself.
        verdict: `too few items` if even a fall to 0 would not be significant; `not tested` of a metric that has no
            value of each item, which the limit alone can judge.
        fails: whether the gate stops for this row.
        reason: why it stops, or why it cannot judge; empty if the numbers are enough.
        base, new: the values, strict rule.
        change, low, high: new minus base, and its paired interval.
        p_holm: p, adjusted for all headlines of the gate (Holm).
        test: which test p is of.
        could_see: the smallest true fall that would be significant here in four cases out of five; None if none
            would.
    """

    benchmark: str
    metric: str | None = None
    verdict: Verdict
    fails: bool = False
    reason: str = ""
    n: int = 0
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

    @property
    def says(self) -> str:
        """The verdict in words, with how small a fall could have been seen if none was."""
        if self.reason:
            return f"{self.verdict}: {self.reason}"
        if self.verdict == "no difference seen" and self.could_see is not None:
            return f"no difference seen (could have seen {100 * self.could_see:.1f} points)"
        return self.verdict


class GateResult(BaseModel, frozen=True):
    """A new run judged against a base run.

    Attributes:
        base, new: the models.
        max_drop: the limit, in points; None if there is none.
        by_chance: with a limit, at most how often it alone stops a model as good as the base, over all headlines.
        rows: every headline, in the base's order; then the benchmarks that cannot be judged.
        added: benchmarks that only the new run measured.
        on_trust: benchmarks of which one run holds scores made elsewhere: their ids alone are known to be the same.
    """

    base: str
    new: str
    max_drop: float | None = None
    by_chance: float | None = None
    rows: tuple[GateRow, ...]
    added: tuple[str, ...] = ()
    on_trust: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether no row stops the gate."""
        return not any(row.fails for row in self.rows)


def regression_gate(base: Path, new: Path, *, max_drop: float | None = None, seed: int = 0) -> GateResult:
    """Judge a new run against a base run by the headline metrics of every benchmark of the base.

    Args:
        base, new: run folders, each of one model; further models of the run do not count.
        max_drop: points by which no headline may fall, whether significantly or not; None for no limit.
        seed: of the bootstrap and of the sign flips.

    Raises:
        RunError: a folder is not a run or holds several models, or a limit that is none.

    >>> from tellapart.evaluation.run import EmbeddingStore, Settings, run
    >>> out = getfixture("tmp_path")
    >>> oracle, random = run(Settings(models=("oracle", "random"), limit="40"), out, store=EmbeddingStore(None))
    >>> found = regression_gate(oracle, random)
    >>> found.passed, found.rows[0].says, regression_gate(oracle, oracle).rows[0].says
    (False, 'regression', 'no difference seen (could have seen 21.8 points)')
    """
    if max_drop is not None and not 0 < max_drop < 100:
        raise RunError(f"max_drop={max_drop:g}: expected points between 0 and 100; a point is 0.01 of a score")
    systems = [_only_model(base), _only_model(new)]
    matched = match_benchmarks([system.result for system in systems])
    shared: list[SharedBenchmark] = []
    unjudged: list[GateRow] = []
    for name, held in matched.items():
        if 1 not in held:
            reason = f"{new} did not measure it"
            unjudged.append(GateRow(benchmark=name, verdict="missing", fails=True, reason=reason))
        elif 0 in held:
            try:
                shared += read_shared(systems, {name: held})
            except RunError as error:
                row = GateRow(benchmark=name, verdict="not comparable", fails=True, reason=str(error))
                unjudged.append(row)
    added = [name for name, held in matched.items() if 0 not in held]
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
    """Judge the second of two systems by the benchmarks that both measured.

    Args:
        systems: the base and the new one.
        shared: the benchmarks that both measured, item by item.
        max_drop: points by which no headline may fall.
        seed: of the bootstrap and of the sign flips.
        unjudged: rows of benchmarks that are not shared.
        added: benchmarks that only the new one measured.
    """
    shared = [
        replace(one, outcomes={metric: values for metric, values in one.outcomes.items() if metric not in _SIGNED})
        for one in shared
    ]
    testable = [one for one in shared if one.outcomes]
    compared = compare_pairs(systems, testable, [(0, 1)], seed=seed)[0] if testable else None
    tests = compared.rows if compared else ()
    by_name = {one.name: one for one in shared}
    rows = [_judge_row(row, by_name[row.benchmark], len(tests), max_drop) for row in tests]
    blind = [one.name for one in testable if all(row.could_see is None for row in rows if row.benchmark == one.name)]
    rows = [row.model_copy(update={"fails": True}) if row.benchmark in blind else row for row in rows]
    for one in shared:
        rows += _judge_untested(one, max_drop)
    errors = [_standard_error(row, by_name[row.benchmark]) for row in tests]
    return GateResult(
        base=systems[0].label,
        new=systems[1].label,
        max_drop=max_drop,
        by_chance=None if max_drop is None else _by_chance(max_drop / 100, errors),
        rows=(*rows, *unjudged),
        added=tuple(added),
        on_trust=compared.on_trust if compared else (),
    )


def _only_model(folder: Path) -> System:
    """Read the subject of a run folder, without its further models, or the only model of a folder of runs."""
    if (folder / RESULTS).is_file():
        return System.of(folder)
    systems = gather([folder])
    own = [system for system in systems if system.result.model.name not in REFERENCES] or systems
    if len(own) != 1:
        names = ", ".join(system.label for system in own)
        raise RunError(f"{folder} holds {len(own)} models ({names}), and a gate judges one; name the run folder of one")
    return own[0]


def _judge_row(row: MetricComparison, benchmark: SharedBenchmark, tests: int, max_drop: float | None) -> GateRow:
    values, clusters = benchmark.values(row.metric, (0, 1))
    could_see = detectable_fall(values[:, 0], values[:, 1], clusters, tests=tests, alpha=ALPHA)
    significant = row.p_holm <= ALPHA
    verdict: Verdict = "no difference seen"
    reason = ""
    if significant:
        verdict = "regression" if row.difference > 0 else "improvement"
    elif could_see is None:
        verdict = "too few items"
        reason = f"the base is right on so few ({int((values[:, 0] > 0).sum())} of {row.n}) that no fall could be seen"
    if verdict != "regression" and _exceeds_drop(row.difference, max_drop):
        verdict, reason = "regression", f"not significant, but beyond --max-drop {max_drop:g}"
    return GateRow(
        benchmark=row.benchmark,
        metric=row.metric,
        verdict=verdict,
        fails=verdict == "regression",
        reason=reason,
        n=row.n,
        base=row.a,
        new=row.b,
        change=0.0 - row.difference,  # not -0.0 if there is none
        low=None if row.high is None else -row.high,
        high=None if row.low is None else -row.low,
        p=row.p,
        p_holm=row.p_holm,
        p_holm_text=row.p_holm_text,
        test=row.test,
        could_see=could_see,
    )


def _judge_untested(benchmark: SharedBenchmark, max_drop: float | None) -> list[GateRow]:
    """Judge the headline metrics that have no value of each item (BLEU, the smaller of two shares) by the limit."""
    base, new = (benchmark.records[run] for run in (0, 1))
    rows = []
    for metric in headline(base.metrics):
        if metric in benchmark.outcomes:
            continue
        if metric not in new.metrics:
            reason = "the new run did not measure it"
            rows.append(GateRow(benchmark=benchmark.name, metric=metric, verdict="missing", fails=True, reason=reason))
            continue
        rows.append(_by_limit(benchmark.name, metric, base, new, max_drop))
    return rows


def _by_limit(
    benchmark: str, metric: str, base: BenchmarkResult, new: BenchmarkResult, max_drop: float | None
) -> GateRow:
    one, other = base.metrics[metric], new.metrics[metric]
    beyond = metric not in _SIGNED and _exceeds_drop(one.value - other.value, max_drop)
    why = "0 is best, and neither more nor less is better" if metric in _SIGNED else "it has no value of each item"
    reason = f"beyond --max-drop {max_drop:g}" if beyond else why
    return GateRow(
        benchmark=benchmark,
        metric=metric,
        verdict="regression" if beyond else "not tested",
        fails=beyond,
        reason=reason,
        n=one.n,
        base=one.value,
        new=other.value,
        change=other.value - one.value,
    )


def _exceeds_drop(fall: float, max_drop: float | None) -> bool:
    # Values are quotients: a fall of exactly the limit must not exceed it by a rounding.
    return max_drop is not None and 100 * fall > max_drop + 1e-9


def _standard_error(row: MetricComparison, benchmark: SharedBenchmark) -> float:
    values, clusters = benchmark.values(row.metric, (0, 1))
    totals = ClusterTotals.of("regression_gate", values[:, 0] - values[:, 1], clusters)
    return float(np.sqrt(totals.variance())) if len(totals) > 1 else 0.0


def _by_chance(limit: float, errors: Sequence[float]) -> float:
    """Return at most how often one of several changes falls below minus the limit, if none is true."""
    from scipy.special import ndtr

    return min(1.0, sum(float(ndtr(-limit / error)) for error in errors if error > 0))
