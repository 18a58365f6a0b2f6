"""Training results on the terminal and as JSON: one run, several seeds."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tellapart.errors import plain
from tellapart.report.numbers import percent, points
from tellapart.report.printing import print_comparison
from tellapart.report.terminal import console, print_lines, table
from tellapart.report.why import print_why

if TYPE_CHECKING:
    from tellapart.evaluation.compare import MetricComparison
    from tellapart.training.record import TrainRecord
    from tellapart.training.seeds import SeedRow
    from tellapart.training.sweep import Sweep


def trained_json(record: TrainRecord, page: Path) -> dict[str, Any]:
    """Return a training run as one object: its model, its progress, its gains and losses, and its page."""
    values, same = record.model_dump(mode="json"), ("history", "resumed", "transductive", "comparison", "why")
    return {
        **{key: values[key] for key in ("model", "steps", "limit", "best_step")},
        "validation": record.best,
        "validation_metric": record.data.validation_metric,
        **{key: values[key] for key in same},
        "better": [{"benchmark": row.benchmark, "metric": row.metric} for row in record.gained],
        "worse": [{"benchmark": row.benchmark, "metric": row.metric} for row in record.lost],
        "sweep": None if record.sweep is None else asdict(record.sweep),
        "report": str(page),
    }


def print_trained(record: TrainRecord, page: Path) -> None:
    """Print which weights were kept, how to measure them, their gains and losses, and the page's path."""
    value = record.describe_validation() or "no validation set, so the last ones"
    print_lines(
        plain(f"kept the weights after step {record.best_step} of {record.steps}{_name_limit(record)}: {value}"),
        f"measure with: tellapart run -m {shlex.quote(record.model)}",
    )
    print_lines(*map(plain, record.describe_transductive()))
    if record.updated:
        print_lines(f"lora: {plain(record.updated)}")
    if record.data.duplicates is not None and (counts := record.data.duplicates.describe()):
        print_lines(f"training data: {counts}")
    if record.comparison is not None:
        print_lines("")
        print_comparison(record.comparison)
        print_lines(
            "",
            f"better, p after Holm below .05: {_join_rows(record.gained)}",
            f"worse, p after Holm below .05: {_join_rows(record.lost)}",
        )
    if record.why is not None:
        print_lines("")
        print_why(record.why)
    if record.sweep is not None:
        _print_sweep(record.sweep)
    print_lines("", f"report: {page}")


def _name_limit(record: TrainRecord) -> str:
    return f" (a smoke run of {record.limit} steps, by --limit)" if record.limit else ""


def _join_rows(rows: Sequence[MetricComparison]) -> str:
    return plain(", ".join(f"{row.benchmark} {row.metric}" for row in rows) or "nothing")


def _print_sweep(sweep: Sweep) -> None:
    """Print a curve over alphas, the best one marked."""
    rows = table("alpha", *sweep.benchmarks, numbers_from=0)
    for alpha, values in sweep.curve.items():
        rows.add_row(f"{alpha:.2f}{' *' if alpha == sweep.best else ''}", *map(percent, values))
    print_lines("")
    console().print(rows)
    print_lines(
        "weights between the start (0) and the trained model (1): means of headline metrics, percent; "
        f"* Pareto-best, chosen on these very numbers: {sweep.model}"
    )


def seeds_json(records: Sequence[TrainRecord], others: Sequence[TrainRecord] | None) -> dict[str, Any]:
    """Return runs under several seeds as one object: each metric next to the start and another configuration."""
    from tellapart.training.seeds import between, over_seeds

    return {
        "models": [record.model for record in records],
        "seeds": [record.config["seed"] for record in records],
        "limit": records[0].limit if records else None,
        "validation": [record.best for record in records],
        "start": [asdict(row) for row in over_seeds(records)],
        "against": None if others is None else [asdict(row) for row in between(records, others)],
    }


def print_seeds(records: Sequence[TrainRecord], others: Sequence[TrainRecord] | None = None) -> None:
    """Print each metric's mean and spread over seeds, next to the start and, if there is one, another configuration."""
    from tellapart.training.seeds import between, over_seeds

    rows = over_seeds(records)
    versus = None if others is None else between(records, others)
    if not rows:
        print_lines("nothing was measured before and after: name benchmarks in report.benchmarks")
        return
    _print_over_seeds("the start", rows, _name_limit(records[0]))
    print_lines(*map(plain, records[0].describe_transductive()[:1]))
    if versus is not None and others is not None:
        limits = dict.fromkeys((_name_limit(records[0]), _name_limit(others[0])))
        _print_over_seeds(str(others[0].config["name"]), versus, "; ".join(filter(None, limits)))


def _print_over_seeds(other: str, rows: Sequence[SeedRow], limit: str) -> None:
    tests = ("p", "p (Holm)", "p (ranks)")
    for benchmark in dict.fromkeys(row.benchmark for row in rows):
        lines = table(plain(benchmark), "mean", "sd", plain(other), "difference", *tests, numbers_from=1)
        for row in (row for row in rows if row.benchmark == benchmark):
            change = points(row.difference, row.low, row.high, row.reason)
            p_values = ("-" if p is None else f"{p:.3g}" for p in (row.p, row.p_holm, row.p_ranks))
            sd = "-" if row.sd is None else percent(row.sd)
            lines.add_row(row.metric, percent(row.mean), sd, percent(row.other), change, *p_values)
        console().print(lines)
        print_lines("")
    print_lines(
        f"{rows[0].seeds} seeds{limit}, percent: their mean and standard deviation; differences from {plain(other)} "
        "paired by seed, 95% intervals by Student's t; p: paired t-test, Holm over these rows, Wilcoxon's signed ranks"
    )
