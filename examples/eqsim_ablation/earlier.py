"""The ablations that came before this one, and what five rows did in one of them."""

from __future__ import annotations

from dataclasses import replace

from examples.eqsim_ablation.plan import HERE, Method, Plan
from examples.eqsim_ablation.results import Compared, Runs, against_first, runs_of, write_difference
from examples.findings.frame import join_words, make_table

#: Rows of the runs from another start: name -> title.
_FROM_ANOTHER = {
    "ft": "FT",
    "hardneg": "HardNeg",
    "v1-all": "EqSim v1-all (softmax)",
    "v2-all": "EqSim v2-all (softmax)",
    "eqsim": "EqSim (softmax)",
}

_TEXT = """## Earlier ablations

One of 11 rows and 5 seeds came first: its intervals were as wide as the paper's gains, and its start at chance
for two of three aspects. It did show this: through a softmax over a batch, v1 of distant pairs stays below 1e-6, so
EqSim and its v2-close were one row. It is the pilot of this one, and in git's history (`git log --
examples/eqsim_ablation/record.json`). That history also has 30 runs of this ablation from another start (`git log --
examples/eqsim_ablation/record/run-ft-0.json`), which was right on 32 percent of the pairs in place of 40 to 60, and
whose weights were lost."""


def earlier_ablations(plan: Plan) -> str:
    """Write what came before this ablation, and why it was begun anew."""
    runs, compared = _runs_there(plan)
    if not compared:  # a plan of other test sets
        return _TEXT
    table = make_table(
        ["", "seeds", *compared[0].aspects, "all"],
        f"l|r{'|r' * len(compared[0].aspects)}|r",
        [
            [one.method.title, f"{one.seeds}", *map(write_difference, (*one.aspects.values(), one.overall))]
            for one in compared
        ],
    )
    return f"""{_TEXT}

### From another start

The start of these {sum(map(len, runs.values()))} runs was trained with NegCLIP's loss and NegBench's
choice, so that rows with false captions would have gone on with its objective, and FT would have changed it; half of
the training captions named places, and some of those are true of both sides. The ablation was therefore begun anew,
before any row with false captions was run. These runs have {runs["ft"][0]["steps"]} steps, and HardNeg a weight of
{runs["hardneg"][0]["value"]:g}. EqSim is here the paper's form with a margin of 0.1.

{table}"""


def differences_there(plan: Plan) -> str:
    """Write how far the answer hangs on the start: the differences from another one that are not small."""
    runs, compared = _runs_there(plan)
    far = [f"{each.method.title} had {write_difference(each.overall)}" for each in compared if not each.is_small]
    if not far:
        return ""
    return (
        "**The answer may hang on the start, or on the training captions.** In earlier runs, from a start that other "
        f"losses had trained, in {runs['ft'][0]['steps']} steps in place of {plan.steps}, on captions of which some "
        f"are true of both sides, and with another weight for HardNeg, {join_words(far)} against "
        f"{compared[0].base.title}. Which of these makes the difference is unknown "
        "([these runs](../ablation_design.md#from-another-start))."
    )


def _runs_there(plan: Plan) -> tuple[Runs, list[Compared]]:
    """Return the runs of five rows from a start that was trained with other losses, and their differences."""
    rows = tuple(Method(name, title, "", {}) for name, title in _FROM_ANOTHER.items())
    other = replace(plan, record=HERE / "negclip_start", methods=rows)
    runs = runs_of(other, rows)
    return runs, against_first(other, runs)
