"""Reports of runs: the page `report.html`, and tables on the terminal."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tellapart.benchmarks.find import declared_benchmark
from tellapart.benchmarks.probes import PREFIXES
from tellapart.catalog import DEFAULT_MODEL, REFERENCES
from tellapart.data.many_objects import collector_paused
from tellapart.diagnosis.probes import probe_rows
from tellapart.errors import DataError, TellapartError, plain
from tellapart.evaluation.compare import count_nouns
from tellapart.evaluation.systems import gather, leave_references
from tellapart.evaluation.verified import read_result
from tellapart.records.machine import versions
from tellapart.records.result import Result, is_imported
from tellapart.records.run_folder import FOLLOWED, find_runs, read_stored, write_text_file
from tellapart.records.samples import read_samples
from tellapart.report.conclusions import WORDS_ALONE, Conclusion, answer_lines
from tellapart.report.followed import choose_shown, followed_tables, read_checkpoints
from tellapart.report.image_sources import ImageSources, bundle_picture
from tellapart.report.numbers import percent, points
from tellapart.report.page import ReportPage, make_page
from tellapart.report.paper_tables.table import groups_of, numbers_of, paper_row
from tellapart.report.sections import ReportRun, note_lines
from tellapart.report.tables import breakdown_table, equivariance_table, first_tables, result_tables, tag_table
from tellapart.report.terminal import print_lines, print_tables, table

if TYPE_CHECKING:
    from rich.table import Table

    from tellapart.evaluation.verify import Check

#: The file of the page, and the prefix of every picture in it.
REPORT, _EMBEDDED = "report.html", "data:image/"

#: What each reference model does, for a reader who sees its numbers for the first time.
_REFERENCES = {
    "random": "draws its scores",
    "constant": "gives every pair the same score",
    "blind": "ignores the image and prefers the shorter text",
    "bag-of-words": WORDS_ALONE,
    "oracle": "knows the answers",
}


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """A run's page, and the facts people must know about it.

    Attributes:
        path: None without a page: numbers that another tool measured have no items to show.
        conclusions: in sentences, of each benchmark.
        warnings: a line for each benchmark whose images are missing.
    """

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
) -> WrittenReport:
    """Make `report.html` of a run folder again, from its records and samples, or from `results` by their folders.

    Of checkpoints that were followed it has all in its curve, and the items of the first, the best and the last. A page
    that shows images is never replaced by one that cannot: it stays, and a warning gives the reason.
    """
    page, warnings = _draw_page(folder, results or {}, bundle=bundle, outside=outside, reload=reload)
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
    others += [
        f"{name} is {now} now" for name, now in versions().items() if stored.result.run.versions.get(name, now) != now
    ]
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
) -> tuple[ReportPage | None, tuple[str, ...]]:
    """Make the page of a run folder, and a line for each benchmark whose images are missing."""
    runs: list[ReportRun] = []
    lost: dict[str, str] = {}
    checkpoints = read_checkpoints(folder, keep=True)
    for run in [folder / name for name in choose_shown(checkpoints)] or find_runs(folder):
        result = results.get(run) or read_result(run)
        records = {name: record for name, record in result.benchmarks.items() if not is_imported(record)}
        if not records:
            continue
        samples = {name: read_samples(run, name, record) for name, record in records.items()}
        # All the runs of a folder measured the same files.
        read = runs[0].read_image if runs else _image_reader(folder, result, lost, bundle=bundle, outside=outside)
        runs.append(ReportRun(result.model_copy(update={"benchmarks": records}), samples, read))
    page = make_page(runs, checkpoints=checkpoints, reload=reload) if runs else None
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
    records: Iterable[Result],
    write: Callable[[], WrittenReport],
    *,
    every: bool = False,
    by: str | None = None,
    named: Path | None = None,
) -> None:
    """Print the first look at every benchmark of a run, its conclusions, and how to see the rest."""
    groups = on_the_same_items(records)
    # A tag with one value has the numbers over all items.
    tagged_by = [
        tag for name, members in groups for measured in members for tag in measured.benchmarks[name].by.items()
    ]
    tags = [*dict.fromkeys(tag for tag, values in tagged_by if len(values) > 1)]
    if by is not None:
        having = [(name, of) for name, of in groups if any(by in measured.benchmarks[name].by for measured in of)]
        # Without one, an error names the tags.
        print_tables(*(tag_table(members, name, by) for name, members in having or groups))
        _print_path(write())
        return
    for name, results in groups:
        first = results[0].benchmarks[name]
        if read := [first.read_as] * bool(first.read_as) + [f"read from field {first.field}"] * bool(first.field):
            print_lines(plain(f"{name}: {'; '.join(read)}"))
    print_tables(*(followed_tables(folder) or ([] if every else first_tables(groups))), _probe_table(folder, groups))
    models = {result.model.name for _, members in groups for result in members}
    if references := [f"{name} {meaning}" for name, meaning in _REFERENCES.items() if name in models]:
        print_lines(f"references: {'; '.join(references)}", "")
    printed: set[str] = set()
    for benchmark, results in groups:
        if every:
            # A reference model's deviations show nothing about the others; a run of them alone still shows them.
            measured = [result for result in results if result.model.name not in REFERENCES] or results
            tables = (breakdown_table(measured[0], benchmark), equivariance_table(measured, benchmark))
            print_tables(*result_tables(results, benchmark), *tables, _paper_table(results, benchmark))
            printed.clear()
        # Below tables of several sets a note that two of them share stands once.
        if lines := [line for line in _note_lines(results, benchmark, ties=every) if line not in printed]:
            print_lines(*lines, "")
            printed.update(lines)
    report = write()
    if answer := answer_lines(report.conclusions):
        print_lines(*map(plain, answer), "")
    if not every:
        tagged = f", or by a tag of the items: --by {plain('|'.join(map(shlex.quote, tags)))}" if tags else ""
        print_lines(f"the rest: tellapart show {plain(shlex.quote(str(named or folder)))} --all{tagged}")
        if DEFAULT_MODEL in models:
            print_lines("your model: tellapart run -m MODEL, a name, file, folder or hub id (tellapart ls models)")
    _print_path(report)


def _print_path(report: WrittenReport) -> None:
    print_lines(f"report: {report.path or 'none: numbers that another tool measured have no items to show'}")


def _probe_table(folder: Path, groups: Iterable[tuple[str, Sequence[Result]]]) -> Table | None:
    """Return what is left without pictures, word order or time; None if a run has no probe beside the set itself."""
    if not any(name.startswith(PREFIXES) for name, _ in groups):
        return None
    rows = probe_rows(leave_references(gather([folder])))
    cells = (
        (row.model, row.benchmark, row.probe, row.metric, percent(row.real), percent(row.left),
         points(row.difference, row.low, row.high, row.reason),
         "–" if row.chance is None else percent(row.chance))
        for row in rows
    )  # fmt: skip
    heads = ("model", "benchmark", "probe", "metric", "real", "left", "left - real", "chance")
    title = "what is left without a side of the items: percent, paired 95% intervals"
    return table(*heads, numbers_from=4, title=title, rows=cells, folds=True) if rows else None


def _paper_table(results: Sequence[Result], benchmark: str) -> Table | None:
    """Lay the results out as the benchmark's paper does; None if it has no such table, or values are missing."""
    declared = declared_benchmark(benchmark)
    if declared is None or declared.paper is None:
        return None
    tag, row_of = declared.paper
    rows = {}
    for result in results:
        if row := paper_row(row_of, numbers_of(groups_of(result.benchmarks[benchmark], tag))):
            rows[plain(result.model.name)] = row
    if not rows:
        return None
    title = f"{plain(benchmark)}: as in the paper's table, percent"
    cells = ((column, *(f"{row[column]:.2f}" for row in rows.values())) for column in next(iter(rows.values())))
    return table("", *rows, numbers_from=1, title=title, rows=cells, folds=True)


def on_the_same_items(results: Iterable[Result]) -> list[tuple[str, list[Result]]]:
    """Group results by benchmark and content: one table never holds runs on different items."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        for name, record in result.benchmarks.items():
            groups.setdefault((name, record.fingerprint), []).append(result)
    return [(name, members) for (name, _), members in groups.items()]


def _note_lines(results: Sequence[Result], benchmark: str, *, ties: bool) -> list[str]:
    lines = []
    for result in results:
        record, model = result.benchmarks[benchmark], plain(result.model.name)
        if ties and record.tied_comparisons:
            items = count_nouns(record.tied_items, "item")
            tied = count_nouns(record.tied_comparisons, "tied comparison")
            lines.append(f"{model}: {items} with a tie, whether it decides a metric or not ({tied})")
        if record.rounded_ties:
            items = count_nouns(record.rounded_ties, "item")
            lines.append(f"{model}: scores that differ beyond float32 only, and so are tied, in {items}")
    notes_of = [(result.model.name, result.benchmarks[benchmark].notes) for result in results]
    return [*lines, *map(plain, note_lines(notes_of))]
