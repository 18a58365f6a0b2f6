"""The command `tellapart audit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from tellapart.cli.options import Data, Images, Json, print_json

__all__ = ["audit_command"]


def audit_command(  # noqa: PLR0917
    pair_set: Annotated[
        str, typer.Argument(metavar="PAIRSET", help="A pair set's folder, or a benchmark (`tellapart ls benchmarks`).")
    ],
    against: Annotated[
        Optional[str],  # noqa: UP045  (typer reads it on 3.11)
        typer.Option("--against", help="Another one, such as what was trained on: what do both hold?"),
    ] = None,
    to: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--to", help="Write audit.json, the data card (HTML, markdown) and croissant.json there."),
    ] = None,
    text_model: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--text-model", help="Also ask a model that reads texts alone: tinystories:PATH."),
    ] = None,
    grammar_model: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--grammar-model", help="Says how grammatical a text is: link-grammar, classifier:FOLDER#LABEL."),
    ] = None,
    detector_model: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--detector-model", help="Tell first entries from others by this dual encoder's vectors, too."),
    ] = None,
    no_images: Annotated[bool, typer.Option("--no-images", help="Read no picture: captions and tags alone.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if a check warns.")] = False,
    data: Data = None,
    images: Images = None,
    open_card: Annotated[bool, typer.Option("--open", help="With --to: show its card.html in a browser.")] = False,
    as_json: Json = False,
) -> None:
    """Look for artefacts in a pair set, and write its data card.

    Blind accuracy, lengths, duplicates, leaks, what changes in the pictures, tags: each a number with its threshold.

    \f
    What stands below the form feed is no part of the command's help.

    >>> import inspect
    >>> [*inspect.signature(audit_command).parameters][:3]
    ['pair_set', 'against', 'to']
    """
    from tellapart.audit.audit import Options, audit
    from tellapart.audit.find import find_set
    from tellapart.audit.show import print_audit, write_audit
    from tellapart.benchmarks.locations import Locations
    from tellapart.cli.progress import TerminalProgress
    from tellapart.report.browser import shown

    if open_card and to is None:
        raise typer.BadParameter("--open shows the card that --to DIR writes; name a DIR")
    place = Locations(data, images)
    pairs = find_set(pair_set, place)
    other = find_set(against, place) if against is not None else None
    with TerminalProgress() as progress:
        found = audit(
            pairs, Options(other, text_model, not no_images, progress.told("audit"), detector_model, grammar_model)
        )
    said = write_audit(to, pairs, found) if to is not None else []
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        print_audit(found)
        for line in said:
            typer.echo(line)
    if open_card and to is not None:
        shown(to / "card.html")
    if strict and found.warnings:
        raise typer.Exit(1)
