"""The command `tellapart score`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from tellapart.cli.invocation import command_line, interruptible, new_run_folder
from tellapart.cli.options import Bundle, Columns, Data, Images, Json, Out, Outside, Quiet, Seed, Strict, columns_of
from tellapart.cli.show import show_run

if TYPE_CHECKING:
    from tellapart.data.scores import ScoreKind


def score_command(
    scores: Annotated[
        list[str],
        typer.Option(
            "--scores",
            metavar="FILE | BENCHMARK=FILE",
            help="A file of scores (.npz, .npy, .csv, .jsonl, .parquet) or of a task's predictions. "
            "Repeatable with BENCHMARK=.",
        ),
    ],
    benchmark: Annotated[
        str | None,
        typer.Argument(help="A benchmark (`tellapart ls benchmarks`) or folder:PATH; not with BENCHMARK=FILE."),
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", help="What the scores are: similarity, logit or probability.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="The model's name in results; a single file's name if not given.")
    ] = None,
    data: Data = None,
    images: Images = None,
    outside_images: Outside = False,
    columns: Columns = None,
    seed: Seed = 0,
    strict: Strict = False,
    out: Out = None,
    bundle: Bundle = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Measure one model's scores or predictions that were made elsewhere; `export` writes the file to fill in.

    Files of further benchmarks join the same run folder: in this command, or in a later one with the same --name.

    Example: `tellapart score demo --scores scores.csv --name mine --out runs/b`
    """
    from tellapart.api.evaluate import score

    files = _files_of(benchmark, scores)
    with interruptible(quiet=quiet) as progress:
        measured = score(
            None,
            files,
            name=name,
            kind=cast("ScoreKind | None", kind),  # checked there
            out=out or new_run_folder(),
            data=data,
            images=images,
            outside_images=outside_images,
            columns=columns_of(columns),
            seed=seed,
            strict=strict,
            progress=progress.callback,
            command=command_line(),
        )
    show_run(measured, bundle=bundle, outside_images=outside_images, as_json=as_json)


def _files_of(benchmark: str | None, scores: list[str]) -> dict[str, Path]:
    """Read `--scores`: one file of the benchmark that is named, or any number of BENCHMARK=FILE.

    >>> _files_of(None, ["sugarcrepe=a.jsonl", "bivlc=b.npz"])
    {'sugarcrepe': PosixPath('a.jsonl'), 'bivlc': PosixPath('b.npz')}
    """
    from tellapart.errors import RunError

    if benchmark is not None:
        if len(scores) > 1:
            raise RunError(f"{benchmark} is measured from one file; got {len(scores)} --scores: write BENCHMARK=FILE")
        return {benchmark: Path(scores[0])}
    files: dict[str, Path] = {}
    for score in scores:
        name, separator, path = score.partition("=")
        if not (name and separator and path):
            raise RunError(f"--scores {score}: of which benchmark? write --scores BENCHMARK={score or 'FILE'}")
        if name in files:
            raise RunError(f"--scores {name}= is given twice; name each benchmark once")
        files[name] = Path(path)
    return files
