"""Ranks of models over benchmarks, and over the metrics of one benchmark.

Source: EqBen Figures 1 and 7.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlmodel import Session

from tellapart.board.settings import BoardSettings
from tellapart.board.views.leaderboard import Leaderboard, all_benchmarks, leaderboard
from tellapart.board.views.view import Link, ModelHead, Table, View

__all__ = ["RankLine", "RanksPage", "benchmark_ranks", "ranks_page"]

STEP, ROW = 190.0, 26.0


class RankLine(View):
    """One model's places.

    Attributes:
        ranks: one for each column, equal values sharing one; None where it was not measured.
        change: its last place less its first: positive where it falls.
        segments: SVG points of the unbroken parts of its line.
        starts: (x, y) of the first place of each part.
        ends: (x, y) of each place.
    """

    model: ModelHead
    ranks: tuple[int | None, ...]
    change: int | None
    segments: tuple[str, ...]
    starts: tuple[tuple[float, float], ...]
    ends: tuple[tuple[float, float], ...]


class RanksPage(View):
    """Places of models over columns."""

    columns: tuple[str, ...]
    links: tuple[Link | None, ...]
    lines: tuple[RankLine, ...]
    width: float
    height: float

    def table(self) -> Table:
        """Return models by places."""
        rows = tuple((line.model.label, *line.ranks) for line in self.lines)
        return Table(title=self.title, rows=(("model", *self.columns), *rows))


def ranks_page(session: Session, settings: BoardSettings) -> RanksPage:
    """Show the places of models on every benchmark."""
    return _page("How the ranking changes between benchmarks", all_benchmarks(session, settings))


def benchmark_ranks(session: Session, settings: BoardSettings, slug: str) -> RanksPage:
    """Show the places of models by every headline metric of a benchmark.

    Raises:
        UnknownNameError: there is no such benchmark.
    """
    board = leaderboard(session, settings, slug)
    return _page(f"{board.title}: how the ranking changes between metrics", board)


def _page(title: str, board: Leaderboard) -> RanksPage:
    columns = [
        k for k, column in enumerate(board.columns) if column.link or not any(each.link for each in board.columns)
    ]
    places = [_places([cell.value if (cell := row.cells[k]) else None for row in board.rows]) for k in columns]
    lines = [
        _line(row.model, [column[k] for column in places])
        for k, row in enumerate(board.rows)
        if any(c[k] for c in places)
    ]
    lines.sort(key=lambda line: ([rank or len(lines) + 1 for rank in line.ranks], line.model.label))
    return RanksPage(
        title=title,
        columns=tuple(board.columns[k].title for k in columns),
        links=tuple(board.columns[k].link for k in columns),
        lines=tuple(lines),
        width=STEP * max(0, len(columns) - 1),
        height=ROW * (len(lines) + 1),
    )


def _places(values: Sequence[float | None]) -> list[int | None]:
    best: dict[float, int] = {}
    for rank, value in enumerate(sorted((v for v in values if v is not None), reverse=True), start=1):
        best.setdefault(value, rank)
    return [None if value is None else best[value] for value in values]


def _line(model: ModelHead, ranks: Sequence[int | None]) -> RankLine:
    points = [None if rank is None else (STEP * k, ROW * rank) for k, rank in enumerate(ranks)]
    segments, starts = [], []
    run: list[tuple[float, float]] = []
    for point in [*points, None]:
        if point is not None:
            run.append(point)
        elif run:
            segments.append(" ".join(f"{x},{y}" for x, y in run))
            starts.append(run[0])
            run = []
    known = [rank for rank in ranks if rank is not None]
    return RankLine(
        title=model.label,
        model=model,
        ranks=tuple(ranks),
        change=known[-1] - known[0] if len(known) > 1 else None,
        segments=tuple(segments),
        starts=tuple(starts),
        ends=tuple(point for point in points if point is not None),
    )
