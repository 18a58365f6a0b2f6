"""The command `tellapart mine`: training rows get hard negatives."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from tellapart.cli.options import Cache, Device

# The command is no name for other modules: its docstring is its help, its examples are in the tests of mining.
__all__: list[str] = []


def mine_command(  # noqa: PLR0917
    rows: Annotated[
        str, typer.Argument(help="What is trained on: a JSONL file with image and caption, a pair set folder, a TSV.")
    ],
    model: Annotated[str, typer.Option("-m", "--model", help="A dual encoder: its vectors say which images are near.")],
    out: Annotated[Path, typer.Option("--out", help="The JSONL file to write, which `tellapart train` reads.")],
    scorer: Annotated[
        Optional[str],  # noqa: UP045  (typer reads it on 3.11)
        typer.Option("--scorer", help="Score captions of near images with this model, and take the hardest."),
    ] = None,
    reading: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--reading", help="Which of the scorer's readings is used; itm, say."),
    ] = None,
    nearest: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--nearest", min=1, help="Near images of each: 128 with --scorer, else 3, as for NegCLIP."),
    ] = None,
    negatives: Annotated[int, typer.Option("--negatives", min=1, help="False captions a row, with --scorer.")] = 15,
    hard: Annotated[int, typer.Option("--hard", min=1, help="Of them the hardest; the others are drawn.")] = 8,
    images: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--images", help="The folder of the images; the file's own if not given."),
    ] = None,
    limit: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--limit", min=1, help="Only the first so many rows."),
    ] = None,
    device: Device = "cpu",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of what is drawn.")] = 0,
    cache: Cache = None,
) -> None:
    """Find hard negatives among the training images and captions themselves.

    With --scorer coarse to fine, as EqSim does for ITM models; without it the nearest images alone, as NegCLIP does.
    """
    from tellapart.cli.progress import TerminalProgress
    from tellapart.models.deferred import find_deferred
    from tellapart.models.options import ModelOptions
    from tellapart.models.store import EmbeddingStore, default_store_path
    from tellapart.train.mining.listing import images_root, write_rows
    from tellapart.train.mining.negatives import MiningSettings, coarse_to_fine, nearest_images
    from tellapart.train.rows import read_rows

    root = images_root(rows, images)
    found = read_rows([rows], Path(), None if images is None else str(images), limit=limit)
    with (
        EmbeddingStore(cache / "store.sqlite" if cache is not None else default_store_path()) as store,
        TerminalProgress() as progress,
    ):
        features = find_deferred(model, ModelOptions(device=device), store)
        told = progress.told(out.name)
        try:
            if scorer is None:
                mined = nearest_images(found, features, store=store, count=nearest or 3, progress=told)
            else:
                settings = MiningSettings(nearest or 128, negatives, hard, seed)
                judge = find_deferred(scorer, ModelOptions(device=device, reading=reading), store)
                mined = coarse_to_fine(found, features, judge, store=store, settings=settings, progress=told)
        except KeyboardInterrupt:
            progress.stop()
            again = shlex.join(["tellapart", *sys.argv[1:]])
            sys.stderr.write(f"interrupted; what was scored is kept. Go on with: {again}\n")
            raise typer.Exit(130) from None
    write_rows(out, mined, root)
    typer.echo(
        f"{len(mined):,} rows in {out}; their image paths are relative to {root} (data.images of a training file)"
    )
