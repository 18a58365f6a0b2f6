"""Pictures against classes: every model's scores of both, and files that were made elsewhere.

A model that ranks by the cosine of its vectors (CLIP) is given one vector a class: the mean of its prompts' unit
vectors, made a unit vector again. Of every other model the scores of a class's prompts are averaged.

A `.npz` file holds `image_ids` and `classes` (strings) with `scores`, `(image, class)`. A file of predictions names one
class for each picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tellapart.data.classification import ClassificationSet
from tellapart.data.item import Item
from tellapart.errors import ScoreError
from tellapart.metrics.classification import LabelRanks, rank_labels
from tellapart.metrics.cosines import cosines
from tellapart.metrics.retrieval import Ranks
from tellapart.models.protocols import DualEncoder, Model, Vectors
from tellapart.models.vectors import normalise
from tellapart.tasks.predictions import read_matrix, read_predictions, text
from tellapart.tasks.task import Session
from tellapart.tasks.vectors import encode, score_items, similarity_table

__all__ = ["Classified", "class_vectors", "classify_pairs", "classify_vectors", "named_classes", "read_classes"]


@dataclass(frozen=True, slots=True, eq=False)
class Classified:
    """The places of the true classes in the rankings.

    Attributes:
        placed: of each picture, in the set's order.
        scored: every class has a score; otherwise one class was named, and only the first place is known.
        unread: predictions that name no class, and count as wrong.

    >>> Classified(rank_labels([[0.9, 0.1]], [0])).scored
    True
    """

    placed: LabelRanks
    scored: bool = True
    unread: int = 0


def classify_vectors(model: DualEncoder, records: ClassificationSet, session: Session) -> Classified:
    """Encode every distinct picture and prompt once, and compare each picture with each class.

    Raises:
        DataError: an image is missing or cannot be decoded.
        ModelError: the model's output is not what its protocol says.
        StoreError: the store cannot be read or written.

    >>> from tellapart.benchmarks.find import find_benchmark
    >>> from tellapart.models.bundled import demo_encoder
    >>> from tellapart.models.options import ModelOptions
    >>> from tellapart.models.store import EmbeddingStore
    >>> objects = find_benchmark("demo-objects")
    >>> session = Session(pictures=objects.read_image(), store=EmbeddingStore(None))
    >>> classify_vectors(demo_encoder(ModelOptions()), objects.records(), session).placed.first.size
    200
    """
    if not getattr(model, "ranks_by_cosine", False):
        return classify_pairs(model, records, session)
    prompts = [prompt for row in records.prompts for prompt in row]
    images, vectors = encode(model, records.name, [picture.image for picture in records.pictures], prompts, session)
    size = len(records.classes)
    classes = class_vectors([vectors[start : start + size] for start in range(0, len(prompts), size)])
    # Of an image of several vectors (BLIP-2) the model says which of them counts.
    alike = images.shape[1] == classes.shape[1]
    table = cosines(images, classes) if alike else similarity_table(model, images, classes)
    return Classified(rank_labels(table, [picture.label for picture in records.pictures]))


def class_vectors(prompts: Sequence[Vectors]) -> Vectors:
    """Return one unit vector a class: the mean of its prompts' unit vectors, made a unit vector again.

    Args:
        prompts: float32 `(class, dimensions)`, one array a template.

    Raises:
        ModelError: a prompt has no direction, or a class's prompts cancel out.

    Source: CLIP (Radford et al. 2021), section 3.1.4, and its notebook `Prompt_Engineering_for_ImageNet`.

    >>> class_vectors([np.array([[2.0, 0.0]], np.float32), np.array([[0.0, 5.0]], np.float32)]).round(4)
    array([[0.7071, 0.7071]], dtype=float32)
    """
    # Of one template the mean is the vector itself, to the bit.
    units = [normalise(vectors) for vectors in prompts]
    return units[0] if len(units) == 1 else normalise(np.mean(units, axis=0, dtype=np.float64))


def classify_pairs(model: Model, records: ClassificationSet, session: Session) -> Classified:
    """Score every picture with every prompt; a class's score is the mean over its prompts.

    Raises:
        DataError: an image is missing or cannot be decoded.
        ModelError: the model's output is not what its protocol says.

    >>> from tellapart.benchmarks.find import find_benchmark
    >>> from tellapart.models.reference import Constant
    >>> from tellapart.models.store import EmbeddingStore
    >>> objects = find_benchmark("demo-objects")
    >>> session = Session(pictures=objects.read_image(), store=EmbeddingStore(None))
    >>> classify_pairs(Constant(), objects.records(), session).placed.first.size
    200
    """
    labels = np.array([picture.label for picture in records.pictures])
    rows = np.arange(len(labels))
    total = np.zeros((len(labels), len(records.classes)))
    hashes: dict[str, str] = {}  # a picture is read for the first template, and known by its pixels for the others
    for prompts in records.prompts:
        values = score_items(model, records.name, _true_first(records, prompts), session, hashes)[:, 0].copy()
        values[rows, labels], values[:, 0] = values[:, 0].copy(), values[rows, labels].copy()
        total += values
    return Classified(rank_labels(total / len(records.templates), labels))


def _true_first(records: ClassificationSet, prompts: Sequence[str]) -> tuple[Item, ...]:
    """An item a picture: its true class changes places with class 0, so that models that know the key find it."""
    items = []
    for picture in records.pictures:
        texts = list(prompts)
        texts[0], texts[picture.label] = texts[picture.label], texts[0]
        items.append(Item(id=picture.id, images=(picture.image,), texts=tuple(texts)))
    return tuple(items)


def read_classes(path: Path, records: ClassificationSet) -> Classified:
    """Read scores of every class (`.npz`), or the name of one class for each picture (`.jsonl`, `.csv`, `.json`).

    Raises:
        ScoreError: another suffix; an array is missing or of another shape; ids or classes that are missing, unknown or
            repeated (the first ten are named); numbers that are not finite.
        DataError: a file is not what its format says.

    >>> from tellapart.data.classification import ClassifiedImage
    >>> pets = ClassificationSet("pets", ("cat", "dog"), ("a photo of a {}.",), (ClassifiedImage("0", "a.png", 1),))
    >>> path = getfixture("tmp_path") / "names.csv"
    >>> _ = path.write_text("id,prediction\\n0,dog\\n")
    >>> read_classes(path, pets).placed.first.tolist()
    [1]
    """
    labels = [picture.label for picture in records.pictures]
    ids = [picture.id for picture in records.pictures]
    if path.suffix != ".npz":
        return _read_names(path, records, ids, labels)
    arrays, (rows, columns) = read_matrix(path, {"image_ids": ids, "classes": records.classes}, ("scores",))
    scores = arrays["scores"]
    if scores.shape != (len(rows), len(columns)):
        raise ScoreError(f"{path}: `scores` must be {len(rows)} by {len(columns)}; got shape {scores.shape}")
    try:
        return Classified(rank_labels(scores[np.ix_(rows, columns)], labels))
    except ScoreError as error:
        raise ScoreError(f"{path}: {error}") from error


def _read_names(path: Path, records: ClassificationSet, ids: list[str], labels: list[int]) -> Classified:
    number_of = {_plain(name): number for number, name in enumerate(records.classes)}
    named = [number_of.get(_plain(answer), -1) for answer in read_predictions(path, ids, text, "image")]
    return named_classes(named, labels)


def named_classes(named: Sequence[int], labels: Sequence[int]) -> Classified:
    """Return the places of the true classes if one class is named for each picture, and nothing is known of the others.

    Args:
        named: the number of the named class, from 0; -1 for what names no class.
        labels: the number of the true class.

    >>> named_classes([0, 1, -1], [0, 0, 0]).placed.ranks.recall(1)
    array([1., 0., 0.])
    """
    first = np.array(named, dtype=np.int64)
    wrong = (first != np.array(labels)).astype(np.int64)
    ranks = Ranks(wrong, np.zeros_like(wrong), np.ones_like(wrong))
    return Classified(LabelRanks(ranks, first), scored=False, unread=int((first < 0).sum()))


def _plain(name: str) -> str:
    return name.strip().strip("\"'.").strip().lower()
