"""Two models beside each other: the paired tests of `compare`, and the items on which they differ."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sqlmodel import Session, select

from tellapart.board.entries import HIDDEN
from tellapart.board.settings import BoardSettings
from tellapart.board.tables import Benchmark, Entry, Item, Model, Vector
from tellapart.board.vectors import unpacked
from tellapart.board.views.leaderboard import all_benchmarks
from tellapart.board.views.view import (
    BenchmarkHead,
    Link,
    ModelHead,
    Table,
    View,
    benchmark_head,
    main_metric,
    one_by_slug,
)
from tellapart.errors import RunError, UnknownNameError
from tellapart.evaluation.compare import Row, compare
from tellapart.stats.multiple import holm

__all__ = ["MOST", "ChoosePage", "ComparisonPage", "Differs", "choose_page", "comparison_page"]

#: Items listed for each side, and models between which every pair is linked: a static site writes a page for each.
MOST = 25


class Differs(View):
    """The items of a benchmark that one of two models alone gets right.

    Attributes:
        only_a, only_b: (position, name) of the first of them.
        more_a, more_b: how many more there are.

    >>> head = BenchmarkHead(slug="a", name="a", title="A", task="pairs", n=0, metric="")
    >>> Differs(title="A", benchmark=head, only_a=(), only_b=(), more_a=0, more_b=0).more_a
    0
    """

    benchmark: BenchmarkHead
    only_a: tuple[tuple[int, str], ...]
    only_b: tuple[tuple[int, str], ...]
    more_a: int
    more_b: int


class ComparisonPage(View):
    """Two models.

    Attributes:
        tests: as `tellapart compare` has them; p is corrected over all of them (Holm).
        refused: why there are none, or not all.

    >>> head = ModelHead(slug="a", label="a", kind="model")
    >>> ComparisonPage(title="a and a", a=head, b=head, tests=(), differs=(), refused=()).tests
    ()
    """

    a: ModelHead
    b: ModelHead
    tests: tuple[Row, ...]
    differs: tuple[Differs, ...]
    refused: tuple[str, ...]

    def table(self) -> Table:
        """Return the tests, a row each.

        >>> head = ModelHead(slug="a", label="a", kind="model")
        >>> ComparisonPage(title="t", a=head, b=head, tests=(), differs=(), refused=()).table().rows[0][:4]
        ('benchmark', 'metric', 'n', 'a')
        """
        names = (
            "benchmark",
            "metric",
            "n",
            "a",
            "b",
            "difference",
            "low",
            "high",
            "only_a",
            "only_b",
            "p",
            "p_holm",
            "test",
        )
        rows = tuple(tuple(getattr(row, name) for name in names) for row in self.tests)
        return Table(title=self.title, rows=(names, *rows))


class ChoosePage(View):
    """Which models to compare.

    Attributes:
        models: all that can be.
        pairs: links between all of them; between the best by the first page where they are many.

    >>> ChoosePage(title="Compare", models=(), pairs=()).pairs
    ()
    """

    models: tuple[ModelHead, ...]
    pairs: tuple[tuple[Link, ...], ...]


def choose_page(session: Session, settings: BoardSettings, *, most: int = MOST) -> ChoosePage:
    """List the models that have outcomes of their own.

    Args:
        session: on the database.
        settings: the board's.
        most: models between which every pair is linked.

    >>> from tellapart.board.store import Store
    >>> with Store("sqlite://") as store, store.session() as session:
    ...     choose_page(session, BoardSettings()).models
    ()
    """
    rows = session.exec(
        select(Model)
        .where(Model.id.in_(select(Entry.model_id).where(Entry.folder != "")))  # type: ignore[union-attr]
        .order_by(Model.kind, Model.label)
    ).all()
    heads = tuple(ModelHead(slug=row.slug, label=row.label, kind=row.kind) for row in rows)
    linked = heads if len(heads) <= most else _best(session, settings, heads, most)
    pairs = tuple(
        tuple(
            Link(text=f"{a.label} and {b.label}", page="compare", args={"a": a.slug, "b": b.slug})
            for b in linked[k + 1 :]
        )
        for k, a in enumerate(linked[:-1])
    )
    return ChoosePage(title="Compare two models", models=heads, pairs=pairs)


def _best(session: Session, settings: BoardSettings, heads: Sequence[ModelHead], most: int) -> tuple[ModelHead, ...]:
    board = all_benchmarks(session, settings)
    places = {row.model.slug: place for place, row in enumerate((*board.rows, *board.references))}
    best = sorted(heads, key=lambda head: places.get(head.slug, len(places)))[:most]
    return tuple(head for head in heads if head in best)


def comparison_page(session: Session, _settings: BoardSettings, a: str, b: str) -> ComparisonPage:
    """Compare two models on every benchmark that both were measured on.

    Raises:
        UnknownNameError: there is no such model, or it is the same one twice.

    >>> from tellapart.board.store import Store
    >>> with Store("sqlite://") as store, store.session() as session:
    ...     comparison_page(session, BoardSettings(), "a", "b")
    Traceback (most recent call last):
    tellapart.errors.UnknownNameError: this board has no model 'a'
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
    tests: list[Row] = []
    differs = []
    for folders in dict.fromkeys((own[k].folder, other[k].folder) for k in shared):
        benchmarks = {k: session.get_one(Benchmark, k) for k in shared if (own[k].folder, other[k].folder) == folders}
        listed = ", ".join(benchmark.name for benchmark in benchmarks.values())
        if any(benchmark.fingerprint.startswith(HIDDEN) for benchmark in benchmarks.values()):
            refused.append(
                f"{listed}: its labels are hidden, and so is which items a model gets right; its page has intervals."
            )
            continue
        if not all(folders):
            refused.append(f"{listed}: imported numbers have no items to test.")
            continue
        try:
            found = compare(Path(folders[0]), Path(folders[1])).rows
        except RunError as error:
            refused.append(str(error))
            continue
        wanted = {benchmark.name for benchmark in benchmarks.values()}
        tests += [row for row in found if row.benchmark in wanted]
        differs += [_differs(session, benchmark, own[k], other[k]) for k, benchmark in benchmarks.items()]
    if tests:
        adjusted = holm([row.p for row in tests])
        tests = [row.model_copy(update={"p_holm": float(p)}) for row, p in zip(tests, adjusted, strict=True)]
    return ComparisonPage(
        title=f"{first.label} and {second.label}",
        a=ModelHead(slug=first.slug, label=first.label, kind=first.kind),
        b=ModelHead(slug=second.slug, label=second.label, kind=second.kind),
        tests=tuple(tests),
        differs=tuple(differs),
        refused=tuple(refused),
    )


def _differs(session: Session, benchmark: Benchmark, a: Entry, b: Entry) -> Differs:
    metric = main_metric(benchmark.headline)
    vectors = [session.get(Vector, (entry.id, metric)) for entry in (a, b)]
    places: list[list[int]] = [[], []]
    if all(vectors):
        left, right = (unpacked(vector.data) for vector in vectors if vector)
        places = [np.flatnonzero(left > right).tolist(), np.flatnonzero(right > left).tolist()]
    shown = [side[:MOST] for side in places]
    names = dict(
        session.exec(
            select(Item.position, Item.name).where(
                Item.benchmark_id == benchmark.id,
                Item.position.in_(shown[0] + shown[1]),  # type: ignore[attr-defined]
            )
        ).all()
    )
    return Differs(
        title=benchmark.title,
        benchmark=benchmark_head(benchmark),
        only_a=tuple((k, names[k]) for k in shown[0]),
        only_b=tuple((k, names[k]) for k in shown[1]),
        more_a=len(places[0]) - len(shown[0]),
        more_b=len(places[1]) - len(shown[1]),
    )
