"""The builder `youcook2`: the middle frames of a cooking video's steps, all pairs, without faces, after Eq-YouCook2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import combinations
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue

from tellapart.builders.builder import Start, about_set
from tellapart.builders.video.footage import FaceOptions, FootageOptions, FramePair, Still, VideoPairs, face_detector
from tellapart.data.rows import AnnotationRow, check_row, read_mapping
from tellapart.errors import DataError

Subset = Literal["training", "validation", "testing"]
_LABELLED: tuple[Subset, ...] = ("training", "validation")
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Filled = Annotated[str, Field(min_length=1, pattern=r"\S")]


class _Step(AnnotationRow):
    id: int
    segment: Annotated[list[Seconds], Field(min_length=2, max_length=2)]
    sentence: Filled


class YouCook2(VideoPairs):
    """Pair the steps of each cooking video: the middle frames of two segments with their captions.

    Frames with a face are rejected: they show the cook, not the caption's content. The main text speaks of object
    detectors, the appendix of a face detector (`face_recognition`); here it is OpenCV's, see `faces`.

    Source: EqBen, section 3.2 and appendix B.3.
    """

    class Options(FootageOptions, FaceOptions):
        """The recipe's `[options]`.

        Attributes:
            annotations: `youcookii_annotations_trainval.json`.
            subsets: of the dataset, whose videos are used.
        """

        annotations: str
        subsets: list[Subset] = Field(default_factory=lambda: list(_LABELLED), min_length=1)

    about: Mapping[str, JsonValue] = about_set("youcook2")

    def __init__(self, start: Start) -> None:
        super().__init__(start, detector=face_detector(start.options, start.home))

    @cached_property
    def pairs(self) -> Mapping[str, FramePair]:
        """The pairs by id: the video's with the numbers of two steps."""
        database = read_mapping(self.annotations).get("database")
        if not isinstance(database, dict):
            raise DataError(
                f"{self.annotations}: expected an object 'database' of videos, as YouCook2's annotations have it"
            )
        pairs = {}
        for video, entry in database.items():
            place = f"{self.annotations}: video {video!r}"
            if not isinstance(entry, dict) or not isinstance(entry.get("annotations"), list):
                raise DataError(f"{place}: expected an object with 'subset' and a list 'annotations'")
            if entry.get("subset") not in self._options.subsets:
                continue
            steps = _read_steps(entry["annotations"], place)
            for first, second in combinations(sorted(steps, key=lambda step: (step.segment[0], step.id)), 2):
                recipe = str(entry.get("recipe_type", ""))
                pairs[f"{video}-{first.id}-{second.id}"] = _make_pair(
                    video, (first, second), str(entry["subset"]), recipe
                )
        return pairs


def _read_steps(rows: Sequence[Any], place: str) -> list[_Step]:
    steps = [check_row(_Step, row, f"{place}: row {number}") for number, row in enumerate(rows)]
    for number, step in enumerate(steps):
        start, end = step.segment
        if end < start:
            raise DataError(f"{place}: row {number}: field 'segment': ends at {end}, before it begins at {start}")
    if len({step.id for step in steps}) < len(steps):
        raise DataError(f"{place}: two of its segments have the same id")
    return steps


def _make_pair(video: str, steps: tuple[_Step, _Step], subset: str, recipe: str) -> FramePair:
    first, second = (Still(step.sentence, sum(step.segment) / 2) for step in steps)
    same = first.caption.strip().lower() == second.caption.strip().lower()
    fault = ("captions", "both are the same") if same else None
    provenance: dict[str, JsonValue] = {"segments": [list(step.segment) for step in steps], "recipe_type": recipe}
    return FramePair(video, (first, second), fault, {"subset": subset}, provenance)
