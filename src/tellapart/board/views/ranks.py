"""Ranks of models over benchmarks, and over the metrics of one benchmark.

Source: EqBen Figures 1 and 7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlmodel import Session

from tellapart.board.settings import BoardSettings
from tellapart.board.views.leaderboard import leaderboard
from tellapart.board.views.overview import all_benchmarks
from tellapart.board.views.rows import Leaderboard, LeaderboardRow
from tellapart.board.views.view import Link, ModelHead, Table, View

STEP, ROW = 190.0, 26.0

#: Models in a drawing: more lines than this no eye follows.
MOST_LINES = 40


class RankLine(View):
    """One model's places.

    Attributes:
        ranks: one for each column, equal values sharing one; None if it was not measured.
        change: its last place less its first: positive if it falls.
        segments: SVG points of the unbroken parts of its line; none for a model with one place, which is not drawn.
        starts: (x, y) of the first place of each part.
        ends: (x, y) of each place.
    """

    model: ModelHead
    ranks: tuple[int | None, ...]
    change: int | None
    segments: tuple[str, ...] = ()
    starts: tuple[tuple[float, float], ...] = ()
    ends: tuple[tuple[float, float], ...] = ()


class RanksPage(View):
    """Places of models over columns.

    Attributes:
        lines: a row each; those with two places or more are drawn, at most `MOST_LINES`.
        undrawn: models with two places or more beyond that.
        drawn: the columns of the drawing: those in which it has two models or more.
    """

    columns: tuple[str, ...]
    links: tuple[Link | None, ...]
    lines: tuple[RankLine, ...]
    drawn: tuple[str, ...]
    undrawn: int = 0
    width: float
    height: float

    def table(self) -> Table:
        """Return models by places."""
        rows = tuple((line.model.label, *line.ranks) for line in self.lines)
        return Table(title=self.title, rows=(("model", *self.columns), *rows))


def ranks_page(session: Session, settings: BoardSettings) -> RanksPage:
    """Show the places of models on every benchmark."""
    return _ranks_page("How the ranking changes between benchmarks", all_benchmarks(session, settings))


def benchmark_ranks(session: Session, settings: BoardSettings, slug: str) -> RanksPage:
    """Show the places of models by every headline metric of a benchmark."""
    board = leaderboard(session, settings, slug)
    return _ranks_page(f"{board.title}: how the ranking changes between metrics", board)


def _ranks_page(title: str, board: Leaderboard) -> RanksPage:
    columns = [
        k for k, column in enumerate(board.columns) if column.link or not any(each.link for each in board.columns)
    ]
    places = [_rank_places([_cell_value(row, k) for row in board.rows]) for k in columns]
    ranks = {row.model: tuple(column[k] for column in places) for k, row in enumerate(board.rows)}
    ranks = {model: own for model, own in ranks.items() if any(own)}
    candidates, _ = _choose_drawn(ranks)
    best = [model for model in ranks if model in candidates][:MOST_LINES]  # rows come best first
    models, shown = _choose_drawn({model: ranks[model] for model in best})
    drawn = ranks if len(best) == len(candidates) else _places_among(best, ranks)
    lines = [
        _model_line(model, own, [drawn[model][k] for k in shown] if model in models else [])
        for model, own in ranks.items()
    ]
    last = len(lines) + 1  # after all places; `sort` empties the list while it works
    lines.sort(key=lambda line: (not line.segments, [rank or last for rank in line.ranks], line.model.label))
    lowest = max((y for line in lines for _, y in line.ends), default=0.0)
    return RanksPage(
        title=title,
        columns=tuple(board.columns[k].title for k in columns),
        links=tuple(board.columns[k].link for k in columns),
        lines=tuple(lines),
        undrawn=len(candidates) - len(best),
        drawn=tuple(board.columns[columns[k]].title for k in shown),
        width=STEP * max(0, len(shown) - 1),
        height=lowest + ROW,
    )


def _cell_value(row: LeaderboardRow, column: int) -> float | None:
    cell = row.cells[column]
    return None if cell is None or cell.limited else cell.value


def _choose_drawn(ranks: Mapping[ModelHead, Sequence[int | None]]) -> tuple[set[ModelHead], list[int]]:
    """Return the models and the columns of the drawing: each has two places or more of the other."""
    models, columns = set(ranks), list(range(max(map(len, ranks.values()), default=0)))
    while True:
        ranked = {model for model in models if sum(ranks[model][k] is not None for k in columns) > 1}
        left = [k for k in columns if sum(ranks[model][k] is not None for model in ranked) > 1]
        if (ranked, left) == (models, columns):
            return ranked, left
        models, columns = ranked, left


def _rank_places(values: Sequence[float | None]) -> list[int | None]:
    best: dict[float, int] = {}
    for rank, value in enumerate(sorted((v for v in values if v is not None), reverse=True), start=1):
        best.setdefault(value, rank)
    return [None if value is None else best[value] for value in values]


def _places_among(
    models: Sequence[ModelHead], ranks: Mapping[ModelHead, Sequence[int | None]]
) -> dict[ModelHead, tuple[int | None, ...]]:
    """Return the places of some models among themselves."""
    columns = zip(*(ranks[model] for model in models), strict=True)
    places = [_rank_places([None if rank is None else -rank for rank in column]) for column in columns]
    return dict(zip(models, zip(*places, strict=True), strict=True))


def _model_line(model: ModelHead, ranks: Sequence[int | None], drawn: Sequence[int | None]) -> RankLine:
    """Return a model's line through its places in the columns that are drawn; without a drawing if there are none."""
    points = [None if rank is None else (STEP * k, ROW * rank) for k, rank in enumerate(drawn)]
    segments, starts = [], []
    run: list[tuple[float, float]] = []
    for point in [*points, None]:
        if point is not None:
            run.append(point)
        elif run:
            segments.append(" ".join(f"{x},{y}" for x, y in run))
            starts.append(run[0])
            run = []
    present = [rank for rank in ranks if rank is not None]
    return RankLine(
        title=model.label,
        model=model,
        ranks=tuple(ranks),
        change=present[-1] - present[0] if len(present) > 1 else None,
        segments=tuple(segments),
        starts=tuple(starts),
        ends=tuple(point for point in points if point is not None),
    )
