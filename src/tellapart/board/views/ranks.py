"""Models over benchmarks: their places, their performance against their cost, and whether benchmarks agree on them.

Source: EqBen Figures 1 and 7 (places); VLUE section 3.3 and Figure 2 (cost).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby, islice
from math import comb
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from tellapart.board.records import Benchmark, Entry, Model, Tables, rank_places
from tellapart.board.views.leaderboard import (
    Content,
    Link,
    all_benchmarks,
    choice_links,
    leaderboard,
    read_cells,
    with_reasons,
)
from tellapart.errors import RunError, UnknownNameError
from tellapart.evaluation.compare import MetricComparison, compare, correct, rank_outcomes
from tellapart.report.plots.agreement import Measured, find_agreement
from tellapart.stats.paired import enough_flips, pair_tests
from tellapart.stats.pareto import pareto_front

#: The most models that are compared at once: every pair of them is tested on every benchmark.
MOST_TOGETHER = 8

#: Why a benchmark has no tests.
HIDDEN_LABELS = "its labels and the items that a model gets right are hidden; its page has intervals"
NO_ITEMS = "imported numbers have no items to test"


def compare_many(tables: Tables, models: str) -> Content:
    """Compare several models, each with each, on every benchmark that two of them were measured on."""
    slugs = list(dict.fromkeys(models.split("+")))
    if not 1 < len(slugs) <= MOST_TOGETHER:
        raise UnknownNameError(f"{len(slugs)} models are asked for; choose 2 to {MOST_TOGETHER} of them")
    compared = [tables.model(slug) for slug in slugs]
    entries: dict[str, list[Entry]] = {}
    for entry in (entry for slug in slugs for entry in tables.entries_of(model=slug)):
        entries.setdefault(entry.benchmark, []).append(entry)
    comparisons, refused = [], []
    flips = enough_flips(sum(comb(len(rows), 2) for rows in entries.values()))
    order = list(tables.benchmarks)
    for slug in sorted(entries, key=lambda slug: (-len(entries[slug]), order.index(slug))):
        if len(entries[slug]) < 2:
            continue
        benchmark = tables.benchmarks[slug]
        if (comparison := _compare_on(tables, benchmark, entries[slug], flips)) is None:
            refused.append(f"{benchmark.name}: {HIDDEN_LABELS if benchmark.is_hidden else NO_ITEMS}.")
        else:
            comparisons.append(comparison)
    if not comparisons and not refused:
        refused.append("No two of these models were measured on a benchmark in common.")
    tests = iter(correct([test for on in comparisons for test in on["tests"]]))  # Holm's correction over the page
    numbers = ("a", "b", "difference", "p", "p_holm", "test")
    rows: list[tuple[Any, ...]] = [("benchmark", "metric", "n", *numbers)]
    for on in comparisons:
        on["tests"] = list(islice(tests, len(on["tests"])))  # the next corrected ones
        about = (on["benchmark"].label, on["benchmark"].metric, on["n"])
        rows += [(*about, *(getattr(test, number) for number in numbers)) for test in on["tests"]]
    title = f"{len(compared)} models together"
    return Content(title=title, table_rows=rows, models=compared, on=comparisons, refused=refused)


def _compare_on(tables: Tables, benchmark: Benchmark, entries: Sequence[Entry], flips: int) -> dict[str, Any] | None:
    """Compare the models that have outcomes of items by the main metric; None if fewer than two have."""
    metric = benchmark.metric
    models = {tables.models[entry.model].label: tables.models[entry.model] for entry in entries}
    values = {
        name: entry.values[metric].astype(np.float64)
        for name, entry in zip(models, entries, strict=True)
        if metric in entry.values
    }
    if len(values) < 2:
        return None
    clusters = benchmark.items.clusters
    table = np.column_stack(list(values.values()))
    measured = ~np.isnan(table).any(axis=1)  # an item has no value if the metric is of another unit, such as sentences
    ranked: list[dict[str, Any]] = [  # the best first; tier and value are over the items that every model has
        {"title": name, "model": models[name], "value": mean, "tier": tier.rank}
        for tier in rank_outcomes(values, clusters)
        for name, mean in zip(tier.names, tier.means, strict=True)
    ]
    if not ranked:  # no item has a value of every model
        return None
    names = [row["title"] for row in ranked]
    order = [list(values).index(name) for name in names]
    tests = pair_tests(table[measured][:, order], np.array(clusters)[measured], flips=flips)
    return {
        "title": benchmark.title,
        "benchmark": benchmark,
        "n": int(measured.sum()),
        "models": ranked,
        "tests": [
            Content(
                title=f"{names[b]} less {names[a]}",  # b has the higher mean
                a=names[a],
                b=names[b],
                difference=float(difference),
                p=float(p),  # two-sided
                p_holm=float(p),  # corrected later, over all tests of the page
                test=tests.test,
                flips=tests.flips,
            )
            for (b, a), difference, p in zip(tests.pairs.tolist(), tests.differences, tests.p, strict=True)
        ],
    }


#: The most items that are listed for a model, and the most models of which every pair gets a link. Both are small, as a
#: static site has a page for every link.
MOST = 25

#: The most letters of several models' addresses, joined by +: they are the name of a folder in a static site.
_LONGEST = 240


def choose_page(tables: Tables, *, most: int = MOST) -> Content:
    """List the models that have outcomes by item, and link to every pair of them, or of the best if they are many."""
    measured = {entry.model for entry in tables.entries.values() if entry.folder}
    models = sorted((tables.models[slug] for slug in measured), key=lambda model: (model.kind, model.label))
    linked = models if len(models) <= most else _best_models(tables, models, most)
    pairs = [
        choice_links("compare", {"a": a.slug}, "b", {b.slug: f"{a.label} and {b.label}" for b in linked[k + 1 :]})
        for k, a in enumerate(linked[:-1])
    ]
    rivals = [model for model in models if model.kind == "model"]
    best = _best_models(tables, rivals if len(rivals) > 2 else models, MOST_TOGETHER)
    while len(several := "+".join(model.slug for model in best)) > _LONGEST:
        best = best[:-1]
    together = Link(text=f"{len(best)} models together", page="compare_many", args={"models": several})
    return Content(title="Compare models", models=models, pairs=pairs, together=together if len(best) > 2 else None)


def _best_models(tables: Tables, models: Sequence[Model], most: int) -> list[Model]:
    """Return the models that rank highest on the board's first page, in their given order."""
    board = all_benchmarks(tables)
    ranks = {row.model.slug: k for k, row in enumerate((*board.rows, *board.references))}
    best = sorted(models, key=lambda model: ranks.get(model.slug, len(ranks)))[:most]
    return [model for model in models if model in best]


def comparison_page(tables: Tables, a: str, b: str) -> Content:
    """Compare two models on every benchmark that both were measured on."""
    first, second = tables.model(a), tables.model(b)
    if a == b:
        raise UnknownNameError(f"{first.label} is compared with itself; choose two models")
    first_entries, second_entries = ({e.benchmark: e for e in tables.entries_of(model=slug)} for slug in (a, b))
    shared = [slug for slug in tables.benchmarks if slug in first_entries and slug in second_entries]
    refused = [] if shared else [f"{first.label} and {second.label} were measured on no benchmark in common."]
    tests: list[MetricComparison] = []
    differs = []
    by_folders: dict[tuple[Path | None, Path | None], dict[str, Benchmark]] = {}
    for slug in shared:
        folders = (first_entries[slug].folder, second_entries[slug].folder)
        by_folders.setdefault(folders, {})[slug] = tables.benchmarks[slug]
    for folders, benchmarks in by_folders.items():
        listed = ", ".join(benchmark.name for benchmark in benchmarks.values())
        if any(benchmark.is_hidden for benchmark in benchmarks.values()):
            refused.append(f"{listed}: {HIDDEN_LABELS}.")
            continue
        if folders[0] is None or folders[1] is None:
            refused.append(f"{listed}: {NO_ITEMS}.")
            continue
        try:
            compared = compare(folders[0], folders[1]).rows
        except RunError as error:
            refused.append(str(error))
            continue
        labels = {first_entries[slug].name: benchmark.label for slug, benchmark in benchmarks.items()}
        known = [row for row in compared if row.benchmark in labels]
        tests += [row.model_copy(update={"benchmark": labels[row.benchmark]}) for row in known]
        differs += [
            _differing_items(benchmark, first_entries[slug], second_entries[slug])
            for slug, benchmark in benchmarks.items()
        ]
    tests = correct(tests)  # Holm's correction over the page
    numbers = ("n", "a", "b", "difference", "low", "high", "only_a", "only_b", "p", "p_holm")
    names = ("benchmark", "metric", *numbers, "test")
    rows = [names, *(tuple(getattr(test, name) for name in names) for test in tests)]
    return Content(
        title=f"{first.label} and {second.label}",
        table_rows=with_reasons(rows, [test.reason for test in tests]),
        a=first,
        b=second,
        tests=tests,
        differs=differs,
        refused=refused,
    )


def _differing_items(benchmark: Benchmark, a: Entry, b: Entry) -> dict[str, Any]:
    """List the items on which two models' values of the main metric differ, under the model that is better there."""
    metric = benchmark.metric
    first, second = (entry.values.get(metric) for entry in (a, b))
    only: list[list[int]] = [[], []]
    if first is not None and second is not None:
        only = [np.flatnonzero(first > second).tolist(), np.flatnonzero(second > first).tolist()]
    items = benchmark.items.rows
    return {
        "title": benchmark.title,
        "benchmark": benchmark,
        **{f"only_{side}": [(k, items[k].name) for k in rows[:MOST]] for side, rows in zip("ab", only, strict=True)},
        **{f"more_{side}": max(0, len(rows) - MOST) for side, rows in zip("ab", only, strict=True)},
    }


#: Cost in an address -> (its name, the unit on the axis, this unit in the unit of the model's field: ms in s).
COSTS = {
    "latency": ("latency of one pair", "ms", 0.001),
    "parameters": ("parameters", "millions", 1e6),
    "training_images": ("training images", "millions", 1e6),
}

#: The size of the drawing in pixels.
WIDTH, HEIGHT = 640.0, 360.0


def pareto_page(tables: Tables, cost: str, over: str = "") -> Content:
    """Draw performance, the mean over benchmarks, against a cost; reference models and people are not in it."""
    if cost not in COSTS:
        raise UnknownNameError(f"no cost {cost[:200]!r}; there are {', '.join(COSTS)}")
    title, unit, scale = COSTS[cost]
    board = all_benchmarks(tables)
    slugs = {str(column.link.args["slug"]): k for k, column in enumerate(board.columns) if column.link}
    numbers = {slug: getattr(model, cost) for slug, model in tables.models.items()}
    costs = {slug: round(number / scale, 9) for slug, number in numbers.items() if number is not None}
    measured = [
        (row.model, {k: cell.value for k in slugs.values() if (cell := row.cells[k]) and not cell.limited})
        for row in board.rows
        if row.model.slug in costs
    ]
    named = [k for k, column in enumerate(board.columns) if column.link and column.title in tables.settings.performance]
    asked = dict.fromkeys(over.split("+") if over else ())
    if unknown := [slug for slug in asked if slug not in slugs]:
        raise UnknownNameError(f"no benchmark {unknown[0][:200]!r} with a number of a ranked model")
    columns = sorted(slugs[slug] for slug in asked) or named or choose_benchmarks([values for _, values in measured])
    points = [  # (model, performance, cost) of the models that have a cost and a number in every column
        (model, math.fsum(values[k] for k in columns) / len(columns), costs[model.slug])
        for model, values in measured
        if columns and values.keys() >= {*columns}
    ]
    points.sort(key=lambda point: (point[2], -point[1], point[0].label))
    drawn = {model.slug for model, _, _ in points}
    drawing = _draw_points(points)
    counts = {k: sum(k in values for _, values in measured) for k in slugs.values()}
    offered = {slug: k for slug, k in slugs.items() if counts[k] > 1 or k in columns}
    texts = {slug: board.columns[k].title for slug, k in offered.items()}
    page, args = ("pareto_over", {"over": over}) if over else ("pareto", {})
    names = {key: name for key, (name, _, _) in COSTS.items()}
    rows = [(p["title"], p["performance"], p["cost"], "yes" if p["front"] else "no") for p in drawing["points"]]
    return Content(
        title=f"Performance against {title}",
        table_rows=[("model", "performance", f"{title} ({unit})", "on the front"), *rows],
        cost=title,
        key=cost,
        unit=unit,
        over=[f"{board.columns[k].title}: {board.columns[k].about.split(';')[0]}" for k in columns],
        benchmarks=[
            {"title": texts[slug], "slug": slug, "models": counts[k], "chosen": k in columns}
            for slug, k in offered.items()
        ],
        alone=choice_links("pareto_over", {"cost": cost}, "over", texts, over),
        left_out=[row.model.label for row in board.rows if row.model.slug not in drawn],
        choices=choice_links(page, {"cost": cost, **args}, "cost", names, cost),
        **drawing,
    )


def choose_benchmarks(have: Sequence[Collection[int]]) -> list[int]:
    """Return the columns over which a mean covers most numbers: columns times the models that have all of them.

    `have` has the columns of each model. Columns are added one by one, always that which most of the remaining models
    have. Of equal products the one with more models is taken.
    """
    benchmarks: list[int] = []
    best: tuple[int, int, list[int]] = (0, 0, [])
    left, columns = list(have), sorted(set().union(*have))
    while columns and left:
        add = max(columns, key=lambda k: (sum(k in candidate for candidate in left), -k))
        columns.remove(add)
        benchmarks.append(add)
        left = [candidate for candidate in left if add in candidate]
        best = max(best, (len(left) * len(benchmarks), len(left), list(benchmarks)), key=itemgetter(0, 1))
    _, _, chosen = best
    return sorted(chosen)


def _draw_points(measured: Sequence[tuple[Model, float, float]]) -> dict[str, Any]:
    """Return the points of (model, performance, cost), sorted by cost, in pixels, and the axes' ticks."""
    points: list[dict[str, Any]] = []
    size = {"width": WIDTH, "height": HEIGHT}
    if not measured:
        return {"points": points, "line": "", "across": [], "up": [], **size}
    front = pareto_front([[value, -cost] for _, value, cost in measured]).tolist()
    values, costs = _axis_limits([value for _, value, _ in measured]), _axis_limits([cost for _, _, cost in measured])

    def scale(value: float, axis: tuple[float, float], length: float) -> float:
        return round(length * (value - axis[0]) / (axis[1] - axis[0]), 2)

    def height(value: float) -> float:
        return round(HEIGHT - scale(value, values, HEIGHT), 2)

    for (model, value, cost), on_front in zip(measured, front, strict=True):
        x, y = scale(cost, costs, WIDTH), height(value)
        # The label is below the point if it would cover another label (90 x 30 pixels) above it.
        below = any(abs(p["x"] - x) < 90 and 0 <= y - p["y"] < 30 and not p["below"] for p in points)
        numbers = {"performance": value, "cost": cost, "front": on_front, "x": x, "y": y, "below": below}
        points.append({"title": model.label, "model": model, **numbers})
    return {
        "points": points,
        "line": " ".join(f"{point['x']},{point['y']}" for point in points if point["front"]),
        "across": [{"title": f"{v:g}", "at": scale(v, costs, WIDTH)} for v in _axis_ticks(*costs)],
        "up": [{"title": f"{100 * v:g}", "at": height(v)} for v in _axis_ticks(*values)],
        **size,
    }


def _axis_limits(values: Sequence[float]) -> tuple[float, float]:
    """Return the ends of an axis, with some room beyond the values."""
    low, high = min(values), max(values)
    room = 0.12 * (high - low) or 0.1 * abs(high) or 1.0
    return low - room, high + room


def _axis_ticks(low: float, high: float) -> list[float]:
    """Return up to eight round numbers between the ends of an axis."""
    step = 10 ** math.floor(math.log10((high - low) / 2))
    step = next(step * factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= 7)
    return [round(k * step, 12) for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def agreement_page(tables: Tables) -> Content:
    """Compare every two benchmarks by the ranks that they give the models that all of them were measured on."""
    title = "Do benchmarks agree?"
    benchmarks = tables.benchmarks
    numbers = {
        model: {k: Measured(cell.value, cell.n, benchmarks[k].metric) for k, cell in row.items() if not cell.limited}
        for model, row in read_cells(tables, list(benchmarks.values()), "benchmark").items()
        if tables.models[model].kind == "model"
    }
    table = {model: row for model, row in numbers.items() if row}
    try:
        agreement = find_agreement(table)
    except RunError:  # no two benchmarks share enough models
        empty: dict[str, Any] = dict.fromkeys(("lines", "shares", "left_out"), ())
        return Content(title=title, table_rows=[("benchmark",)], models=0, dimensions=0, **empty)
    lines: list[dict[str, Any]] = [
        {
            "title": benchmarks[benchmark.name].label,
            "benchmark": benchmarks[benchmark.name],
            "mean": benchmark.mean,
            "nearest": benchmarks[benchmark.nearest].label,
            "nearest_correlation": benchmark.nearest_correlation,
            "items_needed": benchmark.items_needed,  # would rank these models with a reliability of 0.9
            "correlations": correlations,
            "shades": [max(0, round(10 * value)) for value in correlations],  # a negative one has none
        }
        for benchmark, correlations in zip(agreement.benchmarks, agreement.correlations, strict=True)
    ]
    rows = [("benchmark", *(line["title"] for line in lines))]
    return Content(
        title=title,
        table_rows=[*rows, *((line["title"], *line["correlations"]) for line in lines)],
        lines=lines,  # neighbours alike
        left_out=[benchmarks[slug].label for slug in agreement.left_out],
        **{name: getattr(agreement, name) for name in ("models", "shares", "dimensions")},
    )


#: Pixels between two columns, and between two places, of the drawing of ranks.
STEP, ROW = 190.0, 26.0

#: The most models in a drawing: no eye follows more lines.
MOST_LINES = 40


def ranks_page(tables: Tables, slug: str = "") -> Content:
    """Show the places of models on every benchmark, or by every headline metric of one."""
    if slug:
        board = leaderboard(tables, slug)
        title = f"{board.title}: how the ranking changes between metrics"
    else:
        board, title = all_benchmarks(tables), "How the ranking changes between benchmarks"
    linked = [k for k, column in enumerate(board.columns) if column.link]
    columns = [k for k in linked or range(len(board.columns)) if board.columns[k].ranked]
    cells = [[row.cells[k] for row in board.rows] for k in columns]
    places = [rank_places([cell.value if cell and not cell.limited else None for cell in column]) for column in cells]
    ranks = {row.model: tuple(column[k] for column in places) for k, row in enumerate(board.rows)}
    ranks = {model: line for model, line in ranks.items() if any(line)}
    candidates, _ = _choose_drawn(ranks)
    best = [model for model in ranks if model in candidates][:MOST_LINES]  # rows come best first
    models, shown = _choose_drawn({model: ranks[model] for model in best})
    drawn: Mapping[Model, Sequence[int | None]] = ranks
    if len(best) < len(candidates):  # drawn are the places of the best among themselves
        columns_of_best = zip(*(ranks[model] for model in best), strict=True)
        among = [rank_places([None if rank is None else -rank for rank in column]) for column in columns_of_best]
        drawn = dict(zip(best, zip(*among, strict=True), strict=True))
    lines = [
        _model_line(model, line, [drawn[model][k] for k in shown] if model in models else [])
        for model, line in ranks.items()
    ]
    last = len(lines) + 1  # in the place of a missing rank, after all others
    lines.sort(key=lambda line: (not line["segments"], [rank or last for rank in line["ranks"]], line["title"]))
    titles = [board.columns[k].title for k in columns]
    return Content(
        title=title,
        table_rows=[("model", *titles), *((line["title"], *line["ranks"]) for line in lines)],
        columns=titles,
        links=[board.columns[k].link for k in columns],
        lines=lines,
        undrawn=len(candidates) - len(best),
        drawn=[titles[k] for k in shown],
        width=STEP * max(0, len(shown) - 1),
        height=max((y for line in lines for _, y in line["ends"]), default=0.0) + ROW,
    )


def _choose_drawn(ranks: Mapping[Model, Sequence[int | None]]) -> tuple[set[Model], list[int]]:
    """Return the drawing's models, which have places in two of its columns, and columns, with places of two models."""
    models, columns = set(ranks), list(range(max(map(len, ranks.values()), default=0)))
    while True:
        ranked = {model for model in models if sum(ranks[model][k] is not None for k in columns) > 1}
        left = [k for k in columns if sum(ranks[model][k] is not None for model in ranked) > 1]
        if (ranked, left) == (models, columns):
            return ranked, left
        models, columns = ranked, left


def _model_line(model: Model, ranks: Sequence[int | None], drawn: Sequence[int | None]) -> dict[str, Any]:
    """Return a model's ranks, and its line through its places `drawn` in the columns of the drawing, if any."""
    points = [None if rank is None else (STEP * k, ROW * rank) for k, rank in enumerate(drawn)]
    # A line is broken at a column without a place: its unbroken runs of points.
    runs = [[point for point in run if point] for is_placed, run in groupby(points, bool) if is_placed]
    present = [rank for rank in ranks if rank is not None]
    return {
        "title": model.label,
        "model": model,
        "ranks": ranks,
        "change": present[-1] - present[0] if len(present) > 1 else None,  # positive if it falls
        "segments": [" ".join(f"{x},{y}" for x, y in run) for run in runs],
        "starts": [run[0] for run in runs],
        "ends": [point for run in runs for point in run],
    }
