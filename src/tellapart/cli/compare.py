"""The command `tellapart compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.options import Json, Seed, print_json
from tellapart.errors import RunError

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
    """Compare models: paired differences with intervals, exact McNemar tests, Holm over all of them, and tiers."""
    from tellapart.api.compare import compare

    if gate:
        if baseline is not None or by is not None:
            raise RunError("--gate judges the headlines of two runs: leave --baseline and --by out")
        _judge_gate(runs, max_drop=max_drop, seed=seed, markdown=markdown, as_json=as_json)
        return
    if max_drop is not None or markdown:
        raise RunError(f"{'--markdown' if max_drop is None else '--max-drop'} is of a gate: add --gate")
    compared = compare(*runs, baseline=baseline, by=by, seed=seed)
    if as_json:
        print_json((compared.two or compared.record).model_dump(mode="json"))
    else:
        compared.show()


def _judge_gate(runs: list[Path], *, max_drop: float | None, seed: int, markdown: bool, as_json: bool) -> None:
    """Judge the second run against the first; exit with 1 if the gate stops."""
    from tellapart.api.compare import gate
    from tellapart.report.gate import gate_markdown, print_gate

    if len(runs) != 2:
        raise RunError(f"--gate judges one run against another: got {len(runs)}; name BASE and NEW")
    if markdown and as_json:
        raise RunError("--markdown and --json: the gate is written in one format; choose one")
    result = gate(*runs, max_drop=max_drop, seed=seed)
    if as_json:
        rows = [row.model_dump(mode="json") | {"says": row.says} for row in result.rows]
        print_json({"passed": result.passed, **result.model_dump(mode="json"), "rows": rows})
    elif markdown:
        typer.echo(gate_markdown(result), nl=False)
    else:
        print_gate(result)
    if not result.passed:
        raise typer.Exit(1)
