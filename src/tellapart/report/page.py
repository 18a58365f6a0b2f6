"""The report: one self-contained HTML file that needs no network.

Tables and drawings are made here and need no JavaScript; the item browser works from JSON embedded in the page. Names,
captions and ids are untrusted: the template escapes them, the JSON holds no `<`, and the script builds text nodes only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tellapart.records.result import Sample
from tellapart.records.run_folder import file_name, write_text_file
from tellapart.report import numbers
from tellapart.report.answers import TaskExamples, examples
from tellapart.report.charts import score_bar
from tellapart.report.items import MOST_ITEMS, ends, item_table, model_table
from tellapart.report.pictures import Album, album
from tellapart.report.sections import ReportRun, Section, label_runs, sections
from tellapart.tasks.registry import METRICS

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["IMAGE_BUDGET", "ReportRun", "render", "write_report"]

#: Characters that pictures may take in the file, unless the caller says otherwise.
IMAGE_BUDGET = 24_000_000

#: A tag with more values than this has no list of them; the search finds its items.
MOST_VALUES = 500


def write_report(path: Path, runs: Sequence[ReportRun], *, image_budget_bytes: int = IMAGE_BUDGET) -> None:
    """Write the report of one or several models atomically as one HTML file.

    Args:
        path: the file; its folder is made.
        runs: the models, the one to show first at the head.
        image_budget_bytes: what pictures may take of the file; the worst items of every model come first, and the
            page says how many items show none.

    Raises:
        RunError: no run, samples that do not match their record, or a file that cannot be written.
    """
    write_text_file(path, render(runs, image_budget_bytes=image_budget_bytes))


def render(runs: Sequence[ReportRun], *, image_budget_bytes: int = IMAGE_BUDGET) -> str:
    """Return the report's HTML.

    Raises:
        RunError: no run, or samples that do not match their record.
    """
    all_sections = sections(runs)
    views = []
    for position, section in enumerate(all_sections):
        # What one benchmark does not use of its share goes to those after it.
        browsed = ends(section.worst(), MOST_ITEMS) if section.record.shape else []
        pictures = _pictures(section, browsed, image_budget_bytes // (len(all_sections) - position))
        image_budget_bytes -= pictures.size
        views.append(_View(section, pictures, sorted(browsed)))
    names = label_runs([run.result.model.name for run in runs])
    data = {"models": names, "sections": [view.data() for view in views if view.section.record.shape]}
    return (
        _environment()
        .get_template("template.html.j2")
        .render(
            runs=[(name, run.result) for name, run in zip(names, runs, strict=True)],
            views=views,
            data=data,
        )
    )


@dataclass(frozen=True, slots=True)
class _View:
    """A section, its pictures, and the positions of the items to browse, as the template reads them."""

    section: Section
    album: Album
    browsed: Sequence[int]

    @property
    def examples(self) -> tuple[TaskExamples, ...]:
        return examples(self.section)

    @property
    def has_images(self) -> bool:
        return any(sample.images for sample in self.section.samples)

    @property
    def tags(self) -> dict[str, dict[str, int]]:
        """Tag -> value -> items to browse, for the filters."""
        count: dict[str, dict[str, int]] = {}
        for sample in self._of(self.section.samples):
            for tag, value in sample.tags.items():
                values = count.setdefault(tag, {})
                values[value] = values.get(value, 0) + 1
        return {
            tag: dict(sorted(values.items())) for tag, values in sorted(count.items()) if len(values) <= MOST_VALUES
        }

    def _of(self, samples: Sequence[Sample]) -> list[Sample]:
        return [samples[position] for position in self.browsed]

    def data(self) -> dict[str, Any]:
        """Return what the page's script reads."""
        section = self.section
        outcomes = section.outcomes
        return {
            "anchor": section.anchor,
            "name": section.name,
            "shape": section.record.shape,
            "headline": [name for name in section.headline if name in outcomes],
            "items": item_table(self._of(section.samples), self.album.index),
            "models": [
                {
                    "model": entry.model,
                    "kind": entry.record.kind,
                    **model_table(
                        self._of(entry.samples),
                        [name for name in outcomes if name in entry.samples[0].outcomes],
                    ),
                }
                for entry in section.entries
            ],
        }


def _pictures(section: Section, browsed: Sequence[int], budget: int) -> Album:
    read = next((entry.run.read_image for entry in section.entries if entry.run.read_image), None)
    if read is None:
        return Album((), {}, 0, ())
    items: Iterable[Sequence[str]]
    if section.record.shape is None:
        items = [row.images for table in examples(section) for row in table.rows]
    else:
        items = (section.samples[position].images for position in browsed)
    return album(items, partial(read, section.name), budget)


def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(_asset),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "asset": _asset,
        "json": _json,
        "score_bar": score_bar,
        "file_name": file_name,
        "metrics": METRICS,
        **{name: getattr(numbers, name) for name in ("deviation", "interval", "is_deviation", "percent", "thousands")},
    }
    return environment


def _asset(name: str) -> str:
    return files("tellapart.report").joinpath(name).read_text(encoding="utf-8")


def _json(value: Any) -> str:
    # Inside <script> only `<` could end the element or open a comment; JSON may write it as an escape.
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")
