"""Why models fail: items by reason, the shares of match and priors, and how models differ."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from tellapart.catalog import REFERENCES
from tellapart.diagnosis.why import (
    COLLAPSE,
    SHARES,
    Reasons,
    Why,
    bound_outcomes,
    measure_reasons,
    read_squares,
)
from tellapart.metrics.matching import Reason
from tellapart.records.result import Value
from tellapart.report.numbers import interval, percent
from tellapart.report.sections import Section
from tellapart.report.terminal import print_template

#: Items in the report's picture of a model.
MOST_POINTS = 1000

_SHORT = dict(zip(Reason, ("right", "caption's prior", "picture's prior", "both priors", "no match"), strict=True))
_SHARE_TITLES = dict(zip(SHARES, ("the match", "the captions", "the pictures"), strict=True))


def print_why(why: Why, *, by: str | None = None) -> None:
    """Print each model's items by reason, with 95% intervals; with `by`, a row for each value of that tag, too."""
    sets: dict[str, list[Reasons]] = {}
    for row in why.rows:
        sets.setdefault(row.benchmark, []).append(row)
    shown = {"reason_rows": reason_rows, "reasons": _SHORT, "right": Reason.RIGHT, "bounds": _range}
    print_template("why", why=why, sets=sets, by=by, **shown)


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


def _range(value: Value, most: Value) -> str:
    return percent(value.value) if value.value == most.value else f"{percent(value.value)} to {percent(most.value)}"
