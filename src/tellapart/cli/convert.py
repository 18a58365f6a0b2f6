"""The command `tellapart convert`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.options import Json, print_json
from tellapart.report.interchange.formats import FORMATS

__all__ = ["convert_command"]


def convert_command(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    to: Annotated[str, typer.Option("--to", help=f"{'; '.join(f'{name}: {what}' for name, what in FORMATS.items())}.")],
    card: Annotated[
        Path | None,
        typer.Option("--card", help="A model card on disk, whose text with the results put in is written."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write there instead of printing.")] = None,
    as_json: Json = False,
) -> None:
    """Write a run's results for model cards on the hub, or as lm-evaluation-harness does."""
    from tellapart.api.interchange import convert

    text = convert(run, to, card=card, out=out)
    if as_json:
        print_json({"format": to, **({"text": text} if out is None else {"out": str(out)})})
    else:
        typer.echo(text if out is None else f"written: {out}", nl=out is not None)
