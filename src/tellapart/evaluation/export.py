"""Export of a benchmark as a file that a system elsewhere fills in."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.data.atomic import atomic_file
from tellapart.errors import DataError
from tellapart.tasks.registry import find_task

Rows = Iterable[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Exported:
    """The file that was written.

    Attributes:
        noun: of its rows, plural.
        rows: how many.
        todo: the next step, in words.
        scores: the file that `tellapart score` then reads: the exported one, filled in, or else another.
    """

    noun: str
    rows: int
    todo: str
    scores: str


def export(benchmark: Benchmark, to: Path) -> Exported:
    """Write the file to be filled in, all of it or nothing."""
    task = find_task(benchmark.task, benchmark.name)
    writers = {".csv": _csv_lines, ".jsonl": _jsonl_lines}
    if to.suffix not in writers:
        raise DataError(f"{to}: templates are written to .csv or .jsonl files; got {to.suffix!r}")
    records = benchmark.records()
    template = task.templates.get(to.suffix, task.template)
    rows = _write_lines(to, writers[to.suffix](lambda: template(records)))
    # If a record needs more than one value, the file cannot be filled in: a gallery's scores are a matrix.
    fillable = to.suffix in task.suffixes
    return Exported(f"{task.noun}s", rows, task.todo, str(to) if fillable else f"FILE{task.suffixes[0]}")


def _write_lines(path: Path, lines: Iterator[str]) -> int:
    """Write a file that does not exist yet, all of its lines or nothing; return how many there are but for a header."""
    if path.exists():
        raise DataError(f"{path} exists already, perhaps with scores in it; name another file")
    count = 0
    try:
        with atomic_file(path) as draft, draft.open("w", encoding="utf-8", newline="") as stream:
            for count, line in enumerate(lines, start=1):  # noqa: B007  (the number of lines is wanted)
                stream.write(line)
    except OSError as error:
        raise DataError(f"{path} cannot be written ({error.strerror or error})") from error
    return count - (path.suffix == ".csv")


def _csv_lines(rows: Callable[[], Rows]) -> Iterator[str]:
    columns = list(dict.fromkeys(key for row in rows() for key in row))

    def line(cells: list[Any]) -> str:
        stream = io.StringIO(newline="")
        csv.writer(stream).writerow(cells)
        return stream.getvalue()

    yield line(columns)
    for row in rows():
        yield line([row[key] if row.get(key) is not None else "" for key in columns])


def _jsonl_lines(rows: Callable[[], Rows]) -> Iterator[str]:
    return (json.dumps(row, ensure_ascii=False) + "\n" for row in rows())
