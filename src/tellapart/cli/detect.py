"""The command `tellapart detect`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.invocation import interruptible
from tellapart.cli.options import Cache, Data, Device, Images, Json, Outside, Quiet
from tellapart.report.terminal import print_text


def detect_command(
    pairs: Annotated[
        str, typer.Argument(metavar="PAIRSET", help="A folder or a benchmark: first natural, second synthetic.")
    ],
    model: Annotated[str, typer.Option("-m", "--model", help="A dual encoder, which stays frozen.")],
    trained_on: Annotated[
        str | None,
        typer.Option("--trained-on", help="Fit the heads on this set; else on the other folds of the same one."),
    ] = None,
    folds: Annotated[int, typer.Option("--folds", min=2, help="Parts, whole clusters each.")] = 5,
    data: Data = None,
    images: Images = None,
    outside_images: Outside = False,
    device: Device = "cpu",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the folds and the bootstrap.")] = 0,
    cache: Cache = None,
    out: Annotated[Path | None, typer.Option("--out", help="Also write the record there, as JSON.")] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Separate natural from synthetic by frozen features, and play the benchmark by that alone.

    Example: `tellapart detect folder:my_pairs -m demo-encoder`
    """
    from tellapart.auditing.detectors import detect, detection_text
    from tellapart.auditing.show import print_detection
    from tellapart.models.store.cache import describe_stored

    with interruptible(partial(describe_stored, cache), quiet=quiet) as progress:
        detection = detect(
            pairs,
            model,
            trained_on=trained_on,
            folds=folds,
            seed=seed,
            device=device,
            data=data,
            images=images,
            outside_images=outside_images,
            cache=cache,
            out=out,
            progress=progress.callback,
        )
    if as_json:
        print_text(detection_text(detection), end="")
    else:
        print_detection(detection)
