"""The command `tellapart audit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.invocation import interruptible
from tellapart.cli.options import Columns, Data, Images, Json, Outside, Quiet, columns_of, print_json


def audit_command(
    pairs: Annotated[
        str, typer.Argument(metavar="PAIRSET", help="A pair set's folder, or a benchmark (`tellapart ls benchmarks`).")
    ],
    against: Annotated[
        str | None,
        typer.Option("--against", help="Another one, such as what was trained on: what do both hold?"),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option("--to", help="Write audit.json, the data card (HTML, markdown) and croissant.json there."),
    ] = None,
    text_model: Annotated[
        str | None,
        typer.Option("--text-model", help="Also ask a model that reads texts alone: tinystories:PATH."),
    ] = None,
    grammar_model: Annotated[
        str | None,
        typer.Option("--grammar-model", help="Says how grammatical a text is: link-grammar, classifier:FOLDER#LABEL."),
    ] = None,
    detector_model: Annotated[
        str | None,
        typer.Option("--detector-model", help="Tell first entries from others by this dual encoder's vectors, too."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="The model to be measured (or 77, of CLIP's tokens): what does it cut?"),
    ] = None,
    no_images: Annotated[bool, typer.Option("--no-images", help="Read no picture: captions and tags alone.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if a check warns.")] = False,
    data: Data = None,
    images: Images = None,
    outside_images: Outside = False,
    columns: Columns = None,
    open_card: Annotated[bool, typer.Option("--open", help="With --to: show its card.html in a browser.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Look for artefacts in a pair set, and write its data card.

    Blind accuracy, lengths, scripts, duplicates, leaks, torn pairs, cut captions, changes of the pictures, tags: each a
    number with its threshold.

    Example: `tellapart audit folder:my_pairs --to audit`
    """
    from tellapart.auditing.show import audit
    from tellapart.report.browser import open_in_browser

    if open_card and to is None:
        raise typer.BadParameter("--open shows the card that --to DIR writes; name a DIR")
    with interruptible(quiet=quiet) as progress:
        found = audit(
            pairs,
            against=against,
            to=to,
            text_model=text_model,
            grammar_model=grammar_model,
            detector_model=detector_model,
            model=model,
            read_images=not no_images,
            data=data,
            images=images,
            outside_images=outside_images,
            columns=columns_of(columns),
            progress=progress.callback,
        )
    if as_json:
        print_json(found.record.model_dump(mode="json"))
    else:
        found.show()
    if open_card and to is not None:
        open_in_browser(to / "card.html")
    if strict and found.record.warnings:
        raise typer.Exit(1)
