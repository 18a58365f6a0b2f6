"""The command `tellapart verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.options import Json, print_json


def verify_command(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Run folders, folders of them, or zip archives of either.")
    ],
    scores: Annotated[
        list[Path] | None,
        typer.Option("--scores", metavar="FILE", help="Check one run against this file of scores. Repeatable."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Also exit with 1 if a fact cannot be checked.")] = False,
    as_json: Json = False,
) -> None:
    """Measure every number of runs again from their samples, and check set, model and page; exit with 1 if one differs.

    Example: `tellapart verify runs/a`
    """
    from tellapart.api.verify import verify

    verified = verify(*runs, scores=scores or ())
    print_json(verified.to_json()) if as_json else verified.show()
    if not verified.passed or (strict and verified.unchecked):
        raise typer.Exit(1)
