"""Two doors to one model, compared: as a table on the terminal."""

from __future__ import annotations

from tellapart.errors import plain
from tellapart.evaluation.parity import Parity, ParityOutcome
from tellapart.report.terminal import console, print_lines, table


def print_parity(parity: Parity) -> None:
    """Print each step with its differences and their likely cause, then the outcomes, then the answer."""
    title = f"A: {plain(parity.a)}, B: {plain(parity.b)}, on {plain(parity.benchmark)}"
    rows = table("step", "likely cause", "compared", "differ", "largest difference", numbers_from=2, title=title)
    for step in parity.steps:
        largest = "" if step.largest is None else f"{step.largest:.2g}"
        counts = ("", "", "") if step.unseen else (f"{step.compared:,}", f"{step.differ:,}", largest)
        rows.add_row(step.step, plain(step.unseen or step.cause), *counts)
    console().print(rows)
    print_lines("")
    for text, of_a, of_b in parity.steps[0].examples:
        print_lines(plain(text), f"  A: {list(of_a)}", f"  B: {list(of_b)}")
    print_lines(*map(_write_outcome, parity.outcomes))
    first = parity.first
    if first is None:
        print_lines("no step differs by more than rounding")
    else:
        print_lines(f"A and B part at the {first.step}{f': {plain(first.cause)}' if first.cause else ''}")


def _write_outcome(one: ParityOutcome) -> str:
    ends = () if one.low is None or one.high is None else (100 * one.low, 100 * one.high)
    between = f"[{ends[0]:.2f}, {ends[1]:.2f}]" if ends else "(no interval)"
    return (
        f"{one.metric}: {one.flipped:,} of {one.items:,} outcomes differ; {100 * one.a:.2f} and {100 * one.b:.2f} "
        f"percent, B - A {100 * (one.b - one.a):.2f} {between}"
    )
