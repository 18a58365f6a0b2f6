"""The command `tellapart time`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.invocation import command_line, interruptible
from tellapart.cli.options import Data, Device, Dtype, Images, Json, ModelName, Outside, Quiet, Reading, print_json


def time_command(
    models: ModelName,
    benchmark: Annotated[
        str, typer.Option("-b", "--benchmark", help="Whose images and texts to use; or folder:PATH.")
    ] = "demo",
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Pairs whose latency is measured.")] = 50,
    warm_up: Annotated[int, typer.Option("--warm-up", min=0, help="Pairs before them, which do not count.")] = 5,
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Given at once, for the throughput.")] = 32,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    reading: Reading = None,
    data: Data = None,
    images: Images = None,
    outside_images: Outside = False,
    out: Annotated[Path | None, typer.Option("--out", help="The file to write, timing.json say.")] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Measure the costs of models: latency of one pair by part, throughput, parameters, FLOPs, memory.

    Example: `tellapart time -m demo-encoder --repeats 10`
    """
    from tellapart.api.costs import time
    from tellapart.report.timings import print_timings

    with interruptible(quiet=quiet) as progress:
        timings = time(
            models,
            benchmark,
            out=out,
            data=data,
            images=images,
            outside_images=outside_images,
            progress=progress.callback,
            command=command_line(),
            repeats=repeats,
            warm_up=warm_up,
            batch_size=batch_size,
            device=device,
            dtype=dtype,
            reading=reading,
        )
    if as_json:
        print_json(timings.model_dump(mode="json", by_alias=True))
    else:
        print_timings(timings)
