"""The command `tellapart items`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from tellapart.cli.options import Columns, Data, Images, Json, Outside, Seed, columns_of, print_json
from tellapart.errors import RunError
from tellapart.report.terminal import print_text

if TYPE_CHECKING:
    from tellapart.data.scores import ScoreKind


def items_command(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RUN]...", help="Run folders: all models of each, but for reference models."),
    ] = None,
    scores: Annotated[
        list[Path] | None,
        typer.Option(
            "--scores", metavar="FILE | DIR", help="A system's scores or predictions, or a folder of files. Repeatable."
        ),
    ] = None,
    benchmark: Annotated[
        str | None, typer.Option("-b", "--benchmark", help="Which; the one that all runs share if not given.")
    ] = None,
    metric: Annotated[
        str | None, typer.Option("--metric", help="By which an item is right; the one that ranks models if not given.")
    ] = None,
    family: Annotated[
        str | None,
        typer.Option(
            "--family",
            metavar="FILE | name",
            help="Families of systems, resampled as one: a CSV file with the columns system and family, or `name`: the "
            "letters that a system's name begins with.",
        ),
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option("--without", metavar="SYSTEM", help="Leave a system out. Repeatable.")
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", help="Kind of the files' scores: similarity, logit or probability.")
    ] = None,
    data: Data = None,
    images: Images = None,
    outside_images: Outside = False,
    columns: Columns = None,
    page: Annotated[
        Path | None, typer.Option("--page", help="Write a page: difficulty by discrimination, and each item.")
    ] = None,
    short: Annotated[
        int | None, typer.Option("--short", min=1, help="Choose a short form of so many items, and print its error.")
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", help="Write the short form's ids into a file, for `run --items`.")
    ] = None,
    seed: Seed = 0,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print a line for each item, as CSV.")] = False,
    as_json: Json = False,
) -> None:
    """Analyse items through many systems: difficulty, discrimination, suspects, and how reliable the set is.

    Example: `tellapart items runs/*`
    """
    from tellapart.api.items import items

    if as_csv and as_json:
        raise RunError("--csv and --json: one format is printed; choose one")
    found = items(
        *(runs or ()),
        scores=scores or None,
        benchmark=benchmark,
        metric=metric,
        family=family,
        without=without,
        kind=cast("ScoreKind | None", kind),
        data=data,
        images=images,
        outside_images=outside_images,
        columns=columns_of(columns) or None,
        page=page,
        short=short,
        to=to,
        seed=seed,
    )
    if as_json:
        print_json(found.record.model_dump(mode="json"))
    elif as_csv:
        print_text(found.to_csv(), end="")
    else:
        found.show()
