"""The gate on the terminal, and as Markdown for a pull request."""

from __future__ import annotations

from collections import Counter

from tellapart.errors import plain
from tellapart.evaluation.compare import count_nouns
from tellapart.evaluation.regression_gate import GateResult, GateRow
from tellapart.report.numbers import count_text, percent, points
from tellapart.report.terminal import console, print_lines, table

_COLUMNS = ("base", "new", "new - base", "p (Holm)")

#: Reasons that stop a gate, as they are counted.
_STOPS = {
    "regression": "regression",
    "missing": "missing result",
    "not comparable": "incomparable benchmark",
    "too few items": "blind headline",
}


def headline_of(result: GateResult) -> str:
    """Return the gate's verdict in one line.

    >>> row = GateRow(benchmark="demo", metric="text_score", verdict="no difference seen")
    >>> headline_of(GateResult(base="a", new="b", rows=(row,)))
    'the gate passes: no regression in 1 headline of 1 benchmark'
    >>> gone = GateRow(benchmark="aro", verdict="missing", fails=True, reason="runs/b did not measure it")
    >>> headline_of(GateResult(base="a", new="b", rows=(row, gone)))
    'the gate stops: 1 missing result'
    """
    if not result.passed:
        stopped = Counter(_STOPS[row.verdict] for row in result.rows if row.fails)
        return f"the gate stops: {', '.join(count_nouns(count, noun) for noun, count in stopped.items())}"
    headlines = sum(row.metric is not None for row in result.rows)
    benchmarks = len({row.benchmark for row in result.rows})
    better = sum(row.verdict == "improvement" for row in result.rows)
    parts = f"{count_nouns(headlines, 'headline')} of {count_nouns(benchmarks, 'benchmark')}"
    text = f"the gate passes: no regression in {parts}"
    return f"{text}, {count_nouns(better, 'improvement')}" if better else text


def print_gate(result: GateResult) -> None:
    """Print every headline with its verdict, and the gate's verdict."""
    # Text, not str: a model's or benchmark's name must not be read as markup.
    from rich.text import Text

    print_lines(f"base = {plain(result.base)}, new = {plain(result.new)}: percent, 95% intervals", "")
    lines = table("benchmark", "metric", "items", *_COLUMNS, "verdict", numbers_from=2)
    lines.columns[-1].justify, lines.columns[-1].no_wrap = "left", False
    for row in result.rows:
        cells = [
            row.benchmark,
            row.metric or "-",
            count_text(row.n, row.limited_from) if row.n else "-",
            *_write_numbers(row),
            _short_verdict(row),
        ]
        lines.add_row(*(Text(plain(cell)) for cell in cells), style="bold red" if row.fails else "")
    console().print(lines)
    print_lines("", *map(plain, _list_reasons(result)), *map(plain, _write_notes(result)), headline_of(result))


def gate_markdown(result: GateResult) -> str:
    """Return the gate as GitHub's Markdown, for a comment on a pull request.

    Names are in code: a model called `@someone` must not call anybody.

    >>> row = GateRow(benchmark="demo", metric="text_score", verdict="regression", fails=True, base=0.5, new=0.25,
    ...               change=-0.25, low=-0.3, high=-0.2, p_holm=0.001, p_holm_text="0.001", n=400)
    >>> print(gate_markdown(GateResult(base="a|b", new="c", rows=(row,))))
    **tellapart: the gate stops: 1 regression**
    <BLANKLINE>
    | benchmark | metric | items | base | new | new - base | p (Holm) | verdict |
    |:---|:---|---:|---:|---:|---:|---:|:---|
    | `demo` | `text_score` | 400 | 50.00 | 25.00 | -25.00 [-30.0, -20.0] | 0.001 | **regression** |
    <BLANKLINE>
    base: `a\\|b`; new: `c`; percent, 95% intervals
    <BLANKLINE>
    """
    rows = [
        [
            _write_code(row.benchmark),
            _write_code(row.metric) if row.metric else "–",
            count_text(row.n, row.limited_from) if row.n else "–",
            *_write_numbers(row),
            f"**{_short_verdict(row)}**" if row.fails else _short_verdict(row),
        ]
        for row in result.rows
    ]
    heads = ["benchmark", "metric", "items", *_COLUMNS, "verdict"]
    return "\n".join(
        [
            f"**tellapart: {headline_of(result)}**",
            "",
            f"| {' | '.join(heads)} |",
            f"|:---|:---|{'---:|' * (len(heads) - 3)}:---|",
            *(f"| {' | '.join(cells)} |" for cells in rows),
            "",
            f"base: {_write_code(result.base)}; new: {_write_code(result.new)}; percent, 95% intervals",
            "",
            *(f"- {_write_code(line)}" for line in (*_list_reasons(result), *_write_notes(result))),
            *([""] if _list_reasons(result) or _write_notes(result) else []),
        ]
    )


def _write_numbers(row: GateRow) -> list[str]:
    if row.base is None or row.new is None or row.change is None:
        return ["-"] * len(_COLUMNS)
    return [
        percent(row.base),
        percent(row.new),
        points(row.change, row.low, row.high, row.no_interval),
        row.p_holm_text or "-",
    ]


def _short_verdict(row: GateRow) -> str:
    """Return the verdict; a reason does not fit a table."""
    return row.verdict if row.reason else row.says


def _list_reasons(result: GateResult) -> list[str]:
    return [f"{row.benchmark}{f' {row.metric}' if row.metric else ''}: {row.says}" for row in result.rows if row.reason]


def _write_notes(result: GateResult) -> list[str]:
    notes = []
    if any(row.verdict == "no difference seen" and (row.low or 0) * (row.high or 0) > 0 for row in result.rows):
        notes.append("an interval without 0, yet no difference seen: p is corrected for all headlines, no interval is")
    if result.by_chance is not None and result.by_chance >= 0.01:
        notes.append(
            f"--max-drop {result.max_drop:g}: by chance alone it stops a model as good as the base in up to "
            f"{percent(result.by_chance, 0)}% of comparisons of this size"
        )
    if result.on_trust:
        only = "scores made elsewhere, so that only the ids are known to be the same"
        notes.append(f"{only}: {', '.join(result.on_trust)}")
    if result.dtypes:
        notes.append(f"computed in different precisions: the base in {result.dtypes[0]}, the new in {result.dtypes[1]}")
    if result.added:
        notes.append(f"not judged, the base did not measure it: {', '.join(result.added)}")
    return notes


def _write_code(text: str) -> str:
    """Return a text as a span of code, also in a cell of a table."""
    return f"`{plain(text).replace('`', chr(39)).replace('|', chr(92) + '|')}`"
