"""The curve of a training whose checkpoints were followed: values with intervals, the best so far, and forgetting."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tellapart.errors import plain
from tellapart.evaluation.verified import read_result
from tellapart.records.result import Result, Sample, Value
from tellapart.records.run_folder import FOLLOWED, find_runs, natural_key, read_samples
from tellapart.report.line_chart import LineChart
from tellapart.report.numbers import percent, points
from tellapart.report.numbers import score as write_score
from tellapart.report.sections import shared_headline
from tellapart.report.terminal import table
from tellapart.stats.paired import Difference, paired_difference
from tellapart.tasks.registry import main_metric

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["FollowedPoint", "followed_charts", "followed_points", "followed_rows", "followed_tables"]


@dataclass(frozen=True, slots=True)
class FollowedPoint:
    """One checkpoint on one benchmark.

    Attributes:
        checkpoint: its name.
        step: the last number in the name, or its position if names do not have one each.
        metric, value: the metric that ranks models.
        best: the checkpoint with the highest value so far, this one included; the first of several.
        forgotten: the best value less this one, on the same items, with its paired interval; None of the best, and
            without a value of each item.
    """

    checkpoint: str
    step: int
    metric: str
    value: Value
    best: str
    forgotten: Difference | None


def followed_points(folder: Path) -> dict[str, list[FollowedPoint]]:
    """Return the checkpoints of a run folder by benchmark, in the order of their numbers; none of other runs.

    The best of several checkpoints is also the luckiest, so a small loss against it is expected without forgetting.

    Raises:
        RunError: a record or its samples are damaged.
    """
    if not (folder / FOLLOWED).is_file():
        return {}
    runs = [(read_result(each), each) for each in find_runs(folder)]
    runs.sort(key=lambda run: natural_key(run[0].model.name))
    steps = _number_steps([result.model.name for result, _ in runs])
    rows = [(step, *run) for step, run in zip(steps, runs, strict=True)]
    names = dict.fromkeys(name for result, _ in runs for name in result.benchmarks)
    return {name: _benchmark_points(name, [row for row in rows if name in row[1].benchmarks]) for name in names}


def _benchmark_points(benchmark: str, rows: Sequence[tuple[int, Result, Path]]) -> list[FollowedPoint]:
    metric = main_metric(shared_headline([result.benchmarks[benchmark] for _, result, _ in rows]))
    best: tuple[str, float, Sequence[Sample]] | None = None
    found = []
    for step, result, folder in rows:
        record, name = result.benchmarks[benchmark], result.model.name
        value, samples = record.metrics[metric], read_samples(folder, benchmark, record)
        forgotten = None
        if best is None or value.value > best[1]:
            best = name, value.value, samples
        else:
            forgotten = _measure_loss(best[2], samples, metric, result.run.seed)
        found.append(FollowedPoint(name, step, metric, value, best[0], forgotten))
    return found


def _measure_loss(best: Sequence[Sample], now: Sequence[Sample], metric: str, seed: int) -> Difference | None:
    rows = [(one, two) for one, two in zip(best, now, strict=True) if metric in one.outcomes and metric in two.outcomes]
    if not rows:
        return None
    values = np.array([[sample.outcomes[metric] for sample in row] for row in rows], np.float64)
    clusters = np.array([one.cluster for one, _ in rows])
    binary = bool(np.isin(values, (0, 1)).all())
    return paired_difference(values[:, 0], values[:, 1], clusters, binary=binary, seed=seed)


def _number_steps(names: Sequence[str]) -> list[int]:
    numbers = [int(found[-1]) for name in names if (found := re.findall("[0-9]+", name))]
    return numbers if len(set(numbers)) == len(names) else list(range(1, len(names) + 1))


def followed_charts(folder: Path) -> list[LineChart]:
    """Draw a chart for each benchmark: values with intervals, and the best so far; none of other runs."""
    return [_draw_points(benchmark, found) for benchmark, found in followed_points(folder).items()]


def _draw_points(benchmark: str, found: Sequence[FollowedPoint]) -> LineChart:
    values = {point.checkpoint: 100 * point.value.value for point in found}
    metric = found[0].metric
    lines = {
        metric: [(point.step, values[point.checkpoint]) for point in found],
        "best so far": [(point.step, values[point.best]) for point in found],
    }
    ranges = [
        (point.step, 100 * point.value.low, 100 * point.value.high)
        for point in found
        if point.value.low is not None and point.value.high is not None
    ]
    return LineChart(f"{benchmark}: {metric}, %, and its 95 % interval", "checkpoint", lines, ranges=ranges)


def followed_tables(folder: Path) -> list[Table]:
    """Lay out the checkpoints of a run folder, a table a benchmark; none of other runs."""
    tables = []
    for benchmark, found in followed_points(folder).items():
        values = {point.checkpoint: point.value.value for point in found}
        title = f"{plain(benchmark)}: checkpoints, {found[0].metric} in percent"
        shown = table("checkpoint", found[0].metric, "best so far", "forgotten, points", numbers_from=1, title=title)
        for point in found:
            loss = point.forgotten
            lost = "" if loss is None else points(loss.value, loss.low, loss.high, loss.reason)
            best = f"{percent(values[point.best])} ({plain(point.best)})"
            shown.add_row(plain(point.checkpoint), write_score(point.value), best, lost)
        tables.append(shown)
    return tables


def followed_rows(folder: Path) -> list[dict[str, Any]]:
    """Return the checkpoints of a run folder as rows for JSON, benchmark by benchmark; none of other runs."""
    return [
        {"benchmark": benchmark, **asdict(point), "value": point.value.model_dump(mode="json")}
        for benchmark, found in followed_points(folder).items()
        for point in found
    ]
