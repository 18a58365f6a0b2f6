"""What the ablation found: each row's difference from the first, the checks, the picture, and the rows of tables."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from examples.eqsim_ablation.crossed import Verdict, compare_crossed
from examples.eqsim_ablation.pieces import right_items
from examples.eqsim_ablation.plan import RATE, Check, Method, Plan
from examples.findings.frame import PHONE, bounds, name_rows, points
from tellapart.report.plots.style import GREY, look, make_panels
from tellapart.stats.multiple import holm
from tellapart.stats.paired import paired_by_seed

#: Seeds that two rows must share to be compared: with fewer the test finds a difference where there is none too often.
FEWEST = 4

#: A share of group score: a difference whose interval stays below is none to act on.
SMALL = 0.005

#: Of a piece's `kept`: title.
KEPT = {"i2t_recall@1": "caption of a scene", "t2i_recall@1": "scene of a caption", "demo-objects": "object"}

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

    def __str__(self) -> str:
        return f"{self.method.title} {self.overall}"

    @property
    def sign(self) -> int:
        """1 or -1 where a difference is shown at 5 percent, else 0."""
        return int(np.sign(self.overall.value)) if self.p < 0.05 else 0

    @property
    def is_small(self) -> bool:
        """Whether the interval stays within half a point of no difference."""
        return max(map(abs, self.overall.ends)) < SMALL

    @property
    def p_value(self) -> str:
        """P for a table; bold below 0.05."""
        text = f"{self.p:.2g}" if self.p >= 1e-4 else "< 0.0001"
        return f"**{text}**" if self.p < 0.05 else text


@dataclass(frozen=True, slots=True)
class Checked:
    """A check's results: its rows, the gain of the first over the row without the change, and the others against it."""

    check: Check
    runs: Runs
    rows: Sequence[Method]
    gain: Compared | None
    others: Sequence[Compared]

    @property
    def ran(self) -> bool:
        """Whether a row of it was run."""
        return any(self.runs[row.name] for row in self.rows)

    @property
    def widest(self) -> float:
        """Half the length of the widest interval of the others."""
        return max(other.overall.half() for other in self.others)

    @property
    def on_tuning(self) -> list[tuple[float, float]]:
        """Scores on the tuning set without the change and with it, of the seeds that have both."""
        rows = (self.gain.base, self.gain.method) if self.gain else ()
        plain, changed = ({run["seed"]: run["best"] for run in self.runs[row.name]} for row in rows)
        return [(plain[seed], changed[seed]) for seed in plain if seed in changed]


class Results:
    """The runs of a record and their differences; a row at another rate than the first's has it in its title."""

    def __init__(self, plan: Plan) -> None:
        self.runs = runs_of(plan, plan.methods)
        tuned = {row.name: self.runs[row.name][0]["value"] for row in plan.methods
                 if RATE in row.tune and self.runs[row.name]}  # fmt: skip
        self.rates = {name: rate for name, rate in tuned.items() if rate != tuned.get(plan.methods[0].name)}
        self.plan = replace(plan, methods=tuple(self._name_rate(row) for row in plan.methods))
        self.base, *others = self.plan.methods
        self.compared = compare_rows(self.plan, self.runs, [(row, self.base) for row in others])
        self.checked = [self._check(check) for check in plan.checks if plan.checked_rows(check)]

    def _name_rate(self, row: Method) -> Method:
        if row.name not in self.rates:
            return row
        title = f"{row.title[:-1]}, " if row.title.endswith(")") else f"{row.title} ("
        return replace(row, title=f"{title}rate {self.rates[row.name]:g})")

    def _check(self, check: Check) -> Checked:
        """Compare the rows of a check, as far as they were run."""
        (plain, first), *others = self.plan.checked_rows(check)
        rows = [first, *(row for _, row in others)]
        runs = {**self.runs, **runs_of(self.plan, rows)}
        beside = [row for row in self.plan.methods if row.name in check.beside]
        gain = compare_rows(self.plan, runs, [(first, plain)])
        compared = compare_rows(self.plan, runs, [(row, first) for row in (*rows[1:], *beside)])
        return Checked(check, runs, rows, gain[0] if gain else None, compared)

    @property
    def gains(self) -> list[Compared]:
        """What the changes of the checks give."""
        return [each.gain for each in self.checked if each.gain]

    @property
    def contrasts(self) -> list[Compared]:
        """The differences of the plan's pairs of rows."""
        return compare_rows(self.plan, self.runs, self._pairs)

    @property
    def contrasts_at_one_rate(self) -> list[Compared]:
        """The same of pairs of which a check has run the first as the second is run."""
        return [
            compared
            for each in self.checked
            for row, other in self._pairs
            if row.name in each.check.rows and other.name in each.check.beside
            for compared in compare_rows(self.plan, each.runs, [(each.check.change(row), other)])
        ]

    @property
    def _pairs(self) -> list[tuple[Method, Method]]:
        rows = {row.name: row for row in self.plan.methods}
        return [(rows[name], rows[other]) for name, other in self.plan.contrasts if {name, other} <= rows.keys()]


def runs_of(plan: Plan, rows: Sequence[Method], kind: str = "run") -> dict[str, list[dict[str, Any]]]:
    """Return the pieces of each row's runs, by the row's name, in the order of their seeds."""
    names = {row.name: [f"{kind}-{row.name}-{seed}" for seed in range(plan.seeds)] for row in rows}
    return {row: [plan.read(name) for name in mine if plan.piece(name).exists()] for row, mine in names.items()}


def outcomes(plan: Plan, runs: Iterable[Mapping[str, Any]]) -> NDArray[np.float64]:
    """Return which items of all test sets are right, float64 `(run, item)`."""
    return np.array([np.concatenate([right_items(run, name) for name in plan.tests]) for run in runs], np.float64)


def compare_rows(plan: Plan, runs: Runs, pairs: Iterable[tuple[Method, Method]]) -> list[Compared]:
    """Compare the first row of each pair with the second over the seeds that both have, where these are enough."""
    found, aspect_of = [], np.concatenate([plan.aspects(name) for name in plan.tests])
    set_of = np.repeat(plan.tests, [*map(plan.items, plan.tests)])
    for method, base in pairs:
        shared = {run["seed"] for run in runs[base.name]} & {run["seed"] for run in runs[method.name]}
        if len(shared) < FEWEST:
            continue
        ours, theirs = ([run for run in runs[row.name] if run["seed"] in shared] for row in (method, base))
        every = outcomes(plan, ours) - outcomes(plan, theirs)
        sets, aspects = (
            {name: compare_crossed(every[:, part_of == name]) for name in dict.fromkeys(part_of.tolist())}
            for part_of in (set_of, aspect_of)
        )
        overall = compare_crossed(every)
        found.append(Compared(method, base, len(shared), overall, sets, aspects, overall.p))
    adjusted = holm([each.p for each in found]) if found else []
    return [replace(each, p=float(p)) for each, p in zip(found, adjusted, strict=True)]


def draw_differences(plan: Plan, compared: Sequence[Compared]) -> Any:
    """Draw each row's difference from the first with its interval, over all items and on the unseen setting."""
    ranked = sorted(compared, key=lambda each: -each.overall.value)
    figure, (axes,) = make_panels(PHONE, 1.2 + 0.2 * len(ranked))
    drawn = {
        "all items": [each.overall for each in ranked],
        plan.tests[-1]: [each.sets[plan.tests[-1]] for each in ranked],
    }
    for number, (label, verdicts) in enumerate(drawn.items()):
        style, rows = look(number), np.arange(len(ranked)) + 0.3 * number - 0.15
        values, halves = [100 * verdict.value for verdict in verdicts], [100 * verdict.half() for verdict in verdicts]
        axes.errorbar(values, rows, xerr=halves, fmt=style.marker, color=style.colour, markersize=4, label=label)
    axes.axvline(0, color=GREY, linewidth=0.8)
    label = f"points of group score against {plan.methods[0].title}"
    name_rows(figure, axes, [each.method.title for each in ranked], label, 2)
    axes.set_ylim(len(ranked) - 0.5, -0.5)
    return figure


def list_scores(found: Results) -> Iterator[list[str]]:
    """Yield group scores of the start and of rows, set by set, and what they do beside telling pairs apart."""

    def scores(piece: Mapping[str, Any]) -> list[float]:
        values = [piece["sets"][name]["group_score"] for name in found.plan.tests]
        return [100 * value for value in (*values, *(piece["kept"][name] for name in KEPT))]

    yield ["start", "", "", *map(_mean_sd, zip(scores(found.plan.read("measured-start"))))]
    runs = {name: mine for each in found.checked for name, mine in each.runs.items()} | found.runs
    for row in (*found.plan.methods, *(row for each in found.checked for row in each.rows)):
        if mine := runs[row.name]:
            cells = map(_mean_sd, zip(*map(scores, mine), strict=True))
            yield [row.title, f"{len(mine)}", _mark_edge(row, mine[0]["value"]), *cells]


def _mark_edge(method: Method, value: float) -> str:
    """Return the tuned value for a table, marked where it is at an end of those that were tried."""
    if not method.choices:
        return ""
    edges = {max(method.choices): ", largest", min(method.choices): ", smallest"}
    return f"{value:g}{edges.get(value, '')}"


def list_aspects(found: Results) -> Iterator[list[str]]:
    """Yield group scores of the start and the first row by aspect, then differences, all beside the paper's."""
    plan, base, names = found.plan, found.base, [*found.compared[0].aspects]
    aspect_of = np.concatenate([plan.aspects(name) for name in plan.tests])
    for title, runs in (("start", [plan.read("measured-start")]), (base.title, found.runs[base.name])):
        right = outcomes(plan, runs)
        scores = (f"{100 * right[:, aspect_of == name].mean():.1f}" for name in names)
        yield [f"{title}, percent", *scores, ", ".join(f"{base.paper[n]:.2f}" for n in names if title != "start")]
    for each in (*found.compared, *found.gains):
        differences = ", ".join(f"{each.method.paper[n] - base.paper[n]:+.2f}" for n in names if each.method.paper)
        yield [each.method.title, *map(str, each.aspects.values()), differences]


def list_reasons(found: Results) -> list[list[str]]:
    """Return which items are right or lost to a prior: of the start and the first row, and how the others differ."""
    plan, base = found.plan, found.base
    shared = [row for row in plan.methods[1:] if len(found.runs[row.name]) >= FEWEST]
    if not shared or not found.runs[base.name]:
        return []
    shares = {
        row.title: {run["seed"]: reason_shares(plan, run) for run in found.runs[row.name]} for row in (base, *shared)
    }
    start = reason_shares(plan, plan.read("measured-start"))
    return [[title, *cells] for title, _, *cells in _list_by_seed(start, shares)]


def reason_shares(plan: Plan, piece: Mapping[str, Any]) -> NDArray[np.float64]:
    """Return shares of items, float64 (4,): right, caption's prior, picture's prior, and the other wrong ones."""
    sets = [piece["sets"][name] for name in plan.tests]
    sizes = [each["items"] for each in sets]
    names = ("group_score", "text_score", "image_score")
    group, text, image = (np.average([each[name] for each in sets], weights=sizes) for name in names)
    return np.array([group, image - group, text - group, 1 - text - image + group])


def list_squares(plan: Plan) -> tuple[list[list[str]], float]:
    """Return shares of the squares of scores on the first set, and the share of outcomes that differ from the record's.

    They are of the start and the first row, with the others' differences.
    """
    test, again = plan.tests[0], runs_of(plan, plan.in_order, "squares")
    if not again[plan.methods[0].name] or not plan.piece("squares-start").exists():
        return [], 0.0

    def squares(piece: Mapping[str, Any]) -> NDArray[np.float64]:
        measured = piece["sets"][test]
        return np.array([*measured["squares"].values(), measured["match_score"]])

    shares = {plan.row(row).title: {piece["seed"]: squares(piece) for piece in mine} for row, mine in again.items()}
    changed = [
        (right_items(piece, test) != right_items(plan.read(f"run-{row}-{piece['seed']}"), test)).mean()
        for row, mine in again.items()
        for piece in mine
    ]
    return [*_list_by_seed(squares(plan.read("squares-start")), shares)], float(fmean(changed))


def _list_by_seed(
    start: NDArray[np.float64], shares: Mapping[str, Mapping[int, NDArray[np.float64]]]
) -> Iterator[list[str]]:
    """Yield title, seeds and percents of the start and the first row; then others' differences from it, by seed."""
    (base, first), *others = shares.items()
    yield ["start, percent", "", *(f"{100 * value:.1f}" for value in start)]
    columns = 100 * np.array([*first.values()]).T
    yield [f"{base}, percent", f"{len(first)}", *map(_mean_sd, columns)]
    for title, mine in others:
        if seeds := sorted({*mine} & {*first}):
            pairs = zip(*(np.array([of[seed] for seed in seeds]).T.tolist() for of in (mine, first)), strict=True)
            yield [title, f"{len(seeds)}", *(write_by_seed(*pair) for pair in pairs)]


def write_by_seed(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Return the mean difference of shares in points, with Student's 95 % interval over seeds."""
    low, high, *_ = paired_by_seed(ours, theirs)
    value = points(fmean(ours) - fmean(theirs))
    return value if low is None else f"{value} {bounds(low, high, points)}"


def _mean_sd(values: Sequence[float]) -> str:
    spread = f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
    return f"{np.mean(values):.1f}{spread}"
