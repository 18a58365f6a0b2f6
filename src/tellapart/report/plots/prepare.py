"""The kinds of pictures that `tellapart plot` draws, and the input of each from the runs."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import signature
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

#: The defaults of settings; of all others None.
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
    """Read the records of a picture, and return the function that draws it; `given` are settings of `plot`."""
    from tellapart.report.measured import gather, mark_imported, sort_runs
    from tellapart.report.plots.agreement import draw_agreement
    from tellapart.report.plots.curves import draw_curves
    from tellapart.report.plots.pareto import draw_batches, draw_costs
    from tellapart.report.plots.pictures import draw_bars, draw_heatmap, draw_matrix, draw_tiers

    uses = _DATA["uses"]
    settings: dict[str, Any] = {name: given.get(name) or _DEFAULTS.get(name) for name in uses}
    expect_kind(check_kind(kind), uses, {name: (value, _DEFAULTS.get(name)) for name, value in settings.items()})
    draws: dict[str, Callable[..., Figure]] = {
        "bars": draw_bars, "tiers": draw_tiers, "curves": draw_curves, "heatmap": draw_heatmap, "matrix": draw_matrix,
        "pareto": draw_costs, "cost": draw_batches, "agree": draw_agreement,
    }  # fmt: skip
    takes, benchmarks, metrics = signature(draws[kind]).parameters, settings["benchmarks"], settings["metrics"]
    single: dict[str, str | None] = {"benchmark": next(iter(benchmarks), None), "metric": next(iter(metrics), None)}
    shown: Any = paths
    if "runs" in takes:
        shown = mark_imported(gather(paths, settings["labels"]), benchmarks)
        if "benchmark" in takes and len(benchmarks) > 1:
            raise RunError(f"{kind} shows one benchmark; got {', '.join(benchmarks)}")
        if settings["sort"] is not None:
            shown = sort_runs(shown, single["benchmark"], settings["sort"])
        for name, needed in _DATA["needs"].get(kind, {}).items():
            if settings[name] is None:
                raise RunError(f"{kind} {needed}")
        if kind in _DATA["one_metric"] and len(benchmarks) < 2 and len(metrics) > 1:
            raise RunError(f"{kind} {_DATA['one_metric'][kind]} one metric; got {', '.join(metrics)}")
    return partial(draws[kind], shown, **{name: of for name, of in (settings | single).items() if name in takes})
