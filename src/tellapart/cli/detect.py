"""The command `tellapart detect`."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.invocation import interruptible, kept_embeddings, open_store
from tellapart.cli.options import Cache, Data, Device, Images, Json, Quiet

__all__ = ["detect_command"]


def detect_command(
    pair_set: Annotated[
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
    device: Device = "cpu",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the folds and the bootstrap.")] = 0,
    cache: Cache = None,
    out: Annotated[Path | None, typer.Option("--out", help="Also write the record there, as JSON.")] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Tell natural from synthetic by frozen features, and play the benchmark by that alone."""
    from tellapart.benchmarks.find import load_pairs_or_folder
    from tellapart.benchmarks.locations import Locations
    from tellapart.models.deferred import find_deferred
    from tellapart.models.options import ModelOptions
    from tellapart.records.run_folder import write_text_file
    from tellapart.report.training import print_detection
    from tellapart.train.detectors import DetectorSettings, detect

    locations = Locations(data, images)
    with (
        open_store(cache) as store,
        interruptible(partial(kept_embeddings, store), quiet=quiet) as progress,
    ):
        detection = detect(
            load_pairs_or_folder(pair_set, locations),
            find_deferred(model, ModelOptions(device=device), store),
            store=store,
            trained_on=None if trained_on is None else load_pairs_or_folder(trained_on, locations),
            settings=DetectorSettings(folds=folds, seed=seed),
            progress=progress.callback("detect"),
        )
    # In ASCII, so that it can be printed whatever the terminal's encoding.
    record = json.dumps(detection.model_dump(mode="json"), indent=1, allow_nan=False) + "\n"
    if out is not None:
        write_text_file(out, record)
    if as_json:
        print(record, end="")
    else:
        print_detection(detection)
