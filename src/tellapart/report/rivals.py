"""Models of one benchmark against each other: a paired test for every two of them, corrected over all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from tellapart.catalog import REFERENCES
from tellapart.evaluation.compare import MetricComparison, compare_pairs, judge_leaders, judge_pair
from tellapart.evaluation.systems import SharedBenchmark, System, is_testable, lay_out_outcomes
from tellapart.report.sections import ModelEntry, Section

#: The family-wise error over all tests of a benchmark.
ALPHA = 0.05

#: Models that are tested: the first by the main metric, every two of them.
MOST_TESTED = 8

#: Clusters times tests, beyond which fewer models are tested: resampling so many takes about a minute and a half.
_MOST_FLIPPED = 250_000


@dataclass(frozen=True, slots=True)
class Duel:
    """Two models; b has the higher main metric, so that its differences (b minus a) are gains.

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
        ranking: without reference models, unless all are.
        metrics: those that were tested; none if there is one model, or no metric has a value of every item.
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

    @property
    def verdicts(self) -> tuple[str, ...]:
        """The outcome in words, with which `tellapart compare` ends, too."""
        pairs = [(duel.a.label, duel.b.label, [*duel.rows.values()]) for duel in self.duels]
        judged = judge_pair(*pairs[0], self.tests) if len(pairs) == 1 else judge_leaders(pairs)
        return tuple(verdict.sentence for verdict in judged)

    def distinct(self, metric: str) -> dict[int, bool]:
        """Return for each tested model but the first, by its number, whether it differs from the first."""
        if metric not in self.metrics:
            return {}
        first = self.ranking[0]
        return {duel.a.model: duel.rows[metric].p_holm <= ALPHA for duel in self.duels if duel.b is first}


def own_models(section: Section) -> tuple[ModelEntry, ...]:
    """Return the models without the reference models; all if all are reference models."""
    entries = tuple(entry for entry in section.entries if entry.run.result.model.name not in REFERENCES)
    return entries or section.entries


def rivals_of(section: Section, *, seed: int = 0) -> Rivals:
    """Rank a benchmark's models by its main metric, and test every two of the first ones on every headline metric.

    The tests are those of `tellapart compare`.
    """
    main = section.main
    if not main:
        return Rivals(own_models(section))
    ranking = tuple(sorted(own_models(section), key=lambda entry: (-entry.record.metrics[main].value, entry.model)))
    metrics = [*filter(is_testable, section.headline)]
    tested = ranking[: _most_tested(section, len(metrics))]
    if len(tested) < 2:
        return Rivals(ranking)
    shared = _share_benchmark(section, tested, metrics)
    if not shared.outcomes:
        return Rivals(ranking)
    pairs = [(low, high) for high, low in combinations(range(len(tested)), 2)]
    systems = [System(entry.label, {}, entry.run.result) for entry in tested]
    duels = tuple(
        Duel(tested[a], tested[b], {row.metric: row for row in comparison.rows})
        for (a, b), comparison in zip(pairs, compare_pairs(systems, [shared], pairs, seed=seed), strict=True)
    )
    tests = len(duels) * len(shared.outcomes)
    return Rivals(ranking, tuple(shared.outcomes), duels, len(ranking) - len(tested), tests)


def _most_tested(section: Section, metrics: int) -> int:
    """Return how many models are tested: fewer if the flips of very many clusters would take minutes."""
    clusters = len({sample.cluster for sample in section.samples})
    most = MOST_TESTED
    if clusters < len(section.samples):
        while most > 2 and clusters * metrics * most * (most - 1) // 2 > _MOST_FLIPPED:
            most -= 1
    return most


def _share_benchmark(section: Section, entries: Sequence[ModelEntry], metrics: Sequence[str]) -> SharedBenchmark:
    return SharedBenchmark(
        name=section.name,
        records={number: entry.record for number, entry in enumerate(entries)},
        clusters=np.array([sample.cluster for sample in section.samples]),
        tags=(),
        outcomes=lay_out_outcomes([entry.samples for entry in entries], metrics),
    )
