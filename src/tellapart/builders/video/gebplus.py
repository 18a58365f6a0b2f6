"""The builder `geb-plus`: frames around the boundaries of GEB+'s videos, after EqBen's Eq-GEBC."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import Literal

from pydantic import Field, JsonValue

from tellapart.benchmarks.published_tasks import read_moments
from tellapart.builders.builder import about_set
from tellapart.builders.video.footage import FootageOptions, FramePair, Still, VideoPairs
from tellapart.data.task_records import Record

#: The paper names five words, "e.g."; these are the five with their other spellings.
DIRECTIONS = ("up", "down", "upward", "upwards", "downward", "downwards", "toward", "towards")


class GebPlus(VideoPairs):
    """Pair frames before and after the event boundaries of GEB+ with the states that annotators saw there.

    The boundaries of a video cut it into segments, frame `I_i` is of segment `i`. The paper's main text takes the
    frames before and after one boundary (`reading = "adjacent"`: `I_i` with the status before it, `I_{i+1}` with the
    one after); its appendix skips one (`reading = "skip"`, the default): `I_i` with the status before boundary `i`,
    `I_{i+2}` with the status after boundary `i + 1`. The paper leaves a frame's place in its segment open:
    `frame`.

    Source: EqBen, section 3.2 and appendix B.2. `tellapart annotate` replaces the ten students who looked at every
    pair.
    """

    class Options(FootageOptions):
        """The recipe's `[options]`.

        Attributes:
            annotations: GEB+'s `val.json` or `test.json`.
            reading: `skip` or `adjacent`.
            frame: the `middle` of the segment, or `edge`: `margin` seconds from the boundary, at most its middle.
            annotators: of several annotations of one boundary, the `first` (by letter), or `all`; in `skip` each of one
                boundary with each of the next.
            min_segment: seconds; shorter segments show a passage, not a state.
            words: reject captions with one of these: motion cannot be seen in a still.
        """

        annotations: str
        reading: Literal["skip", "adjacent"] = "skip"
        frame: Literal["middle", "edge"] = "middle"
        margin: float = Field(default=0.2, ge=0)
        annotators: Literal["first", "all"] = "first"
        min_segment: float = Field(default=0.0, ge=0)
        words: list[str] = Field(default_factory=lambda: list(DIRECTIONS))

    about: Mapping[str, JsonValue] = about_set("geb-plus")

    @cached_property
    def _motion(self) -> re.Pattern[str] | None:
        listed = "|".join(re.escape(word) for word in self._options.words)
        return re.compile(rf"\b(?:{listed})\b", re.IGNORECASE) if listed else None

    @cached_property
    def pairs(self) -> Mapping[str, FramePair]:
        """The pairs by id: the id of a boundary, or the two ids, of one video after the other."""
        pairs: dict[str, FramePair] = {}
        for video, moments in read_moments(self.annotations).videos.items():
            ends = max(moment.facts["next_time"] for moment in moments)
            times = [0.0, *sorted({moment.gold for moment in moments}), ends]
            # By annotator: an id ends in the annotator's letter.
            ordered = sorted(moments, key=lambda moment: (moment.id[-1], moment.id))
            several = None if self._options.annotators == "all" else 1
            at = [[moment for moment in ordered if moment.gold == time][:several] for time in times[1:-1]]
            for boundary in range(len(at) - (self._options.reading == "skip")):
                pairs.update(self._pairs_at(video, at, times, boundary))
        return pairs

    def _pairs_at(
        self, video: str, at: Sequence[Sequence[Record]], times: Sequence[float], boundary: int
    ) -> Iterator[tuple[str, FramePair]]:
        """Yield the pairs that begin at a boundary; the segment of the same number lies before it."""
        skip = self._options.reading == "skip"
        last = boundary + skip
        both = product(at[boundary], at[last]) if skip else ((moment, moment) for moment in at[boundary])
        before, after = times[boundary : boundary + 2], times[last + 1 : last + 3]
        for first, second in both:
            stills = (
                Still(first.texts[0], self._frame_time(before, before=True)),
                Still(second.texts[1], self._frame_time(after, before=False)),
            )
            name = f"{first.id}-{second.id[len(video) + 1 :]}" if skip else first.id
            tags = first.tags if first.tags == second.tags else {"label": "Multiple"}
            provenance: dict[str, JsonValue] = {
                "boundaries": [first.id, second.id] if skip else [first.id],
                "reading": self._options.reading,
                "asked_times": [still.seconds for still in stills],
            }
            yield name, FramePair(video, stills, self._find_fault(stills, (before, after)), tags, provenance)

    def _frame_time(self, segment: Sequence[float], *, before: bool) -> float:
        """Return a segment's frame: the edge is the end of the one before a boundary, the start of the one after."""
        start, end = segment
        time = middle = (start + end) / 2
        if self._options.frame == "edge":
            time = max(end - self._options.margin, middle) if before else min(start + self._options.margin, middle)
        return round(time, 6)

    def _find_fault(self, stills: Sequence[Still], segments: Sequence[Sequence[float]]) -> tuple[str, str] | None:
        captions = [still.caption for still in stills]
        if captions[0] == captions[1]:
            return "captions", "both are the same"
        if self._motion and any(self._motion.search(caption) for caption in captions):
            return "captions", "a word of direction"
        if min(end - start for start, end in segments) < self._options.min_segment:
            return "segments", f"shorter than {self._options.min_segment} s"
        return None
