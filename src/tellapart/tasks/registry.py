"""All tasks by name, their metrics, and the headline metrics of a benchmark."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from types import MappingProxyType

from tellapart.catalog import load_all
from tellapart.errors import DataError
from tellapart.metrics.metric import Metric
from tellapart.tasks.hiding import Hiding
from tellapart.tasks.task import Task


def _read_task(name: str, declared: object) -> Task:
    if not isinstance(declared, Task):
        raise DataError(f"task {name!r} is a {type(declared).__name__}; its entry point must name a Task")
    return declared


TASKS: Mapping[str, Task] = MappingProxyType(load_all("task", _read_task))
"""Name -> task."""

METRICS: Mapping[str, Metric] = MappingProxyType(
    {metric.name: metric for task in TASKS.values() for metric in task.metrics}
)
"""Name -> metric, over all tasks."""

HIDEABLE: Mapping[str, Hiding] = MappingProxyType(
    {name: task.hiding for name, task in TASKS.items() if task.hiding is not None}
)
"""Task -> how a board hides the labels of its records."""


def find_task(name: str, benchmark: str) -> Task:
    """Return the task that a benchmark declares.

    Raises:
        DataError: unknown task.

    >>> find_task("nlvr2", "mine").title
    'a sentence about two images: true or false'
    """
    if name not in TASKS:
        raise DataError(f"benchmark {benchmark!r} declares the task {name!r}; tasks are {', '.join(TASKS)}")
    return TASKS[name]


def headline(defined: Container[str]) -> tuple[str, ...]:
    """Choose the headline metrics of a benchmark, the columns of the papers' tables, from the metrics that it has.

    For example, 2x2 items have text, image and group score; a caption and its foil have VALSE's three metrics if the
    scores are probabilities, else `choice_score`. Two names of one function (`text_score` is BiVLC's `i2t`) are never
    both chosen, so a comparison of two runs can correct for the number of headline metrics.

    Args:
        defined: the names of the metrics that the benchmark's results have.

    Source: Winoground Table 3; VALSE Table 2; SugarCrepe Table 3.

    >>> headline({"choice_score", "pairwise"})
    ('choice_score',)
    >>> headline({"choice_score", "pairwise", "acc", "p_c", "p_f", "min_pc_pf"})
    ('pairwise', 'acc', 'min_pc_pf')
    """
    rows = (row for task in TASKS.values() for row in task.headlines)
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
