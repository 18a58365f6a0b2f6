"""Records of labels: which images of a set count for a label, and which of those it is true of."""

from __future__ import annotations

from dataclasses import dataclass

from tellapart.data.task_records import check_ids
from tellapart.errors import DataError

__all__ = ["ImageLabel", "LabelSet"]


@dataclass(frozen=True, slots=True)
class ImageLabel:
    """A label, the places of the images that count for it, and whether it is true of each of them.

    >>> ImageLabel("0", "square white plate", (0, 3), (True, False)).true
    (True, False)
    """

    id: str
    text: str
    counted: tuple[int, ...]
    true: tuple[bool, ...]


@dataclass(frozen=True)
class LabelSet:
    """Images, known by their places from 0, and labels of them.

    Raises:
        DataError: no label, an id that repeats, an image that is not there, not one mark an image, or a label that is
            true of none.

    >>> plates = LabelSet("plates", ("a.png", "b.png"), (ImageLabel("0", "white plate", (0, 1), (True, False)),))
    >>> plates.images_of(plates.labels[0])
    ('a.png', 'b.png')
    """

    name: str
    images: tuple[str, ...]
    labels: tuple[ImageLabel, ...]

    def __post_init__(self) -> None:
        check_ids(self.name, [label.id for label in self.labels])
        for label in self.labels:
            if len(label.counted) != len(label.true) or not any(label.true):
                raise DataError(
                    f"{self.name}: label {label.id} has {len(label.counted)} images, {len(label.true)} marks, "
                    f"{sum(label.true)} of them true; give a mark for each image, and one that is true"
                )
            if not all(0 <= place < len(self.images) for place in label.counted):
                raise DataError(f"{self.name}: label {label.id} names an image beyond the {len(self.images)} there are")

    def images_of(self, label: ImageLabel) -> tuple[str, ...]:
        """Return the references of the images that count for a label."""
        return tuple(self.images[place] for place in label.counted)
