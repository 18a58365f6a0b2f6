"""What the ablation found: each row's difference from the first, the answer, its picture, and the tables."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from examples.eqsim_ablation.crossed import Verdict, compare_crossed
from examples.eqsim_ablation.pieces import right_items
from examples.eqsim_ablation.plan import HERE, Check, Method, Plan
from examples.findings.frame import PHONE, make_table, points, render_page
from tellapart.report.plots.style import GREY, axes_of, look
from tellapart.stats.multiple import holm
from tellapart.stats.paired import paired_by_seed

#: Seeds that two rows must share to be compared: with fewer the test finds a difference where there is none too often.
FEWEST = 4

#: Points of group score: a difference whose interval stays below is none to act on.
SMALL = 0.5

#: Group scores in percent of FIBER on Eq-Kubric's location, counting and attribute (EqSim, Table 6).
PAPER = {
    "ft": {"location": 8.95, "counting": 28.49, "attribute": 66.54},
    "hardneg": {"location": 10.89, "counting": 29.49, "attribute": 67.69},
    "v1-all": {"location": 9.79, "counting": 29.94, "attribute": 68.75},
    "v2-all": {"location": 10.25, "counting": 29.05, "attribute": 68.30},
    "v2-close": {"location": 11.15, "counting": 29.25, "attribute": 69.25},
    "eqsim": {"location": 11.05, "counting": 30.90, "attribute": 70.20},
}

#: Of a piece's `kept`: title.
_KEPT = {"i2t_recall@1": "caption of a scene", "t2i_recall@1": "scene of a caption", "demo-objects": "object"}

#: The pieces of each row's runs, by the row's name.
Runs = Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Compared:
    """A row's differences from another, over all items, by set and by aspect; p is Holm's over the compared rows."""

    method: Method
    base: Method
    seeds: int
    overall: Verdict
    sets: dict[str, Verdict]
    aspects: dict[str, Verdict]
    p: float

    @property
    def sign(self) -> int:
        """1 or -1 where a difference is shown at 5 percent, else 0."""
        return int(np.sign(self.overall.value)) if self.p < 0.05 else 0

    @property
    def is_small(self) -> bool:
        """Whether the interval stays within half a point of no difference."""
        low, _, high = _interval(self.overall)
        return low > -SMALL and high < SMALL

    @property
    def difference(self) -> str:
        """The difference and its interval, in points."""
        return write_difference(self.overall)

    @property
    def named(self) -> str:
        """The title with the difference."""
        return f"{self.method.title} {self.difference}"

    @property
    def p_value(self) -> str:
        """P for a table; bold below 0.05."""
        text = f"{self.p:.2g}" if self.p >= 1e-4 else "< 0.0001"
        return f"**{text}**" if self.p < 0.05 else text


def render(name: str, **values: Any) -> str:
    """Fill a template of `templates`: a section of the ablation's pages."""
    return render_page(HERE / "templates", name, values)


def numbers_table(heads: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> str:
    """Return a table of which the first columns are of words, and the others of numbers."""
    return make_table(heads, "|".join("l" if k < words else "r" for k in range(len(heads))), rows)


def runs_of(plan: Plan, rows: Sequence[Method]) -> dict[str, list[dict[str, Any]]]:
    """Return the pieces of each row's runs, by the row's name, in the order of their seeds."""
    names = {row.name: [f"run-{row.name}-{seed}" for seed in range(plan.seeds)] for row in rows}
    return {row: [plan.read(name) for name in mine if plan.piece(name).exists()] for row, mine in names.items()}


def compare_rows(plan: Plan, runs: Runs, pairs: Iterable[tuple[Method, Method]]) -> list[Compared]:
    """Compare the first row of each pair with the second over the seeds that both have, where these are enough."""
    found, of = [], np.concatenate([plan.aspects(name) for name in plan.tests])
    for method, base in pairs:
        shared = sorted({run["seed"] for run in runs[base.name]} & {run["seed"] for run in runs[method.name]})
        if len(shared) < FEWEST:
            continue
        ours, theirs = ([run for run in runs[row.name] if run["seed"] in shared] for row in (method, base))
        parts = {name: _outcomes(ours, name) - _outcomes(theirs, name) for name in plan.tests}
        every = np.concatenate(list(parts.values()), axis=1)
        overall = compare_crossed(every)
        sets = {name: compare_crossed(part) for name, part in parts.items()}
        aspects = {name: compare_crossed(every[:, of == name]) for name in dict.fromkeys(of.tolist())}
        found.append(Compared(method, base, len(shared), overall, sets, aspects, float(overall.p)))
    adjusted = holm([each.p for each in found]) if found else []
    return [replace(each, p=float(p)) for each, p in zip(found, adjusted, strict=True)]


def against_first(plan: Plan, runs: Runs) -> list[Compared]:
    """Compare every other row with the plan's first."""
    first, *others = plan.methods
    return compare_rows(plan, runs, [(row, first) for row in others])


def draw_differences(plan: Plan, compared: Sequence[Compared]) -> Any:
    """Draw each row's difference from the first with its interval, over all items and on the unseen setting."""
    ranked = sorted(compared, key=lambda each: -float(each.overall.value))
    figure, axes = axes_of(PHONE, 1.2 + 0.2 * len(ranked))
    drawn = (
        (0, "all items", [each.overall for each in ranked]),
        (1, plan.tests[-1], [each.sets[plan.tests[-1]] for each in ranked]),
    )
    for number, label, verdicts in drawn:
        style, rows = look(number), np.arange(len(ranked)) + 0.3 * number - 0.15
        values, halves = [100 * float(one.value) for one in verdicts], [100 * float(one.half()) for one in verdicts]
        axes.errorbar(values, rows, xerr=halves, fmt=style.marker, color=style.colour, markersize=4, label=label)
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set_yticks(range(len(ranked)), [each.method.title for each in ranked])
    axes.set_ylim(len(ranked) - 0.5, -0.5)  # the first row on top
    axes.set_xlabel(f"points of group score against {plan.methods[0].title}")
    axes.grid(axis="x")
    figure.legend(loc="outside upper left", ncols=2, handletextpad=0.2, columnspacing=1)
    return figure


def scores_table(plan: Plan, runs: Runs, rows: Sequence[Method]) -> str:
    """Write the group scores of the start and of rows, set by set, and what they do beside telling pairs apart."""
    start, heads = plan.read("measured-start"), [*plan.tests, *_KEPT.values()]
    alone = [*(start["sets"][name]["group_score"] for name in plan.tests), *(start["kept"][name] for name in _KEPT)]
    lines = [["start", "", "", *(f"{100 * value:.1f}" for value in alone)]]
    lines += [
        [row.title, f"{len(mine)}", _tuned(row, mine[0]["value"]), *_score_cells(plan, mine)]
        for row in rows
        if (mine := runs[row.name])
    ]
    first = 100 * float(np.mean(alone[: len(plan.tests)]))
    return render("scores", first=first, table=numbers_table(["", "seeds", "tuned to", *heads], lines))


def _tuned(method: Method, value: float) -> str:
    """Return the tuned value for a table, marked where it is at an end of those that were tried."""
    if not method.choices:
        return ""
    ends = {max(method.choices): ", largest", min(method.choices): ", smallest"}
    return f"{value:g}{ends.get(value, '')}"


def differences_table(plan: Plan, compared: Sequence[Compared]) -> str:
    """Write each row's differences from the first, set by set."""
    base = plan.methods[0]
    if not compared:
        return f"## Differences from {base.title}\n\nNo row has {FEWEST} seeds yet."
    return render("differences", base=base, compared=compared, tests=plan.tests, write=write_difference)


def aspects_table(plan: Plan, runs: Runs, compared: Sequence[Compared], gains: Sequence[Compared]) -> str:
    """Write each row's differences from the first by aspect, beside the paper's; last those of its own checks."""
    if not compared:
        return ""
    base, names = plan.methods[0], list(compared[0].aspects)
    of = np.concatenate([plan.aspects(name) for name in plan.tests])

    def level(right: NDArray[np.float64]) -> list[str]:
        return [f"{100 * right[:, of == name].mean():.1f}" for name in names]

    start = np.concatenate([right_items(plan.read("measured-start"), name) for name in plan.tests])[None].astype(float)
    first = np.concatenate([_outcomes(runs[base.name], name) for name in plan.tests], axis=1)
    rows = [["start, percent", *level(start), ""], [f"{base.title}, percent", *level(first), _paper(base, names)]]
    rows += [
        [each.method.title, *map(write_difference, each.aspects.values()), _paper(each.method, names)]
        for each in (*compared, *gains)
    ]
    return render("aspects", base=base, table=numbers_table(["", *names, "paper"], rows))


def reasons_table(plan: Plan, runs: Runs) -> str:
    """Write which items are right or lost to a prior: of the start and the first row, and how the others differ."""
    base, shared = plan.methods[0], [row for row in plan.methods[1:] if len(runs[row.name]) >= FEWEST]
    if not shared or not runs[base.name]:
        return ""
    shares = {row.title: {run["seed"]: reason_shares(plan, run) for run in runs[row.name]} for row in (base, *shared)}
    names = ["right", "lost to the caption's prior", "lost to the picture's prior", "both priors, or no match"]
    rows = [[title, *cells] for title, _, *cells in _by_seed(reason_shares(plan, plan.read("measured-start")), shares)]
    return render("reasons", base=base, table=numbers_table(["", *names], rows))


def squares_table(plan: Plan) -> str:
    """Write how the squares of scores on the first set are shared: of the start and the first row, and differences."""
    test, base = plan.tests[0], plan.methods[0]
    done = {
        row.name: {
            seed: plan.read(name)
            for seed in range(plan.seeds)
            if plan.piece(name := f"squares-{row.name}-{seed}").exists()
        }
        for row in plan.in_order
    }
    if not done[base.name] or not plan.piece("squares-start").exists():
        return ""
    shares = {
        plan.row(row).title: {seed: _squares(piece, test) for seed, piece in pieces.items()}
        for row, pieces in done.items()
    }
    other = [
        float((right_items(piece, test) != right_items(plan.read(f"run-{row}-{seed}"), test)).mean())
        for row, pieces in done.items()
        for seed, piece in pieces.items()
        if plan.piece(f"run-{row}-{seed}").exists()
    ]
    rows = _by_seed(_squares(plan.read("squares-start"), test), shares)
    table = numbers_table(["", "seeds", *_SQUARES], rows)
    return render("squares", base=base, test=test, table=table, changed=100 * fmean(other))


#: Titles of what `_squares` returns.
_SQUARES = ("match", "captions", "pictures", "match score")


def _squares(piece: Mapping[str, Any], test: str) -> NDArray[np.float64]:
    measured = piece["sets"][test]
    return np.array([*measured["squares"].values(), measured["match_score"]])


def _by_seed(
    start: NDArray[np.float64], shares: Mapping[str, Mapping[int, NDArray[np.float64]]]
) -> Iterator[list[str]]:
    """Yield title, seeds and percents of the start and the first row; then others' differences from it, by seed."""
    (base, first), *others = shares.items()
    yield ["start, percent", "", *(f"{100 * value:.1f}" for value in start)]
    columns = np.array([*first.values()]).T
    yield [f"{base}, percent", f"{len(first)}", *(_mean_sd(100 * column) for column in columns)]
    for title, own in others:
        if seeds := sorted({*own} & {*first}):
            pairs = zip(*(np.array([of[seed] for seed in seeds]).T.tolist() for of in (own, first)), strict=True)
            yield [title, f"{len(seeds)}", *(_seed_difference(*pair) for pair in pairs)]


def reason_shares(plan: Plan, piece: Mapping[str, Any]) -> NDArray[np.float64]:
    """Return shares of items, float64 (4,): right, caption's prior, picture's prior, and the other wrong ones."""
    sets = [piece["sets"][name] for name in plan.tests]
    sizes = [each["items"] for each in sets]
    names = ("group_score", "text_score", "image_score")
    group, text, image = (np.average([each[name] for each in sets], weights=sizes) for name in names)
    return np.array([group, image - group, text - group, 1 - text - image + group])


def _seed_difference(ours: Sequence[float], theirs: Sequence[float]) -> str:
    low, high, *_ = paired_by_seed(ours, theirs)
    value = points(fmean(ours) - fmean(theirs))
    return value if low is None or high is None else f"{value} [{points(low)}, {points(high)}]"


def contrasts_table(compared: Sequence[Compared], note: str = "") -> str:
    """Write the differences of pairs of rows; last a note."""
    if not compared:
        return ""
    return render("contrasts", compared=compared, note=note)


def terms_table(plan: Plan, runs: Runs) -> str:
    """Write how large each term of each row's loss was, and the scale at the end."""
    rows = []
    for method in plan.methods:
        if mine := runs[method.name]:
            names = [name for name in mine[0]["terms"] if name != "scale"]
            terms = ", ".join(f"{name} {fmean(run['terms'][name] for run in mine):.2g}" for name in names)
            rows.append([method.title, terms, f"{fmean(run['terms']['scale'] for run in mine):.1f}"])
    return render("terms", table=numbers_table(["", "mean over all steps", "scale at the end"], rows, words=2))


def write_difference(verdict: Verdict) -> str:
    """Return a difference with its interval, for a table."""
    low, value, high = (points(end / 100) for end in _interval(verdict))
    return f"{value} [{low}, {high}]"


def _paper(method: Method, names: Sequence[str]) -> str:
    """Return the paper's scores of the first row, or a row's differences from them."""
    first, mine = PAPER["ft"], PAPER.get(method.name)
    if mine is None:
        return ""
    return ", ".join(f"{mine[n]:.2f}" if mine is first else f"{mine[n] - first[n]:+.2f}" for n in names)


def _score_cells(plan: Plan, runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the cells of a row's scores."""
    scores = [[run["sets"][name]["group_score"] for run in runs] for name in plan.tests]
    scores += [[run["kept"][name] for run in runs] for name in _KEPT]
    return [_mean_sd([100 * value for value in values]) for values in scores]


def _interval(verdict: Verdict) -> tuple[float, float, float]:
    """Return the lower end of a difference's interval, the difference, and the upper end, in points."""
    value, half = 100 * float(verdict.value), 100 * float(verdict.half())
    return value - half, value, value + half


def _outcomes(runs: Sequence[Mapping[str, Any]], name: str) -> NDArray[np.float64]:
    return np.array([right_items(run, name) for run in runs], np.float64)


def _mean_sd(values: Sequence[float]) -> str:
    spread = f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
    return f"{np.mean(values):.1f}{spread}"


@dataclass(frozen=True, slots=True)
class Checked:
    """A check's results: its rows, the gain of the first over the row without the change, and the others against it."""

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
    reading = "The p-value of a check's gain is not corrected; its other comparisons have Holm's correction."
    return "\n\n".join(["## Checks", *texts, reading]) if texts else ""


def pairs_at_one_rate(plan: Plan, checked: Sequence[Checked], pairs: Sequence[tuple[Method, Method]]) -> str:
    """Write pairs of rows again, each where a check has run the first as the second is run."""
    again = [
        f"{one.named} against {one.base.title}, over {one.seeds} seeds, p {one.p_value}"
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
    before, after = (f"{100 * fmean(bests[row.name][seed] for seed in shared):.1f} %" for row in (plain, changed))
    return (
        f" Against {plain.title}: {_write(checked.gain)}; on the tuning set, over these {len(shared)} seeds, {after} "
        f"against {before}."
    )


def _write(each: Compared) -> str:
    return f"{each.named}, p {each.p_value}"
