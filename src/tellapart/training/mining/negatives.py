"""Negatives of training rows: coarse to fine, as for EqSim with ITM models, or nearest images, as for NegCLIP.

A true caption of the same picture, or one that reads the same, is never a negative. That another image's caption is
true of this one, too, no rule here can detect.

Sources: EqSim (Wang et al. 2023), appendix C; NegCLIP (Yuksekonul et al. 2023), section 4 (three nearest images).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tellapart.benchmarks.plugins import exit_is_error, open_model
from tellapart.data.arguments import PathGiven, as_path, expect_used
from tellapart.data.pairset import PairSet
from tellapart.data.progress import Progress
from tellapart.data.rows import make_item
from tellapart.errors import DataError, quote
from tellapart.models.find import Deferred, find_deferred
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import Model
from tellapart.models.scoring.score import Scored, embeddings, score
from tellapart.models.store.cache import CacheGiven, use_store
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.models.vectors import normalise
from tellapart.report.progress import ProgressGiven, reporting
from tellapart.training.data.rows import TrainingRows, read_image, read_rows, words_of, write_rows

#: Rows of a block of cosines, of which 25,000 columns in float32 take 25 MB; pairs summed in float64 at once.
BLOCK, _PAIRS = 256, 1 << 14

#: Images that are scored together: 640 captions each make 20,480 pairs.
_IMAGES = 32


def nearest(
    vectors: NDArray[np.float32], k: int, *, block: int = BLOCK, progress: Progress | None = None
) -> NDArray[np.int64]:
    """Return for each vector the `k` others of largest cosine, the nearest first; of equals the lower number first.

    A float32 matrix product finds the candidates, within its rounding error. Their cosines are then summed in float64,
    pair by pair, so that the answer does not depend on the block or on the order of a product's sums.
    """
    if not 1 <= k < len(vectors):
        raise DataError(f"{k} nearest of {len(vectors)} images: ask for at least 1 and fewer than there are")
    unit = normalise(vectors)
    # Two cosines are compared, each off by about d * eps / 2 in any order of its sum (Higham 2002, section 3.1).
    margin = np.float32(2.2 * unit.shape[1] * np.finfo(np.float32).eps / 2)
    neighbours = np.empty((len(unit), k), np.int64)
    for start in range(0, len(unit), block):
        rows = unit[start : start + block]
        cosines = rows @ unit.T
        cosines[np.arange(len(rows)), start + np.arange(len(rows))] = -np.inf
        limits = np.partition(cosines, len(unit) - k, axis=1)[:, len(unit) - k] - margin
        row, column = np.nonzero(cosines >= limits[:, None])
        exact = np.empty(len(row))
        for first in range(0, len(row), _PAIRS):
            part = slice(first, first + _PAIRS)
            exact[part] = (rows[row[part]].astype(np.float64) * unit[column[part]]).sum(axis=1)
        order = np.lexsort((column, -exact, row))
        firsts = np.searchsorted(row, np.arange(len(rows)))  # `nonzero` and `lexsort` leave `row` sorted
        neighbours[start : start + block] = column[order][firsts[:, None] + np.arange(k)]
        if progress:
            progress("nearest images", min(start + block, len(unit)), len(unit))
    return neighbours


@dataclass(frozen=True, slots=True, eq=False)
class RowPictures:
    """Training rows by distinct picture.

    Lists by picture: its first file in `files`, its `rows`, the words of its true `captions`, and its vector. Lists by
    row: the number of its picture in `of_row`, and the words of its caption in `readings`. `hashes` are by file.
    """

    source: TrainingRows
    files: list[str]
    rows: list[list[int]]
    of_row: list[int]
    readings: list[tuple[str, ...]]
    captions: list[set[tuple[str, ...]]]
    vectors: NDArray[np.float32]
    hashes: dict[str, str]


def encode_pictures(
    rows: TrainingRows, model: Model | Deferred, *, store: EmbeddingStore, progress: Progress | None = None
) -> RowPictures:
    """Encode every distinct picture that the store lacks by a dual encoder, and sort the rows by picture."""
    caption = {str(row.image): row.caption for row in rows.rows}
    pairs = _as_pairs(caption, ((text,) for text in caption.values()))
    encoded = embeddings(model, pairs, store=store, texts=False, progress=progress)
    assert encoded.images is not None  # noqa: S101  (they were asked for)
    of_row = rows.with_pictures({Path(file): hashed for file, hashed in encoded.hashes.items()}).image_ids.tolist()
    count, readings = 1 + max(of_row), [words_of(row.caption) for row in rows.rows]
    members, captions = [list[int]() for _ in range(count)], [set[tuple[str, ...]]() for _ in range(count)]
    for number, picture in enumerate(of_row):
        members[picture].append(number)
        captions[picture] |= {readings[number], *map(words_of, rows.rows[number].positives)}
    files = [str(rows.rows[first].image) for first, *_ in members]
    position = {file: k for k, file in enumerate(caption)}
    vectors = encoded.images[[position[file] for file in files], 0]
    return RowPictures(rows, files, members, of_row, readings, captions, vectors, dict(encoded.hashes))


def _as_pairs(files: Iterable[str], captions: Iterable[Sequence[str]]) -> PairSet:
    """Return a pair set with an item for each image file and its captions, as many of each."""
    items = tuple(
        make_item(f"captions of {file}", id=str(number), images=(file,), texts=tuple(texts))
        for number, (file, texts) in enumerate(zip(files, captions, strict=True))
    )
    return PairSet("training rows", items, Path(), read=lambda file: read_image(Path(file)))


def _draw_rows(count: int, seed: int, number: int) -> Iterator[int]:
    """Yield random numbers below `count`, by the seed and the row's number; every number comes at least once."""
    rng = np.random.default_rng([seed, number])
    yield from rng.integers(0, count, 64).tolist()
    yield from rng.permutation(count).tolist()  # needed if most rows have one of a few captions


def coarse_to_fine(
    rows: TrainingRows, features: Model | Deferred, scorer: Model | Deferred, *,
    store: EmbeddingStore, progress: Progress | None = None,
    near: int = 128, negatives: int = 15, hard: int = 8, seed: int = 0,
) -> TrainingRows:  # fmt: skip
    """Return the rows with mined negatives: hard ones first, the hardest first; `counterparts` are their rows.

    Scores are in the store, so that a killed run goes on from there, to the same rows.
    """
    if near < 1 or not 1 <= hard <= negatives:
        asked = f"nearest = {near}, negatives = {negatives}, hard = {hard}"
        raise DataError(f"{asked}; give nearest >= 1, 1 <= hard <= negatives")
    pictures = encode_pictures(rows, features, store=store, progress=progress)
    # All others if there are not so many.
    neighbours = nearest(pictures.vectors, min(near, len(pictures.files) - 1), progress=progress)
    hardest = find_hard(pictures, neighbours, partial(score, scorer, store=store), hard, progress)
    mined, readings = [], pictures.readings
    for number, row in enumerate(rows.rows):
        candidates = list(hardest[pictures.of_row[number]])
        texts = pictures.captions[pictures.of_row[number]].union(readings[candidate] for candidate in candidates)
        for other in _draw_rows(len(rows), seed, number):
            if len(candidates) == negatives:
                break
            if readings[other] not in texts:
                texts |= {readings[other]}
                candidates.append(other)
        if len(candidates) < negatives:
            raise DataError(
                f"training row {number} ({quote(row.caption)}): there are {len(candidates)} different captions of "
                f"other images, and {negatives} negatives are asked for; ask for fewer"
            )
        captions = tuple(rows.captions(candidates))
        mined.append(replace(row, negatives=captions, counterparts=tuple(candidates)))
    return TrainingRows(tuple(mined))


def nearest_images(
    rows: TrainingRows, features: Model | Deferred, *,
    store: EmbeddingStore, progress: Progress | None = None, count: int = 3,
) -> TrainingRows:  # fmt: skip
    """Return the rows with the nearest images as counterparts, the nearest first; their false captions are unchanged.

    Of a near image with several rows, the row of the same rank is taken: the second caption of an image has the second
    caption of the other as its counterpart. Rows with a caption of the image itself are passed over.
    """
    pictures = encode_pictures(rows, features, store=store, progress=progress)
    rank = {number: k for members in pictures.rows for k, number in enumerate(members)}

    def choose_counterparts(number: int, near: NDArray[np.int64]) -> tuple[int, ...]:
        counterparts, picture = list[int](), pictures.of_row[number]
        for members in (pictures.rows[other] for other in near[picture]):
            first = rank[number] % len(members)
            turned = (*members[first:], *members[:first])
            counterparts += [row for row in turned if pictures.readings[row] not in pictures.captions[picture]][:1]
        return tuple(counterparts[:count])

    searched, limit = count, max(count, len(pictures.files) - 1)
    while True:  # as far as it takes until every row has its counterparts
        near = nearest(pictures.vectors, searched, progress=progress)
        mined = [replace(row, counterparts=choose_counterparts(number, near)) for number, row in enumerate(rows.rows)]
        lacks = next((number for number, row in enumerate(mined) if len(row.counterparts) < count), None)
        if lacks is None:
            return TrainingRows(tuple(mined))
        if searched == limit:
            near_count = len(mined[lacks].counterparts)
            raise DataError(
                f"training row {lacks} ({quote(rows.rows[lacks].caption)}): {near_count} other images have another "
                f"caption, and {count} counterparts are asked for; "
                + ("ask for fewer" if near_count else "leave the row out, or add other captions")
            )
        searched = min(4 * searched, limit)


def find_hard(
    pictures: RowPictures, near: NDArray[np.int64], judge: Callable[..., Scored], count: int, progress: Progress | None
) -> list[tuple[int, ...]]:
    """Return the rows of near pictures whose captions score highest with each picture; of equals the nearer first."""
    hard: list[tuple[int, ...]] = []
    for start in range(0, len(pictures.files), _IMAGES):
        files, candidates = pictures.files[start : start + _IMAGES], list[list[int]]()
        for picture, file in enumerate(files, start):
            first: dict[tuple[str, ...], int] = {}  # the nearest row of each text
            for number in (number for other in near[picture] for number in pictures.rows[other]):
                first.setdefault(pictures.readings[number], number)
            candidates.append([row for text, row in first.items() if text not in pictures.captions[picture]])
            if len(candidates[-1]) < count:
                raise DataError(
                    f"{file}: its {near.shape[1]} nearest images have {len(candidates[-1])} other captions, and "
                    f"{count} hard negatives are asked for; look at more images, or ask for fewer"
                )
        # One shape for all: the last caption fills a row up, and is scored once.
        widest = max(map(len, candidates))
        filled = [numbers + numbers[-1:] * (widest - len(numbers)) for numbers in candidates]
        pairs = _as_pairs(files, map(pictures.source.captions, filled))
        scores = judge(pairs, hashes=pictures.hashes).scores.values
        for numbers, values in zip(candidates, scores[:, 0], strict=True):
            best = np.argsort(-values[: len(numbers)], kind="stable")[:count]
            hard.append(tuple(numbers[candidate] for candidate in best))
        if progress:
            progress("images scored", start + len(files), len(pictures.files))
    return hard


@dataclass(frozen=True, slots=True)
class Mined:
    """A file of rows with negatives: its path, how many rows, and the folder that their images are relative to."""

    out: Path
    rows: int
    images: Path


@exit_is_error
def mine(
    rows: str,
    model: str,
    out: PathGiven,
    *,
    scorer: str | None = None,
    reading: str | None = None,
    nearest: int | None = None,
    negatives: int = 15,
    hard: int = 8,
    images: PathGiven | None = None,
    outside_images: bool = False,
    limit: int | None = None,
    device: str = "cpu",
    seed: int = 0,
    cache: CacheGiven = None,
    progress: ProgressGiven = None,
) -> Mined:
    """Find hard negatives among training images and captions: by the nearest images, or coarse to fine by a scorer.

    Args:
        rows: training rows: a JSONL file with image and caption, a pair set's folder, a TSV.
        model: a dual encoder: its vectors find the nearest images.
        out: the JSONL file to write, which `train` reads.
        scorer: scores captions of near images, and the hardest are taken; the nearest images alone if not given.
        reading: which of the scorer's readings is used.
        nearest: near images of each: 128 with a scorer, else 3, as for NegCLIP.
        negatives: false captions a row, with a scorer.
        hard: how many of them are the hardest; the others are drawn.
        images, outside_images: the folder of the images, the file's if not given; whether they may lie outside of it.
        limit: only the first so many rows.
        device, seed: of the models, and of the draws.
        cache, progress: as of `evaluate`.

    Raises:
        TellapartError: the rows cannot be read, or a model cannot be found.

    >>> import tellapart as ta
    >>> out = getfixture("tmp_path") / "rows.jsonl"
    >>> ta.mine("examples/eqsim_ablation/smoke_scenes", "demo-encoder", out, limit=4, nearest=1, cache=False).rows
    8
    """
    if scorer is None:
        expect_used(
            "mine", "without scorer=MODEL, which judges captions",
            reading=(reading, None), negatives=(negatives, 15), hard=(hard, 8), seed=(seed, 0),
        )  # fmt: skip
    folder, to = None if images is None else as_path(images, "images"), as_path(out, "out")
    path = Path(rows.removeprefix("folder:")).expanduser()
    root = folder.expanduser() if folder is not None else path if path.is_dir() else path.parent
    source = read_rows([rows], Path(), None if folder is None else str(folder), limit=limit, outside=outside_images)
    with use_store(cache) as store, reporting(progress) as report:
        update = None if report is None else report(to.name)
        features = find_deferred(open_model(model), ModelOptions(device=device), store)
        if scorer is None:
            count = 3 if nearest is None else nearest
            mined = nearest_images(source, features, store=store, count=count, progress=update)
        else:
            judge = find_deferred(open_model(scorer), ModelOptions(device=device, reading=reading), store)
            asked = {"near": 128 if nearest is None else nearest, "negatives": negatives, "hard": hard, "seed": seed}
            mined = coarse_to_fine(source, features, judge, store=store, progress=update, **asked)
    write_rows(to, mined, root, outside=outside_images)
    return Mined(to, len(mined), root)
