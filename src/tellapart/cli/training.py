"""The commands that train models, and mine what they are trained on: train, mine."""

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
from tellapart.cli.options import Cache, Data, Device, Json, Outside, Quiet, print_json
from tellapart.report.terminal import print_text


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


def mine_command(
    rows: Annotated[
        str, typer.Argument(help="What is trained on: a JSONL file with image and caption, a pair set folder, a TSV.")
    ],
    model: Annotated[str, typer.Option("-m", "--model", help="A dual encoder: its vectors say which images are near.")],
    out: Annotated[Path, typer.Option("--out", help="The JSONL file to write, which `tellapart train` reads.")],
    scorer: Annotated[
        str | None,
        typer.Option("--scorer", help="Score captions of near images with this model, and take the hardest."),
    ] = None,
    reading: Annotated[
        str | None, typer.Option("--reading", help="Which of the scorer's readings is used; itm, say.")
    ] = None,
    nearest: Annotated[
        int | None,
        typer.Option("--nearest", min=1, help="Near images of each: 128 with --scorer, else 3, as for NegCLIP."),
    ] = None,
    negatives: Annotated[int, typer.Option("--negatives", min=1, help="False captions a row, with --scorer.")] = 15,
    hard: Annotated[int, typer.Option("--hard", min=1, help="Of them the hardest; the others are drawn.")] = 8,
    images: Annotated[
        Path | None, typer.Option("--images", help="The folder of the images; the file's own if not given.")
    ] = None,
    outside_images: Outside = False,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the first so many rows.")] = None,
    device: Device = "cpu",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of what is drawn.")] = 0,
    cache: Cache = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Find hard negatives among the training images and captions themselves.

    With --scorer coarse to fine, as EqSim does for ITM models; without it the nearest images alone, as NegCLIP does.

    Example: `tellapart mine rows.jsonl -m demo-encoder --out mined.jsonl`
    """
    from tellapart.models.store.cache import describe_stored
    from tellapart.training.mining.negatives import mine

    with interruptible(partial(describe_stored, cache), quiet=quiet) as progress:
        mined = mine(
            rows,
            model,
            out,
            scorer=scorer,
            reading=reading,
            nearest=nearest,
            negatives=negatives,
            hard=hard,
            images=images,
            outside_images=outside_images,
            limit=limit,
            device=device,
            seed=seed,
            cache=cache,
            progress=progress.callback,
        )
    if as_json:
        print_json({"out": str(out), "rows": mined.rows, "images": str(mined.images)})
    else:
        print_text(
            f"{mined.rows:,} rows in {out}; their image paths are relative to {mined.images} (data.images of a "
            "training file)"
        )
