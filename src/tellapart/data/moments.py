"""Records of boundary grounding: the moments of videos at which something changes, described before and after."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from tellapart.data.task_records import check_ids
from tellapart.errors import DataError


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment in a video at which something changes, with the state before and after it; times in seconds.

    >>> Moment("v_0A", "v", 3.8, "a man", "waits", "raises a hand", "Change of Action", 5.0).after_caption
    'a man raises a hand'
    """

    id: str
    video: str
    time: float
    subject: str
    before: str
    after: str
    label: str
    next_time: float

    @property
    def before_caption(self) -> str:
        """The caption of the frames before the moment: subject and state, as in EqBen's Fig. 16."""
        return f"{self.subject} {self.before}"

    @property
    def after_caption(self) -> str:
        """The caption of the frames after the moment."""
        return f"{self.subject} {self.after}"


@dataclass(frozen=True)
class MomentSet:
    """Moments to find in videos; each is a query, and the moments of a video are resampled together.

    Several people marked the same videos, so two moments may have the same time, and one change several times (`gold`).
    """

    name: str
    moments: tuple[Moment, ...]

    def __post_init__(self) -> None:
        check_ids(self.name, [moment.id for moment in self.moments])

    @cached_property
    def videos(self) -> Mapping[str, tuple[Moment, ...]]:
        """The moments of each video, in order of time; those at the same time in order of id."""
        videos: dict[str, list[Moment]] = defaultdict(list)
        for moment in sorted(self.moments, key=lambda moment: (moment.time, moment.id)):
            videos[moment.video].append(moment)
        return {video: tuple(videos[video]) for video in sorted(videos)}

    @cached_property
    def gold(self) -> tuple[tuple[float, ...], ...]:
        """All times that are right for each query: those of the same change in the same video, rising.

        >>> times = (3.8, 3.8, 7.0)
        >>> rows = [Moment(f"v_{k}", "v", t, "a man", "waits", "sits", "Change", 9.0) for k, t in enumerate(times)]
        >>> MomentSet("gebc", tuple(rows)).gold[0]
        (3.8, 7.0)
        """
        times: dict[tuple[str, str, str, str], set[float]] = defaultdict(set)
        for m in self.moments:
            times[m.video, m.subject, m.before, m.after].add(m.time)
        return tuple(tuple(sorted(times[m.video, m.subject, m.before, m.after])) for m in self.moments)

    def duration(self, video: str) -> float:
        """Return the length of a video in seconds, as far as its moments show: the latest `next_time`."""
        if video not in self.videos:
            raise DataError(f"{self.name} has no moment in a video {video!r}")
        return max(moment.next_time for moment in self.videos[video])
