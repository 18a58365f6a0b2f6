"""The commands that build pairs and check them, and those that train on them."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.command import Call, Commands
from tellapart.cli.once import name_options
from tellapart.cli.options import Hint, Json, print_json
from tellapart.report.terminal import print_text

build_app = Commands("Build and check pairs")
train_app = Commands("Train")


@build_app.declare(
    "build",
    imagefolder="Also write the set as a Hugging Face imagefolder, to a new folder.",
    parquet="Also write it as one parquet file for Hugging Face datasets.",
    ray=Hint(metavar="ADDRESS"),
    ray_gpus=Hint(min=0.0),
)
def _build(
    call: Call,
    *,
    open_card: Annotated[bool, typer.Option("--open", help="As --card, and show card.html in a browser.")] = False,
    as_json: Json = False,
) -> None:
    """Build a pair set from a recipe; an interrupted build resumes with the same command.

    Example: `tellapart build recipe.toml --out my_pairs --card`
    """
    from tellapart.api.build import Built, default_folder, describe_kept
    from tellapart.report.printing import build_json, caption_pairs_json, print_build, print_caption_pairs
    from tellapart.report.terminal import open_in_browser

    kept = partial(describe_kept, default_folder(call.recipe, call.out) if call.pairs is None else call.pairs)
    built = call.watched(kept, card=call.card or open_card)
    if not isinstance(built, Built):
        print_json(caption_pairs_json(built)) if as_json else print_caption_pairs(built)
        return
    facts = (built.result, built.page, built.verdict)
    print_json(build_json(*facts)) if as_json else print_build(*facts)
    if open_card and built.page is not None:
        open_in_browser(built.page)


@build_app.declare(
    "audit",
    pairs=Hint(metavar="PAIRSET"),
    text_model="Also ask a model that reads texts alone: tinystories:PATH.",
    grammar_model="Scores how grammatical a text is: link-grammar, classifier:FOLDER#LABEL.",
    read_images="Read no picture: captions and tags alone.",
)
def _audit(
    call: Call,
    *,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if a check warns.")] = False,
    open_card: Annotated[bool, typer.Option("--open", help="With --to: show its card.html in a browser.")] = False,
    as_json: Json = False,
) -> None:
    """Look for artefacts in a pair set, and write its data card.

    Blind accuracy, lengths, scripts, duplicates, leaks, torn pairs, cut captions, changes of the pictures, tags: each a
    number with its threshold.

    Example: `tellapart audit folder:my_pairs --to audit`
    """
    from tellapart.report.terminal import open_in_browser

    if open_card and call.to is None:
        raise typer.BadParameter("--open shows the card that --to DIR writes; name a DIR")
    audited = call.watched()
    print_json(audited.record.model_dump(mode="json")) if as_json else audited.show()
    if open_card:
        open_in_browser(call.to / "card.html")
    if strict and audited.record.warnings:
        raise typer.Exit(1)


@build_app.declare("detect", pairs=Hint(metavar="PAIRSET"), folds=Hint(min=2))
def _detect(call: Call, *, as_json: Json = False) -> None:
    """Test whether a real/synthetic classifier on frozen features solves the benchmark.

    Example: `tellapart detect folder:my_pairs -m demo-encoder`
    """
    from tellapart.auditing.origin import detection_text
    from tellapart.auditing.show import print_detection

    detection = call.watched()
    print_text(detection_text(detection), end="") if as_json else print_detection(detection)


@train_app.declare("train")
def _train(call: Call, *, as_json: Json = False) -> None:
    """Train a model to tell pairs apart; after an interruption, --resume continues with the same numbers.

    Example: `tellapart train train.toml --out runs/trained`
    """
    from tellapart.training.train import default_folder, describe_kept

    folder = call.out if call.dry_run else default_folder(call.config, call.out)
    kept = partial(describe_kept, folder or Path())

    def again() -> str:
        arguments = [argument for argument in sys.argv[1:] if argument != "--resume"]
        return shlex.join(["tellapart", *arguments, *(["--resume"] if kept() else [])])

    trained = call.watched(kept, again, out=folder)
    if trained.plan is not None:
        trained.plan = replace(trained.plan, problems=tuple(map(name_options, trained.plan.problems)))
    if trained.records or call.dry_run:  # of several ranks the first prints
        print_json(trained.to_json()) if as_json else trained.show()
    if not trained.passed:
        raise typer.Exit(1)


@train_app.declare(
    "mine",
    reading="Which of the scorer's readings is used; itm, say.",
    images="The folder of the images; the file's own if not given.",
)
def _mine(call: Call, *, as_json: Json = False) -> None:
    """Find hard negatives among the training images and captions themselves.

    With --scorer coarse to fine, as EqSim does for ITM models; without it the nearest images alone, as NegCLIP does.

    Example: `tellapart mine rows.jsonl -m demo-encoder --out mined.jsonl`
    """
    mined = call.watched()
    if as_json:
        print_json({"out": str(call.out), "rows": mined.rows, "images": str(mined.images)})
    else:
        paths = f"their image paths are relative to {mined.images} (data.images of a training file)"
        print_text(f"{mined.rows:,} rows in {call.out}; {paths}")
