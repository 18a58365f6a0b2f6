"""The builder `youcook2`: the middle frames of a cooking video's steps, all pairs, without faces, after Eq-YouCook2."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import combinations
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from tellapart.builders.builder import about_set
from tellapart.builders.video.footage import FaceOptions, FootageOptions, FramePair, Still, VideoPairs
from tellapart.data.rows import AnnotationRow, Filled, Seconds
from tellapart.data.strict_json import read_json
from tellapart.data.validation import validate
from tellapart.errors import DataError

Subset = Literal["training", "validation", "testing"]
_LABELLED: tuple[Subset, ...] = ("training", "validation")


class _Step(AnnotationRow):
    """A step of a recipe in the annotations; `segment` is its start and its end."""

    id: int
    segment: Annotated[list[Seconds], Field(min_length=2, max_length=2)]
    sentence: Filled

    def middle_still(self) -> Still:
        return Still(self.sentence, sum(self.segment) / 2)


class YouCook2(VideoPairs):
    """Pair the steps of each cooking video: the middle frames of two segments with their captions.

    Frames with a face are rejected: they show the cook, not the caption's content. The paper's main text speaks of
    object detectors, its appendix of the face detector `face_recognition`; here OpenCV's is used, see `faces`.

    Source: EqBen, section 3.2 and appendix B.3.
    """

    class Options(FootageOptions, FaceOptions):
        """The recipe's `[options]`.

        Attributes:
            annotations: `youcookii_annotations_trainval.json`.
            subsets: the subsets of the dataset whose videos are used.
        """

        annotations: str
        subsets: list[Subset] = Field(default_factory=lambda: list(_LABELLED), min_length=1)

    about: Mapping[str, JsonValue] = about_set("youcook2")

    @cached_property
    def pairs(self) -> Mapping[str, FramePair]:
        """The pairs by id: the video's with the numbers of two steps."""
        database = read_json(self.annotations, dict).get("database")
        if not isinstance(database, dict):
            raise DataError(f"{self.annotations}: expected an object 'database' of videos, as YouCook2 has it")
        pairs = {}
        for video, entry in database.items():
            place = f"{self.annotations}: video {video!r}"
            if not isinstance(entry, dict) or not isinstance(entry.get("annotations"), list):
                raise DataError(f"{place}: expected an object with 'subset' and a list 'annotations'")
            if entry.get("subset") not in self._options.subsets:
                continue
            steps = [validate(_Step, row, f"{place}: row {k}") for k, row in enumerate(entry["annotations"])]
            for number, (start, end) in enumerate(step.segment for step in steps):
                if end < start:
                    fault = f"row {number}: field 'segment': ends at {end}, before it begins at {start}"
                    raise DataError(f"{place}: {fault}")
            if len({step.id for step in steps}) < len(steps):
                raise DataError(f"{place}: two of its segments have the same id")
            recipe = str(entry.get("recipe_type", ""))
            ordered = sorted(steps, key=lambda step: (min(step.segment), step.id))
            for first, second in combinations(ordered, 2):
                same = first.sentence.strip().lower() == second.sentence.strip().lower()
                pairs[f"{video}-{first.id}-{second.id}"] = FramePair(
                    video,
                    (first.middle_still(), second.middle_still()),
                    ("captions", "both are the same") if same else None,
                    {"subset": str(entry["subset"])},
                    {"segments": [[*first.segment], [*second.segment]], "recipe_type": recipe},
                )
        return pairs
