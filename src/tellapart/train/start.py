"""From a configuration to a run: everything is opened and checked before the first step."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from tellapart.data.pairset import PairSet
from tellapart.data.progress import Progress
from tellapart.evaluation.compare import Comparison
from tellapart.models.torch_backend import import_torch
from tellapart.records.machine import this_machine, versions
from tellapart.records.run_folder import write_whole
from tellapart.train.checkpoint import State, Weights, put_weights, weights_of, written
from tellapart.train.config import TrainConfig
from tellapart.train.contrastive import Contrastive
from tellapart.train.encoders import Trained
from tellapart.train.guard import guard
from tellapart.train.leaks import Leak, leaks, refuse
from tellapart.train.load_start import adapted, draw_start, open_start, relative
from tellapart.train.loop import Training, train
from tellapart.train.lora import with_directions
from tellapart.train.matching import Matching, is_matching
from tellapart.train.model_card import model_card
from tellapart.train.ranks import open_ranks
from tellapart.train.record import DataRecord, TrainRecord, write_record
from tellapart.train.rows import Rows, read_rows
from tellapart.train.run_files import RunFiles
from tellapart.train.trackers import tracked
from tellapart.train.validation import left_over, metric_of, validation_set
from tellapart.train.wise import Sweep, wise

__all__ = ["Finished", "start"]


@dataclass(frozen=True, slots=True)
class Finished:
    """What a training run left.

    Attributes:
        name: of the trained model, as `tellapart run -m` takes it.
        state: how it went.
        resumed: whether it went on from a checkpoint.
        comparison: with the start, on what is reported; None where nothing is.
        sweep: over weights between the two; None where none was asked for.
        record: what `record.json` holds; None on other ranks than the first.

    >>> Finished("local-dir:runs/a/model", State(step=2), False).state.step
    2
    """

    name: str
    state: State
    resumed: bool
    comparison: Comparison | None = None
    sweep: Sweep | None = None
    record: TrainRecord | None = None


@dataclass(frozen=True, slots=True)
class _Begun:
    """What is known of a run before its first step."""

    started: str
    clock: float
    fingerprint: str
    start: str
    data: DataRecord
    leaks: tuple[Leak, ...]
    limit: int | None
    resumed: bool
    ranks: int


def start(
    config: TrainConfig,
    home: Path,
    out: Path,
    *,
    resume: bool = False,
    limit: int | None = None,
    allow_leak: bool = False,
    progress: Progress | None = None,
) -> Finished:
    """Train as a configuration says, or go on with a run that was stopped.

    Args:
        config: of the run.
        home: the folder that its paths are relative to.
        out: the run's folder.
        resume: go on with the run that the folder holds.
        limit: stop after so many steps: a smoke run.
        allow_leak: train even if training images are pictures of a benchmark that is reported.
        progress: told how far it is.

    Raises:
        TellapartError: a file is missing or not what it must be, the folder holds another run, or training diverges.

    >>> from tellapart.train.config import read_config
    >>> start(read_config(Path("missing.toml")), Path("."), Path("run"))
    Traceback (most recent call last):
    tellapart.errors.DataError: missing.toml: cannot be read (No such file or directory)
    """
    started, clock = datetime.now(UTC).isoformat(timespec="seconds"), time.perf_counter()
    ranks, files, name = open_ranks(config), RunFiles(out), relative(config.model, home)
    with ranks.together():
        rows, validation = _data(config, home)
        trained, facts = open_start(name, config)

    def begin() -> _Begun:
        found = leaks(rows, config.report.benchmarks, progress)
        if not allow_leak:
            refuse(found)
        told = config.fingerprint(rows.fingerprint, facts, version("tellapart"), str(limit))
        data, resumed = _data_record(rows, validation), files.claim(told, resume=resume)
        return _Begun(started, clock, told, facts, data, tuple(found), limit, resumed, ranks.of)

    begun = ranks.first(begin)
    if trained is None:
        name, trained = draw_start(name, config, files.start, ranks)
    with ranks.together():
        trained = adapted(trained, config)
        before = weights_of(trained.module) if ranks.leads and _sweeps(config) else {}
    import_torch().manual_seed(config.seed)
    family = Matching if is_matching(str(config.loss["name"])) else Contrastive
    with tracked(config.log, files.folder, config.name) as told:
        files.told += told
        training = Training(config, trained, rows, family, files, validation, ranks)
        state = train(training, limit=limit, progress=progress)
    done = Finished("", state, begun.resumed)
    with ranks.together():
        if ranks.leads:
            done = replace(done, name=_saved(trained, files))
            done = _reported(training, name, before, done, progress)
            done = _recorded(config, begun, files, done)
    return done


def _sweeps(config: TrainConfig) -> bool:
    return bool(config.report.benchmarks and config.report.alphas)


def _reported(training: Training, start: str, before: Weights, done: Finished, progress: Progress | None) -> Finished:
    """Measure the start and the trained model, and what lies between, on what is reported."""
    config, trained, files = training.config, training.trained, training.files
    benchmarks, told = config.report.benchmarks, None if progress is None else _staged(progress)
    if not benchmarks:
        return done
    comparison = guard(
        start, done.name, benchmarks, files.report, device=config.device, reading=config.reading, progress=told
    )
    if not _sweeps(config):
        return replace(done, comparison=comparison)
    after = weights_of(trained.module)

    def save(weights: Weights, folder: Path) -> str:
        put_weights(weights, trained.module)
        return trained.save(folder)

    before = with_directions(before, after)
    found = wise(before, after, config.report.alphas, save, benchmarks, files.wise, device=config.device, progress=told)
    put_weights(after, trained.module)
    return replace(done, comparison=comparison, sweep=found)


def _saved(trained: Trained, files: RunFiles) -> str:
    """Write the trained model, whole or not at all."""
    with written(files.model) as draft:
        name = trained.save(draft)
    return name.replace(str(draft), str(files.model))


def _recorded(config: TrainConfig, begun: _Begun, files: RunFiles, done: Finished) -> Finished:
    """Write the model card, then the record: where that stands, all else is there."""
    state = done.state
    record = TrainRecord(
        config=config.model_dump(mode="json"),
        fingerprint=begun.fingerprint,
        start=begun.start,
        model=done.name,
        limit=begun.limit,
        started=begun.started,
        seconds=round(time.perf_counter() - begun.clock, 1),
        resumed=done.resumed,
        ranks=begun.ranks,
        versions=versions(),
        machine=this_machine(config.device),
        data=begun.data,
        leaks=begun.leaks,
        steps=state.step,
        best_step=state.best_step,
        best=state.best,
        history=tuple(state.history),
        comparison=done.comparison,
        sweep=done.sweep,
    )
    write_whole(files.model / "README.md", model_card(record))
    write_record(files.folder, record)
    return replace(done, record=record)


def _data_record(rows: Rows, validation: PairSet | None) -> DataRecord:
    return DataRecord(
        rows=len(rows),
        images=len(set(rows.image_ids.tolist())),
        items=len(rows.items),
        fingerprint=rows.fingerprint,
        validation=None if validation is None else len(validation),
    )


def _staged(progress: Progress) -> Callable[[str], Progress]:
    """Put what is at work before each stage of it."""
    return lambda title: lambda stage, done, total: progress(f"{title}: {stage}", done, total)


def _data(config: TrainConfig, home: Path) -> tuple[Rows, PairSet | None]:
    """Read what is trained on, and the validation set: the named one, or the clusters that `share` leaves."""
    rows = read_rows(config.data.train, home, config.data.images, take=config.data.take)
    if config.data.validation is not None:
        pairs = validation_set(relative(config.data.validation, home), config.report.benchmarks)
        metric_of(config, pairs.shape)
        return rows, pairs
    if config.data.share == 1:
        return rows, None
    rows, rest = rows.split(config.data.share)
    return rows, left_over(rest)
