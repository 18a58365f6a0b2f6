"""A set with its pictures, its word order or its videos' time taken away: what is still right, is so without them.

`blank:NAME` has one grey picture in the place of all; `foreign:NAME` shows each item the pictures of another one;
`shuffled:NAME` has the words of each caption in another order. Of videos, `reversed:NAME` and `jumbled:NAME` have the
same frames in another order, and `still:NAME` the first frame alone. Ids, clusters and tags stay, so that items pair
with the real run's.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from types import MappingProxyType

import numpy as np

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.video import is_video
from tellapart.errors import DataError, quote

#: The picture of all of `blank:NAME`.
_BLANK = "blank.png"

#: The side of that picture in pixels, and its grey: the middle of ImageNet's.
_SIDE, _GREY = 224, (124, 116, 104)


@cache
def _blank_picture() -> bytes:
    from PIL import Image

    stream = io.BytesIO()
    Image.new("RGB", (_SIDE, _SIDE), _GREY).save(stream, "PNG")
    return stream.getvalue()


def blank(pairs: PairSet) -> PairSet:
    """Return a set whose pictures are all one grey picture."""
    items = tuple(item.model_copy(update={"images": (_BLANK,) * len(item.images)}) for item in pairs.items)
    return replace(pairs, items=items, rows=None, read=lambda _reference: _blank_picture())


def foreign(pairs: PairSet) -> PairSet:
    """Return a set whose items have the pictures of another cluster's item, those of half of the set away.

    Items that share a picture may have no common cluster: none gets a picture that is also one of its own.
    """
    items, count = pairs.items, len(pairs.items)
    if len({item.cluster for item in items}) < 2:
        raise DataError(f"foreign:{pairs.name}: all items are of one cluster, so none has pictures of another")

    def other(place: int) -> Item:
        away, own = (items[(place + count // 2 + step) % count] for step in range(count)), items[place]
        others = (item for item in away if item.cluster != own.cluster and {*own.images}.isdisjoint(item.images))
        if (found := next(others, None)) is None:
            raise DataError(f"foreign:{pairs.name}: no item of another cluster has other pictures than {quote(own.id)}")
        return found

    swapped = tuple(item.model_copy(update={"images": other(k).images}) for k, item in enumerate(items))
    return replace(pairs, items=swapped, rows=None)


def shuffled(pairs: PairSet) -> PairSet:
    """Return a set whose captions have their words in another order; equal captions get one order.

    The order is drawn from the caption's own letters, so that it is the same wherever the caption stands.
    """
    items = tuple(
        item.model_copy(update={"texts": tuple(shuffle_words(text) for text in item.texts)}) for item in pairs.items
    )
    return replace(pairs, items=items)


@cache
def shuffle_words(text: str) -> str:
    """Return the words of a text in another order, if there is one."""
    words = text.split()
    if len({*words}) < 2:
        return text
    generator = np.random.default_rng([*text.encode()])
    while (order := [words[k] for k in generator.permutation(len(words))]) == words:
        pass
    return " ".join(order)


def _reorder(pairs: PairSet, order: str) -> PairSet:
    if not any(is_video(image) for item in pairs.items for image in item.images):
        raise DataError(f"{order}:{pairs.name}: it has no videos, whose frames could be in another order")
    return replace(pairs, order=order)


#: Probe -> its change of a set, and its name in a title.
PROBES: Mapping[str, tuple[Callable[[PairSet], PairSet], str]] = MappingProxyType(
    {
        "blank": (blank, "blank pictures"),
        "foreign": (foreign, "pictures of other items"),
        "shuffled": (shuffled, "captions in shuffled words"),
        "reversed": (partial(_reorder, order="reversed"), "videos backwards"),
        "jumbled": (partial(_reorder, order="jumbled"), "frames in random order"),
        "still": (partial(_reorder, order="still"), "the first frame alone"),
    }
)

#: What precedes the name of a set: `blank:`.
PREFIXES = tuple(f"{probe}:" for probe in PROBES)


def probe_benchmark(pairs: Benchmark, probe: str) -> Benchmark:
    """Return a benchmark of pairs with one of its sides taken away."""
    if pairs.task != "pairs":
        raise DataError(f"{probe}:{pairs.name}: a probe is of pairs; {pairs.name} is of the task {pairs.task!r}")
    change, words = PROBES[probe]
    load = cache(lambda place: change(pairs.load(place)))
    # Only the blank picture lies in no file of the set's.
    pictures = (lambda _place: lambda _reference: _blank_picture()) if probe == "blank" else pairs.pictures
    return pairs.derived(f"{probe}:", words, load=load, pictures=pictures)
