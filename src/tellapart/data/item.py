"""A minimal pair: a few images, a few texts, and which of them belong together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, model_validator

from tellapart.data.fields import one_text, whole_text

__all__ = ["Item", "filled_tags"]


_AS_TUPLE = BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)
_Text = Annotated[str, AfterValidator(whole_text)]
_Texts = Annotated[tuple[Annotated[_Text, Field(min_length=1)], ...], Field(min_length=1), _AS_TUPLE]
_Caption = Annotated[_Text, Field(min_length=1), AfterValidator(one_text)]
_Captions = Annotated[tuple[_Caption, ...], Field(min_length=1), _AS_TUPLE]


def filled_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """Return the tags that have a value: an empty one is the same as no tag."""
    return {tag: value for tag, value in tags.items() if value.strip()}


class Item(BaseModel):
    """One item of a pair set: 1..n images by 1..m texts.

    Which pairs are true is a matter of shape: with as many images as texts, image `k` belongs to text `k` (2x2);
    with one image, text 0 is the true one (1xm); with one text, image 0 is the true one (nx1). With a single image or
    text, `true` may name another place, and several texts of one image may be true.

    Attributes:
        id: unique in its set.
        images: references to images, relative to the set's folder.
        texts: captions, compared exactly as written; none is empty.
        true: which texts of one image, or which image of one text, are true; the first if it is empty.
        tags: subset, type, subtype, instrument: scores are reported by each tag's values.
        cluster: the unit of resampling (the source image, video or scene); the item's id if independent.
        provenance: where it came from; never read by a metric.

    Raises:
        pydantic.ValidationError: a field is missing, unknown, empty or of the wrong type.

    >>> item = Item(id="a", images=("0.png", "1.png"), texts=("two clocks", "three clocks"))
    >>> item.shape, item.cluster
    ((2, 2), 'a')
    >>> Item(id="b", images=("0.png",), texts=("two clocks", "no clock", "a pair of clocks"), true=(0, 2)).truths
    (0, 2)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: _Text = Field(min_length=1)
    images: _Texts
    texts: _Captions
    true: Annotated[tuple[int, ...], _AS_TUPLE] = ()
    tags: dict[_Text, _Text] = Field(default_factory=dict)
    cluster: _Text = ""
    provenance: dict[_Text, JsonValue] = Field(default_factory=dict)

    @property
    def masks(self) -> tuple[str, ...]:
        """References of the masks: `provenance["masks"]` has a list for each image, with a file for each object."""
        listed = self.provenance.get("masks")
        rows = [row for row in listed if isinstance(row, list)] if isinstance(listed, list) else []
        return tuple(reference for row in rows for reference in row if isinstance(reference, str))

    def model_post_init(self, _context: object, /) -> None:
        """Set the cluster of an item without one, or with a blank one, to its id; leave out tags of an empty value."""
        if not self.cluster.strip():
            object.__setattr__(self, "cluster", self.id)
        if not all(map(str.strip, self.tags.values())):
            object.__setattr__(self, "tags", filled_tags(self.tags))

    @model_validator(mode="after")
    def _check_true(self) -> Self:
        if not self.true:
            return self
        images, texts = self.shape
        if (images == 1) == (texts == 1):
            raise ValueError(f"field 'true' is for one image or one text, and this is a {images}x{texts} item")
        if sorted({*self.true}) != sorted(self.true) or not 0 <= min(self.true) <= max(self.true) < images * texts:
            raise ValueError(f"field 'true' must name different places from 0 to {images * texts - 1}: {self.true}")
        if len(self.true) == images * texts or (len(self.true) > 1 and texts == 1):
            true_count = "one image" if texts == 1 else "all texts but one or more"
            raise ValueError(f"field 'true' may name {true_count}, got {self.true}")
        return self

    @property
    def truths(self) -> tuple[int, ...]:
        """Places of the true texts of one image, or of the true image of one text; `(0,)` if `true` is empty."""
        return self.true or (0,)

    def truth_first(self) -> Item:
        """Return the item with its true texts or image in the first places, and everything else in its order."""
        if not self.true:
            return self
        places = [*self.true, *(k for k in range(max(self.shape)) if k not in self.true)]
        side = "texts" if len(self.images) == 1 else "images"
        entries = getattr(self, side)
        several = tuple(range(len(self.true))) if len(self.true) > 1 else ()  # empty: the first place alone is true
        return self.model_copy(update={side: tuple(entries[k] for k in places), "true": several})

    @property
    def shape(self) -> tuple[int, int]:
        """Images and texts."""
        return len(self.images), len(self.texts)
