"""Options that several commands take, and how they print JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

__all__ = [
    "BenchmarkName",
    "Cache",
    "Data",
    "Device",
    "Dtype",
    "Images",
    "Json",
    "NoCache",
    "Out",
    "Reading",
    "Seed",
    "print_json",
]

BenchmarkName = Annotated[str, typer.Argument(help="A benchmark (`tellapart ls benchmarks`) or folder:PATH.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of the bootstrap and of models that draw.")]
Cache = Annotated[Optional[Path], typer.Option("--cache", help="Folder of the embedding store.")]  # noqa: UP045  (typer reads it on 3.11)
NoCache = Annotated[bool, typer.Option("--no-cache", help="Keep embeddings in memory, for this run alone.")]
Out = Annotated[Optional[Path], typer.Option("--out", help="The run folder; made if it is not there.")]  # noqa: UP045
Data = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        # No angle brackets in a help: markdown takes them for tags and leaves them out.
        "--data",
        envvar="TELLAPART_DATA",
        help="Benchmarks' files: DIR/BENCHMARK, or DIR of one benchmark.",
    ),
]
Images = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--images", help="Their images: DIR/BENCHMARK or DIR; beside the other files if not given."),
]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda or mps.")]
Dtype = Annotated[
    str, typer.Option("--dtype", help="What torch models compute in: float32, bfloat16 or float16; scores are float32.")
]
Reading = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--reading", help="Which of a model's readings is scored: itc, itm, itm_logit, vqa, yes_no, likelihood, ..."
    ),
]


def print_json(value: Any) -> None:
    """Print a value as JSON in ASCII, which every terminal's encoding has; NaN is refused.

    >>> print_json({"a": [1, "é"]})
    {
     "a": [
      1,
      "\\u00e9"
     ]
    }
    """
    typer.echo(json.dumps(value, indent=1, allow_nan=False))
