"""Reports of runs: the page `report.html`, and tables on the terminal, readable in 100 columns."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from tellapart.benchmarks.probes import PREFIXES
from tellapart.catalog import DEFAULT_MODEL, REFERENCES
from tellapart.data.strict_json import collector_paused
from tellapart.diagnosis.probes import ProbeRow, probe_rows
from tellapart.diagnosis.samples import samples_rows
from tellapart.errors import DataError, TellapartError, plain
from tellapart.evaluation.systems import System, gather, omit_references
from tellapart.evaluation.verified import read_result
from tellapart.models.generative.sampling import read_sampled
from tellapart.records.machine import versions
from tellapart.records.result import Result, is_imported
from tellapart.records.run_folder import FOLLOWED, find_runs, read_stored, write_text_file
from tellapart.records.samples import read_samples
from tellapart.report.benchmark_runs import (
    BenchmarkRuns,
    ReportRun,
    arrange_runs,
    first_breakdown,
    heat_map,
    shared_headline,
)
from tellapart.report.conclusions import MOST_SINGLE, WORDS_ALONE, Conclusion, answer_lines
from tellapart.report.followed import choose_shown, read_checkpoints, sort_points
from tellapart.report.image_sources import ImageSources, bundle_picture
from tellapart.report.numbers import describe_ties, is_deviation, is_even, percent, score
from tellapart.report.page import ReportPage, make_page
from tellapart.report.paper_tables.table import paper_layout
from tellapart.report.tables import Table
from tellapart.report.templates import write_lines
from tellapart.report.terminal import console, print_lines, print_tables, print_template, tables_of
from tellapart.tasks.registry import headline, main_metric

if TYPE_CHECKING:
    from tellapart.evaluation.verify import Check


#: The file of the page, and the prefix of every picture in it.
REPORT, _EMBEDDED = "report.html", "data:image/"


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """A run's page (None if no numbers have items), its conclusions, and a line for each set without its images."""

    path: Path | None
    conclusions: tuple[Conclusion, ...] = ()
    warnings: tuple[str, ...] = ()


@collector_paused()
def write_run_report(
    folder: Path,
    *,
    bundle: bool = False,
    outside: bool = False,
    reload: float | None = None,
    results: Mapping[Path, Result] | None = None,
    probes: Sequence[ProbeRow] | None = None,
) -> WrittenReport:
    """Write `report.html` of a run folder, from its records and samples; `results` by folder need not be read again.

    Without `probes`, the comparison of probes with the sets themselves is made here.
    Of checkpoints that were followed the curve has all; items are those of the first, the best and the last. A page
    that shows images is never replaced by one that cannot: it stays, and a warning gives the reason.
    """
    page, warnings = _draw_page(folder, results or {}, bundle=bundle, outside=outside, reload=reload, probes=probes)
    if page is None:
        return WrittenReport(None)
    path = folder / REPORT
    before = path.read_text(encoding="utf-8") if warnings and path.is_file() else ""
    if page.html.count(_EMBEDDED) < before.count(_EMBEDDED):
        warnings += (f"{path} shows images that a new one would not: it is kept as it was",)
    else:
        write_text_file(path, page.html)
    return WrittenReport(path, page.conclusions, warnings)


def check_report(folder: Path) -> Check | None:
    """Check that a run folder's page is the one that its records and samples make; None if it has no page."""
    path = folder / REPORT
    if not path.is_file():
        return None
    from tellapart.evaluation.verify import Check

    try:
        stored = read_stored(folder, checked=False)
        page, lost = _draw_page(folder, {})
        if page is None or page.html.encode() == path.read_bytes():
            return None if page is None else Check(fact=REPORT)
    except (TellapartError, OSError) as error:
        return Check(fact=REPORT, state="cannot be checked", why=str(error))
    others = [] if stored.checksum == "right" else [f"the record's checksum is {stored.checksum}"]
    others += ["it has another number of checkpoints"] if (folder / FOLLOWED).exists() else []
    recorded = stored.result.run.versions
    others += [f"{name} is {now} now" for name, now in versions().items() if recorded.get(name, now) != now]
    if excuse := [*lost, *others]:
        return Check(fact=REPORT, state="cannot be checked", why=excuse[0])
    why = "records and samples make another page; `tellapart show` makes it again"
    return Check(fact=REPORT, state="different", why=why)


def _draw_page(
    folder: Path,
    results: Mapping[Path, Result],
    *,
    bundle: bool = False,
    outside: bool = False,
    reload: float | None = None,
    probes: Sequence[ProbeRow] | None = None,
) -> tuple[ReportPage | None, tuple[str, ...]]:
    """Make the page of a run folder, and a line for each benchmark whose images are missing."""
    runs: list[ReportRun] = []
    lost: dict[str, str] = {}
    checkpoints = read_checkpoints(folder, keep=True)
    for run in [folder / name for name in choose_shown(checkpoints)] if checkpoints else find_runs(folder):
        result = results.get(run) or read_result(run)
        records = {name: record for name, record in result.benchmarks.items() if not is_imported(record)}
        if not records:
            continue
        samples = {name: read_samples(run, name, record) for name, record in records.items()}
        read = _image_reader(folder, result, lost, bundle=bundle, outside=outside)
        runs.append(ReportRun(result.model_copy(update={"benchmarks": records}), samples, read))
    if probes is None and any(name.startswith(PREFIXES) for run in runs for name in run.result.benchmarks):
        probes = probe_rows(omit_references(gather([folder])))
    page = make_page(runs, checkpoints=checkpoints, reload=reload, probes=probes or ()) if runs else None
    return page, tuple(lost.values())


def _image_reader(
    folder: Path, result: Result, lost: dict[str, str], *, bundle: bool, outside: bool
) -> Callable[[str, str], bytes]:
    """Return a function from benchmark and reference to a file's bytes; lost images are noted, a line a benchmark."""
    sources_of = cache(lambda benchmark: ImageSources.of(folder, result, benchmark))
    reader_of = cache(lambda benchmark: sources_of(benchmark).reader(outside=outside))  # opened once

    def read(benchmark: str, reference: str) -> bytes:
        reader = reader_of(benchmark)
        try:
            if reader is None:
                raise DataError(sources_of(benchmark).lost())
            data = reader(reference)
        except DataError as error:
            # Only the commands that measure take a folder of images; this report's may not.
            fault = str(error).replace("name the folder that holds it with images=", "run and score take its --images")
            lost.setdefault(benchmark, f"pictures are missing from the report: {fault}")
            raise
        return bundle_picture(folder, benchmark, reference, data) if bundle else data

    return read


def print_runs(
    folder: Path,
    systems: Sequence[System],
    write: Callable[[], WrittenReport],
    *,
    probes: Sequence[ProbeRow] = (),
    every: bool = False,
    by: str | None = None,
    named: Path | None = None,
) -> None:
    """Print the first look at every benchmark of a run, its conclusions, and how to see the rest."""
    groups = group_systems(systems)
    no_page = "none: a page has only what was measured here, and another tool measured these numbers"
    if by is not None:
        tagged = [same for same in groups if any(by in entry.record.by for entry in same.entries)]
        # If no set has the tag, `tag_table` raises, and names the tags that there are.
        print_tables(*(tag_table(same, by) for same in tagged or groups))
        print_template("rest", path=str(write().path or no_page))
        return
    print_template("read", groups=groups)
    followed = tables_of("checkpoints", sets=sort_points(read_checkpoints(folder)))
    print_tables(*(followed or ([] if every else first_tables(groups))))
    if probes:
        print_tables(*tables_of("probes", rows=probes))
    models = {entry.name for same in groups for entry in same.entries}
    if any(map(read_sampled, models)):
        samples = samples_rows(systems)
        sets = dict.fromkeys((row.benchmark, row.metric) for row in samples)
        print_tables(*tables_of("draws", rows=samples, sets=sets))
    for line in write_lines("names", systems=systems, models=models, words=WORDS_ALONE):
        print_lines(plain(line), "")
    printed: set[str] = set()
    for same in groups:
        if every:
            # A reference model's deviations show nothing about the others; a run of them alone still shows them.
            others = tuple(entry for entry in same.entries if entry.name not in REFERENCES)
            measured = replace(same, entries=others or same.entries)
            tables = (breakdown_table(measured), equivariance_table(measured))
            print_tables(*result_tables(same), *tables, *_paper_tables(same))
            printed.clear()
        # Below tables of several sets a note that two of them share stands once.
        written = map(plain, write_lines("ties", entries=same.entries, ties=every, notes=same.notes))
        if lines := [line for line in written if line not in printed]:
            print_lines(*lines, "")
            printed.update(lines)
    report = write()
    if answer := answer_lines(report.conclusions):
        print_lines(*map(plain, answer), "")
    # A tag with one value has the numbers over all items, and is not offered.
    breakdowns = [tag for same in groups for entry in same.entries for tag in entry.record.by.items()]
    tags = "|".join(map(shlex.quote, dict.fromkeys(tag for tag, values in breakdowns if len(values) > 1)))
    more = {} if every else {"run": shlex.quote(str(named or folder)), "tags": tags, "default": DEFAULT_MODEL in models}
    print_template("rest", path=str(report.path or no_page), **more)


def group_systems(systems: Sequence[System]) -> tuple[BenchmarkRuns, ...]:
    """Arrange systems by benchmark and content, for tables: without their items."""
    return arrange_runs([ReportRun(system.result) for system in systems], [system.label for system in systems])


def _paper_tables(same: BenchmarkRuns) -> list[Table]:
    """Lay the results out as the benchmark's paper does; none if it has no such table, or values are missing."""
    layout = paper_layout(same.name, same.records.values())
    rows = {entry.label: row for entry in same.entries if layout and (row := layout.fill(entry.record))}
    return tables_of("paper", benchmark=same.name, rows=rows) if rows else []


#: The most metrics in a terminal's table, and values of a tag as its rows, or as its columns.
_MOST_COLUMNS, _MOST_ROWS, _MOST_VALUES = 4, 12, 8

#: Characters of a model's name on one line of a table; a longer name is folded.
_NAME = 24


def result_tables(same: BenchmarkRuns, names: Sequence[str] = ()) -> list[Table]:
    """Return the first look: models as rows, the headline metrics as columns, chance as the last row.

    It is several tables of a few metrics each if one would be too wide.
    """
    names = names or shared_headline([same.record])
    columns = len(names) if len(names) <= _MOST_COLUMNS else 3
    parts = (names[start : start + columns] for start in range(0, len(names), columns or 1))
    return [table for part in parts for table in tables_of("result", same=same, names=part)]


def equivariance_table(same: BenchmarkRuns) -> Table | None:
    """Return mean, spread and mean size of the equivariance deviations; None if the shape has none."""
    names = [name for name, value in same.record.metrics.items() if is_deviation(value)]
    return tables_of("deviations", same=same, names=names)[0] if names else None


def breakdown_table(same: BenchmarkRuns) -> Table | None:
    """Return the first model's headline metrics by each tag's values, and each tag's macro mean; None without tags.

    A tag with more than a dozen values is too long for a first look: its macro mean alone is shown. If each value has
    as many items, macro and micro are one number, and so one row.
    """
    first, record = same.entries[0], same.record
    if not record.by:
        return None
    names = headline(record.metrics)
    title = f"{replace(same, entries=(first,)).title(names)}: {first.label} by tag"
    # The record of another tool describes its average over all parts.
    average = next(iter(record.metrics.values())).average if is_imported(record) else "micro: all items"
    even = [tag for tag in record.by if is_even(record, tag)]
    facts = {"record": record, "average": average, "even": even, "most": _MOST_ROWS}
    return tables_of("breakdown", title=title, names=names, **facts)[0]


def first_tables(groups: Sequence[BenchmarkRuns]) -> list[Table]:
    """Return one table for each benchmark; of more than three benchmarks one table, a line for each model."""
    return [overview_table(groups)] if len(groups) > MOST_SINGLE else [*map(first_table, groups)]


def first_table(same: BenchmarkRuns, *, width: int | None = None) -> Table:
    """Return models by the main metric with its interval, and by the values of a tag in columns."""
    names, main = same.headline, main_metric(same.headline)
    tag = first_breakdown(same.records, same.name, most=_MOST_VALUES)
    if main and tag and same.record.by.get(tag):
        *parts, total = heat_map(same.records, same.name, main, tag).rows
        of_all = total.values[0]
        # The record of another tool describes its average over all parts.
        by = of_all.average if is_imported(same.record) and of_all is not None else f"by {tag}"
        ties = describe_ties({main: [(plain(entry.label), entry.record.metrics.get(main)) for entry in same.entries]})
        (rows,) = tables_of("parts", same=same, main=main, total=total, parts=parts, ties=ties, by=by)
        folded = max(0, max(len(entry.label) for entry in same.entries) - _NAME)
        if _measure_width(rows) - folded <= (console().width if width is None else width):
            return rows
    columns = names if len(names) <= _MOST_COLUMNS else [*dict.fromkeys((main, *names))][: _MOST_COLUMNS - 1]
    return result_tables(same, columns)[0]


def overview_table(groups: Sequence[BenchmarkRuns]) -> Table:
    """Return many benchmarks in one table: a line for each model, with the metric that ranks the benchmark."""
    entries = [entry for same in groups for entry in same.entries]
    measured = not all(is_imported(entry.record) for entry in entries)
    mark = " (imported)" if measured else ""
    models = [(f"{of.label}{mark if is_imported(of.record) else ''}", of.run.result) for of in entries]
    sets = [(same, main_metric(same.headline)) for same in groups]
    tied = any((value := of.record.metrics.get(main)) and value.ties for same, main in sets for of in same.entries)
    facts = {"how": "with intervals" if measured else "measured by another tool", "tied": tied, "mark": mark}
    return tables_of("overview", sets=sets, models=models, is_imported=is_imported, **facts)[0]


def tag_table(same: BenchmarkRuns, tag: str) -> Table:
    """Return the main metric by a tag: its values down, models across, with intervals if they fit the console."""
    heat = heat_map(same.records, same.name, tag=tag)
    title = f"{same.title([heat.metric])}; {heat.metric} by {tag}"
    fill = partial(tables_of, "tag", title=title, tag=tag, heat=heat)
    (full,) = fill(write=score)
    return full if _measure_width(full) <= console().width else fill(write=lambda value: percent(value.value))[0]


def _measure_width(rows: Table) -> int:
    return console(width=10_000).measure(rows.rich()).maximum
