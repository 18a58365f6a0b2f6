"""Diagnoses as text, pictures and parts of the report: thresholds over numeric tags, risk over coverage, reasons."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tellapart.catalog import REFERENCES
from tellapart.diagnosis.curve import Curve, Curves, list_numeric_tags, measure_curves
from tellapart.diagnosis.item_analysis import ItemOutcomes
from tellapart.diagnosis.psychometric import INTERVAL_ITEMS, LEAST_LEVELS
from tellapart.diagnosis.risk import Risks
from tellapart.diagnosis.why import COLLAPSE, SHARES, Reasons, Why, bound_outcomes, measure_reasons, read_squares
from tellapart.errors import plain
from tellapart.evaluation.systems import lay_out_outcomes
from tellapart.metrics.matching import Reason
from tellapart.records.result import Value
from tellapart.report.benchmark_runs import BenchmarkRuns, ModelEntry
from tellapart.report.charts import LineChart
from tellapart.report.numbers import count_text, interval, percent
from tellapart.report.plots.style import COLUMN, GREY, PAGE, legend_below, look, make_panels, write_title
from tellapart.report.terminal import print_template
from tellapart.stats.clusters import is_binary
from tellapart.stats.interval import FEW_CLUSTERS
from tellapart.stats.paired import write_p

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


#: Numeric tags of a benchmark that are shown, and panels side by side on a page, at most.
_MOST_TAGS, _MOST_ACROSS = 2, 3


def curves_title(curves: Curves) -> str:
    """Write what is shown: the benchmark, its metric and items, the tag."""
    size = count_text(curves.n, curves.limited_from, curves.limited_to)
    return f"{plain(curves.benchmark)}, {curves.metric} of {size} items over {plain(curves.over)}"


def write_threshold(curve: Curve, smallest: float, largest: float) -> str:
    """Write a threshold with its interval, whose open ends reach beyond the values; or why there is none."""
    if curve.slope is None:
        return f"({curve.reason})"
    if curve.line:  # a part of the items may reach less far than all
        smallest, largest = curve.line[0][0], curve.line[-1][0]
    place = "" if curve.outside is None else curve.outside.partition(" ")[0]
    limit = smallest if place == "below" else largest
    value = f"{place} {limit:.4g}" if curve.threshold is None else f"{curve.threshold:.4g}"
    if curve.reason is not None:
        return f"{value} ({curve.reason})"
    low = f"< {smallest:.4g}" if curve.low is None else f"{curve.low:.4g}"
    high = f"> {largest:.4g}" if curve.high is None else f"{curve.high:.4g}"
    return f"{value} [{low}, {high}]"


def curve_facts(curves: Curves) -> dict[str, Any]:
    """Return the facts of the text `curves`: a row for each curve and each pair of models, and notes."""
    threshold = partial(write_threshold, smallest=curves.smallest, largest=curves.largest)
    return {"curves": curves, "title": curves_title(curves), "threshold": threshold, "write_p": write_p}


def tag_curves(benchmark: str, metric: str, entries: Sequence[ModelEntry]) -> list[tuple[Curves, LineChart]]:
    """Fit and draw curves over a benchmark's numeric tags; tags without a threshold, and identifiers, are left out."""
    chance = entries[0].record.metrics[metric].chance if metric in entries[0].record.metrics else None
    laid_out = lay_out_outcomes([entry.samples for entry in entries], [metric])
    if chance is None or metric not in laid_out:
        return []
    rows = np.flatnonzero(~np.isnan(laid_out[metric]).any(axis=1))
    values, items = laid_out[metric][rows], tuple(entries[0].samples[row] for row in rows)
    if len(items) < INTERVAL_ITEMS or not is_binary(values):
        return []
    outcomes = ItemOutcomes(benchmark, metric, tuple(entry.label for entry in entries), items, values)
    shown: list[tuple[Curves, LineChart]] = []
    for tag in list_numeric_tags(items):
        texts = [item.tags[tag] for item in items if item.tags.get(tag)]
        identifier = len(set(texts)) == len(texts) and all(float(text).is_integer() for text in texts)
        if identifier or len(texts) < INTERVAL_ITEMS or len(set(map(float, texts))) < LEAST_LEVELS:
            continue
        curves = measure_curves(outcomes, tag, chances={None: chance})
        if any(None not in (row.threshold, row.low, row.high) for row in curves.curves):
            lines = {row.model: [(x, 100 * p) for x, p in row.line] for row in curves.curves}
            shown.append((curves, LineChart(f"{curves.metric}, %, over {tag}: fitted curves", tag, lines)))
        if len(shown) == _MOST_TAGS:
            break
    return shown


def draw_thresholds(curves: Curves) -> Figure:
    """Draw a panel for all items, and one for each value of the second tag; a curve a model, its threshold below."""
    subsets = list(dict.fromkeys(row.subset for row in curves.curves))
    across = min(_MOST_ACROSS, len(subsets))
    models = len({row.model for row in curves.curves})
    width, height = COLUMN if across == 1 else PAGE, 0.9 + (1.9 + 0.08 * models) * -(-len(subsets) // across)
    figure, panels = make_panels(width, height, len(subsets), across, sharey=True)
    for axes, subset in zip(panels, subsets, strict=True):
        _draw_panel(axes, curves, [row for row in curves.curves if row.subset == subset])
        if curves.by is not None:
            axes.set_title("all items" if subset is None else plain(subset))
    for axes in panels[-across:]:
        axes.set_xlabel(plain(curves.over))
        axes.tick_params(labelbottom=True)
    for axes in panels[::across]:
        axes.set_ylabel(f"{curves.metric.replace('_', ' ')}, percent")
    legend_below(figure, panels[0], 3)
    write_title(figure, f"{curves_title(curves)}; 95% intervals")
    return figure


def _draw_panel(axes: Axes, curves: Curves, rows: Sequence[Curve]) -> None:
    reached = [x for row in rows for x, _ in row.line] or [curves.smallest, curves.largest]
    smallest, largest = min(reached), max(reached)
    margin = 0.03 * (largest - smallest)
    for number, row in enumerate(rows):
        style = look(number)
        values = [level.value for level in row.levels]
        # Models at one value stand side by side.
        values = [value + (number - (len(rows) - 1) / 2) * margin / len(rows) for value in values]
        shares = [100 * level.right for level in row.levels]
        axes.plot(values, shares, linestyle="", markersize=3.5, markeredgewidth=0.4, **style.mark)
        for value, level in zip(values, row.levels, strict=True):
            if level.low is not None and level.high is not None:
                bounds = [100 * level.low, 100 * level.high]
                axes.plot([value] * 2, bounds, color=style.colour, linewidth=0.7, alpha=0.6)
        axes.plot([], [], marker=style.marker, label=plain(row.model), **style.line)
        if not row.line:
            continue
        axes.plot([x for x, _ in row.line], [100 * p for _, p in row.line], **style.line)
        height = -6 - 6 * number
        if row.reason is None:
            ends = [
                smallest - margin if row.low is None else row.low,
                largest + margin if row.high is None else row.high,
            ]
            axes.plot(ends, [height] * 2, color=style.colour, linewidth=1.4)
        if row.threshold is not None:
            axes.plot(row.threshold, height, **style.mark)
    axes.axhline(100 * rows[0].chance, color=GREY, linestyle="--", linewidth=1.0, label="chance", zorder=1.9)
    axes.set(xlim=(smallest - 2 * margin, largest + 2 * margin), ylim=(-6 - 6 * len(rows), 103))
    axes.set_yticks([0, 25, 50, 75, 100])
    axes.grid()


def risks_title(risks: Risks) -> str:
    """Write what is shown: the benchmark, its metric and items."""
    size = count_text(risks.n, risks.limited_from, risks.limited_to)
    return f"{plain(risks.benchmark)}, errors of {risks.metric} on {size} items"


def risk_facts(risks: Risks) -> dict[str, Any]:
    """Return the facts of the text `risks`: a row for each model and each pair of models, and notes."""
    return {"risks": risks, "title": risks_title(risks), "clusters": FEW_CLUSTERS}


def draw_risks(risks: Risks) -> Figure:
    """Draw risk over coverage, a line a model."""
    figure, (axes,) = make_panels(COLUMN, 2.8 + 0.08 * len(risks.rows))
    for number, row in enumerate(risks.rows):
        axes.plot(*(100 * np.array(row.curve).T), label=plain(row.model), **look(number).line)
    axes.set(xlabel="coverage: items answered, percent", ylabel="risk: errors among them, percent", xlim=(0, 100))
    axes.set_ylim(bottom=0)
    axes.grid()
    legend_below(figure, axes, 3)
    write_title(figure, risks_title(risks))
    return figure


#: Items in the report's picture of a model.
MOST_POINTS = 1000

_SHORT = dict(zip(Reason, ("right", "caption's prior", "picture's prior", "both priors", "no match"), strict=True))
_SHARE_TITLES = dict(zip(SHARES, ("the match", "the captions", "the pictures"), strict=True))


def print_why(why: Why, *, by: str | None = None) -> None:
    """Print each model's items by reason, with 95% intervals; with `by`, a row for each value of that tag, too."""
    print_template("why", why=why, by=by, reasons=_SHORT, right=Reason.RIGHT, reason_rows=reason_rows, bounds=_range)


def explain_section(measured: BenchmarkRuns) -> list[Reasons]:
    """Return the reasons of each model of a report's section; none if no item is a square of scores or outcomes."""
    rows = []
    models = [entry for entry in measured.entries if entry.name not in REFERENCES]
    for entry in models or measured.entries:
        squares, left_out = read_squares(entry.samples)
        if squares:
            named = entry.label, measured.name, entry.record
            rows.append(measure_reasons(*named, squares, left_out, by_tag=False)[0])
        else:
            rows += bound_outcomes(entry.label, measured.name, entry.samples, by_tag=False)
    return rows


def place_items(row: Reasons, browsed: Collection[int]) -> tuple[str, list[tuple[float, float, str, str, bool]]]:
    """Return the reach of a picture's axes; of items spread evenly x, y, id, reason and whether the page has it."""
    reach = float(f"{np.quantile([max(abs(d), p) for _, d, p, _ in row.items], 0.95, method='higher') or 1.0:.2g}")
    here, points = {*browsed}, []
    count = min(MOST_POINTS, len(row.items))
    for k in (number * len(row.items) // count for number in range(count)):
        id_, match, prior, reason = row.items[k]
        x, y = 46 + 366 * min(prior / reach, 1.0), 195 - 187 * min(max(match / reach, -0.5), 1.0)
        points.append((round(x, 1), round(y, 1), id_, Reason(reason).label, k in here))
    return f"{reach:g}", points


def reason_rows(rows: list[Reasons]) -> list[tuple[str, list[str]]]:
    """Return the rows of the table: heading, and a cell for each model."""

    def write(value: Value, most: Value) -> str:
        both = value.model_copy(update={"high": most.high})
        return _range(value, most) if value.low is None else f"{_range(value, most)} {interval(both)}"

    cells = [{name: write(value, most) for name, value, most in row.bounds()} for row in rows]
    heads = {reason: reason.label for reason in Reason} | {"match_score": "match score"}
    if any(row.at_most is None for row in rows):
        heads |= {name: f"squares of scores: {title}" for name, title in _SHARE_TITLES.items()}
    heads |= {name: words for name, words in COLLAPSE.items() if any(name in cell for cell in cells)}
    return [(head, [cell.get(name, "") for cell in cells]) for name, head in heads.items()]


def _range(value: Value, most: Value) -> str:
    return percent(value.value) if value.value == most.value else f"{percent(value.value)} to {percent(most.value)}"
