"""What the ablation found: each row's difference from the first, the answer, its picture, and the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from examples.eqsim_ablation.crossed import Verdict, compare_crossed
from examples.eqsim_ablation.pieces import right_items
from examples.eqsim_ablation.plan import Method, Plan
from examples.findings.frame import PHONE, join_words, make_table, points
from tellapart.stats.multiple import holm

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "PAPER",
    "Compared",
    "Runs",
    "answer",
    "compare_rows",
    "differences_table",
    "draw_differences",
    "kept_table",
    "longer_table",
    "runs_of",
    "scores_table",
]

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

#: The pieces of each row's runs, by the row's name.
Runs = Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Compared:
    """A row's differences from the first: over all items, and set by set; `p` is of all items, by Holm's correction."""

    method: Method
    seeds: int
    overall: Verdict
    sets: tuple[Verdict, ...]
    p: float

    @property
    def sign(self) -> int:
        """1 or -1 where a difference is shown at 5 percent, else 0."""
        return int(np.sign(self.overall.value)) if self.p < 0.05 else 0

    def write(self) -> str:
        """Return the title with the distance from the first row and its interval, in points."""
        low, middle, high = sorted(abs(end) for end in _interval(self.overall))
        return f"{self.method.title} by {middle:.1f} ({low:.1f} to {high:.1f})"


def runs_of(plan: Plan, rows: Sequence[Method]) -> dict[str, list[dict[str, Any]]]:
    """Return the pieces of each row's runs, by the row's name, in the order of their seeds."""
    names = {row.name: [f"run-{row.name}-{seed}" for seed in range(plan.seeds)] for row in rows}
    return {row: [plan.read(name) for name in mine if plan.piece(name).exists()] for row, mine in names.items()}


def compare_rows(plan: Plan, runs: Runs, rows: Sequence[Method]) -> list[Compared]:
    """Compare rows with the first over the seeds that both have, two at least: on all items, then set by set."""
    (base, *others), found = rows, []
    for method in others:
        shared = sorted({run["seed"] for run in runs[base.name]} & {run["seed"] for run in runs[method.name]})
        if len(shared) > 1:
            ours, theirs = ([run for run in runs[row.name] if run["seed"] in shared] for row in (method, base))
            parts = [_outcomes(ours, name) - _outcomes(theirs, name) for name in plan.tests]
            overall, *sets = (compare_crossed(part) for part in (np.concatenate(parts, axis=1), *parts))
            found.append(Compared(method, len(shared), overall, tuple(sets), float(overall.p)))
    adjusted = holm([each.p for each in found]) if found else []
    return [replace(each, p=float(p)) for each, p in zip(found, adjusted, strict=True)]


def answer(plan: Plan, compared: Sequence[Compared]) -> str:
    """Write which rows are right on more pairs than the first, which on fewer, and of which no difference is shown."""
    if not compared:
        return "No row shares two seeds with the first, so nothing is compared."
    ranked, parts = sorted(compared, key=lambda each: -abs(float(each.overall.value))), []
    for sign, way in ((1, "more"), (-1, "fewer")):
        if mine := [each.write() for each in ranked if each.sign == sign]:
            parts.append(f"{len(mine)} {'is' if len(mine) == 1 else 'are'} right on {way} pairs, {join_words(mine)}")
    if same := [each.method.title for each in ranked if not each.sign]:
        parts.append(f"of {len(same)} no difference is shown, {join_words(same)}")
    return (
        f"Of {len(compared)} rows against {plan.methods[0].title}, in points of group score after {plan.steps} steps "
        f"with 95 % intervals: {'; '.join(parts)}."
    )


def draw_differences(plan: Plan, compared: Sequence[Compared]) -> Figure:
    """Draw each row's difference from the first with its interval, over all items and on the unseen setting."""
    from tellapart.report.plots.style import GREY, axes_of, look

    ranked = sorted(compared, key=lambda each: -float(each.overall.value))
    figure, axes = axes_of(PHONE, 1.2 + 0.2 * len(ranked))
    drawn = (
        (0, "all items", [each.overall for each in ranked]),
        (1, plan.tests[-1], [each.sets[-1] for each in ranked]),
    )
    for number, label, verdicts in drawn:
        style, rows = look(number), np.arange(len(ranked)) + 0.3 * number - 0.15
        values, halves = [100 * float(one.value) for one in verdicts], [100 * float(one.half()) for one in verdicts]
        axes.errorbar(values, rows, xerr=halves, fmt=style.marker, color=style.colour, markersize=4, label=label)
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set_yticks(range(len(ranked)), [each.method.title for each in ranked])
    axes.invert_yaxis()
    axes.set_xlabel(f"points of group score against {plan.methods[0].title}")
    axes.grid(axis="x")
    figure.legend(loc="outside upper left", ncols=2, handletextpad=0.2, columnspacing=1)
    return figure


def scores_table(plan: Plan, runs: Runs) -> str:
    """Write the group scores of the start and of each row, set by set."""
    start = plan.read("measured-start")["sets"]
    rows = [["start", "", *(f"{100 * start[name]['group_score']:.1f}" for name in plan.tests), "", ""]]
    for method in plan.methods:
        if mine := runs[method.name]:
            value = f"{mine[0]['value']:g}" if method.choices else ""
            best = f"{np.mean([run['best_step'] for run in mine]):.0f}"
            rows.append([method.title, f"{len(mine)}", *_scores(plan, mine), best, value])
    first = 100 * float(np.mean([start[name]["group_score"] for name in plan.tests]))
    room = (
        ""
        if 40 <= first <= 60
        else f" The start was meant to have 40 to 60 percent, to be far from floor and ceiling; it has {first:.1f}."
    )
    table = make_table(["", "seeds", *plan.tests, "best step", "its number"], f"l|{'r|' * len(plan.tests)}r|r|r", rows)
    return f"""## Group score

{table}

Percent; mean ± standard deviation over seeds. `best step` is the mean of those that did best on the tuning set, of
{plan.steps}: if it is the last one, the row had not converged. Its number is the one that did best there. At the upper
end of its list, one beyond might do better; below a weight's list is 0, the loss without that term.{room}"""


def differences_table(plan: Plan, compared: Sequence[Compared]) -> str:
    """Write each row's differences from the first, and the paper's."""
    base, rows = plan.methods[0], []
    if not compared:
        return f"## Differences from {base.title}\n\nNo row has two seeds yet."
    for each in compared:
        value, *sets = (
            f"{points(v / 100)} [{points(a / 100)}, {points(b / 100)}]"
            for a, v, b in map(_interval, (each.overall, *each.sets))
        )
        p = f"**{each.p:.2g}**" if each.sign else f"{each.p:.2g}"
        gains = [ours - theirs for ours, theirs in zip(PAPER.get(each.method.name, ()), PAPER[base.name], strict=False)]
        paper = f"{min(gains):+.1f} to {max(gains):+.1f}" if gains else ""
        rows.append([each.method.title, f"{each.seeds}", value, p, *sets, paper])
    table = make_table(["", "seeds", "all", "p", *plan.tests, "paper"], f"l|{'r|' * len(plan.tests)}r|r|r|r", rows)
    several = f", Holm's over the {len(compared)} comparisons that there are" if len(compared) > 1 else ""
    return f"""## Differences from {base.title}

{table}

Points with 95 % intervals, paired by seed and item: variances over both, Satterthwaite's degrees of freedom. p is of
all items together{several}; bold below 0.05. The columns by set have intervals alone, each for itself. `paper` has the
differences of its Table 6, of location, counting and attribute: the smallest and the largest."""


def longer_table(plan: Plan) -> list[str]:
    """Write the results of rows with more steps, if there are any."""
    rows = [plan.longer_row(plan.row(name)) for name in plan.longer.get("rows", ())]
    runs = runs_of(plan, rows)
    if not any(runs.values()):
        return []
    lines = [
        [row.title, f"{len(mine)}", *_scores(plan, mine), f"{np.mean([run['best_step'] for run in mine]):.0f}"]
        for row in rows
        if (mine := runs[row.name])
    ]
    table = make_table(["", "seeds", *plan.tests, "best step"], f"l|{'r|' * len(plan.tests)}r|r", lines)
    text = (
        f"The first row's weights did best at step {plan.longer['from_best_step']} of {plan.steps} or later, so it had "
        f"not converged: {plan.longer['seeds']} seeds more, with the numbers that were tuned above."
    )
    for each in compare_rows(plan, runs, rows):
        low, value, high = _interval(each.overall)
        text += (
            f" **{each.method.title}, against {rows[0].title}: {value:+.1f} points, 95 % interval {low:+.1f} to "
            f"{high:+.1f}** (p = {each.p:.2g})."
        )
    return [f"## With more steps\n\n{table}", text]


def kept_table(plan: Plan, runs: Runs) -> str:
    """Write the numbers of the start and of the rows on other tasks."""
    start = plan.read("measured-start")["kept"]
    rows = [["start", *(f"{100 * start[name]:.1f}" for name in _KEPT)]]
    for method in plan.methods:
        if mine := runs[method.name]:
            changes = ([100 * (run["kept"][name] - start[name]) for run in mine] for name in _KEPT)
            rows.append([method.title, *(_mean_sd(each, sign="+") for each in changes)])
    return f"""## Forgetting

{make_table(["", *_KEPT.values()], "l|r|r|r", rows)}

The start in percent; the rows as differences from it in points, mean ± standard deviation over seeds."""


def _scores(plan: Plan, runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the cells of a row's group scores, set by set."""
    return [_mean_sd([100 * run["sets"][name]["group_score"] for run in runs]) for name in plan.tests]


def _interval(verdict: Verdict) -> tuple[float, float, float]:
    """Return the lower end of a difference's interval, the difference, and the upper end, in points."""
    value, half = 100 * float(verdict.value), 100 * float(verdict.half())
    return value - half, value, value + half


def _outcomes(runs: Sequence[Mapping[str, Any]], name: str) -> NDArray[np.float64]:
    return np.array([right_items(run, name) for run in runs], np.float64)


def _mean_sd(values: Sequence[float], sign: str = "") -> str:
    spread = f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
    return f"{np.mean(values):{sign}.1f}{spread}"
