"""The command `tellapart push`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.options import Json, print_json

__all__ = ["push_command"]


def push_command(
    source: Annotated[str, typer.Argument(metavar="RUN", help="A run folder; with --benchmark a benchmark's name.")],
    repo: Annotated[str, typer.Argument(help="The model's page on the hub, OWNER/NAME; with --benchmark a dataset's.")],
    benchmark: Annotated[
        bool, typer.Option("--benchmark", help="Propose the eval.yaml that makes a dataset a benchmark on the hub.")
    ] = False,
    config: Annotated[str, typer.Option("--config", help="With --benchmark: the dataset's configuration.")] = "default",
    split: Annotated[str, typer.Option("--split", help="With --benchmark: the dataset's split.")] = "test",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the files; nothing is sent.")] = False,
    as_json: Json = False,
) -> None:
    """Propose a run's results to its model's page on the hub, as a pull request. The token is read from HF_TOKEN."""
    from tellapart.benchmarks.find import find_benchmark
    from tellapart.records.run_folder import read_result
    from tellapart.report.interchange.hub_files import files_of_benchmark, files_of_run
    from tellapart.report.interchange.push import HubRepository

    repository = HubRepository(repo, "dataset" if benchmark else "model")
    if benchmark:
        proposed = files_of_benchmark(find_benchmark(source), config=config, split=split)
    else:
        alone = dry_run and repository.offline
        proposed = files_of_run(read_result(Path(source)), (lambda _: None) if alone else repository.read)
        if alone:
            print(f"warning: HF_HUB_OFFLINE is set: as for a page without a card: {repository.page}", file=sys.stderr)
    request = None if dry_run else repository.propose(proposed)
    if as_json:
        about = {"repository": repository.page, "left_out": proposed.left_out, "pull_request": request}
        print_json({**about, "files": dict(proposed.files)})
        return
    if dry_run:
        for path, text in proposed.files.items():
            typer.echo(f"==> {path}\n{text}")
    elif request is None:
        typer.echo(f"{repository.page} has these files as they are: nothing to propose")
    else:
        typer.echo(f"pull request: {request}")
    if proposed.left_out:
        names = ", ".join(proposed.left_out)
        typer.echo(f"not in .eval_results, which knows only datasets on the hub: {names}")
