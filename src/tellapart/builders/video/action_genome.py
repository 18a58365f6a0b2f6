"""The builder `action-genome`: two frames between which a person's relations to an object change (Eq-AG)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

from tellapart.builders.builder import Start, about_set
from tellapart.builders.video.footage import FootageOptions, FramePair, Still, VideoPairs
from tellapart.data.strict_binary import read_plain_pickle
from tellapart.data.strict_json import read_json
from tellapart.data.validation import validate
from tellapart.errors import DataError

#: The three kinds of relations; of each kind, an object in a frame has a list of labels.
RELATIONS = ("attention", "spatial", "contacting")

#: Such as `50N4E.mp4/000682.png`.
_FRAME = re.compile(r"(?P<video>[^/\\]+)/(?P<number>[0-9]{1,9})\.[A-Za-z]+")

_PICKLES = (".pkl", ".pickle", ".p")

Relations = Mapping[str, tuple[str, ...]]
Sides = Annotated[list[Annotated[float, Field(strict=True)]], Field(min_length=4, max_length=4)]


def _plain_labels(labels: object) -> tuple[str, ...]:
    """Return distinct labels in lower case without underscores and blanks, which the release writes in two ways."""
    if labels is None:
        return ()
    if not isinstance(labels, list | tuple) or not all(isinstance(label, str) for label in labels):
        raise ValueError("expected a list of labels or null")
    return tuple(dict.fromkeys(label.lower().replace("_", "").replace(" ", "") for label in labels))


Labels = Annotated[tuple[str, ...], BeforeValidator(_plain_labels)]


class _Object(BaseModel):
    """An object of a frame, as the annotations have it; other fields are ignored."""

    model_config = ConfigDict(extra="ignore")

    name: str = Field(alias="class", min_length=1)
    visible: bool = Field(strict=True)
    attention_relationship: Labels = ()
    spatial_relationship: Labels = ()
    contacting_relationship: Labels = ()
    bbox: Sides | None = None


class _Persons(BaseModel):
    """The persons of a frame."""

    model_config = ConfigDict(extra="ignore")

    bbox: list[Sides]
    bbox_mode: Literal["xyxy"] = "xyxy"


@dataclass(frozen=True, slots=True)
class ObjectInFrame:
    """An object in a frame: the frame's number, the labels of each relation, and its box.

    The box is left, top, right, bottom in pixels of the frame.
    """

    number: int
    relations: Relations
    box: list[float] | None


TwoFrames = tuple[ObjectInFrame, ObjectInFrame]
PersonBoxes = Mapping[str, list[list[float]]]  # by the frame's name


def read_scene_graphs(path: Path) -> Mapping[str, Mapping[str, Sequence[ObjectInFrame]]]:
    """Return, by video and object class, the frames that show the object with all three relations, in order.

    Objects with `visible: False`, whose relations are null, and objects that lack a relation are passed over.
    """
    graphs: dict[str, dict[str, dict[int, ObjectInFrame]]] = defaultdict(lambda: defaultdict(dict))
    content = read_plain_pickle(path) if path.suffix in _PICKLES else read_json(path, dict)
    if not isinstance(content, dict) or not content:
        raise DataError(f"{path}: expected a dictionary of frames")
    for name, objects in content.items():
        place = f"{path}: frame {name!r}"
        parts = _FRAME.fullmatch(str(name))
        if parts is None:
            raise DataError(f"{place}: expected a name such as '50N4E.mp4/000682.png'")
        if not isinstance(objects, list):
            raise DataError(f"{place}: expected a list of objects")
        for position, row in enumerate(objects):
            entry, number = validate(_Object, row, f"{place}: object {position}"), int(parts["number"])
            relations = {kind: getattr(entry, f"{kind}_relationship") for kind in RELATIONS}
            if entry.visible and all(relations.values()):
                x, y, width, height = entry.bbox or [0.0] * 4
                box = [x, y, x + width, y + height] if entry.bbox else None
                graphs[parts["video"]][entry.name][number] = ObjectInFrame(number, relations, box)
    return {
        video: {kind: [frames[number] for number in sorted(frames)] for kind, frames in kinds.items()}
        for video, kinds in graphs.items()
    }


def person_boxes(path: Path) -> PersonBoxes:
    """Return the boxes of a frame's persons, by frame: left, top, right, bottom, unlike the objects' in their file."""
    if path.suffix in _PICKLES:
        fix = 'write it as JSON once: {frame: {"bbox": bbox.tolist()}}'
        raise DataError(f"{path}: holds numpy arrays, which take code to read; {fix}")
    frames = read_json(path, dict).items()
    return {name: validate(_Persons, entry, f"{path}: frame {name!r}").bbox for name, entry in frames}


Verb = Literal["attention", "contacting", "both"]


def _by_label(*phrases: str) -> dict[str, str]:
    return {phrase.replace(" ", ""): phrase for phrase in phrases}


#: By kind of relation, the phrase of each label. Labels without a meaning (unsure, otherrelationship), or without one
#: in the sentence (in him/her), have no phrase.
_PHRASES: Mapping[str, Mapping[str, str]] = {
    "attention": _by_label("looking at", "not looking at"),
    "spatial": _by_label("above", "beneath", "in front of", "behind", "on the side of"),
    "contacting": _by_label(
        "carrying", "covered by", "drinking from", "eating", "holding", "leaning on", "lying on", "not contacting",
        "sitting on", "standing on", "touching", "twisting", "wearing", "wiping", "writing on",
    ) | {"haveitontheback": "carrying on his/her back"},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sentence:
    """A caption, and the label of each relation that it states."""

    text: str
    labels: Mapping[str, str]

    def holds_for(self, relations: Relations) -> bool:
        """Return whether a frame with these relations is annotated with every label of the sentence."""
        return all(label in relations[kind] for kind, label in self.labels.items())


def sentence(thing: str, relations: Relations, verb: Verb = "attention") -> Sentence | None:
    """Return "The person is <verb> the <object> which is <spatial> him/her.", or None if no label has a phrase.

    Of several labels of a relation the first one with a phrase is taken. A class of several names,
    such as "cup/glass/bottle", is joined by "or": the annotations do not distinguish them.

    Source: EqBen, appendix B.1 and Figure 16.
    """
    kinds = (("attention", "contacting") if verb == "both" else (verb,)) + ("spatial",)
    labels: dict[str, str] = {}
    for kind in kinds:
        label = next((label for label in relations[kind] if label in _PHRASES[kind]), None)
        if label is None:
            return None
        labels[kind] = label
    *first, last = thing.split("/")
    name = f"{', '.join(first)} or {last}" if first else last
    verbs = " and ".join(_PHRASES[kind][labels[kind]] for kind in kinds[:-1])
    spatial = _PHRASES["spatial"][labels["spatial"]]
    return Sentence(f"The person is {verbs} the {name} which is {spatial} him/her.", labels)


class ActionGenome(VideoPairs):
    """Pair annotated frames of a Charades video by one object's relations to the person in each.

    Frames `i < j` make a pair if at least `differ` of the three relations differ in their labels. Neighbours look
    alike: after a chosen frame, the next `skip` frames are passed over. The appendix skips "the immediate next frame",
    the main text "the subsequent 2 frames to I_{j+2}"; both arrive at `I_{j+2}` with `skip = 1`, the default, and
    `skip = 2` is the main text's number. A pair is rejected if every label in a caption is annotated of the other
    frame, too.

    Source: EqBen, section 3.2 and appendix B.1.
    """

    class Options(FootageOptions):
        """The recipe's `[options]`.

        Attributes:
            annotations: `object_bbox_and_relationship.pkl`, or the same as JSON.
            persons: the persons' boxes as JSON, for the items' provenance; none if empty.
            differ: how many of the three relations must differ at least.
            skip: how many frames are passed over after a chosen one.
            verb: the relation that becomes the caption's verb: `attention`, `contacting` or `both`.
        """

        annotations: str
        persons: str = ""
        differ: int = Field(default=2, ge=1, le=3)
        skip: int = Field(default=1, ge=0)
        verb: Verb = "attention"

    about: Mapping[str, JsonValue] = about_set("action-genome")

    def __init__(self, start: Start) -> None:
        self._persons = [start.home / start.options.persons] if start.options.persons else []
        super().__init__(start, *self._persons)

    @cached_property
    def pairs(self) -> Mapping[str, FramePair]:
        """The pairs by id: video, object and the two frames' numbers."""
        persons = person_boxes(self._persons[0]) if self._persons else {}
        pairs = {}
        for video, objects in read_scene_graphs(self.annotations).items():
            for thing, frames in objects.items():
                for first, second in sparse_pairs(frames, self._options.differ, self._options.skip):
                    name = f"{video}-{thing.replace('/', '+')}-{first.number}-{second.number}"
                    pairs[name] = self._make_pair(video, thing, (first, second), persons)
        return pairs

    def _make_pair(self, video: str, thing: str, frames: TwoFrames, persons: PersonBoxes) -> FramePair:
        sentences = [sentence(thing, frame.relations, self._options.verb) for frame in frames]
        texts = (caption.text if caption else "" for caption in sentences)
        stills = [Still(text, number=frame.number) for text, frame in zip(texts, frames, strict=True)]
        changed = [kind for kind in RELATIONS if set(frames[0].relations[kind]) != set(frames[1].relations[kind])]
        provenance: dict[str, JsonValue] = {
            "frames": [frame.number for frame in frames],
            "relations": [{kind: list(frame.relations[kind]) for kind in RELATIONS} for frame in frames],
            "object_boxes": [[*frame.box] if frame.box else None for frame in frames],
        }
        if persons:
            names = [f"{video}/{frame.number:06d}.png" for frame in frames]
            provenance["person_boxes"] = [[[*box] for box in persons.get(name, ())] for name in names]
        tags = {"object": thing, "changed": "+".join(changed)}
        return FramePair(video, (stills[0], stills[1]), _find_fault(sentences, frames), tags, provenance)


def sparse_pairs(frames: Sequence[ObjectInFrame], differ: int, skip: int) -> Iterator[TwoFrames]:
    """Yield the pairs of an object's frames that differ in enough relations; chosen frames' neighbours are skipped."""
    i = 0
    while i < len(frames):
        selected = False
        j = i + 1
        while j < len(frames):
            first, second = frames[i].relations, frames[j].relations
            if sum(set(first[kind]) != set(second[kind]) for kind in RELATIONS) >= differ:
                yield frames[i], frames[j]
                selected = True
                j += skip
            j += 1
        i += 1 + skip * selected


def _find_fault(sentences: Sequence[Sentence | None], frames: TwoFrames) -> tuple[str, str] | None:
    """Return the step and the reason of a rejection by the two sentences, or None."""
    first, second = sentences
    if first is None or second is None:
        return "captions", "a relation that cannot be said"
    if first.text == second.text:
        return "captions", "both are the same"
    if first.holds_for(frames[1].relations) or second.holds_for(frames[0].relations):
        return "captions", "one is annotated of both frames"
    return None
