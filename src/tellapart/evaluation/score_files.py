"""Files of scores or predictions that were made elsewhere: evidence for a named model, on any number of benchmarks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.locations import Locations
from tellapart.data.scores import ScoreKind
from tellapart.errors import RunError
from tellapart.evaluation.evaluate import Prepared, evaluate_predictions, prepare_listed
from tellapart.evaluation.resume import keep, take_up
from tellapart.evaluation.run import run_record
from tellapart.records.result import BenchmarkResult, Located, ModelRecord
from tellapart.records.run_folder import locate

__all__ = ["run_scores"]


@dataclass(frozen=True, slots=True)
class _ScoreFile:
    """A file that was read, and the benchmark that it is of."""

    ready: Prepared
    predictions: Any
    path: Path
    located: Located


def run_scores(
    files: Mapping[str, Path],
    out: Path,
    *,
    kind: ScoreKind | None = None,
    name: str | None = None,
    seed: int = 0,
    command: str = "",
    strict: bool = False,
    place: Locations | None = None,
) -> Path:
    """Measure files of one model into one run folder; the files of a later call join them there.

    Every file is read before anything is written. A benchmark that the folder holds already, from the same file, is
    not measured again.

    Args:
        files: benchmark -> its file: `.npz`, `.csv` or `.jsonl`; for tasks the file of `tellapart export`, filled in.
        out: the run folder, which is returned.
        kind: of the scores; by default as in each file, or else a similarity.
        name: the model's; a single file's name by default.
        seed: of the bootstrap.
        command: the command line, for the record.
        strict: refuse files of a benchmark that do not hold its records as published.
        place: the folders of the benchmarks' files: ids and tags, and the report's captions and images.

    Raises:
        TellapartError: a file is malformed or does not fit its benchmark, several files name no
            model, or the folder holds another run.
    """
    if name is None and len(files) != 1:
        raise RunError(f"scores= of {', '.join(files) or 'no benchmark'}: name their model with name=")
    model = ModelRecord(name=name or next(iter(files.values())).stem)
    read = [_read_file(find_benchmark(benchmark, place), path, out, kind, strict) for benchmark, path in files.items()]
    with take_up(out, model, run_record(out, seed=seed, command=command, place=place)) as held:
        result = held
        for each in read:
            benchmark = each.ready.benchmark
            if (known := result.benchmarks.get(benchmark.name)) is not None:
                _expect_same(out, benchmark.name, known, each)
                continue
            origin = str(each.path.resolve())
            evaluation = evaluate_predictions(each.ready, each.predictions, origin=origin, seed=seed)
            result = keep(out, result, benchmark, evaluation, each.located)
    return out


def _read_file(benchmark: Benchmark, path: Path, out: Path, kind: ScoreKind | None, strict: bool) -> _ScoreFile:
    ready = prepare_listed(benchmark, strict=strict)
    read = partial(ready.task.read, kind=kind) if ready.task.kinds else ready.task.read
    return _ScoreFile(ready, read(path, ready.records), path, locate(path, out, hashed=True))


def _expect_same(out: Path, name: str, known: BenchmarkResult, each: _ScoreFile) -> None:
    if known.fingerprint != each.ready.fingerprint:
        raise RunError(f"{out} holds {name} with other content; name another out=, or delete it")
    before = known.file.sha256 if known.file else ""
    if (before, known.kind) != (each.located.sha256, each.ready.task.kind_of(each.predictions)):
        raise RunError(
            f"{out} holds {name} measured from another file ({known.origin}); name another out=, or delete it"
        )
