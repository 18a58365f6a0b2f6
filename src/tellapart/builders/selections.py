"""Selections that every recipe can name: each looks at all items of a set and leaves some out.

A filter (`item_filters`) looks at one item alone; decisions that depend on the others (duplicates, quotas, the balance
of a set against a blind model) are selections. Selections run once, in the recipe's order, after every candidate is
decided; each gets the items that the one before it left.

Adding one is a class in a file and a line of `catalog.SELECTIONS`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from tellapart.data.item import Item

__all__ = ["Distinct", "PerCluster", "Selection"]


class Selection(BaseModel):
    """A selection and its options, the keys of its table in the recipe."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def inputs(self, home: Path) -> Mapping[str, str]:  # noqa: ARG002
        """Return the files it reads, by name, with their SHA-256; paths in its options are relative to `home`.

        They are part of the recipe's fingerprint and of the set's card.

        Raises:
            DataError: a file cannot be read.
        """
        return {}

    def models(self, home: Path) -> Mapping[str, str]:  # noqa: ARG002
        """Return the models and programs it uses, by name, with their revision or version; as `inputs`."""
        return {}

    def left_out(self, items: Sequence[Item], *, seed: int, home: Path) -> Mapping[str, str]:  # noqa: ARG002
        """Return the ids of the items to leave out, each with the reason that the funnel counts it under.

        The answer depends on the arguments and the options alone: a stopped build that goes on asks again. A reason is
        short and one of few, as all items with the same one are counted together.

        Args:
            items: those that are left, in the order of the set, without their images.
            seed: the recipe's.
            home: the folder that paths in the options are relative to.

        Raises:
            DataError: the selection is not for an item of this kind; the message names it.
        """
        return {}


class Distinct(Selection):
    """No item has the captions of an earlier one; with `images`, only one of the same images, too, is left out.

    >>> items = [Item(id=name, images=(f"{name}.png",), texts=("x", "y")) for name in "ab"]
    >>> Distinct().left_out(items, seed=1, home=Path("."))
    {'b': 'the captions of an earlier item'}
    """

    images: bool = False

    def left_out(self, items: Sequence[Item], *, seed: int, home: Path) -> dict[str, str]:  # noqa: ARG002
        """Return the later ones of those that are the same, with the reason."""
        earlier: set[tuple[tuple[str, ...], ...]] = set()
        reasons: dict[str, str] = {}
        for item in items:
            key = (item.texts, item.images) if self.images else (item.texts,)
            if key in earlier:
                reasons[item.id] = f"the captions{' and images' * self.images} of an earlier item"
            earlier.add(key)
        return reasons


class PerCluster(Selection):
    """At most `maximum` items of one cluster (a source image, video or scene): the first ones stay."""

    maximum: int = Field(ge=1)

    def left_out(self, items: Sequence[Item], *, seed: int, home: Path) -> dict[str, str]:  # noqa: ARG002
        """Return the items after the first `maximum` of their cluster, with the reason."""
        counts: Counter[str] = Counter()
        reasons: dict[str, str] = {}
        for item in items:
            counts[item.cluster] += 1
            if counts[item.cluster] > self.maximum:
                reasons[item.id] = f"more than {self.maximum} of one cluster"
        return reasons
