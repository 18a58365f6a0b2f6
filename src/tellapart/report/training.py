"""The command `tellapart train`: a configuration becomes a trained model, and what it gained and lost is shown."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

if TYPE_CHECKING:
    from tellapart.train.start import Finished
    from tellapart.train.wise import Sweep

# The command is no name for other modules: its docstring is its help, its examples are in the tests of the loop.
__all__ = ["print_trained"]


def train_command(
    config: Annotated[Path, typer.Argument(help="A TOML file: start, data, loss, optimiser (docs/training.md).")],
    out: Annotated[
        Optional[Path],  # noqa: UP045  (typer reads it on 3.11)
        typer.Option("--out", help="The run's folder; runs/train-NAME if not given."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run that the folder holds.")] = False,
    limit: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--limit", min=1, help="Stop after so many steps: a smoke run."),
    ] = None,
    allow_leak: Annotated[
        bool, typer.Option("--allow-leak", help="Train even on pictures of a benchmark that is reported.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Train a model to tell pairs apart; killed in whatever way, --resume goes on with the same numbers."""
    from tellapart.progress import TerminalProgress
    from tellapart.train.config import read_config
    from tellapart.train.start import start

    told = read_config(config)
    folder = out or Path("runs") / f"train-{told.name}"
    with TerminalProgress() as progress:
        try:
            finished = start(
                told,
                config.parent,
                folder,
                resume=resume,
                limit=limit,
                allow_leak=allow_leak,
                progress=progress.told(told.name),
            )
        except KeyboardInterrupt:
            progress.stop()
            again = [argument for argument in sys.argv[1:] if argument != "--resume"]
            sys.stderr.write(
                f"interrupted; the last checkpoint is kept. Go on with: {shlex.join(['tellapart', *again, '--resume'])}\n"
            )
            raise typer.Exit(130) from None
    if finished.name:  # rank 0 alone has something to say
        print_trained(finished, as_json=as_json)


def print_trained(finished: Finished, *, as_json: bool = False) -> None:
    """Print which weights were kept, and how to measure them.

    >>> from tellapart.train.checkpoint import State
    >>> from tellapart.train.start import Finished
    >>> print_trained(Finished("local-dir:runs/a/model", State(step=8, best=0.5, best_step=4), False))
    kept the weights after step 4 of 8: 50.00 on the validation set
    measure with: tellapart run -m local-dir:runs/a/model
    """
    state = finished.state
    if as_json:
        told = {
            "model": finished.name,
            "steps": state.step,
            "best_step": state.best_step,
            "validation": state.best,
            "history": state.history,
            "resumed": finished.resumed,
            "comparison": None if finished.comparison is None else finished.comparison.model_dump(mode="json"),
            "sweep": None if finished.sweep is None else asdict(finished.sweep),
        }
        sys.stdout.write(json.dumps(told, indent=1, allow_nan=False) + "\n")
        return
    value = (
        ": no validation set, so the last ones"
        if state.best is None
        else f": {100 * state.best:.2f} on the validation set"
    )
    sys.stdout.write(f"kept the weights after step {state.best_step} of {state.step}{value}\n")
    sys.stdout.write(f"measure with: tellapart run -m {shlex.quote(finished.name)}\n")
    if finished.comparison is not None:
        from tellapart.report.show import print_comparison

        sys.stdout.write("\n")
        print_comparison(finished.comparison)
    if finished.sweep is not None:
        _print_sweep(finished.sweep)


def _print_sweep(sweep: Sweep) -> None:
    """Print a curve over alphas, the best one marked."""
    from tellapart.report.terminal import console, table

    shown = table("alpha", *sweep.benchmarks, numbers_from=0)
    for alpha, values in sweep.curve.items():
        mark = " *" if alpha == sweep.best else ""
        shown.add_row(f"{alpha:.2f}{mark}", *(f"{100 * value:.2f}" for value in values))
    screen = console()
    screen.print()
    screen.print(shown)
    screen.print(
        f"weights between the start (0) and the trained model (1): means of headline metrics, percent; * Pareto-best, chosen "
        f"on these very numbers: {sweep.model}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
