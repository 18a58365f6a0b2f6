"""Filters and selections that every recipe can name: a filter rejects an item, a selection leaves items of a set out.

A filter looks at one item alone. Decisions that depend on other items (duplicates, quotas, the balance of a set against
a blind model) are selections. Selections run once, in the recipe's order, after every candidate is decided; each gets
the items that the one before it left.

Adding one is a class in a file and a line of `catalog.FILTERS` or `catalog.SELECTIONS`.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
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
    """An item's captions differ by at most `maximum` in their number of words: it would give the true one away."""

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
        """Return the SHA-256 of the files it reads, by name; paths in its options are relative to `home`.

        The digests are part of the recipe's fingerprint and of the set's card.
        """
        return {}

    def models(self, home: Path) -> Mapping[str, str]:  # noqa: ARG002
        """Return the models and programs it uses, by name, with their revision or version; as `inputs`."""
        return {}

    def left_out(self, items: Sequence[Item], *, seed: int, home: Path) -> Mapping[str, str]:  # noqa: ARG002
        """Return the ids of the items to leave out, each with the reason that the funnel counts it under.

        The answer depends on the arguments and the options alone: a build that resumes asks again. A reason has no
        data of the item, as equal reasons are counted together.
        """
        return {}


class Distinct(Selection):
    """No item has the captions of an earlier one; with `images`, an item is left out only if its images are, too."""

    images: bool = False

    def left_out(self, items: Sequence[Item], *, seed: int, home: Path) -> dict[str, str]:  # noqa: ARG002
        """Return the items that equal an earlier one, with the reason."""
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
    """At most `number` items, drawn by the recipe's seed; with `balance`, equally many of each value of that tag.

    The draw sorts items by a hash of the seed and their id. With `balance` it takes one item of each value in turn.
    """

    number: int = Field(ge=1)
    balance: str = Field(default="", min_length=1)

    def left_out(self, items: Sequence[Item], *, seed: int, home: Path) -> dict[str, str]:  # noqa: ARG002
        """Return the items that are not drawn, with the reason; warn if items are lacking for number or balance."""
        if lacking := [item for item in items if self.balance and self.balance not in item.tags]:
            tags = ", ".join(map(quote, sorted(lacking[0].tags))) or "none"
            fault = f"item {quote(lacking[0].id)} has no tag {quote(self.balance)} (its tags: {tags})"
            raise DataError(f"selection 'sample': {fault}; balance by a tag that every item has")
        shuffled = sorted(items, key=lambda item: hashlib.sha256(f"{seed} {item.id}".encode()).hexdigest())
        if self.balance:
            by_value: dict[str, list[Item]] = {}
            for item in shuffled:
                by_value.setdefault(item.tags[self.balance], []).append(item)
            rounds = {item.id: number for group in by_value.values() for number, item in enumerate(group)}
            shuffled.sort(key=lambda item: rounds[item.id])  # stable: the order within a round stays
        drawn = shuffled[: self.number]
        self._warn_if_short(drawn)
        ids = {item.id for item in drawn}
        return {item.id: f"more than {self.number} items" for item in items if item.id not in ids}

    def _warn_if_short(self, drawn: Sequence[Item]) -> None:
        if len(drawn) < self.number:
            _log.warning("selection 'sample': number = %d, and only %d items are left", self.number, len(drawn))
        counts = Counter(item.tags[self.balance] for item in drawn) if self.balance else Counter[str]()
        if counts and max(counts.values()) - min(counts.values()) > 1:
            listed = plain(", ".join(f"{value} ({count})" for value, count in sorted(counts.items())))
            _log.warning("selection 'sample': %s is not balanced: values lack items: %s", plain(self.balance), listed)
