"""Models of one benchmark against each other: a paired test for every two of them, corrected over all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from tellapart.catalog import REFERENCES
from tellapart.evaluation.compare import MetricComparison
from tellapart.metrics.registry import METRICS
from tellapart.report.sections import ModelEntry, Section
from tellapart.stats.intervals import Column, Interval, intervals_for
from tellapart.stats.multiple import holm
from tellapart.stats.paired import FEW_DIFFERING, Difference, mcnemar, paired_difference, paired_permutation
from tellapart.stats.power import detectable_difference

__all__ = ["ALPHA", "MOST_TESTED", "Duel", "Rivals", "own_models", "p_value", "rivals_of"]

#: The family-wise error over all tests of a benchmark.
ALPHA = 0.05

#: Models that are tested: the first by the main metric, every two of them.
MOST_TESTED = 8

#: Clusters times tests, beyond which fewer models are tested: sign flips of so many take about a minute.
_MOST_FLIPPED = 1_000_000

_FLIPS = "cluster sign flips"

#: The least p that 10,000 flips can show.
_LEAST = 1 / 10_001


@dataclass(frozen=True, slots=True)
class Duel:
    """Two models, the one with the higher main metric first.

    Attributes:
        rows: metric -> its test.
    """

    a: ModelEntry
    b: ModelEntry
    rows: Mapping[str, MetricComparison]


@dataclass(frozen=True, slots=True)
class Rivals:
    """Models of one benchmark, the best by the main metric first.

    Attributes:
        ranking: without reference models, unless there are no others.
        metrics: those that were tested; none where there is one model, or no metric has a value of every item.
        duels: every two of the first models.
        untested: models that come after those.
        tests: how many tests p is corrected for.
    """

    ranking: tuple[ModelEntry, ...]
    metrics: tuple[str, ...] = ()
    duels: tuple[Duel, ...] = ()
    untested: int = 0
    tests: int = 0

    @property
    def kinds(self) -> list[str]:
        """The kinds of test that were made."""
        return list(dict.fromkeys(row.test for duel in self.duels for row in duel.rows.values()))

    def distinct(self, metric: str) -> dict[int, bool]:
        """Return for each tested model but the first, by its number, whether it differs from the first."""
        if metric not in self.metrics:
            return {}
        first = self.ranking[0]
        return {duel.b.model: duel.rows[metric].p_holm <= ALPHA for duel in self.duels if duel.a is first}


def own_models(section: Section) -> tuple[ModelEntry, ...]:
    """Return the models that are no reference models; all where there are no others."""
    own = tuple(entry for entry in section.entries if entry.run.result.model.name not in REFERENCES)
    return own or section.entries


def rivals_of(section: Section, *, seed: int = 0) -> Rivals:
    """Rank a benchmark's models by its main metric, and test every two of the first ones on every headline metric.

    The tests are those of `tellapart compare`.

    Args:
        section: the benchmark.
        seed: of the bootstrap and of the sign flips.
    """
    main = section.main
    if not main:
        return Rivals(own_models(section))
    ranking = tuple(sorted(own_models(section), key=lambda entry: (-entry.record.metrics[main].value, entry.model)))
    metrics = [name for name in section.headline if _is_testable(name)]
    tested = ranking[: _most_tested(section, len(metrics))]
    outcomes = {name: values for name in metrics if (values := _outcomes(tested, name)) is not None}
    if len(tested) < 2 or not outcomes:
        return Rivals(ranking)
    pairs = list(combinations(range(len(tested)), 2))
    rows = [row for name, values in outcomes.items() for row in _test(section.name, name, values, pairs, seed)]
    adjusted = holm([row.p for row in rows])
    rows = [row.model_copy(update={"p_holm": float(p)}) for row, p in zip(rows, adjusted, strict=True)]
    duels = tuple(
        Duel(tested[a], tested[b], dict(zip(outcomes, rows[number :: len(pairs)], strict=True)))
        for number, (a, b) in enumerate(pairs)
    )
    return Rivals(ranking, tuple(outcomes), duels, len(ranking) - len(tested), len(rows))


def p_value(row: MetricComparison) -> str:
    """Write the corrected p of a test; a bound where none of the drawn flips was as extreme."""
    bound = "<= " if row.p <= _LEAST and row.test == _FLIPS and row.p_holm < 1 else ""
    return f"{bound}{row.p_holm:.3g}"


def _is_testable(name: str) -> bool:
    """Return whether a metric of scores is right or wrong of one item; a task's metric is taken as it is."""
    return name not in METRICS or (METRICS[name].binary and not METRICS[name].components)


def _most_tested(section: Section, metrics: int) -> int:
    """Return how many models are tested: fewer where the flips of very many clusters would take minutes."""
    clusters = len({sample.cluster for sample in section.samples})
    most = MOST_TESTED
    if clusters < len(section.samples):
        while most > 2 and clusters * metrics * most * (most - 1) // 2 > _MOST_FLIPPED:
            most -= 1
    return most


@dataclass(frozen=True, slots=True)
class _Outcomes:
    """One metric's values of the items that have it.

    Attributes:
        values: float64 `(item, model)`.
    """

    values: NDArray[np.float64]
    clusters: list[str]

    @property
    def binary(self) -> bool:
        return bool(np.isin(self.values, (0, 1)).all())

    @property
    def independent(self) -> bool:
        return len(set(self.clusters)) == len(self.clusters)


def _outcomes(entries: Sequence[ModelEntry], metric: str) -> _Outcomes | None:
    """Read a metric's values; None where it has none of an item, as BLEU."""
    rows = [
        row for row in range(len(entries[0].samples)) if all(metric in entry.samples[row].outcomes for entry in entries)
    ]
    if not rows:
        return None
    values = np.array([[entry.samples[row].outcomes[metric] for entry in entries] for row in rows])
    return _Outcomes(values, [entries[0].samples[row].cluster for row in rows])


def _test(
    benchmark: str, metric: str, outcomes: _Outcomes, pairs: Sequence[tuple[int, int]], seed: int
) -> Iterator[MetricComparison]:
    """Test every two models on one metric; p is not yet corrected."""
    clusters, binary = outcomes.clusters, outcomes.binary
    exact = binary and outcomes.independent
    differences = _differences(outcomes, pairs, seed)
    for (first, second), difference in zip(pairs, differences, strict=True):
        a, b = outcomes.values[:, first], outcomes.values[:, second]
        only_a, only_b = int((a > b).sum()), int((b > a).sum())
        discordance = (only_a + only_b) / len(a)
        yield MetricComparison(
            benchmark=benchmark,
            metric=metric,
            n=len(a),
            a=float(a.mean()),
            b=float(b.mean()),
            difference=float(a.mean() - b.mean()),
            low=difference.low,
            high=difference.high,
            method=difference.method,
            only_a=only_a,
            only_b=only_b,
            p=mcnemar(a, b).p if exact else paired_permutation(a, b, clusters, seed=seed),
            p_holm=1.0,
            test="exact McNemar" if exact else _FLIPS,
            detectable=detectable_difference(len(a), discordance) if binary and discordance > 0 else None,
        )


def _differences(outcomes: _Outcomes, pairs: Sequence[tuple[int, int]], seed: int) -> Sequence[Interval | Difference]:
    """Return the intervals of `paired_difference`, from one set of draws for all pairs."""
    clusters, names = outcomes.clusters, np.array(outcomes.clusters)
    both = [outcomes.values[:, pair] for pair in pairs]
    columns = [Column(values, binary=False, reduce=lambda means: means[..., 0] - means[..., 1]) for values in both]
    found: list[Interval | Difference] = [*intervals_for(columns, clusters, seed=seed)]
    for number, values in enumerate(both if outcomes.binary else ()):
        a, b = values.T
        if len(np.unique(names[a != b])) < FEW_DIFFERING:
            found[number] = paired_difference(a, b, clusters, binary=True, seed=seed)
    return found
