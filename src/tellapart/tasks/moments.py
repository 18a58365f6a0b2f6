"""Boundary grounding: at which moment of a video does one caption begin to hold in place of another?

What is put out is the similarity of frames to both captions; `tellapart.tasks.frame_scores` says in which form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tellapart.data.moments import MomentSet
from tellapart.metrics.metric import Metric
from tellapart.metrics.moments import (
    TOLERANCES,
    boundary_accuracy,
    boundary_f1,
    boundary_scores,
    boundary_times,
    frame_times,
    random_accuracy,
)
from tellapart.metrics.per_item import PerItem, mean
from tellapart.models.protocols import DualEncoder, Generator, PairScorer, TextScorer
from tellapart.tasks.frame_scores import FrameScores, read_frame_scores, score_frames
from tellapart.tasks.task import Task, Unit, Units

__all__ = ["MOMENTS", "ChosenMoments", "measure_moments"]

_EQBEN, _GEBPLUS = "EqBen appendix A.6 and Table 12", "GEB+ `evaluation_utils.py` (`EvalGrd`)"
_ACCURACY = (
    Metric(name="boundary_accuracy", title="mean of the accuracies at the eight tolerances", source=_EQBEN),
    *(
        Metric(
            name=f"boundary_accuracy@{limit:.1f}",
            title=f"the best-scoring moment is nearer than {limit:g} s to a true one",
            source=_EQBEN,
        )
        for limit in TOLERANCES
    ),
)
_F1 = (
    Metric(name="boundary_f1", title="mean of the F1 at the eight tolerances", source=_GEBPLUS),
    *(
        Metric(
            name=f"boundary_f1@{limit:.1f}",
            title=f"F1 of one to eight best-scoring moments within {limit:g} s, the expectation of GEB+'s draw",
            source=_GEBPLUS,
        )
        for limit in TOLERANCES
    ),
)


@dataclass(frozen=True)
class ChosenMoments(MomentSet):
    """Some moments of a set: how long their videos are, and when else they happen, the whole set knows.

    >>> from tellapart.data.moments import Moment
    >>> rows = tuple(Moment(f"v_{k}", "v", k, "a man", "stands", "sits", "Change", k + 1.0) for k in range(2))
    >>> chosen = ChosenMoments("one", rows[:1], MomentSet("two", rows))
    >>> chosen.duration("v"), chosen.gold
    (2.0, ((0, 1),))
    """

    whole: MomentSet

    @cached_property
    def gold(self) -> tuple[tuple[float, ...], ...]:
        """As the whole set has them."""
        of = {moment.id: gold for moment, gold in zip(self.whole.moments, self.whole.gold, strict=True)}
        return tuple(of[moment.id] for moment in self.moments)

    def duration(self, video: str) -> float:
        """As the whole set has it."""
        return self.whole.duration(video)


def _select(records: MomentSet, rows: Sequence[int]) -> MomentSet:
    return ChosenMoments(records.name, tuple(records.moments[row] for row in rows), records)


def _template(records: MomentSet) -> Iterator[Mapping[str, Any]]:
    for moment in records.moments:
        duration = records.duration(moment.video)
        yield {
            "id": moment.id,
            "before": None,
            "after": None,
            "video": moment.video,
            "before_caption": moment.before_caption,
            "after_caption": moment.after_caption,
            "duration": duration,
            "frames": len(frame_times(duration)),
        }


def measure_moments(records: MomentSet, predictions: Sequence[FrameScores]) -> tuple[Units, ...]:
    """Measure boundary accuracy and F1 at the eight tolerances; moments of one video are resampled together.

    Where moments tie at the top, the strict accuracy asks that every one of them is right. Chance is a moment drawn
    evenly from the video.

    >>> from tellapart.data.moments import Moment
    >>> one = Moment("v_0A", "v", 0.3, "a man", "stands", "sits", "Change", 0.6)
    >>> scores = FrameScores(np.arange(3) / 5, np.array([1.0, 1.0, 0.0]), np.array([0.0, 0.0, 1.0]))
    >>> [(each.name, each.strict.tolist()) for each in measure_moments(MomentSet("m", (one,)), [scores])[0].values][:2]
    [('boundary_accuracy', [1.0]), ('boundary_accuracy@0.1', [1.0])]
    """
    strict, neutral, f1, chance = (np.zeros((len(records.moments), len(TOLERANCES))) for _ in range(4))
    for row, (moment, gold, own) in enumerate(zip(records.moments, records.gold, predictions, strict=True)):
        times, scores = boundary_times(own.times), boundary_scores(own.before, own.after)
        strict[row], neutral[row] = boundary_accuracy(times, scores, gold)
        f1[row] = boundary_f1(times, scores, gold)
        chance[row] = random_accuracy(gold, records.duration(moment.video))
    units = tuple(
        Unit(
            id=moment.id,
            cluster=moment.video,
            tags={"label": moment.label},
            texts=(moment.before_caption, moment.after_caption),
            output=round(own.moment, 6),
            gold=", ".join(f"{time:g} s" for time in gold),
        )
        for moment, gold, own in zip(records.moments, records.gold, predictions, strict=True)
    )
    of_tolerance = [float(mean(column)) for column in chance.T]
    values = [
        PerItem(
            name=_ACCURACY[0].name,
            strict=strict.mean(axis=1),
            neutral=neutral.mean(axis=1),
            chance=float(mean(of_tolerance)),
        )
    ]
    values += [
        PerItem(name=metric.name, strict=strict[:, k], neutral=neutral[:, k], chance=of_tolerance[k], binary=True)
        for k, metric in enumerate(_ACCURACY[1:])
    ]
    values.append(PerItem(name=_F1[0].name, strict=f1.mean(axis=1)))
    values += [PerItem(name=metric.name, strict=f1[:, k]) for k, metric in enumerate(_F1[1:])]
    return (Units("moment", units, tuple(values)),)


MOMENTS = Task(
    name="moments",
    title="the moment of a video at which one caption begins to hold in place of another",
    output="scores",
    noun="moment",
    metrics=(*_ACCURACY, *_F1),
    headlines=(("boundary_accuracy", "boundary_f1"),),
    size=lambda records: len(records.moments),
    select=_select,
    template=_template,
    suffixes=(".jsonl",),
    read=read_frame_scores,
    measure=measure_moments,
    runners=tuple((kind, score_frames) for kind in (DualEncoder, PairScorer, Generator, TextScorer)),
    models="a model that scores images with texts",
    todo="fill in `before` and `after` with the similarity of each frame, at 5 a second, to either caption",
)
