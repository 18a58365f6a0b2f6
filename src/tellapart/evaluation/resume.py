"""The record of a run folder, continued: one model, each benchmark written as soon as it is measured.

One process at a time has the folder: two that read its record and then wrote theirs would each lose the other's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.data.lock import drop_lock, holder_of, take_lock
from tellapart.data.validation import describe_changes
from tellapart.errors import RunError
from tellapart.evaluation.evaluate import Evaluation, Prepared
from tellapart.evaluation.verified import read_result
from tellapart.records.result import Located, ModelRecord, Result, RunRecord
from tellapart.records.run_folder import RESULTS, locate, write_result
from tellapart.records.samples import write_samples

#: The lock of a run folder, there while a process writes into the folder.
_LOCK = ".lock"


@contextmanager
def take_up(folder: Path, model: ModelRecord, run: RunRecord) -> Iterator[Result]:
    """Yield the folder's record, or a new one, and keep the folder for this process until the block ends.

    Another run's record is refused before anything is computed. A folder in which nothing was written is gone again.
    """
    _expect_writable(folder)
    new = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot write to {folder}: {error.strerror}; name another out=") from error
    try:
        with _hold_folder(folder):
            yield _read_or_begin(folder, model, run)
    finally:
        with suppress(OSError):  # it holds something
            for each in new:
                each.rmdir()


def look_up(folder: Path, model: ModelRecord, run: RunRecord) -> Result:
    """Return what `take_up` yields, and make and keep no folder; errors as there, but for another process."""
    _expect_writable(folder)
    return _read_or_begin(folder, model, run)


def holds(folder: Path, result: Result, ready: Prepared) -> bool:
    """Return whether a record in a folder has a benchmark; it is refused with other content."""
    finished = result.benchmarks.get(ready.benchmark.name)
    if finished is not None and finished.fingerprint != ready.fingerprint:
        raise RunError(f"{folder} holds {ready.benchmark.name} with other content; name another out=, or delete it")
    return finished is not None


def _read_or_begin(folder: Path, model: ModelRecord, run: RunRecord) -> Result:
    """Return the record in a folder, which must be of this run, or a new one."""
    if not (folder / RESULTS).exists():
        return Result(run=run, model=model, benchmarks={})
    expect_same_run(folder, old := read_result(folder), model, run)
    return old


@contextmanager
def _hold_folder(folder: Path) -> Iterator[None]:
    path = folder / _LOCK
    try:
        lock = take_lock(path)
    except OSError:  # nothing can be written here, which the first result reports, if there is one to write
        yield
        return
    if lock is None:
        raise RunError(
            f"process {holder_of(path)} is writing its run into {folder}; wait until it has ended, or name another out="
        )
    try:
        yield
    finally:
        drop_lock(path, lock)


def expect_same_run(folder: Path, old: Result, model: ModelRecord, run: RunRecord) -> None:
    """Refuse a folder whose record is of another model, or of other settings."""
    now, then = _describe_identity(model, run), _describe_identity(old.model, old.run)
    if differing := [key for key in now if now[key] != then[key]]:
        hint = "name another out=, or delete it"
        if not model.fingerprint and not old.model.fingerprint and len(differing) == 1:
            hint = f"if this is the same model, add name={old.model.name!r}; else name another out="
        raise RunError(f"{folder} holds another run ({describe_changes(then, now)}); {hint}")


def keep(
    folder: Path, result: Result, benchmark: Benchmark, evaluation: Evaluation, file: Located | None = None
) -> Result:
    """Write a benchmark's samples and its part of the record; return the record."""
    own = None if benchmark.own is None else locate(benchmark.own, folder, hashed=benchmark.own.suffix == ".py")
    # The samples first: a record never names a benchmark whose samples are not there.
    samples = write_samples(folder, benchmark.name, evaluation.yield_samples())
    record = evaluation.result.model_copy(update={"own": own, "file": file, "samples": samples})
    result = result.model_copy(update={"benchmarks": {**result.benchmarks, benchmark.name: record}})
    write_result(folder, result)
    return result


def _expect_writable(folder: Path) -> None:
    """Refuse a folder that cannot be made or written, unless it holds a run: better now than after an hour."""
    if (folder / RESULTS).exists():
        return
    nearest = next(each for each in (folder, *folder.parents) if each.exists())
    if not nearest.is_dir():
        raise RunError(f"cannot write to {folder}: {nearest} is not a folder; name another out=")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise RunError(f"cannot write to {folder}: {nearest} may not be written; name another out=")


def _describe_identity(model: ModelRecord, run: RunRecord) -> dict[str, object]:
    """Return the settings that must agree for two runs to be one: everything that may move a number."""
    return {
        "model": model.name,
        "weights": model.fingerprint or "computed elsewhere",
        "kind of score": model.kind,
        "seed": run.seed,
        "limit": run.limit,
        "check": run.check,
        "device": run.device,
        "reading": model.reading,
    }
