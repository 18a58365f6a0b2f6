"""The builder `timestamped-captions`: pairs of moments of any videos whose captions come with times."""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, JsonValue

from tellapart.builders.builder import about_set
from tellapart.builders.caption_files import expect_text, in_column, index_by_id, near_column, optional_text
from tellapart.builders.video.footage import FootageOptions, FramePair, Still, VideoPairs, differing_words
from tellapart.data.images import check_reference
from tellapart.data.rows import read_lines
from tellapart.errors import DataError, quote

_COLUMNS = ("video", "caption", "time", "start", "end", "id", "group")


@dataclass(frozen=True, slots=True)
class _Caption:
    """A row: a caption that holds from `start` to `end`, in seconds, and in the `stretches` of rows of its words."""

    id: str
    video: str
    group: str
    text: str
    start: float
    end: float
    stretches: Sequence[tuple[float, float]] = ()

    def holds_at(self, seconds: float) -> bool:
        return any(start <= seconds < end for start, end in self.stretches)


class TimestampedCaptions(VideoPairs):
    """Pair captioned moments of a video with each other.

    The captions file is JSONL or CSV with the columns `video` (a file's name, with or without suffix), `caption`,
    either `time` or `start` and `end` (seconds from the video's first frame), and optionally `id` (unique; the row's
    number otherwise) and `group`: moments are paired within a group of a video alone. Other columns are left alone.
    A pair is rejected if a caption holds at the other's frame, too: where stretches overlap, it is no false one there.
    """

    class Options(FootageOptions):
        """The recipe's `[options]`.

        Attributes:
            captions: the file.
            frame: the frame of `start` to `end` that is taken; of the end, the last one before it.
            min_gap: seconds between the two frames.
            max_pairs: of a video, drawn by the recipe's seed among those without a fault; 0: all.
            min_words: by which the captions differ at least; a replaced word counts twice.
        """

        captions: str
        frame: Literal["start", "middle", "end"] = "middle"
        min_gap: float = Field(default=0.0, ge=0)
        max_pairs: int = Field(default=0, ge=0)
        min_words: int = Field(default=1, ge=0)

    about: Mapping[str, JsonValue] = about_set("timestamped-captions")

    file = "captions"

    @cached_property
    def pairs(self) -> Mapping[str, FramePair]:
        """The pairs by id: the captions' two ids."""
        groups: dict[tuple[str, str], list[_Caption]] = defaultdict(list)
        stretches: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)  # an action may come again
        names: dict[Path | str, str] = {}  # "v" and "v.mp4" are one video, by the name that comes first
        for caption in index_by_id(self.annotations, _read_captions(self.annotations)).values():
            video = names.setdefault(self._find_file(caption.video) or caption.video, caption.video)
            same = stretches[video, " ".join(caption.text.casefold().strip(" .").split())]
            same.append((caption.start, caption.end))
            groups[video, caption.group].append(replace(caption, video=video, stretches=same))
        pairs: dict[str, FramePair] = {}
        for captions in groups.values():
            for two in combinations(sorted(captions, key=lambda c: (self._frame_time(c), c.id)), 2):
                name = f"{two[0].id}-{two[1].id}"
                if name in pairs:
                    fault = f"two pairs would have the id {name!r}; give the captions other ids"
                    raise DataError(f"{self.annotations}: {fault}")
                pairs[name] = self._make_pair(*two)
        return self._draw_pairs(pairs)

    def _make_pair(self, first: _Caption, second: _Caption) -> FramePair:
        stills = Still(first.text, self._frame_time(first)), Still(second.text, self._frame_time(second))
        fault = None
        if differing_words(first.text, second.text) < self._options.min_words:
            fault = "captions", f"differ by fewer than {self._options.min_words} words"
        elif first.text == second.text:
            fault = "captions", "both are the same"
        elif self._frame_time(second) - self._frame_time(first) < self._options.min_gap:
            fault = "moments", f"less than {self._options.min_gap} s apart"
        elif first.holds_at(self._frame_time(second)) or second.holds_at(self._frame_time(first)):
            fault = "moments", "a caption holds at both"
        tags = {"group": first.group} if first.group else {}
        asked: list[JsonValue] = [still.seconds for still in stills]
        return FramePair(first.video, stills, fault, tags, {"captions": [first.id, second.id], "asked_times": asked})

    def _frame_time(self, caption: _Caption) -> float:
        if self._options.frame == "start":
            return caption.start
        if self._options.frame == "middle":
            return round((caption.start + caption.end) / 2, 6)
        # A segment ends at the next one's start: its last frame is the one before that.
        return max(caption.start, round(caption.end - 0.001, 6))

    def _draw_pairs(self, pairs: dict[str, FramePair]) -> Mapping[str, FramePair]:
        """Give the pairs beyond `max_pairs` of a video the fault that they were not drawn."""
        if not self._options.max_pairs:
            return pairs
        able: dict[str, list[str]] = defaultdict(list)
        for name, pair in pairs.items():
            if pair.fault is None:
                able[pair.video].append(name)
        reason = f"more than {self._options.max_pairs} pairs of its video"
        for names in able.values():
            names.sort(key=lambda name: hashlib.sha256(f"{self._seed}:{name}".encode()).digest())
            for name in names[self._options.max_pairs :]:
                pairs[name] = replace(pairs[name], fault=("draw", reason))
        return pairs


def _read_captions(path: Path) -> Iterator[tuple[str, _Caption]]:
    """Yield the captions, each with its place."""
    for number, (line, row) in enumerate(read_lines(path), start=1):
        place = f"{path}:{line}"
        video, text = (expect_text(row, column, place, _COLUMNS) for column in ("video", "caption"))
        with in_column("video", place):
            check_reference(f"{video}.png")
        start = _read_seconds(row, "time" if "time" in row else "start", place)
        end = start if "time" in row else _read_seconds(row, "end", place)
        if end < start:
            raise DataError(f"{place}: column 'end': {end} lies before the start, {start}")
        name, group = optional_text(row, "id", str(number)), optional_text(row, "group", "")
        yield place, _Caption(name, video, group, text, start, end)


def _read_seconds(row: Mapping[str, Any], column: str, place: str) -> float:
    if column not in row:
        near = near_column(row, column, _COLUMNS)
        raise DataError(f"{place}: column {column!r} is missing; give 'time', or 'start' and 'end'{near}")
    value = row[column]
    try:
        seconds = float("nan") if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds >= 0):
        raise DataError(f"{place}: column {column!r}: expected seconds from 0, got {quote(value)}")
    return seconds
