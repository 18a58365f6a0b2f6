"""The facts of the tasks that ship, from `tasks.toml`: words for people, metrics, headlines; no task is imported."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tellapart.data.rows import read_toml
from tellapart.metrics.metric import Metric


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


_TABLES = read_toml(Path(__file__).with_name("tasks.toml"))

DECLARED: Mapping[str, Metric] = MappingProxyType(
    {
        row["name"]: Metric(**{key: _as_tuples(value) for key, value in row.items()})
        for table in _TABLES.values()
        for row in table.get("metrics", ())
    }
)
"""Name -> metric of a task, but those of minimal pairs."""

HEADLINES: Mapping[str, tuple[tuple[str, ...], ...]] = MappingProxyType(
    {task: _as_tuples(table["headlines"]) for task, table in _TABLES.items() if "headlines" in table}
)
"""Task -> its rows of headline metrics, as `Task.headlines` has them."""


def facts_of(task: str) -> dict[str, Any]:
    """Return the facts of a task that ships, as `Task` takes them."""
    facts = {key: _as_tuples(value) for key, value in _TABLES[task].items() if key != "hiding"}
    metrics = tuple(DECLARED[row["name"]] for row in facts.get("metrics", ()))
    return {"name": task, "output": "scores"} | facts | {"metrics": metrics}


def hiding_of(task: str) -> dict[str, Any]:
    """Return what a board states of a task's hidden records: images, sources, metrics, and the prediction to send."""
    return {key: _as_tuples(value) for key, value in _TABLES[task]["hiding"].items()}
