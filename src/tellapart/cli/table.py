"""The command `tellapart table`: runs in a paper's layout, as LaTeX, Markdown or CSV."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from tellapart.catalog import nearest
from tellapart.errors import RunError, UnknownNameError

if TYPE_CHECKING:
    from tellapart.report.paper_tables.layout import PaperTable

__all__ = ["LAYOUTS", "laid_out"]

#: Layout -> what it shows; without one, a benchmark's own.
LAYOUTS = {
    "vlue": "VLUE's Table 2: models across, tasks down, in domain and out of it",
    "vlue-captions": "VLUE's Table 3",
    "vlue-cost": "VLUE's Table 4: performance and what models cost",
}


def laid_out(
    runs: Sequence[Path],
    layout: str | None = None,
    *,
    benchmark: str | None = None,
    costs: Path | None = None,
    with_tiers: bool = True,
    seed: int = 0,
) -> PaperTable:
    """Return runs as a table.

    Args:
        runs: run folders.
        layout: one of `LAYOUTS`; the benchmark's own if not given.
        benchmark: whose, where no layout is named; the one there is if not given.
        costs: of `vlue-cost`: a file of `tellapart time`, or CSV.
        with_tiers: mark models that the items do not tell apart from the best.
        seed: of the tests behind that.

    Raises:
        UnknownNameError: no such layout.
        RunError: the runs do not have what the table shows, or an option is missing.

    >>> laid_out([], "vleu")
    Traceback (most recent call last):
    tellapart.errors.UnknownNameError: no layout 'vleu'; did you mean 'vlue'? the layouts are vlue, vlue-captions, vlue-cost
    """
    from tellapart.report.measured import gather
    from tellapart.report.paper_tables.benchmark_table import benchmark_table
    from tellapart.report.paper_tables.vlue import captions_table, cost_table, tasks_table
    from tellapart.report.plots.costs import read_costs

    if layout is not None and layout not in LAYOUTS:
        raise UnknownNameError(
            f"no layout {layout!r}{nearest(layout, LAYOUTS) or ';'} the layouts are {', '.join(LAYOUTS)}"
        )
    found = gather(runs)
    if layout is None:
        return benchmark_table(found, benchmark, with_tiers=with_tiers, seed=seed)
    if layout == "vlue":
        return tasks_table(found)
    if layout == "vlue-captions":
        return captions_table(found)
    if costs is None:
        raise RunError("vlue-cost needs what models cost; say --costs FILE (`tellapart time --out FILE`, or CSV)")
    return cost_table(found, read_costs(costs))


def table_command(  # noqa: PLR0917
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")],
    latex: Annotated[bool, typer.Option("--latex", help="For the packages booktabs and graphicx.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="The default.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Numbers in full, without marks.")] = False,
    benchmark: Annotated[
        Optional[str],  # noqa: UP045  (typer reads it on 3.11)
        typer.Option("-b", "--benchmark", help="Which, where the runs measured several."),
    ] = None,
    layout: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--layout", help=f"Instead of a benchmark's own: {', '.join(LAYOUTS)}."),
    ] = None,
    costs: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--costs", help="Of vlue-cost: a file of `tellapart time`, or CSV: model, and what it costs."),
    ] = None,
    intervals: Annotated[bool, typer.Option("--intervals", help="Also write intervals.")] = False,
    no_tiers: Annotated[bool, typer.Option("--no-tiers", help="Do not test models against the best.")] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the tests behind tiers.")] = 0,
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--out", help="Write the table there instead of printing it."),
    ] = None,
) -> None:
    """Lay runs out as the papers do: the best bold, models that the items do not tell apart from it marked."""
    from tellapart.records.run_folder import write_whole
    from tellapart.report.paper_tables.writing import write_csv, write_latex, write_markdown

    if latex + markdown + as_csv > 1:
        raise RunError("--latex, --markdown and --csv: a table is written in one format; choose one")
    write = write_latex if latex else write_csv if as_csv else write_markdown
    made = laid_out(runs, layout, benchmark=benchmark, costs=costs, with_tiers=not (no_tiers or as_csv), seed=seed)
    text = write(made, intervals=intervals)
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_whole(out, text)
        typer.echo(f"table: {out}")
