"""From a configuration to a run: everything is opened and checked before the first step."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tellapart.compare import Comparison
from tellapart.data.pairset import PairSet
from tellapart.errors import DataError, RunError
from tellapart.machine import this_machine, versions
from tellapart.models.torch_backend import import_torch
from tellapart.run_folder import write_whole
from tellapart.train.checkpoint import State, Weights, put_weights, weights_of
from tellapart.train.config import TrainConfig
from tellapart.train.contrastive import Contrastive
from tellapart.train.encoders import open_dual
from tellapart.train.fresh import NEW, fresh_facts, write_fresh
from tellapart.train.fusion_encoder import open_fusion
from tellapart.train.guard import guard
from tellapart.train.leaks import Leak, leaks, refuse
from tellapart.train.loop import Progress, Steps, Training, open_accelerator, train
from tellapart.train.lora import Adapted, with_directions
from tellapart.train.matching import Matching, is_matching
from tellapart.train.model_card import model_card
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
    rows, validation = _data(config, home)
    accelerator = open_accelerator(config)
    found = leaks(rows, config.report.benchmarks, progress) if accelerator.is_main_process else []
    if not allow_leak:
        refuse(found)
    name = _relative(config.model, home)
    files = RunFiles(out)
    facts = (rows.fingerprint, _facts(name, config), version("tellapart"), str(limit))
    data = _data_record(rows, validation)
    begun = _Begun(
        started, clock, config.fingerprint(*facts), facts[1], data, tuple(found), limit, accelerator.num_processes
    )
    resumed = _claimed(files, begun.fingerprint, resume, accelerator)
    before = _start_model(name, files, config.seed, accelerator)
    trained = _opened(before, config)

    def steps(accelerator: Any, module: Any) -> Steps:
        return (Matching if _fusion(config) else Contrastive)(config, trained, rows, accelerator, module)

    import_torch().manual_seed(config.seed)
    training = Training(config, trained, rows, steps, files, validation, accelerator)
    with tracked(config.log, files.folder, config.name) as told:
        files.told += told
        state = train(training, limit=limit, progress=progress)
    found_all = Finished("", state, resumed)
    if accelerator.is_main_process:
        found_all = _reported(
            config, before, trained, files, Finished(_saved(trained, files), state, resumed), progress
        )
        found_all = _recorded(config, begun, files, found_all)
    accelerator.wait_for_everyone()
    return found_all


def _reported(
    config: TrainConfig, before: str, trained: Any, files: RunFiles, done: Finished, progress: Progress | None
) -> Finished:
    """Measure the start and the trained model, and what lies between, on what is reported."""
    benchmarks, told = config.report.benchmarks, None if progress is None else _staged(progress)
    if not benchmarks:
        return done
    comparison = guard(
        before, done.name, benchmarks, files.report, device=config.device, reading=config.reading, progress=told
    )
    if not config.report.alphas:
        return replace(done, comparison=comparison)
    after = weights_of(trained.module)
    start = with_directions(weights_of(_opened(before, config).module), after)

    def save(weights: Weights, folder: Path) -> str:
        put_weights(weights, trained.module)
        name: str = trained.save(folder)
        return name

    found = wise(start, after, config.report.alphas, save, benchmarks, files.wise, device=config.device, progress=told)
    put_weights(after, trained.module)
    return replace(done, comparison=comparison, sweep=found)


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


def _fusion(config: TrainConfig) -> bool:
    return is_matching(str(config.loss["name"]))


def _opened(name: str, config: TrainConfig) -> Any:
    """Open the start as its loss wants it: a fusion encoder or a dual one, with low-rank updates if those are trained."""
    if _fusion(config):
        contrast = config.matching is None or config.matching.contrast
        trained: Any = open_fusion(name, config.device, config.reading, contrast=contrast)
    elif config.matching is not None:
        raise DataError(
            f"[matching] is of fusion encoders' losses (itm, ranking, ...), and {config.loss['name']!r} is none"
        )
    else:
        trained = open_dual(name, config.device)
    return trained if config.lora is None else Adapted(trained, config.lora, config.seed)


def _facts(name: str, config: TrainConfig) -> str:
    """Return what the start's weights are: their fingerprint, or that of what they will be drawn for."""
    if name.startswith(NEW):
        return fresh_facts(Path(name.removeprefix(NEW)))
    fingerprint: str = _opened(name, config.model_copy(update={"lora": None})).model().fingerprint
    return fingerprint


def _start_model(name: str, files: RunFiles, seed: int, accelerator: Any) -> str:
    """Return the start's name; of a new model, once its weights are drawn and stand on the disk."""
    if not name.startswith(NEW):
        return name
    if accelerator.is_main_process:
        write_fresh(Path(name.removeprefix(NEW)), files.start, seed)
    accelerator.wait_for_everyone()
    return write_fresh(Path(name.removeprefix(NEW)), files.start, seed)


def _claimed(files: RunFiles, fingerprint: str, resume: bool, accelerator: Any) -> bool:
    """Claim the folder on rank 0; what goes wrong there is raised on every rank, so that none is left waiting."""
    found: list[Any] = [None]
    if accelerator.is_main_process:
        try:
            found = [files.claim(fingerprint, resume=resume)]
        except RunError as error:
            found = [error]
    if accelerator.num_processes > 1:
        import torch.distributed as dist

        dist.broadcast_object_list(found)
    if isinstance(found[0], RunError):
        raise found[0]
    return bool(found[0])


def _data(config: TrainConfig, home: Path) -> tuple[Rows, PairSet | None]:
    """Read what is trained on, and the validation set: the named one, or the clusters that `share` leaves."""
    rows = read_rows(config.data.train, home, config.data.images, take=config.data.take)
    if config.data.validation is not None:
        pairs = validation_set(_relative(config.data.validation, home), config.report.benchmarks)
        metric_of(config, pairs.shape)
        return rows, pairs
    if config.data.share == 1:
        return rows, None
    rows, rest = rows.split(config.data.share)
    return rows, left_over(rest)


def _relative(name: str, home: Path) -> str:
    """Return a model's or a set's name with its path relative to here, not to the configuration."""
    prefix, colon, path = name.partition(":")
    if colon and prefix in {"folder", "local-dir", "hf", "new"} and (home / path).exists():
        return f"{prefix}:{home / path}"
    return str(home / name) if (home / name / "config.json").is_file() else name


def _saved(trained: Any, files: RunFiles) -> str:
    """Write the trained model, whole or not at all."""
    draft = files.model.with_name(".model")
    shutil.rmtree(draft, ignore_errors=True)
    name: str = trained.save(draft)
    if files.model.exists():
        shutil.rmtree(files.model)
    draft.rename(files.model)
    return name.replace(str(draft), str(files.model))
