"""All tasks by name, their metrics, and the headline metrics of a benchmark."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from tellapart.catalog import Entries, Late
from tellapart.errors import DataError
from tellapart.metrics.metric import Metric
from tellapart.metrics.registry import METRICS as SCORE_METRICS
from tellapart.tasks.declared import DECLARED, HEADLINES

if TYPE_CHECKING:
    from pathlib import Path

    from tellapart.records.imported import Imported
    from tellapart.tasks.task import Hiding, Task


def _read_task(name: str, declared: object) -> Task:
    from tellapart.tasks.task import Task

    if not isinstance(declared, Task):
        raise DataError(f"task {name!r} is a {type(declared).__name__}; its entry point must name a Task")
    return declared


TASKS: Mapping[str, Task] = Entries("task", _read_task)
"""Name -> task; imported when it is asked for."""

METRICS: Mapping[str, Metric] = Late(
    lambda: {metric.name: metric for task in TASKS.values() for metric in task.metrics}, {**SCORE_METRICS, **DECLARED}
)
"""Name -> metric, over all tasks."""

HIDEABLE: Mapping[str, Hiding] = Late(
    lambda: {name: task.hiding for name, task in TASKS.items() if task.hiding is not None}, {}
)
"""Task -> how a board hides the labels of its records."""


#: Metrics that are best low; and those of which neither more nor less is better: descriptions, and effects of the
#: options' order on an answer and deviations from equivariance, which are best at 0.
_LOWER = frozenset({"unreadable", "unparseable", "bias_rate", "same_answer"})
_DESCRIBED = {
    *("order_bias", "pairing_bias", "v1", "v2_text", "v2_image"),
    *("chose_first", "followed_list", "moved_by_edit", "kendall_with_edit", "answered"),
    *("pope_yes_rate", "pope_yes_rate_official"),
}


def is_higher_better(metric: str) -> bool | None:
    """Return whether a metric is best high; None if neither more nor less is better.

    >>> is_higher_better("group_score"), is_higher_better("unreadable"), is_higher_better("order_bias")
    (True, False, None)
    """
    return None if metric in _DESCRIBED else metric not in _LOWER


def find_task(name: str, benchmark: str) -> Task:
    """Return the task that a benchmark declares."""
    if name not in TASKS:
        raise DataError(f"benchmark {benchmark!r} declares the task {name!r}; tasks are {', '.join(TASKS)}")
    return TASKS[name]


def read_bounded(path: Path) -> Imported:
    """Read a file of imported numbers; one beyond the bounds of its metric, such as percent of a share, is refused."""
    from tellapart.records.imported import read_imported

    imported = read_imported(path)
    for model in imported.models:
        tables = model.scores, *(scores for groups in model.by.values() for scores in groups.values())
        for benchmark, numbers in chain.from_iterable(scores.items() for scores in tables):
            for metric in numbers.keys() & METRICS.keys():
                low, high = METRICS[metric].bounds
                if not low <= (number := round(numbers[metric], 6)) <= high:
                    fault = f"{model.name} on {benchmark}: {metric} is {number:g}, beyond its {low:g} to {high:g}"
                    raise DataError(f"{path}: {fault}; if the numbers are percent, divide them by 100", path=path)
    return imported


def headline(defined: Collection[str]) -> tuple[str, ...]:
    """Choose the headline metrics of a benchmark, the columns of the papers' tables, from the metrics that it has.

    For example, 2x2 items have text, image and group score; a caption and its foil have VALSE's three metrics if the
    scores are probabilities, else `choice_score`. Two names of one function (`text_score` is BiVLC's `i2t`) are never
    both chosen, so a comparison of two runs can correct for the number of headline metrics. Of another tool's log all
    metrics are, each by the tool's name (`inspect:match`).

    Source: Winoground Table 3; VALSE Table 2; SugarCrepe Table 3.
    """
    names = set(defined)
    for task in chain(HEADLINES, TASKS):
        for row in HEADLINES[task] if task in HEADLINES else TASKS[task].headlines:
            if names.issuperset(row):
                return row
    return tuple(name for name in defined if ":" in name)


def main_metric(headline: Sequence[str]) -> str:
    """Return the metric that ranks models: the group score or `min_pc_pf` if it is a headline, else the first."""
    for name in ("group_score", "min_pc_pf"):
        if name in headline:
            return name
    return headline[0] if headline else ""
