"""The comparison of two models: the paired tests of `compare`, and the items on which they differ."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sqlmodel import Session, col, select

from tellapart.board.entries import HIDDEN
from tellapart.board.settings import BoardSettings
from tellapart.board.tables import Benchmark, Entry, Item, Model
from tellapart.board.vectors import read_vector
from tellapart.board.views.many import HIDDEN_LABELS, MOST_TOGETHER, NO_ITEMS
from tellapart.board.views.overview import all_benchmarks
from tellapart.board.views.view import (
    BenchmarkHead,
    Link,
    ModelHead,
    Table,
    View,
    benchmark_head,
    main_metric,
    model_head,
    one_by_slug,
)
from tellapart.errors import RunError, UnknownNameError
from tellapart.evaluation.compare import MetricComparison, compare, correct

__all__ = ["MOST", "ChoosePage", "ComparisonPage", "DifferingItems", "choose_page", "comparison_page"]

#: Items listed for each side, and models between which every pair is linked: a static site writes a page for each.
MOST = 25

#: Letters of the models' addresses together: in a static site they are the name of a folder.
_LONGEST = 240


class DifferingItems(View):
    """The items of a benchmark that only one of two models gets right.

    Attributes:
        only_a, only_b: (position, name) of the first of them.
        more_a, more_b: the number of the others.
    """

    benchmark: BenchmarkHead
    only_a: tuple[tuple[int, str], ...]
    only_b: tuple[tuple[int, str], ...]
    more_a: int
    more_b: int


class ComparisonPage(View):
    """Two models.

    Attributes:
        tests: the rows of `tellapart compare`; p is corrected over all of them (Holm).
        refused: reasons why a benchmark has no test.
    """

    a: ModelHead
    b: ModelHead
    tests: tuple[MetricComparison, ...]
    differs: tuple[DifferingItems, ...]
    refused: tuple[str, ...]

    def table(self) -> Table:
        """Return the tests, a row each."""
        numbers = ("n", "a", "b", "difference", "low", "high", "only_a", "only_b", "p", "p_holm")
        names = ("benchmark", "metric", *numbers, "test")
        rows = tuple(tuple(getattr(row, name) for name in names) for row in self.tests)
        return Table(title=self.title, rows=(names, *rows)).with_reasons([row.reason for row in self.tests])


class ChoosePage(View):
    """A choice of models to compare.

    Attributes:
        models: those with outcomes by item.
        pairs: links to comparisons of each with each; of the best by the first page if they are many.
        together: a link to the comparison of the best three or more of them at once.
    """

    models: tuple[ModelHead, ...]
    pairs: tuple[tuple[Link, ...], ...]
    together: Link | None = None


def choose_page(session: Session, settings: BoardSettings, *, most: int = MOST) -> ChoosePage:
    """List the models that have outcomes by item.

    Args:
        session: on the database.
        settings: the board's.
        most: of so many models every pair is linked.
    """
    rows = session.exec(
        select(Model)
        .where(col(Model.id).in_(select(Entry.model_id).where(Entry.folder != "")))
        .order_by(Model.kind, Model.label)
    ).all()
    heads = tuple(map(model_head, rows))
    linked = heads if len(heads) <= most else _best_models(session, settings, heads, most)
    pairs = tuple(
        tuple(
            Link(text=f"{a.label} and {b.label}", page="compare", args={"a": a.slug, "b": b.slug})
            for b in linked[k + 1 :]
        )
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
    board = all_benchmarks(session, settings)
    ranks = {row.model.slug: k for k, row in enumerate((*board.rows, *board.references))}
    best = sorted(heads, key=lambda head: ranks.get(head.slug, len(ranks)))[:most]
    return tuple(head for head in heads if head in best)


def comparison_page(session: Session, _settings: BoardSettings, a: str, b: str) -> ComparisonPage:
    """Compare two models on every benchmark that both were measured on.

    Raises:
        UnknownNameError: unknown model, or it is the same one twice.
    """
    first, second = (one_by_slug(session, Model, slug, "model") for slug in (a, b))
    if first.id == second.id:
        raise UnknownNameError(f"{first.label} is compared with itself; choose two models")
    own, other = (
        {e.benchmark_id: e for e in session.exec(select(Entry).where(Entry.model_id == m.id)).all()}
        for m in (first, second)
    )
    shared = sorted(own.keys() & other.keys())
    refused = [] if shared else [f"{first.label} and {second.label} were measured on no benchmark in common."]
    tests: list[MetricComparison] = []
    differs = []
    for folders in dict.fromkeys((own[k].folder, other[k].folder) for k in shared):
        benchmarks = {k: session.get_one(Benchmark, k) for k in shared if (own[k].folder, other[k].folder) == folders}
        listed = ", ".join(benchmark.name for benchmark in benchmarks.values())
        if any(benchmark.fingerprint.startswith(HIDDEN) for benchmark in benchmarks.values()):
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
        names = {own[k].name: benchmark_head(each).label for k, each in benchmarks.items()}
        tests += [row.model_copy(update={"benchmark": names[row.benchmark]}) for row in rows if row.benchmark in names]
        differs += [_differing_items(session, benchmark, own[k], other[k]) for k, benchmark in benchmarks.items()]
    return ComparisonPage(
        title=f"{first.label} and {second.label}",
        a=model_head(first),
        b=model_head(second),
        tests=tuple(correct(tests)),
        differs=tuple(differs),
        refused=tuple(refused),
    )


def _differing_items(session: Session, benchmark: Benchmark, a: Entry, b: Entry) -> DifferingItems:
    metric = main_metric(benchmark.headline)
    first, second = (read_vector(session, entry, metric) for entry in (a, b))
    only: list[list[int]] = [[], []]
    if first is not None and second is not None:
        only = [np.flatnonzero(first > second).tolist(), np.flatnonzero(second > first).tolist()]
    listed = [side[:MOST] for side in only]
    names = dict(
        session.exec(
            select(Item.position, Item.name).where(
                Item.benchmark_id == benchmark.id,
                col(Item.position).in_(listed[0] + listed[1]),
            )
        ).all()
    )
    return DifferingItems(
        title=benchmark_head(benchmark).title,
        benchmark=benchmark_head(benchmark),
        only_a=tuple((k, names[k]) for k in listed[0]),
        only_b=tuple((k, names[k]) for k in listed[1]),
        more_a=len(only[0]) - len(listed[0]),
        more_b=len(only[1]) - len(listed[1]),
    )
