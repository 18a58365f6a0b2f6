"""The commands that show runs, and write tables and pictures of them: show, table, plot, import, push."""

from __future__ import annotations

from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tellapart.cli.invocation import command_line
from tellapart.cli.once import name_options
from tellapart.cli.options import Bundle, Json, Labels, Outside, Sort, labels_of, print_json
from tellapart.errors import RunError
from tellapart.report.paper_tables.layouts import AVERAGES, LAYOUTS
from tellapart.report.plots.prepare import KINDS, check_kind
from tellapart.report.terminal import print_text

if TYPE_CHECKING:
    from tellapart.api.run import Run


def show_command(
    run: Annotated[Path, typer.Argument(help="A run folder, or the folder of a training run or of its seeds.")],
    every: Annotated[
        bool, typer.Option("--all", help="Every table: headline metrics, tags, equivariance, ties.")
    ] = False,
    by: Annotated[str | None, typer.Option("--by", help="The table of this tag alone.", metavar="TAG")] = None,
    bundle: Bundle = False,
    outside_images: Outside = False,
    as_json: Json = False,
) -> None:
    """Print a run's table again, or all of its tables, and make its report again.

    Example: `tellapart show runs/a --all`
    """
    from tellapart.api.run import Run, show
    from tellapart.errors import RunError

    opened = show(run, outside_images=outside_images)
    if (every or by) and (as_json or not isinstance(opened, Run)):
        why = "JSON has every table" if as_json else f"{run} is a training run, which is printed in full"
        raise RunError(f"{why}: leave every= and by= out")
    if isinstance(opened, Run):
        show_run(opened, every=every, by=by, bundle=bundle, outside_images=outside_images, as_json=as_json)
    elif as_json:
        print_json(opened.to_json())
    else:
        opened.show()


def show_run(
    run: Run,
    *,
    every: bool = False,
    by: str | None = None,
    bundle: bool = False,
    outside_images: bool = False,
    as_json: bool = False,
) -> None:
    """Make a run's report, and print its records: as tables, or as one object with all of them."""
    write = cache(partial(run.write_report, bundle=bundle, outside_images=outside_images))
    try:
        print_json(run.to_json(write())) if as_json else run.show(write, every=every, by=by)
    except (Exception, SystemExit):  # rich's, when the reader of a pipe is gone (`| head`)
        write()
        raise
    for warning in write().warnings:
        print_text(f"warning: {name_options(warning)}", error=True)


def table_command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")],
    latex: Annotated[bool, typer.Option("--latex", help="For the packages booktabs and graphicx.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="The default.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Numbers in full, without marks.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Numbers in full, with intervals and marks.")] = False,
    benchmarks: Annotated[
        list[str] | None,
        typer.Option(
            "-b", "--benchmark", help="One, or several as a column each; all that were measured if not given."
        ),
    ] = None,
    average: Annotated[
        bool, typer.Option("--average", help="Of several benchmarks: add the plain mean of the columns.")
    ] = False,
    average_as: Annotated[
        list[str] | None,
        typer.Option("--average-as", help=f"Add an average that papers take of parts: {', '.join(AVERAGES)}."),
    ] = None,
    layout: Annotated[
        str | None, typer.Option("--layout", help=f"Instead of a benchmark's own: {', '.join(LAYOUTS)}.")
    ] = None,
    costs: Annotated[
        Path | None,
        typer.Option("--costs", help="Of vlue-cost: a file of `tellapart time`, or CSV: model, and what it costs."),
    ] = None,
    labels: Labels = None,
    sort: Sort = None,
    intervals: Annotated[bool, typer.Option("--intervals", help="Also write intervals.")] = False,
    no_tiers: Annotated[bool, typer.Option("--no-tiers", help="Do not test models against the best.")] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the tests behind tiers.")] = 0,
    out: Annotated[Path | None, typer.Option("--out", help="Write the table there instead of printing it.")] = None,
) -> None:
    """Lay runs out as the papers do: the best bold, models that the items do not separate from it marked.

    Example: `tellapart table runs/a runs/b --latex`
    """
    from tellapart.report.paper_tables.layouts import table

    if latex + markdown + as_csv + as_json > 1:
        raise RunError("--latex, --markdown, --csv and --json: a table is written in one format; choose one")
    text = table(
        runs,
        "json" if as_json else "latex" if latex else "csv" if as_csv else "markdown",
        layout=layout,
        intervals=intervals,
        out=out,
        benchmarks=benchmarks or (),
        average=average,
        average_as=average_as or (),
        costs=costs,
        labels=labels_of(labels),
        sort=sort,
        with_tiers=not (no_tiers or as_csv),
        seed=seed,
    )
    if out is None:
        print_text(text, end="")
    else:
        print_json({"out": str(out)}) if as_json else print_text(f"table: {out}")


def plot_command(
    kind: Annotated[
        str,
        # Checked as it is read: a misspelt kind is named before an option that is missing.
        typer.Argument(
            callback=check_kind, help=f"{'; '.join(f'{name}: {content}' for name, content in KINDS.items())}."
        ),
    ],
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Run folders; for cost, files of `tellapart time` or CSV; for agree, also TOML of imported numbers.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="The file to write: .pdf, .svg or .png.")],
    benchmarks: Annotated[
        list[str] | None,
        typer.Option(
            "-b",
            "--benchmark",
            help="Which; of several bars draws a panel each, pareto takes the mean, agree compares them.",
        ),
    ] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option("--metric", help="Which; those of a first look if not given. Repeatable."),
    ] = None,
    item: Annotated[str | None, typer.Option("--item", help="The id of matrix's item.")] = None,
    tag: Annotated[
        str | None, typer.Option("--tag", help="Heatmap's tag; that of the benchmark's paper if not given.")
    ] = None,
    costs: Annotated[
        Path | None,
        typer.Option("--costs", help="Pareto's costs: a file of `tellapart time`, or CSV: model, and what it costs."),
    ] = None,
    cost: Annotated[str, typer.Option("--cost", help="latency, parameters, flops or memory.")] = "latency",
    labels: Labels = None,
    sort: Sort = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the tests behind tiers.")] = 0,
    as_json: Json = False,
) -> None:
    """Draw a picture for a paper: vector, legible in grey and to colour-blind eyes, the same bytes each time.

    Example: `tellapart plot bars runs/a runs/b --out bars.pdf`
    """
    from tellapart.report.plots.agreement import agreement
    from tellapart.report.plots.prepare import plot

    plot(
        kind,
        runs,
        out,
        benchmarks=benchmarks or (),
        metrics=metrics or (),
        item=item,
        tag=tag,
        costs=costs,
        cost=cost,
        seed=seed,
        labels=labels_of(labels),
        sort=sort,
    )
    if as_json:
        said: dict[str, Any] = {"kind": kind, "out": str(out)}
        if kind == "agree":
            said |= asdict(agreement(runs, benchmarks=benchmarks or (), labels=labels_of(labels)))
        print_json(said)
    else:
        print_text(f"picture: {out}")


def import_command(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Results of CLIP_benchmark or mteb, of one model.")
    ],
    out: Annotated[Path, typer.Option("--out", help="The run folder to make.")],
    model: Annotated[
        str | None,
        typer.Option("--model", help="The model's name, if the files do not say it; of a CSV with several, the one."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Take results of CLIP_benchmark or mteb as a run: shown, drawn and tabulated, marked, and never compared.

    Example: `tellapart import winoground.json --out runs/theirs`
    """
    from tellapart.report.interchange.foreign import import_results

    result = import_results(files, out, command=command_line(), model=model)
    if as_json:
        notes = {name: record.notes for name, record in result.benchmarks.items()}
        print_json({"out": str(out), "model": result.model.name, "benchmarks": list(result.benchmarks), "notes": notes})
    else:
        for record in result.benchmarks.values():
            print_text(record.notes[-1])
        print_text(f"{result.model.name}: {', '.join(result.benchmarks)}; run: {out}")


def push_command(
    source: Annotated[str, typer.Argument(metavar="RUN", help="A run folder; with --benchmark a benchmark's name.")],
    repo: Annotated[str, typer.Argument(help="The model's page on the hub, OWNER/NAME; with --benchmark a dataset's.")],
    benchmark: Annotated[
        bool, typer.Option("--benchmark", help="Propose the eval.yaml that makes a dataset a benchmark on the hub.")
    ] = False,
    config: Annotated[str, typer.Option("--config", help="With --benchmark: the dataset's configuration.")] = "default",
    split: Annotated[str, typer.Option("--split", help="With --benchmark: the dataset's split.")] = "test",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the files; nothing is sent.")] = False,
    as_json: Json = False,
) -> None:
    """Propose a run's results to its model's page on the hub, as a pull request. The token is read from HF_TOKEN.

    Example: `tellapart push runs/a me/my-model --dry-run`
    """
    from tellapart.report.interchange.push import push

    done = push(source, repo, benchmark=benchmark, config=config, split=split, dry_run=dry_run)
    if done.unseen:
        print_text(f"warning: HF_HUB_OFFLINE is set: as for a page without a card: {done.page}", error=True)
    if as_json:
        about = {"repository": done.page, "left_out": done.files.left_out, "pull_request": done.request}
        print_json({**about, "files": dict(done.files.files)})
        return
    if dry_run:
        for path, text in done.files.files.items():
            print_text(f"==> {path}\n{text}")
    elif done.request is None:
        print_text(f"{done.page} has these files as they are: nothing to propose")
    else:
        print_text(f"pull request: {done.request}")
    if done.files.left_out:
        names = ", ".join(done.files.left_out)
        print_text(f"not in .eval_results, which knows only datasets on the hub: {names}")
