"""The command `tellapart compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.options import Json, Seed, print_json

__all__ = ["compare_command"]


def compare_command(
    run_a: Annotated[Path, typer.Argument(help="A run folder.")],
    run_b: Annotated[Path, typer.Argument(help="Another, on the same items.")],
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Compare two runs: paired difference with its interval, and the exact McNemar test."""
    from tellapart.evaluation.compare import compare
    from tellapart.report.show import print_comparison

    comparison = compare(run_a, run_b, seed=seed)
    if as_json:
        print_json(comparison.model_dump(mode="json"))
    else:
        print_comparison(comparison)
