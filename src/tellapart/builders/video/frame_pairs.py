"""The part that all builders from video share: decode two stills of one video, compare them, make a 2x2 item."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from pydantic import JsonValue

from tellapart.builders.builder import Candidate, Made, Rejected, Start
from tellapart.builders.video.faces import FaceDetector
from tellapart.builders.video.footage import Footage, FootageOptions, Still, StillFile, file_sha256
from tellapart.data.item import Item


@dataclass(frozen=True, slots=True)
class FramePair:
    """Two moments of a video with their captions, and a fault that the annotations alone show.

    Attributes:
        video: its id; also the item's cluster.
        stills: the two frames; the first is the earlier one.
        fault: step and reason of a rejection that needs no frame, or None.
        tags, provenance: the item's, to which the frames' times are added.
    """

    video: str
    stills: tuple[Still, Still]
    fault: tuple[str, str] | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    provenance: Mapping[str, JsonValue] = field(default_factory=dict)


def differing_words(first: str, second: str) -> int:
    """Return the number of words, case and punctuation aside, that only one of two captions has, repetitions counted.

    >>> differing_words("A man sits.", "a man gets up")
    3
    """
    counts: dict[str, int] = {}
    for text, sign in ((first, 1), (second, -1)):
        for word in text.lower().split():
            bare = word.strip(".,;:!?\"'()")
            counts[bare] = counts.get(bare, 0) + sign
    return sum(abs(count) for word, count in counts.items() if word)


class VideoPairs(ABC):
    """The base of all builders from video; a subclass lists the pairs.

    Subclasses define `pairs`, id -> pair, from the annotations alone, and `about`. Their annotations are read once, for
    the candidates: worker processes receive theirs. `inputs` has the SHA-256 of the files that the builder reads; a
    video's is in the provenance of its items.
    """

    def __init__(self, start: Start, annotations: Path, *others: Path, detector: FaceDetector | None = None) -> None:
        options: FootageOptions = start.options
        self.annotations = annotations
        self.footage = Footage(options, start.home, detector.find_fault if detector else None)
        self.inputs: Mapping[str, str] = {path.name: file_sha256(path) for path in (annotations, *others)}
        self.models = self.footage.models
        if detector:
            self.inputs = {**self.inputs, **detector.inputs}
            self.models = {**self.models, **detector.models}
        self._least = options.min_difference

    @property
    @abstractmethod
    def pairs(self) -> Mapping[str, FramePair]:
        """The pairs by id, in the order of the set."""

    def candidates(self) -> Sequence[Candidate]:
        """Return every pair."""
        pairs = self.pairs
        if pairs:
            self.footage.check(pair.video for pair in pairs.values())
        return [Candidate(name, pair) for name, pair in pairs.items()]

    def make(self, candidate: Candidate) -> Made | Rejected:
        """Decode both frames, or return the reason why they make no pair."""
        pair: FramePair = candidate.data
        if pair.fault:
            return Rejected(*pair.fault)
        first, second = (self.footage.still(pair.video, still) for still in pair.stills)
        if isinstance(first, Rejected):
            return first
        if isinstance(second, Rejected):
            return second
        difference = float(np.abs(first.thumbnail - second.thumbnail).mean())
        if (reason := self._find_reason(first, second, difference)) is not None:
            return Rejected("frames", reason)
        measured: dict[str, JsonValue] = {
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
            provenance={"video": pair.video, **pair.provenance, **measured},
        )
        return Made(item, {still.reference: still.data for still in (first, second)})

    def _find_reason(self, first: StillFile, second: StillFile, difference: float) -> str | None:
        """Return the reason why two stills make no pair, or None."""
        if first.reference == second.reference:
            return "both moments are the same frame"
        if first.fault or second.fault:
            return first.fault or second.fault
        return f"differ by less than {self._least}" if difference < self._least else None
