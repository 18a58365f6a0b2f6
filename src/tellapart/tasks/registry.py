"""All tasks by name, their metrics, and the headline metrics of a benchmark."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING

from tellapart.catalog import Entries, Late
from tellapart.errors import DataError
from tellapart.metrics.registry import METRICS as SCORE_METRICS

if TYPE_CHECKING:
    from tellapart.metrics.metric import Metric
    from tellapart.tasks.task import Hiding, Task

HEADLINES: Mapping[str, tuple[tuple[str, ...], ...]] = MappingProxyType(
    {
        "pairs": (
            ("text_score", "image_score", "group_score", "match_score"),
            ("text_score", "image_score", "group_score"),  # of other tools
            ("pairwise", "acc", "min_pc_pf"),
            ("choice_score",),
            ("itt",),
            ("individual_score", "pair_score", "set_score", "match_score"),
            ("individual_score", "set_score", "match_score"),
            ("individual_score", "pair_score", "set_score"),
            ("individual_score", "set_score"),
        ),
        "distinct-retrieval": (
            tuple(f"{side}_distinct_recall@{depth}" for side in ("i2t", "t2i") for depth in (1, 5, 10)),
        ),
        "retrieval": (tuple(f"{side}_recall@{depth}" for side in ("i2t", "t2i") for depth in (1, 5, 10)),),
        "choice": (("both_orders", "mean_of_orders", "order_bias"), ("both_orders", "order_bias")),
        "pairing": (("group_score_both_orders", "pairing_bias"),),
        "ranking": (("kendall", "spearman"),),
        "nlvr2": (("accuracy", "consistency"),),
        "vqa": (("exact_match", "pair_accuracy"),),
        "vqa2": (("soft_accuracy",),),
        "yes-no": (("g_acc", "q_acc", "i_acc", "a_acc"), ("g_acc", "a_acc"), ("a_acc",)),
        "true-texts": (("tot", "tot_one_sided"),),
        "ordered-texts": (("ordering_score",),),
        "grounding": (("box_accuracy",),),
        "captions": (("bleu_4", "rouge_l", "cider"),),
        "moments": (
            ("boundary_accuracy", "boundary_f1", "boundary_accuracy_unmerged", "boundary_f1_unmerged"),
            ("boundary_accuracy", "boundary_f1"),
        ),
        "classification": (("top1_accuracy",),),
        "labels": (("label_ap",),),
        "ratings": (("pairwise_accuracy", "kendall_tau_b", "spearman_rho"), ("roc_auc",)),
    }
)
"""Task -> its rows of headline metrics, as `Task.headlines` has them: names alone, so that no task is imported."""


def _read_task(name: str, declared: object) -> Task:
    from tellapart.tasks.task import Task

    if not isinstance(declared, Task):
        raise DataError(f"task {name!r} is a {type(declared).__name__}; its entry point must name a Task")
    return declared


TASKS: Mapping[str, Task] = Entries("task", _read_task)
"""Name -> task; imported when it is asked for."""

METRICS: Mapping[str, Metric] = Late(
    lambda: {metric.name: metric for task in TASKS.values() for metric in task.metrics}, SCORE_METRICS
)
"""Name -> metric, over all tasks."""

HIDEABLE: Mapping[str, Hiding] = Late(
    lambda: {name: task.hiding for name, task in TASKS.items() if task.hiding is not None}, {}
)
"""Task -> how a board hides the labels of its records."""


def find_task(name: str, benchmark: str) -> Task:
    """Return the task that a benchmark declares."""
    if name not in TASKS:
        raise DataError(f"benchmark {benchmark!r} declares the task {name!r}; tasks are {', '.join(TASKS)}")
    return TASKS[name]


def headline(defined: Container[str]) -> tuple[str, ...]:
    """Choose the headline metrics of a benchmark, the columns of the papers' tables, from the metrics that it has.

    For example, 2x2 items have text, image and group score; a caption and its foil have VALSE's three metrics if the
    scores are probabilities, else `choice_score`. Two names of one function (`text_score` is BiVLC's `i2t`) are never
    both chosen, so a comparison of two runs can correct for the number of headline metrics.

    Source: Winoground Table 3; VALSE Table 2; SugarCrepe Table 3.

    >>> headline({"choice_score", "pairwise"})
    ('choice_score',)
    >>> headline({"choice_score", "pairwise", "acc", "p_c", "p_f", "min_pc_pf"})
    ('pairwise', 'acc', 'min_pc_pf')
    """
    others = (TASKS[name].headlines for name in TASKS if name not in HEADLINES)
    rows = (row for of_task in chain(HEADLINES.values(), others) for row in of_task)
    return next((row for row in rows if all(name in defined for name in row)), ())


def main_metric(headline: Sequence[str]) -> str:
    """Return the metric that ranks models: the group score or `min_pc_pf` if it is a headline, else the first headline.

    >>> main_metric(["text_score", "image_score", "group_score"]), main_metric(["accuracy", "consistency"])
    ('group_score', 'accuracy')
    """
    for name in ("group_score", "min_pc_pf"):
        if name in headline:
            return name
    return headline[0] if headline else ""
