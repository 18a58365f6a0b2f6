"""The command `tellapart mine`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.invocation import interruptible
from tellapart.cli.options import Cache, Device, Json, Outside, Quiet, print_json
from tellapart.report.terminal import print_text


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
