"""The papers' table layouts, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tellapart.catalog import nearest
from tellapart.errors import RunError, UnknownNameError

if TYPE_CHECKING:
    from tellapart.report.paper_tables.paper_table import PaperTable

__all__ = ["LAYOUTS", "lay_out"]

#: Layout -> what it shows; without one, a benchmark's own.
LAYOUTS = {
    "vlue": "VLUE's Table 2: models across, tasks down, in domain and out of it",
    "vlue-captions": "VLUE's Table 3",
    "vlue-cost": "VLUE's Table 4: performance and what models cost",
}


def lay_out(
    folders: Sequence[Path],
    layout: str | None = None,
    *,
    benchmark: str | None = None,
    costs: Path | None = None,
    labels: Mapping[str, str] | None = None,
    sort: str | None = None,
    with_tiers: bool = True,
    seed: int = 0,
) -> PaperTable:
    """Return runs as a table.

    Args:
        folders: run folders.
        layout: one of `LAYOUTS`; the benchmark's own if not given.
        benchmark: whose, where no layout is named; the one there is if not given.
        costs: of `vlue-cost`: a file of `tellapart time`, or CSV.
        labels: a model's name -> what to call it.
        sort: order the models by this metric, the best first; as they were named if not given.
        with_tiers: mark models that the items do not tell apart from the best.
        seed: of the tests behind that.

    Raises:
        UnknownNameError: no such layout.
        RunError: the runs do not have what the table shows, or an option is missing.
    """
    from tellapart.report.measured import gather, sort_runs
    from tellapart.report.paper_tables.benchmark_table import benchmark_table
    from tellapart.report.paper_tables.vlue import captions_table, cost_table, tasks_table
    from tellapart.report.plots.costs import read_costs

    if layout is not None and layout not in LAYOUTS:
        hint = nearest(layout, LAYOUTS) or ";"
        raise UnknownNameError(f"no layout {layout!r}{hint} the layouts are {', '.join(LAYOUTS)}")
    runs = gather(folders, labels)
    if sort is not None:
        runs = sort_runs(runs, benchmark, sort)
    if layout is None:
        return benchmark_table(runs, benchmark, with_tiers=with_tiers, seed=seed)
    if layout == "vlue":
        return tasks_table(runs)
    if layout == "vlue-captions":
        return captions_table(runs)
    if costs is None:
        raise RunError("vlue-cost needs what models cost; say --costs FILE (`tellapart time --out FILE`, or CSV)")
    return cost_table(runs, read_costs(costs))
