"""Pair sets: items of one shape, the folder that holds their images, and the card that describes them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.images import find_inside, pixel_hash
from tellapart.data.item import Item, filled_tags
from tellapart.data.strict_json import read_whole
from tellapart.data.video import DEFAULT_FRAMES, decode_slot, is_video, order_frames
from tellapart.errors import DataError, counted


def describe(shape: tuple[int, int]) -> str:
    """Name a shape for a message."""
    return " and ".join(map(counted, shape, ("image", "text")))


@dataclass(frozen=True, slots=True)
class Outline:
    """The parts of a pair set that measuring needs: no caption, no image. Each field has one entry an item, in order.

    `truths` are the places of the true texts or images in each item; empty if the true ones are first in all items.

    >>> Outline(("a", "b"), (2, 2), ("scene-1", "scene-1"), ({}, {})).shape
    (2, 2)
    """

    ids: tuple[str, ...]
    shape: tuple[int, int]
    clusters: tuple[str, ...]
    tags: tuple[Mapping[str, str], ...]
    truths: tuple[tuple[int, ...], ...] = ()

    @property
    def true(self) -> int:
        """How many entries of an item are true, if it has one image or one text."""
        return len(self.truths[0]) if self.truths else 1

    def select(self, keep: Sequence[int]) -> Outline:
        """Return the outline of some items, by position."""
        fields = ("ids", "clusters", "tags", "truths") if self.truths else ("ids", "clusters", "tags")
        chosen: dict[str, Any] = {name: tuple(getattr(self, name)[k] for k in keep) for name in fields}
        return replace(self, **chosen)


@dataclass(frozen=True, slots=True)
class PairSet:
    """Items with the same number of images and of texts, and the folder of their images.

    Attributes:
        name: the name of the set in results.
        items: in file order; ids are distinct.
        root: the folder that image references are relative to, or that holds the file of `read`.
        card: facts such as title, licence, citation and recipe.
        lines: item id -> "file:line", for messages.
        read: returns an image file's bytes, if images are not files below `root` (an archive, a table).
        frames: the number of frames that a video in an image's place is read as.
        order: the order of a video's frames, one of `order_frames`; if empty, that of the film.
        rows: the row of every pair in the annotation file, int `(item, image, text)`, if that file lists pairs; None if
            it lists items.
        read_as: how the columns of its table were read, in words; empty if the set is no table.

    Raises:
        DataError: no items, ids that repeat, or an item whose shape differs from the first one's.

    >>> pairs = PairSet("clocks", (Item(id="a", images=("0.png",), texts=("two clocks", "three clocks")),), Path("."))
    >>> pairs.shape, len(pairs)
    ((1, 2), 1)
    """

    name: str
    items: tuple[Item, ...]
    root: Path
    card: Mapping[str, Any] = field(default_factory=dict)
    lines: Mapping[str, str] = field(default_factory=dict)
    read: Callable[[str], bytes] | None = None
    frames: int = DEFAULT_FRAMES
    order: str = ""
    rows: NDArray[np.int64] | None = field(default=None, compare=False)
    read_as: str = field(default="", compare=False)
    # Reference -> item and index in it; filled on first use, since a report needs it for every missing image.
    _users: dict[str, tuple[Item, int]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _folders: dict[str, Path | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.items:
            raise DataError(f"pair set {self.name!r} holds no items")
        ids: set[str] = set()
        shape = self.shape
        for item in self.items:
            line = self.lines.get(item.id, self.name)
            if item.id in ids:
                raise DataError(f"{line}: field 'id': {item.id!r} is in the file already")
            ids.add(item.id)
            if item.shape != shape:
                raise DataError(
                    f"{line}: item {item.id!r} has {describe(item.shape)}, but the first item has "
                    f"{describe(shape)}; one pair set holds one shape: split the file"
                )
            if len(item.truths) != self.true:
                raise DataError(
                    f"{line}: field 'true': item {item.id!r} has {len(item.truths)} true texts, but "
                    f"the first item has {self.true}; split the file"
                )

    def __len__(self) -> int:
        return len(self.items)

    @property
    def shape(self) -> tuple[int, int]:
        """Images and texts of every item."""
        return self.items[0].shape

    @property
    def true(self) -> int:
        """How many texts of an item are true, if it has one image; 1 otherwise."""
        return len(self.items[0].truths)

    @property
    def outline(self) -> Outline:
        """Ids, clusters, tags and true places, which measuring needs."""
        facts = ((item.id, item.cluster, item.tags, item.truths) for item in self.items)
        ids, clusters, tags, truths = zip(*facts, strict=True)
        return Outline(ids, self.shape, clusters, tags, truths if any(item.true for item in self.items) else ())

    def select(self, keep: Sequence[int]) -> PairSet:
        """Return the pair set of some items, by position."""
        return replace(self, items=tuple(self.items[k] for k in keep), rows=None)

    def with_tags(self, tags: Mapping[str, Mapping[str, str]]) -> PairSet:
        """Return the set with further tags of items, by their ids; a tag that an item has already is replaced."""
        if unknown := sorted(tags.keys() - {item.id for item in self.items}):
            some = f"{self.name} has no item {unknown[0]!r}" + (f" and {len(unknown) - 1} more" if unknown[1:] else "")
            raise DataError(f"tags: {some}; its ids are like {self.items[0].id!r}")
        more = {id_: filled_tags(further) for id_, further in tags.items()}
        items = tuple(item.model_copy(update={"tags": {**item.tags, **more.get(item.id, {})}}) for item in self.items)
        return replace(self, items=items)

    def one_truth(self) -> PairSet:
        """Return the set with the true text or image of each item first, and without its further true texts.

        >>> item = Item(id="a", images=("0.png",), texts=("no clock", "two clocks", "a pair of clocks"), true=(1, 2))
        >>> PairSet("clocks", (item,), Path(".")).one_truth().items[0].texts
        ('two clocks', 'no clock')
        """
        if not any(item.true for item in self.items):
            return self
        items = []
        for item in map(Item.truth_first, self.items):
            texts = (item.texts[0], *item.texts[self.true :])
            items.append(item.model_copy(update={"texts": texts, "true": ()}))
        return replace(self, items=tuple(items), rows=None)

    def where(self, reference: str) -> str:
        """Name an image for a message: the line and the field of the item that first refers to it."""
        if not self._users:
            users: dict[str, tuple[Item, int]] = {}
            for item in reversed(self.items):  # the first item's entry stays
                users.update((image, (item, k)) for k, image in reversed([*enumerate(item.images)]))
            self._users.update(users)  # at once: several threads may read images here
        if reference not in self._users:
            return f"{self.name}: {reference}"
        item, index = self._users[reference]
        return f"{self.lines.get(item.id, f'{self.name}: item {item.id}')}: field 'images[{index}]'"

    def read_bytes(self, reference: str) -> bytes:
        """Return an image file's bytes; a `DataError` says that it is missing, leaves the folder, or cannot be read."""
        try:
            return self.read(reference) if self.read else read_whole(find_inside(self.root, reference, self._folders))
        except (DataError, OSError) as error:
            raise DataError(f"{self.where(reference)}: {error}") from error

    def pixels(self, reference: str) -> NDArray[np.uint8]:
        """Decode an image to RGB, uint8 `(height, width, 3)`, or a video to `(frames, height, width, 3)`.

        Raises:
            DataError: as `read_bytes`, or the image is truncated, none, or a decompression bomb; with the item's place.
        """
        return self.decode(reference, self.read_bytes(reference))

    def decode(self, reference: str, data: bytes) -> NDArray[np.uint8]:
        """Return the pixels of an image or a video, as `pixels` does, from its file's bytes."""
        try:
            return order_frames(decode_slot(data, reference, self.frames), self.order)
        except DataError as error:
            raise DataError(f"{self.where(reference)}: {error}") from error

    def content_key(self, reference: str, data: bytes) -> str:
        """Return the SHA-256 of all that decides an image's pixels: the bytes, and of a video the frames and order."""
        if is_video(reference):
            data += f"\0{self.frames} frames by time{f', {self.order}' if self.order else ''}".encode()
        return hashlib.sha256(data).hexdigest()

    def fingerprint(self, hash_of: Callable[[str], str] | None = None) -> str:
        """Return the SHA-256 over ids, texts and decoded pixels, whatever the order of the items.

        Args:
            hash_of: the pixel hash of an image reference, if it is known already; decoded otherwise.
        """
        lookup = hash_of or (lambda reference: pixel_hash(self.pixels(reference)))
        digest = hashlib.sha256()
        for item in sorted(self.items, key=lambda item: item.id):
            images, texts = map(str, item.shape)  # the numbers of images and of texts
            true = [f"true {','.join(map(str, item.true))}"] if item.true else []
            for part in (item.id, images, *map(lookup, item.images), texts, *item.texts, *true):
                # Each part has its length before it, so that no two sets give the same bytes.
                data = part.encode()
                digest.update(len(data).to_bytes(8, "big") + data)
        return digest.hexdigest()
