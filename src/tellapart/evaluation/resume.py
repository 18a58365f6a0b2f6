"""The record of a run folder, taken up where it stands: one model, each benchmark written as soon as it is measured."""

from __future__ import annotations

import os
from pathlib import Path

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.errors import RunError
from tellapart.evaluation.evaluate import Evaluation
from tellapart.records.result import Located, ModelRecord, Result, RunRecord
from tellapart.records.run_folder import RESULTS, locate, read_result, write_result, write_samples

__all__ = ["keep", "take_up"]


def take_up(folder: Path, model: ModelRecord, run: RunRecord) -> Result:
    """Read the folder's record, or start one; another run's record is refused before anything is computed.

    Raises:
        RunError: the folder holds another model's run, or one with other settings, or cannot be written.
    """
    if not (folder / RESULTS).exists():
        _expect_writable(folder)
        return Result(run=run, model=model, benchmarks={})
    old = read_result(folder)
    now, then = _identity(model, run), _identity(old.model, old.run)
    if differing := [f"{key} was {then[key]}, now {now[key]}" for key in now if now[key] != then[key]]:
        hint = "name another --out, or delete it"
        if not model.fingerprint and not old.model.fingerprint and len(differing) == 1:
            hint = f"if this is the same model, say --name {old.model.name!r}; else name another --out"
        raise RunError(f"{folder} holds another run ({'; '.join(differing)}); {hint}")
    return old


def keep(
    folder: Path, result: Result, benchmark: Benchmark, evaluation: Evaluation, file: Located | None = None
) -> Result:
    """Write a benchmark's samples and its part of the record; return the record.

    Raises:
        RunError: they cannot be written.
    """
    own = None if benchmark.own is None else locate(benchmark.own, folder)
    record = evaluation.result.model_copy(update={"own": own, "file": file})
    # The samples first: a record never names a benchmark whose samples are not there.
    write_samples(folder, benchmark.name, evaluation.samples)
    result = result.model_copy(update={"benchmarks": {**result.benchmarks, benchmark.name: record}})
    write_result(folder, result)
    return result


def _expect_writable(folder: Path) -> None:
    """Refuse a folder that cannot be made or written: better now than after an hour. Nothing is made yet."""
    nearest = next(each for each in (folder, *folder.parents) if each.exists())
    if not nearest.is_dir():
        raise RunError(f"cannot write to {folder}: {nearest} is no folder; name another --out")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise RunError(f"cannot write to {folder}: {nearest} may not be written; name another --out")


def _identity(model: ModelRecord, run: RunRecord) -> dict[str, object]:
    """Return what must agree for two runs to be one: everything that may move a number."""
    return {
        "model": model.name,
        "weights": model.fingerprint or "computed elsewhere",
        "kind of score": model.kind,
        "seed": run.seed,
        "limit": run.limit,
        "device": run.device,
        "reading": model.reading,
    }
