"""The kinds of pictures that `tellapart plot` draws, and the input of each from the runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tellapart.data.arguments import PathGiven, as_names, as_path, expect_kind
from tellapart.errors import RunError, UnknownNameError, nearest, plain, quote
from tellapart.report.plots.style import (
    COLUMN,
    axes_of,
    legend_below,
    look,
    plain_logarithm,
    write_picture,
    write_title,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_batches(what: str, costs: Mapping[str, Sequence[tuple[float, float]]]) -> Figure:
    """Draw a line a series, both axes logarithmic: a cost that grows with the batch's square is a line of slope two."""
    figure, axes = axes_of(COLUMN, 2.6)
    for number, (series, points) in enumerate(costs.items()):
        style = look(number)
        axes.plot(
            [size for size, _ in points],
            [cost for _, cost in points],
            color=style.colour,
            linestyle=style.dash,
            marker=style.marker,
            markeredgecolor="black",
            markeredgewidth=0.5,
            label=plain(series),
        )
    sizes = sorted({size for points in costs.values() for size, _ in points})
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    write_title(figure, "cost against batch size")
    axes.set_xticks(sizes, [f"{size:g}" for size in sizes])
    axes.minorticks_off()
    plain_logarithm(axes.yaxis)
    axes.set_xlabel("samples in a batch")
    axes.set_ylabel(what)
    axes.grid()
    legend_below(figure, axes, 3)
    return figure


#: Kind of picture -> its content.
KINDS = {
    "bars": "metrics with intervals, and the line of chance; of several benchmarks a panel each",
    "tiers": "a ranking; models that the items do not tell apart share a band",
    "curves": "how equivariance deviations are distributed",
    "heatmap": "one metric by the values of a tag and by model",
    "matrix": "one item: images, captions, each model's scores",
    "pareto": "performance against latency, parameters, FLOPs, or a cost of your own",
    "cost": "cost against batch size",
    "agree": "how alike benchmarks rank models: Spearman's correlations, neighbours alike",
}


#: Setting -> the kinds that use it, of those that not all do.
_USES = {
    "benchmarks": tuple(kind for kind in KINDS if kind != "cost"),
    "metrics": ("bars", "tiers", "curves", "heatmap", "pareto"),
    "item": ("matrix",),
    "tag": ("heatmap",),
    "seed": ("tiers",),
    "costs": ("pareto",),
    "cost": ("pareto",),
    "labels": tuple(kind for kind in KINDS if kind != "cost"),
    "sort": ("bars", "tiers", "curves", "heatmap", "matrix"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotSettings:
    """The content of a picture of runs, as of `plot`."""

    benchmarks: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    item: str | None = None
    tag: str | None = None
    costs: Path | None = None
    cost: str = "latency"
    seed: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    sort: str | None = None


def plot(
    kind: str,
    runs: PathGiven | Sequence[PathGiven],
    out: PathGiven,
    *,
    benchmarks: Sequence[str] = (),
    metrics: Sequence[str] = (),
    item: str | None = None,
    tag: str | None = None,
    costs: PathGiven | None = None,
    cost: str = "latency",
    labels: Mapping[str, str] | None = None,
    sort: str | None = None,
    seed: int = 0,
) -> Path:
    """Draw a picture for a paper to a file: .pdf, .svg or .png.

    Args:
        kind: of picture: bars, heatmap, matrix, pareto, cost, agree, ...
        runs: runs, or run folders; for cost and agree also files, as the command takes them.
        out: the file.
        benchmarks: one; several for bars, a panel each, for pareto, which takes the mean over them, and for agree,
            which takes all if none.
        metrics: which; if none, those of a first look, and the one that ranks where one is shown. Of several benchmarks
            each takes the one of them that it has.
        item: an id, for matrix.
        tag: for heatmap; the one of the benchmark's paper, or the only one, if not given.
        costs: a file of `tellapart time`, or CSV, for pareto.
        cost: which cost of the file.
        labels: the name of a model or of a benchmark -> its label.
        sort: a metric to order the models by, the best first; as they were named if not given.
        seed: of the tests behind tiers.

    Raises:
        TellapartError: a folder is not a run, or has no such picture.

    >>> import tellapart as ta
    >>> run = ta.evaluate("oracle", "demo", limit=20)
    >>> ta.plot("bars", run, getfixture("tmp_path") / "bars.png").name
    'bars.png'
    """
    from tellapart.records.zipped import run_folders

    settings = PlotSettings(
        benchmarks=as_names(benchmarks, "benchmarks"),
        metrics=as_names(metrics, "metrics"),
        item=item,
        tag=tag,
        costs=None if costs is None else as_path(costs, "costs"),
        cost=cost,
        seed=seed,
        labels=labels or {},
        sort=sort,
    )
    to = as_path(out, "out")
    with run_folders(runs, "runs") as folders:
        write_picture(to, prepare_plot(kind, folders, settings))
    return to


def check_kind(kind: str) -> str:
    """Return the kind of a picture."""
    if kind not in KINDS:
        raise UnknownNameError(
            f"no picture {quote(kind)}{nearest(kind, KINDS) or ';'} the kinds are {', '.join(KINDS)}"
        )
    return kind


def prepare_plot(kind: str, paths: Sequence[Path], settings: PlotSettings) -> Callable[[], Figure]:
    """Read a picture's input, and return the function that draws it."""
    from tellapart.report.benchmark_agreement import agreement, draw_agreement
    from tellapart.report.plots.pareto import read_batch_costs

    check_kind(kind)
    defaults = {name: getattr(PlotSettings(), name) for name in _USES}
    expect_kind(kind, _USES, {name: (getattr(settings, name) or value, value) for name, value in defaults.items()})
    if kind == "cost":
        costs = read_batch_costs(paths)
        return lambda: draw_batches(*costs)
    if kind == "pareto":
        return _prepare_pareto(paths, settings)
    if kind == "agree":
        agreeing = agreement(paths, benchmarks=settings.benchmarks, labels=settings.labels)
        return lambda: draw_agreement(agreeing)
    return _prepare_one_benchmark(kind, paths, settings)


def _prepare_one_benchmark(kind: str, paths: Sequence[Path], settings: PlotSettings) -> Callable[[], Figure]:
    from tellapart.report.heatmap import draw_heatmap
    from tellapart.report.measured import gather, mark_imported, sort_runs
    from tellapart.report.plots.bars import draw_bars, draw_tiers
    from tellapart.report.plots.curves import draw_curves
    from tellapart.report.plots.matrix import draw_matrix

    runs, benchmarks, metrics = gather(paths, settings.labels), settings.benchmarks, settings.metrics
    runs = mark_imported(runs, benchmarks)
    if len(benchmarks) > 1 and kind != "bars":
        raise RunError(f"{kind} shows one benchmark; got {', '.join(benchmarks)}")
    benchmark = benchmarks[0] if benchmarks else None
    if settings.sort is not None:
        runs = sort_runs(runs, benchmark, settings.sort)
    if kind == "bars":
        return lambda: draw_bars(runs, benchmarks, metrics)
    if kind == "matrix":
        if (item := settings.item) is None:
            raise RunError("matrix shows one item; name it with item=ID")
        return lambda: draw_matrix(runs, item, benchmark)
    if kind in {"heatmap", "tiers"}:
        metric = _only_metric(settings, "heatmap shows" if kind == "heatmap" else "tiers ranks by")
        if kind == "heatmap":
            return lambda: draw_heatmap(runs, benchmark, metric, settings.tag)
        return lambda: draw_tiers(runs, benchmark, metric, seed=settings.seed)
    return lambda: draw_curves(runs, benchmark, metrics)


def _prepare_pareto(paths: Sequence[Path], settings: PlotSettings) -> Callable[[], Figure]:
    from tellapart.report.measured import gather, mark_imported, pick_benchmark, title_of_set
    from tellapart.report.numbers import items_text
    from tellapart.report.plots.pareto import draw_pareto, points, read_costs, read_ranked

    if settings.costs is None:
        raise RunError(
            "pareto needs the costs of models; give costs=FILE (`tellapart time --out FILE`, or CSV: model,cost)"
        )
    if len(settings.benchmarks) < 2:
        _only_metric(settings, "pareto of one benchmark shows")
    runs = mark_imported(gather(paths, settings.labels), settings.benchmarks)
    benchmarks = settings.benchmarks or (pick_benchmark(runs, None)[0],)
    costs = read_costs(settings.costs, settings.cost)
    models = points(runs, costs, benchmarks, settings.metrics)
    titles = []
    for name, metric in read_ranked(runs, benchmarks, settings.metrics)[1].items():
        _, measured = pick_benchmark(runs, name)
        record = measured[0].record(name)
        limited = "" if record.limited_from is None else f" ({items_text(record)})"
        titles.append(f"{title_of_set(runs, name)} {metric.replace('_', ' ')}{limited}")
    upward = f"{'mean of ' if len(titles) > 1 else ''}{' and '.join(titles)}, percent"
    return lambda: draw_pareto(models, costs.what, upward)


def _only_metric(settings: PlotSettings, use: str) -> str | None:
    if len(settings.metrics) > 1:
        raise RunError(f"{use} one metric; got {', '.join(settings.metrics)}")
    return settings.metrics[0] if settings.metrics else None
