"""Results as tables for the terminal: readable in 100 columns, and when piped into a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tellapart.errors import RunError
from tellapart.records.result import IMPORTED, BenchmarkResult, Result, Value
from tellapart.report.numbers import deviation, interval, is_deviation, percent, plain, score, thousands
from tellapart.tasks.registry import headline

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["breakdown_table", "detail_table", "equivariance_table", "result_table", "result_tables", "summary_line"]


#: Metrics beyond which a table is too wide for a terminal.
_MOST_COLUMNS = 4

#: Values of a tag beyond which a terminal is the wrong place to list them.
_MOST_ROWS = 12


def result_tables(results: Sequence[Result], benchmark: str) -> list[Table]:
    """Return the first look, in several tables of a few metrics each where one would be too wide.

    Raises:
        RunError: no result has this benchmark.

    >>> result_tables([], "demo")
    Traceback (most recent call last):
    tellapart.errors.RunError: no result has benchmark 'demo'; there are none
    """
    names = _first_metrics(_measured(results, benchmark)[0][1])
    if len(names) <= _MOST_COLUMNS:
        return [result_table(results, benchmark)]
    parts = (names[start : start + 3] for start in range(0, len(names), 3))
    return [result_table(results, benchmark, names=part) for part in parts]


def result_table(results: Sequence[Result], benchmark: str, *, names: Sequence[str] | None = None) -> Table:
    """Return the first look: models as rows, the headline metrics as columns, chance as the last row.

    A model in which a tie touched a headline metric gets a second row: the tie-neutral values.

    Args:
        results: the models' records.
        benchmark: which benchmark.
        names: the metrics; those of a first look if not given.

    Raises:
        RunError: no result has this benchmark.

    >>> result_table([], "demo")
    Traceback (most recent call last):
    tellapart.errors.RunError: no result has benchmark 'demo'; there are none
    """
    found = _measured(results, benchmark)
    first = found[0][1]
    names = _first_metrics(first) if names is None else names
    table = _table(_title(benchmark, first), ["model", *names])
    for model, record in found:
        values = [record.metrics.get(name) for name in names]
        _add(table, [model, *("" if value is None else score(value) for value in values)])
        if any(value is not None and value.ties for value in values):
            _add(table, ["  ties broken at random", *(_tie_cell(value) for value in values)], style="dim")
    table.add_section()
    _add(table, ["chance", *(_chance_cell(first.metrics.get(name)) for name in names)], style="dim")
    return table


def detail_table(result: Result, benchmark: str) -> Table:
    """Return every metric of one model: interval, chance, items; ties and the tie-neutral value where any occurred.

    Raises:
        RunError: the result does not have this benchmark.

    >>> run = {"started": "", "seed": 0, "command": "", "versions": {}}
    >>> model = {"name": "m", "fingerprint": "0", "kind": "logit"}
    >>> detail_table(Result.model_validate({"run": run, "model": model, "benchmarks": {}}), "demo")
    Traceback (most recent call last):
    tellapart.errors.RunError: no result has benchmark 'demo'; there are none
    """
    model, record = _measured([result], benchmark)[0]
    shares = {name: value for name, value in record.metrics.items() if not is_deviation(value)}
    columns: dict[str, Callable[[Value], str]] = {
        "%": lambda value: percent(value.value),
        "interval": interval,
        "chance": _chance_cell,
    }
    if any(value.ties for value in shares.values()):
        columns["ties"] = lambda value: thousands(value.ties)
        columns["tie-neutral"] = _neutral
    columns["n"] = lambda value: thousands(value.n)
    table = _table(f"{_title(benchmark, record)}: {plain(model)}", ["metric", *columns])
    for name, value in shares.items():
        _add(table, [name, *(write(value) for write in columns.values())])
    return table


def equivariance_table(results: Sequence[Result], benchmark: str) -> Table | None:
    """Return mean, spread and mean size of the equivariance deviations; None where the shape has none.

    The numbers carry each model's own scale: models compare only where their scores share one.

    Raises:
        RunError: no result has this benchmark.

    >>> equivariance_table([], "demo")
    Traceback (most recent call last):
    tellapart.errors.RunError: no result has benchmark 'demo'; there are none
    """
    found = _measured(results, benchmark)
    names = [name for name, value in found[0][1].metrics.items() if is_deviation(value)]
    if not names:
        return None
    table = _table("equivariance deviations, each model in its own unit: 0 is best", ["model", "metric"])
    for heading in ("mean", "sd", "mean |.|", "n"):
        table.add_column(heading, justify="right", no_wrap=True)
    for model, record in found:
        for row, name in enumerate(names):
            value = record.metrics[name]
            numbers = (deviation(number) for number in (value.value, value.sd, value.mean_absolute))
            _add(table, ["" if row else model, name, *numbers, thousands(value.n)])
    return table


def breakdown_table(result: Result, benchmark: str) -> Table | None:
    """Return one model's headline metrics by each tag's values, each tag's macro mean labelled; None without tags.

    A tag with more than a dozen values is too long for a first look: its macro mean alone is shown.

    Raises:
        RunError: the result does not have this benchmark.

    >>> run = {"started": "", "seed": 0, "command": "", "versions": {}}
    >>> model = {"name": "m", "fingerprint": "0", "kind": "logit"}
    >>> breakdown_table(Result.model_validate({"run": run, "model": model, "benchmarks": {}}), "demo")
    Traceback (most recent call last):
    tellapart.errors.RunError: no result has benchmark 'demo'; there are none
    """
    model, record = _measured([result], benchmark)[0]
    if not record.by:
        return None
    names = headline(record.metrics)
    table = _table(f"{_title(benchmark, record)}: {plain(model)} by tag", ["tag", "n", *names])
    for tag, groups in record.by.items():
        for value, group in groups.items() if len(groups) <= _MOST_ROWS else ():
            _add_group(table, f"{tag} = {value}", group.metrics, names)
        if macro := record.macro.get(tag):
            _add_group(table, f"macro: mean of {tag}'s {len(groups)} values", macro.metrics, names, style="dim")
        table.add_section()
    # Another tool's number over all parts is what its record says: how many items each has is not known.
    imported = record.fingerprint.startswith(IMPORTED)
    whole = next(iter(record.metrics.values())).average if imported else "micro: all items"
    _add_group(table, whole, record.metrics, names, style="dim")
    return table


def summary_line(result: Result, benchmark: str) -> str:
    """Return one line of plain text: model, benchmark, n, headline metrics with intervals and chance.

    Raises:
        RunError: the result does not have this benchmark.

    >>> value = Value(value=0.5, low=0.4, high=0.6, method="wilson", n=100, clusters=100, chance=0.5, average="")
    >>> record = {"title": "Demo", "fingerprint": "0", "shape": (1, 2), "kind": "logit", "origin": "demo"}
    >>> run = {"started": "", "seed": 0, "command": "", "versions": {}}
    >>> model = {"name": "m", "fingerprint": "0", "kind": "logit"}
    >>> bench = BenchmarkResult(**record, metrics={"choice_score": value})
    >>> summary_line(Result.model_validate({"run": run, "model": model, "benchmarks": {"demo": bench}}), "demo")
    'm on demo (100 items): choice_score 50.00 [40.0, 60.0], chance 50.00'
    """
    model, record = _measured([result], benchmark)[0]
    names = headline(record.metrics)
    parts = [
        f"{name} {score(record.metrics[name])}, chance {_chance_cell(record.metrics[name])}"
        + (f", {_tie_cell(record.metrics[name])} at random" if record.metrics[name].ties else "")
        for name in names
    ]
    return f"{plain(model)} on {plain(benchmark)} ({thousands(_items(record))} items): {'; '.join(parts)}"


def _first_metrics(record: BenchmarkResult) -> tuple[str, ...]:
    return headline(record.metrics) or tuple(name for name, value in record.metrics.items() if not is_deviation(value))


def _measured(results: Sequence[Result], benchmark: str) -> list[tuple[str, BenchmarkResult]]:
    found = [(result.model.name, result.benchmarks[benchmark]) for result in results if benchmark in result.benchmarks]
    if not found:
        known = sorted({name for result in results for name in result.benchmarks})
        there = f"there is {', '.join(map(plain, known))}" if known else "there are none"
        raise RunError(f"no result has benchmark {benchmark!r}; {there}")
    return found


def _items(record: BenchmarkResult) -> int:
    return max((value.n for value in record.metrics.values()), default=0)


def _title(benchmark: str, record: BenchmarkResult) -> str:
    value = next(iter(record.metrics.values()), None)
    level = "" if value is None else f", {value.level:.0%} intervals"
    cut = "" if record.limited_from is None else f" of {thousands(record.limited_from)}"
    noun = "item" if _items(record) == 1 and not cut else "items"
    if record.fingerprint.startswith(IMPORTED):
        return f"{plain(benchmark)}: percent, measured by another tool"
    return f"{plain(benchmark)}: percent of {thousands(_items(record))}{cut} {noun}{level}"


def _table(title: str, headings: Sequence[str]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(title, style="bold"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        min_width=min(len(title), 80),  # else a narrow table would break its title
    )
    for index, heading in enumerate(headings):
        table.add_column(
            Text(heading),
            justify="right" if index else "left",
            overflow="fold",
            no_wrap=index > 0,
        )
    return table


def _add(table: Table, cells: Sequence[str], style: str = "") -> None:
    # Text, not str: a model's or tag's name must not be read as markup.
    from rich.text import Text

    table.add_row(*(Text(plain(cell)) for cell in cells), style=style)


def _add_group(
    table: Table, label: str, metrics: Mapping[str, Value], names: Sequence[str], *, style: str = ""
) -> None:
    count = max((value.n for value in metrics.values()), default=0)
    cells = ("" if name not in metrics else score(metrics[name]) for name in names)
    _add(table, [label, thousands(count) if count else "–", *cells], style=style)


def _chance_cell(value: Value | None) -> str:
    return "–" if value is None or value.chance is None else percent(value.chance)


def _neutral(value: Value) -> str:
    return "–" if value.tie_neutral is None else percent(value.tie_neutral)


def _tie_cell(value: Value | None) -> str:
    if value is None or not value.ties:
        return ""
    return f"{_neutral(value)} ({thousands(value.ties)} tied)"
