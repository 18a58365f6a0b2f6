"""Training results on the terminal and as JSON: one run, several seeds, a detector of origins."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tellapart.report.comparisons import print_comparison
from tellapart.report.numbers import percent, plain, points
from tellapart.report.terminal import console, print_lines, table

if TYPE_CHECKING:
    from tellapart.train.detectors import Detection
    from tellapart.train.record import TrainRecord
    from tellapart.train.seeds import SeedRow
    from tellapart.train.sweep import Sweep
    from tellapart.train.training_run import FinishedRun

__all__ = ["print_detection", "print_seeds", "print_trained", "seeds_json", "trained_json"]


def trained_json(finished: FinishedRun) -> dict[str, Any]:
    """Return a training run as one object: its model, how it went, and what it gained and lost."""
    state = finished.state
    return {
        "model": finished.name,
        "steps": state.step,
        "best_step": state.best_step,
        "validation": state.best,
        "history": state.history,
        "resumed": finished.resumed,
        "comparison": None if finished.comparison is None else finished.comparison.model_dump(mode="json"),
        "sweep": None if finished.sweep is None else asdict(finished.sweep),
    }


def print_trained(finished: FinishedRun) -> None:
    """Print which weights were kept, how to measure them, and the comparison with the start.

    >>> from tellapart.train.checkpoint import TrainingState
    >>> from tellapart.train.training_run import FinishedRun
    >>> print_trained(FinishedRun("local-dir:runs/a/model", TrainingState(step=8, best=0.5, best_step=4), False))
    kept the weights after step 4 of 8: 50.00 on the validation set
    measure with: tellapart run -m local-dir:runs/a/model
    """
    state = finished.state
    value = "no validation set, so the last ones"
    if state.best is not None:
        value = f"{percent(state.best)} on the validation set"
    print_lines(
        f"kept the weights after step {state.best_step} of {state.step}: {value}",
        f"measure with: tellapart run -m {shlex.quote(finished.name)}",
    )
    if finished.comparison is not None:
        print_lines("")
        print_comparison(finished.comparison)
    if finished.sweep is not None:
        _print_sweep(finished.sweep)


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
    """Return runs under several seeds as one object: each metric beside the start and another configuration."""
    from tellapart.train.seeds import between, over_seeds

    return {
        "models": [record.model for record in records],
        "seeds": [record.config["seed"] for record in records],
        "validation": [record.best for record in records],
        "start": [asdict(row) for row in over_seeds(records)],
        "against": None if others is None else [asdict(row) for row in between(records, others)],
    }


def print_seeds(records: Sequence[TrainRecord], others: Sequence[TrainRecord] | None = None) -> None:
    """Print each metric's mean and spread over seeds, beside the start and, if there is one, another configuration.

    >>> print_seeds([])
    nothing was measured before and after: name benchmarks in report.benchmarks
    """
    from tellapart.train.seeds import between, over_seeds

    rows = over_seeds(records)
    versus = None if others is None else between(records, others)
    if not rows:
        print_lines("nothing was measured before and after: name benchmarks in report.benchmarks")
        return
    _print_over_seeds("the start", rows)
    if versus is not None and others is not None:
        _print_over_seeds(str(others[0].config["name"]), versus)


def _print_over_seeds(other: str, rows: Sequence[SeedRow]) -> None:
    tests = ("p", "p (Holm)", "p (ranks)")
    for benchmark in dict.fromkeys(row.benchmark for row in rows):
        lines = table(plain(benchmark), "mean", "sd", plain(other), "difference", *tests, numbers_from=1)
        for row in (row for row in rows if row.benchmark == benchmark):
            change = points(row.difference, row.low, row.high)
            p_values = ("-" if p is None else f"{p:.3g}" for p in (row.p, row.p_holm, row.p_ranks))
            sd = "-" if row.sd is None else percent(row.sd)
            lines.add_row(row.metric, percent(row.mean), sd, percent(row.other), change, *p_values)
        console().print(lines)
        print_lines("")
    print_lines(
        f"{rows[0].seeds} seeds, percent: their mean and standard deviation; differences from {plain(other)} paired by "
        "seed, 95% intervals by Student's t; p: paired t-test, Holm over these rows, Wilcoxon's signed ranks"
    )


def print_detection(detection: Detection) -> None:
    """Print how well a detector tells origins apart, and what it gets on the benchmark by that alone.

    >>> from tellapart.train.detectors import Detection, DetectorScore
    >>> score = DetectorScore(value=0.5, low=0.25, high=0.75, method="wilson")
    >>> facts = {"pairs": "s", "model": "m", "fingerprint": "f", "trained_on": None, "seed": 0, "penalty": 0.01}
    >>> scores = {"image_accuracy": score}
    >>> print_detection(Detection(**facts, folds=5, items=8, clusters=8, scores=scores))  # doctest: +ELLIPSIS
    s: 8 items, 8 clusters; heads on m, fitted on the other 4 of 5 folds...
    """
    folds = detection.folds
    fitted_on = detection.trained_on if folds is None else f"the other {folds - 1} of {folds} folds"
    rows = table("detector", "%", "interval", numbers_from=1)
    for name, score in detection.scores.items():
        bounds = "" if score.low is None or score.high is None else f"[{percent(score.low)}, {percent(score.high)}]"
        rows.add_row(name, percent(score.value), bounds)
    counts = f"{detection.pairs}: {detection.items:,} items, {detection.clusters:,} clusters"
    print_lines(plain(f"{counts}; heads on {detection.model}, fitted on {fitted_on}"))
    console().print(rows)
