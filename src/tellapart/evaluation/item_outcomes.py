"""Outcomes of the same items under many systems: from runs, and from files of scores or predictions made elsewhere."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tellapart.benchmarks.find import find_benchmark, set_name
from tellapart.benchmarks.locations import Locations
from tellapart.data.prediction_field import PREDICTION, watch_field
from tellapart.data.rows import read_csv
from tellapart.data.scores import ScoreKind, join_names
from tellapart.errors import DataError, RunError, nearest, quote
from tellapart.evaluation.evaluate import Prepared, prepare_listed, yield_samples
from tellapart.evaluation.systems import (
    KeyedSamples,
    System,
    check_items,
    is_testable,
    key_samples,
    label_runs,
    match_benchmarks,
    read_same_items,
    refuse_imported,
)
from tellapart.records.result import Sample, is_imported
from tellapart.tasks.registry import headline, main_metric
from tellapart.tasks.task import Units


@dataclass(frozen=True, slots=True, eq=False)
class ItemOutcomes:
    """The outcomes of one metric on the same items under several systems.

    Attributes:
        systems: their names.
        items: one of each, for ids, clusters, tags, images and texts; its scores are the first system's.
        values: float64 `(item, system)`, 1 is right.
        unmeasured: items left out because a system has no value of them.
        limited_from: the benchmark's full number of items, if the runs measured a part of them.
        fields: of systems that come from files: the field that each was read from.
    """

    benchmark: str
    metric: str
    systems: tuple[str, ...]
    items: tuple[Sample, ...]
    values: NDArray[np.float64]
    unmeasured: int = 0
    limited_from: int | None = None
    fields: Mapping[str, str] = field(default_factory=dict)

    @property
    def clusters(self) -> list[str] | None:
        """The items' clusters; None if each item is one."""
        names = [item.cluster for item in self.items]
        return names if len(set(names)) < len(names) else None


@dataclass(frozen=True, slots=True)
class _System:
    """One system's samples, and the place that errors name."""

    name: str
    place: Path
    samples: KeyedSamples
    limited_from: int | None = None
    field: str = ""


def read_outcomes(
    runs: Sequence[System],
    files: Sequence[Path] = (),
    *,
    benchmark: str | None = None,
    metric: str | None = None,
    without: Sequence[str] = (),
    kind: ScoreKind | None = None,
    place: Locations | None = None,
) -> ItemOutcomes:
    """Read the outcomes of the same items under runs, and under systems that files of scores come from.

    A file's system is named as the file. The column `prediction` of `place` is the files' field of predictions.
    """
    names = [run.label for run in runs] + [path.stem for path in files]
    if unknown := [name for name in without if name not in names]:
        hint = nearest(unknown[0], names) or ";"
        raise RunError(f"without={quote(unknown[0])}: no system has that name{hint} there are {join_names(names)}")
    runs = [run for run in runs if run.label not in without]
    files = [path for path in files if path.stem not in without]
    typed = benchmark or _shared_name(runs)
    name = set_name(typed)  # as runs hold it
    systems = _read_runs(runs, name) + _read_files(files, typed, kind, place)
    if not systems:
        raise RunError("no system is left: name run folders, or files with scores=")
    for other in systems[1:]:
        check_items(name, systems[0].place, systems[0].samples, other.place, other.samples)
    outcome = _choose_metric(systems, name, metric)
    keys = [key for key, sample in systems[0].samples.items() if outcome in sample.outcomes]
    values = np.array(
        [[system.samples[key].outcomes.get(outcome, np.nan) for system in systems] for key in keys], np.float64
    )
    measured: NDArray[np.bool_] = np.asarray(~np.isnan(values).any(axis=1))
    return ItemOutcomes(
        benchmark=name,
        metric=outcome,
        systems=tuple(label_runs([system.name for system in systems])),
        items=tuple(systems[0].samples[key] for key, complete in zip(keys, measured, strict=True) if complete),
        values=values[measured],
        unmeasured=int((~measured).sum()),
        limited_from=systems[0].limited_from,
        fields={system.name: system.field for system in systems if system.field},
    )


def list_score_files(paths: Sequence[Path]) -> list[Path]:
    """Return files of scores: those named, and those of folders that are named, by name."""
    files: list[Path] = []
    for path in paths:
        if not path.exists():
            raise RunError(f"scores={path}: no such file or folder")
        inside = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES) if path.is_dir() else [path]
        if not inside:
            raise RunError(f"scores={path}: the folder holds no file of {', '.join(_SUFFIXES)}")
        files += inside
    return files


#: Of files of scores and of predictions.
_SUFFIXES = (".npz", ".npy", ".csv", ".jsonl", ".json")


def name_family(system: str) -> str:
    """Return the family that a system's name begins with: its letters before the first other character.

    >>> name_family("clip_l14-336"), name_family("open_clip:ViT-B-32/openai"), name_family("blip")
    ('clip', 'open', 'blip')
    """
    return re.split(r"[^A-Za-z]", system, maxsplit=1)[0].lower() or system


def read_families(path: Path, systems: Sequence[str]) -> list[str]:
    """Read each system's family from a CSV file with the columns `system` and `family`; others may be there."""
    try:
        rows = list(read_csv(path))
    except DataError as error:
        raise RunError(f"family={str(path)!r}: cannot be read ({error}); give a CSV file, or 'name'") from error
    if not rows or not {"system", "family"} <= rows[0][1].keys():
        raise RunError(f"family={str(path)!r}: the first line must name the columns system and family")
    of: dict[str, str] = {}
    for line, row in rows:
        if row["system"] in of:
            raise RunError(f"{path}:{line}: system {quote(row['system'])} comes twice")
        of[row["system"]] = row["family"]
    if missing := [name for name in systems if not of.get(name)]:
        raise RunError(f"{path} has no family of {join_names(missing)}; add a line for each system")
    return [of[name] for name in systems]


def _shared_name(runs: Sequence[System]) -> str:
    """Return the name of the benchmark that all runs share."""
    if not runs:
        raise RunError("files of scores do not name their benchmark; give benchmark=NAME")
    for run in runs:
        if all(is_imported(record) for record in run.result.benchmarks.values()):
            refuse_imported(run.place, run.result.benchmarks)
    matched = match_benchmarks([run.result for run in runs])
    shared = [name for name, listed in matched.items() if len(listed) == len(runs)]
    records = [{name: run.record(matched[name][number]) for name in shared} for number, run in enumerate(runs)]
    measured = [name for name in shared if not any(is_imported(each[name]) for each in records)]
    shared = measured or shared
    if len(shared) != 1:
        listed = join_names(shared or list(matched))
        problem = (
            f"the runs share {listed}; name one"
            if shared
            else f"the runs share no benchmark, but hold {listed}; name one"
        )
        raise RunError(f"{problem} with benchmark=NAME")
    return shared[0]


def _read_runs(runs: Sequence[System], name: str) -> list[_System]:
    matches = match_benchmarks([run.result for run in runs])
    matched = matches.get(name, {})
    if lacking := [run.label for number, run in enumerate(runs) if number not in matched]:
        raise RunError(
            f"{join_names(lacking)} did not measure {quote(name)}; leave out those runs, or name another set with "
            f"benchmark=: the runs hold {join_names(list(matches))}"
        )
    keyed = read_same_items(name, runs, matched)
    return [
        _System(run.label, run.folders[matched[number]], keyed[number], run.record(matched[number]).limited_from)
        for number, run in enumerate(runs)
    ]


def _read_files(files: Sequence[Path], name: str, kind: ScoreKind | None, place: Locations | None) -> list[_System]:
    if not files:
        return []
    ready = prepare_listed(find_benchmark(name, place))
    field_name = dict((place or Locations()).columns).get(PREDICTION, "")
    return [_measure_file(ready, path, kind, field_name) for path in files]


def _measure_file(ready: Prepared, path: Path, kind: ScoreKind | None, field_name: str) -> _System:
    task = ready.task
    read = partial(task.read, kind=kind) if task.kinds else task.read
    with watch_field(field_name) as watched:
        predictions = read(path, ready.records)
    watched.expect_used(path)
    samples = key_samples(
        sample for units in task.measure(ready.records, predictions) for sample in yield_samples(_without_scores(units))
    )
    return _System(path.stem, path, samples, field=watched.stated)


def _without_scores(units: Units) -> Units:
    """Return units without scores and outputs, which item analysis does not look at."""
    return replace(units, units=tuple(replace(unit, scores=(), output=None) for unit in units.units))


def _choose_metric(systems: Sequence[_System], benchmark: str, metric: str | None) -> str:
    """Return the metric by which items are right or wrong: one that each system has of some item."""
    of_all = [
        dict.fromkeys(name for sample in system.samples.values() for name in sample.outcomes) for system in systems
    ]
    names = [name for name in of_all[0] if is_testable(name) and all(name in other for other in of_all)]
    chosen = metric or main_metric(headline(names)) or next(iter(names), None)
    if chosen is None:
        raise RunError(f"{benchmark}: no metric is right or wrong of an item in all of the systems")
    if chosen not in names:
        hint = nearest(chosen, names) or ";"
        raise RunError(
            f"metric={quote(chosen)}: not one of an item's outcomes on {benchmark}{hint} there are {join_names(names)}"
        )
    return chosen
