"""The command `tellapart show`, which also ends `run` and `score`."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tellapart.cli.once import name_options
from tellapart.cli.options import Bundle, Json, Outside, print_json
from tellapart.report.terminal import print_text

if TYPE_CHECKING:
    from tellapart.api.run import Run


def show_command(
    run: Annotated[Path, typer.Argument(help="A run folder, or the folder of a training run or of its seeds.")],
    every: Annotated[
        bool, typer.Option("--all", help="Every table: headline metrics, tags, equivariance, ties.")
    ] = False,
    by: Annotated[str | None, typer.Option("--by", help="The table of this tag alone.", metavar="TAG")] = None,
    bundle: Bundle = False,
    outside_images: Outside = False,
    as_json: Json = False,
) -> None:
    """Print a run's table again, or all of its tables, and make its report again.

    Example: `tellapart show runs/a --all`
    """
    from tellapart.api.run import Run, show
    from tellapart.errors import RunError

    opened = show(run, outside_images=outside_images)
    if (every or by) and (as_json or not isinstance(opened, Run)):
        why = "JSON has every table" if as_json else f"{run} is a training run, which is printed in full"
        raise RunError(f"{why}: leave every= and by= out")
    if isinstance(opened, Run):
        show_run(opened, every=every, by=by, bundle=bundle, outside_images=outside_images, as_json=as_json)
    elif as_json:
        print_json(opened.to_json())
    else:
        opened.show()


def show_run(
    run: Run,
    *,
    every: bool = False,
    by: str | None = None,
    bundle: bool = False,
    outside_images: bool = False,
    as_json: bool = False,
) -> None:
    """Make a run's report, and print its records: as tables, or as one object with all of them."""
    write = cache(partial(run.write_report, bundle=bundle, outside_images=outside_images))
    try:
        print_json(run.to_json(write())) if as_json else run.show(write, every=every, by=by)
    except (Exception, SystemExit):  # rich's, when the reader of a pipe is gone (`| head`)
        write()
        raise
    for warning in write().warnings:
        print_text(f"warning: {name_options(warning)}", error=True)
