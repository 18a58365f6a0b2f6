"""How much of the hidden labels a published number gives away, and the rounding that keeps it small.

A number rounded to a step of 0.01 takes one of 101 values, so a submission that is told one number learns at most
log2(101) = 6.66 bits, whatever it is made of. Labels are bits, too: an item of two images and two texts hides one (which
text is the first image's), an item of `m` texts hides log2(m). A task's record is taken to hide one bit, too: a statement's
label or which of two captions is true is one, where both are as likely; an answer in words or a box is more, and is
counted as one. Labels that can be guessed, or that follow from one another (a sentence that is true of one pair of images
and false of the other), hide less, and a number made of their skew would tell it: for mostly true statements, or such
sentences, set stricter limits than the ones that are checked.

That bounds all labels together. A single label is got sooner, by the difference attack: scores that are all tied are wrong
everywhere, so a file that guesses the first `j` items and ties the rest scores (right guesses among them) / n. A binary
search over `j` finds the item at which the rounded number first rises: that guess is right. From then on each submission
tells the label of one more item. `submissions_for_one_label` counts that attack; rounding makes it longer by a logarithm
only, so what guards the labels is the limit on submissions, and a private split of which nothing is told before the
benchmark is closed.
"""

from __future__ import annotations

import math
from fractions import Fraction

from tellapart.errors import MetricError

__all__ = [
    "bits_told",
    "first_step",
    "hidden_bits",
    "round_to",
    "submissions_for_all_labels",
    "submissions_for_one_label",
]


def _step(step: float) -> Fraction:
    exact = Fraction(str(step))
    if not 0 < exact <= Fraction(1, 2) or Fraction(1) % exact:
        raise MetricError(f"a step of {step} does not divide 1; use one such as 0.01, 0.005 or 0.001")
    return exact


def round_to(value: float, step: float) -> float:
    """Round a fraction to the nearest multiple of a step; halves up.

    Args:
        value: from 0 to 1.
        step: divides 1.

    Raises:
        MetricError: the step does not divide 1, or the value is not in [0, 1].

    >>> round_to(0.4361, 0.005), round_to(0.125, 0.01)
    (0.435, 0.13)
    """
    if not 0 <= value <= 1:
        raise MetricError(f"only fractions are rounded here; got {value}, which is not in [0, 1]")
    exact = _step(step)
    return float(math.floor(Fraction(value) / exact + Fraction(1, 2)) * exact)


def bits_told(submissions: int, step: float, numbers: int = 1) -> float:
    """Return the most bits that so many submissions can be told: log2 of the different answers, added up.

    Args:
        submissions: how many files are measured.
        step: to which each number is rounded.
        numbers: told of each file.

    Source: the counting bound; Blum and Hardt, The Ladder (2015), section 3, use it in the same way.

    >>> round(bits_told(20, 0.01), 1)
    133.2
    """
    return submissions * numbers * math.log2(1 + 1 / _step(step))


def hidden_bits(items: int, shape: tuple[int, int] | None) -> float:
    """Return how many bits the labels of some items are: which text belongs to which image; one for a task's record.

    Args:
        items: how many.
        shape: images and texts of an item; None for a task's records.

    >>> hidden_bits(4000, (2, 2)), round(hidden_bits(100, (1, 5)), 1), hidden_bits(5662, None)
    (4000.0, 232.2, 5662.0)
    """
    if shape is None:
        return float(items)
    images, texts = shape
    return items * math.log2(math.factorial(images) if images == texts else max(images, texts))


def submissions_for_all_labels(items: int, shape: tuple[int, int] | None, step: float, numbers: int = 1) -> int:
    """Return the fewest submissions from which anybody could work out every label: the information bound.

    >>> submissions_for_all_labels(4000, (2, 2), 0.01)
    601
    """
    return math.ceil(hidden_bits(items, shape) / bits_told(1, step, numbers))


def first_step(items: int, step: float) -> int:
    """Return how many of the items must be right before the rounded number is not 0 any more.

    >>> first_step(4000, 0.01), first_step(40, 0.01)
    (20, 1)
    """
    return max(1, math.ceil(_step(step) * items / 2))


def submissions_for_one_label(items: int, step: float, shape: tuple[int, int] | None = (2, 2)) -> int:
    """Return how many submissions the difference attack takes until it is certain of one label.

    The attacker is taken to know which items the number is over. Where one right item shows already, a file that guesses one
    and ties the rest tells its label. Else one file guesses enough items for the number to rise, and a binary search finds
    how many of them are needed: a guess is right once in `c` (2 for items of two images and two texts), so `c` times
    `first_step` items would do on average, and twice as many are taken. Each further label takes one more submission.
    In a task, what ties is an answer that is wrong for certain (an empty one, a box without area, neither caption).
    A statement's label has none: there two files whose numbers differ are needed first, and the search is between them,
    which takes longer on average.

    Args:
        items: of the split whose numbers are told.
        step: to which they are rounded.
        shape: images and texts of an item; None for a task's records.

    >>> submissions_for_one_label(4000, 0.01), submissions_for_one_label(4000, 0.001), submissions_for_one_label(40, 0.01)
    (8, 4, 1)
    """
    needed = first_step(items, step)
    if needed == 1:
        return 1
    choices = round(2 ** hidden_bits(1, shape))
    return 1 + math.ceil(math.log2(min(items, 2 * choices * needed)))
