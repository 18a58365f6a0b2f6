"""Metrics of scores by name.

Adding one is a function with its declaration, and a line in `tellapart.catalog.METRICS` if its module is new.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tellapart.catalog import METRICS as BUILT_IN
from tellapart.catalog import Entries, Late
from tellapart.data.scores import ScoreKind
from tellapart.errors import MetricError
from tellapart.metrics.metric import Metric, Shape


def _read_metrics(entry: str, declared: object) -> tuple[Metric, ...]:
    """Return the metrics of a catalogue's entry, which is a metric or a tuple of metrics."""
    metrics = declared if isinstance(declared, tuple) else (declared,)
    for metric in metrics:
        if not isinstance(metric, Metric):
            raise MetricError(f"metric {entry!r} is a {type(metric).__name__}; its entry point must name a Metric")
    return metrics


_ENTRIES = Entries("metric", _read_metrics)


def _by_name(entries: Iterable[str]) -> dict[str, Metric]:
    return {metric.name: metric for entry in entries for metric in _ENTRIES[entry]}


METRICS: Mapping[str, Metric] = Late(lambda: _by_name(_ENTRIES), _by_name(BUILT_IN))
"""Name -> metric, in the order of tables."""


def defined_for(shape: Shape, kind: ScoreKind | None = None, true: int = 1) -> tuple[Metric, ...]:
    """Return the metrics of items of a shape (images, texts) with so many true texts, and of scores of a kind if given.

    >>> [metric.name for metric in defined_for((1, 2), "similarity")], [metric.name for metric in defined_for((5, 1))]
    (['choice_score', 'pairwise'], ['choice_score'])
    >>> [metric.name for metric in defined_for((1, 3), true=2)]
    ['itt']
    """
    return tuple(
        metric
        for metric in METRICS.values()
        if metric.defined_for(shape, true) and (kind is None or kind in metric.kinds)
    )


def one_name_each(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return each metric once, under the first of its names, with its other names among those given.

    >>> one_name_each(["text_score", "group_score", "i2t", "accuracy"])
    {'text_score': ('i2t',), 'group_score': (), 'accuracy': ()}
    """
    names_of: dict[str, list[str]] = {}
    for name in names:
        original = METRICS[name].same_as if name in METRICS else ""
        names_of.setdefault(original or name, []).append(name)
    return {first: tuple(others) for first, *others in names_of.values()}
