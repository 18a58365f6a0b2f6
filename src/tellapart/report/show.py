"""Reports of runs: the page `report.html`, and tables on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from tellapart.catalog import REFERENCES
from tellapart.data.many_objects import collector_paused
from tellapart.errors import DataError
from tellapart.evaluation.check import Gate
from tellapart.evaluation.compare import Comparison
from tellapart.evaluation.gap import Gaps
from tellapart.records.result import Result, RunRecord
from tellapart.records.run_folder import find_runs, read_result, read_samples
from tellapart.report.numbers import is_imported, percent, plain, points, thousands
from tellapart.report.page import write_report
from tellapart.report.paper_tables.paper_row import declared_benchmark, groups_of, numbers_of, paper_row
from tellapart.report.pictures import image_reader
from tellapart.report.sections import ReportRun
from tellapart.report.tables import breakdown_table, equivariance_table, result_tables
from tellapart.report.terminal import console, print_lines, table

if TYPE_CHECKING:
    from rich.table import Table

__all__ = [
    "print_comparison",
    "print_gaps",
    "print_gates",
    "print_runs",
    "write_run_report",
]


@collector_paused()
def write_run_report(folder: Path) -> Path | None:
    """Make `report.html` of a run folder anew, from its records and samples, and return its path.

    Numbers that another tool measured have no items to show; None where a folder holds no others, and no page is made.

    Raises:
        RunError: the folder is no run, or a record is not what it must be.
    """
    runs = []
    read = None
    for each in find_runs(folder):
        result = read_result(each)
        own = {name: record for name, record in result.benchmarks.items() if not is_imported(record)}
        if not own:
            continue
        read = read or _read_images(result.run)  # all the runs of a folder measured the same files
        samples = {name: read_samples(each, name) for name in own}
        runs.append(ReportRun(result.model_copy(update={"benchmarks": own}), samples, read))
    if not runs:
        return None
    path = folder / "report.html"
    write_report(path, runs)
    return path


def _read_images(run: RunRecord) -> Callable[[str, str], bytes]:
    """Return a function (benchmark, reference) -> the image file's bytes, which opens each benchmark once."""
    reader_of = cache(partial(image_reader, run))

    def read(benchmark: str, reference: str) -> bytes:
        reader = reader_of(benchmark)
        if reader is None:
            raise DataError(f"{benchmark} has no images here")
        return reader(reference)

    return read


def print_runs(folder: Path, report: Path | None) -> None:
    """Print the first look at every benchmark of a run: headline metrics, breakdown by tag, equivariance.

    Raises:
        RunError: the folder is no run.
    """
    all_results = [read_result(each) for each in find_runs(folder)]
    for benchmark, results in _on_the_same_items(all_results):
        # A reference model's deviations tell nothing about the others; a run of them alone still shows them.
        own = [result for result in results if result.model.name not in REFERENCES] or results
        breakdown, equivariance = breakdown_table(own[0], benchmark), equivariance_table(own, benchmark)
        for each in (*result_tables(results, benchmark), breakdown, equivariance, _paper_table(results, benchmark)):
            if each is not None:
                console().print(each)
                print_lines("")
        if lines := _note_lines(results, benchmark):
            print_lines(*lines, "")
    print_lines(f"report: {report or 'none: numbers that another tool measured have no items to show'}")


def _paper_table(results: Sequence[Result], benchmark: str) -> Table | None:
    """Lay the results out as the benchmark's own paper does; None where it has no such table, or values are missing."""
    declared = declared_benchmark(benchmark)
    if declared is None or declared.paper is None:
        return None
    tag, row_of = declared.paper
    rows = {}
    for result in results:
        row = paper_row(row_of, numbers_of(groups_of(result.benchmarks[benchmark], tag)))
        if row is not None:
            rows[plain(result.model.name)] = row
    if not rows:
        return None
    title = f"{plain(benchmark)}: as in the paper's table, percent"
    layout = table("", *rows, numbers_from=1, title=title)
    layout.min_width = min(len(title), 80)  # else a narrow table would break its title
    for column in next(iter(rows.values())):
        layout.add_row(column, *(f"{row[column]:.2f}" for row in rows.values()))
    return layout


def _on_the_same_items(results: Sequence[Result]) -> list[tuple[str, list[Result]]]:
    """Group results by benchmark and content: one table never holds runs on different items."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        for name, record in result.benchmarks.items():
            groups.setdefault((name, record.fingerprint), []).append(result)
    return [(name, own) for (name, _), own in groups.items()]


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
    """Print two runs beside each other."""
    print_lines(f"a = {plain(comparison.a)}, b = {plain(comparison.b)}: percent, 95% intervals")
    for benchmark in dict.fromkeys(row.benchmark for row in comparison.rows):
        rows = [row for row in comparison.rows if row.benchmark == benchmark]
        columns = ("a", "b", "a - b", "only a", "only b", "p", "p (Holm)", "detectable")
        lines = table(f"{plain(benchmark)} ({thousands(rows[0].n)} items)", *columns, numbers_from=1)
        for row in rows:
            lines.add_row(
                row.metric,
                percent(row.a),
                percent(row.b),
                points(row.difference, row.low, row.high),
                thousands(row.only_a),
                thousands(row.only_b),
                f"{row.p:.3g}",
                f"{row.p_holm:.3g}",
                "-" if row.detectable is None else percent(row.detectable, 1),
            )
        print_lines("")
        console().print(lines)
    if notes := _comparison_notes(comparison):
        print_lines("", *notes)


def _comparison_notes(comparison: Comparison) -> list[str]:
    notes = []
    if comparison.rows:
        tests = " or ".join(dict.fromkeys(row.test for row in comparison.rows))
        notes += [
            f"only a, only b: items that one of the two alone got right; p: {tests}, two-sided; Holm over "
            f"{len(comparison.rows)} tests",
            "detectable: the smallest difference, in points, that this many items would show four times in five",
        ]
    if comparison.on_trust:
        names = ", ".join(map(plain, comparison.on_trust))
        notes.append(f"scores made elsewhere, so that only the ids are known to be the same: {names}")
    if comparison.unshared:
        notes.append(f"not compared, measured in one run only: {', '.join(map(plain, comparison.unshared))}")
    return notes


def print_gaps(gaps: Gaps) -> None:
    """Print what models lose out of domain.

    >>> print_gaps(Gaps(rows=(), correlation={"nlvr2: accuracy": 0.75}))  # doctest: +ELLIPSIS
    model...
    nlvr2: accuracy: Pearson's r over models, in domain with out of domain: 0.75
    """
    lines = table("model", "task", "in domain", "out of domain", "gap", numbers_from=2)
    for row in gaps.rows:
        gap = points(row.gap, row.low, row.high)
        lines.add_row(plain(row.model), row.task, percent(row.in_domain), percent(row.out_of_domain), gap)
    console().print(lines)
    print_lines("")
    for task, r in gaps.correlation.items():
        value = "none, one side does not vary" if r is None else f"{r:.2f}"
        print_lines(f"{task}: Pearson's r over models, in domain with out of domain: {value}")


def print_gates(gates: Sequence[Gate]) -> None:
    """Print sanity gates, and how many hold.

    >>> print_gates([Gate("constant", "2x2", "text_score", "0 %", "0 %", True)])  # doctest: +ELLIPSIS
         model      on...
    1 of 1 gates hold
    """
    lines = table("", "model", "on", "what", "must be", "is")
    for gate in gates:
        row = map(plain, (gate.subject, gate.on, gate.what, gate.must, gate.got))
        lines.add_row("ok" if gate.passed else "FAILS", *row, style="" if gate.passed else "bold red")
    console().print(lines)
    print_lines("", f"{sum(gate.passed for gate in gates)} of {len(gates)} gates hold")
