"""The command `tellapart plot`: one picture of runs, or of what models cost, as a vector file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from tellapart.catalog import nearest
from tellapart.errors import RunError, UnknownNameError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["KINDS", "PlotSettings", "drawing"]

#: Kind of picture -> what it shows.
KINDS = {
    "bars": "metrics with intervals, and the line of chance",
    "tiers": "a ranking; models that the items do not tell apart share a band",
    "curves": "how equivariance deviations are distributed",
    "matrix": "one item: images, captions, each model's scores",
    "pareto": "performance against latency, parameters, FLOPs, or a cost of your own",
    "cost": "cost against batch size",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotSettings:
    """What is drawn of runs.

    Attributes:
        benchmarks: one; several for `pareto`, which takes the mean over them.
        metrics: which; those of a first look if none.
        item: an id, for `matrix`.
        costs: a file of `tellapart time`, or CSV, for `pareto`.
        cost: which cost of the file.
        seed: of the tests behind tiers.

    >>> PlotSettings().cost
    'latency'
    """

    benchmarks: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    item: str | None = None
    costs: Path | None = None
    cost: str = "latency"
    seed: int = 0


def drawing(kind: str, paths: Sequence[Path], settings: PlotSettings) -> Callable[[], Figure]:
    """Read what a picture needs, and return the function that draws it.

    Args:
        kind: one of `KINDS`.
        paths: run folders; for `cost`, files of `tellapart time` or CSV.
        settings: what of them.

    Raises:
        UnknownNameError: no such kind.
        RunError: the runs do not have what the picture shows, or an option is missing.

    >>> drawing("bar", [], PlotSettings())
    Traceback (most recent call last):
    tellapart.errors.UnknownNameError: no picture 'bar'; did you mean 'bars'? the kinds are bars, tiers, curves, matrix, pareto, cost
    """
    from tellapart.report.measured import gather
    from tellapart.report.plots.bars import draw_bars
    from tellapart.report.plots.batches import draw_batches
    from tellapart.report.plots.costs import read_batch_costs
    from tellapart.report.plots.curves import draw_curves
    from tellapart.report.plots.matrix import draw_matrix
    from tellapart.report.plots.tier_chart import draw_tiers

    if kind not in KINDS:
        raise UnknownNameError(f"no picture {kind!r}{nearest(kind, KINDS) or ';'} the kinds are {', '.join(KINDS)}")
    if kind == "cost":
        costs = read_batch_costs(paths)
        return lambda: draw_batches(costs)
    if kind == "pareto":
        return _pareto(paths, settings)
    runs = gather(paths)
    if len(settings.benchmarks) > 1:
        raise RunError(f"{kind} shows one benchmark; got {', '.join(settings.benchmarks)}")
    benchmark = settings.benchmarks[0] if settings.benchmarks else None
    if kind == "matrix":
        item = settings.item
        if item is None:
            raise RunError("matrix shows one item; say which with --item ID")
        return lambda: draw_matrix(runs, item, benchmark)
    if kind == "tiers":
        if len(settings.metrics) > 1:
            raise RunError(f"tiers ranks by one metric; got {', '.join(settings.metrics)}")
        metric = settings.metrics[0] if settings.metrics else None
        return lambda: draw_tiers(runs, benchmark, metric, seed=settings.seed)
    draw = draw_bars if kind == "bars" else draw_curves
    return lambda: draw(runs, benchmark, settings.metrics)


def _pareto(paths: Sequence[Path], settings: PlotSettings) -> Callable[[], Figure]:
    from tellapart.report.measured import first_metrics, gather, pick_benchmark
    from tellapart.report.plots.costs import read_costs
    from tellapart.report.plots.pareto import draw_pareto, points

    if settings.costs is None:
        raise RunError(
            "pareto needs what models cost; say --costs FILE (`tellapart time --out FILE`, or CSV: model,cost)"
        )
    if len(settings.metrics) > 1:
        raise RunError(f"pareto shows one metric; got {', '.join(settings.metrics)}")
    runs = gather(paths)
    benchmarks = settings.benchmarks or (pick_benchmark(runs, None)[0],)
    metric = settings.metrics[0] if settings.metrics else None
    costs = read_costs(settings.costs, settings.cost)
    found = points(runs, costs, benchmarks, metric)
    shown = []
    for name in benchmarks:
        _, own = pick_benchmark(runs, name)
        shown.append(f"{name} {(metric or first_metrics([own[0].record(name)])[-1]).replace('_', ' ')}")
    upward = f"{'mean of ' if len(shown) > 1 else ''}{' and '.join(shown)}, percent"
    return lambda: draw_pareto(found, costs.what, upward)


def plot_command(  # noqa: PLR0917
    kind: Annotated[str, typer.Argument(help=f"{'; '.join(f'{name}: {what}' for name, what in KINDS.items())}.")],
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Run folders; for cost, files of `tellapart time` or CSV.")
    ],
    out: Annotated[Path, typer.Option("--out", help="The file to write: .pdf, .svg or .png.")],
    benchmark: Annotated[
        Optional[list[str]],  # noqa: UP045  (typer reads it on 3.11)
        typer.Option("-b", "--benchmark", help="Which; pareto takes the mean of several."),
    ] = None,
    metric: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option("--metric", help="Which; those of a first look if not given. Repeatable."),
    ] = None,
    item: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--item", help="The id of matrix's item."),
    ] = None,
    costs: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--costs", help="Pareto's costs: a file of `tellapart time`, or CSV: model, and what it costs."),
    ] = None,
    cost: Annotated[str, typer.Option("--cost", help="latency, parameters, flops or memory.")] = "latency",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the tests behind tiers.")] = 0,
) -> None:
    """Draw a picture for a paper: vector, legible in grey and to colour-blind eyes, the same bytes each time."""
    from tellapart.report.plots.style import write_picture

    settings = PlotSettings(
        benchmarks=tuple(benchmark or ()), metrics=tuple(metric or ()), item=item, costs=costs, cost=cost, seed=seed
    )
    write_picture(out, drawing(kind, runs, settings))
    typer.echo(f"picture: {out}")
