"""The commands of models, lists and files, and those of what is kept between runs."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from tellapart.cli.command import Call, Commands
from tellapart.cli.options import Hint, Json, print_json
from tellapart.report.interchange.formats import FORMATS
from tellapart.report.terminal import print_text

tools_app = Commands("Tools")
cache_app = Commands(help="What runs keep: vectors and scores of models, prepared pictures; and how to delete it.")


@tools_app.declare(
    "ls",
    task="Benchmarks of this task.",
    media="Benchmarks of images or of videos.",
    year="Benchmarks that are cited with this year, or unknown.",
    language="Benchmarks in this language, such as sw, or unknown.",
)
def _ls(call: Call, *, as_json: Json = False) -> None:
    """List benchmarks, and which of their files are there; models; or training losses.

    Example: `tellapart ls benchmarks`
    """
    from tellapart.report.printing import print_listing

    rows = call()
    print_json(rows) if as_json else print_listing(call.what, rows)


@tools_app.declare("check", model=Hint("Also test a model of your own.", argument=True))
def _check(call: Call, *, as_json: Json = False) -> None:
    """Check that the reference models get their known results on items of every shape, and test a model.

    Example: `tellapart check demo-encoder`
    """
    from tellapart.report.printing import print_gates

    gates = call.watched()
    passed = all(gate.passed for gate in gates)
    if as_json:
        print_json({"passed": passed, "gates": [asdict(gate) for gate in gates]})
    else:
        print_gates(gates)
    if not passed:
        raise typer.Exit(1)


@tools_app.declare(
    "parity",
    a=Hint("A model.", metavar="A"),
    b=Hint("Another name of the same weights.", metavar="B"),
    dtype_b="Of the second model, if it is another: bfloat16 or float16.",
    reading_b="Of the second model, if it is another: embeddings of a server.",
    texts="library: captions as the libraries' tokenizers have them.",
)
def _parity(
    call: Call,
    *,
    most: Annotated[
        float, typer.Option("--most", min=0, max=1, help="Exit with 1 if a larger share of outcomes differs.")
    ] = 0.0,
    as_json: Json = False,
) -> None:
    """Compare two implementations of the same weights: where do tokens, pixels, vectors, scores and outcomes differ?

    Example: `tellapart parity demo-encoder demo-encoder --limit 8`
    """
    from tellapart.report.printing import print_parity

    compared = call.watched()
    if as_json:
        first = None if compared.first is None else compared.first.step
        print_json(compared.model_dump(mode="json") | {"first": first, "flipped": compared.flipped})
    else:
        print_parity(compared)
    if compared.flipped > most:
        raise typer.Exit(1)


@tools_app.declare(
    "convert",
    source=Hint(metavar="MODEL|RUN", type=str),
    folder=Hint("Of a model: the new folder, which -m opens; a compact one's is for ONNX Runtime.", argument=True),
    to=f"Of a run: {'; '.join(f'{name}: {what}' for name, what in FORMATS.items())}.",
    card="Of a run: a model card on disk, whose text with the results put in is written.",
    out="Of a run: write there instead of printing.",
)
def _convert(call: Call, *, as_json: Json = False) -> None:
    """Write a model as safetensors or ONNX, or a run's results (`--to`) for cards on the hub or as lm-eval does.

    Example: `tellapart convert runs/a --to model-index`
    """
    done, folder, out = call(), call.folder, call.out
    if done.folder is None:
        if as_json:
            print_json({"format": call.to, **({"text": done.text} if out is None else {"out": str(out)})})
        else:
            print_text(done.text if out is None else f"written: {out}", end="" if out is None else "\n")
    elif as_json:
        print_json({"out": str(folder), "parameters": done.parameters})
    else:
        opened = f"onnx:{folder}" if call.source.startswith("compact:") else str(folder)
        print_text(f"written: {folder}, {done.parameters:,} parameters; it is opened with -m {opened}")


@tools_app.declare(
    "regions",
    files=Hint("LXMERT's .tsv, VL-T5's .h5, UNITER's or ViLBERT's lmdb, as published.", metavar="FILE..."),
    images="The folder of the images; other regions are left out.",
    out="The .safetensors file to write.",
)
def _regions(call: Call, *, as_json: Json = False) -> None:
    """Take a detector's regions, as papers publish them, into one file for --regions.

    Example: `tellapart regions trainval_36.tsv --images images --out regions.safetensors`
    """
    imported = call.watched(task="regions")
    if as_json:
        print_json({"out": str(call.out), **asdict(imported)})
        return
    print_text(f"{imported.images} images have regions: {call.out}")
    if imported.without_regions:
        print_text(f"{imported.without_regions} images in {call.images} have none")
    if imported.without_image:
        print_text(f"{imported.without_image} images of the files are not in {call.images}, and were left out")


@cache_app.declare("ls", "cache_ls")
def _cache_ls(call: Call, *, as_json: Json = False) -> None:
    """List the content of the cache folder: vectors and scores of each model, pictures of each preprocessing.

    Example: `tellapart cache ls`
    """
    kept = call()
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


@cache_app.declare(
    "prune",
    "cache_prune",
    models="Its vectors and scores: its name, or how its fingerprint begins. Repeatable.",
    everything="All of both, kept audits, and all that runs in several ranks have left.",
)
def _cache_prune(call: Call, *, as_json: Json = False) -> None:
    """Delete the content of the cache folder; it is computed again when it is needed.

    Without an option it deletes leftovers alone: damaged files that were set aside, and drafts of several ranks.

    Example: `tellapart cache prune --prepared`
    """
    done = call()
    print_json(done) if as_json else print_text(f"{done['freed']:,} bytes freed in {done['folder']}")
