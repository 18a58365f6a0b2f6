"""The commands that compare runs and explain their differences."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tellapart.cli.command import Call, Commands
from tellapart.cli.once import name_options
from tellapart.cli.options import Hint, Json, print_json
from tellapart.errors import RunError
from tellapart.report.terminal import print_text

compare_app = Commands("Compare and publish")


@compare_app.declare(
    "compare",
    gate="Of BASE NEW: exit with 1 if a headline of NEW fell significantly, or is missing.",
    max_drop=Hint(metavar="POINTS"),
)
def _compare(
    call: Call,
    *,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="With --gate: print Markdown, for a pull request.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Compare models: paired differences with intervals, exact McNemar tests, Holm over all of them, and tiers.

    Example: `tellapart compare runs/a runs/b`
    """
    if markdown and not call.gate:
        raise RunError("--markdown is of a gate: add --gate")
    if markdown and as_json:
        raise RunError("--markdown and --json: the gate is written in one format; choose one")
    compared = call()
    if call.gate:
        _show_gate(compared, markdown=markdown, as_json=as_json)
    elif as_json:
        print_json((compared.two or compared.record).model_dump(mode="json"))
    else:
        compared.show()


def _show_gate(result: Any, *, markdown: bool, as_json: bool) -> None:
    """Print a gate's result; exit with 1 if the gate stops."""
    from tellapart.report.printing import gate_markdown, print_gate

    if as_json:
        rows = [row.model_dump(mode="json") | {"says": row.says} for row in result.rows]
        print_json({"passed": result.passed, **result.model_dump(mode="json"), "rows": rows})
    elif markdown:
        print_text(gate_markdown(result), end="")
    else:
        print_gate(result)
    if not result.passed:
        raise typer.Exit(1)


@compare_app.declare(
    "items",
    runs=Hint(metavar="[RUN]...", needed=False),
    scores=Hint(metavar="FILE | DIR"),
    family=Hint(metavar="FILE | name"),
    without=Hint(metavar="SYSTEM"),
    to="Write the short form's ids into a file, for `run --items`.",
)
def _items(
    call: Call,
    *,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print a line for each item, as CSV.")] = False,
    as_json: Json = False,
) -> None:
    """Analyse items through many systems: difficulty, discrimination, suspects, and how reliable the set is.

    Example: `tellapart items runs/*`
    """
    if as_csv and as_json:
        raise RunError("--csv and --json: one format is printed; choose one")
    analysed = call()
    if as_json:
        print_json(analysed.record.model_dump(mode="json"))
    elif as_csv:
        print_text(analysed.to_csv(), end="")
    else:
        analysed.show()


@compare_app.declare(
    "curve",
    over=Hint(metavar="TAG"),
    runs=Hint(needed=False),
    model="With --adaptive, and without runs: the model to measure.",
    adaptive="Measure a slow model on so many items, chosen one by one by their value.",
    items="With --adaptive: a file of the ids to choose from, one a line.",
)
def _curve(call: Call, *, as_json: Json = False) -> None:
    """Show the smallest difference that a model sees: P(right) over a numeric tag of items, and its threshold.

    Example: `tellapart curve runs/a runs/b --over size --out curve.png`
    """
    fitted = call.watched()
    if as_json:
        print_json(fitted.record.model_dump(mode="json"))
        return
    fitted.show()
    if call.out is not None:
        print_text(f"picture: {call.out}")


@compare_app.declare("verify", scores=Hint(metavar="FILE"))
def _verify(
    call: Call,
    *,
    strict: Annotated[bool, typer.Option("--strict", help="Also exit with 1 if a fact cannot be checked.")] = False,
    as_json: Json = False,
) -> None:
    """Measure every number of runs again from their samples, and check set, model and page; exit with 1 if one differs.

    Example: `tellapart verify runs/a`
    """
    verified = call()
    print_json(verified.to_json()) if as_json else print_text(name_options(verified))
    if not verified.passed or (strict and verified.unchecked):
        raise typer.Exit(1)


@compare_app.declare("why", debias=Hint(metavar="N"))
def _why(call: Call, *, as_json: Json = False) -> None:
    """Explain why models fail: they see no match, or a prior of the picture or the caption outweighs it.

    Example: `tellapart why runs/a`
    """
    explained = call.watched()
    print_json(explained.record.model_dump(mode="json")) if as_json else explained.show()


@compare_app.declare("gap", runs=Hint("Run folders, of one model or of several."))
def _gap(call: Call, *, as_json: Json = False) -> None:
    """Show the models' losses out of domain: every task that a run measured on both sides, and the correlation.

    Example: `tellapart gap runs/a runs/b`
    """
    from tellapart.report.printing import print_gaps

    losses = call()
    print_json(losses.model_dump(mode="json")) if as_json else print_gaps(losses)
