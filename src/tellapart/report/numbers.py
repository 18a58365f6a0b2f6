"""Formats of numbers and names, the same on the terminal and on the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tellapart.records.result import BenchmarkResult, Value

#: Share of its items below which the worth of items in clusters is written.
_MATTERS = 0.9

#: Shares that differ by less are one: sums of the same terms in another order.
_SAME = 1e-9

#: Names in a sentence; of more their number is written.
MOST_NAMED = 4


def percent(fraction: float, decimals: int = 2) -> str:
    """Write a fraction as a percentage without its sign."""
    return f"{100 * fraction:.{decimals}f}"


def interval(value: Value) -> str:
    """Write the interval of a fraction in percent, or the reason why there is none; nothing where neither is known."""
    if value.low is None or value.high is None:
        return f"({value.reason})" if value.reason else ""
    return f"[{percent(value.low, 1)}, {percent(value.high, 1)}]"


def points(difference: float, low: float | None, high: float | None, reason: str | None = None) -> str:
    """Write a difference of fractions in points, with its interval or the reason why there is none."""
    missing = f" ({reason})" if reason else ""
    bounds = missing if low is None or high is None else f" [{100 * low:+.1f}, {100 * high:+.1f}]"
    return f"{100 * difference:+.2f}{bounds}"


def score(value: Value) -> str:
    """Write a fraction and its interval in percent."""
    return f"{percent(value.value)} {interval(value)}".rstrip()


def chance(value: Value | None, decimals: int = 2) -> str:
    """Write a number's chance in percent; a dash if it is not defined."""
    return "–" if value is None or value.chance is None else percent(value.chance, decimals)


def count_text(n: int, limited_from: int | None = None, limited_to: int | None = None) -> str:
    """Write a number of items, and the number of the set's records before and after a limit cut them."""
    if limited_from is None:
        return thousands(n)
    part = f"{thousands(n if limited_to is None else limited_to)} of {thousands(limited_from)}"
    return part if limited_to in (None, n) else f"{thousands(n)} ({part})"


def items_text(record: BenchmarkResult) -> str:
    """Write the number of a record's items; after a limit, of how many records it left how many; nothing if unknown."""
    items = record.limited_to or max((value.n for value in record.metrics.values()), default=0)
    if not items:
        return ""
    single = items == 1 and record.limited_from is None
    return f"{count_text(items, record.limited_from)} item{'' if single else 's'}"


def worth_text(values: Iterable[Value]) -> str:
    """Write how many independent items would be as precise, for models of the same items; nothing if it is about n."""
    sizes = [(value.effective, value.n) for value in values if value.effective is not None]
    if not any(effective < _MATTERS * n for effective, n in sizes):
        return ""
    low, high = (thousands(round(extreme(sizes)[0])) for extreme in (min, max))
    return f"as good as {low}" if low == high else f"as good as {low} to {high}"


def tie_text(value: Value | None) -> str:
    """Write a metric with ties broken at random, and the items that a tie touched; nothing if there are none."""
    if value is None or not value.ties:
        return ""
    neutral = "–" if value.tie_neutral is None else percent(value.tie_neutral)
    return f"{neutral} ({thousands(value.ties)} tied)"


def describe_ties(metrics: Mapping[str, Iterable[tuple[str, Value | None]]]) -> str:
    """Describe the ties of metrics, by model; nothing without ties. A tied item is one of a metric: each is named."""
    tied = {
        name: [f"{of} {text}" for of, value in pairs if (text := tie_text(value))] for name, pairs in metrics.items()
    }
    listed = "; ".join(f"{name} {', '.join(models)}" for name, models in tied.items() if models)
    return f"a tie counts as wrong; with ties broken at random: {listed}" if listed else ""


def is_deviation(value: Value) -> bool:
    """Return whether a number is a deviation in the unit of the scores, not a share of right items."""
    return value.mean_absolute is not None


def is_even(record: BenchmarkResult, tag: str) -> bool:
    """Return whether the macro mean of a tag is the mean over all items: its values have the same number of items."""
    if tag not in record.macro:
        return False
    sizes = [max((value.n for value in group.metrics.values()), default=0) for group in record.by[tag].values()]
    macro = record.macro[tag].metrics
    same = all(abs(value.value - record.metrics[name].value) < _SAME for name, value in macro.items())
    everything = max((value.n for value in record.metrics.values()), default=0)
    return same and len(set(sizes)) == 1 and sum(sizes) == everything


def deviation(number: float | None) -> str:
    """Write a deviation with three significant digits; a dash if it is not defined."""
    return "–" if number is None else f"{number:.3g}"


def thousands(number: int) -> str:
    """Write a count."""
    return f"{number:,}"


def join_names(names: Sequence[str]) -> str:
    """Join names as people do."""
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def join_few(names: Sequence[str], many: str = "models", *, few: bool | None = None) -> str:
    """Name a few; of more, write their number."""
    named = len(names) <= MOST_NAMED if few is None else few
    return join_names(names) if named else f"{len(names)} {many}"
