"""The page of a training run, `report.html` in its folder: its gains and losses, its curves, and its settings.

One self-contained HTML file without scripts; the other files of the run's folder are linked. Names are untrusted:
the template escapes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from tellapart.evaluation.compare import MetricComparison
from tellapart.records.run_folder import RESULTS, write_text_file
from tellapart.report.numbers import points
from tellapart.report.page import page_environment
from tellapart.report.show import write_run_report
from tellapart.training.model_card import settings_of
from tellapart.training.record import RECORD, TrainRecord
from tellapart.training.report.curves import log_charts, sweep_chart, write_curves
from tellapart.training.run_files import RunFiles

__all__ = ["PAGE", "difference_bar", "write_progress", "write_training_report"]

#: The page's name in the run's folder.
PAGE = "report.html"


def write_training_report(folder: Path, record: TrainRecord, *, outside: bool = False) -> Path:
    """Write `report.html` and the curves of a training run's folder; return the page's path.

    The run folder of the measurements before and after, `report/`, gets a separate report, which shows the items.

    Args:
        folder: the training run's.
        record: its record.
        outside: images may lie outside of the folders of their sets, as of `Locations`.

    Raises:
        RunError: the log is missing or damaged, the run folder's records are, or a file cannot be written.
    """
    run_files = RunFiles(folder)
    if (run_files.report / RESULTS).is_file():
        write_run_report(run_files.report, outside=outside)
    write_curves(run_files, record.sweep)
    charts = log_charts(run_files.log_path)
    if record.sweep is not None:
        charts.append(sweep_chart(record.sweep))
    rows = record.comparison.rows if record.comparison else ()
    ends = [abs(end) for row in rows for end in (row.low, row.high, row.difference) if end is not None]
    text = (
        page_environment()
        .from_string(files("tellapart.training.report").joinpath("page.html.j2").read_text(encoding="utf-8"))
        .render(
            record=record,
            groups=_by_benchmark(rows),
            reach=max(ends, default=0.0),
            difference_bar=difference_bar,
            points=points,
            figures=charts,
            settings=[(key, str(value)) for key, value in settings_of(record)],
            links=list(_file_links(run_files, record)),
        )
    )
    path = folder / PAGE
    write_text_file(path, text)
    return path


def write_progress(run_files: RunFiles, name: str, done: int, total: int) -> None:
    """Write the page of a run that still trains, which loads itself again; `write_training_report` ends it.

    Raises:
        RunError: the log is damaged, or the page cannot be written.
    """
    text = (
        page_environment()
        .from_string(files("tellapart.training.report").joinpath("progress.html.j2").read_text(encoding="utf-8"))
        .render(name=name, done=done, total=total, now=datetime.now(UTC), figures=log_charts(run_files.log_path))
    )
    write_text_file(run_files.folder / PAGE, text)


class _Link(NamedTuple):
    path: str
    what: str


def _file_links(files: RunFiles, record: TrainRecord) -> Iterator[_Link]:
    """Yield the files of the run's folder, relative to it."""
    alphas = record.sweep.curve if record.sweep else ()
    known = [
        (files.report / PAGE, "every item of the trained model, its start beside it"),
        (files.report, "their run folder, which tellapart show, compare, table and plot read"),
        *((files.sweep / f"alpha-{alpha:.2f}" / "report", f"the run folder of alpha {alpha:.2f}") for alpha in alphas),
        (files.model / "README.md", "the model card, beside the model"),
        (files.log_path, "the numbers of each step"),
        (files.folder / RECORD, "all that this page is made from, but the log"),
    ]
    for path, what in known:
        if path.exists():
            yield _Link(path.relative_to(files.folder).as_posix() + ("/" if path.is_dir() else ""), what)


def _by_benchmark(rows: Sequence[MetricComparison]) -> dict[str, list[MetricComparison]]:
    groups: dict[str, list[MetricComparison]] = {}
    for row in rows:
        groups.setdefault(row.benchmark, []).append(row)
    return groups


def difference_bar(difference: float, low: float | None, high: float | None, reach: float) -> Markup:
    """Draw a difference and its interval around zero; the bar goes from -reach to reach.

    >>> bar = difference_bar(0.1, 0.05, 0.2, 0.2)
    >>> 'class="range better" x="62.5"' in bar, 'class="point" x1="75"' in bar
    (True, True)
    """

    def across(value: float) -> float:
        return round(50 + 50 * value / (reach or 1.0), 2)

    parts = [
        '<svg class="bar" viewBox="-3 0 106 12" preserveAspectRatio="none" aria-hidden="true" focusable="false">'
        '<line class="track" x1="0" x2="100" y1="6" y2="6"/>'
    ]
    if low is not None and high is not None:
        sure = " better" if low > 0 else " worse" if high < 0 else ""
        width = across(high) - across(low)
        parts.append(f'<rect class="range{sure}" x="{across(low):g}" y="3.5" width="{width:.4g}" height="5"/>')
    x = f"{across(difference):g}"
    parts.append('<line class="chance" x1="50" x2="50" y1="0" y2="12"/>')
    parts.append(f'<line class="point" x1="{x}" x2="{x}" y1="1.5" y2="10.5"/></svg>')
    return Markup("".join(parts))  # noqa: S704  (numbers only)
