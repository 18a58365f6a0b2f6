"""A run: models by benchmarks, into a run folder that an interruption leaves complete up to its last benchmark.

The first model is the run's subject and its record lies in the folder itself; further models are measured beside it,
each in its own run folder under `beside/`.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.locations import Locations
from tellapart.catalog import DEFAULT_MODEL, REFERENCES
from tellapart.data.progress import Progress
from tellapart.data.scores import ScoreKind
from tellapart.errors import RunError
from tellapart.evaluation.evaluate import (
    Evaluation,
    Prepared,
    chosen,
    evaluate,
    evaluate_predictions,
    plan,
    prepare,
    prepare_listed,
)
from tellapart.models.deferred import Deferred, find_deferred
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import Model
from tellapart.models.store import EmbeddingStore
from tellapart.records.result import ModelRecord, Result, RunRecord
from tellapart.records.run_folder import RESULTS, beside, read_result, write_result, write_samples

__all__ = ["Settings", "distinct_names", "expect_distinct", "resolve", "run", "run_record", "run_scores"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a run.

    Attributes:
        limit: a number or a share of items; None for all.
        batch_size: images, texts or pairs encoded together, what suits the model and its device if None; changes no
            number.
        device: `cpu`, `cuda` or `mps`.
        dtype: what torch models compute in; their scores are float32 always.
        reading: which of a model's readings is scored; the family's own if None.
        regions: a file of regions that a detector found, for models that read those.
        seed: of the bootstrap and of models that draw.
        place: where the benchmarks' files are.

    >>> Settings().benchmarks
    ('demo',)
    """

    models: tuple[str, ...] = (DEFAULT_MODEL, *REFERENCES)
    benchmarks: tuple[str, ...] = ("demo",)
    limit: str | None = None
    batch_size: int | None = None
    device: str = "cpu"
    dtype: str = "float32"
    reading: str | None = None
    regions: Path | None = None
    seed: int = 0
    place: Locations = field(default_factory=Locations)


def run(
    settings: Settings,
    out: Path,
    *,
    store: EmbeddingStore,
    command: str = "",
    progress: Callable[[str], Progress] | None = None,
) -> list[Path]:
    """Measure every model on every benchmark; the record is written after each.

    A benchmark that the folder holds already, made by the same model with the same settings on the same content, is
    not measured again.

    Args:
        settings: what to measure.
        out: the run folder.
        store: of embeddings.
        command: the command line, for the record.
        progress: takes "model on benchmark" to the callback for its progress.

    Returns:
        The run folders, the subject's first.

    Raises:
        TellapartError: a name is unknown, a file is not what it must be, or the folder holds another run. Nothing is
            computed before every name is resolved and every combination is known to be defined.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as scratch:
    ...     settings = Settings(models=("oracle",), limit="3")
    ...     folders = run(settings, Path(scratch), store=EmbeddingStore(None))
    ...     read_result(folders[0]).benchmarks["demo"].metrics["text_score"].value
    1.0
    """
    benchmarks, models = resolve(settings, store)
    records = _records(models, settings)
    folders = [out, *(beside(out, record.name) for record in records[1:])]
    circumstances = run_record(seed=settings.seed, command=command, settings=settings, place=settings.place)
    results = [_begin(folder, record, circumstances) for folder, record in zip(folders, records, strict=True)]
    for benchmark in benchmarks:
        ready = prepare(benchmark, store=store, limit=settings.limit)
        for row, (model, folder) in enumerate(zip(models, folders, strict=True)):
            report = progress(f"{records[row].name} on {benchmark.name}") if progress else None
            results[row] = _advance(results[row], model, ready, folder, report)
    return folders


def resolve(settings: Settings, store: EmbeddingStore) -> tuple[list[Benchmark], list[Model | Deferred]]:
    """Find every benchmark and every model by name, and refuse what is not defined before anything is computed.

    Raises:
        TellapartError: a name is unknown or repeated, a benchmark's files are missing, the limit is none, or a
            model cannot do a benchmark.
    """
    benchmarks = [find_benchmark(name, settings.place) for name in expect_distinct(settings.benchmarks, "-b")]
    options = ModelOptions(
        device=settings.device,
        seed=settings.seed,
        dtype=settings.dtype,
        reading=settings.reading,
        regions=settings.regions,
    )
    models = [find_deferred(name, options, store) for name in expect_distinct(settings.models, "-m")]
    chosen(1, settings.limit)
    for model in models:
        for benchmark in benchmarks:
            plan(model, benchmark)
    return benchmarks, models


def distinct_names(own: Sequence[str], typed: Sequence[str]) -> list[str]:
    """Name each model as it names itself, or as the user did where two would share a name (two checkpoints of one)."""
    return [typed_name if own.count(name) > 1 else name for name, typed_name in zip(own, typed, strict=True)]


def _records(models: Sequence[Model], settings: Settings) -> list[ModelRecord]:
    names = distinct_names([model.name for model in models], settings.models)
    return [
        ModelRecord(
            name=name,
            fingerprint=model.fingerprint,
            kind=model.kind,
            dtype=None if settings.dtype == "float32" else settings.dtype,
            reading=settings.reading,
            prompt=getattr(getattr(model, "prompt", None), "label", None),
        )
        for name, model in zip(names, models, strict=True)
    ]


def run_scores(
    benchmark: str,
    scores: Path,
    out: Path,
    *,
    kind: ScoreKind | None = None,
    name: str | None = None,
    seed: int = 0,
    command: str = "",
    place: Locations | None = None,
) -> Path:
    """Measure a file of scores or predictions that were made elsewhere, into a run folder of its own.

    Args:
        benchmark: its name.
        scores: a `.npz`, `.csv` or `.jsonl` file; for tasks what `tellapart export` writes, filled in.
        out: the run folder, which is returned.
        kind: of the scores; by default the file's own, or else a similarity.
        name: the model's, for results; the file's by default.
        seed: of the bootstrap.
        command: the command line, for the record.
        place: the folders of the benchmark's files: ids and tags, and the report's captions and images.

    Raises:
        TellapartError: the file is not what its format says or does not fit the benchmark, or the folder holds
            another run.
    """
    ready = prepare_listed(find_benchmark(benchmark, place))
    read = partial(ready.task.read, kind=kind) if ready.task.kinds else ready.task.read
    predictions = read(scores, ready.records)
    record = _record_of_file(scores, name, ready.task.kind_of(predictions))
    result = _begin(out, record, run_record(seed=seed, command=command, place=ready.benchmark.place))
    evaluation = evaluate_predictions(ready, predictions, origin=str(scores), seed=seed)
    _keep(out, result, ready.benchmark.name, evaluation)
    return out


def _record_of_file(path: Path, name: str | None, kind: ScoreKind | None) -> ModelRecord:
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    return ModelRecord(name=name or path.stem, fingerprint=f"scores-{digest}", kind=kind)


#: What the model families compute with, where it is installed.
_OPTIONAL = ("torch", "torchvision", "transformers", "open_clip_torch", "tokenizers")
_ABSENT = "not installed"


def run_record(
    *, seed: int, command: str, settings: Settings | None = None, place: Locations | None = None
) -> RunRecord:
    """Describe the circumstances of a run that starts now."""
    return RunRecord(
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        seed=seed,
        command=command,
        versions={
            "python": platform.python_version(),
            **{name: _version(name) for name in ("tellapart", "numpy", "scipy", "pillow", "onnxruntime")},
            **{name: installed for name in _OPTIONAL if (installed := _version(name)) != _ABSENT},
        },
        batch_size=settings.batch_size if settings else None,
        device=settings.device if settings else None,
        limit=settings.limit if settings else None,
        data=_absolute(place.data) if place else None,
        images=_absolute(place.images) if place else None,
    )


def _absolute(folder: Path | None) -> str | None:
    return None if folder is None else str(folder.expanduser().resolve())


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return _ABSENT


def expect_distinct(names: Sequence[str], option: str) -> Sequence[str]:
    """Return the names that an option was given.

    Raises:
        RunError: one of them is repeated.
    """
    if repeated := {name for name in names if names.count(name) > 1}:
        raise RunError(f"{option} {min(repeated)} is named twice; name each once")
    return names


def _begin(folder: Path, model: ModelRecord, run: RunRecord) -> Result:
    """Take up the folder's record, or start one; another run's record is refused before anything is computed."""
    if not (folder / RESULTS).exists():
        _expect_writable(folder)
        return Result(run=run, model=model, benchmarks={})
    old = read_result(folder)
    now, then = _identity(model, run), _identity(old.model, old.run)
    if differing := [f"{key} was {then[key]}, now {now[key]}" for key in now if now[key] != then[key]]:
        raise RunError(f"{folder} holds another run ({'; '.join(differing)}); name another --out, or delete it")
    return old


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
        "weights": model.fingerprint,
        "kind of score": model.kind,
        "seed": run.seed,
        "limit": run.limit,
        "device": run.device,
        "reading": model.reading,
    }


def _advance(result: Result, model: Model, ready: Prepared, folder: Path, progress: Progress | None) -> Result:
    """Measure one benchmark and keep it, unless the record holds it already."""
    finished = result.benchmarks.get(ready.benchmark.name)
    if finished is None:
        run = result.run
        evaluation = evaluate(model, ready, batch_size=run.batch_size, seed=run.seed, progress=progress)
        return _keep(folder, result, ready.benchmark.name, evaluation)
    if finished.fingerprint != ready.fingerprint:
        raise RunError(f"{folder} holds {ready.benchmark.name} with other content; name another --out, or delete it")
    return result


def _keep(folder: Path, result: Result, benchmark: str, evaluation: Evaluation) -> Result:
    # The samples first: a record never names a benchmark whose samples are not there.
    write_samples(folder, benchmark, evaluation.samples)
    result = result.model_copy(update={"benchmarks": {**result.benchmarks, benchmark: evaluation.result}})
    write_result(folder, result)
    return result
