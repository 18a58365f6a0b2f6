"""The ablation's answer in words, and the advice that follows from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from examples.eqsim_ablation.checks import Checked
from examples.eqsim_ablation.plan import Plan
from examples.eqsim_ablation.results import PAPER, SMALL, Compared, Runs, write_difference
from examples.findings.frame import join_words

__all__ = ["advice", "answer", "checks_answer", "eqsim_answer", "largest_gains", "other_rates"]

#: The place of the learning rate in a configuration.
_RATE = "optimiser.learning_rate"

#: Rows of EqSim in other forms, or of one of its parts.
_FORMS = ("eqsim-released", "eqsim-cosines", "v1-all", "v2-all", "v2-close")


def other_rates(plan: Plan, runs: Runs) -> dict[str, float]:
    """Return the rows that were tuned to another learning rate than the first, each with its rate."""
    tuned = {row.name: runs[row.name][0]["value"] for row in plan.methods if _RATE in row.tune and runs[row.name]}
    first = tuned.get(plan.methods[0].name)
    return {name: rate for name, rate in tuned.items() if rate != first}


def eqsim_answer(plan: Plan, compared: Sequence[Compared]) -> str:
    """Write how the paper's loss does against the first row, there and here, and how its other forms do."""
    known = {each.method.name: each for each in compared}
    if (eqsim := known.get("eqsim")) is None:
        return ""
    paper = fmean(PAPER["eqsim"].values()) - fmean(PAPER["ft"].values())
    forms = [known[name] for name in _FORMS if name in known]
    text = (
        f"EqSim has {write_difference(eqsim.overall)} points of group score against {plan.methods[0].title}, plain "
        f"contrast, where the paper has {paper:+.1f} in the mean of its three aspects. "
    )
    if not forms:
        return text
    far = join_words([each.named() for each in forms if not each.is_small])
    near = sum(each.is_small for each in forms)
    but = f", and not {far}" if far else ""
    return f"{text}Of its {len(forms)} other forms and parts {near} stay within half a point of contrast{but}. "


def largest_gains(compared: Sequence[Compared], checked: Sequence[Checked], rates: Mapping[str, float]) -> str:
    """Write what the best loss at the first row's rate gives, and what each check's change gives the first row."""
    if not (alike := _at_one_rate(compared, rates)):
        return ""
    best, gains = (
        alike[0],
        [f"{write_difference(gain.overall)} with {each.check.title}" for each in checked if (gain := each.gain)],
    )
    own = f" {best.base.title} itself gains {join_words(gains)}." if gains else ""
    return f"The best of all losses at the same learning rate is {best.named()}.{own}"


def answer(plan: Plan, compared: Sequence[Compared], rates: Mapping[str, float] | None = None) -> str:
    """Write which rows are right on more pairs than the first, which on fewer, and of which no difference is shown.

    Args:
        plan: of the ablation.
        compared: the rows against the first.
        rates: rows that were tuned to another learning rate, which are named apart.
    """
    if not compared:
        return "No row shares enough seeds with the first, so nothing is compared."
    ranked = sorted(compared, key=lambda each: -abs(float(each.overall.value)))
    apart = [each for each in ranked if each.method.name in (rates or {})]
    alike, parts = [each for each in ranked if each not in apart], []
    for sign, way in ((1, "more"), (-1, "fewer")):
        if mine := [each.write() for each in alike if each.sign == sign and not each.is_small]:
            parts.append(f"{len(mine)} {'is' if len(mine) == 1 else 'are'} right on {way} pairs, {join_words(mine)}")
    if same := [f"{each.method.title}{' (shown)' if each.sign else ''}" for each in alike if each.is_small]:
        verb = "differs" if len(same) == 1 else "differ"
        parts.append(f"{len(same)} {verb} by less than {SMALL} points, {join_words(same)}")
    # An interval on both sides of 0 has no distance.
    if unknown := [each.named() for each in alike if not each.sign and not each.is_small]:
        parts.append(f"of {len(unknown)} no difference is shown after Holm's correction, {join_words(unknown)}")
    if apart:
        named = [f"{each.named()} at {(rates or {})[each.method.name]:g}" for each in apart]
        verb = "was" if len(named) == 1 else "were"
        parts.append(f"{len(named)} {verb} tuned to another learning rate, {join_words(named)}")
    rows = "1 row" if len(compared) == 1 else f"{len(compared)} rows"
    return (
        f"Of {rows} against {plan.methods[0].title}, in points of group score after {plan.steps} steps with 95 % "
        f"intervals: {'; '.join(parts)}."
    )


def checks_answer(checked: Sequence[Checked]) -> str:
    """Write how much each check's change gives its first row, and how the other rows compare with that."""
    parts = []
    for each in checked:
        if each.gain is None:
            continue
        others = join_words([other.named() for other in each.others])
        against = f", and against that the others have {others} ({each.shown})" if others else ""
        gain = write_difference(each.gain.overall)
        parts.append(f"With {each.check.title} {each.gain.base.title} gains {gain}{against}.")
    return " ".join(parts)


def advice(plan: Plan, compared: Sequence[Compared], checked: Sequence[Checked], rates: Mapping[str, float]) -> str:
    """Write what a practitioner should do, in three sentences, once every number that they need is there."""
    known = {each.method.name: each for each in compared}
    gains = {each.check.name: (each.check.title, each.gain) for each in checked if each.gain}
    if not {"faster", "longer"} <= {*gains} or len(known) < len(plan.methods) - 1:
        return ""
    (faster, faster_gain), (longer, longer_gain) = gains["faster"], gains["longer"]
    base, parted, alike = plan.methods[0].title, known["ft-apart"], _at_one_rate(compared, rates)
    best = alike[0]
    small = sum(each.is_small for each in alike)
    aspects = join_words([f"{name} {write_difference(one)}" for name, one in parted.aspects.items()])
    return f"""## Advice

1. Put both sides of a pair into one batch: where they seldom meet, plain contrast has
{write_difference(parted.overall)} points ({aspects}).

2. Tune the learning rate over several seeds, and train longer, before you change the loss: {faster} gave {base}
{write_difference(faster_gain.overall)} points at no cost and {longer} in place of {plan.steps}
{write_difference(longer_gain.overall)}, while the best loss at {base}'s rate, {best.method.title}, gave
{write_difference(best.overall)}.

3. Do not expect much of the {small} losses that stayed within half a point of contrast here, and compare any other with
contrast at the rate that is best for contrast: from another start, or with weights that are tuned over several seeds,
the order may be another."""


def _at_one_rate(compared: Sequence[Compared], rates: Mapping[str, float]) -> list[Compared]:
    """Return the rows that were run at the first row's rate, the best one first."""
    alike = [each for each in compared if each.method.name not in rates]
    return sorted(alike, key=lambda each: -float(each.overall.value))
