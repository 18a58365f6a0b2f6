"""The command `tellapart build`: a recipe becomes a pair set, and its funnel is shown."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

if TYPE_CHECKING:
    from tellapart.build.pipeline import Built

# The command is no name for other modules: its docstring is its help, its examples are in the tests of the pipeline.
__all__ = ["print_built"]


def build_command(  # noqa: PLR0917
    recipe: Annotated[Path, typer.Argument(help="A TOML file that names a builder (`tellapart ls builders`).")],
    out: Annotated[
        Optional[Path],  # noqa: UP045  (typer reads it on 3.11)
        typer.Option("--out", help="The pair set's folder; sets/NAME of the recipe if not given."),
    ] = None,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes. Changes no byte of the set.")] = 1,
    limit: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--limit", min=1, help="Try only the first so many candidates."),
    ] = None,
    imagefolder: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--imagefolder", help="Also write the set as a Hugging Face imagefolder, to a new folder."),
    ] = None,
    parquet: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--parquet", help="Also write it as one parquet file for Hugging Face datasets."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Build a pair set from a recipe; stopped in whatever way, the same command goes on where it was."""
    from tellapart.build.hub_export import write_imagefolder, write_parquet
    from tellapart.build.pipeline import build
    from tellapart.build.recipe_file import read_recipe_file
    from tellapart.data.folder import read_pair_set
    from tellapart.progress import TerminalProgress

    folder = out or Path("sets") / read_recipe_file(recipe).name
    with TerminalProgress() as progress:
        try:
            built = build(recipe, folder, workers=workers, limit=limit, progress=progress.told(folder.name))
        except KeyboardInterrupt:
            progress.stop()
            again = shlex.join(["tellapart", *sys.argv[1:]])
            sys.stderr.write(f"interrupted; what is done is kept. Go on with: {again}\n")
            raise typer.Exit(130) from None
    if imagefolder is not None:
        write_imagefolder(read_pair_set(folder), imagefolder)
    if parquet is not None:
        write_parquet(read_pair_set(folder), parquet)
    print_built(built, as_json=as_json)


def print_built(built: Built, *, as_json: bool = False) -> None:
    """Print a build's funnel, and where its card is.

    >>> from tellapart.build.funnel import Funnel
    >>> from tellapart.build.pipeline import Built
    >>> print_built(Built(Path("set"), Funnel(), 0))  # doctest: +ELLIPSIS
    step...reason...number
    ...
    card: set/card.json
    """
    from tellapart.report.numbers import plain, thousands
    from tellapart.report.terminal import console, table

    card = built.folder / "card.json"
    if as_json:
        told = {
            "out": str(built.folder),
            "card": str(card),
            "resumed": built.resumed,
            "funnel": built.funnel.to_record(),
        }
        sys.stdout.write(json.dumps(told, indent=1, allow_nan=False) + "\n")
        return
    shown = table("step", "reason", "number", numbers_from=2)
    for step, reason, number in built.funnel.rows():
        shown.add_row(plain(step), plain(reason), thousands(number))
    lines = [f"{thousands(built.resumed)} were decided by an earlier build"] if built.resumed else []
    lines += [f"measure with: tellapart run -b {shlex.quote(f'folder:{built.folder}')}", f"card: {card}"]
    screen = console()
    screen.print(shown)
    screen.print()
    screen.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)
