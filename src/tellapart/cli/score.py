"""The command `tellapart score`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from tellapart.cli.invocation import command_line, new_run_folder
from tellapart.cli.options import BenchmarkName, Data, Images, Json, Out, Outside, Seed
from tellapart.cli.show import show_run

__all__ = ["score_command"]


def score_command(
    benchmark: BenchmarkName,
    scores: Annotated[
        Path, typer.Option("--scores", help="The file of scores (.npz, .csv, .jsonl) or of a task's predictions.")
    ],
    kind: Annotated[
        str | None, typer.Option("--kind", help="What the scores are: similarity, logit or probability.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="The model's name in results; the file's name if not given.")
    ] = None,
    data: Data = None,
    images: Images = None,
    outside: Outside = False,
    seed: Seed = 0,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Measure scores or predictions that were made elsewhere; `export` writes the file to fill in."""
    from tellapart.benchmarks.locations import Locations
    from tellapart.data.scores import ScoreKind
    from tellapart.errors import ScoreError
    from tellapart.evaluation.run import run_scores

    if kind is not None and kind not in get_args(ScoreKind):
        raise ScoreError(f"--kind {kind}: use one of {', '.join(get_args(ScoreKind))}")
    folder = run_scores(
        benchmark,
        scores,
        out or new_run_folder(),
        kind=cast(ScoreKind | None, kind),
        name=name,
        seed=seed,
        command=command_line(),
        place=Locations(data, images, outside),
    )
    show_run(folder, as_json=as_json, outside=outside)
