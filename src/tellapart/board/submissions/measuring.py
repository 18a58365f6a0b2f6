"""A file that was sent: read with suspicion, unshuffled, and measured by the code behind `tellapart score`.

Nothing here trusts the file. It is read by the same readers as on anybody's own machine, in a process whose time and memory
are limited (`worker.py`); before an archive is unpacked its table of contents must be what such a file's can be.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tellapart.board.submissions.rounding import round_to
from tellapart.board.submissions.shuffled import Hidden
from tellapart.data.pairset import PairSet
from tellapart.data.scores import Scores
from tellapart.errors import MetricError, ScoreError, TellapartError
from tellapart.measure import measure
from tellapart.models.external import read_scores
from tellapart.models.generative_choice import BothOrders
from tellapart.tasks.pairing import PAIRING

__all__ = ["Split", "check_archive", "measure_sent", "read_sent"]

_MOST_MEMBERS = 16
_PLAIN = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # numpy writes no other, and deflate packs 1,032 to 1 at most


@dataclass(frozen=True, slots=True)
class Split:
    """What one split came to, rounded.

    Attributes:
        items: in the split.
        clusters: of its items.
        ties: items of the whole file in which two scores of a row or column are equal: known to who sent it, and, counted
            over both splits, silent on which item is in which.
        values: metric -> number.

    >>> Split(2, 2, 0, {"group_score": 0.5}).values
    {'group_score': 0.5}
    """

    items: int
    clusters: int
    ties: int
    values: Mapping[str, float]


def check_archive(path: Path, ids: int, shape: tuple[int, int], longest_id: int) -> None:
    """Refuse an npz file whose table of contents is not that of scores of this benchmark; nothing is unpacked.

    Args:
        path: the file.
        ids: how many items there are.
        shape: images and texts of an item.
        longest_id: characters.

    Raises:
        ScoreError: too many members, one that is encrypted, packed in another way or named with a path, or one that would
            unpack to far more than such an array can be.

    >>> check_archive(Path("gone.npz"), 1, (2, 2), 24)
    Traceback (most recent call last):
    tellapart.errors.ScoreError: gone.npz is not an npz file: [Errno 2] No such file or directory: 'gone.npz'
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise ScoreError(f"{path} is not an npz file: {error}") from error
    if len(members) > _MOST_MEMBERS:
        raise ScoreError(f"{path} holds {len(members)} members; ids, scores and kind are three")
    # Twice doubles for the scores, four times the ids' own length: room for any honest way to write them.
    most = {"scores": 2 * 8 * ids * math.prod(shape) + 4096, "ids": 4 * 4 * ids * longest_id + 4096}
    for member in members:
        name = member.filename.removesuffix(".npy")
        if "/" in name or "\\" in name or name.startswith("."):
            raise ScoreError(f"{path}: member {member.filename!r:.80} is named with a path; arrays have plain names")
        if member.flag_bits & 1 or member.compress_type not in _PLAIN:
            raise ScoreError(f"{path}: member {name!r:.80} is encrypted, or packed as numpy does not; use numpy.savez")
        if member.file_size > most.get(name, 4096):
            raise ScoreError(
                f"{path}: {name!r:.80} unpacks to {member.file_size:,} bytes; "
                f"for {ids} items of {shape} at most {most.get(name, 4096):,} are read"
            )


def read_sent(path: Path, hidden: Hidden, protocol: str) -> Any:
    """Read what was sent, every item exactly once.

    Returns:
        `Scores` or `BothOrders`, in the items' own order of images and texts.

    Raises:
        ScoreError: it is not what its format says, or ids are missing, unknown or repeated, or a number is not finite.
        DataError: a line is not what its format says.

    >>> from tellapart.data.item import Item
    >>> one = Hidden((Item(id="a", images=("0.png",), texts=("x", "y")),), ((0, 1),), ((0,),), (True,), {})
    >>> read_sent(Path("gone.csv"), one, "scores")
    Traceback (most recent call last):
    tellapart.errors.ScoreError: gone.csv cannot be read: No such file or directory
    """
    ids, shape = [item.id for item in hidden.items], hidden.items[0].shape
    try:
        if protocol == "answers":
            said: BothOrders = PAIRING.read(path, _pairs(hidden, range(len(ids))))
            return _restored(said, hidden)
        if path.suffix == ".npz":
            check_archive(path, len(ids), shape, max(map(len, ids)))
        scores = read_scores(path, ids=ids, shape=shape)
        return Scores(ids, hidden.restore(scores.values.astype(np.float64)), scores.kind)
    except TellapartError:
        raise
    except (ValueError, RecursionError, OverflowError) as error:  # digits without end, say
        raise ScoreError(f"{path} cannot be read: {error!s:.200}") from error


def measure_sent(sent: Any, hidden: Hidden, metrics: tuple[str, ...], step: float) -> tuple[Split, Split]:
    """Measure the public and the private split; only rounded means leave this function, never an item's outcome.

    Args:
        sent: as `read_sent` returns it.
        hidden: the truth.
        metrics: whose numbers are wanted.
        step: to which they are rounded.

    Raises:
        MetricError: a metric is not defined for what was sent.

    >>> from tellapart.data.item import Item
    >>> items = tuple(Item(id=i, images=("0.png",), texts=("x", "y")) for i in "ab")
    >>> hidden = Hidden(items, ((0, 1), (0, 1)), ((0,), (0,)), (True, False), {})
    >>> sent = Scores(("a", "b"), [[[0.9, 0.1]], [[0.1, 0.9]]], "similarity")
    >>> [split.values["choice_score"] for split in measure_sent(sent, hidden, ("choice_score",), 0.01)]
    [1.0, 0.0]
    """
    public = np.array(hidden.public)
    ties = _tied(sent) if isinstance(sent, Scores) else 0
    parts = [np.flatnonzero(mask).tolist() for mask in (public, ~public)]
    clusters = [len({hidden.items[k].cluster for k in rows}) for rows in parts]
    values = [_numbers(sent, _pairs(hidden, rows), rows) for rows in parts]
    if missing := [name for name in metrics if name not in values[0]]:
        raise MetricError(f"{missing[0]} is not defined for what was sent; the benchmark tells {', '.join(metrics)}")
    first, second = (
        Split(len(rows), own, ties, {name: round_to(found[name], step) for name in metrics})
        for rows, own, found in zip(parts, clusters, values, strict=True)
    )
    return first, second


def _numbers(sent: Any, pairs: PairSet, rows: list[int]) -> dict[str, float]:
    """Measure some items by every metric that is defined."""
    if isinstance(sent, BothOrders):
        own = BothOrders(pairs.outline.ids, *(tuple(said[k] for k in rows) for said in (sent.in_order, sent.swapped)))
        return {one.name: one.over(one.strict) for units in PAIRING.measure(pairs, own) for one in units.found}
    return {name: value.value for name, value in measure(sent, pairs.outline).metrics.items()}


def _tied(scores: Scores) -> int:
    """Count the items in which two scores of one row or column are equal: no label is needed to know."""
    values = scores.values
    tied = np.zeros(len(values), dtype=bool)
    for axis in (1, 2):
        tied |= (np.diff(np.sort(values, axis=axis), axis=axis) == 0).any(axis=(1, 2))
    return int(tied.sum())


def _pairs(hidden: Hidden, rows: Any) -> PairSet:
    return PairSet("hidden", tuple(hidden.items[k] for k in rows), Path())


def _restored(said: BothOrders, hidden: Hidden) -> BothOrders:
    """Tell which of an item's two answers was given to the texts in their own order."""
    kept = [places == (0, 1) for places in hidden.texts]
    both = list(zip(kept, said.in_order, said.swapped, strict=True))
    return BothOrders(
        said.ids,
        tuple(first if own else second for own, first, second in both),
        tuple(second if own else first for own, first, second in both),
    )
