"""Rows joined by two: both pictures in one, captions that name both, and one whose words changed places (CLIC)."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from PIL import Image

from tellapart.builders.negatives.lexicon import function_words
from tellapart.models.protocols import Pixels
from tellapart.training.data.rows import TrainingRows

#: Draws of a second row that is of another picture and lies as the first does; after them any shape will do.
_TRIES = 32


@dataclass(frozen=True, slots=True)
class JoinedRows:
    """Two rows as one: the number of the second, whose picture comes first if `swapped`, and true captions of both.

    `false` has a word of one caption in the other's place; None if that is true as well, or each has only the other's
    words.
    """

    second: int
    swapped: bool
    captions: tuple[str, ...]
    false: str | None


def draw_joined(rows: TrainingRows, first: int, positives: int, seed: int, step: int) -> JoinedRows:
    """Draw a row to join to another, and the captions, by seed, step and row alone.

    Source: CLIC (Peleg et al. 2025), `CombineCsvDataset` of its code, which swaps words of one part of speech; here
    they are words that name a thing or a property.
    """
    rng = np.random.default_rng([seed, step, first, 3])  # the 3 keeps these draws apart from all others
    others = np.flatnonzero(rows.image_ids != rows.image_ids[first])
    second = int(rng.choice(others))
    for _ in range(_TRIES):
        if rows.is_wide(second) == rows.is_wide(first):
            break
        second = int(rng.choice(others))
    pair = rows.rows[first], rows.rows[second]
    one, two = (row.caption for row in pair)
    captions = [join_captions(one, two), join_captions(two, one)]
    # Each row's captions in a separate order, again from the start if there are too few.
    orders = [rng.permutation(len(row.positives)) for row in pair]
    for k in range(positives):
        texts = [row.positives[order[k % len(order)]] for row, order in zip(pair, orders, strict=True)]
        captions.append(join_captions(*(texts if rng.random() < 0.5 else texts[::-1])))
    changed = swap_words(one, two, rng)
    false = None if changed is None else join_captions(*(changed if rng.random() < 0.5 else changed[::-1]))
    if false in captions:  # "a red cup. a blue cup." with its colours changed is the same in another order
        false = None
    return JoinedRows(second, bool(rng.random() < 0.5), tuple(captions), false)


def join_captions(first: str, second: str) -> str:
    """Return two captions as two sentences."""
    return " ".join(text.rstrip().rstrip(".") + "." for text in (first, second))


def swap_words(first: str, second: str, rng: np.random.Generator) -> tuple[str, str] | None:
    """Return two captions with a word of each in the other's place; None without two such words.

    A word names a thing or a property, and is none of the other caption's.

    >>> swap_words("the cup", "the dog and the boat", np.random.default_rng(0))
    ('the boat', 'the dog and the cup')
    >>> swap_words("the cup", "a cup", np.random.default_rng(0)) is None
    True
    """
    words = [dict.fromkeys(re.findall(r"[^\W\d_]+", text)) for text in (first, second)]
    word_sets = [{word.casefold() for word in caption_words} | function_words() for caption_words in words]
    left, right = ([w for w in words[k] if w.casefold() not in word_sets[1 - k] | function_words()] for k in (0, 1))
    if not left or not right:
        return None
    one, two = left[int(rng.integers(len(left)))], right[int(rng.integers(len(right)))]
    return re.sub(rf"\b{one}\b", two, first), re.sub(rf"\b{two}\b", one, second)


def join_pictures(first: Pixels, second: Pixels, side: int) -> Pixels:
    """Join two pictures to a square, uint8 `(side, side, 3)`; each is stretched to a half.

    High ones are joined left and right, wide (and square) ones top and bottom; the first picture decides.

    >>> black, white = np.zeros((4, 2, 3), np.uint8), np.full((4, 2, 3), 255, np.uint8)
    >>> join_pictures(black, white, 4)[0, :, 0].tolist(), join_pictures(black[:2], white[:2], 4)[:, 0, 0].tolist()
    ([0, 0, 255, 255], [0, 0, 255, 255])
    """
    high = first.shape[0] > first.shape[1]
    size = (side // 2, side) if high else (side, side // 2)
    rest = (side - side // 2, side) if high else (side, side - side // 2)
    halves = [
        np.asarray(Image.fromarray(pixels).resize(width, Image.Resampling.BICUBIC))
        for pixels, width in ((first, size), (second, rest))
    ]
    return np.concatenate(halves, axis=1 if high else 0)
