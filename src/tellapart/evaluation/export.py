"""What a system elsewhere is to fill in: the pairs to be scored, or the records to be answered, as one file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.task_benchmark import TaskBenchmark
from tellapart.benchmarks.template import write_lines, write_template
from tellapart.errors import DataError
from tellapart.tasks.registry import find_task

__all__ = ["Exported", "export"]


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written.

    Attributes:
        noun: of its rows, plural.
        rows: how many.
        todo: what is to be done with it, in words.
        scores: the file that `tellapart score` then reads: the same, filled in, or another where it cannot be.

    >>> Exported("pairs", 4, "fill in `score`", "pairs.csv").rows
    4
    """

    noun: str
    rows: int
    todo: str
    scores: str


def export(benchmark: Benchmark | TaskBenchmark, to: Path) -> Exported:
    """Write the file to be filled in, all of it or nothing.

    Args:
        benchmark: of pairs: every image-text pair with an empty score; of a task: every record without a prediction.
        to: a `.csv` or `.jsonl` file that is not there yet.

    Raises:
        DataError: the benchmark's files are not there, another suffix, the file is there already or cannot be written.

    >>> from tellapart.benchmarks.benchmark import find_benchmark
    >>> export(find_benchmark("demo"), Path("pairs.txt"))
    Traceback (most recent call last):
    tellapart.errors.DataError: pairs.txt: templates are written to .csv or .jsonl files; got '.txt'
    """
    if isinstance(benchmark, Benchmark):
        return Exported("pairs", write_template(benchmark.pairs(), to), "fill in `score`", str(to))
    task = find_task(benchmark.task, benchmark.name)
    writers = {".csv": _csv_lines, ".jsonl": _jsonl_lines}
    if to.suffix not in writers:
        raise DataError(f"{to}: templates are written to .csv or .jsonl files; got {to.suffix!r}")
    rows = list(task.template(benchmark.records()))
    write_lines(to, writers[to.suffix](rows))
    # What is no single value a record cannot be filled in: scores of a gallery are a matrix, in a file of their own.
    fillable = to.suffix in task.suffixes
    return Exported(f"{task.noun}s", len(rows), task.todo, str(to) if fillable else f"FILE{task.suffixes[0]}")


def _csv_lines(rows: list[Mapping[str, Any]]) -> Iterator[str]:
    columns = list(dict.fromkeys(key for row in rows for key in row))

    def line(cells: list[Any]) -> str:
        stream = io.StringIO(newline="")
        csv.writer(stream).writerow(cells)
        return stream.getvalue()

    yield line(columns)
    for row in rows:
        yield line([row[key] if row.get(key) is not None else "" for key in columns])


def _jsonl_lines(rows: list[Mapping[str, Any]]) -> Iterator[str]:
    return (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
