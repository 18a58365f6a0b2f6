"""Filters that every recipe can name: each looks at one item alone, and says why it is rejected."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pydantic import BaseModel, ConfigDict, Field

from tellapart.builders.builder import Made
from tellapart.data.images import decode, pixel_hash

__all__ = ["FILTERS", "ItemFilter", "SamePixels", "WordGap", "Words"]


class ItemFilter(BaseModel):
    """A filter and its options; a filter rejects nothing until it says so.

    >>> from tellapart.data.item import Item
    >>> made = Made(Item(id="a", images=("a.png",), texts=("x", "y")), {"a.png": b""})
    >>> ItemFilter().fault(made) is None
    True
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def fault(self, made: Made) -> str | None:  # noqa: ARG002
        """Return why an item is rejected, or None."""
        return None


class Words(ItemFilter):
    """Every caption has at least `minimum` and at most `maximum` words.

    >>> from tellapart.data.item import Item
    >>> made = Made(Item(id="a", images=("a.png",), texts=("a cat", "a small dog")), {"a.png": b""})
    >>> Words(maximum=2).fault(made)
    'a caption of more than 2 words'
    """

    minimum: int = Field(default=1, ge=1)
    maximum: int = Field(default=60, ge=1)

    def fault(self, made: Made) -> str | None:
        """Return why an item is rejected, or None."""
        counts = [len(text.split()) for text in made.item.texts]
        if min(counts) < self.minimum:
            return f"a caption of fewer than {self.minimum} words"
        return f"a caption of more than {self.maximum} words" if max(counts) > self.maximum else None


class WordGap(ItemFilter):
    """An item's captions differ by at most `maximum` in their number of words, which would give the true one away.

    >>> from tellapart.data.item import Item
    >>> made = Made(Item(id="a", images=("a.png",), texts=("a cat", "a cat and a dog")), {"a.png": b""})
    >>> WordGap(maximum=2).fault(made)
    'captions more than 2 words apart'
    """

    maximum: int = Field(default=0, ge=0)

    def fault(self, made: Made) -> str | None:
        """Return why an item is rejected, or None."""
        counts = [len(text.split()) for text in made.item.texts]
        return f"captions more than {self.maximum} words apart" if max(counts) - min(counts) > self.maximum else None


class SamePixels(ItemFilter):
    """No two images of an item have the same pixels.

    >>> from tellapart.data.item import Item
    >>> SamePixels().fault(Made(Item(id="a", images=("a.png",), texts=("x", "y")), {"a.png": b""})) is None
    True
    """

    def fault(self, made: Made) -> str | None:
        """Return why an item is rejected, or None."""
        if len(made.item.images) < 2:
            return None
        hashes = {pixel_hash(decode(made.images[reference], reference)) for reference in made.item.images}
        return "two images with the same pixels" if len(hashes) < len(made.item.images) else None


FILTERS: Mapping[str, type[ItemFilter]] = MappingProxyType(
    {"words": Words, "word_gap": WordGap, "same_pixels": SamePixels}
)
"""Filters by the name that a recipe gives them."""
