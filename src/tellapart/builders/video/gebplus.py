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

#: Words of motion. The paper gives five as examples; these are the five with their other spellings.
DIRECTIONS = ("up", "down", "upward", "upwards", "downward", "downwards", "toward", "towards")


class GebPlus(VideoPairs):
    """Pair frames before and after the event boundaries of GEB+ with the states that annotators saw there.

    The boundaries of a video cut it into segments; frame `I_i` is of segment `i`, which ends at boundary `i`. The
    paper's main text (`reading = "adjacent"`) pairs `I_i`, with the status before boundary `i`, and `I_{i+1}`, with the
    status after boundary `i`. Its appendix (`reading = "skip"`, the default) skips a frame: it pairs `I_i`, with the
    status before boundary `i`, and `I_{i+2}`, with the status after boundary `i + 1`. The paper does not say which
    frame of a segment is taken; the option `frame` does.

    Source: EqBen, section 3.2 and appendix B.2. `tellapart annotate` replaces the ten students who looked at every
    pair.
    """

    class Options(FootageOptions):
        """The recipe's `[options]`.

        Attributes:
            annotations: GEB+'s `val.json` or `test.json`.
            reading: `skip` or `adjacent`.
            frame: the `middle` of the segment, or `edge`: `margin` seconds from the boundary, at most to the middle.
            annotators: of several annotations of a boundary, the `first` (by the annotator's letter), or `all`; in
                `skip` every annotation of one boundary is paired with every annotation of the next.
            min_segment: reject pairs with a segment of fewer seconds: it shows a passage, not a state.
            words: reject captions with one of these words: motion cannot be seen in a still.
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
        """The pairs by id, video by video: the id of a boundary, or the ids of two."""
        pairs: dict[str, FramePair] = {}
        for video, moments in read_moments(self.annotations).videos.items():
            ends = max(moment.facts["next_time"] for moment in moments)
            times = [0.0, *sorted({moment.gold for moment in moments}), ends]
            # By annotator: an id ends in the annotator's letter.
            ordered = sorted(moments, key=lambda moment: (moment.id[-1], moment.id))
            most = None if self._options.annotators == "all" else 1
            boundaries = [[moment for moment in ordered if moment.gold == time][:most] for time in times[1:-1]]
            for number in range(len(boundaries) - (self._options.reading == "skip")):
                pairs.update(self._pairs_at(video, boundaries, times, number))
        return pairs

    def _pairs_at(
        self, video: str, boundaries: Sequence[Sequence[Record]], times: Sequence[float], number: int
    ) -> Iterator[tuple[str, FramePair]]:
        """Yield the pairs that begin with segment `number`, which lasts from `times[number]` to the next time."""
        skip = self._options.reading == "skip"
        last = number + 1 if skip else number  # the boundary before the pair's second segment
        before, after = times[number : number + 2], times[last + 1 : last + 3]
        first_moments = boundaries[number]
        moments = product(first_moments, boundaries[last]) if skip else zip(first_moments, first_moments, strict=True)
        for first, second in moments:
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
        """Return the seconds of a segment's frame; its edge is the end if the segment lies before the boundary."""
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
