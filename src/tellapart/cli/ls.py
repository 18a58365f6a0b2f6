"""The command `tellapart ls`."""

from __future__ import annotations

from typing import Annotated

import typer

from tellapart.cli.options import Data, Json, print_json


def ls_command(
    what: Annotated[str, typer.Argument(help="benchmarks, models, losses or builders")],
    data: Data = None,
    task: Annotated[str | None, typer.Option(help="Benchmarks of this task.")] = None,
    media: Annotated[str | None, typer.Option(help="Benchmarks of images or of videos.")] = None,
    year: Annotated[str | None, typer.Option(help="Benchmarks that are cited with this year, or unknown.")] = None,
    language: Annotated[str | None, typer.Option(help="Benchmarks in this language, such as sw, or unknown.")] = None,
    as_json: Json = False,
) -> None:
    """List benchmarks, and which of their files are there; models; or training losses.

    Example: `tellapart ls benchmarks`
    """
    from tellapart.api.listing import ls
    from tellapart.report.listing import print_listing

    rows = ls(what, data=data, task=task, media=media, year=year, language=language)
    if as_json:
        print_json(rows)
    else:
        print_listing(what, rows)
