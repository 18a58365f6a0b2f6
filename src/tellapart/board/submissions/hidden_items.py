"""Items and records without their labels: new ids, image names and orders, all from a secret key; and their measuring.

EqBen shuffles its one long list of pairs once, keeps the permutation, and publishes captions with names that reveal
their position. Here every choice is a keyed hash (HMAC-SHA256) of its purpose: it can be made again from the key, and
reveals nothing without it. Ids and image names are such hashes, too; images are encoded again (`prepared.py`).

Items keep everything that is measured. With as many images as texts, image `k` belongs to text `k`: the images' new
order is applied to the texts, too, and then the texts get another order, which is the label.

A submission's contents meet the truth here; the file itself never comes here: another process reads it (`forms.py`).
Whoever sends files can time the answers. So only the means that are published are computed, and a file takes the same
steps whichever labels it meets: intervals come from the rounded numbers, after that (`service.py`).
"""

from __future__ import annotations

import hashlib
import hmac
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from tellapart.board.submissions.hidden import round_to
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.scores import Scores
from tellapart.errors import MetricError, quote
from tellapart.metrics.registry import METRICS
from tellapart.models.generative.choice import BothOrders
from tellapart.tasks.registry import HIDEABLE, TASKS
from tellapart.tasks.task import Hiding, Task


def keyed_hash(key: bytes, *parts: str) -> bytes:
    """Return the HMAC-SHA256 of some texts: 32 bytes that look random without the key.

    >>> keyed_hash(b"k", "a", "bc") == keyed_hash(b"k", "ab", "c")
    False
    """
    digest = hmac.new(key, digestmod=hashlib.sha256)
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "big") + data)  # with lengths no two lists of texts give the same bytes
    return digest.digest()


@dataclass(frozen=True, slots=True)
class HiddenPairs:
    """Items in their published order, with their labels."""

    # in the original order of images and texts; ids and images are the published ones, clusters and tags the set's own
    items: tuple[Item, ...]
    texts: tuple[tuple[int, ...], ...]  # item -> original position of each published text
    images: tuple[tuple[int, ...], ...]  # item -> original position of each published image
    public: tuple[bool, ...]  # item -> whether it is in the public split
    sources: Mapping[str, str]  # published image name -> the set's reference
    # published image name -> hash of its pixels; empty until the task file is written
    pixels: Mapping[str, str] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int]:
        """Images and texts of an item."""
        return self.items[0].shape

    @property
    def true(self) -> int:
        """How many texts of an item of one image are true, or images of one text; 1 otherwise."""
        return len(self.items[0].truths)

    def bare(self) -> tuple[Item, ...]:
        """Return the published items: ids, images and texts; nothing of the truth, no tag, cluster or provenance."""
        return tuple(
            Item(id=item.id, images=tuple(item.images[k] for k in images), texts=tuple(item.texts[k] for k in texts))
            for item, texts, images in zip(self.items, self.texts, self.images, strict=True)
        )

    def template_rows(self) -> Iterator[Mapping[str, Any]]:
        """Yield the rows of the task file."""
        return ({"id": item.id, "images": item.images, "texts": item.texts} for item in self.bare())

    def restore(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return scores of the published items in the original order of images and texts."""
        rows = np.arange(len(values))[:, None, None]
        restored = np.empty_like(values)
        restored[rows, np.array(self.images)[:, :, None], np.array(self.texts)[:, None, :]] = values
        return restored

    def bare_to_json(self) -> dict[str, Any]:
        """Return the data for `read_published`: the published items, and nothing else."""
        return {"items": [item.model_dump(mode="json") for item in self.bare()]}

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` reads."""
        rows = {name: getattr(self, name) for name in ("texts", "images", "public")}
        items = [item.model_dump(mode="json", exclude=None if item.true else {"true"}) for item in self.items]
        return {**rows, "sources": dict(self.sources), "pixels": dict(self.pixels), "items": items}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> HiddenPairs:
        """Make it of what `to_json` returned; other content is a KeyError, TypeError or ValueError."""
        hidden = cls(
            items=tuple(Item.model_validate(row) for row in content["items"]),
            texts=tuple(map(tuple, content["texts"])),
            images=tuple(map(tuple, content["images"])),
            public=_check_split(content["public"], len(content["items"])),
            sources=_check_names(content["sources"]),
            pixels=_check_names(content["pixels"]),
        )
        shapes = {(item.shape, item.truths) for item in hidden.items}
        if len(shapes) > 1:
            raise ValueError("its items have more than one shape, or number of true texts")
        for item, texts, images in zip(hidden.items, hidden.texts, hidden.images, strict=True):
            if sorted(texts) != [*range(len(item.texts))] or sorted(images) != [*range(len(item.images))]:
                raise ValueError(f"the order of item {quote(item.id)} is none of its texts and images")
        return hidden


def _check_split(public: Any, items: int) -> tuple[bool, ...]:
    """Return which items are public; a ValueError if one of them is not mentioned, or either split has none."""
    if len(public) != items or {*public} != {True, False} or not all(isinstance(flag, bool) for flag in public):
        raise ValueError(f"it does not tell of {items} items which are public")
    return tuple(public)


def _check_names(table: object) -> Mapping[str, str]:
    if not isinstance(table, dict) or not all(isinstance(value, str) for value in table.values()):
        raise TypeError("its sources or pixels are no texts by the names of images")
    return table


def hide(pairs: PairSet, key: bytes, public_share: float, suffix: str = ".png") -> HiddenPairs:
    """Shuffle a pair set, and split its clusters into public and private ones."""
    items = [item.truth_first() for item in pairs.items]
    names = {reference: _image_name(key, reference, suffix) for item in items for reference in item.images}
    public = _public_ids({item.id: item.cluster for item in items}, key, public_share)
    order = sorted(items, key=lambda item: keyed_hash(key, "order", item.id))
    images = [_shuffled_order(key, ("images", item.id), len(item.images)) for item in order]
    square = pairs.shape[0] == pairs.shape[1]
    renamed = []
    for item, pictures in zip(order, images, strict=True):  # of a square, images and texts get one order
        row_order = pictures if square else None
        renamed.append(
            Item(
                id=new_id(key, item.id),
                images=tuple(names[item.images[k]] for k in row_order or range(len(item.images))),
                texts=tuple(item.texts[k] for k in row_order or range(len(item.texts))),
                **{name: getattr(item, name) for name in ("true", "cluster", "tags")},
            )
        )
    return HiddenPairs(
        items=tuple(renamed),
        texts=tuple(_shuffled_order(key, ("texts", item.id), len(item.texts)) for item in order),
        images=tuple(tuple(range(len(image))) if square else image for image in images),
        public=tuple(item.id in public for item in order),
        sources={name: reference for reference, name in names.items()},
    )


def new_id(key: bytes, id_: str) -> str:
    """Return the published id of an item."""
    return keyed_hash(key, "id", id_).hex()[:24]


def _image_name(key: bytes, reference: str, suffix: str) -> str:
    """Return the published name of an image."""
    return f"images/{keyed_hash(key, 'image', reference).hex()[:24]}{suffix}"


def _shuffled_order(key: bytes, purpose: tuple[str, str], size: int) -> tuple[int, ...]:
    return tuple(sorted(range(size), key=lambda k: keyed_hash(key, *purpose, str(k))))


def _public_ids(clusters: Mapping[str, str], key: bytes, share: float) -> set[str]:
    """Return the ids of a share of the items, without splitting a cluster; `clusters` takes an id to its cluster."""
    members: dict[str, list[str]] = {}
    for id_, cluster in clusters.items():
        members.setdefault(cluster, []).append(id_)
    used: set[str] = set()
    for cluster in sorted(members, key=lambda name: keyed_hash(key, "split", name)):
        if len(used) + len(members[cluster]) / 2 > share * len(clusters):
            continue  # the next may be smaller
        used.update(members[cluster])
    return used


@dataclass(frozen=True, slots=True)
class HiddenRecords:
    """Records in their published order, with their labels."""

    task: str  # its name
    records: Any  # with their labels; ids and images are the published ones
    public: tuple[bool, ...]  # record -> whether it is in the public split
    sources: Mapping[str, str]  # published image name -> the benchmark's reference
    pixels: Mapping[str, str] = field(default_factory=dict)  # as `HiddenPairs` has them

    @property
    def shape(self) -> None:
        """Images and texts of an item: records have none."""
        return None

    @property
    def how(self) -> Hiding:
        """How records of this task are hidden."""
        return HIDEABLE[self.task]

    @property
    def rows(self) -> Sequence[Any]:
        """The records one by one."""
        rows: Sequence[Any] = getattr(self.records, self.how.rows)
        return rows

    def bare(self) -> Any:
        """Return the records with their gold fields blank."""
        return replace(self.records, **{self.how.rows: tuple(map(self.how.bare, self.rows))})

    def template_rows(self) -> Iterator[Mapping[str, Any]]:
        """Yield the rows of the task file, to be filled in: made of bare records, so that no label can be in them."""
        return TASKS[self.task].template(self.bare())

    def restore(self, sent: object) -> Any:
        """Return predictions of the records, given those of the published rows in their order."""
        return self.how.restore(sent, getattr(self.bare(), self.how.rows), self.rows)

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Return width and height of the images that boxes were drawn in, by published name; empty without boxes."""
        size = self.how.size
        return {} if size is None else {row.image: size(row) for row in self.rows}

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` reads."""
        names = {"sources": dict(self.sources), "pixels": dict(self.pixels)}
        return {"task": self.task, "records": self._plain_records(self.records), "public": self.public, **names}

    def bare_to_json(self) -> dict[str, Any]:
        """Return the data for `read_published`: the bare records, and nothing else."""
        return {"records": self._plain_records(self.bare())}

    def _plain_records(self, records: Any) -> Any:
        return TypeAdapter(self.how.records).dump_python(records, mode="json")

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> HiddenRecords:
        """Make it of what `to_json` returned; other content is a KeyError, TypeError or ValueError."""
        task = content["task"]
        records = TypeAdapter(HIDEABLE[task].records).validate_python(content["records"])
        names = (_check_names(content[field]) for field in ("sources", "pixels"))
        hidden = cls(task, records, tuple(content["public"]), *names)
        _check_split(hidden.public, len(hidden.rows))
        return hidden


def hide_records(task: Task, records: Any, key: bytes, public_share: float, suffix: str) -> HiddenRecords:
    """Shuffle records, and split their clusters into public and private ones, as `hide` does with pairs."""
    how = HIDEABLE[task.name]
    rows = sorted(getattr(records, how.rows), key=lambda row: keyed_hash(key, "order", row.id))
    clusters = how.clusters([how.bare(row) for row in rows])
    public = _public_ids({row.id: cluster for row, cluster in zip(rows, clusters, strict=True)}, key, public_share)
    names = {reference: _image_name(key, reference, suffix) for reference in task.images_of(records)}
    renamed = tuple(
        replace(
            row,
            id=new_id(key, row.id),
            **{
                field: names[value] if isinstance(value, str) else tuple(names[element] for element in value)
                for field in how.images
                for value in [getattr(row, field)]
            },
            **{field: getattr(row, field) and new_id(key, getattr(row, field)) for field in how.sources},
        )
        for row in rows
    )
    return HiddenRecords(
        task=task.name,
        records=replace(records, **{how.rows: renamed}),
        public=tuple(row.id in public for row in rows),
        sources={name: reference for reference, name in names.items()},
    )


def list_contents(hidden: HiddenPairs | HiddenRecords) -> list[set[tuple[str, str]]]:
    """Return each row's pictures with its texts, by content: rows that share one have labels that follow from another.

    >>> item = Item(id="a", images=("0.png",), texts=("A cat", "a dog"))
    >>> sorted(list_contents(HiddenPairs((item,), ((1, 0),), ((0,),), (True,), {}, {"0.png": "c0ffee"}))[0])
    [('c0ffee', 'a cat'), ('c0ffee', 'a dog')]
    """
    rows = []
    for row in hidden.template_rows():
        values = ([value] if isinstance(value, str) else value for key, value in row.items() if key != "id")
        parts = [part for value in values if isinstance(value, list | tuple) for part in value]
        pictures = [hidden.pixels[part] for part in parts if part in hidden.pixels]
        texts = [_read_words(part) for part in parts if part not in hidden.pixels]
        rows.append({(picture, text) for picture in pictures for text in texts})
    return rows


def _read_words(text: str) -> str:
    return " ".join(re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", text).casefold())) or text


@dataclass(frozen=True, slots=True)
class Split:
    """The rounded numbers of one split."""

    items: int  # in the split
    clusters: int  # of its items
    # items of the file with two equal scores in a row or column: the sender knows them, and the count over both splits
    # does not reveal which item is in which
    ties: int
    values: Mapping[str, float]  # metric -> number
    # metric -> number of its units and of their clusters, if these are not the items (sentences, for example)
    units: Mapping[str, Sequence[int]] = field(default_factory=dict)
    # metric -> how many clusters of one size would be as precise, if those of its units differ in size
    worth: Mapping[str, float] = field(default_factory=dict)


def measure_sent(
    sent: Any, hidden: HiddenPairs | HiddenRecords, metrics: tuple[str, ...], step: float
) -> tuple[Split, Split]:
    """Measure the public and the private split; only rounded means leave this function, never an item's outcome."""
    if isinstance(hidden, HiddenRecords):
        return _measure_records(hidden.restore(sent), hidden, metrics, step)
    public = np.array(hidden.public)
    ties = _count_ties(sent) if isinstance(sent, Scores) else 0
    restored = _restore_order(sent, hidden)
    # float64 (item,), 0 or 1: NumPy's means of them are exact.
    if isinstance(restored, BothOrders):
        right = restored.measure()
    else:
        checked = {name: METRICS[name].check(restored.values, restored.kind) for name in metrics}
        right = {name: METRICS[name].per_item(values) for name, values in checked.items()}
    clusters = np.array([item.cluster for item in hidden.items])
    first, second = (
        _split_of(clusters[mask].tolist(), ties, {name: round_to(right[name][mask].mean(), step) for name in metrics})
        for mask in (public, ~public)
    )
    return first, second


def _split_of(clusters: Sequence[str], ties: int, values: Mapping[str, float]) -> Split:
    effective, distinct = worth_of(clusters), len({*clusters})
    return Split(
        len(clusters), distinct, ties, values, worth=dict.fromkeys(values, effective) if effective < distinct else {}
    )


def _measure_records(sent: object, hidden: HiddenRecords, metrics: tuple[str, ...], step: float) -> tuple[Split, Split]:
    """Measure all records together, and split the units by their clusters; no cluster is in both splits."""
    measured = TASKS[hidden.task].measure(hidden.records, sent)
    records = measured[0].units  # one a record, in their order
    side = {unit.cluster: public for unit, public in zip(records, hidden.public, strict=True)}
    splits = []
    for public in (True, False):
        rows = [[k for k, unit in enumerate(units.units) if side[unit.cluster] is public] for units in measured]
        sizes = [
            (len(row), len({units.units[k].cluster for k in row})) for units, row in zip(measured, rows, strict=True)
        ]
        means = {
            value.name: (value.over(value.strict[row]), size, worth_of([units.units[k].cluster for k in row]))
            for units, row, size in zip(measured, rows, sizes, strict=True)
            for value in units.values
            if row and value.name in metrics
        }
        if missing := [name for name in metrics if name not in means]:
            published = ", ".join(metrics)
            raise MetricError(f"{missing[0]} is not defined for this file; the benchmark publishes {published}")
        values = {name: round_to(means[name][0], step) for name in metrics}
        joined = {name: means[name][1] for name in metrics if means[name][1] != sizes[0]}
        uneven = {name: effective for name, (_, size, effective) in means.items() if effective < size[1]}
        splits.append(Split(*sizes[0], 0, values, joined, uneven))
    return splits[0], splits[1]


def worth_of(clusters: Sequence[str]) -> float:
    """Return how many clusters of one size would give a mean as precise, if items of a cluster were all alike.

    Source: Kish (1965), Survey Sampling, section 11.7.

    >>> worth_of(["a", "b", "c"]), worth_of(["a", "a", "a", "b"])
    (3.0, 1.6)
    """
    sizes = np.unique(np.array(clusters), return_counts=True)[1].astype(np.float64)
    return float(sizes.sum() ** 2 / (sizes**2).sum()) if len(sizes) else 0.0


def _count_ties(scores: Scores) -> int:
    """Count the items with two equal scores in a row or column."""
    values = scores.values
    tied = np.zeros(len(values), dtype=bool)
    for axis in (1, 2):
        tied |= (np.diff(np.sort(values, axis=axis), axis=axis) == 0).any(axis=(1, 2))
    return int(tied.sum())


def _restore_order(sent: Scores | BothOrders, hidden: HiddenPairs) -> Scores | BothOrders:
    """Return scores or answers for the original order of texts: of two answers, which was given to that order."""
    ids = tuple(item.id for item in hidden.items)
    if isinstance(sent, Scores):
        return Scores(ids, hidden.restore(sent.values.astype(np.float64)), sent.kind)
    unchanged = [order == (0, 1) for order in hidden.texts]
    both = list(zip(unchanged, sent.in_order, sent.swapped, strict=True))
    return BothOrders(
        ids,
        tuple(first if own else second for own, first, second in both),
        tuple(second if own else first for own, first, second in both),
    )
