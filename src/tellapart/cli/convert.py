"""The command `tellapart convert`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.options import Json, print_json
from tellapart.report.interchange.formats import FORMATS
from tellapart.report.terminal import print_text


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
    """Write a model as safetensors or ONNX, or a run's results (`--to`) for cards on the hub or as lm-eval does.

    Example: `tellapart convert runs/a --to model-index`
    """
    from tellapart.report.interchange.formats import convert

    done = convert(source, folder, to=to, tokenizer=tokenizer, card=card, out=out)
    if done.folder is None:
        if as_json:
            print_json({"format": to, **({"text": done.text} if out is None else {"out": str(out)})})
        else:
            print_text(done.text if out is None else f"written: {out}", end="" if out is None else "\n")
    elif as_json:
        print_json({"out": str(folder), "parameters": done.parameters})
    else:
        opened = f"onnx:{folder}" if source.startswith("compact:") else str(folder)
        print_text(f"written: {folder}, {done.parameters:,} parameters; it is opened with -m {opened}")
