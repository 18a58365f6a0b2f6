"""The comparison of two models: the paired tests of `compare`, and the items on which they differ."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from math import comb
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sqlmodel import Session, col, select

from tellapart.board.settings import BoardSettings
from tellapart.board.store import Benchmark, Entry, Item, Model, read_vector
from tellapart.board.views.leaderboard import all_benchmarks
from tellapart.board.views.rows import (
    BenchmarkHead,
    Link,
    ModelHead,
    Table,
    View,
    benchmark_head,
    choice_links,
    model_head,
    one_by_slug,
)
from tellapart.errors import RunError, UnknownNameError
from tellapart.evaluation.compare import MetricComparison, Verdict, compare, correct, judge_pair, rank_outcomes
from tellapart.stats.paired import at_floor, enough_flips, pair_tests, write_p
from tellapart.tasks.registry import main_metric

#: Models that are compared at once: every pair of them is tested on every benchmark.
MOST_TOGETHER = 8

#: Why a benchmark has no tests.
HIDDEN_LABELS = "its labels and the items that a model gets right are hidden; its page has intervals"
NO_ITEMS = "imported numbers have no items to test"


class PairTest(View):
    """Two models, b the better, on the items that all of the page's models on that benchmark have."""

    a: str
    b: str
    difference: float  # of the means, b minus a
    p: float  # p, p_holm: two-sided, and corrected over all tests of the page
    p_holm: float
    test: str  # `exact McNemar` if items are independent and right or wrong, else `cluster sign flips`
    # how many sign vectors such a test draws if it cannot make them all; None of the exact test
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
    """A benchmark that two or more of the models were measured on, by the metric that ranks it."""

    benchmark: BenchmarkHead
    n: int  # the items
    models: tuple[RankedModel, ...]  # the best first
    tests: tuple[PairTest, ...]  # of each with each of those after it


class ManyPage(View):
    """Several models."""

    models: tuple[ModelHead, ...]
    on: tuple[ComparedBenchmark, ...]  # the benchmarks, those of most of the models first
    refused: tuple[str, ...]  # reasons why a benchmark has no test

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
        present = [(model, own[model.id or 0]) for model in chosen if model.id in own]
        shared = _compare_on(session, benchmark, present, flips)
        if shared is None:
            why = HIDDEN_LABELS if benchmark.is_hidden else NO_ITEMS
            refused.append(f"{benchmark.name}: {why}.")
        else:
            comparisons.append(shared)
    if not comparisons and not refused:
        refused.append("No two of these models were measured on a benchmark in common.")
    tests = iter(correct([test for shared in comparisons for test in shared.tests]))  # for all of the page (Holm)
    return ManyPage(
        title=f"{len(chosen)} models together",
        models=tuple(map(model_head, chosen)),
        on=tuple(
            shared.model_copy(update={"tests": tuple(islice(tests, len(shared.tests)))}) for shared in comparisons
        ),
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


#: The most items listed for each model, and the most models of which every pair gets a link. Both are small because a
#: static site writes a page for every link.
MOST = 25

#: The most letters of several models' joined addresses, which name a folder in a static site.
_LONGEST = 240


class DifferingItems(View):
    """The items of a benchmark that only one of two models gets right."""

    benchmark: BenchmarkHead
    # only_a, only_b: (position, name) of the first `MOST` items that only this model gets right
    only_a: tuple[tuple[int, str], ...]
    only_b: tuple[tuple[int, str], ...]
    more_a: int  # more_a, more_b: how many more there are
    more_b: int


class ComparisonPage(View):
    """The page that compares two models."""

    a: ModelHead
    b: ModelHead
    # the rows that `tellapart compare` prints; p is corrected over all of them (Holm)
    tests: tuple[MetricComparison, ...]
    differs: tuple[DifferingItems, ...]  # for each benchmark, the items on which the models differ
    refused: tuple[str, ...]  # for each benchmark without a test, the reason, as a sentence

    def verdicts(self) -> tuple[Verdict, ...]:
        """Return the outcome in words, of each benchmark's main metric."""
        return tuple(judge_pair(self.a.label, self.b.label, self.tests, len(self.tests)))

    def table(self) -> Table:
        """Return the tests as a table, one row for each."""
        numbers = ("n", "a", "b", "difference", "low", "high", "only_a", "only_b", "p", "p_holm")
        names = ("benchmark", "metric", *numbers, "test")
        rows = tuple(tuple(getattr(row, name) for name in names) for row in self.tests)
        return Table(title=self.title, rows=(names, *rows)).with_reasons([row.reason for row in self.tests])


class ChoosePage(View):
    """The page on which a visitor chooses models to compare."""

    models: tuple[ModelHead, ...]  # the models that have outcomes by item
    # links to the comparison of every pair; if models are many, of the best ones on the board's first page
    pairs: tuple[tuple[Link, ...], ...]
    together: Link | None = None  # a link to one comparison of the best models; None if they are fewer than three


def choose_page(session: Session, settings: BoardSettings, *, most: int = MOST) -> ChoosePage:
    """List the models that have outcomes by item."""
    rows = session.exec(
        select(Model)
        .where(col(Model.id).in_(select(Entry.model_id).where(Entry.folder != "")))
        .order_by(Model.kind, Model.label)
    ).all()
    heads = tuple(map(model_head, rows))
    linked = heads if len(heads) <= most else _best_models(session, settings, heads, most)
    pairs = tuple(
        choice_links("compare", {"a": a.slug}, "b", {b.slug: f"{a.label} and {b.label}" for b in linked[k + 1 :]})
        for k, a in enumerate(linked[:-1])
    )
    rivals = [head for head in heads if head.kind == "model"]
    best = _best_models(session, settings, rivals if len(rivals) > 2 else heads, MOST_TOGETHER)
    while len("+".join(head.slug for head in best)) > _LONGEST:
        best = best[:-1]
    several = "+".join(head.slug for head in best)
    together = Link(text=f"{len(best)} models together", page="compare_many", args={"models": several})
    return ChoosePage(title="Compare models", models=heads, pairs=pairs, together=together if len(best) > 2 else None)


def _best_models(
    session: Session, settings: BoardSettings, heads: Sequence[ModelHead], most: int
) -> tuple[ModelHead, ...]:
    """Return the models that rank highest on the board's first page, in their given order."""
    board = all_benchmarks(session, settings)
    ranks = {row.model.slug: k for k, row in enumerate((*board.rows, *board.references))}
    best = sorted(heads, key=lambda head: ranks.get(head.slug, len(ranks)))[:most]
    return tuple(head for head in heads if head in best)


def comparison_page(session: Session, _settings: BoardSettings, a: str, b: str) -> ComparisonPage:
    """Compare two models on every benchmark that both were measured on."""
    first, second = (one_by_slug(session, Model, slug, "model") for slug in (a, b))
    if first.id == second.id:
        raise UnknownNameError(f"{first.label} is compared with itself; choose two models")
    first_entries, second_entries = (
        {e.benchmark_id: e for e in session.exec(select(Entry).where(Entry.model_id == m.id)).all()}
        for m in (first, second)
    )
    shared = sorted(first_entries.keys() & second_entries.keys())
    refused = [] if shared else [f"{first.label} and {second.label} were measured on no benchmark in common."]
    tests: list[MetricComparison] = []
    differs = []
    for folders in dict.fromkeys((first_entries[k].folder, second_entries[k].folder) for k in shared):
        benchmarks = {
            k: session.get_one(Benchmark, k)
            for k in shared
            if (first_entries[k].folder, second_entries[k].folder) == folders
        }
        listed = ", ".join(benchmark.name for benchmark in benchmarks.values())
        if any(benchmark.is_hidden for benchmark in benchmarks.values()):
            refused.append(f"{listed}: {HIDDEN_LABELS}.")
            continue
        if not all(folders):
            refused.append(f"{listed}: {NO_ITEMS}.")
            continue
        try:
            rows = compare(Path(folders[0]), Path(folders[1])).rows
        except RunError as error:
            refused.append(str(error))
            continue
        names = {first_entries[k].name: benchmark_head(each).label for k, each in benchmarks.items()}
        tests += [row.model_copy(update={"benchmark": names[row.benchmark]}) for row in rows if row.benchmark in names]
        differs += [
            _differing_items(session, benchmark, first_entries[k], second_entries[k])
            for k, benchmark in benchmarks.items()
        ]
    return ComparisonPage(
        title=f"{first.label} and {second.label}",
        a=model_head(first),
        b=model_head(second),
        tests=tuple(correct(tests)),
        differs=tuple(differs),
        refused=tuple(refused),
    )


def _differing_items(session: Session, benchmark: Benchmark, a: Entry, b: Entry) -> DifferingItems:
    """List the items on which two models' values of the main metric differ, each under the model that is better."""
    metric = main_metric(benchmark.headline)
    first, second = (read_vector(session, entry, metric) for entry in (a, b))
    only: list[list[int]] = [[], []]
    if first is not None and second is not None:
        only = [np.flatnonzero(first > second).tolist(), np.flatnonzero(second > first).tolist()]
    listed = [side[:MOST] for side in only]
    of_listed = (Item.benchmark_id == benchmark.id, col(Item.position).in_(listed[0] + listed[1]))
    names = dict(session.exec(select(Item.position, Item.name).where(*of_listed)).all())
    return DifferingItems(
        title=benchmark_head(benchmark).title,
        benchmark=benchmark_head(benchmark),
        only_a=tuple((k, names[k]) for k in listed[0]),
        only_b=tuple((k, names[k]) for k in listed[1]),
        more_a=len(only[0]) - len(listed[0]),
        more_b=len(only[1]) - len(listed[1]),
    )
