"""Do benchmarks agree? The rank correlations of all benchmarks over the models that were measured on all of them."""

from __future__ import annotations

from sqlmodel import Session, col, select

from tellapart.board.settings import BoardSettings
from tellapart.board.tables import Benchmark
from tellapart.board.views.rows import read_heads, read_scores
from tellapart.board.views.view import BenchmarkHead, Table, View, benchmark_head
from tellapart.errors import RunError
from tellapart.report.benchmark_agreement import Agreeing, Measured, find_agreement
from tellapart.tasks.registry import main_metric


class AgreementLine(View):
    """One benchmark; the title is its name.

    Attributes:
        mean: of its rank correlations with the others.
        nearest: the benchmark that ranks models most like it, with the correlation.
        items_needed: so many of its items would rank these models with a reliability of 0.9; None if unknown.
        correlations: with every benchmark, in the order of the lines.
        shades: of the correlations, 0 to 10; a negative one has none.
    """

    benchmark: BenchmarkHead
    mean: float
    nearest: str
    nearest_correlation: float
    items_needed: float | None
    correlations: tuple[float, ...]
    shades: tuple[int, ...]


class AgreementPage(View):
    """How alike benchmarks rank the models that all of them were measured on.

    Attributes:
        models: how many; 0 if no two benchmarks share enough of them.
        lines: benchmarks, neighbours alike.
        shares: the share of the variance of ranks in each principal component, the greatest first.
        dimensions: components above those of shuffled tables.
        left_out: benchmarks that too few of these models were measured on, or on which all are equal.
    """

    models: int
    lines: tuple[AgreementLine, ...]
    shares: tuple[float, ...] = ()
    dimensions: int = 0
    left_out: tuple[str, ...] = ()

    def table(self) -> Table:
        """Return benchmarks by benchmarks, as correlations."""
        rows: list[tuple[str | float, ...]] = [(line.title, *line.correlations) for line in self.lines]
        return Table(title=self.title, rows=(("benchmark", *(line.title for line in self.lines)), *rows))


def agreement_page(session: Session, _settings: BoardSettings) -> AgreementPage:
    """Compare every two benchmarks by the ranks that they give models."""
    title = "Do benchmarks agree?"
    benchmarks = {
        benchmark.slug: benchmark for benchmark in session.exec(select(Benchmark).order_by(col(Benchmark.id)))
    }
    try:
        agreement = find_agreement(_read_table(session, list(benchmarks.values())))
    except RunError:
        return AgreementPage(title=title, models=0, lines=())
    heads = {slug: benchmark_head(benchmark) for slug, benchmark in benchmarks.items()}
    return AgreementPage(
        title=title,
        models=agreement.models,
        lines=_agreement_lines(agreement, heads),
        shares=agreement.shares,
        dimensions=agreement.dimensions,
        left_out=tuple(heads[slug].label for slug in agreement.left_out),
    )


def _read_table(session: Session, benchmarks: list[Benchmark]) -> dict[str, dict[str, Measured]]:
    """Return model -> benchmark -> the number that ranks it, of models that were measured on all of its items."""
    mains = {benchmark.id: main_metric(benchmark.headline) for benchmark in benchmarks}
    slugs = {benchmark.id: benchmark.slug for benchmark in benchmarks}
    heads = read_heads(session)
    table: dict[str, dict[str, Measured]] = {}
    for score in read_scores(session, benchmarks, "", sorted(set(mains.values()))):
        head = heads[score.model]
        if mains[score.benchmark] == score.metric and head.kind == "model" and not score.cell.limited:
            measured = Measured(score.cell.value, score.cell.n, score.metric)
            table.setdefault(head.slug, {})[slugs[score.benchmark]] = measured
    return table


def _agreement_lines(found: Agreeing, heads: dict[str, BenchmarkHead]) -> tuple[AgreementLine, ...]:
    return tuple(
        AgreementLine(
            title=heads[benchmark.name].label,
            benchmark=heads[benchmark.name],
            mean=benchmark.mean,
            nearest=heads[benchmark.nearest].label,
            nearest_correlation=benchmark.nearest_correlation,
            items_needed=benchmark.items_needed,
            correlations=row,
            shades=tuple(max(0, round(10 * value)) for value in row),
        )
        for benchmark, row in zip(found.benchmarks, found.correlations, strict=True)
    )
