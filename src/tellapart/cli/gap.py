"""The command `tellapart gap`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.options import Json, print_json


def gap_command(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, of one model or of several.")],
    as_json: Json = False,
) -> None:
    """Show the models' losses out of domain: every task that a run measured on both sides, and the correlation.

    Example: `tellapart gap runs/a runs/b`
    """
    from tellapart.evaluation.gap import gap
    from tellapart.report.show import print_gaps

    losses = gap(runs)
    if as_json:
        print_json(losses.model_dump(mode="json"))
    else:
        print_gaps(losses)
