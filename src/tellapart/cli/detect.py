"""The command `tellapart detect`: what a detector of origins gets on a pair set, as a table or JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from tellapart.cli.options import Cache, Data, Device, Images, Json

if TYPE_CHECKING:
    from tellapart.train.detectors import Detection

# The command is no name for other modules: its docstring is its help, its examples are in the tests of detectors.
__all__ = ["print_detection"]


def detect_command(  # noqa: PLR0917
    pair_set: Annotated[
        str, typer.Argument(metavar="PAIRSET", help="A folder or a benchmark: first natural, second synthetic.")
    ],
    model: Annotated[str, typer.Option("-m", "--model", help="A dual encoder, which stays frozen.")],
    trained_on: Annotated[
        Optional[str],  # noqa: UP045  (typer reads it on 3.11)
        typer.Option("--trained-on", help="Fit the heads on this set; else on the other folds of the same one."),
    ] = None,
    folds: Annotated[int, typer.Option("--folds", min=2, help="Parts, whole clusters each.")] = 5,
    data: Data = None,
    images: Images = None,
    device: Device = "cpu",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the folds and the bootstrap.")] = 0,
    cache: Cache = None,
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--out", help="Also write the record there, as JSON."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Tell natural from synthetic by frozen features, and play the benchmark by that alone."""
    from tellapart.audit.find import find_set
    from tellapart.benchmarks.locations import Locations
    from tellapart.cli.progress import TerminalProgress
    from tellapart.models.deferred import find_deferred
    from tellapart.models.options import ModelOptions
    from tellapart.models.store import EmbeddingStore, default_store_path
    from tellapart.records.run_folder import write_whole
    from tellapart.train.detectors import DetectorSettings, detect

    place = Locations(data, images)
    with (
        EmbeddingStore(cache / "store.sqlite" if cache is not None else default_store_path()) as store,
        TerminalProgress() as progress,
    ):
        found = detect(
            find_set(pair_set, place),
            find_deferred(model, ModelOptions(device=device), store),
            store=store,
            trained_on=None if trained_on is None else find_set(trained_on, place),
            settings=DetectorSettings(folds=folds, seed=seed),
            progress=progress.told("detect"),
        )
    # In ASCII, so that it can be printed whatever the terminal's encoding.
    record = json.dumps(found.model_dump(mode="json"), indent=1, allow_nan=False) + "\n"
    if out is not None:
        write_whole(out, record)
    if as_json:
        typer.echo(record, nl=False)
    else:
        print_detection(found)


def print_detection(found: Detection) -> None:
    """Print how well origins are told, and what that wins.

    >>> from tellapart.train.detectors import Detection, DetectorScore
    >>> score = DetectorScore(value=0.5, low=0.25, high=0.75, method="wilson")
    >>> facts = {"pairs": "s", "model": "m", "fingerprint": "f", "trained_on": None, "folds": 5, "seed": 0, "penalty": 0.01}
    >>> print_detection(Detection(**facts, items=8, clusters=8, scores={"image_accuracy": score}))  # doctest: +ELLIPSIS
    s: 8 items, 8 clusters; heads on m, fitted on the other 4 of 5 folds...
    """
    from tellapart.report.numbers import plain
    from tellapart.report.terminal import console, table

    where = (
        f"fitted on {found.trained_on}"
        if found.folds is None
        else f"fitted on the other {found.folds - 1} of {found.folds} folds"
    )
    said = f"{found.pairs}: {found.items:,} items, {found.clusters:,} clusters; heads on {found.model}, {where}"
    rows = table("detector", "%", "interval", numbers_from=1)
    for name, score in found.scores.items():
        interval = "" if score.low is None or score.high is None else f"[{100 * score.low:.2f}, {100 * score.high:.2f}]"
        rows.add_row(name, f"{100 * score.value:.2f}", interval)
    screen = console()
    screen.print(plain(said), markup=False, highlight=False, soft_wrap=True)
    screen.print(rows)
