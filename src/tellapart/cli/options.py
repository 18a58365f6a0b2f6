"""Options that several commands take, and the JSON that they print."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tellapart.report.terminal import print_text

#: Negative options, and the parameters of the Python interface that they are the opposite of.
NEGATIONS = {"no_cache": "cache", "no_images": "read_images", "no_tiers": "with_tiers"}

_MODEL = "A model (`tellapart ls models`): a name, a file, a folder or a hub id. Repeatable."

BenchmarkName = Annotated[str, typer.Argument(help="A benchmark (`tellapart ls benchmarks`) or folder:PATH.")]
Bundle = Annotated[
    bool, typer.Option("--bundle", help="Keep the report's pictures in the run folder, so that it can be sent.")
]
ModelNames = Annotated[list[str] | None, typer.Option("-m", "--model", help=_MODEL)]
ModelName = Annotated[list[str], typer.Option("-m", "--model", help=_MODEL)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of the bootstrap and of models that draw.")]
Cache = Annotated[Path | None, typer.Option("--cache", help="Folder of the embedding store.")]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Keep embeddings in memory, for this run alone.")]
Out = Annotated[Path | None, typer.Option("--out", help="The run folder; made if it is not there.")]
Quiet = Annotated[
    bool, typer.Option("-q", "--quiet", help="No progress: no bar on a terminal, no line every half minute elsewhere.")
]
Data = Annotated[
    Path | None,
    typer.Option(
        # No angle brackets in a help: markdown takes them for tags and leaves them out.
        "--data",
        envvar="TELLAPART_DATA",
        help="Benchmarks' files: DIR/BENCHMARK, or DIR of one benchmark.",
    ),
]
Images = Annotated[
    Path | None,
    typer.Option(
        "--images", help="Their images, and those of folder:PATH: DIR/NAME or DIR; beside the other files if not given."
    ),
]
Outside = Annotated[
    bool,
    typer.Option(
        "--outside-images",
        help="Read images at absolute paths and through links that leave the set's folder; never for a stranger's set.",
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        metavar="FIELD=COLUMN,...",
        help="Of table:FILE (CSV, TSV, JSONL, parquet): image_0=left,image_1=right,caption_0=a,caption_1=b. "
        "Of `score` and `items`, also prediction=FIELD: the field of predictions. "
        "Of `annotate import`, a table of answers: study=A,task=B,worker=C,answer=D.",
    ),
]
Labels = Annotated[
    list[str] | None,
    typer.Option("--label", metavar="NAME=TEXT", help="What to call a model or a benchmark. Repeatable."),
]
Sort = Annotated[
    str | None, typer.Option("--sort", help="A metric to order the models by; as they were named if not given.")
]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda or mps.")]
Dtype = Annotated[
    str, typer.Option("--dtype", help="What torch models compute in: float32, bfloat16 or float16; scores are float32.")
]
Reading = Annotated[
    str | None,
    typer.Option(
        "--reading", help="Which of a model's readings is scored: itc, itm, itm_logit, vqa, yes_no, likelihood, ..."
    ),
]


Strict = Annotated[
    bool,
    typer.Option("--strict", help="Refuse files that do not hold the records of the benchmark as published."),
]


def cache_of(folder: Path | None, *, no_cache: bool) -> Path | Literal[False] | None:
    """Return the store of `--cache` and `--no-cache` as the Python interface takes it."""
    from tellapart.errors import StoreError

    if folder is not None and no_cache:
        raise StoreError("--cache and --no-cache were both given; give one of them")
    return False if no_cache else folder


def columns_of(given: list[str] | None) -> dict[str, str]:
    """Read `--columns FIELD=COLUMN,...`; a comma in a column's name parts nothing unless a field and `=` follow.

    >>> columns_of(["image_0=left,image_1=right", "caption_0=first, shown"])
    {'image_0': 'left', 'image_1': 'right', 'caption_0': 'first, shown'}
    """
    from tellapart.errors import RunError

    columns: dict[str, str] = {}
    for each in (part for text in given or () for part in re.split(r",(?=[\w:]+=)", text)):
        field, separator, column = each.partition("=")
        if not (field and separator and column) or field in columns:
            raise RunError(f"--columns {each}: write FIELD=COLUMN, each field once: image_0=left,image_1=right")
        columns[field] = column
    return columns


def labels_of(given: list[str] | None) -> dict[str, str]:
    """Read `--label NAME=TEXT`.

    >>> labels_of(["ViT-B-32/openai=CLIP B/32"])
    {'ViT-B-32/openai': 'CLIP B/32'}
    """
    from tellapart.errors import RunError

    labels: dict[str, str] = {}
    for each in given or ():
        name, separator, text = each.partition("=")
        if not (name and separator and text):
            raise RunError(f"--label {each}: write NAME=TEXT, the model's name in results and what to call it")
        if name in labels:
            raise RunError(f"--label {name}= is given twice; name each model once")
        labels[name] = text
    return labels


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
    print_text(json.dumps(value, indent=1, allow_nan=False))
