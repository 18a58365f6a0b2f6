"""The page of the ablation: its power first, then what is complete, then what was found in that, with intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
from numpy.typing import NDArray

from examples.eqsim_ablation.crossed import Verdict, compare_crossed
from examples.eqsim_ablation.pieces import right_items
from examples.eqsim_ablation.plan import Method, Plan
from examples.eqsim_ablation.power import CAUTION, GOAL, GPU_STEP, POWER
from tellapart.stats.multiple import holm

__all__ = ["PAGE", "PAPER", "page"]

#: The page that is made of the record.
PAGE = Path(__file__).resolve().parents[2] / "docs" / "eqsim_ablation.md"

#: Group scores in percent of FIBER on Eq-Kubric's location, counting and attribute (EqSim, Table 6).
PAPER = {
    "ft": (8.95, 28.49, 66.54),
    "hardneg": (10.89, 29.49, 67.69),
    "v1-all": (9.79, 29.94, 68.75),
    "v2-all": (10.25, 29.05, 68.30),
    "v2-close": (11.15, 29.25, 69.25),
    "eqsim": (11.05, 30.90, 70.20),
}

#: Of a piece's `kept`: title.
_KEPT = {
    "i2t_recall@1": "caption of a scene, recall at 1",
    "t2i_recall@1": "scene of a caption, recall at 1",
    "demo-objects": "`demo-objects`, zero-shot",
}

_SETTING = """## Differences from the paper

- **Model**: FIBER, pre-trained on about 4 million pictures, at 288 x 288 pixels. Here: 2.1 million weights,
  half-trained on rendered scenes, at 112 x 112.
- **Data**: Table 6 fine-tunes on captions of photographs (Flickr30K), in which hardly a pair is minimal, and measures
  on rendered scenes that no training showed. Here training and test draw from one grammar, and both sides of a
  quadruple meet in a batch.
- **Loss**: a matching head learns with the contrast; the paper takes the closest negatives, its released code draws
  them. Here there is no such head, and both forms are rows.
- **Evidence**: one number a cell, without a spread over seeds. Here: intervals over seeds and items.

So this page tests the order of Table 6 for training on minimal pairs: does EqSim beat contrast and hard negatives, is
v2 for close pairs, and which part does the work? It tests no gain of a large pre-trained model from ordinary captions,
nor METER, retrieval, or sets other than Eq-Kubric."""

Runs = Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class _Compared:
    """A row's differences from the first: over all items, and set by set; `p` is of all items, by Holm's correction."""

    method: Method
    seeds: int
    overall: Verdict
    sets: tuple[Verdict, ...]
    p: float


def page(plan: Plan) -> str:
    """Return the page in markdown, of the pieces that the record has."""
    runs = {method.name: _runs(plan, method) for method in plan.methods}
    blocks = [_INTRODUCTION, _power(plan), _rows(plan), _complete(plan, runs), *_machines(plan)]
    if any(runs.values()):
        compared = _compare(plan, runs)
        blocks += [_answer(plan, compared), _scores(plan, runs), _differences(plan, compared)]
        blocks += [*_longer(plan), _kept(plan, runs)]
    blocks += [_SETTING, "**Next:** [All findings](findings.md)"]
    return "\n\n".join(_wrap(block) for block in "\n\n".join(blocks).split("\n\n")) + "\n"


_INTRODUCTION = """# EqSim's ablation, with power

<!-- Made by `python -m examples.eqsim_ablation.run --page` from the record's pieces; edit neither. -->

Which losses make a dual encoder separate minimal pairs, and which part of EqSim's? The paper asks this of FIBER on
Eq-Kubric (Table 6) and finds gains of 1.9 to 4.5 points. Here the same question is put to the bundled encoder,
half-trained, on rendered scenes. An earlier ablation stood on this page, of 11 rows and 5 seeds: its intervals were as
wide as the paper's gains, and its start at chance for two of three aspects. It did show this: through a softmax over a
batch, v1 of distant pairs stays below 1e-6, so EqSim and its v2-close were one row. It is the pilot of this one, and in
git's history (`git log -- examples/eqsim_ablation/record.json`). That history also has 30 runs of this ablation from
another start (`git log -- examples/eqsim_ablation/record/run-ft-0.json`), which was right on 32 percent of the
pairs in place of 40 to 60, and whose weights were lost. No piece of it is on this page."""


def _power(plan: Plan) -> str:
    """Write the effects that the design can see."""
    if not plan.piece("power").exists():
        return "## Power, before any result\n\nNot computed yet: `python -m examples.eqsim_ablation.power`."
    found, unit = plan.read("power"), plan.read("units")
    variance, design = found["variance"], found["chosen"]
    names = ("alone", "holm", "careful", "careful_holm")
    lines = ["| seeds | items | seen | among all | with thrice the variance | among all | false alarms | core | GPU |"]
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
        f"{', '.join(f'{value:g}' for value in row.choices)} |"
        for row in plan.methods
    )
    tests = ", ".join(f"{name} ({plan.items(name):,})" for name in plan.tests)
    start = (
        plan.start.get("model")
        or f"the bundled encoder's run in {plan.start['steps']} steps in place of its usual number"
    )
    return f"""## Design

The start is {start}. Each row fine-tunes it on {sum(plan.items(name) for name in plan.train):,} quadruples with
{plan.seeds} seeds: {plan.steps} steps, each of {size} pictures. Each row has one number, tuned with one seed and
{plan.tuning_steps} steps a value on {plan.items("tuning")} separate quadruples, which also choose weights within a
run. Every row has its first {plan.seeds_first} seeds before any row has more. It is measured once, after each run, on
three sets of fresh quadruples: {tests}. The last is under lights, on floors and through a lens that no training scene
has. There, too, the towers compute in bfloat16, which changes 1 of the start's 600 group scores on the tuning set.
Pictures that training and another set share are refused.

| row | loss | its number |
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
    return ["\n".join(lines), text] if names else []


def _scores(plan: Plan, runs: Runs) -> str:
    lines = [
        "| | seeds | " + " | ".join(plan.tests) + " | best step | its number | paper: location, counting, attribute |"
    ]
    lines.append("|---|--:|" + "--:|" * (len(plan.tests) + 2) + "---|")
    start = plan.read("measured-start")["sets"]
    lines.append(
        "| start | | " + " | ".join(f"{100 * start[name]['group_score']:.1f}" for name in plan.tests) + " | | | |"
    )
    for method in plan.methods:
        if mine := runs[method.name]:
            cells = [_mean_sd([100 * run["sets"][name]["group_score"] for run in mine]) for name in plan.tests]
            cells.append(f"{np.mean([run['best_step'] for run in mine]):.0f}")
            cells.append(f"{mine[0]['value']:g}" if method.choices else "")
            paper = ", ".join(f"{value:.2f}" for value in PAPER.get(method.name, ()))
            lines.append(f"| {method.title} | {len(mine)} | {' | '.join(cells)} | {paper} |")
    first = 100 * float(np.mean([start[name]["group_score"] for name in plan.tests]))
    room = (
        ""
        if 40 <= first <= 60
        else f" The start was meant to have 40 to 60 percent, to be far from floor and ceiling; it has {first:.1f}."
    )
    return (
        "## Group score\n\n"
        + "\n".join(lines)
        + (
            "\n\nPercent; mean ± standard deviation over seeds. `best step` is the mean of those that did best "
            f"on the tuning set, of {plan.steps}: if it is the last one, the row had not converged. Its number is "
            f"the one that did best there; at an end of its list, one beyond might do better.{room}"
        )
    )


def _compare(plan: Plan, runs: Runs, rows: Sequence[Method] = ()) -> list[_Compared]:
    """Compare rows with the first over the seeds that both have, two at least: on all items, then set by set."""
    (base, *others), found = rows or plan.methods, []
    for method in others:
        shared = sorted({run["seed"] for run in runs[base.name]} & {run["seed"] for run in runs[method.name]})
        if len(shared) > 1:
            ours, theirs = ([run for run in runs[row.name] if run["seed"] in shared] for row in (method, base))
            parts = [_outcomes(ours, name) - _outcomes(theirs, name) for name in plan.tests]
            overall, *sets = (compare_crossed(part) for part in (np.concatenate(parts, axis=1), *parts))
            found.append(_Compared(method, len(shared), overall, tuple(sets), float(overall.p)))
    adjusted = holm([each.p for each in found]) if found else []
    return [replace(each, p=float(p)) for each, p in zip(found, adjusted, strict=True)]


def _answer(plan: Plan, compared: Sequence[_Compared]) -> str:
    """Write the outcome of each compared row, and the place of the paper's gains."""
    base, lines, items = plan.methods[0], [], sum(map(plan.items, plan.tests))
    for each in compared:
        value, low, high = _interval(each.overall)
        way = "more" if value > 0 else "fewer"
        shown = "no difference is shown" if each.p >= 0.05 else f"it is right on {way} pairs"
        text = (
            f"**{each.method.title} against {base.title}: {value:+.1f} points of group score after {plan.steps} steps, "
            f"95 % interval {low:+.1f} to {high:+.1f}** ({each.seeds} of {plan.seeds} seeds, {items:,} items, "
            f"p = {each.p:.2g}): {shown}."
        )
        if each.method.name in PAPER:
            gains = [ours - theirs for ours, theirs in zip(PAPER[each.method.name], PAPER[base.name], strict=True)]
            place = "above" if min(gains) > high else "below" if max(gains) < low else "partly within"
            text += f" The paper's {min(gains):.1f} to {max(gains):.1f} points lie {place} this interval."
        lines.append(text)
    if not lines:
        lines = ["No row shares two seeds with the first, so nothing is compared."]
    return "## The answer so far\n\n" + "\n\n".join(lines)


def _interval(verdict: Verdict) -> tuple[float, float, float]:
    """Return a difference and the ends of its interval, in points."""
    value, half = 100 * float(verdict.value), 100 * float(verdict.half())
    return value, value - half, value + half


def _differences(plan: Plan, compared: Sequence[_Compared]) -> str:
    base = plan.methods[0]
    if not compared:
        return f"## Differences from {base.title}\n\nNo row has two seeds yet."
    lines = ["| | all | p | " + " | ".join(plan.tests) + " |", "|---|" + "--:|" * (len(plan.tests) + 2)]
    for each in compared:
        intervals = map(_interval, (each.overall, *each.sets))
        cells = [f"{value:+.1f} [{low:+.1f}, {high:+.1f}]" for value, low, high in intervals]
        cells.insert(1, f"**{each.p:.2g}**" if each.p < 0.05 else f"{each.p:.2g}")
        lines.append(f"| {each.method.title} | {' | '.join(cells)} |")
    several = f", Holm's over the {len(compared)} comparisons that there are" if len(compared) > 1 else ""
    return (
        f"## Differences from {base.title}\n\n"
        + "\n".join(lines)
        + "\n\nPoints with 95 % intervals, paired by seed and item: variances over both, Satterthwaite's degrees of "
        f"freedom. p is of all items together{several}; bold below 0.05. The columns by set have intervals alone, each "
        "for itself."
    )


def _longer(plan: Plan) -> list[str]:
    """Write the results of rows with more steps."""
    rows = [plan.longer_row(plan.row(name)) for name in plan.longer.get("rows", ())]
    runs = {row.name: _runs(plan, row) for row in rows}
    if not any(runs.values()):
        return []
    lines = ["| | seeds | " + " | ".join(plan.tests) + " | best step |", "|---|--:|" + "--:|" * (len(plan.tests) + 1)]
    for row in rows:
        if mine := runs[row.name]:
            cells = [_mean_sd([100 * run["sets"][name]["group_score"] for run in mine]) for name in plan.tests]
            best = np.mean([run["best_step"] for run in mine])
            lines.append(f"| {row.title} | {len(mine)} | {' | '.join(cells)} | {best:.0f} |")
    text = (
        f"The first row's weights did best at step {plan.longer['from_best_step']} of {plan.steps} or later, so it had "
        f"not converged: {plan.longer['seeds']} seeds more, with the numbers that were tuned above."
    )
    for each in _compare(plan, runs, rows):
        value, low, high = _interval(each.overall)
        text += (
            f" **{each.method.title}, against {rows[0].title}: {value:+.1f} points, 95 % interval {low:+.1f} to "
            f"{high:+.1f}** (p = {each.p:.2g})."
        )
    return ["## With more steps\n\n" + "\n".join(lines), text]


def _outcomes(runs: Sequence[Mapping[str, Any]], name: str) -> NDArray[np.float64]:
    return np.array([right_items(run, name) for run in runs], np.float64)


def _kept(plan: Plan, runs: Runs) -> str:
    """Write the numbers of the start and of the rows on other tasks."""
    start = plan.read("measured-start")["kept"]
    lines = ["| | " + " | ".join(_KEPT.values()) + " |", "|---|" + "--:|" * len(_KEPT)]
    lines.append("| start | " + " | ".join(f"{100 * start[name]:.1f}" for name in _KEPT) + " |")
    for method in plan.methods:
        if mine := runs[method.name]:
            cells = (_mean_sd([100 * (run["kept"][name] - start[name]) for run in mine], sign="+") for name in _KEPT)
            lines.append(f"| {method.title} | {' | '.join(cells)} |")
    return (
        "## Forgetting\n\n"
        + "\n".join(lines)
        + "\n\nThe start in percent; the rows as differences from it in points, mean ± standard deviation over seeds."
    )


def _runs(plan: Plan, method: Method) -> list[dict[str, Any]]:
    names = [f"run-{method.name}-{seed}" for seed in range(plan.seeds)]
    return [plan.read(name) for name in names if plan.piece(name).exists()]


def _mean_sd(values: Sequence[float], sign: str = "") -> str:
    spread = f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
    return f"{np.mean(values):{sign}.1f}{spread}"


def _wrap(block: str) -> str:
    """Fill the lines of a paragraph; tables, lists, code and headings are unchanged."""
    if block.startswith(("|", "#", "<", "`", "-")):
        return block
    return fill(" ".join(block.split()), 120, break_long_words=False, break_on_hyphens=False)
