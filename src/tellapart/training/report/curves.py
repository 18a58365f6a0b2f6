"""Curves of a training run as SVG files: its losses, its validation values, and the sweep back to its start."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tellapart.data.rows import read_jsonl
from tellapart.errors import DataError, RunError, first_line, quote
from tellapart.records.run_folder import write_text_file
from tellapart.report.line_chart import LineChart, svg
from tellapart.training.idle_terms import ENDS, NOT_TERMS

if TYPE_CHECKING:
    from tellapart.training.run_files import RunFiles
    from tellapart.training.sweep import Sweep

__all__ = ["log_charts", "sweep_chart", "write_curves"]

#: Points of a curve at most; each is the mean of as many steps as leave these.
_POINTS = 200


def sweep_chart(sweep: Sweep) -> LineChart:
    """Draw each benchmark's mean headline metric, in percent, over alpha; the Pareto-best alpha is marked.

    Source: WiSE-FT (Wortsman et al. 2022), Figure 1, with alpha instead of the plane of the two accuracies.

    >>> from tellapart.training.sweep import Sweep
    >>> sweep_chart(Sweep(("demo",), {0.0: (0.1,), 1.0: (0.4,)}, 1.0, "local-dir:model")).lines
    {'demo': [(0.0, 10.0), (1.0, 40.0)]}
    """
    lines = {
        name: [(alpha, 100 * values[position]) for alpha, values in sweep.curve.items()]
        for position, name in enumerate(sweep.benchmarks)
    }
    title = "From the start (0) to the trained weights (1): mean of headline metrics, %"
    return LineChart(title, "alpha", lines, (sweep.best, f"Pareto-best {sweep.best:.2f}"))


def log_charts(path: Path) -> list[LineChart]:
    """Draw a log's losses, its validation values, which are in percent, and its learning rate.

    A point of a loss is the mean of as many steps as leave 200 points. A validation value has its 95 % interval.

    Raises:
        RunError: the log cannot be read, or is damaged.
    """
    losses: dict[str, list[tuple[float, float]]] = {}
    values: dict[str, list[tuple[float, float]]] = {}
    rates: list[tuple[float, float]] = []
    ranges: list[tuple[float, float, float]] = []
    try:
        for _, record in read_jsonl(path):
            if "learning_rate" in record:
                rates.append((_number(record, "step"), _number(record, "learning_rate")))
            if all(end in record for end in ENDS):
                low, high = (100 * _number(record, end) for end in ENDS)
                ranges.append((_number(record, "step"), low, high))
            for name in (name for name in record if name not in NOT_TERMS):
                of_validation = name.startswith("validation_")
                curves, factor = (values, 100) if of_validation else (losses, 1)
                point = _number(record, "step"), factor * _number(record, name)
                curves.setdefault(name.removeprefix("validation_"), []).append(point)
    except (DataError, KeyError, TypeError, OverflowError) as error:
        raise RunError(f"{path}: is damaged ({first_line(error)}); go on with resume=True, which mends it") from error
    # The total first, then its parts by name; of the validation set the metric that chooses, whose interval is drawn.
    ordered = {name: _thin_points(losses[name]) for name in sorted(losses, key=lambda name: (name != "total", name))}
    last = max((line[-1][0] for line in [*losses.values(), *values.values()]), default=0.0)
    chosen = "Validation set, %" + (", and its 95 % interval" if ranges else "")
    charts = (
        LineChart("Loss and its parts", "step", ordered, span=(0.0, last)),
        LineChart(chosen, "step", values, span=(0.0, last), ranges=ranges),
        LineChart("Learning rate", "step", {"learning_rate": _thin_points(rates)} if rates else {}, span=(0.0, last)),
    )
    return [chart for chart in charts if chart.lines]


def _number(record: Mapping[str, Any], name: str) -> float:
    if isinstance(record[name], bool) or not isinstance(record[name], int | float):
        raise TypeError(f"its {quote(name)} is not a number")
    return float(record[name])


def write_curves(files: RunFiles, sweep: Sweep | None) -> list[Path]:
    """Write `log.svg`, and `wise/curve.svg` next to `curve.json` if there was a sweep; return their paths.

    Raises:
        RunError: the log is missing or damaged, or a file cannot be written.
    """
    charts_of = {files.folder / "log.svg": log_charts(files.log_path)}
    if sweep is not None:
        charts_of[files.sweep / "curve.svg"] = [sweep_chart(sweep)]
    paths = [path for path, charts in charts_of.items() if charts]
    for path in paths:
        write_text_file(path, svg(charts_of[path]))
    return paths


def _thin_points(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return means of as many neighbours as leave `_POINTS` points at most."""
    size = -(-len(points) // _POINTS)
    parts = (points[start : start + size] for start in range(0, len(points), size))
    return [(part[-1][0], math.fsum(y for _, y in part) / len(part)) for part in parts]
