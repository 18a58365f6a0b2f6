"""The command `tellapart plot`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from tellapart.cli.options import Json, Labels, Sort, labels_of, print_json
from tellapart.report.plots.prepare import KINDS, check_kind
from tellapart.report.terminal import print_text


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
