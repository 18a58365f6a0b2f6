"""The comparison of several models: each with each on the same items, corrected for all tests of the page; tiers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from math import comb

import numpy as np
from numpy.typing import NDArray
from sqlmodel import Session, col, select

from tellapart.board.entries import is_hidden
from tellapart.board.settings import BoardSettings
from tellapart.board.tables import Benchmark, Entry, Item, Model
from tellapart.board.vectors import read_vector
from tellapart.board.views.view import BenchmarkHead, ModelHead, Table, View, benchmark_head, model_head, one_by_slug
from tellapart.errors import UnknownNameError
from tellapart.evaluation.compare import correct, rank_outcomes
from tellapart.stats.paired import at_floor, enough_flips, pair_tests, write_p
from tellapart.tasks.registry import main_metric

#: Models that are compared at once: every pair of them is tested on every benchmark.
MOST_TOGETHER = 8

#: Why a benchmark has no tests.
HIDDEN_LABELS = "its labels and the items that a model gets right are hidden; its page has intervals"
NO_ITEMS = "imported numbers have no items to test"


class PairTest(View):
    """Two models, b the better, on the items that all of the page's models on that benchmark have.

    Attributes:
        difference: of the means, b minus a.
        p, p_holm: two-sided, and corrected over all tests of the page.
        test: `exact McNemar` if items are independent and right or wrong, else `cluster sign flips`.
        flips: how many sign vectors such a test draws if it cannot make them all; None of the exact test.
    """

    a: str
    b: str
    difference: float
    p: float
    p_holm: float
    test: str
    flips: int | None = None

    @property
    def p_holm_text(self) -> str:
        """The adjusted p as it is printed."""
        return write_p(self.p_holm, at_most=at_floor(self.p, self.flips))


class RankedModel(View):
    """One model on a benchmark; tier and mean are over the items that all of them have."""

    model: ModelHead
    value: float
    tier: int


class ComparedBenchmark(View):
    """A benchmark that two or more of the models were measured on, by the metric that ranks it.

    Attributes:
        n: the items.
        models: the best first.
        tests: of each with each of those after it.
    """

    benchmark: BenchmarkHead
    n: int
    models: tuple[RankedModel, ...]
    tests: tuple[PairTest, ...]


class ManyPage(View):
    """Several models.

    Attributes:
        on: the benchmarks, those of most of the models first.
        refused: reasons why a benchmark has no test.
    """

    models: tuple[ModelHead, ...]
    on: tuple[ComparedBenchmark, ...]
    refused: tuple[str, ...]

    def table(self) -> Table:
        """Return the tests, a row each."""
        numbers = ("difference", "p", "p_holm", "test")
        rows = []
        for shared in self.on:
            heading = (shared.benchmark.label, shared.benchmark.metric, shared.n)
            rows += [
                (*heading, test.a, test.b, *(getattr(test, number) for number in numbers)) for test in shared.tests
            ]
        return Table(title=self.title, rows=(("benchmark", "metric", "n", "a", "b", *numbers), *rows))


def compare_many(session: Session, _settings: BoardSettings, models: str) -> ManyPage:
    """Compare several models, each with each, on every benchmark that two of them were measured on."""
    slugs = list(dict.fromkeys(models.split("+")))
    if not 1 < len(slugs) <= MOST_TOGETHER:
        raise UnknownNameError(f"{len(slugs)} models are asked for; choose 2 to {MOST_TOGETHER} of them")
    chosen: list[Model] = [one_by_slug(session, Model, slug, "model") for slug in slugs]
    of_chosen = col(Entry.model_id).in_([model.id for model in chosen])
    entries: dict[int, dict[int, Entry]] = {}
    for entry in session.exec(select(Entry).where(of_chosen)).all():
        entries.setdefault(entry.benchmark_id, {})[entry.model_id] = entry
    comparisons, refused = [], []
    flips = enough_flips(sum(comb(len(rows), 2) for rows in entries.values()))
    for number, own in sorted(entries.items(), key=lambda pair: (-len(pair[1]), pair[0])):
        benchmark = session.get_one(Benchmark, number)
        if len(own) < 2:
            continue
        present = [model for model in chosen if model.id in own]
        shared = _compare_on(session, benchmark, [(model, own[model.id or 0]) for model in present], flips)
        if shared is None:
            why = HIDDEN_LABELS if is_hidden(benchmark) else NO_ITEMS
            refused.append(f"{benchmark.name}: {why}.")
        else:
            comparisons.append(shared)
    if not comparisons and not refused:
        refused.append("No two of these models were measured on a benchmark in common.")
    return ManyPage(
        title=f"{len(chosen)} models together",
        models=tuple(map(model_head, chosen)),
        on=_correct_tests(comparisons),
        refused=tuple(refused),
    )


def _compare_on(
    session: Session, benchmark: Benchmark, entries: Sequence[tuple[Model, Entry]], flips: int
) -> ComparedBenchmark | None:
    """Compare the models with outcomes of single items; None if they are fewer than two."""
    metric = main_metric(benchmark.headline)
    vectors = {model.label: read_vector(session, entry, metric) for model, entry in entries}
    values = {name: vector.astype(np.float64) for name, vector in vectors.items() if vector is not None}
    if len(values) < 2:
        return None
    names = session.exec(
        select(Item.cluster).where(Item.benchmark_id == benchmark.id).order_by(col(Item.position))
    ).all()
    table = np.column_stack(list(values.values()))
    has = ~np.isnan(table).any(axis=1)  # items of another unit have no value
    heads = {model.label: model_head(model) for model, _ in entries}
    ranked = [
        RankedModel(title=name, model=heads[name], value=mean, tier=tier.rank)
        for tier in rank_outcomes(values, names)
        for name, mean in zip(tier.names, tier.means, strict=True)
    ]
    if not ranked:  # no item has a value of each
        return None
    order = [list(values).index(row.title) for row in ranked]
    return ComparedBenchmark(
        title=benchmark_head(benchmark).title,
        benchmark=benchmark_head(benchmark),
        n=int(has.sum()),
        models=tuple(ranked),
        tests=_test_pairs([model.title for model in ranked], table[has][:, order], np.array(names)[has], flips),
    )


def _test_pairs(
    names: Sequence[str], values: NDArray[np.float64], clusters: NDArray[np.str_], flips: int
) -> tuple[PairTest, ...]:
    """Test each model with each after it, all pairs at once."""
    tests = pair_tests(values, clusters, flips=flips)
    return tuple(
        PairTest(
            title=f"{names[b]} less {names[a]}",
            a=names[a],
            b=names[b],
            difference=float(difference),
            p=float(p),
            p_holm=float(p),
            test=tests.test,
            flips=tests.flips,
        )
        for (b, a), difference, p in zip(tests.pairs.tolist(), tests.differences, tests.p, strict=True)
    )


def _correct_tests(found: Sequence[ComparedBenchmark]) -> tuple[ComparedBenchmark, ...]:
    """Correct every p for all tests of the page (Holm)."""
    adjusted = iter(correct([test for comparison in found for test in comparison.tests]))
    return tuple(
        comparison.model_copy(update={"tests": tuple(islice(adjusted, len(comparison.tests)))}) for comparison in found
    )
