"""Labels of images: for each label the images that it is judged on, and whether it is true of each of them."""

from __future__ import annotations

from dataclasses import dataclass

from tellapart.data.task_records import check_ids
from tellapart.errors import DataError


@dataclass(frozen=True, slots=True)
class ImageLabel:
    """A label of some images of a set.

    Attributes:
        counted: positions, in the set, of the images that the label is judged on.
        true: for each of them, whether the label is true of it.
    """

    id: str
    text: str
    counted: tuple[int, ...]
    true: tuple[bool, ...]


@dataclass(frozen=True)
class LabelSet:
    """Images, numbered from 0, and their labels."""

    name: str
    images: tuple[str, ...]
    labels: tuple[ImageLabel, ...]

    def __post_init__(self) -> None:
        check_ids(self.name, [label.id for label in self.labels])
        for label in self.labels:
            if len(label.counted) != len(label.true) or not any(label.true):
                raise DataError(
                    f"{self.name}: label {label.id} has {len(label.counted)} images, {len(label.true)} marks, "
                    f"{sum(label.true)} of them true; give one mark for each image, at least one of them true"
                )
            if not all(0 <= place < len(self.images) for place in label.counted):
                raise DataError(
                    f"{self.name}: label {label.id} names an image beyond the set's {len(self.images)}; "
                    "count images from 0"
                )

    def images_of(self, label: ImageLabel) -> tuple[str, ...]:
        """Return the references of the images that a label is judged on."""
        return tuple(self.images[place] for place in label.counted)
