"""Reports of runs: the page `report.html`, and tables on the terminal, readable in 100 columns."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tellapart.benchmarks.find import declared_benchmark
from tellapart.benchmarks.probes import PREFIXES
from tellapart.catalog import DEFAULT_MODEL, REFERENCES
from tellapart.data.many_objects import collector_paused
from tellapart.diagnosis.probes import probe_rows
from tellapart.diagnosis.samples import Share, samples_rows
from tellapart.errors import DataError, RunError, TellapartError, plain
from tellapart.evaluation.compare import count_nouns
from tellapart.evaluation.systems import gather, label_runs, leave_references
from tellapart.evaluation.verified import read_result
from tellapart.models.generative.sampling import read_sampled
from tellapart.records.machine import versions
from tellapart.records.result import BenchmarkResult, Result, Value, is_imported
from tellapart.records.run_folder import FOLLOWED, find_runs, read_stored, write_text_file
from tellapart.records.samples import read_samples
from tellapart.report.conclusions import MOST_SINGLE, WORDS_ALONE, Conclusion, answer_lines
from tellapart.report.followed import choose_shown, followed_tables, read_checkpoints
from tellapart.report.image_sources import ImageSources, bundle_picture
from tellapart.report.numbers import (
    count_text,
    describe_ties,
    deviation,
    is_deviation,
    is_even,
    items_text,
    percent,
    points,
    score,
    thousands,
    tie_text,
)
from tellapart.report.page import ReportPage, make_page
from tellapart.report.paper_tables.table import groups_of, numbers_of, paper_row
from tellapart.report.sections import ReportRun, first_breakdown, heat_map, note_lines, shared_headline, worth_of
from tellapart.report.terminal import add_row, console, print_lines, print_tables, table
from tellapart.tasks.registry import headline, main_metric

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
    tagged_by = [tag for name, of in groups for measured in of for tag in measured.benchmarks[name].by.items()]
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
    if any(map(read_sampled, models)):
        print_tables(*_samples_tables(folder))
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


def _samples_tables(folder: Path) -> Iterator[Table]:
    """Return what several draws of each writer's answers share: a table for each set and metric."""

    def write(share: Share) -> str:
        if share.low is None or share.high is None:
            return percent(share.value)
        return f"{percent(share.value)} [{percent(share.low, 1)}, {percent(share.high, 1)}]"

    rows = samples_rows(gather([folder]))
    for of in dict.fromkeys((row.benchmark, row.metric) for row in rows):
        cells = (
            (row.model, f"{row.draws} at {row.temperature:g}", "–" if row.greedy is None else percent(row.greedy),
             *map(write, (row.expected, row.all_right, row.any_right, row.changed)))
            for row in rows if (row.benchmark, row.metric) == of
        )  # fmt: skip
        title = f"{plain(of[0])}, {of[1]} of drawn answers: percent of items, 95% intervals"
        heads = ("model", "draws", "greedy", "expected", "right in all", "in any", "answer changes")
        yield table(*heads, numbers_from=2, title=title, rows=cells, folds=True)


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


#: Metrics that fit a terminal's table; values of a tag that may be rows of it, and columns.
_MOST_COLUMNS, _MOST_ROWS, _MOST_VALUES = 4, 12, 8

#: Characters of a model's name that a table keeps on one line; a longer name is folded.
_NAME = 24

Groups = Sequence[tuple[str, Sequence[Result]]]


def result_tables(results: Sequence[Result], benchmark: str) -> list[Table]:
    """Return the first look, in several tables of a few metrics each if one would be too wide."""
    names = shared_headline([find_records(results, benchmark)[0][1]])
    if len(names) <= _MOST_COLUMNS:
        return [result_table(results, benchmark)]
    parts = (names[start : start + 3] for start in range(0, len(names), 3))
    return [result_table(results, benchmark, names=part) for part in parts]


def result_table(results: Sequence[Result], benchmark: str, *, names: Sequence[str] | None = None) -> Table:
    """Return the first look: models as rows, the headline metrics as columns, chance as the last row."""
    records = find_records(results, benchmark)
    first = records[0][1].metrics
    names = shared_headline([records[0][1]]) if names is None else names
    rows = _number_table(write_title(benchmark, records, names), "model", *names)
    for model, record in records:
        values = [record.metrics.get(name) for name in names]
        add_row(rows, [model, *("" if value is None else score(value) for value in values)])
        if any(value is not None and value.ties for value in values):
            add_row(rows, ["  ties broken at random", *map(tie_text, values)], "dim")
            official = ["" if v is None or v.official is None else percent(v.official) for v in values]
            if any(official):
                add_row(rows, ["  ties as its authors count", *official], "dim")
    rows.add_section()
    add_row(rows, ["chance", *(chance_cell(first.get(name)) for name in names)], "dim")
    if counts_differ(records[0][1], names):
        add_row(rows, ["n", *(thousands(first[name].n) for name in names)], "dim")
    return rows


def equivariance_table(results: Sequence[Result], benchmark: str) -> Table | None:
    """Return mean, spread and mean size of the equivariance deviations; None if the shape has none."""
    records = find_records(results, benchmark)
    names = [name for name, value in records[0][1].metrics.items() if is_deviation(value)]
    title = "equivariance deviations, each model in its own unit: 0 is best"
    rows = _number_table(title, "model", "metric", "mean", "sd", "mean |.|", "n")
    for model, record in records:
        for row, name in enumerate(names):
            value = record.metrics[name]
            numbers = map(deviation, (value.value, value.sd, value.mean_absolute))
            add_row(rows, ["" if row else model, name, *numbers, thousands(value.n)])
    return rows if names else None


def breakdown_table(result: Result, benchmark: str) -> Table | None:
    """Return one model's headline metrics by each tag's values, each tag's macro mean labelled; None without tags.

    A tag with more than a dozen values is too long for a first look: its macro mean alone is shown. If each value has
    as many items, macro and micro are one number, and so one row.
    """
    model, record = find_records([result], benchmark)[0]
    if not record.by:
        return None
    names = headline(record.metrics)
    even = [tag for tag in record.by if is_even(record, tag)]
    title = f"{write_title(benchmark, [(model, record)], names)}: {plain(model)} by tag"
    rows = _number_table(title, "tag", "n", *names)

    def add_group(label: str, metrics: Mapping[str, Value], style: str = "") -> None:
        values, count = [metrics.get(name) for name in names], max((value.n for value in metrics.values()), default=0)
        cells = ("" if value is None else score(value) for value in values)
        add_row(rows, [label, thousands(count) if count else "–", *cells], style)
        fewer = ["" if value is None or value.n == count else f"of {thousands(value.n)}" for value in values]
        if any(fewer):
            add_row(rows, ["", "", *fewer], "dim")

    for tag, groups in record.by.items():
        for value, group in groups.items() if len(groups) <= _MOST_ROWS else ():
            add_group(f"{tag} = {value}", group.metrics)
        if (macro := record.macro.get(tag)) and (tag not in even or len(groups) > _MOST_ROWS):
            add_group(f"macro: mean of {tag}'s {len(groups)} values", macro.metrics, "dim")
        rows.add_section()
    # The record of another tool describes its average over all parts.
    average = next(iter(record.metrics.values())).average if is_imported(record) else "micro: all items"
    same = f" (= macro of {', '.join(even)})" if even else ""
    add_group(f"{average}{same}", record.metrics, "dim")
    return rows


def find_records(results: Sequence[Result], benchmark: str) -> list[tuple[str, BenchmarkResult]]:
    """Return the models' names and records of a benchmark."""
    measured = [result for result in results if benchmark in result.benchmarks]
    if not measured:
        names = sorted({name for result in results for name in result.benchmarks})
        listed = f"there is {', '.join(map(plain, names))}" if names else "there are none"
        raise RunError(f"no result has benchmark {benchmark!r}; {listed}")
    return [(result.model.name, result.benchmarks[benchmark]) for result in measured]


def counts_differ(record: BenchmarkResult, names: Sequence[str]) -> bool:
    """Return whether a metric is a mean of groups or the like, so that a column is not of all the record's items."""
    largest = max((value.n for value in record.metrics.values()), default=0)
    return any(record.metrics[name].n != largest for name in names if name in record.metrics)


def write_title(benchmark: str, records: Sequence[tuple[str, BenchmarkResult]], names: Sequence[str]) -> str:
    """Write a table's title: the benchmark, its number of items and clusters, and the level of the intervals."""
    record = records[0][1]
    if is_imported(record):
        return f"{plain(benchmark)}: percent, measured by another tool"
    size, level, effective = items_text(record), "", worth_of(records)
    if value := next(iter(record.metrics.values()), None):
        level = f", {value.level:.0%} intervals"
        if 0 < value.clusters < value.n:
            size += f" in {count_nouns(value.clusters, 'cluster')}"
    of = f"{size}, percent of n" if counts_differ(record, names) else f"percent of {size}"
    return f"{plain(benchmark)}: {of}{f', {effective}' if effective else ''}{level}"


def _number_table(title: str, *headings: str) -> Table:
    return table(*headings, numbers_from=1, title=title, folds=True)


def chance_cell(value: Value | None, decimals: int = 2) -> str:
    """Write a number's chance in percent; a dash if it is not defined."""
    return "–" if value is None or value.chance is None else percent(value.chance, decimals)


def first_tables(groups: Groups) -> list[Table]:
    """Return one table for each benchmark; of more than three benchmarks one table, a line for each model."""
    if len(groups) > MOST_SINGLE:
        return [overview_table(groups)]
    return [first_table(results, benchmark) for benchmark, results in groups]


def first_table(results: Sequence[Result], benchmark: str, *, width: int | None = None) -> Table:
    """Return models by the main metric with its interval, and by the values of a tag in columns."""
    records = find_records(results, benchmark)
    names = shared_headline([record for _, record in records])
    main, tag = main_metric(names), first_breakdown(dict(records), benchmark, most=_MOST_VALUES)
    if main and tag and records[0][1].by.get(tag):
        rows = _make_columns(records, benchmark, main, tag)
        folded = max(0, max(len(model) for model, _ in records) - _NAME)
        if _measure_width(rows) - folded <= (console().width if width is None else width):
            return rows
    few = names if len(names) <= _MOST_COLUMNS else [*dict.fromkeys((main, *names))][: _MOST_COLUMNS - 1]
    return result_table(results, benchmark, names=few)


def _make_columns(records: Sequence[tuple[str, BenchmarkResult]], benchmark: str, main: str, tag: str) -> Table:
    from rich.text import Text

    columns = [*dict.fromkeys(value for _, record in records for value in record.by.get(tag, {}))]
    values_of = []
    for _, record in records:
        groups = map(record.by.get(tag, {}).get, columns)
        of_groups = (None if group is None else group.metrics.get(main) for group in groups)
        values_of.append([record.metrics.get(main), *of_groups])
    first, (of_all, *of_first) = records[0][1], values_of[0]
    # The record of another tool describes its average over all parts.
    by = of_all.average if is_imported(first) and of_all is not None else f"by {tag}"
    rows = _number_table(f"{write_title(benchmark, records, [main])}; {plain(by)}", "model", main, *columns)
    for (model, _), (value, *shares_of) in zip(records, values_of, strict=True):
        shares = ("–" if group is None else percent(group.value, 1) for group in shares_of)
        add_row(rows, [model, "–" if value is None else score(value), *shares])
    rows.add_section()
    add_row(rows, ["chance", chance_cell(of_all), *(chance_cell(value, 1) for value in of_first)], "dim")
    cells = ("–" if count is None or not count.n else thousands(count.n) for count in (of_all, *of_first))
    add_row(rows, ["n" if counts_differ(first, [main]) else "items", *cells], "dim")
    if ties := describe_ties({main: [(plain(model), record.metrics.get(main)) for model, record in records]}):
        rows.caption, rows.caption_justify = Text(ties, style="not italic"), "left"
    return rows


def overview_table(groups: Groups) -> Table:
    """Return many benchmarks in one table: a line for each model, with the metric that ranks the benchmark."""
    measured = any(not is_imported(result.benchmarks[name]) for name, results in groups for result in results)
    how = "with intervals" if measured else "measured by another tool"
    heads = ("benchmark", "items", "metric", "model", "value", "tied", "chance")
    rows = _number_table(f"percent, {how}, by the metric that ranks each benchmark", *heads)
    rows.columns[2].justify = rows.columns[3].justify = "left"
    rows.columns[3].no_wrap = False
    for benchmark, results in groups:
        records = find_records(results, benchmark)
        main = main_metric(shared_headline([record for _, record in records]))
        first = records[0][1].metrics.get(main)
        size = "" if first is None or not first.n else count_text(first.n, records[0][1].limited_from)
        start = [benchmark, size, main]
        for model, record in records:
            value = record.metrics.get(main)
            tied = "" if value is None or not value.ties else thousands(value.ties)
            label = f"{model} (imported)" if measured and is_imported(record) else model
            add_row(rows, [*start, label, "–" if value is None else score(value), tied, chance_cell(value)])
            start = ["", "", ""]
    if not any(rows.columns[5].cells):
        del rows.columns[5]
    return rows


def tag_table(results: Sequence[Result], benchmark: str, tag: str) -> Table:
    """Return the main metric by a tag: its values down, models across, with intervals if they fit the console."""
    records = find_records(results, benchmark)
    labels = label_runs([model for model, _ in records])
    heat = heat_map(dict(zip(labels, (record for _, record in records), strict=True)), benchmark, tag=tag)
    title = f"{write_title(benchmark, records, [heat.metric])}; {heat.metric} by {plain(tag)}"

    def fill(write: Callable[[Value], str]) -> Table:
        rows = _number_table(title, tag, "n", *heat.models)
        for row in heat.rows:
            if row is heat.rows[-1]:
                rows.add_section()
            count = thousands(row.n) if row.n else "–"
            add_row(rows, [row.name, count, *("–" if v is None else write(v) for v in row.values)])
        return rows

    full = fill(score)
    return full if _measure_width(full) <= console().width else fill(lambda value: percent(value.value))


def _measure_width(rows: Table) -> int:
    return console(width=10_000).measure(rows).maximum
