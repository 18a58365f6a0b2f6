"""Options that several commands take, and the JSON that they print."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tellapart.report.terminal import print_text

#: Negative options, and the parameters of the Python interface that they are the opposite of.
NEGATIONS = {"no_cache": "cache", "no_images": "read_images", "no_tiers": "with_tiers"}

Bundle = Annotated[
    bool, typer.Option("--bundle", help="Keep the report's pictures in the run folder, so that it can be sent.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Keep embeddings in memory, for this run alone.")]
Quiet = Annotated[
    bool, typer.Option("-q", "--quiet", help="No progress: no bar on a terminal, no line every half minute elsewhere.")
]


@dataclass(frozen=True)
class Hint:
    """What a parameter is on the command line, if the function of the interface does not hold it.

    Attributes:
        help: its text, if not the first sentence of the function's `Args:`.
        names: of the option, if not `--name`.
        metavar: the placeholder of its value in the help.
        min: the least number; if not given 1 for a whole number.
        max: the largest.
        type: what a value is read as, if not as annotated.
        argument: whether it is an argument; if not given, it is one if it is needed and not by keyword alone.
        several: whether it may be given several times, though the function takes one value.
        needed: whether it must be given, if the function needs it.
        envvar: the environment variable that it is read from, too.
        callback: checks a value as it is read.
    """

    help: str = ""
    names: tuple[str, ...] = ()
    metavar: str | None = None
    min: float | None = None
    max: float | None = None
    type: Callable[[Any], Any] | None = None
    argument: bool | None = None
    several: bool = False
    needed: bool = True
    envvar: str | None = None
    callback: Callable[..., Any] | None = None

    def __or__(self, other: Hint) -> Hint:
        """Return the hint with all that another one sets."""
        unset = Hint()
        changed = {name: value for name, value in vars(other).items() if value != getattr(unset, name)}
        return replace(self, **changed)


BENCHMARK = "A benchmark (`tellapart ls benchmarks`) or folder:PATH."

#: The hints of parameters of several functions, by name. No angle brackets: markdown takes them for tags.
HINTS = {
    "benchmark": Hint(names=("-b", "--benchmark")),
    "benchmarks": Hint(names=("-b", "--benchmark")),
    "board": Hint("A board file (TOML), with hidden benchmarks.", ("--board",), argument=False),
    "by": Hint(metavar="TAG"),
    "cache": Hint("Folder of the embedding store."),
    "columns": Hint(
        "Of table:FILE (CSV, TSV, JSONL, parquet): image_0=left,image_1=right,caption_0=a,caption_1=b. "
        "Of `score` and `items`, also prediction=FIELD: the field of predictions. "
        "Of `annotate import`, a table of answers: study=A,task=B,worker=C,answer=D.",
        metavar="FIELD=COLUMN,...",
    ),
    "data": Hint("Benchmarks' files: DIR/BENCHMARK, or DIR of one benchmark.", envvar="TELLAPART_DATA"),
    "device": Hint("cpu, cuda or mps."),
    "dtype": Hint("What torch models compute in: float32, bfloat16 or float16; scores are float32."),
    "everything": Hint(names=("--all",)),
    "images": Hint(
        "Their images, and those of folder:PATH: DIR/NAME or DIR; beside the other files if not given.", argument=False
    ),
    "labels": Hint("What to call a model or a benchmark. Repeatable.", ("--label",), "NAME=TEXT"),
    "metrics": Hint(names=("--metric",)),
    "model": Hint(names=("-m", "--model"), argument=False),
    "models": Hint(
        "A model (`tellapart ls models`): a name, a file, a folder or a hub id. Repeatable.", ("-m", "--model"),
        argument=False,
    ),
    "names": Hint(names=("--name",)),
    "out": Hint(argument=False),
    "outside_images": Hint(
        "Read images at absolute paths and through links that leave the set's folder; never for a stranger's set."
    ),
    "reading": Hint("Which of a model's readings is scored: itc, itm, itm_logit, vqa, yes_no, likelihood, ..."),
    "runs": Hint(metavar="RUN..."),
    "seed": Hint(min=0),
    "sort": Hint("A metric to order the models by; as they were named if not given."),
    "to": Hint(argument=False),
}  # fmt: skip


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
    """Print a value as JSON in ASCII, which every terminal's encoding has; NaN is refused."""
    print_text(json.dumps(value, indent=1, allow_nan=False))
