"""Export of a benchmark as a file that a system elsewhere fills in."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tellapart.benchmarks.arguments import locations, refuse_columns, refuse_idle
from tellapart.benchmarks.find import BenchmarkGiven, as_benchmark, find_benchmark
from tellapart.benchmarks.plugins import open_benchmark
from tellapart.data.arguments import PathGiven, as_path
from tellapart.data.atomic import atomic_file
from tellapart.errors import DataError
from tellapart.tasks.registry import find_task


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


def export(
    benchmark: BenchmarkGiven,
    to: PathGiven,
    *,
    data: PathGiven | None = None,
    images: PathGiven | None = None,
    outside_images: bool = False,
    columns: Mapping[str, str] | None = None,
) -> Exported:
    """Write the items that a system elsewhere scores or answers: a benchmark's pairs, or a task's records.

    Args:
        benchmark: of pairs: every image-text pair with an empty score; of a task: every record without a prediction.
        to: a `.csv` or `.jsonl` file that does not exist yet.
        data, images, outside_images, columns: as of `evaluate`.

    Raises:
        TellapartError: no such benchmark, its files are missing, another suffix, or the file exists already or cannot
            be written.

    >>> import tellapart as ta
    >>> template = getfixture("tmp_path") / "pairs.csv"
    >>> ta.export("demo", template).rows
    1600
    >>> template.read_text().splitlines()[0]
    'id,image,text,score,image_file,caption'
    """
    refuse_columns(columns, (benchmark,))
    place = refuse_idle((benchmark,), locations(data, images, outside_images, columns))
    if isinstance(benchmark, str):
        opened = find_benchmark(open_benchmark(benchmark), place)
    else:
        opened = as_benchmark(benchmark, place)
    to, task = as_path(to, "to"), find_task(opened.task, opened.name)
    if to.suffix not in (".csv", ".jsonl"):
        raise DataError(f"{to}: templates are written to .csv or .jsonl files; got {to.suffix!r}")
    records = opened.records()
    template = task.templates.get(to.suffix, task.template)
    rows = _write_rows(to, lambda: template(records))
    # If a record needs more than one value, the file cannot be filled in: a gallery's scores are a matrix.
    fillable = to.suffix in task.suffixes
    return Exported(f"{task.noun}s", rows, task.todo, str(to) if fillable else f"FILE{task.suffixes[0]}")


def _write_rows(path: Path, make_rows: Callable[[], Iterable[Mapping[str, Any]]]) -> int:
    """Write a file that does not exist yet, all of its rows or nothing; return how many there are."""
    if path.exists():
        raise DataError(f"{path} exists already, perhaps with scores in it; name another file")
    count = 0
    try:
        with atomic_file(path) as draft, draft.open("w", encoding="utf-8", newline="") as stream:
            table = None
            if path.suffix == ".csv":
                table = csv.DictWriter(stream, list(dict.fromkeys(key for row in make_rows() for key in row)))
                table.writeheader()
            for row in make_rows():
                if table is None:
                    stream.write(json.dumps(row, ensure_ascii=False) + "\n")
                else:
                    table.writerow(row)
                count += 1
    except OSError as error:
        raise DataError(f"{path} cannot be written ({error.strerror or error})") from error
    return count
