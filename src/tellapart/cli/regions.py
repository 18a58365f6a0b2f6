"""The command `tellapart regions`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.invocation import interruptible
from tellapart.cli.options import Json, Quiet, print_json
from tellapart.report.terminal import print_text


def regions_command(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="LXMERT's .tsv, VL-T5's .h5, UNITER's or ViLBERT's lmdb, as published."),
    ],
    images: Annotated[Path, typer.Option("--images", help="The folder of the images; other regions are left out.")],
    out: Annotated[Path, typer.Option("--out", help="The .safetensors file to write.")] = Path("regions.safetensors"),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Take a detector's regions, as papers publish them, into one file for --regions.

    Example: `tellapart regions trainval_36.tsv --images images --out regions.safetensors`
    """
    from tellapart.models.fusion.region_import import regions

    with interruptible(quiet=quiet) as progress:
        imported = regions(files, images, out, progress=progress.callback("regions"))
    if as_json:
        print_json({"out": str(out), **asdict(imported)})
        return
    print_text(f"{imported.images} images have regions: {out}")
    if imported.without_regions:
        print_text(f"{imported.without_regions} images in {images} have none")
    if imported.without_image:
        print_text(f"{imported.without_image} images of the files are not in {images}, and were left out")
