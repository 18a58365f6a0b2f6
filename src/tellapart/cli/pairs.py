"""The commands that build pairs and check them: build, audit, detect."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.invocation import interruptible
from tellapart.cli.options import Cache, Columns, Data, Device, Images, Json, Outside, Quiet, columns_of, print_json
from tellapart.report.terminal import print_text


def build_command(
    recipe: Annotated[Path, typer.Argument(help="A TOML file that names a builder (`tellapart ls builders`).")],
    out: Annotated[
        Path | None, typer.Option("--out", help="The pair set's folder; sets/NAME of the recipe if not given.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", min=1, help="Processes; 1, or all that a Ray cluster has room for, if not given."),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Try only the first so many candidates.")] = None,
    imagefolder: Annotated[
        Path | None,
        typer.Option("--imagefolder", help="Also write the set as a Hugging Face imagefolder, to a new folder."),
    ] = None,
    parquet: Annotated[
        Path | None,
        typer.Option("--parquet", help="Also write it as one parquet file for Hugging Face datasets."),
    ] = None,
    pairs: Annotated[
        Path | None,
        typer.Option("--pairs", help="Captions alone, as JSONL: of counterfactual-captions, without images."),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option("--ray", metavar="ADDRESS", help="Work on a Ray cluster: local, auto or HOST:PORT."),
    ] = None,
    ray_gpus: Annotated[
        float, typer.Option("--ray-gpus", min=0.0, help="What each worker there takes of a GPU.")
    ] = 0.0,
    insecure: Annotated[
        bool,
        typer.Option("--insecure", help="Ask a server that the recipe names over plain http on another machine, too."),
    ] = False,
    card: Annotated[bool, typer.Option("--card", help="Audit the set; card.html and card.md into its folder.")] = False,
    open_card: Annotated[bool, typer.Option("--open", help="The same, and show card.html in a browser.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Build a pair set from a recipe; stopped in whatever way, the same command goes on from there.

    Example: `tellapart build recipe.toml --out my_pairs --card`
    """
    from tellapart.api.build import Built, build, default_folder, describe_kept
    from tellapart.report.browser import open_in_browser
    from tellapart.report.builds import build_json, caption_pairs_json, print_build, print_caption_pairs

    kept = partial(describe_kept, default_folder(recipe, out) if pairs is None else pairs)
    with interruptible(kept, quiet=quiet) as progress:
        built = build(
            recipe,
            out,
            workers=workers,
            limit=limit,
            imagefolder=imagefolder,
            parquet=parquet,
            pairs=pairs,
            ray=ray,
            ray_gpus=ray_gpus,
            insecure=insecure,
            card=card or open_card,
            progress=progress.callback,
        )
    if not isinstance(built, Built):
        print_json(caption_pairs_json(built)) if as_json else print_caption_pairs(built)
        return
    facts = (built.result, built.page, built.verdict)
    print_json(build_json(*facts)) if as_json else print_build(*facts)
    if open_card and built.page is not None:
        open_in_browser(built.page)


def audit_command(
    pairs: Annotated[
        str, typer.Argument(metavar="PAIRSET", help="A pair set's folder, or a benchmark (`tellapart ls benchmarks`).")
    ],
    against: Annotated[
        str | None,
        typer.Option("--against", help="Another one, such as what was trained on: what do both hold?"),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option("--to", help="Write audit.json, the data card (HTML, markdown) and croissant.json there."),
    ] = None,
    text_model: Annotated[
        str | None,
        typer.Option("--text-model", help="Also ask a model that reads texts alone: tinystories:PATH."),
    ] = None,
    grammar_model: Annotated[
        str | None,
        typer.Option("--grammar-model", help="Says how grammatical a text is: link-grammar, classifier:FOLDER#LABEL."),
    ] = None,
    detector_model: Annotated[
        str | None,
        typer.Option("--detector-model", help="Tell first entries from others by this dual encoder's vectors, too."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="The model to be measured (or 77, of CLIP's tokens): what does it cut?"),
    ] = None,
    no_images: Annotated[bool, typer.Option("--no-images", help="Read no picture: captions and tags alone.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if a check warns.")] = False,
    data: Data = None,
    images: Images = None,
    outside_images: Outside = False,
    columns: Columns = None,
    open_card: Annotated[bool, typer.Option("--open", help="With --to: show its card.html in a browser.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Look for artefacts in a pair set, and write its data card.

    Blind accuracy, lengths, scripts, duplicates, leaks, torn pairs, cut captions, changes of the pictures, tags: each a
    number with its threshold.

    Example: `tellapart audit folder:my_pairs --to audit`
    """
    from tellapart.auditing.show import audit
    from tellapart.report.browser import open_in_browser

    if open_card and to is None:
        raise typer.BadParameter("--open shows the card that --to DIR writes; name a DIR")
    with interruptible(quiet=quiet) as progress:
        found = audit(
            pairs,
            against=against,
            to=to,
            text_model=text_model,
            grammar_model=grammar_model,
            detector_model=detector_model,
            model=model,
            read_images=not no_images,
            data=data,
            images=images,
            outside_images=outside_images,
            columns=columns_of(columns),
            progress=progress.callback,
        )
    if as_json:
        print_json(found.record.model_dump(mode="json"))
    else:
        found.show()
    if open_card and to is not None:
        open_in_browser(to / "card.html")
    if strict and found.record.warnings:
        raise typer.Exit(1)


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
