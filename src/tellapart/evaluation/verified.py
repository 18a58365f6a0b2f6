"""A run's record as its samples give it: numbers that no checksum vouches for are measured again when they are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tellapart.data.arguments import as_path
from tellapart.errors import RunError
from tellapart.metrics.tabulate import Tabulated
from tellapart.metrics.ties import tied_comparisons
from tellapart.records.result import BenchmarkResult, Result, Sample, Value
from tellapart.records.run_folder import read_stored
from tellapart.records.samples import read_samples, samples_path
from tellapart.records.zipped import unpacked

#: The fields of a number that the samples give; those of its interval follow the method.
_FIELDS = ("value", "n", "clusters", "ties", "tie_neutral", "official", "chance", "effective", "sd", "mean_absolute")
_BOUNDS = ("low", "high", "level")

#: Two computations of one number may differ so much on two machines.
_ROUNDING = 1e-9


def read_result(folder: Path | str) -> Result:
    """Read the record of a run folder, or of a zip archive of one.

    Without a checksum, every number is measured again from the samples. Numbers that the samples do not give are then
    left out, and a note in the record names them.

    Raises:
        RunError: no such folder or record, a record of another schema, one that does not follow the schema, a wrong
            checksum, or none and no samples to measure.

    >>> from tellapart.evaluation.run import EmbeddingStore, Settings, run
    >>> folder = getfixture("tmp_path") / "oracle"
    >>> _ = run(Settings(models=("oracle",), limit="3"), folder, store=EmbeddingStore(None))
    >>> read_result(folder).benchmarks["demo"].metrics["group_score"].value
    1.0
    """
    with unpacked([as_path(folder, "folder")]) as (run,):
        stored = read_stored(run)
        if stored.checksum == "right":
            return stored.result
        again = {name: _measure_record(run, stored.result, name) for name in stored.result.benchmarks}
        return stored.result.model_copy(update={"benchmarks": again})


def _measure_record(folder: Path, result: Result, name: str) -> BenchmarkResult:
    from tellapart.evaluation.evaluate import remeasure_samples  # with tasks, which most readers do not need

    record = result.benchmarks[name]
    try:
        samples = read_samples(folder, name, record)
        measured = remeasure_samples(name, record, samples, seed=result.run.seed)
    except RunError as error:
        raise RunError(
            f"{folder}: the record has no checksum, and its numbers of {name} are not verified: {error}"
        ) from error
    if moved := count_moved(samples, measured.outcomes):
        raise RunError(
            f"{samples_path(folder, name)}: the outcomes of {moved} of {len(samples)} items do not follow from their "
            "scores, and the record has no checksum; measure the run again, or copy the folder again"
        )
    table = measured.table
    stated, recomputed = list_numbers(record), list_numbers(table)
    partly = record.shape is None
    both = stated.keys() & recomputed.keys()
    changed = [key for key in both if differing_fields(stated[key], recomputed[key], partly=partly)]
    missing = list(dict.fromkeys(metric for *_, metric in stated.keys() - recomputed.keys()))
    note = f"the record has no checksum: its numbers were measured again from its samples, and {len(changed)} differed"
    if missing:
        note += f"; not verified, and left out: {', '.join(sorted(missing))}"
    return record.model_copy(
        update={
            **{part: getattr(table, part) for part in ("metrics", "by", "macro", "curves")},
            **_count_ties(record, table, samples),
            "notes": (*record.notes, note),
        }
    )


def _count_ties(record: BenchmarkResult, table: Tabulated, samples: Sequence[Sample]) -> dict[str, int]:
    if record.shape is None:
        return {"tied_items": max((metric.ties for metric in table.metrics.values()), default=0), "tied_comparisons": 0}
    tied = tied_comparisons(np.array([sample.scores for sample in samples], np.float32), record.true)
    return {"tied_items": int((tied > 0).sum()), "tied_comparisons": int(tied.sum())}


def count_moved(samples: Sequence[Sample], outcomes: Mapping[str, Sequence[float]]) -> int:
    """Count the items whose outcomes are not those that were measured."""
    rows = [[sample.outcomes.get(name) != values[row] for name, values in outcomes.items()]
            for row, sample in enumerate(samples)]  # fmt: skip
    return sum(map(any, rows))


def list_numbers(table: BenchmarkResult | Tabulated) -> dict[tuple[str, str, str], Value]:
    """List every number: (tag, the tag's value, metric) -> it; of all items the tag is empty, of a macro the value."""
    parts = {("", ""): table.metrics}
    parts |= {(tag, value): one.metrics for tag, groups in table.by.items() for value, one in groups.items()}
    parts |= {(tag, ""): one.metrics for tag, one in table.macro.items()}
    return {(*part, metric): value for part, metrics in parts.items() for metric, value in metrics.items()}


def differing_fields(stated: Value, measured: Value, *, partly: bool = False) -> list[str]:
    """List the fields in which a number and the same number measured again differ.

    Bounds are compared if both intervals are of one method.
    """
    fields = (*_FIELDS, *(_BOUNDS if stated.method == measured.method else ()))
    return [
        name
        for name in fields
        if not (partly and getattr(measured, name) is None) and _differ(getattr(stated, name), getattr(measured, name))
    ]


def _differ(stated: float | None, measured: float | None) -> bool:
    if stated is None or measured is None:
        return stated is not measured
    return not abs(stated - measured) <= _ROUNDING * max(1.0, abs(measured))
