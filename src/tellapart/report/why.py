"""Why models fail, on the terminal: items by reason, the shares of match and priors, and how models differ."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import numpy as np

from tellapart.catalog import REFERENCES
from tellapart.diagnosis.why import (
    COLLAPSE,
    SHARES,
    Debiased,
    Reasons,
    Why,
    bound_outcomes,
    measure_reasons,
    read_squares,
)
from tellapart.errors import plain
from tellapart.metrics.matching import Reason
from tellapart.records.result import Value
from tellapart.report.numbers import interval, percent, points
from tellapart.report.sections import Section
from tellapart.report.terminal import print_lines, print_tables, table

#: Items in the report's picture of a model.
MOST_POINTS = 1000

_SHORT = dict(zip(Reason, ("right", "caption's prior", "picture's prior", "both priors", "no match"), strict=True))
_SHARE_TITLES = dict(zip(SHARES, ("the match", "the captions", "the pictures"), strict=True))


def print_why(why: Why, *, by: str | None = None) -> None:
    """Print each model's items by reason, with 95% intervals; with `by`, a row for each value of that tag, too."""
    for name in dict.fromkeys(row.benchmark for row in why.rows):
        rows = [row for row in why.rows if row.benchmark == name]
        cells: Iterable[Sequence[str]] = ((head, *numbers) for head, numbers in reason_rows(rows))
        heads = ("percent of items", *(row.model for row in rows))
        print_tables(table(*heads, numbers_from=1, title=plain(name), rows=cells))
        print_lines(*why_lines(rows))
        for row, tag in ((row, by) for row in rows if by is not None):
            most = (row.at_most or row).by.get(tag, {})
            cells = (
                (value, f"{metrics[Reason.RIGHT].n:,}", *(_range(metrics[of], most[value][of]) for of in Reason))
                for value, metrics in row.by.get(tag, {}).items()
            )
            title = f"{plain(row.model)}: percent of items"
            print_tables(table(tag, "items", *_SHORT.values(), numbers_from=1, title=title, rows=cells))
        differences = [
            (row.a, row.b, row.what, points(row.difference, row.low, row.high), row.p_holm_text)
            for row in why.differences
            if row.benchmark == name
        ]
        if differences:
            print_tables(table("a", "b", "items that", "b - a, points", "p (Holm)", numbers_from=3, rows=differences))
        _print_debiased([row for row in why.debiased if row.benchmark == name])


def explain_section(section: Section) -> list[Reasons]:
    """Return the reasons of each model of a report's section; none if no item is a square of scores or outcomes."""
    rows = []
    models = [entry for entry in section.entries if entry.run.result.model.name not in REFERENCES]
    for entry in models or section.entries:
        samples = [replace(sample, tags={}) for sample in entry.samples]
        squares, left_out = read_squares(samples)
        if squares:
            rows.append(measure_reasons(entry.label, section.name, entry.record, squares, left_out)[0])
        else:
            rows += bound_outcomes(entry.label, section.name, samples)
    return rows


def place_items(row: Reasons, browsed: Collection[int]) -> tuple[str, list[tuple[float, float, str, str, bool]]]:
    """Return the reach of a picture's axes; of items spread evenly x, y, id, reason and whether the page has it."""
    reach = float(f"{np.quantile([max(abs(d), p) for _, d, p, _ in row.items], 0.95, method='higher') or 1.0:.2g}")
    here, points = {*browsed}, []
    count = min(MOST_POINTS, len(row.items))
    for k in (number * len(row.items) // count for number in range(count)):
        id_, match, prior, reason = row.items[k]
        x, y = 46 + 366 * min(prior / reach, 1.0), 195 - 187 * min(max(match / reach, -0.5), 1.0)
        points.append((round(x, 1), round(y, 1), id_, Reason(reason).label, k in here))
    return f"{reach:g}", points


def reason_rows(rows: list[Reasons]) -> list[tuple[str, list[str]]]:
    """Return the rows of the table: heading, and a cell for each model."""

    def write(value: Value, most: Value) -> str:
        both = value.model_copy(update={"high": most.high})
        return _range(value, most) if value.low is None else f"{_range(value, most)} {interval(both)}"

    cells = [{name: write(value, most) for name, value, most in row.bounds()} for row in rows]
    heads = {reason: reason.label for reason in Reason} | {"match_score": "match score"}
    if any(row.at_most is None for row in rows):
        heads |= {name: f"squares of scores: {title}" for name, title in _SHARE_TITLES.items()}
    heads |= {name: words for name, words in COLLAPSE.items() if any(name in cell for cell in cells)}
    return [(head, [cell.get(name, "") for cell in cells]) for name, head in heads.items()]


def why_lines(rows: list[Reasons]) -> list[str]:
    """Return the lines under the table: items and clusters, the scale of scores, what was left out."""
    lines = []
    for row in rows:
        name = plain(row.model)
        chance = row.match_score.chance or 0.0
        lines.append(f"{name}: {row.n:,} items; chance of the match score is {percent(chance)}; scale: {row.scale}")
        if row.changed_by_scale is not None:
            lines.append(
                f"{name}: the match of {row.changed_by_scale:,} items differs between probabilities and logits"
            )
        if row.left_out:
            lines.append(f"{name}: {row.left_out:,} units left out, which are no square of pictures and captions")
    if any(row.at_most for row in rows):
        lines.append(
            "x to y: answers and outcomes alone bound a number; intervals go from the low of x to the high of y."
        )
    if any(row.shares for row in rows):
        lines.append("The pictures' share holds how much the two pictures of an item differ in themselves, too.")
    return lines


def _range(value: Value, most: Value) -> str:
    return percent(value.value) if value.value == most.value else f"{percent(value.value)} to {percent(most.value)}"


def _print_debiased(rows: list[Debiased]) -> None:
    if not rows:
        return
    cells = (
        (row.model, "both" if row.prior == "both" else f"means of the {row.prior}", percent(row.group_score),
         points(row.gain.value, row.gain.low, row.gain.high), *(f"{weight:.2f}" for weight in row.weights))
        for row in rows
    )  # fmt: skip
    heads = ("model", "subtracted", "group score", "gain, points", "weights: pictures", "captions")
    print_tables(table(*heads, numbers_from=2, rows=cells))
    print_lines(f"Means are over {rows[0].unrelated:,} unrelated captions or pictures, weights from other folds.")
