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
        str, typer.Argument(metavar="MODEL|RUN", help="A model in its authors' file (albef:FILE), or a run folder.")
    ],
    folder: Annotated[
        Path | None, typer.Argument(help="Of a model: the new folder, which -m opens without a pickle.")
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
    """Write a model as safetensors, or a run's results (`--to`) for model cards on the hub or as lm-eval does."""
    if to is None:
        _convert_model(source, folder, tokenizer, as_json, of_run={"--card": card, "--out": out})
    else:
        _convert_run(Path(source), to, card, out, as_json, of_model={"FOLDER": folder, "--tokenizer": tokenizer})


def _convert_model(
    name: str, folder: Path | None, tokenizer: Path | None, as_json: bool, *, of_run: dict[str, Path | None]
) -> None:
    from tellapart.models.native.save import convert_model

    _refuse(of_run, "goes with a run, and so with --to FORMAT")
    if folder is None:
        raise RunError(
            f"convert {name}: name what to write: of a model a new folder (tellapart convert {name} FOLDER), of a run "
            f"--to {', --to '.join(FORMATS)}"
        )
    parameters = convert_model(name, folder, tokenizer=tokenizer)
    if as_json:
        print_json({"out": str(folder), "parameters": parameters})
    else:
        typer.echo(f"written: {folder}, {parameters:,} parameters; it is opened with -m {folder}")


def _convert_run(
    run: Path, to: str, card: Path | None, out: Path | None, as_json: bool, *, of_model: dict[str, Path | None]
) -> None:
    from tellapart.records.run_folder import read_result, write_text_file
    from tellapart.report.interchange.formats import convert

    _refuse(of_model, "goes with a model; a run's results are written with --out")
    text = convert(read_result(run), to, card)
    if out is not None:
        write_text_file(out, text)
    if as_json:
        print_json({"format": to, **({"text": text} if out is None else {"out": str(out)})})
    else:
        typer.echo(text if out is None else f"written: {out}", nl=out is not None)


def _refuse(given: dict[str, Path | None], why: str) -> None:
    for option, value in given.items():
        if value is not None:
            raise RunError(f"convert: {option} {value} {why}")
