"""What all pages share: a cell, a model's head, and a table that can be downloaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict
from sqlmodel import Session, select

from tellapart.board.tables import Benchmark, Entry, Model
from tellapart.errors import UnknownNameError

__all__ = [
    "BenchmarkHead",
    "Cell",
    "Link",
    "ModelHead",
    "Table",
    "View",
    "benchmark_head",
    "heads_of",
    "main_metric",
    "one_by_slug",
]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class Table(_Frozen):
    """Rows for CSV and LaTeX, the first of which is the head.

    >>> Table(title="scores", rows=(("model", "score"), ("a", 0.5))).rows[1]
    ('a', 0.5)
    """

    title: str
    rows: tuple[tuple[str | int | float | None, ...], ...]


class View(_Frozen):
    """A page's content; its JSON is what the page's address answers to programs.

    >>> View(title="a").table() is None
    True
    """

    title: str

    def table(self) -> Table | None:
        """Return what is downloaded as CSV and LaTeX; None if there is nothing to.

        >>> View(title="a").table() is None
        True
        """
        return None


class Link(_Frozen):
    """Another page, for a row of choices.

    Attributes:
        page, args: as `links.PATTERNS` has them.
        current: it is the page on show.

    >>> Link(text="demo", page="benchmark", args={"slug": "demo"}).current
    False
    """

    text: str
    page: str
    args: dict[str, str | int]
    current: bool = False


class ModelHead(_Frozen):
    """A model as a row names it.

    >>> ModelHead(slug="a", label="a", kind="model").kind
    'model'
    """

    slug: str
    label: str
    kind: str


class BenchmarkHead(_Frozen):
    """A benchmark as a column names it.

    Attributes:
        n: how many items its numbers stand on; 0 where that is not known.
        has_items: they are known one by one, so that there are pages of them.

    >>> BenchmarkHead(slug="demo", name="demo", title="Demo", task="pairs", n=300, metric="group_score").n
    300
    """

    slug: str
    name: str
    title: str
    task: str
    n: int
    metric: str
    has_items: bool = False


class Cell(_Frozen):
    """One number with what is known of it; fractions, or for deviations the unit of the scores.

    Attributes:
        tier: shared by models that the items cannot tell apart; None if they were not tested.
        mark: `imported` where the number comes from elsewhere, `on trust` where the scores do.

    >>> Cell(value=0.5, n=10).mark
    ''
    """

    value: float
    low: float | None = None
    high: float | None = None
    chance: float | None = None
    n: int
    ties: int = 0
    tie_neutral: float | None = None
    tier: int | None = None
    mark: str = ""


def main_metric(headline: Sequence[str]) -> str:
    """Choose the one metric that ranks a benchmark: the group score where there is one, else the first of the headline.

    >>> main_metric(["text_score", "image_score", "group_score"]), main_metric(["accuracy", "consistency"]), main_metric([])
    ('group_score', 'accuracy', '')
    """
    for name in ("group_score", "min_pc_pf"):
        if name in headline:
            return name
    return headline[0] if headline else ""


def one_by_slug(session: Session, table: Any, slug: str, noun: str) -> Any:
    """Return the row with an address.

    Raises:
        UnknownNameError: there is none.

    >>> from tellapart.board.store import Store
    >>> with Store("sqlite://") as store, store.session() as session:
    ...     one_by_slug(session, Model, "clip", "model")
    Traceback (most recent call last):
    tellapart.errors.UnknownNameError: this board has no model 'clip'
    """
    found = session.exec(select(table).where(table.slug == slug)).first()
    if found is None:
        raise UnknownNameError(f"this board has no {noun} {slug[:200]!r}")
    return found


def heads_of(session: Session) -> Mapping[int, tuple[ModelHead, str]]:
    """Return entry -> its model and its mark, for every entry; records stay unread.

    >>> from tellapart.board.store import Store
    >>> with Store("sqlite://") as store, store.session() as session:
    ...     heads_of(session)
    {}
    """
    rows = session.exec(
        select(Entry.id, Entry.folder, Entry.on_trust, Model.slug, Model.label, Model.kind).join(  # type: ignore[call-overload]
            Model, Model.id == Entry.model_id
        )
    ).all()
    models: dict[str, ModelHead] = {}
    found = {}
    for entry, folder, on_trust, slug, label, kind in rows:
        head = models.setdefault(slug, ModelHead(slug=slug, label=label, kind=kind))
        found[entry] = (head, "" if not on_trust else "on trust" if folder else "imported")
    return found


def benchmark_head(benchmark: Benchmark) -> BenchmarkHead:
    """Return a benchmark as a column names it.

    >>> benchmark_head(Benchmark(slug="a", name="a", fingerprint="", title="A", task="pairs", n=1)).metric
    ''
    """
    return BenchmarkHead(
        slug=benchmark.slug,
        name=benchmark.name,
        title=benchmark.title,
        task=benchmark.task,
        n=benchmark.n,
        metric=main_metric(benchmark.headline),
        has_items=bool(benchmark.items_digest),
    )
