"""The checks: does the answer depend on what all rows share?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from examples.eqsim_ablation.plan import Check, Method, Plan
from examples.eqsim_ablation.results import Compared, Runs, compare_rows, runs_of


@dataclass(frozen=True, slots=True)
class Checked:
    """A check's results.

    Attributes:
        check: the check.
        runs: of its rows as it has them, and of all others.
        rows: as it has them.
        gain: of its first row over the same row without the change; None with too few seeds.
        others: its other rows, and those beside it, against its first.
    """

    check: Check
    runs: Runs
    rows: Sequence[Method]
    gain: Compared | None
    others: Sequence[Compared]


def check_rows(plan: Plan, runs: Runs) -> list[Checked]:
    """Compare the rows of each check, as far as they were run."""
    checked = []
    for check in plan.checks:
        pairs = plan.checked_rows(check)
        if not pairs:
            continue
        (plain, first), *others = pairs
        found = {**runs, **runs_of(plan, [row for _, row in pairs])}
        beside = [row for row in plan.methods if row.name in check.beside]
        gain = compare_rows(plan, found, [(first, plain)])
        compared = compare_rows(plan, found, [(row, first) for row in (*(row for _, row in others), *beside)])
        checked.append(Checked(check, found, [row for _, row in pairs], gain[0] if gain else None, compared))
    return checked


def checks_text(checked: Sequence[Checked]) -> str:
    """Write each check's differences, if there are any."""
    texts = []
    for each in checked:
        if any(each.runs[row.name] for row in each.rows):
            parts = "; ".join(map(_write, each.others)) or "nothing to compare yet"
            texts.append(
                f"**{each.check.question}** {each.check.about}{_own(each)} Against {each.rows[0].title}: {parts}."
            )
    reading = "The p of a check's gain is as it is; its other comparisons have Holm's correction within the check."
    return "\n\n".join(["## Checks", *texts, reading]) if texts else ""


def pairs_at_one_rate(plan: Plan, checked: Sequence[Checked], pairs: Sequence[tuple[Method, Method]]) -> str:
    """Write pairs of rows again, each where a check has run the first as the second is run."""
    again = [
        f"{one.named()} against {one.base.title}, over {one.seeds} seeds, p {one.p_value()}"
        for each in checked
        for row, other in pairs
        if row.name in each.check.rows and other.name in each.check.beside
        for one in compare_rows(plan, each.runs, [(each.check.change(row), other)])
    ]
    return f" At the same rate, which was not planned: {'; '.join(again)}." if again else ""


def _own(checked: Checked) -> str:
    """Write what the change gives the check's first row, on the test sets and on the tuning set."""
    if checked.gain is None:
        return ""
    plain, changed = checked.gain.base, checked.gain.method
    bests = {row.name: {run["seed"]: run["best"] for run in checked.runs[row.name]} for row in (plain, changed)}
    shared = sorted({*bests[plain.name]} & {*bests[changed.name]})
    before, after = (f"{fmean(bests[row.name][seed] for seed in shared):.3f}" for row in (plain, changed))
    return (
        f" Against {plain.title}: {_write(checked.gain)}; on the tuning set, over these {len(shared)} seeds, {after} "
        f"against {before}."
    )


def _write(each: Compared) -> str:
    return f"{each.named()}, p {each.p_value()}"
