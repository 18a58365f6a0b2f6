"""Boundary grounding: the moment of a video at which one caption begins to hold in place of another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.answer_text import current_reading
from tellapart.data.item import Item
from tellapart.data.task_records import MomentSet, Record
from tellapart.errors import DataError, ScoreError
from tellapart.metrics.moments import (
    TOLERANCES,
    boundary_accuracy,
    boundary_f1,
    boundary_scores,
    boundary_times,
    frame_times,
    random_accuracy,
)
from tellapart.metrics.per_item import PerItem
from tellapart.models.protocols import Model
from tellapart.tasks.declared import facts_of
from tellapart.tasks.predictions import finite_numbers, read_by_id
from tellapart.tasks.running import score_items
from tellapart.tasks.task import Session, Task, Unit, Units, scored_by, value_of

#: The largest similarity: the sum of two is still a float32.
_LARGEST = 1e38

_RATE = 5.0  #: frames a second

#: Videos whose frames are scored together: enough for full batches, few enough to hold.
_VIDEOS = 64


@dataclass(frozen=True, slots=True, eq=False)
class FrameScores:
    """The similarity of each frame to the captions of the state before and after a moment, and its time in seconds."""

    times: NDArray[np.float64]
    before: NDArray[np.float64]
    after: NDArray[np.float64]

    @property
    def moment(self) -> float:
        """The best-scoring moment in seconds; the earliest of those that tie."""
        return float(boundary_times(self.times)[int(boundary_scores(self.before, self.after).argmax())])


def read_frame_scores(path: Path, records: MomentSet) -> list[FrameScores]:
    """Read the similarities of every moment's frames, in the order of the moments."""
    current_reading().fields_read = "before, after"

    def read(moment: Record, row: Mapping[str, Any], place: str) -> FrameScores:
        timed, columns = row.get("times") is not None, {}
        for key in ("before", "after", *(["times"] if timed else [])):
            if (numbers := finite_numbers(row.get(key), most=_LARGEST)) is None:
                raise refuse(moment, place, f"something else than a list of finite numbers under {key!r}")
            columns[key] = np.array(numbers)
        if not timed:
            columns["times"] = np.arange(len(frame_times(records.duration(moment.cluster), _RATE))) / _RATE
        elif len(columns["times"]) < 2 or not (np.diff(columns["times"]) > 0).all():
            raise refuse(moment, place, "`times` that are not two or more rising seconds")
        if len({*map(len, columns.values())}) > 1:
            lack = "`times` has" if timed else "there are frames (5 a second up to `duration`; or give `times`)"
            raise refuse(moment, place, f"not as many numbers under 'before' and 'after' as {lack}")
        return FrameScores(**columns)

    def refuse(moment: Record, place: str, fault: str) -> ScoreError:
        return ScoreError(f"{place}: moment {moment.id}: {fault}")

    return read_by_id(path, records.rows, read, "similarities of frames", ("id", "boundary_id"))


def _score_frames(model: Model, records: MomentSet, session: Session) -> list[FrameScores]:
    """Score every frame of every moment's video with both captions; each distinct frame, caption or pair once."""
    of_video: dict[str, list[Record]] = {}
    for moment in records.rows:
        of_video.setdefault(moment.cluster, []).append(moment)
    frames = {video: _name_frames(records, video, session) for video in of_video}
    quiet, done = replace(session, progress=None, hashes={}), 0  # progress is counted in moments
    by_moment: dict[str, FrameScores] = {}
    videos = list(of_video)
    for start in range(0, len(videos), _VIDEOS):
        moments = [moment for video in videos[start : start + _VIDEOS] for moment in of_video[video]]
        items = [
            Item(id=f"{moment.id}/{k}", images=(frame,), texts=moment.texts)
            for moment in moments
            for k, frame in enumerate(frames[moment.cluster])
        ]
        scores = score_items(model, records.name, items, quiet)[:, 0]
        row = 0
        for moment in moments:
            count = len(frames[moment.cluster])
            before, after = scores[row : row + count].T.astype(np.float64)
            by_moment[moment.id] = FrameScores(np.arange(count) / _RATE, before, after)
            row += count
        done += len(moments)
        if session.progress:
            session.progress("moments", done, len(records.rows))
    return [by_moment[moment.id] for moment in records.rows]


def _name_frames(records: MomentSet, video: str, session: Session) -> list[str]:
    """Name the files of a video's frames; the last may be missing, for a video's length is known to a frame only."""
    count = len(frame_times(records.duration(video), _RATE))
    frames = [f"{video}/{frame}.jpg" for frame in range(count)]
    if count > 2:
        try:
            session.pictures(frames[-1])
        except DataError:
            frames.pop()
    return frames


def _fill_template(records: MomentSet) -> Iterator[Mapping[str, Any]]:
    for moment in records.rows:
        duration = records.duration(moment.cluster)
        row = {"id": moment.id, "before": None, "after": None, "video": moment.cluster}
        row |= dict(zip(("before_caption", "after_caption"), moment.texts, strict=True))
        yield row | {"duration": duration, "frames": len(frame_times(duration))}


def measure_moments(records: MomentSet, predictions: Sequence[FrameScores]) -> tuple[Units, ...]:
    """Measure boundary accuracy and F1 at the eight tolerances; moments of one video are resampled together.

    If moments tie at the top, the strict accuracy asks that every one of them is right. Chance is a moment drawn
    evenly from the video. Every metric comes twice: if a video shows the same change, in the same words, at several
    times, any of them is true, or (`_unmerged`) only the query's moment.
    """
    units = tuple(
        Unit(
            id=moment.id,
            cluster=moment.cluster,
            tags=moment.tags,
            texts=moment.texts,
            output=round(prediction.moment, 6),
            gold=", ".join(f"{time:g} s" for time in gold),
        )
        for moment, gold, prediction in zip(records.rows, records.gold, predictions, strict=True)
    )
    of_query = [(moment.gold,) for moment in records.rows]
    both = (("", records.gold), ("_unmerged", of_query))
    accuracies, f1s = zip(*(_measure_against(records, predictions, gold, part) for part, gold in both), strict=True)
    return (Units("moment", units, (*chain(*accuracies), *chain(*f1s))),)


def _measure_against(
    records: MomentSet, predictions: Sequence[FrameScores], gold: Sequence[Sequence[float]], part: str
) -> tuple[list[PerItem], list[PerItem]]:
    """Return accuracies and F1s against these gold moments, a part of their names: the mean, then by tolerance."""
    strict, neutral, chance, f1 = tables = np.zeros((4, len(records.rows), len(TOLERANCES)))
    for row, (moment, true, prediction) in enumerate(zip(records.rows, gold, predictions, strict=True)):
        times, scores = boundary_times(prediction.times), boundary_scores(prediction.before, prediction.after)
        strict[row], neutral[row] = boundary_accuracy(times, scores, true)
        f1[row] = boundary_f1(times, scores, true)
        chance[row] = random_accuracy(true, records.duration(moment.cluster))
    columns = {part: tables.mean(axis=2)} | {f"{part}@{t:.1f}": tables[:, :, k] for k, t in enumerate(TOLERANCES)}
    accuracies = [
        value_of(f"boundary_accuracy{suffix}", values[0], neutral=values[1], chances=values[2])
        for suffix, values in columns.items()
    ]
    return accuracies, [value_of(f"boundary_f1{suffix}", values[3]) for suffix, values in columns.items()]


def _write_notes(records: MomentSet, _predictions: Sequence[FrameScores]) -> tuple[str, ...]:
    several = sum(len(gold) > 1 for gold in records.gold)
    note = (
        f"{several:,} of {len(records.rows):,} queries have several true moments: the same change, in the same "
        "words, at several times of a video. Any of them counts here. GEB+'s own gold file is not published, and "
        "nothing that is shows that it merges them: boundary_accuracy_unmerged and boundary_f1_unmerged count a "
        "query's own moment alone"
    )
    return (note,) if several else ()


MOMENTS = Task(
    **facts_of("moments"),
    template=_fill_template,
    read=read_frame_scores,
    measure=measure_moments,
    notes=_write_notes,
    runners=scored_by(_score_frames),
)
