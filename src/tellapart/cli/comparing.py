"""The commands that compare models, and check what is published: compare, items, curve, verify, why, gap."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from tellapart.cli.invocation import interruptible
from tellapart.cli.options import (
    Cache,
    Columns,
    Data,
    Device,
    Images,
    Json,
    Outside,
    Quiet,
    Seed,
    columns_of,
    print_json,
)
from tellapart.errors import RunError
from tellapart.report.terminal import print_text

if TYPE_CHECKING:
    from tellapart.data.scores import ScoreKind
    from tellapart.evaluation.regression_gate import GateResult


def compare_command(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Run folders, on the same items. All models of a folder are compared, but for reference models that "
            "are not named by their own folder.",
        ),
    ],
    baseline: Annotated[
        str | None, typer.Option("--baseline", help="Compare each model with this one, not each with each.")
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="TAG", help="Compare on the items of each of a tag's values, too.")
    ] = None,
    anytime: Annotated[
        bool, typer.Option("--anytime", help="p and intervals that hold however often one looks while the runs grow.")
    ] = False,
    gate: Annotated[
        bool,
        typer.Option("--gate", help="Of BASE NEW: exit with 1 if a headline of NEW fell significantly, or is missing."),
    ] = False,
    max_drop: Annotated[
        float | None,
        typer.Option(
            "--max-drop", metavar="POINTS", help="With --gate: also if one fell by more, significantly or not."
        ),
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="With --gate: print Markdown, for a pull request.")
    ] = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Compare models: paired differences with intervals, exact McNemar tests, Holm over all of them, and tiers.

    Example: `tellapart compare runs/a runs/b`
    """
    from tellapart.api.compare import Compared, compare

    if markdown and not gate:
        raise RunError("--markdown is of a gate: add --gate")
    if markdown and as_json:
        raise RunError("--markdown and --json: the gate is written in one format; choose one")
    compared = compare(*runs, baseline=baseline, by=by, anytime=anytime, gate=gate, max_drop=max_drop, seed=seed)
    if not isinstance(compared, Compared):
        _show_gate(compared, markdown=markdown, as_json=as_json)
    elif as_json:
        print_json((compared.two or compared.record).model_dump(mode="json"))
    else:
        compared.show()


def _show_gate(result: GateResult, *, markdown: bool, as_json: bool) -> None:
    """Print a gate's result; exit with 1 if the gate stops."""
    from tellapart.report.gate import gate_markdown, print_gate

    if as_json:
        rows = [row.model_dump(mode="json") | {"says": row.says} for row in result.rows]
        print_json({"passed": result.passed, **result.model_dump(mode="json"), "rows": rows})
    elif markdown:
        print_text(gate_markdown(result), end="")
    else:
        print_gate(result)
    if not result.passed:
        raise typer.Exit(1)


def items_command(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RUN]...", help="Run folders: all models of each, but for reference models."),
    ] = None,
    scores: Annotated[
        list[Path] | None,
        typer.Option(
            "--scores", metavar="FILE | DIR", help="A system's scores or predictions, or a folder of files. Repeatable."
        ),
    ] = None,
    benchmark: Annotated[
        str | None, typer.Option("-b", "--benchmark", help="Which; the one that all runs share if not given.")
    ] = None,
    metric: Annotated[
        str | None, typer.Option("--metric", help="By which an item is right; the one that ranks models if not given.")
    ] = None,
    family: Annotated[
        str | None,
        typer.Option(
            "--family",
            metavar="FILE | name",
            help="Families of systems, resampled as one: a CSV file with the columns system and family, or `name`: the "
            "letters that a system's name begins with.",
        ),
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option("--without", metavar="SYSTEM", help="Leave a system out. Repeatable.")
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", help="Kind of the files' scores: similarity, logit or probability.")
    ] = None,
    data: Data = None,
    images: Images = None,
    outside_images: Outside = False,
    columns: Columns = None,
    page: Annotated[
        Path | None, typer.Option("--page", help="Write a page: difficulty by discrimination, and each item.")
    ] = None,
    short: Annotated[
        int | None, typer.Option("--short", min=1, help="Choose a short form of so many items, and print its error.")
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", help="Write the short form's ids into a file, for `run --items`.")
    ] = None,
    seed: Seed = 0,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print a line for each item, as CSV.")] = False,
    as_json: Json = False,
) -> None:
    """Analyse items through many systems: difficulty, discrimination, suspects, and how reliable the set is.

    Example: `tellapart items runs/*`
    """
    from tellapart.api.items import items

    if as_csv and as_json:
        raise RunError("--csv and --json: one format is printed; choose one")
    found = items(
        *(runs or ()),
        scores=scores or None,
        benchmark=benchmark,
        metric=metric,
        family=family,
        without=without,
        kind=cast("ScoreKind | None", kind),
        data=data,
        images=images,
        outside_images=outside_images,
        columns=columns_of(columns) or None,
        page=page,
        short=short,
        to=to,
        seed=seed,
    )
    if as_json:
        print_json(found.record.model_dump(mode="json"))
    elif as_csv:
        print_text(found.to_csv(), end="")
    else:
        found.show()


def curve_command(
    over: Annotated[
        str,
        typer.Option(
            "--over",
            metavar="TAG",
            help="A tag of numbers, how large a difference is; caption_edits and first_difference come from captions.",
        ),
    ],
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="RUN...", help="Run folders: all models of each, but for reference models."),
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="TAG", help="Also a curve for the items of each value of this tag.")
    ] = None,
    benchmark: Annotated[
        str | None, typer.Option("-b", "--benchmark", help="Which; the one that all runs share if not given.")
    ] = None,
    metric: Annotated[
        str | None, typer.Option("--metric", help="By which an item is right; the one that ranks models if not given.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="The picture to write: .pdf, .svg or .png.")] = None,
    seed: Seed = 0,
    model: Annotated[
        str | None, typer.Option("-m", "--model", help="With --adaptive, and without runs: the model to measure.")
    ] = None,
    adaptive: Annotated[
        int | None,
        typer.Option("--adaptive", help="Measure a slow model on so many items, chosen one by one by their value."),
    ] = None,
    items: Annotated[
        Path | None, typer.Option("--items", help="With --adaptive: a file of the ids to choose from, one a line.")
    ] = None,
    data: Data = None,
    columns: Columns = None,
    device: Device = "cpu",
    cache: Cache = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Show the smallest difference that a model sees: P(right) over a numeric tag of items, and its threshold.

    Example: `tellapart curve runs/a runs/b --over size --out curve.png`
    """
    from tellapart.api.curve import curve

    def describe_kept() -> str | None:
        from tellapart.models.store.cache import describe_stored

        return describe_stored(cache)

    with interruptible(describe_kept, quiet=quiet) as progress:
        fitted = curve(
            *runs or (), over=over, by=by, benchmark=benchmark, metric=metric, out=out, seed=seed, model=model,
            adaptive=adaptive, items=items, data=data, columns=columns_of(columns), device=device, cache=cache,
            progress=progress.callback,
        )  # fmt: skip
    if as_json:
        print_json(fitted.record.model_dump(mode="json"))
        return
    fitted.show()
    if out is not None:
        print_text(f"picture: {out}")


def verify_command(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Run folders, folders of them, or zip archives of either.")
    ],
    scores: Annotated[
        list[Path] | None,
        typer.Option("--scores", metavar="FILE", help="Check one run against this file of scores. Repeatable."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Also exit with 1 if a fact cannot be checked.")] = False,
    as_json: Json = False,
) -> None:
    """Measure every number of runs again from their samples, and check set, model and page; exit with 1 if one differs.

    Example: `tellapart verify runs/a`
    """
    from tellapart.api.verify import verify

    verified = verify(*runs, scores=scores or ())
    print_json(verified.to_json()) if as_json else verified.show()
    if not verified.passed or (strict and verified.unchecked):
        raise typer.Exit(1)


def why_command(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or CSV files of outcomes.")],
    benchmark: Annotated[
        str | None, typer.Option("-b", "--benchmark", help="Which; all with square items if not given.")
    ] = None,
    by: Annotated[str | None, typer.Option("--by", metavar="TAG", help="Print a row for each value of a tag.")] = None,
    debias: Annotated[
        int | None,
        typer.Option("--debias", min=1, metavar="N", help="Subtract means over N unrelated captions and pictures."),
    ] = None,
    cache: Cache = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Explain why models fail: they see no match, or a prior of the picture or the caption outweighs it.

    Example: `tellapart why runs/a`
    """
    from tellapart.api.why import why
    from tellapart.models.store.cache import describe_stored

    with interruptible(partial(describe_stored, cache), quiet=quiet) as progress:
        explained = why(
            *runs, benchmark=benchmark, by=by, debias=debias, cache=cache, seed=seed, progress=progress.callback
        )
    if as_json:
        print_json(explained.record.model_dump(mode="json"))
    else:
        explained.show()


def gap_command(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, of one model or of several.")],
    as_json: Json = False,
) -> None:
    """Show the models' losses out of domain: every task that a run measured on both sides, and the correlation.

    Example: `tellapart gap runs/a runs/b`
    """
    from tellapart.evaluation.gap import gap
    from tellapart.report.show import print_gaps

    losses = gap(runs)
    if as_json:
        print_json(losses.model_dump(mode="json"))
    else:
        print_gaps(losses)
