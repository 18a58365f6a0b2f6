"""What a person sees: a run's tables on the terminal, and its page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tellapart.benchmarks.benchmark import ALL, Benchmark
from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.locations import Locations
from tellapart.catalog import REFERENCES
from tellapart.errors import DataError, MetricError, TellapartError
from tellapart.evaluation.check import Gate
from tellapart.evaluation.compare import Comparison, Row
from tellapart.evaluation.gap import Gaps
from tellapart.records.result import IMPORTED, Metrics, Result, RunRecord
from tellapart.records.run_folder import find_runs, read_result, read_samples
from tellapart.report.numbers import percent, plain, thousands
from tellapart.report.page import write_report
from tellapart.report.sections import ReportRun
from tellapart.report.tables import breakdown_table, equivariance_table, result_tables
from tellapart.report.terminal import console, table

if TYPE_CHECKING:
    from rich.table import Table

__all__ = [
    "print_comparison",
    "print_gaps",
    "print_gates",
    "print_runs",
    "write_run_report",
]


def write_run_report(folder: Path) -> Path | None:
    """Make `report.html` of a run folder anew, from its records and samples, and return its path.

    Numbers that another tool measured have no items to show; None where a folder holds no others, and no page is made.

    Raises:
        RunError: the folder is no run, or a record is not what it must be.

    >>> write_run_report(Path("no such run"))
    Traceback (most recent call last):
    tellapart.errors.RunError: no run in no such run; name a run folder that `tellapart run --out` wrote
    """
    runs = []
    read = None
    for each in find_runs(folder):
        result = read_result(each)
        own = {name: one for name, one in result.benchmarks.items() if not one.fingerprint.startswith(IMPORTED)}
        if not own:
            continue
        read = read or _image_reader(result.run)  # all the runs of a folder measured the same files
        samples = {name: read_samples(each, name) for name in own}
        runs.append(ReportRun(result.model_copy(update={"benchmarks": own}), samples, read))
    if not runs:
        return None
    path = folder / "report.html"
    write_report(path, runs)
    return path


def _image_reader(run: RunRecord) -> Callable[[str, str], bytes]:
    """Read images where the run found them; a benchmark without images has none to show."""
    # A folder that has gone since has no images to show.
    named = (None if folder is None else Path(folder) for folder in (run.data, run.images))
    place = Locations(*(folder if folder is not None and folder.is_dir() else None for folder in named))
    loaded: dict[str, Callable[[str], bytes] | None] = {}

    def read(benchmark: str, reference: str) -> bytes:
        if benchmark not in loaded:
            loaded[benchmark] = _images_of(benchmark, place)
        images = loaded[benchmark]
        if images is None:
            raise DataError(f"{benchmark} has no images here")
        return images(reference)

    return read


def _images_of(benchmark: str, place: Locations) -> Callable[[str], bytes] | None:
    try:
        return find_benchmark(benchmark, place).read_image()
    except TellapartError:
        return None


def print_runs(folder: Path, report: Path | None) -> None:
    """Print the first look at every benchmark of a run: headline metrics, breakdown by tag, equivariance.

    >>> print_runs(Path("no such run"), Path("report.html"))
    Traceback (most recent call last):
    tellapart.errors.RunError: no run in no such run; name a run folder that `tellapart run --out` wrote
    """
    results = [read_result(each) for each in find_runs(folder)]
    out = console()
    for benchmark, found in _on_the_same_items(results):
        # How a reference model deviates says nothing of the others; a run of them alone still shows it.
        own = [result for result in found if result.model.name not in REFERENCES] or found
        breakdown, equivariance = breakdown_table(own[0], benchmark), equivariance_table(own, benchmark)
        for shown in (*result_tables(found, benchmark), breakdown, equivariance, _paper_table(found, benchmark)):
            if shown is not None:
                out.print(shown)
                out.print()
        if lines := _note_lines(found, benchmark):
            out.print("\n".join(lines), end="\n\n", markup=False, highlight=False, soft_wrap=True)
    said = "none: numbers that another tool measured have no items to show" if report is None else str(report)
    out.print(f"report: {said}", markup=False, highlight=False, soft_wrap=True)


def _paper_table(results: Sequence[Result], benchmark: str) -> Table | None:
    """Lay the results out as the benchmark's own paper does; None where it has no such table, or values are missing."""
    declared = _declared(benchmark)
    if declared is None or declared.paper is None:
        return None
    tag, row_of = declared.paper
    rows = {}
    for result in results:
        record = result.benchmarks[benchmark]
        values = {ALL: Metrics(metrics=record.metrics), **record.by.get(tag, {})}
        numbers = {value: {name: one.value for name, one in group.metrics.items()} for value, group in values.items()}
        with suppress(MetricError, KeyError):  # a subset or a metric is missing: then the table means nothing
            rows[plain(result.model.name)] = row_of(numbers)
    if not rows:
        return None
    shown = table("", *rows, numbers_from=1)
    shown.title, shown.title_justify = f"{plain(benchmark)}: as in the paper's table, percent", "left"
    shown.min_width = min(len(shown.title), 80)  # else a narrow table would break its title
    for column in next(iter(rows.values())):
        shown.add_row(column, *(f"{row[column]:.2f}" for row in rows.values()))
    return shown


def _declared(benchmark: str) -> Benchmark | None:
    try:
        return find_benchmark(benchmark)
    except TellapartError:  # a folder that has moved since, or another package's benchmark
        return None


def _on_the_same_items(results: Sequence[Result]) -> list[tuple[str, list[Result]]]:
    """Group results by benchmark and content: one table never holds runs on different items."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        for name, record in result.benchmarks.items():
            groups.setdefault((name, record.fingerprint), []).append(result)
    return [(name, found) for (name, _), found in groups.items()]


def _note_lines(results: Sequence[Result], benchmark: str) -> list[str]:
    lines = []
    for result in results:
        record, model = result.benchmarks[benchmark], plain(result.model.name)
        if record.tied_items:
            items, ties = _count(record.tied_items, "item"), _count(record.tied_comparisons, "tied comparison")
            lines.append(f"{model}: ties in {items} ({ties}); a tie is never right")
        if record.rounded_ties:
            items = _count(record.rounded_ties, "item")
            lines.append(f"{model}: scores that differ beyond float32 only, and so are tied, in {items}")
        lines += [f"{model}: {plain(note)}" for note in record.notes]
    return lines


def _count(number: int, noun: str) -> str:
    return f"{thousands(number)} {noun}{'' if number == 1 else 's'}"


def print_comparison(comparison: Comparison) -> None:
    """Print two runs beside each other.

    >>> print_comparison(Comparison(a="x", b="y", rows=()))  # doctest: +ELLIPSIS
    a = x, b = y: percent...
    """
    out = console()
    out.print(
        f"a = {plain(comparison.a)}, b = {plain(comparison.b)}: percent, 95% intervals",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    for benchmark in dict.fromkeys(row.benchmark for row in comparison.rows):
        rows = [row for row in comparison.rows if row.benchmark == benchmark]
        shown = table(f"{plain(benchmark)} ({thousands(rows[0].n)} items)", *_COMPARED, numbers_from=1)
        for row in rows:
            shown.add_row(*_compared(row))
        out.print()
        out.print(shown)
    if lines := _comparison_lines(comparison):
        out.print("\n" + "\n".join(lines), markup=False, highlight=False, soft_wrap=True)


_COMPARED = ("a", "b", "a - b", "only a", "only b", "p", "p (Holm)", "detectable")


def _compared(row: Row) -> tuple[str, ...]:
    bounds = "" if row.low is None or row.high is None else f" [{100 * row.low:+.1f}, {100 * row.high:+.1f}]"
    return (
        row.metric,
        percent(row.a),
        percent(row.b),
        f"{100 * row.difference:+.2f}{bounds}",
        thousands(row.only_a),
        thousands(row.only_b),
        f"{row.p:.3g}",
        f"{row.p_holm:.3g}",
        "-" if row.detectable is None else percent(row.detectable, 1),
    )


def _comparison_lines(comparison: Comparison) -> list[str]:
    tests = " or ".join(dict.fromkeys(row.test for row in comparison.rows))
    lines = [
        f"only a, only b: items that one of the two alone got right; p: {tests}, two-sided; Holm over "
        f"{len(comparison.rows)} tests",
        "detectable: the smallest difference, in points, that this many items would show four times in five",
    ]
    if comparison.on_trust:
        named = ", ".join(map(plain, comparison.on_trust))
        lines.append(f"scores made elsewhere, so that only the ids are known to be the same: {named}")
    if comparison.unshared:
        lines.append(f"not compared, measured in one run only: {', '.join(map(plain, comparison.unshared))}")
    return lines if comparison.rows else lines[2:]


def print_gaps(found: Gaps) -> None:
    """Print what models lose out of domain.

    >>> print_gaps(Gaps(rows=(), correlation={"nlvr2: accuracy": 0.75}))  # doctest: +ELLIPSIS
    model...
    nlvr2: accuracy: Pearson's r over models, in domain with out of domain: 0.75
    """
    out = console()
    shown = table("model", "task", "in domain", "out of domain", "gap", numbers_from=2)
    for row in found.rows:
        bounds = "" if row.low is None or row.high is None else f" [{100 * row.low:+.1f}, {100 * row.high:+.1f}]"
        gap = f"{100 * row.gap:+.2f}{bounds}"
        shown.add_row(plain(row.model), row.task, percent(row.in_domain), percent(row.out_of_domain), gap)
    out.print(shown)
    out.print()
    for task, r in found.correlation.items():
        value = "none, one side does not vary" if r is None else f"{r:.2f}"
        line = f"{task}: Pearson's r over models, in domain with out of domain: {value}"
        out.print(line, markup=False, highlight=False, soft_wrap=True)


def print_gates(gates: Sequence[Gate]) -> None:
    """Print sanity gates, and how many hold.

    >>> print_gates([Gate("constant", "2x2", "text_score", "0 %", "0 %", True)])  # doctest: +ELLIPSIS
         model      on...
    1 of 1 gates hold
    """
    out = console()
    shown = table("", "model", "on", "what", "must be", "is")
    for gate in gates:
        row = map(plain, (gate.subject, gate.on, gate.what, gate.must, gate.got))
        shown.add_row("ok" if gate.passed else "FAILS", *row, style="" if gate.passed else "bold red")
    out.print(shown)
    out.print(f"\n{sum(gate.passed for gate in gates)} of {len(gates)} gates hold", highlight=False)
