"""The command `tellapart build`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.invocation import interruptible
from tellapart.cli.options import Json, Quiet, print_json

__all__ = ["build_command"]


def build_command(
    recipe: Annotated[Path, typer.Argument(help="A TOML file that names a builder (`tellapart ls builders`).")],
    out: Annotated[
        Path | None, typer.Option("--out", help="The pair set's folder; sets/NAME of the recipe if not given.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", min=1, help="Processes; 1, or all that a Ray cluster has room for, if not given."),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Try only the first so many candidates.")] = None,
    imagefolder: Annotated[
        Path | None,
        typer.Option("--imagefolder", help="Also write the set as a Hugging Face imagefolder, to a new folder."),
    ] = None,
    parquet: Annotated[
        Path | None,
        typer.Option("--parquet", help="Also write it as one parquet file for Hugging Face datasets."),
    ] = None,
    pairs: Annotated[
        Path | None,
        typer.Option("--pairs", help="Captions alone, as JSONL: of counterfactual-captions, without images."),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option("--ray", metavar="ADDRESS", help="Work on a Ray cluster: local, auto or HOST:PORT."),
    ] = None,
    ray_gpus: Annotated[
        float, typer.Option("--ray-gpus", min=0.0, help="What each worker there takes of a GPU.")
    ] = 0.0,
    insecure: Annotated[
        bool,
        typer.Option("--insecure", help="Ask a server that the recipe names over plain http on another machine, too."),
    ] = False,
    card: Annotated[bool, typer.Option("--card", help="Audit the set; card.html and card.md into its folder.")] = False,
    open_card: Annotated[bool, typer.Option("--open", help="The same, and show card.html in a browser.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Build a pair set from a recipe; stopped in whatever way, the same command goes on where it was."""
    from tellapart.audit.show import audit_folder
    from tellapart.builders.hub_export import write_imagefolder, write_parquet
    from tellapart.builders.pipeline import build
    from tellapart.builders.ray_executor import RayExecutor
    from tellapart.builders.recipe_file import read_recipe_file
    from tellapart.data.folder import read_pair_set
    from tellapart.report.browser import open_in_browser
    from tellapart.report.builds import build_json, print_build

    if pairs is not None:
        _write_caption_pairs(recipe, pairs, workers or 1, limit, quiet=quiet, as_json=as_json)
        return
    executor = RayExecutor(ray, workers, ray_gpus) if ray is not None else None
    folder = out or Path("sets") / read_recipe_file(recipe).name
    with interruptible(partial(_kept, folder), quiet=quiet) as progress:
        update = progress.callback(folder.name)
        built = build(
            recipe,
            folder,
            workers=workers or 1,
            executor=executor,
            limit=limit,
            progress=update,
            insecure=insecure,
        )
        page = audit_folder(folder, progress.callback("audit")) if card or open_card else None
    if imagefolder is not None:
        write_imagefolder(read_pair_set(folder), imagefolder)
    if parquet is not None:
        write_parquet(read_pair_set(folder), parquet)
    if as_json:
        print_json(build_json(built, page))
    else:
        print_build(built, page)
    if open_card and page is not None:
        open_in_browser(page)


def _kept(folder: Path) -> str | None:
    """Say what an interrupted build has left: the whole set, or a journal of candidates."""
    from tellapart.builders.journal import count_decided
    from tellapart.builders.pipeline import journal_of

    if (folder / "card.json").is_file():
        return f"the set in {folder} is complete"
    decided = count_decided(journal_of(folder))
    return f"{decided:,} decided candidates are kept in {journal_of(folder)}" if decided else None


def _write_caption_pairs(
    recipe: Path, out: Path, workers: int, limit: int | None, *, quiet: bool, as_json: bool
) -> None:
    from tellapart.builders.captions.pairs_file import write_caption_pairs
    from tellapart.report.builds import caption_pairs_json, print_caption_pairs

    with interruptible(partial(_kept_captions, out), quiet=quiet) as progress:
        written = write_caption_pairs(recipe, out, workers=workers, limit=limit, progress=progress.callback(out.name))
    if as_json:
        print_json(caption_pairs_json(written, out))
    else:
        print_caption_pairs(written, out)


def _kept_captions(out: Path) -> str | None:
    from tellapart.builders.captions.pairs_file import count_decided, journal_of

    decided = count_decided(journal_of(out))
    return f"{decided:,} decided captions are kept in {journal_of(out)}" if decided else None
