"""The kinds of pictures that `tellapart plot` draws, and the input of each from the runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tellapart.data.arguments import PathGiven, as_names, as_path, expect_kind
from tellapart.errors import RunError, UnknownNameError, nearest, quote
from tellapart.report.plots.style import write_picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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


#: Setting -> its default, and the kinds that use it, of those that not all do.
_USES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "benchmarks": ((), tuple(kind for kind in KINDS if kind != "cost")),
    "metrics": ((), ("bars", "tiers", "curves", "heatmap", "pareto")),
    "item": (None, ("matrix",)),
    "tag": (None, ("heatmap",)),
    "seed": (0, ("tiers",)),
    "costs": (None, ("pareto",)),
    "cost": ("latency", ("pareto",)),
    "labels": (None, tuple(kind for kind in KINDS if kind != "cost")),
    "sort": (None, ("bars", "tiers", "curves", "heatmap", "matrix")),
}


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

    names, asked = as_names(benchmarks, "benchmarks"), as_names(metrics, "metrics")
    costs, to = None if costs is None else as_path(costs, "costs"), as_path(out, "out")
    with run_folders(runs, "runs") as folders:
        draw = prepare_plot(
            kind, folders, benchmarks=names, metrics=asked, item=item, tag=tag, costs=costs, cost=cost, labels=labels,
            sort=sort, seed=seed,
        )  # fmt: skip
        write_picture(to, draw)
    return to


def check_kind(kind: str) -> str:
    """Return the kind of a picture."""
    if kind not in KINDS:
        hint = nearest(kind, KINDS) or ";"
        raise UnknownNameError(f"no picture {quote(kind)}{hint} the kinds are {', '.join(KINDS)}")
    return kind


def prepare_plot(kind: str, paths: Sequence[Path], **given: Any) -> Callable[[], Figure]:
    """Read a picture's input, and return the function that draws it; `given` are settings of `plot`."""
    from tellapart.report.measured import gather, mark_imported, sort_runs
    from tellapart.report.plots.agreement import agreement, draw_agreement
    from tellapart.report.plots.curves import draw_curves
    from tellapart.report.plots.pareto import draw_batches, prepare_pareto, read_batch_costs, read_costs
    from tellapart.report.plots.pictures import draw_bars, draw_heatmap, draw_matrix, draw_tiers

    settings = {name: given.get(name) or default for name, (default, _) in _USES.items()}
    expect_kind(
        check_kind(kind),
        {name: kinds for name, (_, kinds) in _USES.items()},
        {name: (settings[name], default) for name, (default, _) in _USES.items()},
    )
    benchmarks, metrics, labels = settings["benchmarks"], settings["metrics"], settings["labels"]
    if kind == "cost":
        batches = read_batch_costs(paths)
        return lambda: draw_batches(*batches)
    if kind == "agree":
        agreeing = agreement(paths, benchmarks=benchmarks, labels=labels)
        return lambda: draw_agreement(agreeing)
    one_metric = {"heatmap": "heatmap shows", "tiers": "tiers ranks by", "pareto": "pareto of one benchmark shows"}
    runs = mark_imported(gather(paths, labels), benchmarks)
    if len(benchmarks) > 1 and kind not in {"bars", "pareto"}:
        raise RunError(f"{kind} shows one benchmark; got {', '.join(benchmarks)}")
    benchmark, metric = (next(iter(names), None) for names in (benchmarks, metrics))
    if settings["sort"] is not None:
        runs = sort_runs(runs, benchmark, settings["sort"])
    if kind == "matrix" and settings["item"] is None:
        raise RunError("matrix shows one item; name it with item=ID")
    if kind == "pareto" and settings["costs"] is None:
        raise RunError("pareto needs the costs of models; give costs=FILE (of `tellapart time`, or CSV: model,cost)")
    if kind in one_metric and len(benchmarks) < 2 and len(metrics) > 1:
        raise RunError(f"{one_metric[kind]} one metric; got {', '.join(metrics)}")
    if kind == "pareto":
        return prepare_pareto(runs, read_costs(settings["costs"], settings["cost"]), benchmarks, metrics)
    draws: dict[str, Callable[[], Figure]] = {
        "bars": lambda: draw_bars(runs, benchmarks, metrics),
        "curves": lambda: draw_curves(runs, benchmark, metrics),
        "heatmap": lambda: draw_heatmap(runs, benchmark, metric, settings["tag"]),
        "tiers": lambda: draw_tiers(runs, benchmark, metric, seed=settings["seed"]),
        "matrix": lambda: draw_matrix(runs, settings["item"], benchmark),
    }
    return draws[kind]
