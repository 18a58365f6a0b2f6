"""A map of a benchmark's subsets and models: one metric by the values of the main tag, darker where it is higher."""

from __future__ import annotations

from dataclasses import dataclass

from tellapart.benchmarks.find import declared_benchmark
from tellapart.records.result import Metrics
from tellapart.report.rivals import Rivals
from tellapart.report.sections import Section

__all__ = ["HeatCell", "HeatMap", "HeatRow", "heat_map", "main_tag"]

#: The lightest and the darkest cell, in red, green and blue: those of the item browser.
_LIGHT, _DARK = (240, 245, 251), (13, 59, 122)

#: Darkness from which letters are white.
_WHITE_FROM = 0.68


@dataclass(frozen=True, slots=True)
class HeatCell:
    """One model on one subset.

    Attributes:
        value: of the metric.
        style: CSS of the cell's and its letters' colours.
    """

    value: float
    style: str


@dataclass(frozen=True, slots=True)
class HeatRow:
    """One value of the tag; `cells` are in the order of the map's models, None where a model has no number."""

    value: str
    n: int
    cells: tuple[HeatCell | None, ...]


@dataclass(frozen=True, slots=True)
class HeatMap:
    """One metric of several models by the values of one tag; `models` are their labels."""

    tag: str
    metric: str
    models: tuple[str, ...]
    rows: tuple[HeatRow, ...]


def main_tag(section: Section) -> str:
    """Return the tag by which a benchmark's paper breaks its numbers down, else the first of two values or more.

    Nothing where there is none.
    """
    tags = [tag for tag, groups in section.record.by.items() if len(groups) > 1]
    declared = declared_benchmark(section.name)
    in_paper = declared.paper[0] if declared is not None and declared.paper is not None else ""
    return in_paper if in_paper in tags else next(iter(tags), "")


def heat_map(section: Section, rivals: Rivals) -> HeatMap | None:
    """Lay the main metric of two models or more out by the main tag's values; None where there are not so many.

    Reference models are left out: what they get says nothing of subsets.
    """
    tag, metric, entries = main_tag(section), section.main, rivals.ranking
    if not tag or not metric or len(entries) < 2:
        return None
    numbers = {
        value: [_number(entry.record.by.get(tag, {}).get(value), metric) for entry in entries]
        for value in section.record.by[tag]
    }
    every = [number for row in numbers.values() for number in row if number is not None]
    if not every:
        return None
    rows = tuple(
        HeatRow(value, _count(section, tag, value, metric), tuple(_cell(one, min(every), max(every)) for one in row))
        for value, row in numbers.items()
    )
    return HeatMap(tag, metric, tuple(entry.label for entry in entries), rows)


def _number(group: Metrics | None, metric: str) -> float | None:
    return None if group is None or metric not in group.metrics else group.metrics[metric].value


def _count(section: Section, tag: str, value: str, metric: str) -> int:
    metrics = section.record.by[tag][value].metrics
    return metrics[metric].n if metric in metrics else 0


def _cell(value: float | None, low: float, high: float) -> HeatCell | None:
    if value is None:
        return None
    darkness = (value - low) / (high - low) if high > low else 0.35
    mixed = " ".join(str(round(a + (b - a) * darkness)) for a, b in zip(_LIGHT, _DARK, strict=True))
    return HeatCell(value, f"background: rgb({mixed}); color: {'#fff' if darkness > _WHITE_FROM else '#000'}")
