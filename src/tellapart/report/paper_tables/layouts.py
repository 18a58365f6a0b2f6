"""The papers' table layouts, by name."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tellapart.data.arguments import PathGiven, as_names, as_path, expect_used
from tellapart.errors import RunError, UnknownNameError, nearest, quote

if TYPE_CHECKING:
    from tellapart.report.tables import Table

#: The layouts and the averages by name, and the sources of the numbers in VLUE's tables.
_DATA = tomllib.loads(Path(__file__).with_name("layouts.toml").read_text(encoding="utf-8"))

#: Layout -> its content; without one, a benchmark's layout.
LAYOUTS: dict[str, str] = _DATA["layouts"]

#: Average that papers take of a benchmark's parts -> its definition, and who takes it.
AVERAGES = {name: average["is"] for name, average in _DATA["averages"].items()}


def table(
    runs: PathGiven | Sequence[PathGiven],
    form: str = "markdown",
    *,
    layout: str | None = None,
    intervals: bool = False,
    out: PathGiven | None = None,
    benchmarks: Sequence[str] = (),
    average: bool = False,
    average_as: Sequence[str] = (),
    costs: PathGiven | None = None,
    labels: Mapping[str, str] | None = None,
    sort: str | None = None,
    with_tiers: bool = True,
    seed: int = 0,
) -> str:
    """Lay runs out as the papers do: markdown, latex, csv or json; `out` writes a file.

    Args:
        runs: runs, or run folders.
        form: the format.
        layout: of `LAYOUTS`, instead of the benchmark's.
        intervals: also write intervals.
        out: the file.
        benchmarks: a name, laid out as in its paper, or several, a column each; all that were measured if none.
        average: add the plain mean of the columns of several benchmarks.
        average_as: add averages that papers take of a benchmark's parts, by their names in `AVERAGES`.
        costs: of the layout `vlue-cost`: a file of `tellapart time`, or CSV.
        labels: a model's name -> what to call it.
        sort: a metric (of several benchmarks: one of them, or `Avg`) to order the models by, the best first; as they
            were named if not given.
        with_tiers: mark models that the items do not separate from the best.
        seed: of the tests behind these marks.

    Raises:
        TellapartError: a folder is not a run, the format is unknown, or the measurements cannot be laid out so.

    >>> import tellapart as ta
    >>> print(ta.table(ta.evaluate("oracle", "demo", limit=20)).splitlines()[0])
    **demo, 20 of 400 items, percent**
    """
    from tellapart.records.run_folder import write_text_file
    from tellapart.records.zipped import run_folders
    from tellapart.report.paper_tables.table import write_csv, write_json, write_latex, write_markdown

    names, averages = as_names(benchmarks, "benchmarks"), as_names(average_as, "average_as")
    costs = None if costs is None else as_path(costs, "costs")
    writers = {"markdown": write_markdown, "latex": write_latex, "csv": write_csv}
    if form not in (forms := (*writers, "json")):
        hint = nearest(form, forms) if isinstance(form, str) else ""
        raise UnknownNameError(f"table(form={quote(form)}){hint or ';'} the formats are {', '.join(forms)}")
    with run_folders(runs, "runs") as folders:
        laid_out = lay_out(
            folders, layout, benchmarks=names, average=average, average_as=averages, costs=costs, labels=labels,
            sort=sort, with_tiers=with_tiers, seed=seed,
        )  # fmt: skip
    text = write_json(laid_out) if form == "json" else writers[form](laid_out, intervals=intervals)
    if out is not None:
        write_text_file(as_path(out, "out"), text)
    return text


def lay_out(
    folders: Sequence[Path],
    layout: str | None = None,
    *,
    benchmarks: Sequence[str] = (),
    average: bool = False,
    average_as: Sequence[str] = (),
    costs: Path | None = None,
    labels: Mapping[str, str] | None = None,
    sort: str | None = None,
    with_tiers: bool = True,
    seed: int = 0,
) -> Table:
    """Return runs as a table: a layout, a benchmark as in its paper, or several; arguments as of `table`."""
    from tellapart.benchmarks.find import set_name
    from tellapart.report.measured import gather, mark_imported, sort_runs
    from tellapart.report.paper_tables.benchmarks import benchmark_table, many_benchmarks_table, vlue_table
    from tellapart.report.plots.pareto import read_costs

    for kind, name, entries in (("layout", layout, LAYOUTS), *(("average", name, AVERAGES) for name in average_as)):
        if name is not None and name not in entries:
            hint = nearest(name, entries) or ";"
            raise UnknownNameError(f"no {kind} {name!r}{hint} the {kind}s are {', '.join(entries)}")
    if costs is not None and layout != "vlue-cost":
        raise RunError("costs= is shown by one layout; add layout=vlue-cost, or leave it out")
    if not with_tiers and layout is None:
        expect_used("table", "with with_tiers=False: nothing is drawn", seed=(seed, 0))
    runs = mark_imported(gather(folders, labels), benchmarks)
    if layout is not None:
        unused = {"benchmarks": (benchmarks, ()), "average": (average, False), "average_as": (average_as, ())}
        unused |= {"sort": (sort, None), "with_tiers": (with_tiers, True), "seed": (seed, 0)}
        expect_used(layout, "on a paper's table: every column and the order are its paper's", RunError, **unused)
        if layout == "vlue-cost" and costs is None:
            raise RunError("vlue-cost needs the costs of models; give costs=FILE (`tellapart time --out FILE`, or CSV)")
        return vlue_table(layout, runs, None if costs is None else read_costs(costs))
    measured = [*map(set_name, benchmarks)] or [name for run in runs for name in run.result.benchmarks]
    names = [*dict.fromkeys(measured)]
    marks: dict[str, Any] = {"with_tiers": with_tiers, "seed": seed}
    if len(names) > 1 or (average_as and not average):
        averages = {name: AVERAGES[name] for name in average_as}
        return many_benchmarks_table(runs, names, average=average, average_as=averages, sort=sort, **marks)
    if average:
        raise RunError(f"average=True is the mean over several benchmarks; got {', '.join(names) or 'none'}")
    benchmark = next(iter(names), None)
    return benchmark_table(runs if sort is None else sort_runs(runs, benchmark, sort), benchmark, **marks)
