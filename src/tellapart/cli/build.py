"""The command `tellapart build`: a recipe becomes a pair set, and its funnel is shown."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from tellapart.cli.options import Json, print_json

if TYPE_CHECKING:
    from tellapart.builders.pipeline import Built

# The command is no name for other modules: its docstring is its help, its examples are in the tests of the pipeline.
__all__ = ["print_built", "print_pairs", "write_card"]


def build_command(  # noqa: PLR0917
    recipe: Annotated[Path, typer.Argument(help="A TOML file that names a builder (`tellapart ls builders`).")],
    out: Annotated[
        Optional[Path],  # noqa: UP045  (typer reads it on 3.11)
        typer.Option("--out", help="The pair set's folder; sets/NAME of the recipe if not given."),
    ] = None,
    workers: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--workers", min=1, help="Processes; 1, or all that a Ray cluster has room for, if not given."),
    ] = None,
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
    pairs: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--pairs", help="Captions alone, as JSONL: of counterfactual-captions, without images."),
    ] = None,
    ray: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--ray", metavar="ADDRESS", help="Work on a Ray cluster: local, auto or HOST:PORT."),
    ] = None,
    ray_gpus: Annotated[
        float, typer.Option("--ray-gpus", min=0.0, help="What each worker there takes of a GPU.")
    ] = 0.0,
    card: Annotated[bool, typer.Option("--card", help="Audit the set; card.html and card.md into its folder.")] = False,
    open_card: Annotated[bool, typer.Option("--open", help="The same, and show card.html in a browser.")] = False,
    as_json: Json = False,
) -> None:
    """Build a pair set from a recipe; stopped in whatever way, the same command goes on where it was."""
    from tellapart.builders.hub_export import write_imagefolder, write_parquet
    from tellapart.builders.pipeline import build
    from tellapart.builders.ray_executor import RayCluster
    from tellapart.builders.recipe_file import read_recipe_file
    from tellapart.cli.progress import TerminalProgress
    from tellapart.data.folder import read_pair_set
    from tellapart.report.browser import shown

    if pairs is not None:
        print_pairs(recipe, pairs, workers or 1, limit, as_json=as_json)
        return
    crew = RayCluster(ray, workers, ray_gpus) if ray is not None else None
    folder = out or Path("sets") / read_recipe_file(recipe).name
    with TerminalProgress() as progress:
        try:
            told = progress.told(folder.name)
            built = build(recipe, folder, workers=workers or 1, crew=crew, limit=limit, progress=told)
            page = write_card(folder, progress.told("audit")) if card or open_card else None
        except KeyboardInterrupt:
            progress.stop()
            again = shlex.join(["tellapart", *sys.argv[1:]])
            sys.stderr.write(f"interrupted; what is done is kept. Go on with: {again}\n")
            raise typer.Exit(130) from None
    if imagefolder is not None:
        write_imagefolder(read_pair_set(folder), imagefolder)
    if parquet is not None:
        write_parquet(read_pair_set(folder), parquet)
    print_built(built, page, as_json=as_json)
    if open_card and page is not None:
        shown(page)


def print_pairs(recipe: Path, out: Path, workers: int, limit: int | None, *, as_json: bool = False) -> None:
    """Write the caption pairs of a recipe to a JSONL file, and print how many there are.

    Raises:
        DataError: the recipe is not valid or names another builder than `counterfactual-captions`.

    >>> print_pairs(Path("missing.toml"), Path("pairs.jsonl"), 1, None)
    Traceback (most recent call last):
    tellapart.errors.DataError: missing.toml: cannot be read (No such file or directory)
    """
    from tellapart.builders.captions.pairs_file import write_caption_pairs
    from tellapart.cli.progress import TerminalProgress
    from tellapart.report.numbers import plain, thousands
    from tellapart.report.terminal import console, table

    with TerminalProgress() as progress:
        written = write_caption_pairs(recipe, out, workers=workers, limit=limit, progress=progress.told(out.name))
    rejected = [(step, reason, count) for (step, reason), count in sorted(written.rejected.items())]
    if as_json:
        told = {"pairs": written.pairs, "rejected": rejected, "resumed": written.resumed, "out": str(out)}
        print_json(told)
        return
    shown = table("step", "reason", "number", numbers_from=2)
    for step, reason, count in [*rejected, ("pairs", "", written.pairs)]:
        shown.add_row(plain(step), plain(reason), thousands(count))
    console().print(shown)
    console().print(f"\ncaption pairs: {out}", markup=False, highlight=False, soft_wrap=True)


def write_card(folder: Path, progress: Callable[[str, int, int], None] | None = None) -> Path:
    """Audit a set that stands, and write `card.html` and `card.md` into its folder; return the first.

    Raises:
        DataError: the folder is no pair set, or an image cannot be read.
        RunError: a file cannot be written.

    >>> write_card(Path("no such set"))
    Traceback (most recent call last):
    tellapart.errors.DataError: no folder 'no such set'; a pair set is a folder with pairs.jsonl, metadata.jsonl or metadata.csv
    """
    from tellapart.audit.audit import Options, audit
    from tellapart.audit.card import card_of, html, markdown
    from tellapart.data.folder import read_pair_set
    from tellapart.records.run_folder import write_whole

    pairs = read_pair_set(folder)
    card = card_of(pairs, audit(pairs, Options(progress=progress)))
    page = folder / "card.html"
    write_whole(page, html(card))
    write_whole(folder / "card.md", markdown(card))
    return page


def print_built(built: Built, page: Path | None = None, *, as_json: bool = False) -> None:
    """Print a build's funnel, and where its card is: the page if there is one.

    >>> from tellapart.builders.funnel import Funnel
    >>> from tellapart.builders.pipeline import Built
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
            "page": str(page) if page is not None else None,
            "resumed": built.resumed,
            "funnel": built.funnel.to_record(),
        }
        print_json(told)
        return
    shown = table("step", "reason", "number", numbers_from=2)
    for step, reason, number in built.funnel.rows():
        shown.add_row(plain(step), plain(reason), thousands(number))
    lines = [f"{thousands(built.resumed)} were decided by an earlier build"] if built.resumed else []
    lines += [f"measure with: tellapart run -b {shlex.quote(f'folder:{built.folder}')}", f"card: {page or card}"]
    screen = console()
    screen.print(shown)
    screen.print()
    screen.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)
