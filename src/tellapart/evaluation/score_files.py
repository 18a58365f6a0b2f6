"""Measure a model from files of scores or predictions that were made elsewhere, one file for each benchmark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.locations import Locations
from tellapart.data.answer_text import Thoughts, count_thoughts
from tellapart.data.prediction_field import PREDICTION, PredictionField, watch_field
from tellapart.data.progress import Progress
from tellapart.data.scores import ScoreKind, note_spread
from tellapart.errors import RunError
from tellapart.evaluation.evaluate import Prepared, evaluate_predictions, prepare_listed
from tellapart.evaluation.resume import keep, take_up
from tellapart.evaluation.run import run_record
from tellapart.models.scoring.score import Scored
from tellapart.records.result import BenchmarkResult, Located, ModelRecord
from tellapart.records.run_folder import locate


@dataclass(frozen=True, slots=True)
class _ScoreFile:
    """A file that was read, and the prepared benchmark that it belongs to."""

    ready: Prepared
    predictions: Any
    path: Path
    located: Located
    thoughts: Thoughts
    field: PredictionField


def run_scores(
    files: Mapping[str | Benchmark, Path],
    out: Path,
    *,
    kind: ScoreKind | None = None,
    name: str | None = None,
    seed: int = 0,
    command: str = "",
    strict: bool = False,
    place: Locations | None = None,
    progress: Callable[[str], Progress] | None = None,
) -> Path:
    """Measure a model from its files and write one run folder; a later call can add files of further benchmarks.

    Every file is read before anything is written. A benchmark that the folder already holds, from the same file, is
    not measured again. A file is `.npz`, `.csv` or `.jsonl`, of tasks that of `tellapart export`, filled in. Its name
    is the model's by default, and the kind of its scores is the one that it states, or else similarity.
    """
    if name is None and len(files) != 1:
        named = ", ".join(file if isinstance(file, str) else file.name for file in files)
        raise RunError(f"scores= of {named or 'no benchmark'}: name their model with name=")
    model = ModelRecord(name=name or next(iter(files.values())).stem)
    found = ((find_benchmark(each, place) if isinstance(each, str) else each, path) for each, path in files.items())
    score_files = [_read_file(benchmark, path, out, kind, strict, place) for benchmark, path in found]
    with take_up(out, model, run_record(out, seed=seed, command=command, place=place)) as held:
        result = held
        for score_file in score_files:
            benchmark = score_file.ready.benchmark
            if (known := result.benchmarks.get(benchmark.name)) is not None:
                _expect_same(out, benchmark.name, known, score_file)
                continue
            origin = str(score_file.path.resolve())
            read = score_file.predictions
            notes = note_spread([read.scores]) if isinstance(read, Scored) else ()
            evaluation = evaluate_predictions(
                score_file.ready,
                read,
                origin=origin,
                seed=seed,
                thoughts=score_file.thoughts,
                notes=notes,
                progress=progress(f"{model.name} on {benchmark.name}") if progress else None,
            )
            measured = evaluation.result.model_copy(update={"field": score_file.field.stated})
            evaluation = replace(evaluation, result=measured)
            result = keep(out, result, benchmark, evaluation, score_file.located)
    return out


def _read_file(
    benchmark: Benchmark, path: Path, out: Path, kind: ScoreKind | None, strict: bool, place: Locations | None
) -> _ScoreFile:
    ready = prepare_listed(benchmark, strict=strict)
    read_predictions = partial(ready.task.read, kind=kind) if ready.task.kinds else ready.task.read
    with count_thoughts() as thoughts, watch_field(dict((place or Locations()).columns).get(PREDICTION, "")) as field:
        predictions = read_predictions(path, ready.records)
    field.expect_used(path)
    return _ScoreFile(ready, predictions, path, locate(path, out, hashed=True), thoughts, field)


def _expect_same(out: Path, name: str, known: BenchmarkResult, score_file: _ScoreFile) -> None:
    if known.fingerprint != score_file.ready.fingerprint:
        raise RunError(f"{out} holds {name} with other content; name another out=, or delete it")
    before = known.file.sha256 if known.file else ""
    kind, field = score_file.ready.task.kind_of(score_file.predictions), score_file.field
    if (before, known.kind, known.field) != (score_file.located.sha256, kind, field.stated):
        raise RunError(
            f"{out} holds {name} measured from another file or field ({known.origin}, {known.field!r}); name another "
            "out=, or delete it"
        )
