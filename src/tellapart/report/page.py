"""The report, and the page of items: self-contained HTML files that need no network.

Tables and drawings are made here and need no JavaScript; the item browser works from JSON embedded in the page. Names,
captions and ids are untrusted: the template escapes them, the JSON holds no `<`, and the script builds text nodes only.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tellapart.diagnosis.item_analysis import ItemAnalysis, ItemOutcomes, ItemRow
from tellapart.diagnosis.probes import ProbeRow
from tellapart.errors import RunError, plain
from tellapart.evaluation.systems import label_runs
from tellapart.records.result import Sample
from tellapart.records.run_folder import file_name
from tellapart.report.benchmark_runs import (
    BenchmarkRuns,
    ReportRun,
    arrange_runs,
    first_breakdown,
    heat_map,
    is_above_chance,
)
from tellapart.report.charts import score_bar
from tellapart.report.conclusions import ALPHA, MOST_SINGLE, Conclusion, Rivals, conclude, conclude_all, rivals_of
from tellapart.report.diagnoses import explain_section, place_items, reason_rows, tag_curves, write_threshold
from tellapart.report.followed import Checkpoint, draw_points, sort_points
from tellapart.report.image_sources import Album, album
from tellapart.report.items import MOST_ITEMS, browsed_items, item_table, model_table
from tellapart.report.plots.curves import RADIUS, section_curves
from tellapart.report.tables import MODEL_COLUMNS, name_model
from tellapart.report.templates import make_environment, number_functions, write_lines
from tellapart.tasks.registry import METRICS

if TYPE_CHECKING:
    from jinja2 import Environment


#: Items under a heading; reference models that see no picture, the stronger first: it knows the true caption's words.
_MOST_TELLING, _BLIND = 3, ("bag-of-words", "blind")


class TellingItems(NamedTuple):
    """A heading that names the models that are right and wrong, and such items: their positions in the section."""

    title: str
    positions: tuple[int, ...]


def telling_items(section: BenchmarkRuns, rivals: Rivals) -> tuple[TellingItems, ...]:
    """Choose the items that the best model gets most surely, and those that it fails worst, of different tags.

    Those that it gets are items that a reference model of words alone fails, if there is one.
    """
    best, main = rivals.ranking[0], section.main
    if section.record.shape is None or not all(main in sample.outcomes for sample in best.samples):
        return ()
    order = section.worst([best])
    right = [item for item in reversed(order) if best.samples[item].outcomes[main] == 1]
    wrong = [item for item in order if best.samples[item].outcomes[main] == 0]
    title = f"{best.label} is right"
    references = (entry for name in _BLIND for entry in section.entries if entry.name == name and entry is not best)
    for entry in references:
        if lost := [item for item in right if entry.samples[item].outcomes.get(main) == 0]:
            right, title = lost, f"{title}, {entry.label} is wrong"
            break
    tag = first_breakdown({section.entries[0].label: section.record}, section.name)

    def spread(items: Sequence[int]) -> tuple[int, ...]:
        """Return the first items of different values of the tag, then the first of the others."""
        first_of: dict[str | None, int] = {}
        for item in items:
            first_of.setdefault(section.samples[item].tags.get(tag or ""), item)
        return tuple(dict.fromkeys((*first_of.values(), *items)))[:_MOST_TELLING]

    groups = ((title, right), (f"{best.label} is wrong", wrong))
    return tuple(TellingItems(name, spread(items)) for name, items in groups if items)


#: Units of one noun (a task's word, such as "question") that the page shows, and characters of an output, at most.
MOST_EXAMPLES, _LONGEST = 40, 160


class TaskExamples(NamedTuple):
    """The units of one noun that are the worst by a metric, of `total`: each with the models' outputs and values."""

    noun: str
    metric: str
    total: int
    rows: list[tuple[Sample, list[tuple[str, float]]]]


def examples(section: BenchmarkRuns) -> list[TaskExamples]:
    """Choose for every noun of a task the units with the lowest values of their first metric; none of pairs."""
    rows_of: dict[str, list[int]] = {}
    for row, sample in enumerate(section.samples if section.record.shape is None else ()):
        rows_of.setdefault(sample.unit, []).append(row)
    tables = []
    for noun, rows in rows_of.items():
        outcomes_of = {row: [entry.samples[row].outcomes for entry in section.entries] for row in rows}
        measured = {row: outcomes for row, outcomes in outcomes_of.items() if all(outcomes)}  # for every model
        if (metric := next((name for outcomes in measured.values() for name in outcomes[0]), None)) is None:
            continue
        values = {row: [of_model.get(metric, 0.0) for of_model in outcomes] for row, outcomes in measured.items()}
        worst = []
        for row in sorted(values, key=lambda row: (sum(values[row]), row))[:MOST_EXAMPLES]:
            outputs = (_shorten(entry.samples[row].output) for entry in section.entries)
            worst.append((section.samples[row], [*zip(outputs, values[row], strict=True)]))
        tables.append(TaskExamples(noun, metric, len(values), worst))
    return tables


def _shorten(output: Any) -> str:
    if isinstance(output, dict) and output.keys() == {"rank", "first"}:
        output = output["rank"]  # a query's place; the first entries of its gallery are shown on the board alone
    text = "" if output is None else output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


#: Characters of the file that pictures of items to browse may take, unless the caller gives another number; and those
#: that the pictures at the head of a section may take, which do not count as the former.
IMAGE_BUDGET, HEAD_BUDGET = 24_000_000, 1_000_000

#: Values of a tag that may be columns of the first table; and values that its list may have to filter items by.
MOST_PARTS, MOST_VALUES = 8, 500


class ReportPage(NamedTuple):
    """A report, and the conclusions from its numbers, of each benchmark."""

    html: str
    conclusions: tuple[Conclusion, ...]


def make_page(
    runs: Sequence[ReportRun],
    *,
    image_budget_bytes: int = IMAGE_BUDGET,
    checkpoints: Sequence[Checkpoint] = (),
    reload: float | None = None,
    probes: Sequence[ProbeRow] = (),
) -> ReportPage:
    """Return the report's HTML, and the sentences with which it begins; the curves of checkpoints follow them.

    A benchmark's section has the rows of its probes.
    """
    all_sections = arrange_runs(runs)
    if not all_sections:
        raise RunError(f"a report needs at least one run that measured a benchmark; got {len(runs)} runs")
    views: list[dict[str, Any]] = []
    for position, section in enumerate(all_sections):
        rivals = rivals_of(section)
        telling = telling_items(section, rivals)
        first = [item for group in telling for item in group.positions]
        head = _collect_pictures(section, first, HEAD_BUDGET) if first else Album()
        browsed = browsed_items(section.worst(section.entries), MOST_ITEMS) if section.record.shape else []
        # The worst items take their pictures first. A section's unused share goes to the sections after it.
        pictures = _collect_pictures(section, browsed, image_budget_bytes // (len(all_sections) - position))
        image_budget_bytes -= pictures.size
        views.append(_make_view(section, rivals, sorted(browsed), pictures) | {"telling": telling, "head": head})
    names = label_runs([run.result.model.name for run in runs])
    browsers = [view for view in views if view["section"].record.shape]
    sections_of = [_make_data(view["section"], view["browsed"], view["album"]) for view in browsers]
    data = {"models": names, "sections": sections_of} | ({"reload": reload} if reload else {})
    conclusions, followed = tuple(view["conclusion"] for view in views), sort_points(checkpoints)
    html = (
        page_environment()
        .get_template("template.html.j2")
        .render(
            runs=[(name, run.result) for name, run in zip(names, runs, strict=True)],
            views=views,
            data=data,
            figures=[draw_points(benchmark, points) for benchmark, points in followed.items()],
            training=followed,
            probes=probes,
            overall=conclude_all(conclusions) if len(conclusions) > MOST_SINGLE else (),
        )
    )
    return ReportPage(html, conclusions)


def _make_view(section: BenchmarkRuns, rivals: Rivals, browsed: Sequence[int], pictures: Album) -> dict[str, Any]:
    """Return a section's facts for the template: the items to browse and their pictures, and its tables by tag."""
    column_tag = first_breakdown(section.records, section.name, most=MOST_PARTS)  # of the first table
    columns = dict.fromkeys(part for record in section.records.values() for part in record.by.get(column_tag or "", ()))
    ranked = {entry.label: entry.record for entry in rivals.ranking}
    heat_tag = first_breakdown(ranked, section.name)
    counts: dict[str, Counter[str]] = {}
    for position in browsed:
        for tag, value in section.samples[position].tags.items():
            counts.setdefault(tag, Counter())[value] += 1
    return {
        "section": section,
        "album": pictures,
        "browsed": browsed,
        "rivals": rivals,
        "conclusion": conclude(section, rivals),
        # The metric that ranks the models, then the others of a first look.
        "columns": tuple(name for name in dict.fromkeys((section.main, *section.headline)) if name),
        "parts": None if column_tag is None else (column_tag, tuple(columns)),
        "heat": heat_map(ranked, section.name, section.main, heat_tag)
        if heat_tag and len(ranked) > 1 and section.main
        else None,
        "tag_curves": tag_curves(section.name, section.main, rivals.ranking),
        # Tag -> value -> items to browse, for the filters.
        "tags": {tag: dict(sorted(of.items())) for tag, of in sorted(counts.items()) if len(of) <= MOST_VALUES},
    }


def _make_data(section: BenchmarkRuns, browsed: Sequence[int], pictures: Album) -> dict[str, Any]:
    """Return the data of the page's script."""
    outcomes, record = section.outcomes, section.record
    return {
        "anchor": section.anchor,
        "name": section.name,
        "shape": (*(record.shape or ()), *([record.true] if record.true > 1 else [])),
        "headline": [name for name in section.headline if name in outcomes],
        "items": item_table([section.samples[position] for position in browsed], pictures.index),
        "models": [
            {
                "model": entry.model,
                "kind": entry.record.kind,
                **model_table(
                    [entry.samples[position] for position in browsed],
                    [name for name in outcomes if name in entry.samples[0].outcomes],
                ),
            }
            for entry in section.entries
        ],
    }


def _collect_pictures(section: BenchmarkRuns, positions: Sequence[int], budget: int) -> Album:
    """Collect the pictures of a task's examples, then of the items at `positions`, until the budget is used."""
    read = next((entry.run.read_image for entry in section.entries if entry.run.read_image), None)
    if read is None:
        return Album()
    shown = [sample for table in examples(section) for sample, _ in table.rows]
    shown += [section.samples[position] for position in positions]
    return album((sample.images for sample in shown), partial(read, section.name), budget)


@cache
def page_environment() -> Environment:
    """Return the environment of the pages' templates, which escapes all text and knows how numbers are written."""
    from jinja2 import PackageLoader

    loader = PackageLoader("tellapart.report", "")
    environment = make_environment(loader)
    functions = (
        examples, explain_section, file_name, is_above_chance, name_model, place_items, reason_rows, score_bar,
        section_curves, write_threshold,
    )  # fmt: skip
    environment.globals |= number_functions() | {function.__name__: function for function in functions}
    environment.globals |= {"asset": lambda name: loader.get_source(environment, name)[0], "json": _write_json}
    environment.globals |= {"dot_radius": RADIUS, "alpha": ALPHA, "model_columns": MODEL_COLUMNS, "metrics": METRICS}
    return environment


def _write_json(value: object) -> str:
    # Inside <script> only `<` could end the element or open a comment; JSON may write it as an escape.
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


#: Rows of the items to check on the terminal and on the page, and systems that an item's card names, at most.
_MOST_SUSPECTS, _MOST_ROWS, _MOST_NAMES = 10, 25, 12


def first_to_check(analysis: ItemAnalysis, most: int = _MOST_SUSPECTS) -> list[ItemRow]:
    """Return the items whose labels are to be checked first: those with the lowest p, then discrimination."""
    rated = [row for row in analysis.items if row.discrimination is not None]  # these have a p, too
    return sorted(rated, key=lambda row: (row.p or 0.0, row.discrimination or 0.0, row.id))[:most]


def make_item_page(
    analysis: ItemAnalysis,
    outcomes: ItemOutcomes,
    read_image: Callable[[str], bytes] | None = None,
    *,
    budget: int = IMAGE_BUDGET,
) -> str:
    """Return the page of a benchmark's items as one HTML file."""
    rows, systems = analysis.items, np.array(outcomes.systems, object)
    order = sorted(range(len(rows)), key=lambda k: (rows[k].p is None, rows[k].p or 0.0, k))
    return (
        page_environment()
        .get_template("items.html.j2")
        .render(
            analysis=analysis,
            lines=[*map(plain, write_lines("suspects", analysis=analysis))],
            items=outcomes.items,
            album=album([outcomes.items[k].images for k in order], read_image, budget) if read_image else Album(),
            right=[systems[values == 1].tolist() for values in outcomes.values],
            most_names=_MOST_NAMES,
            first=first_to_check(analysis, _MOST_ROWS),
            number_of={row.id: number for number, row in enumerate(rows)},
        )
    )
