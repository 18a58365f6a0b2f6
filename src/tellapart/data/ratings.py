"""Records of images that people have rated by how well they show a text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tellapart.data.scores import join_names
from tellapart.data.task_records import check_ids
from tellapart.errors import DataError


@dataclass(frozen=True, slots=True)
class RatedImage:
    """An image, the text that it is to show, and people's ratings of how well it does; higher is better.

    Attributes:
        ratings: one a person; or a single label, 1 if it shows the text and 0 if not.
        cluster: the unit of resampling; the text if it is empty.
    """

    id: str
    image: str
    text: str
    ratings: tuple[float, ...]
    cluster: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def rating(self) -> float:
        """The mean of the ratings."""
        return math.fsum(self.ratings) / len(self.ratings)


@dataclass(frozen=True)
class RatingSet:
    """Images with their texts, and people's ratings of each."""

    name: str
    rated: tuple[RatedImage, ...]

    def __post_init__(self) -> None:
        check_ids(self.name, [rating.id for rating in self.rated])
        if bad := [
            rating.id for rating in self.rated if not rating.ratings or not all(map(math.isfinite, rating.ratings))
        ]:
            raise DataError(
                f"{self.name}: {len(bad)} images have no rating, or one that is not finite: {join_names(bad)}"
            )
        if len(np.unique(self.people)) < 2:
            raise DataError(
                f"{self.name}: all {len(self.rated)} images are rated {self.people[0]:g}; agreement with people needs "
                "two that are rated differently"
            )

    @cached_property
    def people(self) -> NDArray[np.float64]:
        """The mean rating of each image, float64 `(image,)`."""
        return np.array([rating.rating for rating in self.rated])

    @property
    def labels(self) -> bool:
        """Whether the ratings are labels: 0 and 1, one an image."""
        return all(len(rating.ratings) == 1 for rating in self.rated) and bool(np.isin(self.people, (0, 1)).all())
