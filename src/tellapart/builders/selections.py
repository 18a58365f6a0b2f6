"""Selections that every recipe can name: each sees all items that were made, and says which it leaves out, and why.

A filter (`item_filters`) looks at one item alone; what depends on the others (duplicates, quotas, the balance of a set
against a blind model) is a selection. Selections run once, in the recipe's order, after every candidate is decided; each
sees what the one before it left.

Adding one is a class and a line of `SELECTIONS`. The class is imported when a recipe names it, so its module must import
heavy packages inside the functions that use them.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from pydantic import BaseModel, ConfigDict, Field

from tellapart.data.item import Item

__all__ = ["SELECTIONS", "Distinct", "PerCluster", "Selection", "selection_type"]


class Selection(BaseModel):
    """A selection and its options, the keys of its table in the recipe; it leaves nothing out until it says so.

    >>> Selection().left_out([Item(id="a", images=("a.png",), texts=("x", "y"))], seed=1, home=Path("."))
    {}
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def inputs(self, home: Path) -> Mapping[str, str]:  # noqa: ARG002
        """Return the files it reads, by name, with their SHA-256; paths in its options are relative to `home`.

        They are part of the recipe's fingerprint and stand on the set's card.

        Raises:
            DataError: a file cannot be read.

        >>> Selection().inputs(Path("."))
        {}
        """
        return {}

    def models(self, home: Path) -> Mapping[str, str]:  # noqa: ARG002
        """Return the models and programs it uses, by name, with their revision or version; as `inputs`.

        >>> Selection().models(Path("."))
        {}
        """
        return {}

    def left_out(self, items: Sequence[Item], *, seed: int, home: Path) -> Mapping[str, str]:  # noqa: ARG002
        """Return the ids of the items that do not stay, with the reason that the funnel counts them under.

        The answer depends on the arguments and the options alone: it is found anew when a stopped build goes on. A
        reason is short and one of few, as all items with the same one are counted together.

        Args:
            items: those that are left, in the order of the set; their images are not at hand.
            seed: the recipe's.
            home: the folder that paths in the options are relative to.

        Raises:
            DataError: an item is not what the selection is for; the message names it.

        >>> Selection().left_out([], seed=1, home=Path("."))
        {}
        """
        return {}


class Distinct(Selection):
    """No item has the captions of an earlier one; with `images`, only one of the same images, too, is left out.

    >>> items = [Item(id=name, images=(f"{name}.png",), texts=("x", "y")) for name in "ab"]
    >>> Distinct().left_out(items, seed=1, home=Path("."))
    {'b': 'the captions of an earlier item'}
    >>> Distinct(images=True).left_out(items, seed=1, home=Path("."))
    {}
    """

    images: bool = False

    def left_out(self, items: Sequence[Item], *, seed: int, home: Path) -> dict[str, str]:  # noqa: ARG002
        """Return the later ones of those that are the same, with the reason."""
        seen: set[tuple[tuple[str, ...], ...]] = set()
        found: dict[str, str] = {}
        for item in items:
            key = (item.texts, item.images) if self.images else (item.texts,)
            if key in seen:
                found[item.id] = f"the captions{' and images' * self.images} of an earlier item"
            seen.add(key)
        return found


class PerCluster(Selection):
    """At most `maximum` items of one cluster (a source image, video or scene): the first ones stay.

    >>> items = [Item(id=name, images=("a.png",), texts=("x", "y"), cluster="a") for name in "abc"]
    >>> PerCluster(maximum=2).left_out(items, seed=1, home=Path("."))
    {'c': 'more than 2 of one cluster'}
    """

    maximum: int = Field(ge=1)

    def left_out(self, items: Sequence[Item], *, seed: int, home: Path) -> dict[str, str]:  # noqa: ARG002
        """Return the items after the first `maximum` of their cluster, with the reason."""
        counts: Counter[str] = Counter()
        found: dict[str, str] = {}
        for item in items:
            counts[item.cluster] += 1
            if counts[item.cluster] > self.maximum:
                found[item.id] = f"more than {self.maximum} of one cluster"
        return found


SELECTIONS: Mapping[str, str] = MappingProxyType(
    {
        "distinct": "tellapart.builders.selections:Distinct",
        "per_cluster": "tellapart.builders.selections:PerCluster",
        "quantile": "tellapart.builders.negatives.thresholds:Quantile",
        "similarity": "tellapart.builders.negatives.thresholds:Similarity",
        "refine": "tellapart.builders.negatives.refine:Refine",
    }
)
"""Selections by the name that a recipe gives them: where each one's class is."""


def selection_type(name: str) -> type[Selection]:
    """Import the class of a selection; `recipe_file.open_selections` checks the name and the options.

    Raises:
        KeyError: no such selection.

    >>> selection_type("distinct").__name__
    'Distinct'
    """
    module, _, attribute = SELECTIONS[name].partition(":")
    found: type[Selection] = getattr(importlib.import_module(module), attribute)
    return found
