"""The sentence at the end of a comparison: which model is better by each benchmark's main metric, and by how much."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from pydantic import BaseModel

from tellapart.evaluation.metric_comparison import MetricComparison, MetricTiers
from tellapart.stats.power import power_of_difference
from tellapart.tasks.registry import main_metric

#: The error over all tests of a comparison (Holm).
ALPHA = 0.05

#: Items beyond which a difference is not looked for.
_MOST_ITEMS = 100_000


class Verdict(BaseModel, frozen=True):
    """The outcome of a comparison on a benchmark, by its main metric.

    Attributes:
        best: the better of two models, none if they are not shown to differ; of many, the model with the highest value
            and those that are not shown to differ from it.
        sentence: the outcome in words.
    """

    benchmark: str
    metric: str
    best: tuple[str, ...]
    sentence: str


def judge_pair(a: str, b: str, rows: Sequence[MetricComparison], tests: int) -> Iterator[Verdict]:
    """Yield the verdict on two models for each benchmark.

    Args:
        a, b: names of the models; the rows' differences are b minus a.
        rows: of the two, with p corrected.
        tests: how many p is corrected for.
    """
    for row in _main_rows(rows):
        shown = row.p_holm <= ALPHA
        sign, better, worse = (-1, a, b) if shown and row.difference < 0 else (1, b, a)
        points, ends = (
            100 * sign * row.difference,
            sorted(100 * sign * end for end in (row.low, row.high) if end is not None),
        )
        on = f"in {row.metric} of {count_items(row)}"
        p = f"p {'' if '<=' in row.p_holm_text else '= '}{row.p_holm_text}, Holm{_at_every_look(row)}"
        if shown:
            between = f" [{', '.join(f'{end:.1f}' for end in ends)}]" if ends else ""
            sentence = f"{better} is better than {worse} by {points:.1f} points{between} {on} ({p})"
        else:
            between = f" [{', '.join(f'{end:+.1f}' for end in ends)}]" if ends else ""
            sentence = f"{b} is not shown to differ from {a} {on}: {points:+.1f} points{between} ({p})"
            if row.detectable is not None and row.only_a != row.only_b:
                needed = count_needed(row, ALPHA / tests)
                sentence += f"; {needed} independent items would show {abs(points):.1f} points"
        yield Verdict(benchmark=row.benchmark, metric=row.metric, best=(better,) if shown else (), sentence=sentence)


def judge_tiers(rankings: Sequence[MetricTiers]) -> Iterator[Verdict]:
    """Yield the verdict on many models for each benchmark: the best tier."""
    for name in dict.fromkeys(ranking.benchmark for ranking in rankings):
        of = {ranking.metric: ranking for ranking in rankings if ranking.benchmark == name}
        ranking = of[main_metric(list(of))]
        first, *later = (tier.names for tier in ranking.tiers)
        models = len(first) + sum(map(len, later))
        size = count_items(ranking)
        test = f"Holm over {_count(models * (models - 1) // 2, 'pair')}, {ALPHA:.0%}"
        yield _judge_many(name, ranking.metric, size, first, models, test)


def judge_leaders(pairs: Sequence[tuple[str, str, Sequence[MetricComparison]]]) -> Iterator[Verdict]:
    """Yield the verdict on many models for each benchmark by their paired tests: the highest value, and those near.

    Args:
        pairs: two models' names, and their rows.
    """
    tests = sum(len(rows) for *_, rows in pairs)
    tested = [(a, b, row) for a, b, rows in pairs for row in _main_rows(rows)]
    for name in dict.fromkeys(row.benchmark for *_, row in tested):
        rows = [(a, b, row) for a, b, row in tested if row.benchmark == name]
        values = {model: value for a, b, row in rows for model, value in ((a, row.a), (b, row.b))}
        leader, some = max(values, key=lambda model: values[model]), rows[0][2]
        near = [b if a == leader else a for a, b, row in rows if leader in (a, b) and row.p_holm > ALPHA]
        how = f"Holm over {_count(tests, 'test')}, {ALPHA:.0%}{_at_every_look(some)}"
        size = count_items(some)
        yield _judge_many(name, some.metric, size, (leader, *near), len(values), how)


def _judge_many(benchmark: str, metric: str, size: str, best: Sequence[str], models: int, how: str) -> Verdict:
    first, near = best[0], ", ".join(best[1:])
    others = models - len(best)
    on = f"in {metric} of {size} ({how})"
    if not near:
        sentence = (
            f"{first} is better than { {1: 'the other', 2: 'both others'}.get(others, f'all {others} others') } {on}"
        )
    elif not others:
        sentence = f"no model is shown to differ from {first}, the first of {models}, {on}"
    else:
        rest = "the other is" if others == 1 else f"the other {others} are"
        sentence = f"{first} is first of {models}; not shown to differ from it: {near}; {rest} worse {on}"
    return Verdict(benchmark=benchmark, metric=metric, best=tuple(best), sentence=sentence)


def count_needed(row: MetricComparison, alpha: float) -> str:
    """Count the independent items on which McNemar finds the row's difference at `alpha` with a power of 0.8."""
    difference, discordance = (count / row.n for count in (row.only_a - row.only_b, row.only_a + row.only_b))

    def suffice(items: int) -> bool:
        return power_of_difference(difference, items, discordance, alpha=alpha) >= 0.8

    enough = 60 * discordance / difference**2  # far more than by the normal approximation, however small alpha is
    sizes = range(1, int(min(_MOST_ITEMS, enough)) + 1)
    place = bisect_left(sizes, True, key=suffice)
    return f"{sizes[place]:,}" if place < len(sizes) else f"over {_MOST_ITEMS:,}"


def _main_rows(rows: Sequence[MetricComparison]) -> Iterator[MetricComparison]:
    """Return the row of each benchmark's main metric, of all its items."""
    whole = [row for row in rows if row.subset is None]
    for name in dict.fromkeys(row.benchmark for row in whole):
        of = {row.metric: row for row in whole if row.benchmark == name}
        yield of[main_metric(list(of))]


def _at_every_look(row: MetricComparison) -> str:
    return ", at every look" if row.test == "anytime" else ""


def count_items(of: MetricComparison | MetricTiers) -> str:
    """Write the number of items of a row, of how many a limit left them, and their clusters if those are fewer."""
    whole = None if isinstance(of, MetricComparison) and of.subset is not None else of.limited_from
    items = _count(of.n, "item") if whole is None else f"{of.n:,} of {_count(whole, 'item')}"
    return items if of.clusters is None or of.clusters == of.n else f"{items} in {_count(of.clusters, 'cluster')}"


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
