"""Every metric by name. Adding one is a function, its declaration, and a line here if its module is new."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tellapart.data.scores import ScoreKind
from tellapart.metrics.choice import CHOICE_METRICS
from tellapart.metrics.equivariance import EQUIVARIANCE_METRICS
from tellapart.metrics.metric import Metric, Shape
from tellapart.metrics.pairs import PAIR_METRICS

__all__ = ["METRICS", "defined_for", "headline"]

METRICS: Mapping[str, Metric] = MappingProxyType(
    {metric.name: metric for metric in (*PAIR_METRICS, *CHOICE_METRICS, *EQUIVARIANCE_METRICS)}
)
"""Name -> metric, in the order of tables."""


def defined_for(shape: Shape, kind: ScoreKind | None = None) -> tuple[Metric, ...]:
    """Return the metrics that exist for items of `shape` (images, texts) and, if given, for scores of `kind`.

    Empty where none is defined: what is not defined is not computed.

    >>> [metric.name for metric in defined_for((1, 2), "similarity")]
    ['choice_score', 'pairwise']
    >>> [metric.name for metric in defined_for((5, 1))]
    ['choice_score']
    """
    return tuple(
        metric for metric in METRICS.values() if metric.defined_for(shape) and (kind is None or kind in metric.kinds)
    )


def headline(shape: Shape) -> tuple[str, ...]:
    """Return the names of the metrics that a first look shows for items of `shape`; a paper's own table for it.

    Two names of one function (`text_score` is BiVLC's `i2t`) are never both among them, so they are also the tests
    that a comparison of two runs corrects for.

    >>> headline((2, 2)), headline((1, 5))
    (('text_score', 'image_score', 'group_score'), ('choice_score',))
    """
    return ("text_score", "image_score", "group_score") if shape == (2, 2) else ("choice_score",)
