"""The command `tellapart import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.invocation import command_line
from tellapart.cli.options import Json, print_json
from tellapart.report.terminal import print_text


def import_command(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Results of CLIP_benchmark or mteb, of one model.")
    ],
    out: Annotated[Path, typer.Option("--out", help="The run folder to make.")],
    model: Annotated[
        str | None,
        typer.Option("--model", help="The model's name, if the files do not say it; of a CSV with several, the one."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Take results of CLIP_benchmark or mteb as a run: shown, drawn and tabulated, marked, and never compared.

    Example: `tellapart import winoground.json --out runs/theirs`
    """
    from tellapart.report.interchange.foreign import import_results

    result = import_results(files, out, command=command_line(), model=model)
    if as_json:
        notes = {name: record.notes for name, record in result.benchmarks.items()}
        print_json({"out": str(out), "model": result.model.name, "benchmarks": list(result.benchmarks), "notes": notes})
    else:
        for record in result.benchmarks.values():
            print_text(record.notes[-1])
        print_text(f"{result.model.name}: {', '.join(result.benchmarks)}; run: {out}")
