"""The command `tellapart compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tellapart.cli.options import Json, Seed, print_json
from tellapart.errors import RunError
from tellapart.report.terminal import print_text

if TYPE_CHECKING:
    from tellapart.evaluation.regression_gate import GateResult


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
    anytime: Annotated[
        bool, typer.Option("--anytime", help="p and intervals that hold however often one looks while the runs grow.")
    ] = False,
    gate: Annotated[
        bool,
        typer.Option("--gate", help="Of BASE NEW: exit with 1 if a headline of NEW fell significantly, or is missing."),
    ] = False,
    max_drop: Annotated[
        float | None,
        typer.Option(
            "--max-drop", metavar="POINTS", help="With --gate: also if one fell by more, significantly or not."
        ),
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="With --gate: print Markdown, for a pull request.")
    ] = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Compare models: paired differences with intervals, exact McNemar tests, Holm over all of them, and tiers.

    Example: `tellapart compare runs/a runs/b`
    """
    from tellapart.api.compare import Compared, compare

    if markdown and not gate:
        raise RunError("--markdown is of a gate: add --gate")
    if markdown and as_json:
        raise RunError("--markdown and --json: the gate is written in one format; choose one")
    compared = compare(*runs, baseline=baseline, by=by, anytime=anytime, gate=gate, max_drop=max_drop, seed=seed)
    if not isinstance(compared, Compared):
        _show_gate(compared, markdown=markdown, as_json=as_json)
    elif as_json:
        print_json((compared.two or compared.record).model_dump(mode="json"))
    else:
        compared.show()


def _show_gate(result: GateResult, *, markdown: bool, as_json: bool) -> None:
    """Print a gate's result; exit with 1 if the gate stops."""
    from tellapart.report.gate import gate_markdown, print_gate

    if as_json:
        rows = [row.model_dump(mode="json") | {"says": row.says} for row in result.rows]
        print_json({"passed": result.passed, **result.model_dump(mode="json"), "rows": rows})
    elif markdown:
        print_text(gate_markdown(result), end="")
    else:
        print_gate(result)
    if not result.passed:
        raise typer.Exit(1)
