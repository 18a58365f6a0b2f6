"""Negatives of training rows: coarse to fine, as for EqSim with ITM models, or nearest images, as for NegCLIP.

Coarse to fine: of each image the 128 images nearest by unimodal features; the captions of those are scored with the image
by a model that reads both together; the best of them are hard negatives, the others are drawn at random. A caption of
the same picture (the same pixels in whatever file), or one that reads the same, is never a negative. That another
image's caption happens to be true of this one, too, no rule here can know: the nearer the images, the likelier it is.

Sources: EqSim (Wang et al. 2023), appendix C; NegCLIP (Yuksekonul et al. 2023), section 4 (three nearest images).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tellapart.data.progress import Progress
from tellapart.errors import DataError
from tellapart.models.deferred import Deferred
from tellapart.models.protocols import Model
from tellapart.models.scoring import score
from tellapart.models.store import EmbeddingStore
from tellapart.train.mining.nearest import nearest
from tellapart.train.mining.pictures import Pictures, as_pairs, look_at
from tellapart.train.rows import Row, Rows

__all__ = ["MiningSettings", "coarse_to_fine", "hard_rows", "nearest_images"]


#: Images that are scored together: 640 captions each make 20,480 pairs.
_IMAGES = 32


@dataclass(frozen=True, slots=True)
class MiningSettings:
    """How many negatives, and where they are looked for.

    Attributes:
        nearest: images whose captions are scored.
        negatives: captions that each row gets.
        hard: of those, the ones with the highest scores; the others are drawn at random.
        seed: of the draws.

    Raises:
        DataError: a number below 1, or more hard negatives than negatives.

    >>> MiningSettings(hard=16)
    Traceback (most recent call last):
    tellapart.errors.DataError: 16 hard of 15 negatives, from 128 nearest images: give nearest >= 1 and 1 <= hard <= negatives
    """

    nearest: int = 128
    negatives: int = 15
    hard: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        if self.nearest < 1 or not 1 <= self.hard <= self.negatives:
            raise DataError(
                f"{self.hard} hard of {self.negatives} negatives, from {self.nearest} nearest images: give nearest >= 1 "
                "and 1 <= hard <= negatives"
            )


def coarse_to_fine(
    rows: Rows,
    features: Model | Deferred,
    scorer: Model | Deferred,
    *,
    store: EmbeddingStore,
    settings: MiningSettings | None = None,
    progress: Progress | None = None,
) -> Rows:
    """Return the rows with mined negatives: hard ones first, the hardest first; `counterparts` are the rows they come from.

    What was scored is in the store, so that a run that was killed goes on where it was, to the same rows.

    Args:
        rows: of training; negatives and counterparts that they have are replaced.
        features: a dual encoder, whose image vectors say which images are near.
        scorer: any model that scores images with texts; the higher, the more alike.
        store: where vectors and scores are kept.
        settings: numbers.
        progress: told what is done.

    Raises:
        DataError: an image cannot be read, or there are too few captions of other images.
        ModelError: a model is of the wrong kind, or its output is not what it must be.

    >>> from pathlib import Path
    >>> from tellapart.models.find import find_model
    >>> rows = Rows((Row(Path("gone.png"), "a cat"),))
    >>> encoder = find_model("demo-encoder")
    >>> coarse_to_fine(rows, encoder, encoder, store=EmbeddingStore(None))
    Traceback (most recent call last):
    tellapart.errors.DataError: training rows: item 0: field 'images[0]': [Errno 2] No such file or directory: 'gone.png'
    """
    settings = settings or MiningSettings()
    pictures = look_at(rows.rows, features, store=store, progress=progress)
    near = _near(pictures, settings.nearest, progress)
    hard = hard_rows(rows.rows, pictures, near, scorer, store=store, count=settings.hard, progress=progress)
    mined = []
    for number, row in enumerate(rows.rows):
        own = pictures.captions[pictures.of_row[number]]
        chosen = list(hard[pictures.of_row[number]])
        taken = own | {rows.rows[each].caption for each in chosen}
        for drawn in _drawn(len(rows), settings.seed, number):
            if len(chosen) == settings.negatives:
                break
            if rows.rows[drawn].caption not in taken:
                taken |= {rows.rows[drawn].caption}
                chosen.append(drawn)
        if len(chosen) < settings.negatives:
            raise DataError(
                f"training row {number} ({row.caption!r:.60}): there are {len(chosen)} different captions of other images, "
                f"and {settings.negatives} negatives are asked for; ask for fewer"
            )
        mined.append(
            replace(row, negatives=tuple(rows.rows[each].caption for each in chosen), counterparts=tuple(chosen))
        )
    return Rows(tuple(mined))


def nearest_images(
    rows: Rows, features: Model | Deferred, *, store: EmbeddingStore, count: int = 3, progress: Progress | None = None
) -> Rows:
    """Return the rows with the nearest images as counterparts, the nearest first; their false captions stay as they are.

    Of an image with several rows, the row of the same place is taken: the second caption of one beside that of the other.

    Args:
        rows: of training; counterparts that they have are replaced.
        features: a dual encoder, whose image vectors say which images are near.
        store: where vectors are kept.
        count: images.
        progress: told what is done.

    Raises:
        DataError: an image cannot be read, or there are not more images than `count`.
        ModelError: the model is no dual encoder, or its output is not what it must be.

    >>> from pathlib import Path
    >>> from tellapart.models.reference import Constant
    >>> nearest_images(Rows((Row(Path("a.png"), "a cat"),)), Constant(), store=EmbeddingStore(None))
    Traceback (most recent call last):
    tellapart.errors.ModelError: constant has no vectors of images and texts apart; name a dual encoder: demo-encoder, say
    """
    pictures = look_at(rows.rows, features, store=store, progress=progress)
    near = nearest(pictures.vectors, count, progress=progress)
    place = {number: k for members in pictures.rows for k, number in enumerate(members)}

    def beside(number: int) -> tuple[int, ...]:
        members = [pictures.rows[other] for other in near[pictures.of_row[number]]]
        return tuple(each[place[number] % len(each)] for each in members)

    return Rows(tuple(replace(row, counterparts=beside(number)) for number, row in enumerate(rows.rows)))


def hard_rows(
    rows: Sequence[Row],
    pictures: Pictures,
    near: NDArray[np.int64],
    scorer: Model | Deferred,
    *,
    store: EmbeddingStore,
    count: int,
    progress: Progress | None = None,
) -> list[tuple[int, ...]]:
    """Return for each picture the rows of near pictures whose captions score highest with it; of equals the nearer first.

    Args:
        rows: of training.
        pictures: of the rows.
        near: numbers of near pictures, int64 `(picture, k)`, the nearest first.
        scorer: any model that scores images with texts.
        store: where scores are kept.
        count: rows for each picture.
        progress: told what is done.

    Raises:
        DataError: near pictures have fewer different captions.
        ModelError: the scorer's output is not what it must be.

    >>> from tellapart.models.reference import Constant
    >>> pictures = Pictures((), (), (), (), np.zeros((0, 1), np.float32), {})
    >>> hard_rows([], pictures, np.zeros((0, 1), np.int64), Constant(), store=EmbeddingStore(None), count=1)
    []
    """
    found: list[tuple[int, ...]] = []
    for start in range(0, len(pictures.files), _IMAGES):
        block = range(start, min(start + _IMAGES, len(pictures.files)))
        candidates = [_candidates(rows, pictures, picture, near[picture]) for picture in block]
        for picture, numbers in zip(block, candidates, strict=True):
            if len(numbers) < count:
                raise DataError(
                    f"{pictures.files[picture]}: its {near.shape[1]} nearest images have {len(numbers)} captions of their "
                    f"own, and {count} hard negatives are asked for; look at more images, or ask for fewer"
                )
        # One shape for all: the last caption fills a row up, and is scored once.
        widest = max(map(len, candidates))
        texts = [[rows[each].caption for each in numbers] for numbers in candidates]
        told = [
            (pictures.files[picture], row + row[-1:] * (widest - len(row)))
            for picture, row in zip(block, texts, strict=True)
        ]
        scored = score(scorer, as_pairs(told), store=store, hashes=pictures.hashes).scores.values
        for numbers, values in zip(candidates, scored[:, 0], strict=True):
            best = np.argsort(-values[: len(numbers)], kind="stable")[:count]
            found.append(tuple(numbers[each] for each in best))
        if progress:
            progress("images scored", block.stop, len(pictures.files))
    return found


def _near(pictures: Pictures, count: int, progress: Progress | None) -> NDArray[np.int64]:
    """Nearest pictures; all others where there are not so many."""
    return nearest(pictures.vectors, min(count, len(pictures.files) - 1), progress=progress)


def _candidates(rows: Sequence[Row], pictures: Pictures, picture: int, near: NDArray[np.int64]) -> list[int]:
    """Rows of near pictures, nearest first, one for each text that is none of the picture's own."""
    taken = set(pictures.captions[picture])
    found = []
    for other in near:
        for number in pictures.rows[other]:
            if rows[number].caption not in taken:
                taken.add(rows[number].caption)
                found.append(number)
    return found


def _drawn(count: int, seed: int, number: int) -> Iterator[int]:
    """Yield numbers below `count` at random, in the end every one: by its row's own seed, whatever the other rows are."""
    rng = np.random.default_rng([seed, number])
    yield from rng.integers(0, count, 64).tolist()
    yield from rng.permutation(count).tolist()  # few captions are different
