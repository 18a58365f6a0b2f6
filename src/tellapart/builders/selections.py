"""Filters and selections that every recipe can name: they reject an item, or leave some of a set out.

A filter looks at one item alone; decisions that depend on the others (duplicates, quotas, the balance
of a set against a blind model) are selections. Selections run once, in the recipe's order, after every candidate is
decided; each gets the items that the one before it left.

Adding one is a class in a file and a line of `catalog.FILTERS` or `catalog.SELECTIONS`.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from tellapart.builders.builder import Made
from tellapart.data.images import decode, pixel_hash
from tellapart.data.item import Item
from tellapart.errors import DataError, plain, quote


class ItemFilter(BaseModel):
    """A filter and its options, the keys of its table in the recipe."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def fault(self, outcome: Made) -> str | None:  # noqa: ARG002
        """Return why an item is rejected, or None."""
        return None


class Words(ItemFilter):
    """Every caption has at least `minimum` and at most `maximum` words."""

    minimum: int = Field(default=1, ge=1)
    maximum: int = Field(default=60, ge=1)

    def fault(self, outcome: Made) -> str | None:
        """Return why an item is rejected, or None."""
        counts = [len(text.split()) for text in outcome.item.texts]
        if min(counts) < self.minimum:
            return f"a caption of fewer than {self.minimum} words"
        return f"a caption of more than {self.maximum} words" if max(counts) > self.maximum else None


class WordGap(ItemFilter):
    """An item's captions differ by at most `maximum` in their number of words, which would give the true one away."""

    maximum: int = Field(default=0, ge=0)

    def fault(self, outcome: Made) -> str | None:
        """Return why an item is rejected, or None."""
        counts = [len(text.split()) for text in outcome.item.texts]
        return f"captions more than {self.maximum} words apart" if max(counts) - min(counts) > self.maximum else None


class SamePixels(ItemFilter):
    """No two images of an item have the same pixels."""

    def fault(self, outcome: Made) -> str | None:
        """Return why an item is rejected, or None."""
        references = outcome.item.images
        if len(references) < 2:
            return None
        hashes = {pixel_hash(decode(outcome.images[reference], reference)) for reference in references}
        return "two images with the same pixels" if len(hashes) < len(references) else None


_log = logging.getLogger(__name__)


class Selection(BaseModel):
    """A selection and its options, the keys of its table in the recipe."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def inputs(self, home: Path) -> Mapping[str, str]:  # noqa: ARG002
        """Return the files it reads, by name, with their SHA-256; paths in its options are relative to `home`.

        They are part of the recipe's fingerprint and of the set's card.
        """
        return {}

    def models(self, home: Path) -> Mapping[str, str]:  # noqa: ARG002
        """Return the models and programs it uses, by name, with their revision or version; as `inputs`."""
        return {}

    def left_out(self, items: Sequence[Item], *, seed: int, home: Path) -> Mapping[str, str]:  # noqa: ARG002
        """Return the ids of the items to leave out, each with the reason that the funnel counts it under.

        The answer depends on the arguments and the options alone: a stopped build that goes on asks again. A reason is
        short and one of few, as all items with the same one are counted together.
        """
        return {}


class Distinct(Selection):
    """No item has the captions of an earlier one; with `images`, only one of the same images, too, is left out."""

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


class Sample(Selection):
    """At most `number` items, drawn by the recipe's seed; with `balance`, as many of each value of that tag as can be.

    An item's place in the draw depends on its id and the seed alone.
    """

    number: int = Field(ge=1)
    balance: str = Field(default="", min_length=1)

    def left_out(self, items: Sequence[Item], *, seed: int, home: Path) -> dict[str, str]:  # noqa: ARG002
        """Return the items that are not drawn, with the reason; the log has a number or balance out of reach."""
        if lacking := [item for item in items if self.balance and self.balance not in item.tags]:
            tags = ", ".join(map(quote, sorted(lacking[0].tags))) or "none"
            raise DataError(
                f"selection 'sample': item {quote(lacking[0].id)} has no tag {quote(self.balance)} (its tags: {tags}); "
                "balance by a tag that every item has"
            )
        counts: Counter[str] = Counter()
        order: list[tuple[int, str, Item]] = []
        drawing = ((hashlib.sha256(f"{seed} {item.id}".encode()).hexdigest(), item) for item in items)
        for draw, item in sorted(drawing, key=itemgetter(0)):
            value = item.tags[self.balance] if self.balance else item.id
            order.append((counts[value], draw, item))
            counts[value] += 1
        drawn = sorted(order, key=itemgetter(0, 1))[: self.number]
        self._warn([item for *_, item in drawn])
        ids = {item.id for *_, item in drawn}
        return {item.id: f"more than {self.number} items" for item in items if item.id not in ids}

    def _warn(self, drawn: Sequence[Item]) -> None:
        if len(drawn) < self.number:
            _log.warning("selection 'sample': number = %d, and only %d items are left", self.number, len(drawn))
        counts = Counter(item.tags[self.balance] for item in drawn) if self.balance else Counter[str]()
        if counts and max(counts.values()) - min(counts.values()) > 1:
            listed = plain(", ".join(f"{value} ({count})" for value, count in sorted(counts.items())))
            _log.warning(
                "selection 'sample': %s is not balanced, as values lack items: %s", plain(self.balance), listed
            )
