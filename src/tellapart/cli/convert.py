"""The command `tellapart convert`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.options import Json, print_json
from tellapart.errors import RunError
from tellapart.report.interchange.formats import FORMATS

__all__ = ["convert_command"]


def convert_command(
    source: Annotated[
        str, typer.Argument(metavar="MODEL|RUN", help="A model (albef:FILE, compact:FOLDER), or a run folder.")
    ],
    folder: Annotated[
        Path | None,
        typer.Argument(help="Of a model: the new folder, which -m opens; a compact one's is for ONNX Runtime."),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", help=f"Of a run: {'; '.join(f'{name}: {what}' for name, what in FORMATS.items())}."),
    ] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option("--tokenizer", help="Of a model: its tokenizer's folder, if not beside the file or on the hub."),
    ] = None,
    card: Annotated[
        Path | None,
        typer.Option("--card", help="Of a run: a model card on disk, whose text with the results put in is written."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Of a run: write there instead of printing.")] = None,
    as_json: Json = False,
) -> None:
    """Write a model as safetensors or ONNX, or a run's results (`--to`) for cards on the hub or as lm-eval does."""
    from tellapart.api.interchange import convert, convert_model

    if to is None:
        _refuse({"--card": card, "--out": out}, "goes with a run, and so with --to FORMAT")
        if folder is None:
            raise RunError(
                f"convert {source}: name what to write: of a model a new folder (tellapart convert {source} FOLDER), "
                f"of a run --to {', --to '.join(FORMATS)}"
            )
        parameters = convert_model(source, folder, tokenizer=tokenizer)
        if as_json:
            print_json({"out": str(folder), "parameters": parameters})
        else:
            opened = f"onnx:{folder}" if source.startswith("compact:") else str(folder)
            typer.echo(f"written: {folder}, {parameters:,} parameters; it is opened with -m {opened}")
        return
    _refuse({"FOLDER": folder, "--tokenizer": tokenizer}, "goes with a model; a run's results are written with --out")
    text = convert(source, to, card=card, out=out)
    if as_json:
        print_json({"format": to, **({"text": text} if out is None else {"out": str(out)})})
    else:
        typer.echo(text if out is None else f"written: {out}", nl=out is not None)


def _refuse(given: dict[str, Path | None], why: str) -> None:
    for option, value in given.items():
        if value is not None:
            raise RunError(f"convert: {option} {value} {why}")
