"""The page of what the ablation found: the answer, its picture, the tables, and how far they reach."""

from __future__ import annotations

from functools import partial

from examples.eqsim_ablation.answer import (
    advice,
    answer,
    checks_answer,
    eqsim_answer,
    largest_gains,
    name_rates,
    other_rates,
    small_terms,
)
from examples.eqsim_ablation.checks import check_rows, checks_text, pairs_at_one_rate
from examples.eqsim_ablation.design_page import DESIGN, design_page
from examples.eqsim_ablation.earlier import differences_there
from examples.eqsim_ablation.plan import Plan
from examples.eqsim_ablation.results import (
    Runs,
    against_first,
    aspects_table,
    compare_rows,
    contrasts_table,
    differences_table,
    draw_differences,
    runs_of,
    scores_table,
)
from examples.findings.frame import FOLDER, write_pages_text
from tellapart.report.plots.style import write_picture

#: The page that is made of the record, and its picture.
PAGE = FOLDER / "eqsim-ablation.md"
PICTURE = PAGE.with_suffix(".svg")

_SETTING = """## Differences from the paper

- **Model**: FIBER, pre-trained on about 4 million pictures, at 288 x 288 pixels. Here: 2.1 million weights,
  half-trained on rendered scenes, at 112 x 112.
- **Data**: Table 6 fine-tunes on captions of photographs (Flickr30K), in which hardly a pair is minimal, and measures
  on rendered scenes that no training showed, and on Winoground. Here training and test draw from one grammar, and in
  most rows both sides of a quadruple meet in a batch.
- **Loss and score**: by its released code the paper trains FT by contrast and a matching head together, HardNeg
  samples negatives for that head, and the head gives the scores; EqSim acts on the contrastive similarities, with drawn
  negatives where the paper takes the closest. Here there is no such head: FT is contrast alone, HardNeg one more
  contrast, scores are cosines, and both forms of EqSim are rows. The paper's final EqSim has v1 on all pairs and v2 on
  close ones; its equation, and here EqSim and EqSim (cosines), have v1 on distant pairs.
- **Evidence**: one number a cell, without a spread over seeds. Here: intervals over seeds and items, from one start.

So this page asks of training on minimal pairs whether EqSim beats contrast and hard negatives, whether v2 is for close
pairs, and which part does the work. It says nothing of a large pre-trained model's gain from ordinary captions, of
METER, or of the paper's sets, Eq-Kubric and Winoground."""


def page(plan: Plan) -> str:
    """Return the page in markdown, of the pieces that the record has."""
    runs = runs_of(plan, plan.methods)
    rates = other_rates(plan, runs)
    plan = name_rates(plan, rates)
    compared, checked = against_first(plan, runs), check_rows(plan, runs)
    first = f"{eqsim_answer(plan, compared)}{largest_gains(compared, checked, rates)}"
    blocks = [_INTRODUCTION, f"**{_answer_title(plan, runs)}** {first}"]
    blocks += [answer(plan, compared, rates), small_terms(plan, compared, runs) + checks_answer(checked)]
    if compared:
        alt = f"Differences from {plan.methods[0].title}, of the rows and of the checks' changes, with 95 % intervals"
        blocks.append(f"![{alt}]({PICTURE.name})")
    if any(runs.values()):
        known = {row.name for row in plan.methods}
        pairs = [(plan.row(one), plan.row(other)) for one, other in plan.contrasts if {one, other} <= known]
        gains = [each.gain for each in checked if each.gain is not None]
        rows = [*plan.methods, *(row for each in checked for row in each.rows)]
        every = {name: done for each in checked for name, done in each.runs.items()} | dict(runs)
        blocks += [scores_table(plan, every, rows), differences_table(plan, compared)]
        again = pairs_at_one_rate(plan, checked, pairs)
        blocks += [aspects_table(plan, runs, compared, gains), contrasts_table(compare_rows(plan, runs, pairs), again)]
        blocks += [checks_text(checked)]
    blocks += [_SETTING, differences_there(plan), advice(plan, compared, checked, rates)]
    blocks += [f"**Next:** [Its design and its power](../{DESIGN.name})"]
    return write_pages_text(filter(None, blocks))


def write_ablation(plan: Plan) -> None:
    """Write the page, its picture, and the page of the design."""
    PAGE.write_text(page(plan), encoding="utf-8")
    DESIGN.write_text(design_page(plan), encoding="utf-8")
    runs = runs_of(plan, plan.methods)
    plan = name_rates(plan, other_rates(plan, runs))
    if compared := against_first(plan, runs):
        gains = [each.gain for each in check_rows(plan, runs) if each.gain is not None]
        write_picture(PICTURE, partial(draw_differences, plan, [*compared, *gains]))


_INTRODUCTION = """# Which losses make a dual encoder separate minimal pairs?

<!-- Made by `python -m examples.eqsim_ablation.run --page` from the record's pieces; edit neither. -->

**Question.** Which losses make a dual encoder separate minimal pairs, and which part of EqSim does the work? The paper
asks it of FIBER on Eq-Kubric and Winoground (Table 6), with one number a cell. Here it is asked of the bundled encoder,
half-trained, on rendered scenes, with intervals over seeds and items.

An item is two pictures of one scene and their two captions, which differ in one thing: an attribute, a count or a
location. Its group score is 1 if both captions and both pictures are matched, of which chance is one in six. `seen` has
the kinds of scenes that are trained on, `held-out` combinations of things that are not, and `unseen-setting` other
lights, floors and lenses. EqSim adds two terms to contrast, v1 for distant pairs and v2 for close ones. [The
design](../ablation_design.md#design) describes every row, and has [why items
fail](../ablation_design.md#why-items-fail)."""


def _answer_title(plan: Plan, runs: Runs) -> str:
    """Return `Answer.`, or how far it is."""
    done, of = sum(map(len, runs.values())), len(plan.methods) * plan.seeds
    return "Answer." if done == of else f"Answer so far, of {done} of {of} runs."
