"""What a person sees: a run's tables on the terminal, and its page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tellapart.benchmarks.benchmark import ALL, Benchmark, find_benchmark, find_pairs
from tellapart.benchmarks.place import Place
from tellapart.benchmarks.task_benchmark import TaskBenchmark
from tellapart.catalog import DEFAULT_MODEL, REFERENCES, names, nearest
from tellapart.check import Gate
from tellapart.compare import Comparison, Row
from tellapart.errors import DataError, MetricError, TellapartError, UnknownNameError
from tellapart.gap import Gaps
from tellapart.metrics.registry import defined_for, headline
from tellapart.models.find import NAME_FORMS, find_model
from tellapart.report.numbers import percent, plain, thousands
from tellapart.report.page import write_report
from tellapart.report.sections import ReportRun
from tellapart.report.tables import breakdown_table, equivariance_table, result_tables
from tellapart.result import Metrics, Result, RunRecord
from tellapart.run_folder import find_runs, read_result, read_samples
from tellapart.tasks.registry import find_task

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = [
    "listing",
    "print_comparison",
    "print_gaps",
    "print_gates",
    "print_listing",
    "print_runs",
    "write_run_report",
]


def write_run_report(folder: Path) -> Path:
    """Make `report.html` of a run folder anew, from its records and samples, and return its path.

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
        read = read or _image_reader(result.run)  # all the runs of a folder measured the same files
        samples = {name: read_samples(each, name) for name in result.benchmarks}
        runs.append(ReportRun(result, samples, read))
    path = folder / "report.html"
    write_report(path, runs)
    return path


def _image_reader(run: RunRecord) -> Callable[[str, str], bytes]:
    """Read images where the run found them; a benchmark without images has none to show."""
    # A folder that has gone since has no images to show.
    named = (None if folder is None else Path(folder) for folder in (run.data, run.images))
    place = Place(*(folder if folder is not None and folder.is_dir() else None for folder in named))
    loaded: dict[str, Callable[[str], bytes] | None] = {}

    def read(benchmark: str, reference: str) -> bytes:
        if benchmark not in loaded:
            loaded[benchmark] = _images_of(benchmark, place)
        images = loaded[benchmark]
        if images is None:
            raise DataError(f"{benchmark} has no images here")
        return images(reference)

    return read


def _images_of(benchmark: str, place: Place) -> Callable[[str], bytes] | None:
    try:
        found = find_benchmark(benchmark, place)
        if isinstance(found, TaskBenchmark):
            return found.read_image()
        pairs = found.pairs_here()
    except TellapartError:
        return None
    return None if pairs is None else pairs.read_bytes


def print_runs(folder: Path, report: Path) -> None:
    """Print the first look at every benchmark of a run: headline metrics, breakdown by tag, equivariance.

    >>> print_runs(Path("no such run"), Path("report.html"))
    Traceback (most recent call last):
    tellapart.errors.RunError: no run in no such run; name a run folder that `tellapart run --out` wrote
    """
    results = [read_result(each) for each in find_runs(folder)]
    console = _console()
    for benchmark, found in _on_the_same_items(results):
        # How a reference model deviates says nothing of the others; a run of them alone still shows it.
        own = [result for result in found if result.model.name not in REFERENCES] or found
        breakdown, equivariance = breakdown_table(own[0], benchmark), equivariance_table(own, benchmark)
        for table in (*result_tables(found, benchmark), breakdown, equivariance, _paper_table(found, benchmark)):
            if table is not None:
                console.print(table)
                console.print()
        if lines := _note_lines(found, benchmark):
            console.print("\n".join(lines), end="\n\n", markup=False, highlight=False, soft_wrap=True)
    console.print(f"report: {report}", markup=False, highlight=False, soft_wrap=True)


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
    table = _table("", *rows, numbers_from=1)
    table.title, table.title_justify = f"{plain(benchmark)}: as in the paper's table, percent", "left"
    table.min_width = min(len(table.title), 80)  # else a narrow table would break its title
    for column in next(iter(rows.values())):
        table.add_row(column, *(f"{row[column]:.2f}" for row in rows.values()))
    return table


def _declared(benchmark: str) -> Benchmark | None:
    try:
        return find_pairs(benchmark)
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
    console = _console()
    console.print(
        f"a = {plain(comparison.a)}, b = {plain(comparison.b)}: percent, 95% intervals",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    for benchmark in dict.fromkeys(row.benchmark for row in comparison.rows):
        rows = [row for row in comparison.rows if row.benchmark == benchmark]
        table = _table(f"{plain(benchmark)} ({thousands(rows[0].n)} items)", *_COMPARED, numbers_from=1)
        for row in rows:
            table.add_row(*_compared(row))
        console.print()
        console.print(table)
    if lines := _comparison_lines(comparison):
        console.print("\n" + "\n".join(lines), markup=False, highlight=False, soft_wrap=True)


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
    console = _console()
    table = _table("model", "task", "in domain", "out of domain", "gap", numbers_from=2)
    for row in found.rows:
        bounds = "" if row.low is None or row.high is None else f" [{100 * row.low:+.1f}, {100 * row.high:+.1f}]"
        gap = f"{100 * row.gap:+.2f}{bounds}"
        table.add_row(plain(row.model), row.task, percent(row.in_domain), percent(row.out_of_domain), gap)
    console.print(table)
    console.print()
    for task, r in found.correlation.items():
        shown = "none, one side does not vary" if r is None else f"{r:.2f}"
        line = f"{task}: Pearson's r over models, in domain with out of domain: {shown}"
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def print_gates(gates: Sequence[Gate]) -> None:
    """Print sanity gates, and how many hold.

    >>> print_gates([Gate("constant", "2x2", "text_score", "0 %", "0 %", True)])  # doctest: +ELLIPSIS
         model      on...
    1 of 1 gates hold
    """
    console = _console()
    table = _table("", "model", "on", "what", "must be", "is")
    for gate in gates:
        row = map(plain, (gate.subject, gate.on, gate.what, gate.must, gate.got))
        table.add_row("ok" if gate.passed else "FAILS", *row, style="" if gate.passed else "bold red")
    console.print(table)
    console.print(f"\n{sum(gate.passed for gate in gates)} of {len(gates)} gates hold", highlight=False)


def listing(what: str, place: Place | None = None) -> list[dict[str, Any]]:
    """Return what `tellapart ls` lists: one row a benchmark or a model.

    Args:
        what: `benchmarks` or `models`.
        place: where the benchmarks' files are.

    Raises:
        UnknownNameError: `what` is neither `benchmarks` nor `models`.

    >>> [row["name"] for row in listing("benchmarks")][:2]
    ['demo', 'winoground']
    >>> listing("model")
    Traceback (most recent call last):
    tellapart.errors.UnknownNameError: nothing to list under 'model'; did you mean 'models'? use benchmarks or models
    """
    benchmark_rows = partial(_benchmark_rows, place or Place())
    rows: dict[str, Callable[[], list[dict[str, Any]]]] = {"benchmarks": benchmark_rows, "models": _model_rows}
    if what not in rows:
        hint = nearest(what, rows) or ";"
        raise UnknownNameError(f"nothing to list under {what!r}{hint} use benchmarks or models")
    return rows[what]()


_ABOUT = ("name", "title", "items", "task", "shape", "source", "licence", "citation", "images", "cluster", "ties")


def _benchmark_rows(place: Place) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name in names("benchmark"):
        try:
            benchmark = find_benchmark(name, place)
            found.append(_benchmark_row(benchmark))
        except (
            Exception
        ) as error:  # another package's benchmark may fail as it likes; the others are listed all the same
            found.append(dict.fromkeys(_ABOUT) | {"name": name, "title": f"cannot be loaded: {error}", "files": None})
    return found


def _can_run(benchmark: Benchmark | TaskBenchmark) -> bool:
    try:
        benchmark.expect()
    except TellapartError:
        return False
    return True


def _benchmark_row(benchmark: Benchmark | TaskBenchmark) -> dict[str, Any]:
    hub = benchmark.hub
    missing = benchmark.missing()
    files = "embedded" if not benchmark.files else "here" if not missing else ""
    if not files and hub is not None:
        files = "in the hub's cache" if hub.cached() else "on the hub, gated" if hub.gated else "on the hub"
    return {key: getattr(benchmark, key, None) for key in _ABOUT} | {
        "metrics": _metrics_of(benchmark),
        "output": find_task(benchmark.task, benchmark.name).output
        if isinstance(benchmark, TaskBenchmark)
        else "scores",
        "needs": list(benchmark.files),
        "missing": list(missing),
        "files": files or "with --data",
        "runs": _can_run(benchmark),
        "hub": None if hub is None else {"repo": hub.repo, "revision": hub.revision, "gated": hub.gated},
    }


def _metrics_of(benchmark: Benchmark | TaskBenchmark) -> list[str]:
    if isinstance(benchmark, TaskBenchmark):
        return [metric.name for metric in find_task(benchmark.task, benchmark.name).metrics]
    return [metric.name for metric in defined_for(benchmark.shape)]


def _model_rows() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name in names("model"):
        role = "default" if name == DEFAULT_MODEL else "reference" if name in REFERENCES else "installed"
        row = {"name": name, "role": role, "kind": None, "fingerprint": None}
        try:
            model = find_model(name)
        except Exception as error:  # another package's model may fail as it likes; the others are listed all the same
            found.append(row | {"about": f"cannot be loaded: {error}"})
            continue
        about = (type(model).__doc__ or "").strip().split("\n")[0]
        found.append(row | {"kind": model.kind, "fingerprint": model.fingerprint, "about": about})
    return found


def print_listing(what: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print what `listing` returned.

    >>> print_listing("models", listing("models")[1:2])  # doctest: +ELLIPSIS
    name     role        kind          about...
    """
    console = _console()
    benchmarks = what == "benchmarks"
    columns = (
        ("name", "shape", "items", "metrics", "licence", "files") if benchmarks else ("name", "role", "kind", "about")
    )
    table = _table(*columns)
    for row in rows:
        cells = {**row, "shape": _shape_of(row), "metrics": ", ".join(_first_metrics(row))}
        cells["items"] = thousands(row["items"]) if row.get("items") else ""
        if benchmarks and row["files"] is None:
            cells["licence"] = row["title"]
        table.add_row(*(plain(str(cells[column] or "")) for column in columns))
    console.print(table)
    console.print()
    lines = []
    if benchmarks:
        lines.append("also: folder:PATH, a pair set of your own; pairing:NAME, a set of 2x2 pairs asked in words;")
        lines.append("ranking:FILE, rankings by people")
        for row in rows:
            if row["files"] and row["missing"]:
                where = f"; {row['files']}" if row["hub"] else ""
                lines.append(
                    f"{row['name']} needs {_few(row['needs'])} (images: {row['images']}){where}: {row['source']}"
                )
    else:
        lines.append("also, by what it is made of:")
        lines += [f"  {form}: {meaning}" for form, meaning in NAME_FORMS.items()]
    console.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)


def _shape_of(row: Mapping[str, Any]) -> str:
    """Images by texts of an item; for a task what is to be put out."""
    return "x".join(map(str, row["shape"])) if row.get("shape") else str(row.get("output") or "")


def _first_metrics(row: Mapping[str, Any]) -> tuple[str, ...]:
    if row.get("shape"):
        return headline({metric.name for metric in defined_for(row["shape"], "similarity")})
    return headline(row.get("metrics") or ())


def _few(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:2])} and {len(names) - 2} more"


def _console() -> Console:
    from rich.console import Console

    # Without a terminal rich assumes 80 columns, and would fold a table that someone pipes into a file.
    console = Console()
    return console if console.is_terminal else Console(width=120)


def _table(*headings: str, numbers_from: int | None = None) -> Table:
    """Make an empty table; columns from `numbers_from` on are set to the right."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for place, heading in enumerate(headings):
        right = numbers_from is not None and place >= numbers_from
        table.add_column(heading, justify="right" if right else "left", no_wrap=right)
    return table
