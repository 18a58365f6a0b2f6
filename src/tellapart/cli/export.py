"""The command `tellapart export`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.options import BenchmarkName, Columns, Data, Images, Json, Outside, columns_of, print_json
from tellapart.report.terminal import print_text


def export_command(
    benchmark: BenchmarkName,
    to: Annotated[Path, typer.Option("--to", help="The file: .csv or .jsonl.")],
    data: Data = None,
    images: Images = None,
    outside_images: Outside = False,
    columns: Columns = None,
    as_json: Json = False,
) -> None:
    """Write items for a system elsewhere to score or answer: a benchmark's image-text pairs, or a task's records.

    Example: `tellapart export demo --to scores.csv`
    """
    from tellapart.evaluation.export import export

    written = export(
        benchmark, to, data=data, images=images, outside_images=outside_images, columns=columns_of(columns)
    )
    if as_json:
        print_json({"to": str(to), written.noun: written.rows})
    else:
        location = ["--data", str(data)] if data else []
        location += ["--images", str(images)] if images else []
        location += ["--outside-images"] if outside_images else []
        location += [f"--columns={column}" for column in columns or ()]
        next_command = shlex.join(["tellapart", "score", benchmark, "--scores", written.scores, *location])
        print_text(f"{written.rows:,} {written.noun} in {to}; {written.todo}, then: {next_command}")
