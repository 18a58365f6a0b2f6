"""The command `tellapart push`."""

from __future__ import annotations

from typing import Annotated

import typer

from tellapart.cli.options import Json, print_json
from tellapart.report.terminal import print_text


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
    """Propose a run's results to its model's page on the hub, as a pull request. The token is read from HF_TOKEN.

    Example: `tellapart push runs/a me/my-model --dry-run`
    """
    from tellapart.report.interchange.push import push

    done = push(source, repo, benchmark=benchmark, config=config, split=split, dry_run=dry_run)
    if done.unseen:
        print_text(f"warning: HF_HUB_OFFLINE is set: as for a page without a card: {done.page}", error=True)
    if as_json:
        about = {"repository": done.page, "left_out": done.files.left_out, "pull_request": done.request}
        print_json({**about, "files": dict(done.files.files)})
        return
    if dry_run:
        for path, text in done.files.files.items():
            print_text(f"==> {path}\n{text}")
    elif done.request is None:
        print_text(f"{done.page} has these files as they are: nothing to propose")
    else:
        print_text(f"pull request: {done.request}")
    if done.files.left_out:
        names = ", ".join(done.files.left_out)
        print_text(f"not in .eval_results, which knows only datasets on the hub: {names}")
