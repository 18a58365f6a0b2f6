"""The command `tellapart curve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.invocation import interruptible
from tellapart.cli.options import Cache, Columns, Data, Device, Json, Quiet, Seed, columns_of, print_json
from tellapart.report.terminal import print_text


def curve_command(
    over: Annotated[
        str,
        typer.Option(
            "--over",
            metavar="TAG",
            help="A tag of numbers, how large a difference is; caption_edits and first_difference come from captions.",
        ),
    ],
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="RUN...", help="Run folders: all models of each, but for reference models."),
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="TAG", help="Also a curve for the items of each value of this tag.")
    ] = None,
    benchmark: Annotated[
        str | None, typer.Option("-b", "--benchmark", help="Which; the one that all runs share if not given.")
    ] = None,
    metric: Annotated[
        str | None, typer.Option("--metric", help="By which an item is right; the one that ranks models if not given.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="The picture to write: .pdf, .svg or .png.")] = None,
    seed: Seed = 0,
    model: Annotated[
        str | None, typer.Option("-m", "--model", help="With --adaptive, and without runs: the model to measure.")
    ] = None,
    adaptive: Annotated[
        int | None,
        typer.Option("--adaptive", help="Measure a slow model on so many items, chosen one by one by their value."),
    ] = None,
    items: Annotated[
        Path | None, typer.Option("--items", help="With --adaptive: a file of the ids to choose from, one a line.")
    ] = None,
    data: Data = None,
    columns: Columns = None,
    device: Device = "cpu",
    cache: Cache = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Show the smallest difference that a model sees: P(right) over a numeric tag of items, and its threshold.

    Example: `tellapart curve runs/a runs/b --over size --out curve.png`
    """
    from tellapart.api.curve import curve

    def describe_kept() -> str | None:
        from tellapart.models.store.cache import describe_stored

        return describe_stored(cache)

    with interruptible(describe_kept, quiet=quiet) as progress:
        fitted = curve(
            *runs or (), over=over, by=by, benchmark=benchmark, metric=metric, out=out, seed=seed, model=model,
            adaptive=adaptive, items=items, data=data, columns=columns_of(columns), device=device, cache=cache,
            progress=progress.callback,
        )  # fmt: skip
    if as_json:
        print_json(fitted.record.model_dump(mode="json"))
        return
    fitted.show()
    if out is not None:
        print_text(f"picture: {out}")
