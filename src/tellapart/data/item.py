"""A minimal pair: a few images, a few texts, and which of them belong together."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

__all__ = ["Item"]


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"half a character ({text[error.start]!a}), which no UTF-8 file can hold") from error
    return text


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


_Text = Annotated[str, AfterValidator(_encodable)]
_Texts = Annotated[tuple[Annotated[_Text, Field(min_length=1)], ...], BeforeValidator(_as_tuple), Field(min_length=1)]


class Item(BaseModel):
    """One item of a pair set: 1..n images by 1..m texts.

    Which pairs are true is a matter of shape: with as many images as texts, image `k` belongs to text `k` (2x2);
    with one image, text 0 is the true one (1xm); with one text, image 0 is the true one (nx1).

    Attributes:
        id: unique in its set.
        images: references to images, relative to the set's folder.
        texts: captions, compared exactly as written; none is empty.
        tags: subset, type, subtype, instrument: scores are reported by each tag's values.
        cluster: names what is resampled together (the source image, video or scene); the item's id if independent.
        provenance: where it came from; never read by a metric.

    Raises:
        pydantic.ValidationError: a field is missing, unknown, empty or of the wrong type.

    >>> item = Item(id="a", images=("0.png", "1.png"), texts=("two clocks", "three clocks"))
    >>> item.shape, item.cluster
    ((2, 2), 'a')
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: _Text = Field(min_length=1)
    images: _Texts
    texts: _Texts
    tags: dict[_Text, _Text] = Field(default_factory=dict)
    cluster: _Text = ""
    provenance: dict[_Text, JsonValue] = Field(default_factory=dict)

    def model_post_init(self, _context: object, /) -> None:
        """Give an item without a cluster its own."""
        if not self.cluster:
            object.__setattr__(self, "cluster", self.id)

    @property
    def shape(self) -> tuple[int, int]:
        """Images and texts."""
        return len(self.images), len(self.texts)
