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


def eqsim_answer(plan: Plan, compared: Sequence[Compared]) -> str:
    """Write how the paper's loss does against the first row, there and here, and how its other forms and parts do."""
    known = {each.method.name: each for each in compared}
    if (eqsim := known.get("eqsim")) is None:
        return ""
    paper = fmean(PAPER["eqsim"].values()) - fmean(PAPER["ft"].values())
    forms = [known[name] for name in _FORMS if name in known]
    beats = {1: "beats", 0: "does not beat", -1: "is worse than"}[eqsim.sign]
    text = (
        f"On a small encoder and rendered scenes, EqSim {beats} plain fine-tuning ({plan.methods[0].title}): "
        f"{write_difference(eqsim.overall)} points of group score. The EqSim paper, with FIBER, reports "
        f"{paper:+.1f} (mean of three aspects). "
    )
    if not forms:
        return text
    near = sum(each.is_small for each in forms)
    text += f"For {near} of {len(forms)} other forms and parts of EqSim, the whole interval is within half a point of "
    text += f"{plan.methods[0].title}. "
    far = (each for each in forms if not each.is_small)
    text += "".join(f"{each.method.title} differs by {write_difference(each.overall)} points. " for each in far)
    if not any(each.sign > 0 for each in (eqsim, *forms)):
        text += "Over all items, no part of EqSim gains significantly. "
    return text


def small_terms(plan: Plan, compared: Sequence[Compared], runs: Runs) -> str:
    """Write which terms of EqSim are nearly 0, and for which of its forms tuning chose the smallest weight."""
    text, forms = "", [each for each in compared if each.method.name in _FORMS]
    if (eqsim := runs.get("eqsim")) and max(run["terms"].get("v1", 1) for run in eqsim) < 1e-6:
        text = (
            "With softmax over the batch, the term v1 stays below 1e-6 in every run. EqSim is then v2 on close pairs "
            f"alone, with a mean loss of {fmean(run['terms']['v2'] for run in eqsim):.2f}. "
        )
    least = [
        row
        for row in (plan.row(each.method.name) for each in forms)
        if (
            bool(runs.get(row.name, ()))
            and row.tune == ("loss.beta",)
            and (runs.get(row.name, ())[0]["value"] == min(row.choices))
        )
    ]
    terms = [[run["terms"] for run in runs[row.name]] for row in least]
    sizes = [100 * fmean((term["v1"] + term["v2"]) / term["itc"] for term in rows) for rows in terms]
    if sizes:
        text += (
            f"For {len(sizes)} other forms, tuning with one seed chose the smallest weight: the regulariser is "
            f"{min(sizes):.1f} to {max(sizes):.1f} % of the contrastive loss. "
        )
    return text


def largest_gains(compared: Sequence[Compared], checked: Sequence[Checked], rates: Mapping[str, float]) -> str:
    """Write what the best loss at the first row's rate gives, and what each check's change gives the first row."""
    if not (alike := _at_one_rate(compared, rates)):
        return ""
    best = alike[0]
    gains = [f"{write_difference(gain.overall)} with {each.check.title}" for each in checked if (gain := each.gain)]
    own = f" Over fewer seeds, {best.base.title} gains on its own default {join_words(gains)}." if gains else ""
    return f"At the same learning rate, the best loss is {best.named()} points against {best.base.title}.{own}"


def answer(plan: Plan, compared: Sequence[Compared], rates: Mapping[str, float] | None = None) -> str:
    """List which rows are right on more pairs than the first, which on fewer, and of which no difference is shown."""
    if not compared:
        return "No row shares enough seeds with the first, so nothing is compared."
    ranked = sorted(compared, key=lambda each: -abs(float(each.overall.value)))
    apart = [each for each in ranked if each.method.name in (rates or {})]
    alike, parts = [each for each in ranked if each not in apart], []
    for sign, way in ((1, "more"), (-1, "fewer")):
        if mine := [each.named() for each in alike if each.sign == sign and not each.is_small]:
            parts.append(f"{len(mine)} right on {way} pairs: {join_words(mine)}")
    if same := [f"{each.method.title}{' (p < 0.05)' if each.sign else ''}" for each in alike if each.is_small]:
        parts.append(f"{len(same)} whose whole interval is within {SMALL} points: {join_words(same)}")
    # An interval on both sides of 0 has no distance.
    if unknown := [each.named() for each in alike if not each.sign and not each.is_small]:
        parts.append(f"{len(unknown)} with no difference shown after Holm's correction: {join_words(unknown)}")
    if apart:
        named = join_words([each.named() for each in apart])
        parts.append(f"{len(apart)} at another learning rate, to which tuning led: {named}")
    rows = "1 row" if len(compared) == 1 else f"{len(compared)} rows"
    head = (
        f"Of {rows} against {plan.methods[0].title}, in points of group score after {plan.steps} steps with 95 % "
        "intervals:"
    )
    return "\n".join([head, "", *(f"- {part}." for part in parts)])


def checks_answer(checked: Sequence[Checked]) -> str:
    """Write which rows are right on more pairs than each check's first row."""
    parts = []
    for each in checked:
        if each.gain and each.others:
            more = [other.named() for other in each.others if other.sign > 0]
            widest = max(100 * float(other.overall.half()) for other in each.others)
            found = join_words(more) or f"no row of {len(each.others)}"
            parts.append(f"over {each.gain.method.title}, {found}, with intervals of up to ±{widest:.1f} points")
    return f"Shown to gain in the [checks](#checks): {'; '.join(parts)}." if parts else ""


def advice(plan: Plan, compared: Sequence[Compared], checked: Sequence[Checked], rates: Mapping[str, float]) -> str:
    """Write what a practitioner should do, in three sentences, once every number that they need is there."""
    known = {each.method.name: each for each in compared}
    checks = {each.check.name: each for each in checked if each.gain}
    if not {"faster", "longer"} <= {*checks} or len(known) < len(plan.methods) - 1:
        return ""
    faster, longer = checks["faster"], checks["longer"]
    base, parted, alike = plan.methods[0].title, known["ft-apart"], _at_one_rate(compared, rates)
    best = alike[0]
    small = sum(each.is_small for each in alike)
    paid = [f"{_object_change(each.runs, each.gain)} with {each.check.title}" for each in (faster, longer)]
    paid.append(f"{_object_change(longer.runs, best)} with {best.method.title}")
    apart = {**parted.aspects, plan.tests[-1]: parted.sets[plan.tests[-1]]}
    aspects = join_words([f"{name} {write_difference(one)}" for name, one in apart.items()])
    return render(
        "advice",
        aspects=aspects,
        base=base,
        best=best,
        faster=faster,
        longer=longer,
        paid=paid,
        plan=plan,
        small=small,
        parted_text=write_difference(parted.overall),
        faster_text=write_difference(faster.gain.overall),
        longer_text=write_difference(longer.gain.overall),
        best_text=write_difference(best.overall),
    )


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
