"""The kinds of pictures that `tellapart plot` draws, and the input of each from the runs."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tellapart.data.arguments import PathGiven, as_names, as_path, expect_kind
from tellapart.errors import RunError, UnknownNameError, nearest, quote
from tellapart.report.plots.style import write_picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_DATA = tomllib.loads(Path(__file__).with_name("kinds.toml").read_text(encoding="utf-8"))

#: Kind of picture -> its content.
KINDS: dict[str, str] = _DATA["kinds"]

#: Setting that not all kinds use -> those that do; and its default.
_USES: dict[str, tuple[str, ...]] = {name: tuple(kinds) for name, kinds in _DATA["uses"].items()}
_DEFAULTS: dict[str, Any] = {"benchmarks": (), "metrics": (), "seed": 0, "cost": "latency"}


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

    settings = {
        "benchmarks": as_names(benchmarks, "benchmarks"), "metrics": as_names(metrics, "metrics"), "item": item,
        "tag": tag, "costs": None if costs is None else as_path(costs, "costs"), "cost": cost, "labels": labels,
        "sort": sort, "seed": seed,
    }  # fmt: skip
    to = as_path(out, "out")
    with run_folders(runs, "runs") as folders:
        write_picture(to, prepare_plot(kind, folders, **settings))
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

    defaults: dict[str, Any] = {name: _DEFAULTS.get(name) for name in _USES}
    settings = {name: given.get(name) or default for name, default in defaults.items()}
    expect_kind(check_kind(kind), _USES, {name: (settings[name], default) for name, default in defaults.items()})
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
