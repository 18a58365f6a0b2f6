"""The commands that convert files, and keep the cache small: convert, regions, cache."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.invocation import interruptible
from tellapart.cli.once import OnceCommand
from tellapart.cli.options import Cache, Json, Quiet, print_json
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


cache_app = typer.Typer(
    help="What runs keep: vectors and scores of models, prepared pictures; and how to delete it.", no_args_is_help=True
)


@cache_app.command("ls", cls=OnceCommand)
def list_command(cache: Cache = None, as_json: Json = False) -> None:
    """List the content of the cache folder: vectors and scores of each model, pictures of each preprocessing.

    Example: `tellapart cache ls`
    """
    from tellapart.models.store.cache import cache_ls

    kept = cache_ls(cache)
    if as_json:
        return print_json(kept)
    for file, size in kept["bytes"].items():
        print_text(f"{kept['folder']}/{file}: {size:,} bytes")
    for model in kept["models"]:
        name = model["name"] or "a model"
        print_text(f"{name} ({model['fingerprint'][:40]}): {model['vectors']:,} vectors, {model['scores']:,} scores")
    for each in kept["prepared"]:
        day = datetime.fromtimestamp(each["used"], UTC).date()
        print_text(f"{each['pictures']:,} prepared pictures, {each['bytes']:,} bytes, used on {day}: {each['name']}")
    return None


@cache_app.command("prune", cls=OnceCommand)
def prune_command(
    cache: Cache = None,
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model", "-m", help="Its vectors and scores: its name, or how its fingerprint begins. Repeatable."
        ),
    ] = None,
    prepared: Annotated[bool, typer.Option("--prepared", help="Prepared pictures.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="All of both, kept audits, and all that runs in several ranks have left.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Delete the content of the cache folder; it is computed again when it is needed.

    Without an option it deletes leftovers alone: damaged files that were set aside, and drafts of several ranks.

    Example: `tellapart cache prune --prepared`
    """
    from tellapart.models.store.cache import cache_prune

    done = cache_prune(cache, models=models or (), prepared=prepared, everything=everything)
    print_json(done) if as_json else print_text(f"{done['freed']:,} bytes freed in {done['folder']}")
