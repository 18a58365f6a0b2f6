"""The curve of a training whose checkpoints were measured (`followed`), stored with the SHA-256 of their records."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tellapart.data.strict_json import read_whole
from tellapart.errors import RunError
from tellapart.evaluation.systems import lay_out_outcomes, share_items
from tellapart.evaluation.verified import read_result
from tellapart.records.result import Record, Result, Sample, Value
from tellapart.records.run_folder import BESIDE, FOLLOWED, RESULTS, find_runs, natural_key, read_record, write_record
from tellapart.records.samples import read_samples
from tellapart.report.benchmark_runs import shared_headline
from tellapart.report.charts import LineChart
from tellapart.stats.paired import Difference, paired
from tellapart.tasks.registry import main_metric

#: The file of the points, in the run folder.
CURVE = "curve.json"


@dataclass(frozen=True, slots=True)
class FollowedPoint:
    """One checkpoint on one benchmark: its value, the best so far, and its loss against the best on shared items."""

    checkpoint: str
    step: int  # 0 until `sort_points` numbers it, as a further checkpoint may change all numbers
    metric: str
    value: Value
    best: str
    forgotten: Difference | None  # None of the best itself, or if no item has both values


class Checkpoint(Record):
    """One checkpoint of a run folder: its record's folder there and SHA-256, and its points by benchmark."""

    name: str
    folder: str
    sha256: str
    points: dict[str, FollowedPoint]


class _Curve(Record):
    checkpoints: tuple[Checkpoint, ...]


def find_training(folder: Path) -> Path | None:
    """Return the run folder of the training of which `folder` measures a checkpoint; None for another run."""
    outer = folder.parent.parent if folder.parent.name == BESIDE else folder
    return outer if (outer / FOLLOWED).is_file() else None


def read_checkpoints(folder: Path, *, keep: bool = False) -> list[Checkpoint]:
    """Return the checkpoints of a training's run folder, in the order of their numbers; none for any other run.

    The best is also the luckiest, so a small loss against it is expected. With `keep`, new points are stored.
    """
    if not (folder / FOLLOWED).is_file():
        return []
    digests = {}
    for run in find_runs(folder):
        record = read_whole(run / RESULTS, error=RunError)
        digests[run.relative_to(folder).as_posix()] = hashlib.sha256(record).hexdigest()
    valid: list[Checkpoint] = []  # those stored; none if a record of them is gone or changed, or the file is damaged
    with suppress(RunError):
        stored = read_record(folder / CURVE, _Curve, missing="none is kept", refusal="has no points").result.checkpoints
        valid = [*stored] if all(digests.get(entry.folder) == entry.sha256 for entry in stored) else []
    results = {name: read_result(folder / name) for name in digests.keys() - {entry.folder for entry in valid}}
    if not results:
        return valid
    first = min(natural_key(result.model.name) for result in results.values())
    # Those after the first new checkpoint are measured again, as a new one may be the best before them.
    after = [entry for entry in valid if natural_key(entry.name) > first]
    results |= {entry.folder: read_result(folder / entry.folder) for entry in after}
    checkpoints = _measure_points(folder, valid[: len(valid) - len(after)], results, digests)
    if keep:
        write_record(folder / CURVE, _Curve(checkpoints=tuple(checkpoints)))
    return checkpoints


def _measure_points(
    folder: Path, before: Sequence[Checkpoint], results: dict[str, Result], digests: dict[str, str]
) -> list[Checkpoint]:
    """Return the checkpoints in `before`, and after them those of `results`, each compared with the best before it."""
    checkpoints = list(before)
    best = {name: entry for entry in before for name, point in entry.points.items() if point.best == entry.name}

    @cache
    def find_samples(place: str, benchmark: str) -> Sequence[Sample]:
        result = results.get(place) or read_result(folder / place)
        return read_samples(folder / place, benchmark, result.benchmarks[benchmark])

    for place, result in sorted(results.items(), key=lambda entry: natural_key(entry[1].model.name)):
        name, points = result.model.name, {}
        for benchmark, record in result.benchmarks.items():
            leader = best[benchmark].points[benchmark] if benchmark in best else None
            metric = leader.metric if leader else main_metric(shared_headline([record]))
            value = record.metrics[metric]
            if leader is None or value.value > leader.value.value:
                points[benchmark] = FollowedPoint(name, 0, metric, value, name, None)
                continue
            sides = (find_samples(best[benchmark].folder, benchmark), find_samples(place, benchmark))
            forgotten = _measure_loss(*sides, metric, result.run.seed)
            points[benchmark] = FollowedPoint(name, 0, metric, value, leader.checkpoint, forgotten)
        checkpoint = Checkpoint(name=name, folder=place, sha256=digests[place], points=points)
        checkpoints.append(checkpoint)
        best |= {benchmark: checkpoint for benchmark, point in points.items() if point.best == name}
    return checkpoints


def _measure_loss(best: Sequence[Sample], now: Sequence[Sample], metric: str, seed: int) -> Difference | None:
    """Return the best value less the present one over the items that have both, matched by their ids."""
    items, before = share_items([now, best])
    values = lay_out_outcomes([items, before], [metric]).get(metric)
    if values is None:
        return None
    complete = ~np.isnan(values).any(axis=1)
    clusters = np.array([sample.cluster for sample in items])[complete]
    of_now, of_best = values[complete].T
    return paired(of_now, of_best, clusters, seed=seed).difference if complete.any() else None


def sort_points(checkpoints: Sequence[Checkpoint]) -> dict[str, list[FollowedPoint]]:
    """Return the points of each benchmark with their steps: the names' last numbers, or 1, 2, 3 if two share one."""
    numbers = [int(digits[-1]) for checkpoint in checkpoints if (digits := re.findall("[0-9]+", checkpoint.name))]
    steps = numbers if len(set(numbers)) == len(checkpoints) else range(1, len(checkpoints) + 1)
    names = dict.fromkeys(name for checkpoint in checkpoints for name in checkpoint.points)
    return {
        name: [
            replace(checkpoint.points[name], step=step)
            for step, checkpoint in zip(steps, checkpoints, strict=True)
            if name in checkpoint.points
        ]
        for name in names
    }


def choose_shown(checkpoints: list[Checkpoint]) -> list[str]:
    """Return the folders of the checkpoints whose items a page shows: the first, each benchmark's best, the last."""
    shown = {checkpoint.name for checkpoint in checkpoints[:1] + checkpoints[-1:]}
    shown |= {points[-1].best for points in sort_points(checkpoints).values()}
    return [checkpoint.folder for checkpoint in checkpoints if checkpoint.name in shown]


def draw_points(benchmark: str, points: Sequence[FollowedPoint]) -> LineChart:
    """Draw the checkpoints of one benchmark."""
    values, metric = {point.checkpoint: 100 * point.value.value for point in points}, points[0].metric
    lines = {
        metric: [(point.step, values[point.checkpoint]) for point in points],
        "best so far": [(point.step, values[point.best]) for point in points],
    }
    bounds = ((point.step, point.value.low, point.value.high) for point in points)
    ranges = [(step, 100 * low, 100 * high) for step, low, high in bounds if low is not None and high is not None]
    return LineChart(f"{benchmark}: {metric}, %, and its 95 % interval", "checkpoint", lines, ranges=ranges)


def followed_rows(folder: Path) -> list[dict[str, Any]]:
    """Return the checkpoints of a training's run folder as rows for JSON, benchmark by benchmark; else no row."""
    return [
        {"benchmark": benchmark, **asdict(point), "value": point.value.model_dump(mode="json")}
        for benchmark, points in sort_points(read_checkpoints(folder)).items()
        for point in points
    ]
