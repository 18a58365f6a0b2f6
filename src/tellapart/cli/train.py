"""The command `tellapart train`: a configuration becomes a trained model, and what it gained and lost is shown."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from tellapart.cli.options import Json, print_json
from tellapart.errors import DataError

if TYPE_CHECKING:
    from tellapart.train.config import TrainConfig
    from tellapart.train.record import TrainRecord
    from tellapart.train.seeds import SeedRow
    from tellapart.train.start import Finished
    from tellapart.train.wise import Sweep

# The command is no name for other modules: its docstring is its help, its examples are in the tests of the loop.
__all__ = ["print_seeds", "print_trained"]


def train_command(
    config: Annotated[Path, typer.Argument(help="A TOML file: start, data, loss, optimiser (docs/training.md).")],
    out: Annotated[
        Optional[Path],  # noqa: UP045  (typer reads it on 3.11)
        typer.Option("--out", help="The run's folder; runs/train-NAME if not given."),
    ] = None,
    *,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run that the folder holds.")] = False,
    limit: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--limit", min=1, help="Stop after so many steps: a smoke run."),
    ] = None,
    allow_leak: Annotated[
        bool, typer.Option("--allow-leak", help="Train even on pictures of a benchmark that is reported.")
    ] = False,
    seeds: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--seeds", min=1, help="Train under so many seeds, and print means and tests over them."),
    ] = None,
    against: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--against", help="With --seeds: another configuration's folder of seeds, compared seed by seed."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Train a model to tell pairs apart; killed in whatever way, --resume goes on with the same numbers."""
    from tellapart.train.config import read_config
    from tellapart.train.seeds import read_seeds, train_seeds
    from tellapart.train.start import start

    told = read_config(config)
    if against is not None and seeds is None:
        raise DataError("--against compares seeds; give --seeds N too")
    others = None if against is None else read_seeds(against)
    folder = out or Path("runs") / f"train-{told.name}"
    with _shown() as shown:
        once = shown(partial(start, home=config.parent, resume=resume, limit=limit, allow_leak=allow_leak))
        if seeds is None:
            finished = once(told, folder)
        else:
            records = train_seeds(told, folder, seeds, once, resume=resume, limit=limit)
    if seeds is not None:
        if records:  # rank 0 alone has something to say
            print_seeds(records, others, as_json=as_json)
    elif finished.name:
        print_trained(finished, as_json=as_json)


Once = Callable[["TrainConfig", Path], "Finished"]


@contextmanager
def _shown() -> Iterator[Callable[[Callable[..., Finished]], Once]]:
    """Show the progress of what trains, draw its curves, and say how to go on if it is interrupted."""
    from tellapart.cli.progress import TerminalProgress
    from tellapart.report.training_curves import write_curves
    from tellapart.train.run_files import RunFiles

    with TerminalProgress() as progress:

        def shown(begin: Callable[..., Finished]) -> Once:
            def once(told: TrainConfig, folder: Path) -> Finished:
                found = begin(told, out=folder, progress=progress.told(f"{told.name}, seed {told.seed}"))
                if found.record is not None:
                    write_curves(RunFiles(folder), found.sweep)
                return found

            return once

        try:
            yield shown
        except KeyboardInterrupt:
            progress.stop()
            again = [argument for argument in sys.argv[1:] if argument != "--resume"]
            sys.stderr.write(
                f"interrupted; the last checkpoint is kept. Go on with: {shlex.join(['tellapart', *again, '--resume'])}\n"
            )
            raise typer.Exit(130) from None


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
        print_json(told)
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


def print_seeds(
    records: Sequence[TrainRecord], others: Sequence[TrainRecord] | None = None, *, as_json: bool = False
) -> None:
    """Print each metric's mean and spread over seeds, beside the start and, if there is one, another configuration.

    >>> print_seeds([])
    nothing was measured before and after: name benchmarks in report.benchmarks
    """
    from tellapart.train.seeds import between, over_seeds

    rows = over_seeds(records)
    versus = None if others is None else between(records, others)
    if as_json:
        told = {
            "models": [record.model for record in records],
            "seeds": [record.config["seed"] for record in records],
            "validation": [record.best for record in records],
            "start": [asdict(row) for row in rows],
            "against": None if versus is None else [asdict(row) for row in versus],
        }
        print_json(told)
        return
    if not rows:
        sys.stdout.write("nothing was measured before and after: name benchmarks in report.benchmarks\n")
        return
    _print_over_seeds("the start", rows)
    if versus is not None and others is not None:
        _print_over_seeds(str(others[0].config["name"]), versus)


def _print_over_seeds(other: str, rows: Sequence[SeedRow]) -> None:
    from tellapart.report.numbers import percent, plain
    from tellapart.report.terminal import console, table

    screen = console()
    for benchmark in dict.fromkeys(row.benchmark for row in rows):
        shown = table(plain(benchmark), "mean", "sd", plain(other), "difference", *_TESTS, numbers_from=1)
        for row in (row for row in rows if row.benchmark == benchmark):
            bounds = "" if row.low is None or row.high is None else f" [{100 * row.low:+.1f}, {100 * row.high:+.1f}]"
            change = f"{100 * row.difference:+.2f}{bounds}"
            tests = ("-" if p is None else f"{p:.3g}" for p in (row.p, row.p_holm, row.p_ranks))
            sd = "-" if row.sd is None else percent(row.sd)
            shown.add_row(row.metric, percent(row.mean), sd, percent(row.other), change, *tests)
        screen.print(shown)
        screen.print()
    screen.print(
        f"{rows[0].seeds} seeds, percent: their mean and standard deviation; differences from {plain(other)} paired by seed, "
        "95% intervals by Student's t; p: paired t-test, Holm over these rows, Wilcoxon's signed ranks",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


_TESTS = ("p", "p (Holm)", "p (ranks)")
