"""What every builder from video does with two stills of one video: decode, compare, and make a 2x2 item."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from tellapart.builders.builder import Candidate, Made, Rejected, Start
from tellapart.builders.video.footage import Footage, FootageOptions, Missing, Picture, Still
from tellapart.data.item import Item
from tellapart.errors import DataError

__all__ = ["FramePair", "VideoPairs", "differing_words"]


@dataclass(frozen=True, slots=True)
class FramePair:
    """Two moments of a video with their captions, and what the annotations alone say against them.

    Attributes:
        video: its id; also the item's cluster.
        stills: the two frames; the first is the earlier one.
        fault: step and reason of a rejection that needs no frame, or None.
        tags, provenance: the item's, to which the frames' times are added.

    >>> pair = FramePair("v", (Still("a man stands", 1.0), Still("a man sits", 2.0)))
    >>> pair.fault is None
    True
    """

    video: str
    stills: tuple[Still, Still]
    fault: tuple[str, str] | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    provenance: Mapping[str, JsonValue] = field(default_factory=dict)


def differing_words(first: str, second: str) -> int:
    """Return how many words, case and punctuation aside, stand in one of two captions alone, each as often as it does.

    >>> differing_words("A man sits.", "a man stands up")
    3
    """
    counts: dict[str, int] = {}
    for text, sign in ((first, 1), (second, -1)):
        for word in text.lower().split():
            bare = word.strip(".,;:!?\"'()")
            counts[bare] = counts.get(bare, 0) + sign
    return sum(abs(count) for word, count in counts.items() if word)


class VideoPairs:
    """The part that all builders from video share; a subclass says which pairs there are.

    Subclasses define `pairs`, id -> pair, from the annotations alone, and `about`. Their annotations are read once, when
    candidates are asked for: worker processes are handed theirs.

    Args:
        start: its options are a `FootageOptions`.
        annotations: the file that the builder reads.
        fault: says of a frame's pixels why it will not do, or None.

    Raises:
        DataError: the file or the folder of videos is not there.
        MissingDependencyError: PyAV is not installed.

    >>> start = Start(FootageOptions(videos="."), 1, Path("."))
    >>> VideoPairs(start, Path("gone.json"))
    Traceback (most recent call last):
    tellapart.errors.DataError: gone.json: cannot be read (No such file or directory)
    """

    def __init__(
        self, start: Start, annotations: Path, fault: Callable[[NDArray[np.uint8]], str | None] | None = None
    ) -> None:
        options: FootageOptions = start.options
        self.annotations = annotations
        self.footage = Footage(options, start.home, fault)
        self._digest = _sha256(annotations)
        self._least = options.min_difference

    @property
    def pairs(self) -> Mapping[str, FramePair]:
        """The pairs by id, in the order of the set."""
        raise NotImplementedError(f"{type(self).__name__} does not say which pairs there are")

    @cached_property
    def inputs(self) -> Mapping[str, str]:
        """The annotations' SHA-256; each video's is in the provenance of its items."""
        return {self.annotations.name: self._digest}

    @property
    def models(self) -> Mapping[str, str]:
        """The decoder and the encoder of pictures."""
        return self.footage.models

    def candidates(self) -> Sequence[Candidate]:
        """Return every pair.

        Raises:
            DataError: the annotations are not what they should be, or none of their videos is there.
        """
        pairs = self.pairs
        if pairs:
            self.footage.check(pair.video for pair in pairs.values())
        return [Candidate(name, pair) for name, pair in pairs.items()]

    def make(self, candidate: Candidate) -> Made | Rejected:
        """Decode both frames, or say why there is no pair."""
        pair: FramePair = candidate.data
        if pair.fault:
            return Rejected(*pair.fault)
        first, second = (self.footage.picture(pair.video, still) for still in pair.stills)
        if isinstance(first, Missing):
            return Rejected(first.step, first.reason)
        if isinstance(second, Missing):
            return Rejected(second.step, second.reason)
        difference = float(np.abs(first.thumbnail - second.thumbnail).mean())
        if (reason := self._reason(first, second, difference)) is not None:
            return Rejected("frames", reason)
        told: dict[str, JsonValue] = {
            "video_sha256": self.footage.sha256(pair.video),
            "frame_times": [first.time, second.time],
            "difference": round(difference, 6),
        }
        item = Item(
            id=candidate.id,
            images=(first.reference, second.reference),
            texts=(pair.stills[0].caption, pair.stills[1].caption),
            tags=dict(pair.tags),
            cluster=pair.video,
            provenance={"video": pair.video, **pair.provenance, **told},
        )
        return Made(item, {picture.reference: picture.data for picture in (first, second)})

    def _reason(self, first: Picture, second: Picture, difference: float) -> str | None:
        """Return why two pictures make no pair, or None."""
        if first.reference == second.reference:
            return "both moments are the same frame"
        if first.fault or second.fault:
            return first.fault or second.fault
        return f"differ by less than {self._least}" if difference < self._least else None


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
