"""Every task by name, and what must be known of its metrics. Adding one is a file and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tellapart.errors import DataError
from tellapart.tasks.boxes import GROUNDING
from tellapart.tasks.captions import CAPTIONS
from tellapart.tasks.choice import CHOICE
from tellapart.tasks.classification import CLASSIFICATION
from tellapart.tasks.moments import MOMENTS
from tellapart.tasks.pairing import PAIRING
from tellapart.tasks.questions import VQA, VQA2
from tellapart.tasks.ranking import RANKING
from tellapart.tasks.retrieval import RETRIEVAL
from tellapart.tasks.statements import NLVR2
from tellapart.tasks.task import Task, TaskMetric

__all__ = ["TASKS", "TASK_METRICS", "find_task"]

TASKS: Mapping[str, Task] = MappingProxyType(
    {
        task.name: task
        for task in (
            RETRIEVAL,
            CHOICE,
            PAIRING,
            RANKING,
            NLVR2,
            VQA,
            VQA2,
            GROUNDING,
            CAPTIONS,
            MOMENTS,
            CLASSIFICATION,
        )
    }
)
"""Name -> task."""

TASK_METRICS: Mapping[str, TaskMetric] = MappingProxyType(
    {metric.name: metric for task in TASKS.values() for metric in task.metrics}
)
"""Name -> metric, over all tasks."""


def find_task(name: str, benchmark: str) -> Task:
    """Return the task that a benchmark declares.

    Raises:
        DataError: there is no such task.

    >>> find_task("nlvr3", "mine")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tellapart.errors.DataError: benchmark 'mine' declares the task 'nlvr3'; tasks are retrieval, ...
    """
    if name not in TASKS:
        raise DataError(f"benchmark {benchmark!r} declares the task {name!r}; tasks are {', '.join(TASKS)}")
    return TASKS[name]
