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
    from tellapart.evaluation.compare_models import compare_models
    from tellapart.report.comparisons import choose_models, print_comparison, print_models

    chosen = choose_models(runs, baseline)
    comparison = compare_models(chosen.runs, baseline=chosen.baseline, by=by, seed=seed)
    two = comparison.pairs[0] if len(comparison.models) == 2 else None
    if as_json:
        print_json((two or comparison).model_dump(mode="json"))
    elif two is not None:
        print_comparison(two, chosen.left_out)
    else:
        print_models(comparison, chosen.left_out)
