"""The command `tellapart compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.options import Json, Seed, print_json

__all__ = ["compare_command"]


def compare_command(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Run folders, on the same items. All models of a folder are compared, but for reference models that "
            "are not named by their own folder.",
        ),
    ],
    baseline: Annotated[
        str | None, typer.Option("--baseline", help="Compare each model with this one, not each with each.")
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="TAG", help="Compare on the items of each of a tag's values, too.")
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Compare models: paired differences with intervals, exact McNemar tests, Holm over all of them, and tiers."""
    from tellapart.api.compare import compare

    compared = compare(*runs, baseline=baseline, by=by, seed=seed)
    if as_json:
        print_json((compared.two or compared.record).model_dump(mode="json"))
    else:
        compared.show()
