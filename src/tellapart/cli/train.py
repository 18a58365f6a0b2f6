"""The command `tellapart train`."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tellapart.cli.invocation import interruptible
from tellapart.cli.options import Json, Quiet, print_json
from tellapart.errors import DataError

if TYPE_CHECKING:
    from tellapart.train.config import TrainConfig
    from tellapart.train.training_run import FinishedRun

__all__ = ["train_command"]


def train_command(
    config: Annotated[Path, typer.Argument(help="A TOML file: start, data, loss, optimiser (docs/training.md).")],
    out: Annotated[Path | None, typer.Option("--out", help="The run's folder; runs/train-NAME if not given.")] = None,
    *,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run that the folder holds.")] = False,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Stop after so many steps: a smoke run.")] = None,
    allow_leak: Annotated[
        bool, typer.Option("--allow-leak", help="Train even on pictures of a benchmark that is reported.")
    ] = False,
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", min=1, help="Train under so many seeds, and print means and tests over them."),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option("--against", help="With --seeds: another configuration's folder of seeds, compared seed by seed."),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train a model to tell pairs apart; killed in whatever way, --resume goes on with the same numbers."""
    from tellapart.report.training import print_seeds, print_trained, seeds_json, trained_json
    from tellapart.report.training_page import PAGE, write_training_report
    from tellapart.train.config import read_config
    from tellapart.train.seeds import read_seeds, train_seeds
    from tellapart.train.training_run import run_training

    chosen = read_config(config)
    if against is not None and seeds is None:
        raise DataError("--against compares seeds; give --seeds N too")
    others = None if against is None else read_seeds(against)
    folder = out or Path("runs") / f"train-{chosen.name}"
    arguments = [argument for argument in sys.argv[1:] if argument != "--resume"]
    again = shlex.join(["tellapart", *arguments, "--resume"])
    with interruptible(partial(_kept, folder), again=again, quiet=quiet) as progress:

        def train_once(settings: TrainConfig, out: Path) -> FinishedRun:
            update = progress.callback(f"{settings.name}, seed {settings.seed}")
            finished = run_training(
                settings, config.parent, out, resume=resume, limit=limit, allow_leak=allow_leak, progress=update
            )
            if finished.record is not None:
                write_training_report(out, finished.record, outside=settings.data.outside_images)
            return finished

        if seeds is None:
            finished = train_once(chosen, folder)
        else:
            records = train_seeds(chosen, folder, seeds, train_once, resume=resume, limit=limit)
    if seeds is not None:
        if records:  # of several ranks the first prints
            print_json(seeds_json(records, others)) if as_json else print_seeds(records, others)
    elif finished.record is not None:
        shown = finished.record, folder / PAGE
        print_json(trained_json(*shown)) if as_json else print_trained(*shown)


def _kept(folder: Path) -> str | None:
    """Say what an interrupted training run has left; of several seeds, of those that were begun."""
    from tellapart.train.run_files import RunFiles

    parts = [RunFiles(seed).describe_kept() for seed in sorted(folder.glob("seed-*"))]
    parts.append(RunFiles(folder).describe_kept())
    return "; ".join(part for part in parts if part) or None
