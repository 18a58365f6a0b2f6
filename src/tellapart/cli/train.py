"""The command `tellapart train`."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.invocation import interruptible
from tellapart.cli.once import name_options
from tellapart.cli.options import Data, Json, Quiet, print_json


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
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Try all but the long part, list every problem and forecast time and disk."),
    ] = False,
    data: Data = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train a model to tell pairs apart; killed in whatever way, --resume goes on with the same numbers.

    Example: `tellapart train train.toml --out runs/trained`
    """
    from tellapart.training.train import default_folder, describe_kept, train

    folder = out if dry_run else default_folder(config, out)
    kept = partial(describe_kept, folder or Path())

    def again() -> str:
        arguments = [argument for argument in sys.argv[1:] if argument != "--resume"]
        return shlex.join(["tellapart", *arguments, *(["--resume"] if kept() else [])])

    with interruptible(kept, again=again, quiet=quiet) as progress:
        trained = train(
            config,
            folder,
            resume=resume,
            limit=limit,
            allow_leak=allow_leak,
            seeds=seeds,
            against=against,
            dry_run=dry_run,
            data=data,
            progress=progress.callback,
        )
    if trained.plan is not None:
        trained.plan = replace(trained.plan, problems=tuple(map(name_options, trained.plan.problems)))
    if trained.records or dry_run:  # of several ranks the first prints
        print_json(trained.to_json()) if as_json else trained.show()
    if not trained.passed:
        raise typer.Exit(1)
