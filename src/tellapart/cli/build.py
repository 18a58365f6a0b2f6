"""The command `tellapart build`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.invocation import interruptible
from tellapart.cli.options import Json, Quiet, print_json


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
    """Build a pair set from a recipe; stopped in whatever way, the same command goes on from there.

    Example: `tellapart build recipe.toml --out my_pairs --card`
    """
    from tellapart.api.build import Built, build, default_folder, describe_kept, describe_kept_captions
    from tellapart.report.browser import open_in_browser
    from tellapart.report.builds import build_json, caption_pairs_json, print_build, print_caption_pairs

    if pairs is not None:
        kept = partial(describe_kept_captions, pairs)
    else:
        kept = partial(describe_kept, default_folder(recipe, out))
    with interruptible(kept, quiet=quiet) as progress:
        built = build(
            recipe,
            out,
            workers=workers,
            limit=limit,
            imagefolder=imagefolder,
            parquet=parquet,
            pairs=pairs,
            ray=ray,
            ray_gpus=ray_gpus,
            insecure=insecure,
            card=card or open_card,
            progress=progress.callback,
        )
    if not isinstance(built, Built):
        print_json(caption_pairs_json(built)) if as_json else print_caption_pairs(built)
        return
    facts = (built.result, built.page, built.verdict)
    print_json(build_json(*facts)) if as_json else print_build(*facts)
    if open_card and built.page is not None:
        open_in_browser(built.page)
