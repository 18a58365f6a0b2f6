"""The curve of a training whose checkpoints are on the board: each one's value, the best so far, and forgetting."""

from __future__ import annotations

from pathlib import Path

from pydantic import SkipValidation
from sqlmodel import Session, col, select

from tellapart.board.tables import Benchmark, Entry, Model
from tellapart.board.views.view import Cell, Link, View
from tellapart.errors import RunError
from tellapart.report.followed import FollowedPoint, draw_points, find_training, read_checkpoints, sort_points
from tellapart.report.line_chart import LineChart


class TrainingStep(View):
    """One checkpoint.

    Attributes:
        link: its page; None while the board has not read its record.
        value: the metric that ranks models.
        best: the checkpoint with the highest value so far.
        forgotten: that value less this one, with its interval; None of the best.
    """

    link: Link | None
    value: Cell
    best: str
    forgotten: Cell | None


class Training(View):
    """The checkpoints of one training on one benchmark.

    Attributes:
        metric: the one that ranks models.
        chart: its values with intervals, and the best so far.
    """

    metric: str
    chart: SkipValidation[LineChart]
    steps: tuple[TrainingStep, ...]


def training_of(session: Session, entry: Entry, benchmark: Benchmark) -> Training | None:
    """Return the training whose checkpoint an entry is; None if it is of no such run, or that is damaged."""
    root = find_training(Path(entry.folder)) if entry.folder else None
    if root is None:
        return None
    try:
        checkpoints = read_checkpoints(root)
    except RunError:  # the board's first page has the record that cannot be read
        return None
    points = sort_points(checkpoints).get(entry.name, [])
    folders = {str(root / checkpoint.folder): checkpoint.name for checkpoint in checkpoints}
    of_benchmark = (Entry.benchmark_id == benchmark.id, col(Entry.folder).in_(folders))
    rows = session.exec(select(Entry, Model).join(Model, col(Model.id) == Entry.model_id).where(*of_benchmark)).all()
    slugs = {folders[entry.folder]: model.slug for entry, model in rows}
    if not points:
        return None
    chart = draw_points(benchmark.name, points)
    steps = tuple(_make_step(point, slugs.get(point.checkpoint)) for point in points)
    return Training(title=chart.title, metric=points[0].metric, chart=chart, steps=steps)


def _make_step(point: FollowedPoint, slug: str | None) -> TrainingStep:
    value, lost = point.value, point.forgotten
    return TrainingStep(
        title=point.checkpoint,
        link=None if slug is None else Link(text=point.checkpoint, page="model", args={"slug": slug}),
        value=Cell(value=value.value, low=value.low, high=value.high, reason=value.reason, n=value.n),
        best=point.best,
        forgotten=None
        if lost is None
        else Cell(value=lost.value, low=lost.low, high=lost.high, reason=lost.reason or None, n=value.n),
    )
