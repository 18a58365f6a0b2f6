"""From a configuration to a run: everything is opened and checked before the first step."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tellapart.data.pairset import PairSet
from tellapart.errors import RunError
from tellapart.models.torch_backend import import_torch
from tellapart.train.checkpoint import State
from tellapart.train.config import TrainConfig
from tellapart.train.contrastive import Contrastive
from tellapart.train.encoders import open_dual
from tellapart.train.loop import Progress, Training, open_accelerator, train
from tellapart.train.rows import read_rows
from tellapart.train.run_files import RunFiles
from tellapart.train.validation import metric_of, validation_set

__all__ = ["Finished", "start"]


@dataclass(frozen=True, slots=True)
class Finished:
    """What a training run left.

    Attributes:
        name: of the trained model, as `tellapart run -m` takes it.
        state: how it went.
        resumed: whether it went on from a checkpoint.

    >>> Finished("local-dir:runs/a/model", State(step=2), False).state.step
    2
    """

    name: str
    state: State
    resumed: bool


def start(
    config: TrainConfig,
    home: Path,
    out: Path,
    *,
    resume: bool = False,
    limit: int | None = None,
    progress: Progress | None = None,
) -> Finished:
    """Train as a configuration says, or go on with a run that was stopped.

    Args:
        config: of the run.
        home: the folder that its paths are relative to.
        out: the run's folder.
        resume: go on with the run that the folder holds.
        limit: stop after so many steps: a smoke run.
        progress: told how far it is.

    Raises:
        TellapartError: a file is missing or not what it must be, the folder holds another run, or training diverges.

    >>> from tellapart.train.config import read_config
    >>> start(read_config(Path("missing.toml")), Path("."), Path("run"))
    Traceback (most recent call last):
    tellapart.errors.DataError: missing.toml: cannot be read (No such file or directory)
    """
    rows = read_rows(config.data.train, home, config.data.images)
    validation = _validation(config, home)
    trained = open_dual(_relative(config.model, home), config.device)
    facts = (rows.fingerprint, trained.model().fingerprint, version("tellapart"), str(limit))
    accelerator = open_accelerator(config)
    files = RunFiles(out)
    resumed = _claimed(files, config.fingerprint(*facts), resume, accelerator)

    def steps(accelerator: Any, module: Any) -> Contrastive:
        return Contrastive(config, trained, rows, accelerator, module)

    import_torch().manual_seed(config.seed)
    training = Training(config, trained, rows, steps, files, validation, accelerator)
    state = train(training, limit=limit, progress=progress)
    name = _saved(trained, files) if accelerator.is_main_process else ""
    accelerator.wait_for_everyone()
    return Finished(name, state, resumed)


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


def _validation(config: TrainConfig, home: Path) -> PairSet | None:
    if config.data.validation is None:
        return None
    pairs = validation_set(_relative(config.data.validation, home), config.report.benchmarks)
    metric_of(config, pairs.shape)
    return pairs


def _relative(name: str, home: Path) -> str:
    """Return a model's or a set's name with its path relative to here, not to the configuration."""
    prefix, colon, path = name.partition(":")
    if colon and prefix in {"folder", "local-dir", "hf"} and (home / path).exists():
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
