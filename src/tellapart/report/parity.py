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


def _write_outcome(outcome: ParityOutcome) -> str:
    bounds = () if outcome.low is None or outcome.high is None else (100 * outcome.low, 100 * outcome.high)
    between = f"[{bounds[0]:.2f}, {bounds[1]:.2f}]" if bounds else "(no interval)"
    return (
        f"{outcome.metric}: {outcome.flipped:,} of {outcome.items:,} outcomes differ; {100 * outcome.a:.2f} and "
        f"{100 * outcome.b:.2f} percent, B - A {100 * (outcome.b - outcome.a):.2f} {between}"
    )
