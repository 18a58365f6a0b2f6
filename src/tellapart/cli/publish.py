"""The commands that show runs, write them for papers, and exchange them with other programs."""

from __future__ import annotations

from dataclasses import asdict
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tellapart.cli.command import Call, Commands, command_line
from tellapart.cli.once import name_options
from tellapart.cli.options import Bundle, Hint, Json, labels_of, print_json
from tellapart.errors import RunError
from tellapart.report.paper_tables.layouts import AVERAGES, LAYOUTS
from tellapart.report.plots.prepare import KINDS, check_kind
from tellapart.report.terminal import print_text

if TYPE_CHECKING:
    from tellapart.api.run import Run

publish_app = Commands("Compare and publish")


@publish_app.declare("show")
def _show(
    call: Call,
    *,
    every: Annotated[
        bool, typer.Option("--all", help="Every table: headline metrics, tags, equivariance, ties.")
    ] = False,
    by: Annotated[str | None, typer.Option("--by", help="The table of this tag alone.", metavar="TAG")] = None,
    bundle: Bundle = False,
    as_json: Json = False,
) -> None:
    """Print a run's table again, or all of its tables, and make its report again.

    Example: `tellapart show runs/a --all`
    """
    from tellapart.api.run import Run

    opened = call()
    if (every or by) and (as_json or not isinstance(opened, Run)):
        why = "JSON has every table" if as_json else f"{call.run} is a training run, which is printed in full"
        raise RunError(f"{why}: leave every= and by= out")
    if isinstance(opened, Run):
        show_run(opened, every=every, by=by, bundle=bundle, outside_images=call.outside_images, as_json=as_json)
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


@publish_app.declare(
    "table",
    average_as=f"Add an average that papers take of parts: {', '.join(AVERAGES)}.",
    layout=f"Instead of a benchmark's own: {', '.join(LAYOUTS)}.",
    with_tiers="Do not test models against the best.",
    out="Write the table there instead of printing it.",
)
def _table(
    call: Call,
    *,
    latex: Annotated[bool, typer.Option("--latex", help="For the packages booktabs and graphicx.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="The default.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Numbers in full, without marks.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Numbers in full, with intervals and marks.")] = False,
) -> None:
    """Lay runs out as the papers do: the best bold, models that the items do not separate from it marked.

    Example: `tellapart table runs/a runs/b --latex`
    """
    if latex + markdown + as_csv + as_json > 1:
        raise RunError("--latex, --markdown, --csv and --json: a table is written in one format; choose one")
    form = "json" if as_json else "latex" if latex else "csv" if as_csv else "markdown"
    text = call(form=form, with_tiers=call.with_tiers and not as_csv)
    if call.out is None:
        print_text(text, end="")
    else:
        print_json({"out": str(call.out)}) if as_json else print_text(f"table: {call.out}")


@publish_app.declare(
    "plot",
    # Checked as it is read: a misspelt kind is named before an option that is missing.
    kind=Hint(f"{'; '.join(f'{name}: {content}' for name, content in KINDS.items())}.", callback=check_kind),
    runs="Run folders; for cost, files of `tellapart time` or CSV; for agree, also TOML of imported numbers.",
    out="The file to write: .pdf, .svg or .png.",
    cost="latency, parameters, flops or memory.",
)
def _plot(call: Call, *, as_json: Json = False) -> None:
    """Draw a picture for a paper: vector, legible in grey and to colour-blind eyes, the same bytes each time.

    Example: `tellapart plot bars runs/a runs/b --out bars.pdf`
    """
    from tellapart.report.plots.heatmap import agreement

    call()
    if as_json:
        facts: dict[str, Any] = {"kind": call.kind, "out": str(call.out)}
        if call.kind == "agree":
            facts |= asdict(agreement(call.runs, benchmarks=call.benchmarks or (), labels=labels_of(call.labels)))
        print_json(facts)
    else:
        print_text(f"picture: {call.out}")


@publish_app.declare(
    "import",
    "import_results",
    files=Hint("Results of CLIP_benchmark or mteb, of one model.", metavar="FILE..."),
    out="The run folder to make.",
    model=Hint("The model's name, if the files do not say it; of a CSV with several, the one.", ("--model",)),
)
def _import_results(call: Call, *, as_json: Json = False) -> None:
    """Take results of CLIP_benchmark or mteb as a run: shown, drawn and tabulated, marked, and never compared.

    Example: `tellapart import winoground.json --out runs/theirs`
    """
    result = call(command=command_line())
    if as_json:
        notes = {name: record.notes for name, record in result.benchmarks.items()}
        facts = {"out": str(call.out), "model": result.model.name, "benchmarks": list(result.benchmarks)}
        print_json({**facts, "notes": notes})
    else:
        for record in result.benchmarks.values():
            print_text(record.notes[-1])
        print_text(f"{result.model.name}: {', '.join(result.benchmarks)}; run: {call.out}")


@publish_app.declare(
    "push",
    source=Hint("A run folder; with --benchmark a benchmark's name.", metavar="RUN"),
    repo="The model's page on the hub, OWNER/NAME; with --benchmark a dataset's.",
    benchmark=Hint("Propose the eval.yaml that makes a dataset a benchmark on the hub.", ("--benchmark",)),
    config="With --benchmark: the dataset's configuration.",
    split="With --benchmark: the dataset's split.",
    dry_run="Print the files; nothing is sent.",
)
def _push(call: Call, *, as_json: Json = False) -> None:
    """Propose a run's results to its model's page on the hub, as a pull request. The token is read from HF_TOKEN.

    Example: `tellapart push runs/a me/my-model --dry-run`
    """
    done = call()
    if done.unseen:
        print_text(f"warning: HF_HUB_OFFLINE is set: as for a page without a card: {done.page}", error=True)
    if as_json:
        about = {"repository": done.page, "left_out": done.files.left_out, "pull_request": done.request}
        print_json({**about, "files": dict(done.files.files)})
        return
    if call.dry_run:
        for path, text in done.files.files.items():
            print_text(f"==> {path}\n{text}")
    elif done.request is None:
        print_text(f"{done.page} has these files as they are: nothing to propose")
    else:
        print_text(f"pull request: {done.request}")
    if done.files.left_out:
        names = ", ".join(done.files.left_out)
        print_text(f"not in .eval_results, which knows only datasets on the hub: {names}")
