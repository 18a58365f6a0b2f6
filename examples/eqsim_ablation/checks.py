"""The checks: does the answer depend on what all rows share? And the advice that follows from rows and checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from examples.eqsim_ablation.plan import Check, Plan
from examples.eqsim_ablation.results import Compared, Runs, compare_rows, runs_of, score_cells, write_difference
from examples.findings.frame import join_words, make_table

__all__ = ["advice", "checks_answer", "checks_table"]

#: The place of the learning rate in a configuration.
_RATE = "optimiser.learning_rate"


def checks_answer(plan: Plan, runs: Runs) -> str:
    """Write how much each check's change gives its first row, and how the rows beside it compare with that."""
    parts = []
    for check, gain, others in _compared(plan, runs):
        if gain is None:
            continue
        beside = [each for each in others if each.method.name in check.beside]
        tuned = join_words([f"{each.method.title} {write_difference(each.overall)}" for each in beside])
        against = f", against which the rows that were tuned to it have {tuned}" if beside else ""
        parts.append(f"with {check.title} {gain.base.title} gains {write_difference(gain.overall)}{against}")
    return f"Of what all rows share: {'; '.join(parts)}." if parts else ""


def checks_table(plan: Plan, runs: Runs) -> str:
    """Write the results of the checks' rows, if there are any, and each check's differences."""
    lines, texts = [], []
    for check, gain, others in _compared(plan, runs):
        rows = [checked for _, checked in plan.checked_rows(check)]
        found = runs_of(plan, rows)
        mine = [[row.title, f"{len(done)}", *score_cells(plan, done)] for row in rows if (done := found[row.name])]
        if mine:
            own = "" if gain is None else f"Against {gain.base.title}: {_write(gain)}. "
            parts = "; ".join(map(_write, others)) or "nothing to compare yet"
            texts.append(f"**{check.question}** {own}Against {rows[0].title}: {parts}.")
            lines += mine
    if not lines:
        return ""
    table = make_table(["", "seeds", *plan.tests], f"l|r{'|r' * len(plan.tests)}", lines)
    return "\n\n".join(["## Checks", table, *texts, "p by Holm's correction within each check's second comparison."])


def advice(plan: Plan, runs: Runs, compared: Sequence[Compared]) -> str:
    """Write what a practitioner should do, in three sentences, once every number that they need is there."""
    known = {each.method.name: each for each in compared}
    gains = {check.name: gain for check, gain, _ in _compared(plan, runs)}
    faster, longer = (gains.get(name) for name in ("faster", "longer"))
    if faster is None or longer is None or len(known) < len(plan.methods) - 1:
        return ""
    base, rate = plan.methods[0].title, runs[plan.methods[0].name][0]["value"]
    own = [row.name for row in plan.methods if _RATE in row.tune and runs[row.name][0]["value"] != rate]
    best = max((each for each in compared if each.method.name not in own), key=lambda each: float(each.overall.value))
    idle = sum(each.is_small for each in compared)
    return f"""## Advice

1. Put both sides of a pair into one batch, as pictures with their captions: plain contrast without that has
{write_difference(known["ft-apart"].overall)} points against {base}.

2. Then tune the learning rate over several seeds and train longer, before you change the loss:
{faster.method.title} and {longer.method.title} have {write_difference(faster.overall)} and
{write_difference(longer.overall)} against {base}, and the best of the losses at its own rate, {best.method.title}, has
{write_difference(best.overall)}.

3. Expect nothing from the {idle} losses that stay within half a point of contrast on such batches, and before you
believe in any other compare it with contrast at contrast's best rate."""


def _compared(plan: Plan, runs: Runs) -> Iterator[tuple[Check, Compared | None, list[Compared]]]:
    """Yield each check, its first row against the same row without the change, and its other rows against its first."""
    for check in plan.checks:
        pairs = plan.checked_rows(check)
        if not pairs:
            continue
        (plain, first), *others = pairs
        found = {**runs, **runs_of(plan, [checked for _, checked in pairs])}
        beside = [row for row in plan.methods if row.name in check.beside]
        gain = compare_rows(plan, found, [(first, plain)])
        rows = [(row, first) for row in (*(checked for _, checked in others), *beside)]
        yield check, gain[0] if gain else None, compare_rows(plan, found, rows)


def _write(each: Compared) -> str:
    return f"{each.method.title} {write_difference(each.overall)}, p {each.p_value()}"
