"""The page of the ablation: the answer, what could be seen before any run, what is complete, and what was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from examples.eqsim_ablation.pieces import right_items
from examples.eqsim_ablation.plan import HERE, Method, Plan
from examples.eqsim_ablation.power import CAUTION, GOAL, GPU_STEP, POWER
from examples.eqsim_ablation.results import (
    Compared,
    Runs,
    answer,
    aspects_table,
    compare_rows,
    contrasts_table,
    differences_table,
    draw_differences,
    kept_table,
    longer_table,
    runs_of,
    scores_table,
    terms_table,
    write_difference,
)
from examples.findings.frame import join_words, make_table, write_pages_text
from tellapart.report.plots.style import write_picture

__all__ = ["PAGE", "PICTURE", "page", "write_ablation"]

#: The page that is made of the record, and its picture.
PAGE = Path(__file__).resolve().parents[2] / "docs" / "eqsim_ablation.md"
PICTURE = PAGE.with_suffix(".svg")

_SETTING = """## Differences from the paper

- **Model**: FIBER, pre-trained on about 4 million pictures, at 288 x 288 pixels. Here: 2.1 million weights,
  half-trained on rendered scenes, at 112 x 112.
- **Data**: Table 6 fine-tunes on captions of photographs (Flickr30K), in which hardly a pair is minimal, and measures
  on rendered scenes that no training showed. Here training and test draw from one grammar, and both sides of a
  quadruple meet in a batch.
- **Loss**: the paper's HardNeg samples negatives for FIBER's matching head, and its released code draws EqSim's
  negatives, where the paper takes the closest. Here there is no such head; HardNeg is one more contrast, and both forms
  of EqSim are rows. The paper's final EqSim has v1 on all pairs and v2 on close ones; its equation, and these rows,
  have v1 on distant pairs.
- **Evidence**: one number a cell, without a spread over seeds. Here: intervals over seeds and items, from one start and
  one set of training pictures.

So this page tests the order of Table 6 for training on minimal pairs: does EqSim beat contrast and hard negatives, is
v2 for close pairs, and which part does the work? It tests no gain of a large pre-trained model from ordinary captions,
nor METER, retrieval, or sets other than Eq-Kubric."""


def page(plan: Plan) -> str:
    """Return the page in markdown, of the pieces that the record has."""
    runs = runs_of(plan, plan.methods)
    compared = _against_first(plan, runs)
    blocks = [_INTRODUCTION, f"**{_answer_title(plan, runs)}** {answer(plan, compared)}"]
    if compared:
        blocks.append(f"![Differences from {plan.methods[0].title}, row by row, with 95 % intervals]({PICTURE.name})")
    blocks += [_power(plan), _rows(plan), _complete(plan, runs), *_machines(plan)]
    if any(runs.values()):
        known = {row.name for row in plan.methods}
        pairs = [(plan.row(one), plan.row(other)) for one, other in plan.contrasts if {one, other} <= known]
        blocks += [scores_table(plan, runs), differences_table(plan, compared), aspects_table(plan, runs, compared)]
        blocks += [contrasts_table(compare_rows(plan, runs, pairs)), longer_table(plan)]
        blocks += [kept_table(plan, runs), terms_table(plan, runs)]
    blocks += [_SETTING, _another_start(plan), _EARLIER, "**Next:** [All findings](findings.md)"]
    return write_pages_text(filter(None, blocks))


def write_ablation(plan: Plan) -> None:
    """Write the page and its picture."""
    PAGE.write_text(page(plan), encoding="utf-8")
    if compared := _against_first(plan, runs_of(plan, plan.methods)):
        write_picture(PICTURE, partial(draw_differences, plan, compared))


def _against_first(plan: Plan, runs: Runs) -> list[Compared]:
    first, *others = plan.methods
    return compare_rows(plan, runs, [(row, first) for row in others])


def _another_start(plan: Plan) -> str:
    """Write what five rows did from a start that was trained with other losses, before this ablation."""
    rows = tuple(Method(name, title, "", {}) for name, title in _FROM_ANOTHER.items())
    other = replace(plan, record=HERE / "negclip_start", methods=rows)
    runs = runs_of(other, rows)
    compared = _against_first(other, runs)
    if not compared:  # a plan of other test sets
        return ""
    table = make_table(
        ["", "seeds", *compared[0].aspects, "all"],
        f"l|r{'|r' * len(compared[0].aspects)}|r",
        [
            [
                one.method.title,
                f"{one.seeds}",
                *map(write_difference, one.aspects.values()),
                write_difference(one.overall),
            ]
            for one in compared
        ],
    )
    return f"""## From another start

The start of these {sum(map(len, runs.values()))} runs was trained with NegCLIP's loss and NegBench's
choice, so that rows with false captions would have gone on with its objective, and FT would have changed it; half of
the training captions named places, and some of those are true of both sides. The ablation was therefore begun anew,
before any row with false captions was run. EqSim is here the paper's form with a margin of 0.1.

{table}"""


#: Rows of the runs from another start: name -> title.
_FROM_ANOTHER = {
    "ft": "FT",
    "hardneg": "HardNeg",
    "v1-all": "EqSim v1-all, softmax",
    "v2-all": "EqSim v2-all, softmax",
    "eqsim": "EqSim, softmax",
}

_INTRODUCTION = """# EqSim's ablation, with power

<!-- Made by `python -m examples.eqsim_ablation.run --page` from the record's pieces; edit neither. -->

**Question.** Which losses make a dual encoder separate minimal pairs, and which part of EqSim's? The paper asks this of
FIBER on Eq-Kubric (Table 6), with one number a cell. Here the same question is put to the bundled encoder,
half-trained, on rendered scenes, with intervals over seeds and items."""

_EARLIER = """## Earlier ablations

One of 11 rows and 5 seeds stood on this page: its intervals were as wide as the paper's gains, and its start at chance
for two of three aspects. It did show this: through a softmax over a batch, v1 of distant pairs stays below 1e-6, so
EqSim and its v2-close were one row. It is the pilot of this one, and in git's history (`git log --
examples/eqsim_ablation/record.json`). That history also has 30 runs of this ablation from another start (`git log --
examples/eqsim_ablation/record/run-ft-0.json`), which was right on 32 percent of the pairs in place of 40 to 60, and
whose weights were lost. No piece of it is on this page."""


def _answer_title(plan: Plan, runs: Runs) -> str:
    """Return `Answer.`, or how far it is."""
    done, of = sum(map(len, runs.values())), len(plan.methods) * plan.seeds
    return "Answer." if done == of else f"Answer so far, of {done} of {of} runs."


def _power(plan: Plan) -> str:
    """Write the effects that the design can see."""
    if not plan.piece("power").exists():
        return "## Power, before any result\n\nNot computed yet: `python -m examples.eqsim_ablation.power`."
    found, unit = plan.read("power"), plan.read("units")
    variance, design = found["variance"], found["chosen"]
    names = ("alone", "holm", "careful", "careful_holm")
    lines = ["| seeds | items | one test | of all | one, thrice the variance | of all | false alarms | core | GPU |"]
    lines.append("|" + "--:|" * 9)
    for row in found["table"]:
        cells = [f"{row['seeds']}", f"{row['items']:,}", *(f"{100 * row[name]:.1f}" for name in names)]
        cells += [f"{100 * row['wrong']:.1f} %", f"{row['cpu_hours']:.0f} h", f"{row['gpu_hours']:.1f} h"]
        lines.append(f"| {' | '.join(cells)} |")
    choice = (
        f"No design of the table sees {100 * GOAL:.0f} points among all, and with {CAUTION} times the pilot's variance."
        if design is None
        else f"**Chosen: {design['seeds']} seeds, {design['items']:,} items**, the cheapest with 2,000 of each kind "
        f"that sees {100 * GOAL:.0f} points among all, and in one comparison with {CAUTION} times the variance: "
        f"{design['cpu_hours']:.0f} hours of one core, {design['rendering_hours']:.1f} of them rendering."
    )
    table = "\n".join(lines)
    return f"""## Power, before any result

```console
$ python -m examples.eqsim_ablation.power --measure
$ python -m examples.eqsim_ablation.power
```

The pilot is the earlier ablation (`pilot.json`; group score {100 * found["group"]:.1f}): between two of its rows,
paired by seed and item, the difference has a variance of {variance["items"]:.2g} over items, {variance["seeds"]:.2g}
over seeds (a standard deviation of {100 * variance["seeds"] ** 0.5:.1f} points) and {variance["rest"]:.2g} of the rest.
Differences with that variance are drawn {found["draws"]} times for each design, and go through the test of this page.
The table has the smallest true difference, in points of group score, that the test finds {10 * POWER:.0f} times in 10:
at 5 % for one comparison, and among all {found["tests"]}, in the first step of Holm's
correction. The pilot's start was nearer to the floor, and its training shorter, so the next columns take {CAUTION}
times its variance. False alarms: how often the test finds a difference without a true one.

{table}

{choice}

Hours of a core are from processor seconds of one thread, measured by the first command: {unit["step"]:.2f} a step,
{1000 * unit["measured_item"]:.0f} milliseconds to measure an item, {unit["rendered_item"]:.2f} seconds to render one.
**Hours of a GPU are an estimate**: {1000 * GPU_STEP:.0f} milliseconds a step are assumed, and rendering and measuring
are left out."""


def _rows(plan: Plan) -> str:
    size = 2 * plan.fine_tune["batch"]["size"]
    numbers = "\n".join(
        f"| {row.title} | {row.about} | {' = '.join(f'`{place}`' for place in row.tune)}: "
        f"{', '.join(f'{value:g}' for value in sorted(row.choices))} |"
        for row in plan.methods
    )
    tests = ", ".join(f"{name} ({plan.items(name):,})" for name in plan.tests)
    start = (
        plan.start.get("model")
        or f"the bundled encoder's run with contrast alone, in {plan.start['steps']} steps in place of its usual number"
    )
    return f"""## Design

The start is {start}. Each row fine-tunes it on {sum(plan.items(name) for name in plan.train):,} quadruples with
{plan.seeds} seeds: {plan.steps} steps, each of {size} pictures. Each row has one number, tuned with one seed and
{plan.tuning_steps} steps a value on {plan.items("tuning")} separate quadruples. Every row has its first
{plan.seeds_first} seeds before any row has more. It is measured once, after each run, on three sets of fresh
quadruples: {tests}. The last is under lights, on floors and through a lens that no training scene has. Towers compute
in bfloat16, in training and in measuring. Pictures that training and another set share are refused.

A quadruple is two pictures of one scene that differ in one thing, an attribute, a count or a location, each with its
caption; both captions and both pictures must be matched for its group score. Its mirrored pictures and three wordings
make 12 rows of it. In a step, {plan.fine_tune["batch"]["size"]} rows are drawn, and the other side of each; a row with
false captions reads up to 4 more texts for each picture.

| row | loss | tuned |
|---|---|---|
{numbers}

```console
$ python -m examples.eqsim_ablation.run --minutes 10    # again and again: it goes on where it was
$ python -m examples.eqsim_ablation.run --list
$ python -m examples.eqsim_ablation.run --page
```"""


def _complete(plan: Plan, runs: Runs) -> str:
    """Write which pieces are complete and which are missing."""

    def have(names: Sequence[str]) -> str:
        return f"{sum(plan.piece(name).exists() for name in names)} of {len(names)}"

    tuned = [f"tune-{row.name}-{number}" for row in plan.methods for number in range(len(row.choices))]
    lines = ["| stage | done |", "|---|---|"]
    lines += [f"| sets | {have([f'set-{name}' for name in plan.sets])} |", f"| start | {have(['start'])} |"]
    lines[-1] += f"\n| start, measured | {have(['measured-start'])} |\n| tuning | {have(tuned)} |"
    lines += [f"| runs | {sum(map(len, runs.values()))} of {len(plan.methods) * plan.seeds} |"]
    text = "## Complete pieces\n\n" + "\n".join(lines)
    missing = [method.title for method in plan.methods if not runs[method.name]]
    if len(missing) == len(plan.methods):
        return text + "\n\n**No row was run yet**: results will stand below this line, and there are none."
    return text + (f"\n\nNot run yet: {'; '.join(missing)}." if missing else "")


def _machines(plan: Plan) -> list[str]:
    """Say which processors made the pieces."""
    kinds = {"sets": "set-*", "start": "*start", "tuning": "tune-*", "runs": "run-*"}
    found = {
        kind: Counter(plan.read(path.stem)["machine"]["processor"] for path in plan.record.glob(f"{pattern}.json"))
        for kind, pattern in kinds.items()
    }
    lines = [f"| processor | {' | '.join(kinds)} |", "|---|" + "--:|" * len(kinds)]
    names = sorted(set().union(*found.values()))
    lines += [f"| {name} | {' | '.join(str(found[kind][name]) for kind in kinds)} |" for name in names]
    text = (
        "Pieces by the processor that made them. Pictures are the same on all: each set's fingerprint is held to the "
        "record. A run's numbers are the same on every processor of one kind; on another kind sums differ in their "
        "last bits, and trained weights with them."
    )
    return ["\n".join(lines), text + _again(plan)] if names else []


def _again(plan: Plan) -> str:
    """Compare the first row's first run with the same run on another processor, if there is one."""
    if not plan.piece("again").exists():
        return ""
    base = plan.methods[0]
    one, other = plan.read(f"run-{base.name}-0"), plan.read("again")
    changed = sum(int((right_items(one, name) != right_items(other, name)).sum()) for name in plan.tests)
    before, after = (
        join_words([f"{100 * run['sets'][name]['group_score']:.1f}" for name in plan.tests]) for run in (one, other)
    )
    return (
        f" {base.title}'s first run, made on {one['machine']['processor']} and again on "
        f"{other['machine']['processor']}, has group scores of {before}, and {after}: {changed} of "
        f"{sum(map(plan.items, plan.tests)):,} outcomes are others."
    )
