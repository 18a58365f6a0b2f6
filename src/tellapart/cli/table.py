"""The command `tellapart table`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.options import Labels, Sort, labels_of, print_json
from tellapart.errors import RunError
from tellapart.report.paper_tables.layouts import AVERAGES, LAYOUTS
from tellapart.report.terminal import print_text


def table_command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")],
    latex: Annotated[bool, typer.Option("--latex", help="For the packages booktabs and graphicx.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="The default.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Numbers in full, without marks.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Numbers in full, with intervals and marks.")] = False,
    benchmarks: Annotated[
        list[str] | None,
        typer.Option(
            "-b", "--benchmark", help="One, or several as a column each; all that were measured if not given."
        ),
    ] = None,
    average: Annotated[
        bool, typer.Option("--average", help="Of several benchmarks: add the plain mean of the columns.")
    ] = False,
    average_as: Annotated[
        list[str] | None,
        typer.Option("--average-as", help=f"Add an average that papers take of parts: {', '.join(AVERAGES)}."),
    ] = None,
    layout: Annotated[
        str | None, typer.Option("--layout", help=f"Instead of a benchmark's own: {', '.join(LAYOUTS)}.")
    ] = None,
    costs: Annotated[
        Path | None,
        typer.Option("--costs", help="Of vlue-cost: a file of `tellapart time`, or CSV: model, and what it costs."),
    ] = None,
    labels: Labels = None,
    sort: Sort = None,
    intervals: Annotated[bool, typer.Option("--intervals", help="Also write intervals.")] = False,
    no_tiers: Annotated[bool, typer.Option("--no-tiers", help="Do not test models against the best.")] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the tests behind tiers.")] = 0,
    out: Annotated[Path | None, typer.Option("--out", help="Write the table there instead of printing it.")] = None,
) -> None:
    """Lay runs out as the papers do: the best bold, models that the items do not separate from it marked.

    Example: `tellapart table runs/a runs/b --latex`
    """
    from tellapart.report.paper_tables.layouts import table

    if latex + markdown + as_csv + as_json > 1:
        raise RunError("--latex, --markdown, --csv and --json: a table is written in one format; choose one")
    text = table(
        runs,
        "json" if as_json else "latex" if latex else "csv" if as_csv else "markdown",
        layout=layout,
        intervals=intervals,
        out=out,
        benchmarks=benchmarks or (),
        average=average,
        average_as=average_as or (),
        costs=costs,
        labels=labels_of(labels),
        sort=sort,
        with_tiers=not (no_tiers or as_csv),
        seed=seed,
    )
    if out is None:
        print_text(text, end="")
    else:
        print_json({"out": str(out)}) if as_json else print_text(f"table: {out}")
