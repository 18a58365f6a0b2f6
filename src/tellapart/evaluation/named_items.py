"""A file of ids, one a line: the items of a benchmark that a run measures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tellapart.data.pairset import PairSet
from tellapart.data.scores import join_names
from tellapart.data.strict_json import decode_text, read_whole
from tellapart.errors import DataError, RunError
from tellapart.tasks.task import Task

__all__ = ["find_positions", "read_ids"]


def read_ids(path: Path) -> list[str]:
    """Read ids, one a line; empty lines are left out.

    Raises:
        RunError: the file cannot be read, holds none, or names one twice.

    >>> path = getfixture("tmp_path") / "short.txt"
    >>> _ = path.write_text("17\\n3\\n")
    >>> read_ids(path)
    ['17', '3']
    """
    try:
        lines = decode_text(read_whole(path), path).splitlines()
    except DataError as error:
        raise RunError(f"items={error}; give a file with an id in each line") from error
    ids = [line.strip() for line in lines if line.strip()]
    if not ids:
        raise RunError(f"items={path}: the file is empty; write an id in each line")
    if twice := [id_ for id_ in dict.fromkeys(ids) if ids.count(id_) > 1]:
        raise RunError(f"items={path}: named twice: {join_names(twice)}; name each item once")
    return ids


def find_positions(task: Task, name: str, records: Any, path: Path) -> Sequence[int]:
    """Return the positions of the items that a file names, in the benchmark's order.

    Args:
        task: the benchmark's.
        name: of the benchmark, for errors.
        records: all of its records.
        path: the file of ids.

    Raises:
        RunError: as `read_ids`; an id that the benchmark lacks, or records without ids.
    """
    wanted = read_ids(path)
    rows = [item.id for item in records.items] if isinstance(records, PairSet) else _list_ids(task, records)
    if len(rows) != task.size(records):
        raise RunError(f"items={path}: {name} has no id for each {task.noun}; use limit=")
    position = {id_: number for number, id_ in enumerate(rows)}
    if missing := [id_ for id_ in wanted if id_ not in position]:
        raise RunError(f"items={path}: {name} has no {join_names(missing)}; its ids are like {join_names(rows, 3)}")
    return sorted(position[id_] for id_ in wanted)


def _list_ids(task: Task, records: Any) -> list[str]:
    return [str(row["id"]) for row in task.template(records) if "id" in row]
