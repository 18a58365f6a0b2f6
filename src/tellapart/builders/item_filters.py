"""Filters that every recipe can name: each looks at one item and may reject it.

Adding one is a class in a file and a line of `catalog.FILTERS`.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from tellapart.builders.builder import Made
from tellapart.data.images import decode, pixel_hash


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
