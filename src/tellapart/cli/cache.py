"""The commands `tellapart cache ls` and `prune`: list the files kept between runs, and delete some."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from tellapart.cli.once import OnceCommand
from tellapart.cli.options import Cache, Json, print_json
from tellapart.report.terminal import print_text

cache_app = typer.Typer(
    help="What runs keep: vectors and scores of models, prepared pictures; and how to delete it.", no_args_is_help=True
)


@cache_app.command("ls", cls=OnceCommand)
def list_command(cache: Cache = None, as_json: Json = False) -> None:
    """List the content of the cache folder: vectors and scores of each model, pictures of each preprocessing.

    Example: `tellapart cache ls`
    """
    from tellapart.models.store.cache import cache_ls

    kept = cache_ls(cache)
    if as_json:
        return print_json(kept)
    for file, size in kept["bytes"].items():
        print_text(f"{kept['folder']}/{file}: {size:,} bytes")
    for model in kept["models"]:
        name = model["name"] or "a model"
        print_text(f"{name} ({model['fingerprint'][:40]}): {model['vectors']:,} vectors, {model['scores']:,} scores")
    for each in kept["prepared"]:
        day = datetime.fromtimestamp(each["used"], UTC).date()
        print_text(f"{each['pictures']:,} prepared pictures, {each['bytes']:,} bytes, used on {day}: {each['name']}")
    return None


@cache_app.command("prune", cls=OnceCommand)
def prune_command(
    cache: Cache = None,
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model", "-m", help="Its vectors and scores: its name, or how its fingerprint begins. Repeatable."
        ),
    ] = None,
    prepared: Annotated[bool, typer.Option("--prepared", help="Prepared pictures.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="All of both, kept audits, and all that runs in several ranks have left.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Delete the content of the cache folder; it is computed again when it is needed.

    Without an option it deletes leftovers alone: damaged files that were set aside, and drafts of several ranks.

    Example: `tellapart cache prune --prepared`
    """
    from tellapart.models.store.cache import cache_prune

    done = cache_prune(cache, models=models or (), prepared=prepared, everything=everything)
    print_json(done) if as_json else print_text(f"{done['freed']:,} bytes freed in {done['folder']}")
