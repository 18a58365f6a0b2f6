"""A pair set with its labels taken out: new ids, a new order of items, of images and of texts, all from a secret key.

EqBen shuffles its one long list of pairs once, keeps the permutation, and publishes captions with names that tell their
place. Here nothing of the order is left: every choice is a keyed hash (HMAC-SHA256) of what it is for, so it can be made
again from the key alone, and says nothing to anybody without it. Ids and image names are such hashes; images are written
anew, since a format, a time stamp or metadata tells an edited image from the photograph that it was made of.

Items stay as they are in all that is measured. With as many images as texts, image `k` belongs to text `k`: the images'
new order is given to the texts too, and then the texts get one of their own, which is the label.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tellapart.data.item import Item
from tellapart.data.pairset import PairSet

__all__ = ["Hidden", "hide", "image_name", "keyed", "new_id", "public_ids"]


def keyed(key: bytes, *parts: str) -> bytes:
    """Return the HMAC-SHA256 of some texts: 32 bytes that nobody without the key can make or tell from noise.

    >>> keyed(b"k", "a", "bc") == keyed(b"k", "ab", "c")
    False
    """
    digest = hmac.new(key, digestmod=hashlib.sha256)
    for part in parts:
        data = part.encode()
        digest.update(
            len(data).to_bytes(8, "big") + data
        )  # its length first: no two lists of texts give the same bytes
    return digest.digest()


@dataclass(frozen=True, slots=True)
class Hidden:
    """Items in the order in which they are published, with everything that is not.

    Attributes:
        items: true pairs where `Item` has them; ids and images are the published ones, clusters and tags the set's own.
        texts: item -> the place in the item of each published text.
        images: likewise of each published image.
        public: item -> whether its outcome is in the numbers that are told while the benchmark is open.
        sources: published image name -> the set's own reference.

    >>> item = Item(id="a", images=("0.png",), texts=("a cat", "a dog"))
    >>> Hidden((item,), ((1, 0),), ((0,),), (True,), {}).published()[0].texts
    ('a dog', 'a cat')
    """

    items: tuple[Item, ...]
    texts: tuple[tuple[int, ...], ...]
    images: tuple[tuple[int, ...], ...]
    public: tuple[bool, ...]
    sources: Mapping[str, str]

    @property
    def shape(self) -> tuple[int, int]:
        """Images and texts of an item."""
        return self.items[0].shape

    def published(self) -> tuple[Item, ...]:
        """Return what may be seen: ids, images and texts; no tag, cluster or provenance.

        >>> Hidden((), (), (), (), {}).published()
        ()
        """
        return tuple(
            Item(
                id=item.id,
                images=tuple(item.images[k] for k in images),
                texts=tuple(item.texts[k] for k in texts),
            )
            for item, texts, images in zip(self.items, self.texts, self.images, strict=True)
        )

    def restore(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Put scores of the published items back into the items' own order of images and texts.

        Args:
            values: `(item, image, text)`, items in the published order.

        >>> item = Item(id="a", images=("0.png",), texts=("a cat", "a dog"))
        >>> Hidden((item,), ((1, 0),), ((0,),), (True,), {}).restore(np.array([[[0.1, 0.9]]])).tolist()
        [[[0.9, 0.1]]]
        """
        rows = np.arange(len(values))[:, None, None]
        restored = np.empty_like(values)
        restored[rows, np.array(self.images)[:, :, None], np.array(self.texts)[:, None, :]] = values
        return restored


def hide(pairs: PairSet, key: bytes, public_share: float, suffix: str = ".png") -> Hidden:
    """Shuffle a pair set, and split its clusters into public and private ones.

    Args:
        pairs: with its labels.
        key: secret, of this benchmark alone.
        public_share: of the items; clusters are taken whole, until there are as many, so that no private item has a
            public sibling.
        suffix: of the images as they are published.

    >>> from pathlib import Path
    >>> items = tuple(Item(id=i, images=(f"{i}.png",), texts=("x " + i, "y " + i)) for i in "abcd")
    >>> hidden = hide(PairSet("s", items, Path(".")), b"secret", 0.5)
    >>> sum(hidden.public), sorted(item.texts[0] for item in hidden.items)
    (2, ['x a', 'x b', 'x c', 'x d'])
    """
    names = {reference: image_name(key, reference, suffix) for item in pairs.items for reference in item.images}
    public = public_ids({item.id: item.cluster for item in pairs.items}, key, public_share)
    order = sorted(pairs.items, key=lambda item: keyed(key, "order", item.id))
    shown = [_order(key, ("images", item.id), len(item.images)) for item in order]
    square = pairs.shape[0] == pairs.shape[1]
    items = [_renamed(item, key, names, places if square else None) for item, places in zip(order, shown, strict=True)]
    return Hidden(
        items=tuple(items),
        texts=tuple(_order(key, ("texts", item.id), len(item.texts)) for item in order),
        images=tuple(tuple(range(len(places))) if square else places for places in shown),
        public=tuple(item.id in public for item in order),
        sources={name: reference for reference, name in names.items()},
    )


def new_id(key: bytes, id_: str) -> str:
    """Return the id under which an item is published.

    >>> len(new_id(b"k", "0")), new_id(b"k", "0") == new_id(b"other", "0")
    (24, False)
    """
    return keyed(key, "id", id_).hex()[:24]


def image_name(key: bytes, reference: str, suffix: str) -> str:
    """Return the name under which an image is published.

    >>> len(image_name(b"k", "cat.jpg", ".png")), image_name(b"k", "cat.jpg", ".png")[:7]
    (35, 'images/')
    """
    return f"images/{keyed(key, 'image', reference).hex()[:24]}{suffix}"


def _renamed(item: Item, key: bytes, names: Mapping[str, str], places: Sequence[int] | None) -> Item:
    """Give an item its new id and image names and, if there are places, images and texts in that order together."""
    images, texts = range(len(item.images)), range(len(item.texts))
    return Item(
        id=new_id(key, item.id),
        images=tuple(names[item.images[k]] for k in (images if places is None else places)),
        texts=tuple(item.texts[k] for k in (texts if places is None else places)),
        cluster=item.cluster,
        tags=item.tags,
    )


def _order(key: bytes, what: tuple[str, str], size: int) -> tuple[int, ...]:
    return tuple(sorted(range(size), key=lambda k: keyed(key, *what, str(k))))


def public_ids(clusters: Mapping[str, str], key: bytes, share: float) -> set[str]:
    """Return the ids of the public items: of whole clusters, until there are as many.

    Args:
        clusters: id -> what it must share a split with.
        key: secret, of this benchmark alone.
        share: of the items.

    >>> sorted(public_ids({"a": "1", "b": "1", "c": "2", "d": "2"}, b"k", 0.5)) in (["a", "b"], ["c", "d"])
    True
    """
    members: dict[str, list[str]] = {}
    for id_, cluster in clusters.items():
        members.setdefault(cluster, []).append(id_)
    chosen: set[str] = set()
    for cluster in sorted(members, key=lambda name: keyed(key, "split", name)):
        if len(chosen) + len(members[cluster]) / 2 > share * len(clusters):
            continue  # the next may be smaller
        chosen.update(members[cluster])
    return chosen
