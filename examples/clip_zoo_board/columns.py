"""The columns of vl_compo's `individual_results.csv`, from `columns.toml`: the benchmark, metric, part and items of each.

A percentage is a whole number of hits over `n` texts, images or items; where it is a mean over parts, `n` is None.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        name: in the file.
        benchmark, metric: the catalogue's names where tellapart has the benchmark.
        part: the value of the benchmark's tag; empty for the whole benchmark.
        n: of what the percentage is a share; None where it is a mean over parts of unequal size, or not established.
    """

    name: str
    benchmark: str
    metric: str
    part: str = ""
    n: int | None = None


_TABLE: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))

#: Benchmark -> the tag that its parts are values of.
PARTS: dict[str, str] = _TABLE["parts"]


def _columns() -> Iterator[Column]:
    for name, benchmark, metric, n in _TABLE["whole"]["columns"]:
        yield Column(name, benchmark, metric, n=n or None)
    for benchmark, parts in _TABLE["quadruples"].items():
        prefix = benchmark.replace("-", "_")
        for part, (name, n) in parts.items():
            for side in ("text", "image", "group"):
                yield Column("::".join(filter(None, (prefix, name, side))), benchmark, f"{side}_score", part, n)
    for benchmark, parts in _TABLE["choices"].items():
        prefix = benchmark.replace("-", "_")
        yield from (
            Column(f"{prefix}::{part}", benchmark, "choice_score", part, n or None) for part, n in parts.items()
        )
    for name, benchmark, images, captions in (
        ("coco_karpathy", "coco-retrieval", 5_000, 25_010),
        ("flickr30k", "flickr30k-retrieval", 1_000, 5_000),
    ):
        for way, n in (("i2t", images), ("t2i", captions)):
            yield from (Column(f"{name}::{way}/R@{k}", benchmark, f"{way}_recall@{k}", n=n) for k in (1, 5, 10))
    yield from (
        Column(f"elevator::{name}", f"elevater-{name}", "elevater_score") for name in _TABLE["elevater"]["names"]
    )
    yield Column("elevator::imagenet-1k", "imagenet", "top1_accuracy", n=50_000)


COLUMNS = tuple(_columns())
