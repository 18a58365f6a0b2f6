"""The builder `timestamped-captions`: pairs of moments of any videos, from a file of captions with times."""

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
    """A caption that is true from `start` to `end`, in seconds, and in `stretches`, those of rows with its words."""

    id: str
    video: str
    group: str
    text: str
    start: float
    end: float
    stretches: Sequence[tuple[float, float]] = ()

    def is_true_at(self, seconds: float) -> bool:
        return any(start <= seconds < end for start, end in self.stretches)


class TimestampedCaptions(VideoPairs):
    """Pair captioned moments of a video with each other.

    The captions file is JSONL or CSV with the columns `video` (a file's name, with or without suffix), `caption`,
    either `time` or `start` and `end` (seconds from the video's first frame), and optionally `id` (unique; the row's
    number otherwise) and `group`: moments are paired within a group of a video alone. Other columns are ignored. A pair
    is rejected if a caption is also true at the other caption's frame, as where their stretches of time overlap.
    """

    class Options(FootageOptions):
        """The recipe's `[options]`.

        Attributes:
            captions: the file.
            frame: which frame from `start` to `end` is taken; `end` is the last one before the end.
            min_gap: the least seconds between the two frames.
            max_pairs: the most pairs of a video, drawn by the recipe's seed among those without a fault; 0: all.
            min_words: the least number of words that only one caption has; a replaced word counts twice.
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
        names: dict[Path | str, str] = {}  # "v" and "v.mp4" are one video; its name is the first one in the file
        for caption in index_by_id(self.annotations, _read_captions(self.annotations)).values():
            video = names.setdefault(self._find_file(caption.video) or caption.video, caption.video)
            words = " ".join(caption.text.casefold().strip(" .").split())
            stretches[video, words].append((caption.start, caption.end))
            # The list is shared: it also gets the stretches of later rows.
            groups[video, caption.group].append(replace(caption, video=video, stretches=stretches[video, words]))
        pairs: dict[str, FramePair] = {}
        for captions in groups.values():
            ordered = sorted(captions, key=lambda caption: (self._frame_time(caption), caption.id))
            for first, second in combinations(ordered, 2):
                name = f"{first.id}-{second.id}"
                if name in pairs:
                    fault = f"two pairs would have the id {name!r}; give the captions other ids"
                    raise DataError(f"{self.annotations}: {fault}")
                pairs[name] = self._make_pair(first, second)
        return self._draw_pairs(pairs)

    def _make_pair(self, first: _Caption, second: _Caption) -> FramePair:
        times = self._frame_time(first), self._frame_time(second)
        fault = None
        if differing_words(first.text, second.text) < self._options.min_words:
            fault = "captions", f"differ by fewer than {self._options.min_words} words"
        elif first.text == second.text:
            fault = "captions", "both are the same"
        elif times[1] - times[0] < self._options.min_gap:
            fault = "moments", f"less than {self._options.min_gap} s apart"
        elif first.is_true_at(times[1]) or second.is_true_at(times[0]):
            fault = "moments", "a caption holds at both"
        stills = Still(first.text, times[0]), Still(second.text, times[1])
        tags = {"group": first.group} if first.group else {}
        provenance: dict[str, JsonValue] = {"captions": [first.id, second.id], "asked_times": [*times]}
        return FramePair(first.video, stills, fault, tags, provenance)

    def _frame_time(self, caption: _Caption) -> float:
        if self._options.frame == "start":
            return caption.start
        if self._options.frame == "middle":
            return round((caption.start + caption.end) / 2, 6)
        # The next row may start at this end; the frame at the end would be the next row's.
        return max(caption.start, round(caption.end - 0.001, 6))

    def _draw_pairs(self, pairs: dict[str, FramePair]) -> Mapping[str, FramePair]:
        """Draw `max_pairs` pairs of each video among those without a fault; the other ones get a fault."""
        if not self._options.max_pairs:
            return pairs
        names_by_video: dict[str, list[str]] = defaultdict(list)
        for name, pair in pairs.items():
            if pair.fault is None:
                names_by_video[pair.video].append(name)
        reason = f"more than {self._options.max_pairs} pairs of its video"
        for names in names_by_video.values():
            names.sort(key=lambda name: hashlib.sha256(f"{self._seed}:{name}".encode()).digest())
            for name in names[self._options.max_pairs :]:
                pairs[name] = replace(pairs[name], fault=("draw", reason))
        return pairs


def _read_captions(path: Path) -> Iterator[tuple[str, _Caption]]:
    """Yield each caption after its place, as `FILE:LINE`."""
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
