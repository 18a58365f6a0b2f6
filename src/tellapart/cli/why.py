"""The command `tellapart why`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.invocation import interruptible
from tellapart.cli.options import Cache, Json, Quiet, Seed, print_json


def why_command(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or CSV files of outcomes.")],
    benchmark: Annotated[
        str | None, typer.Option("-b", "--benchmark", help="Which; all with square items if not given.")
    ] = None,
    by: Annotated[str | None, typer.Option("--by", metavar="TAG", help="Print a row for each value of a tag.")] = None,
    debias: Annotated[
        int | None,
        typer.Option("--debias", min=1, metavar="N", help="Subtract means over N unrelated captions and pictures."),
    ] = None,
    cache: Cache = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Explain why models fail: they see no match, or a prior of the picture or the caption outweighs it.

    Example: `tellapart why runs/a`
    """
    from tellapart.api.why import why
    from tellapart.models.store.cache import describe_stored

    with interruptible(partial(describe_stored, cache), quiet=quiet) as progress:
        explained = why(
            *runs, benchmark=benchmark, by=by, debias=debias, cache=cache, seed=seed, progress=progress.callback
        )
    if as_json:
        print_json(explained.record.model_dump(mode="json"))
    else:
        explained.show()
