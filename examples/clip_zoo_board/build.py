"""Write the board's records from vl_compo's `individual_results.csv`, which you download.

    python -m examples.clip_zoo_board.build individual_results.csv --out examples/clip_zoo_board/records.toml

`--only` a name keeps that checkpoint; `--without elevater-` leaves out the benchmarks whose names begin so.
"""

import argparse
import csv
import json
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name in the file, benchmark, metric and part here; `n` is of what its percentage is a share."""

    name: str
    benchmark: str
    metric: str
    part: str = ""
    n: int | None = None


_TABLE: dict[str, Any] = tomllib.loads(Path(__file__).with_name("columns.toml").read_text(encoding="utf-8"))

#: Benchmark -> the tag that its parts are values of.
PARTS: dict[str, str] = _TABLE["parts"]

COLUMNS = tuple(Column(*names, n=number or None) for *names, number in _TABLE["columns"])

SOURCE = "vl_compo (github.com/ytaek-oh/vl_compo, individual_results.csv at 43e2eae), read 2026-11-22"

_HEAD = """\
# Numbers that vl_compo (Oh and others) published of checkpoints of CLIP and its kin: facts, with their source.
# Percentages stand as fractions. Whole benchmarks of several parts are computed from the parts, over all items where
# their numbers are known; a metric that begins with macro_ is the plain mean of parts. The file is written by
# examples/clip_zoo_board/build.py.
"""


def build(rows: list[dict[str, str]], only: Sequence[str] = (), without: str = "") -> str:
    """Return the TOML of imported numbers."""
    columns = [column for column in COLUMNS if not without or not column.benchmark.startswith(without)]
    names = names_of(rows)
    if unknown := sorted({*only} - {*names}):
        raise SystemExit(f"the file has no checkpoint {unknown[0]!r}; its first is {names[0]!r}")
    sizes: Counter[str] = Counter()
    for benchmark, _, n in {(one.benchmark, one.part, one.n) for one in columns if not one.metric.startswith("t2i_")}:
        sizes[benchmark] += n or 0
    lines = [_HEAD, f"source = {json.dumps(SOURCE)}", 'tie_rule = "not said"', "", "[items]"]
    lines += [f"{_key(name)} = {n}" for name, n in sorted(sizes.items()) if n]
    for name, row in zip(names, rows, strict=True):
        if name in (only or names):
            lines += ["", "[[models]]", f"name = {json.dumps(name)}", f"note = {json.dumps(row['family'])}"]
            lines += _tables(row, columns)
    return "\n".join(lines) + "\n"


def names_of(rows: list[dict[str, str]]) -> list[str]:
    """Return what each checkpoint is called: architecture and weights, and the family where two share these."""
    names = [f"{row['arch']} {row['pretrained']}" for row in rows]
    return [
        f"{name} ({row['family']})" if names.count(name) > 1 else name for name, row in zip(names, rows, strict=True)
    ]


def _tables(row: Mapping[str, str], columns: Sequence[Column]) -> list[str]:
    """Return a model's numbers: a line for each benchmark, and for each part of one."""
    scores: list[str] = ["[models.scores]"]
    parts: dict[str, list[str]] = {}
    for benchmark in dict.fromkeys(column.benchmark for column in columns):
        own = [column for column in columns if column.benchmark == benchmark]
        scores.append(f"{_key(benchmark)} = {_inline(_whole(row, own))}")
        if benchmark in PARTS:
            lines = parts.setdefault(PARTS[benchmark], [f"[models.by.{PARTS[benchmark]}]"])
            for part in dict.fromkeys(column.part for column in own):
                values = {column.metric: _share(row, column) for column in own if column.part == part}
                lines.append(f"{_key(part)}.{_key(benchmark)} = {_inline(values)}")
    return [*scores, *(line for lines in parts.values() for line in lines)]


def _whole(row: Mapping[str, str], own: list[Column]) -> dict[str, float]:
    """Return a benchmark's numbers: those of its one part, or means of parts, and over items if all sizes are known."""
    found = {}
    for metric in dict.fromkeys(column.metric for column in own):
        parts = [(_share(row, column), column.n) for column in own if column.metric == metric]
        if len(parts) > 1:
            found[f"macro_{metric}"] = sum(share for share, _ in parts) / len(parts)
        if len(parts) == 1:
            found[metric] = parts[0][0]
        elif all(n for _, n in parts):
            found[metric] = sum(share * n for share, n in parts) / sum(n for _, n in parts)
    return found


def _share(row: Mapping[str, str], column: Column) -> float:
    return float(row[column.name]) / 100


def _inline(values: Mapping[str, float]) -> str:
    return "{ " + ", ".join(f"{_key(metric)} = {value:.10g}" for metric, value in values.items()) + " }"


def _key(name: str) -> str:
    return name if name.replace("-", "").replace("_", "").isalnum() and name.isascii() else json.dumps(name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="vl_compo's individual_results.csv")
    parser.add_argument("--out", type=Path, required=True, help="the TOML file to write")
    parser.add_argument("--only", action="append", default=[], help="a checkpoint's name; repeatable")
    parser.add_argument("--without", default="", help="leave out benchmarks whose names begin so")
    given = parser.parse_args()
    with given.results.open(encoding="utf-8") as file:
        given.out.write_text(build(list(csv.DictReader(file)), given.only, given.without), encoding="utf-8")
