"""The ablation's answer in words, and the advice that follows from it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from scipy.stats import ttest_1samp

from examples.eqsim_ablation.plan import Method, Plan
from examples.eqsim_ablation.results import PAPER, SMALL, Checked, Compared, Runs, render, write_difference
from examples.findings.frame import join_words, points

#: The place of the learning rate in a configuration.
_RATE = "optimiser.learning_rate"

#: Rows of EqSim in other forms, or of one of its parts.
_FORMS = ("eqsim-released", "eqsim-cosines", "v1-all", "v2-all", "v2-close")


def other_rates(plan: Plan, runs: Runs) -> dict[str, float]:
    """Return the rows that were tuned to another learning rate than the first, each with its rate."""
    tuned = {row.name: runs[row.name][0]["value"] for row in plan.methods if _RATE in row.tune and runs[row.name]}
    first = tuned.get(plan.methods[0].name)
    return {name: rate for name, rate in tuned.items() if rate != first}


def name_rates(plan: Plan, rates: Mapping[str, float]) -> Plan:
    """Return the plan with the rate in the titles of the rows that were tuned to another one than the first."""

    def title(row: Method) -> str:
        rate = f"rate {rates[row.name]:g})"
        return f"{row.title[:-1]}, {rate}" if row.title.endswith(")") else f"{row.title} ({rate}"

    return replace(
        plan, methods=tuple(replace(row, title=title(row)) if row.name in rates else row for row in plan.methods)
    )


def answer(
    plan: Plan, runs: Runs, compared: Sequence[Compared], checked: Sequence[Checked], rates: Mapping[str, float]
) -> str:
    """Write how the paper's loss, its forms and all other rows do against the first, and what the checks' changes give.

    A row at another learning rate than the first's stands apart: the best loss is one of the others.
    """
    known = {each.method.name: each for each in compared}
    forms = [known[name] for name in _FORMS if name in known]
    done, of = sum(map(len, runs.values())), len(plan.methods) * plan.seeds
    alike = _at_one_rate(compared, rates)
    gains = [f"{gain.difference} with {each.check.title}" for each in checked if (gain := each.gain)]
    eqsim = runs.get("eqsim", ())
    is_zero = bool(eqsim) and max(run["terms"].get("v1", 1) for run in eqsim) < 1e-6
    return render(
        "answer",
        title="Answer." if done == of else f"Answer so far, of {done} of {of} runs.",
        plan=plan,
        base=plan.methods[0].title,
        eqsim=known.get("eqsim"),
        forms=forms,
        paper=fmean(PAPER["eqsim"].values()) - fmean(PAPER["ft"].values()),
        best=alike[0] if alike else None,
        gains=gains,
        rows=len(compared),
        parts=_group_rows(compared, rates),
        v2=fmean(run["terms"]["v2"] for run in eqsim) if is_zero else None,
        sizes=_smallest_weights(plan, forms, runs),
        shown=[_describe_check(each.gain, each.others) for each in checked if each.gain and each.others],
    )


def _group_rows(compared: Sequence[Compared], rates: Mapping[str, float]) -> list[str]:
    """List which rows are right on more pairs than the first, which on fewer, and of which no difference is shown."""
    ranked, parts = sorted(compared, key=lambda each: -abs(float(each.overall.value))), []
    apart = [each for each in ranked if each.method.name in rates]
    alike = [each for each in ranked if each not in apart]
    for sign, way in ((1, "more"), (-1, "fewer")):
        if mine := [each.named for each in alike if each.sign == sign and not each.is_small]:
            parts.append(f"{len(mine)} right on {way} pairs: {join_words(mine)}")
    if same := [f"{each.method.title}{' (p < 0.05)' if each.sign else ''}" for each in alike if each.is_small]:
        parts.append(f"{len(same)} whose whole interval is within {SMALL} points: {join_words(same)}")
    # An interval on both sides of 0 has no distance.
    if unknown := [each.named for each in alike if not each.sign and not each.is_small]:
        parts.append(f"{len(unknown)} with no difference shown after Holm's correction: {join_words(unknown)}")
    if apart:
        named = join_words([each.named for each in apart])
        parts.append(f"{len(apart)} at another learning rate, to which tuning led: {named}")
    return parts


def _smallest_weights(plan: Plan, forms: Sequence[Compared], runs: Runs) -> list[float]:
    """Return the regulariser in percent of contrast, of the forms for which tuning chose the smallest weight."""
    rows = [row for row in (plan.row(each.method.name) for each in forms) if row.tune == ("loss.beta",)]
    least = [runs[row.name] for row in rows if runs[row.name] and runs[row.name][0]["value"] == min(row.choices)]
    terms = [[run["terms"] for run in mine] for mine in least]
    return [100 * fmean((term["v1"] + term["v2"]) / term["itc"] for term in mine) for mine in terms]


def _describe_check(gain: Compared, others: Sequence[Compared]) -> str:
    found = join_words([other.named for other in others if other.sign > 0]) or f"no row of {len(others)}"
    widest = max(100 * float(other.overall.half()) for other in others)
    return f"{found} gains over {gain.method.title} (half-widths of intervals up to {widest:.1f} points)"


def advice(plan: Plan, compared: Sequence[Compared], checked: Sequence[Checked], rates: Mapping[str, float]) -> str:
    """Write what a practitioner should do, in three sentences, once every number that they need is there."""
    known = {each.method.name: each for each in compared}
    checks = {each.check.name: each for each in checked if each.gain}
    if not {"faster", "longer"} <= {*checks} or len(known) < len(plan.methods) - 1:
        return ""
    faster, longer = checks["faster"], checks["longer"]
    base, parted, alike = plan.methods[0].title, known["ft-apart"], _at_one_rate(compared, rates)
    best = alike[0]
    paid = [f"{_object_change(each.runs, each.gain)} with {each.check.title}" for each in (faster, longer)]
    paid.append(f"{_object_change(longer.runs, best)} with {best.method.title}")
    apart = {**parted.aspects, plan.tests[-1]: parted.sets[plan.tests[-1]]}
    aspects = join_words([f"{name} {write_difference(one)}" for name, one in apart.items()])
    return render(
        "advice", plan=plan, base=base, best=best, faster=faster, longer=longer, parted=parted, aspects=aspects,
        paid=paid, small=sum(each.is_small for each in alike),
    )  # fmt: skip


def _object_change(runs: Runs, pair: Compared) -> str:
    """Return how a row's accuracy on `demo-objects` differs, in points; the interval is over seeds."""
    ours, theirs = (
        {run["seed"]: run["kept"]["demo-objects"] for run in runs[row.name]} for row in (pair.method, pair.base)
    )
    moved = [ours[seed] - theirs[seed] for seed in sorted({*ours} & {*theirs})]
    low, high = ttest_1samp(moved, 0).confidence_interval(0.95)
    return f"{points(fmean(moved))} [{points(low)}, {points(high)}]"


def _at_one_rate(compared: Sequence[Compared], rates: Mapping[str, float]) -> list[Compared]:
    """Return the rows that were run at the first row's rate, the best one first."""
    alike = [each for each in compared if each.method.name not in rates]
    return sorted(alike, key=lambda each: -float(each.overall.value))
