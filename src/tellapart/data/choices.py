"""Records of forced choice (an image, a true and a false caption) and of rankings by people."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tellapart.data.pairset import PairSet
from tellapart.data.task_records import check_ids
from tellapart.errors import DataError


@dataclass(frozen=True, slots=True)
class Choice:
    """An image and two captions, of which one is true.

    Attributes:
        cluster: the unit of resampling, if that is not the image.
    """

    id: str
    image: str
    true: str
    false: str
    tags: Mapping[str, str] = field(default_factory=dict)
    cluster: str = ""


@dataclass(frozen=True)
class ChoiceSet:
    """Choices, each to be asked twice: the true caption first, and second."""

    name: str
    choices: tuple[Choice, ...]

    def __post_init__(self) -> None:
        check_ids(self.name, [choice.id for choice in self.choices])

    @classmethod
    def of_pairs(cls, pairs: PairSet) -> ChoiceSet:
        """Return the choices of 1x2 pairs; a cluster that is the item's id alone is none, so the image stands for it.

        >>> from pathlib import Path
        >>> from tellapart.data.item import Item
        >>> cup = Item(id="0", images=("a.png",), texts=("a blue cup", "a red cup"), true=(1,))
        >>> ChoiceSet.of_pairs(PairSet("cups", (cup,), Path())).choices[0].true
        'a red cup'
        """
        choices = []
        for item in pairs.items:
            (image,), (true, false) = item.images, item.truth_first().texts
            cluster = "" if item.cluster in (item.id, image) else item.cluster
            choices.append(Choice(item.id, image, true, false, item.tags, cluster))
        return cls(pairs.name, tuple(choices))


@dataclass(frozen=True, slots=True)
class Ranking:
    """A query, its candidates in people's order, and the query's minimal edit if there is one.

    Attributes:
        query: the caption.
        edited: the caption with one thing changed ("right" to "left"); empty if there is none.
        candidates: image references.
        people: place of each candidate, 1 for the closest; means over people and ties are allowed.
    """

    id: str
    query: str
    edited: str
    candidates: tuple[str, ...]
    people: tuple[float, ...]


@dataclass(frozen=True)
class RankingSet:
    """Rankings by people."""

    name: str
    rankings: tuple[Ranking, ...]

    def __post_init__(self) -> None:
        check_ids(self.name, [ranking.id for ranking in self.rankings])
        for ranking in self.rankings:
            candidates, places = len(ranking.candidates), len(ranking.people)
            if candidates != places or candidates < 2 or not all(map(math.isfinite, ranking.people)):
                raise DataError(
                    f"{self.name}: ranking {ranking.id} has {candidates} candidates and {places} places; a ranking has "
                    "two or more, and a place for each"
                )
