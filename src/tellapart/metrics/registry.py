"""Every metric by name. Adding one is a function, its declaration, and a line here if its module is new."""

from __future__ import annotations

from collections.abc import Container, Mapping
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


#: The metrics a first look shows; the first row of which all are defined.
_HEADLINES: tuple[tuple[str, ...], ...] = (
    ("text_score", "image_score", "group_score"),
    ("pairwise", "acc", "min_pc_pf"),
    ("choice_score",),
    ("i2t_recall@1", "i2t_recall@5", "i2t_recall@10", "t2i_recall@1", "t2i_recall@5", "t2i_recall@10"),
    ("accuracy", "consistency"),
    ("exact_match", "pair_accuracy"),
    ("soft_accuracy",),
    ("box_accuracy",),
    ("bleu_4", "rouge_l", "cider"),
    ("boundary_accuracy", "boundary_f1"),
    ("both_orders", "order_bias"),
    ("group_score_both_orders", "pairing_bias"),
    ("kendall", "spearman"),
    ("top1_accuracy",),
)


def headline(defined: Container[str]) -> tuple[str, ...]:
    """Choose the metrics of a first look from the names of those that are defined: what the papers' own tables show.

    Pairs and tasks alike. 2x2 items: text, image and group score; a caption and its foil with probabilities: VALSE's three; else the
    choice. Two names of one function (`text_score` is BiVLC's `i2t`) are never both among them, so they are also the
    tests that a comparison of two runs corrects for.

    Source: Winoground Table 3; VALSE Table 2; SugarCrepe Table 3.

    >>> headline({"choice_score", "pairwise"})
    ('choice_score',)
    >>> headline({"choice_score", "pairwise", "acc", "p_c", "p_f", "min_pc_pf"})
    ('pairwise', 'acc', 'min_pc_pf')
    """
    return next((names for names in _HEADLINES if all(name in defined for name in names)), ())
