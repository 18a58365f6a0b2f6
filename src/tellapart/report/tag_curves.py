"""Curves of P(right) over the numeric tags of a benchmark, on its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tellapart.evaluation.curve import Curves, list_numeric_tags, measure_curves
from tellapart.evaluation.item_outcomes import ItemOutcomes
from tellapart.report.curve_tables import write_threshold
from tellapart.report.line_chart import LineChart
from tellapart.report.sections import ModelEntry
from tellapart.stats.clusters import is_binary
from tellapart.stats.psychometric import INTERVAL_ITEMS, LEAST_LEVELS

__all__ = ["TagCurves", "tag_curves"]

#: Numeric tags of a benchmark that are shown, at most.
_MOST_TAGS = 2


@dataclass(frozen=True, slots=True)
class TagCurves:
    """Models' curves over one tag.

    Attributes:
        thresholds: model and threshold with its interval, as written.
    """

    curves: Curves
    chart: LineChart
    thresholds: tuple[tuple[str, str], ...]


def tag_curves(benchmark: str, metric: str, entries: Sequence[ModelEntry]) -> tuple[TagCurves, ...]:
    """Fit curves over a benchmark's numeric tags; tags on which no model shows a threshold are left out.

    A tag of whole numbers that no two items share is an identifier, and is left out, too.

    Args:
        benchmark, metric: names; items are right or wrong by the metric.
        entries: of the models.
    """
    chance = entries[0].record.metrics[metric].chance if metric in entries[0].record.metrics else None
    rows = [row for row, sample in enumerate(entries[0].samples)
            if all(metric in entry.samples[row].outcomes for entry in entries)]  # fmt: skip
    values = np.array([[entry.samples[row].outcomes[metric] for entry in entries] for row in rows], np.float64)
    if chance is None or len(rows) < INTERVAL_ITEMS or not is_binary(values):
        return ()
    items = tuple(entries[0].samples[row] for row in rows)
    outcomes = ItemOutcomes(benchmark, metric, tuple(entry.label for entry in entries), items, values)
    shown = []
    for tag in list_numeric_tags(items):
        texts = [item.tags[tag] for item in items if item.tags.get(tag)]
        identifier = len(set(texts)) == len(texts) and all(float(text).is_integer() for text in texts)
        if identifier or len(texts) < INTERVAL_ITEMS or len(set(map(float, texts))) < LEAST_LEVELS:
            continue
        curves = measure_curves(outcomes, tag, chance=chance)
        if any(None not in (row.threshold, row.low, row.high) for row in curves.curves):
            shown.append(_lay_out(curves))
        if len(shown) == _MOST_TAGS:
            break
    return tuple(shown)


def _lay_out(curves: Curves) -> TagCurves:
    lines = {row.model: [(x, 100 * p) for x, p in row.line] for row in curves.curves}
    thresholds = ((row.model, write_threshold(row, curves.smallest, curves.largest)) for row in curves.curves)
    chart = LineChart(f"{curves.metric}, %, over {curves.over}: fitted curves", curves.over, lines)
    return TagCurves(curves, chart, tuple(thresholds))
