"""The similarity of a video's frames to two captions: read from a file, or computed by a model.

Frames are taken at 5 a second, from 0: `ffmpeg -i VIDEO.mp4 -vf fps=5 -start_number 0 FRAMES/VIDEO/%d.jpg`, so that
`FRAMES/VIDEO/7.jpg` shows second 1.4. Similarities made elsewhere come as `.jsonl`, one moment a line: `id`, and under
`before` and `after` the similarity of each frame to the caption of what is before and to that of what is after. With
`times` (seconds, rising, one a frame) a line may be about any other frames; without, about those at 5 a second up to
the `duration` that `tellapart export` writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.item import Item
from tellapart.data.moments import Moment, MomentSet
from tellapart.data.rows import read_jsonl
from tellapart.data.scores import join_names
from tellapart.errors import DataError, ScoreError
from tellapart.metrics.moments import boundary_scores, boundary_times, frame_times
from tellapart.models.protocols import Model
from tellapart.tasks.predictions import align_file, finite_numbers
from tellapart.tasks.task import Session
from tellapart.tasks.vectors import score_items

__all__ = ["FrameScores", "frame_reference", "read_frame_scores", "score_frames"]

#: Two of these still add up within float32.
_MOST = 1e38

#: Frames a second.
_RATE = 5.0

#: Videos whose frames are scored together: enough for full batches, few enough to hold.
_VIDEOS = 64


@dataclass(frozen=True, slots=True, eq=False)
class FrameScores:
    """The similarity of each frame of a moment's video to its two captions.

    Attributes:
        times: of the frames, in seconds: `(frame,)`.
        before: similarity to the caption of what is before: `(frame,)`.
        after: similarity to the caption of what is after: `(frame,)`.

    >>> FrameScores(np.arange(2.0), np.array([1.0, 0.0]), np.array([0.0, 1.0])).moment
    0.5
    """

    times: NDArray[np.float64]
    before: NDArray[np.float64]
    after: NDArray[np.float64]

    @property
    def moment(self) -> float:
        """The best-scoring moment in seconds; the earliest of those that tie.

        >>> FrameScores(np.arange(3.0), np.ones(3), np.ones(3)).moment
        0.5
        """
        return float(boundary_times(self.times)[int(boundary_scores(self.before, self.after).argmax())])


def read_frame_scores(path: Path, records: MomentSet) -> list[FrameScores]:
    """Read the similarities of every moment's frames, in the order of the moments.

    Args:
        path: a `.jsonl` file (see the module).
        records: the moments.

    Raises:
        ScoreError: another suffix; ids are missing, unknown or repeated; of some moments there are not as many numbers
            as frames, times that do not rise, or something else than numbers. The first ten ids are named.
        DataError: a line is no JSON object, or holds NaN or infinity.

    >>> from tellapart.data.moments import Moment
    >>> one = Moment("v_0A", "v", 0.3, "a man", "stands", "sits", "Change", 0.6)
    >>> path = getfixture("tmp_path") / "scores.jsonl"
    >>> _ = path.write_text('{"id": "v_0A", "before": [0.9, 0.8, 0.2], "after": [0.1, 0.3, 0.7]}')
    >>> read_frame_scores(path, MomentSet("m", (one,)))[0].times.tolist()
    [0.0, 0.2, 0.4]
    """
    if path.suffix != ".jsonl":
        raise ScoreError(f"{path}: similarities of frames are read from .jsonl files; got {path.suffix!r}")
    length = {moment.id: len(frame_times(records.duration(moment.video), _RATE)) for moment in records.moments}
    by_moment: dict[str, FrameScores] = {}
    twice: list[str] = []
    wrong: dict[str, list[str]] = {}
    for line, row in read_jsonl(path):
        id_ = row.get("id", row.get("boundary_id"))
        if not isinstance(id_, str) or not id_:
            raise ScoreError(f"{path}:{line}: no id; it is expected under 'id' or 'boundary_id'")
        if id_ in by_moment:
            twice.append(id_)
        problem, scores = _frame_scores(row, length.get(id_))
        if problem:
            wrong.setdefault(problem, []).append(id_)
        by_moment[id_] = scores
    if twice:
        raise ScoreError(f"{path}: {len(twice)} moments are repeated: {join_names(twice)}; give one line for each")
    for problem, ids in wrong.items():
        raise ScoreError(f"{path}: {len(ids)} of {len(by_moment)} moments with {problem}: {join_names(ids)}")
    return align_file(path, [moment.id for moment in records.moments], by_moment, "similarities of frames")


def _frame_scores(row: Mapping[str, Any], frames: int | None) -> tuple[str, FrameScores]:
    """What is wrong with a line, in words, and what it holds."""
    nothing = FrameScores(np.zeros(0), np.zeros(0), np.zeros(0))
    columns = {}
    for key in ("before", "after", *(["times"] if row.get("times") is not None else [])):
        if (numbers := finite_numbers(row.get(key), most=_MOST)) is None:
            return f"something else than a list of finite numbers under {key!r}", nothing
        columns[key] = np.array(numbers)
    before, after = columns["before"], columns["after"]
    if "times" in columns:
        times = columns["times"]
        if len(times) < 2 or not (np.diff(times) > 0).all():
            return "`times` that are not two or more rising seconds", nothing
    elif frames is None:
        return "", nothing  # an unknown id, which `align_file` names
    else:
        times = np.arange(frames) / _RATE
    if not len(before) == len(after) == len(times):
        what = (
            "`times` has" if "times" in columns else "there are frames (5 a second up to `duration`; or give `times`)"
        )
        return f"not as many numbers under 'before' and 'after' as {what}", nothing
    return "", FrameScores(times, before, after)


def frame_reference(video: str, frame: int) -> str:
    """Return the file of a frame below the folder of frames; frame `k` shows second `k / 5`.

    >>> frame_reference("Vt7W3DoohcA", 7)
    'Vt7W3DoohcA/7.jpg'
    """
    return f"{video}/{frame}.jpg"


def score_frames(model: Model, records: MomentSet, session: Session) -> list[FrameScores]:
    """Score every frame of every moment's video with both captions; each distinct frame, caption or pair once.

    The last frame may be missing, for the length of a video is known to a frame only.

    Raises:
        DataError: another frame is missing, or one cannot be decoded.
        ModelError: the model's output is not what its protocol says.

    >>> from tellapart.benchmarks.find import load_pairs
    >>> from tellapart.models.reference import Constant
    >>> from tellapart.models.store import EmbeddingStore
    >>> pairs = load_pairs("demo")
    >>> session = Session(
    ...     pictures=lambda reference: pairs.read_bytes(pairs.items[0].images[0]), store=EmbeddingStore(None)
    ... )
    >>> one = Moment("v_0A", "v", 0.3, "a man", "stands", "sits", "Change", 0.6)
    >>> score_frames(Constant(), MomentSet("m", (one,)), session)[0].before.tolist()
    [0.5, 0.5, 0.5]
    """
    of_video: dict[str, list[Moment]] = {}
    for moment in records.moments:
        of_video.setdefault(moment.video, []).append(moment)
    frames = {video: _frames(records, video, session) for video in of_video}
    quiet, done = replace(session, progress=None), 0  # progress is counted in moments
    by_moment: dict[str, FrameScores] = {}
    videos = list(of_video)
    for start in range(0, len(videos), _VIDEOS):
        moments = [moment for video in videos[start : start + _VIDEOS] for moment in of_video[video]]
        scores = score_items(model, records.name, tuple(_items(moments, frames)), quiet)[:, 0]
        row = 0
        for moment in moments:
            count = len(frames[moment.video])
            before, after = scores[row : row + count].T.astype(np.float64)
            by_moment[moment.id] = FrameScores(np.arange(count) / _RATE, before, after)
            row += count
        done += len(moments)
        if session.progress:
            session.progress("moments", done, len(records.moments))
    return [by_moment[moment.id] for moment in records.moments]


def _frames(records: MomentSet, video: str, session: Session) -> list[str]:
    """The files of a video's frames."""
    count = len(frame_times(records.duration(video), _RATE))
    frames = [frame_reference(video, frame) for frame in range(count)]
    if count > 2:
        try:
            session.pictures(frames[-1])
        except DataError:
            frames.pop()
    return frames


def _items(moments: Sequence[Moment], frames: Mapping[str, Sequence[str]]) -> Iterator[Item]:
    """A frame beside both captions, frame by frame and moment by moment."""
    for moment in moments:
        texts = (moment.before_caption, moment.after_caption)
        for number, frame in enumerate(frames[moment.video]):
            yield Item(id=f"{moment.id}/{number}", images=(frame,), texts=texts)
