"""The curve of a training whose checkpoints were followed, kept with the SHA-256 of each record that it came from."""

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
    """One checkpoint on one benchmark: the best so far, and how much less this is on the same items, if another is."""

    checkpoint: str
    step: int
    metric: str
    value: Value
    best: str
    forgotten: Difference | None


class Checkpoint(Record):
    """One checkpoint of a run folder: its record's folder there and SHA-256, and its points by benchmark."""

    name: str
    folder: str
    sha256: str
    points: dict[str, FollowedPoint]


class _Curve(Record):
    checkpoints: tuple[Checkpoint, ...]


def find_training(folder: Path) -> Path | None:
    """Return the run folder of the training whose checkpoint lies in a folder; None if it is of another run."""
    outer = folder.parent.parent if folder.parent.name == BESIDE else folder
    return outer if (outer / FOLLOWED).is_file() else None


def read_checkpoints(folder: Path, *, keep: bool = False) -> list[Checkpoint]:
    """Return the checkpoints of a run folder, in the order of their numbers; none of other runs.

    The best is also the luckiest, so a small loss against it is expected. `keep` writes the points that are new.
    """
    if not (folder / FOLLOWED).is_file():
        return []
    digests = {}
    for run in find_runs(folder):
        record = read_whole(run / RESULTS, error=RunError)
        digests[run.relative_to(folder).as_posix()] = hashlib.sha256(record).hexdigest()
    kept: list[Checkpoint] = []  # none if one of their records is gone or changed, or the file is damaged
    with suppress(RunError):
        stored = read_record(folder / CURVE, _Curve, missing="none is kept", refusal="has no points").result.checkpoints
        kept = [*stored] if all(digests.get(each.folder) == each.sha256 for each in stored) else []
    results = {name: read_result(folder / name) for name in digests.keys() - {each.folder for each in kept}}
    if not results:
        return kept
    first = min(natural_key(result.model.name) for result in results.values())
    after = [each for each in kept if natural_key(each.name) > first]  # a new one may be the best of these
    results |= {each.folder: read_result(folder / each.folder) for each in after}
    checkpoints = _measure_points(folder, kept[: len(kept) - len(after)], results, digests)
    if keep:
        write_record(folder / CURVE, _Curve(checkpoints=tuple(checkpoints)))
    return checkpoints


def _measure_points(
    folder: Path, before: Sequence[Checkpoint], results: dict[str, Result], digests: dict[str, str]
) -> list[Checkpoint]:
    """Return the checkpoints that are known, and after them those of further records."""
    checkpoints = list(before)
    best = {name: each for each in before for name, point in each.points.items() if point.best == each.name}

    @cache
    def find_samples(place: str, benchmark: str) -> Sequence[Sample]:
        result = results.get(place) or read_result(folder / place)
        return read_samples(folder / place, benchmark, result.benchmarks[benchmark])

    for place, result in sorted(results.items(), key=lambda entry: natural_key(entry[1].model.name)):
        name, found = result.model.name, {}
        for benchmark, record in result.benchmarks.items():
            leader = best[benchmark].points[benchmark] if benchmark in best else None
            metric = leader.metric if leader else main_metric(shared_headline([record]))
            value = record.metrics[metric]
            if leader is None or value.value > leader.value.value:
                found[benchmark] = FollowedPoint(name, 0, metric, value, name, None)
                continue
            sides = (find_samples(best[benchmark].folder, benchmark), find_samples(place, benchmark))
            forgotten = _measure_loss(*sides, metric, result.run.seed)
            found[benchmark] = FollowedPoint(name, 0, metric, value, leader.checkpoint, forgotten)
        checkpoint = Checkpoint(name=name, folder=place, sha256=digests[place], points=found)
        checkpoints.append(checkpoint)
        best |= {benchmark: checkpoint for benchmark, point in found.items() if point.best == name}
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
    """Return the points of each benchmark, numbered."""
    numbers = [int(found[-1]) for each in checkpoints if (found := re.findall("[0-9]+", each.name))]
    steps = numbers if len(set(numbers)) == len(checkpoints) else range(1, len(checkpoints) + 1)
    names = dict.fromkeys(name for checkpoint in checkpoints for name in checkpoint.points)
    return {
        name: [
            replace(each.points[name], step=step)
            for step, each in zip(steps, checkpoints, strict=True)
            if name in each.points
        ]
        for name in names
    }


def choose_shown(checkpoints: list[Checkpoint]) -> list[str]:
    """Return the folders of the checkpoints whose items a page shows: the first, each benchmark's best, the last."""
    shown = {each.name for each in checkpoints[:1] + checkpoints[-1:]}
    shown |= {point[-1].best for point in sort_points(checkpoints).values()}
    return [checkpoint.folder for checkpoint in checkpoints if checkpoint.name in shown]


def draw_points(benchmark: str, found: Sequence[FollowedPoint]) -> LineChart:
    """Draw the checkpoints of one benchmark."""
    values, metric = {point.checkpoint: 100 * point.value.value for point in found}, found[0].metric
    lines = {
        metric: [(point.step, values[point.checkpoint]) for point in found],
        "best so far": [(point.step, values[point.best]) for point in found],
    }
    bounds = ((point.step, point.value.low, point.value.high) for point in found)
    ranges = [(step, 100 * low, 100 * high) for step, low, high in bounds if low is not None and high is not None]
    return LineChart(f"{benchmark}: {metric}, %, and its 95 % interval", "checkpoint", lines, ranges=ranges)


def followed_rows(folder: Path) -> list[dict[str, Any]]:
    """Return the checkpoints of a run folder as rows for JSON, benchmark by benchmark; none of other runs."""
    return [
        {"benchmark": benchmark, **asdict(point), "value": point.value.model_dump(mode="json")}
        for benchmark, found in sort_points(read_checkpoints(folder)).items()
        for point in found
    ]
