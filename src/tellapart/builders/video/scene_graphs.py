"""Action Genome's annotations: of each frame, the objects and how the person relates to them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tellapart.data.annotations import read_mapping
from tellapart.data.plain_pickle import read_plain_pickle
from tellapart.errors import DataError, quote

__all__ = ["RELATIONS", "ObjectInFrame", "Relations", "person_boxes", "read_scene_graphs"]

#: The three kinds of relations, each a list of labels of a frame's object.
RELATIONS = ("attention", "spatial", "contacting")

_FRAME = re.compile(r"(?P<video>[^/\\]+)/(?P<number>[0-9]{1,9})\.[A-Za-z]+")

Relations = Mapping[str, tuple[str, ...]]
Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class ObjectInFrame:
    """An object in a frame: the frame's number, the labels of each relation, and its box.

    Labels are in lower case without underscores or blanks: the release spells them in two ways. The box is left, top,
    right, bottom in pixels of the frame.
    """

    number: int
    relations: Relations
    box: Box | None


def read_scene_graphs(path: Path) -> Mapping[str, Mapping[str, Sequence[ObjectInFrame]]]:
    """Return video -> object class -> the frames that show it with all three relations, by number.

    Args:
        path: `object_bbox_and_relationship.pkl` as released, of which plain data alone is read, or the same as JSON,
            which is read faster: `{"50N4E.mp4/000682.png": [{"class": ..., "visible": ..., "bbox": [x, y, w, h],
            "attention_relationship": [...], "spatial_relationship": [...], "contacting_relationship": [...]}]}`.

    Objects with `visible: False`, whose relations are null, and objects that lack a relation are passed over.

    Raises:
        DataError: the file is not valid; file, frame and field are named.

    >>> import json, tempfile
    >>> row = {"class": "cup", "visible": True, "bbox": [1, 2, 10, 20], "attention_relationship": ["looking_at"]}
    >>> row |= {"spatial_relationship": ["in_front_of"], "contacting_relationship": ["holding"]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "graphs.json"
    ...     _ = path.write_text(json.dumps({"50N4E.mp4/000682.png": [row]}))
    ...     read_scene_graphs(path)["50N4E.mp4"]["cup"][0].box
    (1.0, 2.0, 11.0, 22.0)
    """
    graphs: dict[str, dict[str, dict[int, ObjectInFrame]]] = defaultdict(lambda: defaultdict(dict))
    for name, objects in _read_frames(path).items():
        where = f"{path}: frame {name!r}"
        parts = _FRAME.fullmatch(str(name))
        if parts is None:
            raise DataError(f"{where}: expected a name such as '50N4E.mp4/000682.png'")
        if not isinstance(objects, list):
            raise DataError(f"{where}: expected a list of objects")
        for position, row in enumerate(objects):
            entry = _read_object(int(parts["number"]), row, f"{where}: object {position}")
            if entry is not None:
                graphs[parts["video"]][str(row["class"])][entry.number] = entry
    return {
        video: {kind: [frames[number] for number in sorted(frames)] for kind, frames in kinds.items()}
        for video, kinds in graphs.items()
    }


def person_boxes(path: Path) -> Mapping[str, list[Box]]:
    """Return frame -> the boxes of its persons, left, top, right, bottom: as released, unlike those of the objects.

    Args:
        path: JSON, `{"50N4E.mp4/000682.png": {"bbox": [[x1, y1, x2, y2], ...], "bbox_mode": "xyxy"}}`; the released
            `person_bbox.pkl` holds numpy arrays, which take code to read: convert it once, if you trust it.

    Raises:
        DataError: the file is not valid.
    """
    if path.suffix in {".pkl", ".pickle", ".p"}:
        raise DataError(
            f"{path}: holds numpy arrays, which take code to read; "
            'write it as JSON once: {frame: {"bbox": bbox.tolist()}}'
        )
    persons: dict[str, list[Box]] = {}
    for name, entry in read_mapping(path).items():
        where = f"{path}: frame {name!r}"
        boxes = entry.get("bbox") if isinstance(entry, dict) else None
        if not isinstance(boxes, list):
            raise DataError(f"{where}: expected an object with a list 'bbox'")
        if entry.get("bbox_mode", "xyxy") != "xyxy":
            raise DataError(f"{where}: field 'bbox_mode': expected 'xyxy', got {quote(entry['bbox_mode'], 40)}")
        persons[name] = [_read_box(box, where) for box in boxes]
    return persons


def _read_frames(path: Path) -> Mapping[str, Any]:
    if path.suffix not in {".pkl", ".pickle", ".p"}:
        return read_mapping(path)
    frames = read_plain_pickle(path)
    if not isinstance(frames, dict) or not frames:
        raise DataError(f"{path}: expected a dictionary of frames")
    return frames


def _read_object(number: int, row: object, where: str) -> ObjectInFrame | None:
    """Read an object of a frame; None if it is not visible, or lacks a relation."""
    if not isinstance(row, dict) or not isinstance(row.get("class"), str) or not row["class"]:
        raise DataError(f"{where}: expected an object with 'class', 'visible', 'bbox' and three relationships")
    if not isinstance(row.get("visible"), bool):
        raise DataError(f"{where}: field 'visible': expected true or false, got {quote(row.get('visible'), 40)}")
    relations = {
        kind: _read_labels(row.get(f"{kind}_relationship"), f"{where}: field '{kind}_relationship'")
        for kind in RELATIONS
    }
    if not row["visible"] or not all(relations.values()):
        return None
    box = None
    if row.get("bbox") is not None:
        x, y, width, height = _read_box(row["bbox"], where)
        box = (x, y, x + width, y + height)
    return ObjectInFrame(number, relations, box)


def _read_labels(value: object, where: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or not all(isinstance(label, str) for label in value):
        raise DataError(f"{where}: expected a list of labels or null, got {quote(value)}")
    return tuple(dict.fromkeys(label.lower().replace("_", "").replace(" ", "") for label in value))


def _read_box(value: object, where: str) -> Box:
    numbers = value if isinstance(value, list | tuple) else ()
    if len(numbers) != 4 or not all(isinstance(n, int | float) and not isinstance(n, bool) for n in numbers):
        raise DataError(f"{where}: field 'bbox': expected four numbers, got {quote(value)}")
    first, second, third, fourth = (float(number) for number in numbers)
    return first, second, third, fourth
