"""The command `tellapart table`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.options import Labels, Sort, labels_of
from tellapart.errors import RunError
from tellapart.report.paper_tables.layouts import LAYOUTS

__all__ = ["table_command"]


def table_command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")],
    latex: Annotated[bool, typer.Option("--latex", help="For the packages booktabs and graphicx.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="The default.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Numbers in full, without marks.")] = False,
    benchmark: Annotated[
        str | None, typer.Option("-b", "--benchmark", help="Which, where the runs measured several.")
    ] = None,
    layout: Annotated[
        str | None, typer.Option("--layout", help=f"Instead of a benchmark's own: {', '.join(LAYOUTS)}.")
    ] = None,
    costs: Annotated[
        Path | None,
        typer.Option("--costs", help="Of vlue-cost: a file of `tellapart time`, or CSV: model, and what it costs."),
    ] = None,
    label: Labels = None,
    sort: Sort = None,
    intervals: Annotated[bool, typer.Option("--intervals", help="Also write intervals.")] = False,
    no_tiers: Annotated[bool, typer.Option("--no-tiers", help="Do not test models against the best.")] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the tests behind tiers.")] = 0,
    out: Annotated[Path | None, typer.Option("--out", help="Write the table there instead of printing it.")] = None,
) -> None:
    """Lay runs out as the papers do: the best bold, models that the items do not tell apart from it marked."""
    from tellapart.records.run_folder import write_text_file
    from tellapart.report.paper_tables.layouts import lay_out
    from tellapart.report.paper_tables.writing import write_csv, write_latex, write_markdown

    if latex + markdown + as_csv > 1:
        raise RunError("--latex, --markdown and --csv: a table is written in one format; choose one")
    write = write_latex if latex else write_csv if as_csv else write_markdown
    with_tiers = not (no_tiers or as_csv)
    paper_table = lay_out(
        runs,
        layout,
        benchmark=benchmark,
        costs=costs,
        labels=labels_of(label),
        sort=sort,
        with_tiers=with_tiers,
        seed=seed,
    )
    text = write(paper_table, intervals=intervals)
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_text_file(out, text)
        print(f"table: {out}")
