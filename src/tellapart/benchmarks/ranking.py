"""`ranking:FILE`: the user's rankings by people, one query a line.

`{"id": "0", "query": "the house on the right side", "edited": "the house on the left side", "candidates": ["a.png",
...], "people": [1, 2, ...]}`: images beside the file, places from 1 for the closest, `edited` where there is an edit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.locations import Locations
from tellapart.data.annotations import AnnotationRow, check_row
from tellapart.data.rows import read_jsonl
from tellapart.data.task_records import Ranking, RankingSet
from tellapart.errors import DataError

PREFIX = "ranking:"


class _Query(AnnotationRow):
    id: Annotated[str, Field(min_length=1)]
    query: Annotated[str, Field(min_length=1)]
    candidates: list[Annotated[str, Field(min_length=1)]]
    people: list[Annotated[float, Field(allow_inf_nan=False)]]
    edited: str = ""


def read_rankings(path: Path) -> RankingSet:
    """Read rankings by people."""
    rows = [check_row(_Query, row, f"{path}:{line}") for line, row in read_jsonl(path)]
    rankings = (Ranking(row.id, row.query, row.edited, tuple(row.candidates), tuple(row.people)) for row in rows)
    return RankingSet(path.stem, tuple(rankings))


def ranking_benchmark(name: str, place: Locations | None = None) -> Benchmark:
    """Return the benchmark `ranking:FILE`."""
    if name == PREFIX:
        raise DataError("ranking: names no file; write ranking:FILE.jsonl")
    path = Path(name.removeprefix(PREFIX)).expanduser()
    records = read_rankings(path)
    images = place.images if place is not None and place.images is not None else path.parent
    return Benchmark(
        name=f"{PREFIX}{path.name}",
        own=path.resolve(),
        title=f"rankings by people: {path.stem}",
        items=len(records.rankings),
        task="ranking",
        source=str(path),
        load=lambda _place: records,
        place=Locations(images=images, outside=place is not None and place.outside),
    )
