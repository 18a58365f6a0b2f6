"""The commands that list what there is, and check models: ls, check, parity."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.invocation import interruptible
from tellapart.cli.options import Data, Device, Dtype, Images, Json, Outside, Quiet, Reading, Seed, print_json


def ls_command(
    what: Annotated[str, typer.Argument(help="benchmarks, models, losses or builders")],
    data: Data = None,
    task: Annotated[str | None, typer.Option(help="Benchmarks of this task.")] = None,
    media: Annotated[str | None, typer.Option(help="Benchmarks of images or of videos.")] = None,
    year: Annotated[str | None, typer.Option(help="Benchmarks that are cited with this year, or unknown.")] = None,
    language: Annotated[str | None, typer.Option(help="Benchmarks in this language, such as sw, or unknown.")] = None,
    as_json: Json = False,
) -> None:
    """List benchmarks, and which of their files are there; models; or training losses.

    Example: `tellapart ls benchmarks`
    """
    from tellapart.api.listing import ls
    from tellapart.report.listing import print_listing

    rows = ls(what, data=data, task=task, media=media, year=year, language=language)
    if as_json:
        print_json(rows)
    else:
        print_listing(what, rows)


def check_command(
    model: Annotated[str | None, typer.Argument(help="Also test a model of your own.")] = None,
    device: Device = "cpu",
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Check that the reference models get their known results on items of every shape, and test a model.

    Example: `tellapart check demo-encoder`
    """
    from tellapart.api.costs import check
    from tellapart.report.show import print_gates

    with interruptible(quiet=quiet) as progress:
        gates = check(model, device=device, seed=seed, progress=progress.callback)
    passed = all(gate.passed for gate in gates)
    if as_json:
        print_json({"passed": passed, "gates": [asdict(gate) for gate in gates]})
    else:
        print_gates(gates)
    if not passed:
        raise typer.Exit(1)


def parity_command(
    a: Annotated[str, typer.Argument(metavar="A", help="A model.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another name of the same weights.")],
    benchmark: Annotated[str, typer.Option("-b", "--benchmark", help="A set of pairs, or folder:PATH.")] = "demo",
    limit: Annotated[str | None, typer.Option("--limit", help="A number or a share of its items.")] = None,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    dtype_b: Annotated[
        str | None, typer.Option("--dtype-b", help="Of the second model, if it is another: bfloat16 or float16.")
    ] = None,
    reading: Reading = None,
    reading_b: Annotated[
        str | None, typer.Option("--reading-b", help="Of the second model, if it is another: embeddings of a server.")
    ] = None,
    texts: Annotated[
        str, typer.Option("--texts", help="library: captions as the libraries' tokenizers have them.")
    ] = "raw",
    picture: Annotated[
        Path | None,
        typer.Option("--picture", help="PNG file to write: the image that differs most as A and B read it."),
    ] = None,
    data: Data = None,
    images: Images = None,
    outside_images: Outside = False,
    most: Annotated[
        float, typer.Option("--most", min=0, max=1, help="Exit with 1 if a larger share of outcomes differs.")
    ] = 0.0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Compare the same weights through two doors: where tokens, pixels, vectors, scores and outcomes part, and why.

    Example: `tellapart parity demo-encoder demo-encoder --limit 8`
    """
    from tellapart.api.parity import parity
    from tellapart.report.parity import print_parity

    with interruptible(quiet=quiet) as progress:
        found = parity(
            a,
            b,
            benchmark,
            limit=limit,
            device=device,
            dtype=dtype,
            dtype_b=dtype_b,
            reading=reading,
            reading_b=reading_b,
            texts=texts,
            picture=picture,
            data=data,
            images=images,
            outside_images=outside_images,
            progress=progress.callback,
        )
    if as_json:
        first = None if found.first is None else found.first.step
        print_json(found.model_dump(mode="json") | {"first": first, "flipped": found.flipped})
    else:
        print_parity(found)
    if found.flipped > most:
        raise typer.Exit(1)
