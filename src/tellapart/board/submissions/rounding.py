"""Rounding of published numbers, and bounds on how much of the hidden labels they give away.

A number rounded to a step of 0.01 takes one of 101 values, so a submission that gets one number learns at most
log2(101) = 6.66 bits. Labels are bits, too: an item of two images and two texts hides one (which text is the first
image's), an item of `m` texts hides log2(m). A task's record counts as one bit: a statement's label or the true one of
two captions is one, if both are as likely; an answer in words or a box is more. Labels that can be guessed, or that
follow from one another (a sentence that is true of one pair of images and false of the other), hide less, and a number
computed from their skew would reveal it: for mostly true statements, or such sentences, set stricter limits.

That bounds all labels together. The difference attack gets a single label sooner: tied scores are always wrong, so a
file that guesses the first `j` items and ties the rest scores (right guesses among them) / n. A search over `j` finds
the item at which the rounded number first rises: that guess is right. From then on each submission reveals one more
label, or more where a step is a few items: there sums over several items are learnt at once. `bench/label_attack.py`
carries out both attacks. `submissions_for_one_label` counts the search. Rounding makes it longer by a logarithm only,
so the guard of the labels is the limit on submissions, and a private split whose numbers are published only after
closing.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import accumulate

from tellapart.errors import MetricError

#: A probability that is left out of a sum.
_NEVER = 1e-12


def _exact_step(step: float) -> Fraction:
    exact = Fraction(str(step))
    if not 0 < exact <= Fraction(1, 2) or Fraction(1) % exact:
        raise MetricError(f"a step of {step} does not divide 1; use one such as 0.01, 0.005 or 0.001")
    return exact


def round_to(value: float, step: float) -> float:
    """Round a fraction to the nearest multiple of a step; halves up.

    >>> round_to(0.4361, 0.005), round_to(0.125, 0.01)
    (0.435, 0.13)
    """
    if not 0 <= value <= 1:
        raise MetricError(f"only fractions are rounded here; got {value}, which is not in [0, 1]")
    over, under = _exact_step(step).as_integer_ratio()
    top, bottom = float(value).as_integer_ratio()  # whole numbers, since the steps of a Fraction depend on its value
    return (2 * top * under + bottom * over) // (2 * bottom * over) * over / under


def in_points(step: float) -> str:
    """Return a step as percentages are read: in points.

    >>> in_points(0.05), in_points(0.01), in_points(0.001)
    ('5 points', '1 point', '0.1 points')
    """
    points = f"{float(100 * _exact_step(step)):g}"
    return f"{points} point" if points == "1" else f"{points} points"


def leaked_bits(submissions: int, step: float, numbers: int = 1) -> float:
    """Return the most bits that submissions can learn: log2 of the possible values, summed over the numbers of each.

    Source: the counting bound, used likewise in Blum and Hardt, The Ladder (2015), section 3.

    >>> round(leaked_bits(20, 0.01), 1)
    133.2
    """
    return submissions * numbers * math.log2(1 + 1 / _exact_step(step))


def label_bits(items: int, shape: tuple[int, int] | None) -> float:
    """Return the bits in the labels of some items: which text belongs to which image; one bit for a task's record.

    >>> label_bits(4000, (2, 2)), round(label_bits(100, (1, 5)), 1), label_bits(5662, None)
    (4000.0, 232.2, 5662.0)
    """
    if shape is None:
        return float(items)
    images, texts = shape
    return items * math.log2(math.factorial(images) if images == texts else max(images, texts))


def allowed_submissions(items: int, shape: tuple[int, int] | None, step: float, share: float, numbers: int = 1) -> int:
    """Return the most submissions that together give at most a share of the labels' bits away.

    >>> allowed_submissions(150, (2, 2), 0.02, 0.5)
    13
    """
    return int(share * label_bits(items, shape) / leaked_bits(1, step, numbers))


def submissions_for_all_labels(items: int, shape: tuple[int, int] | None, step: float, numbers: int = 1) -> int:
    """Return the fewest submissions that could reveal every label: the information bound.

    >>> submissions_for_all_labels(4000, (2, 2), 0.01)
    601
    """
    return math.ceil(label_bits(items, shape) / leaked_bits(1, step, numbers))


def first_step(items: int, step: float) -> int:
    """Return how many items must be right before the rounded number rises above 0.

    >>> first_step(4000, 0.01), first_step(40, 0.01)
    (20, 1)
    """
    return max(1, math.ceil(_exact_step(step) * items / 2))


@cache
def submissions_for_one_label(items: int, step: float, shape: tuple[int, int] | None = (2, 2)) -> float:
    """Return how many submissions the best search that we know takes on average until it is certain of one label.

    The attacker is assumed to know the items of the split, and to guess each label rightly once in `c` (2 for items of
    two images and two texts). If one right item changes the number, one file with one guess reveals its label. Else the
    guess at which the number rises is at a place that is distributed as the `first_step`-th success (a negative
    binomial), and each file halves what is left of that probability: a search in equal halves of places takes longer.
    In a task the tie is an answer that is certainly wrong (an empty one, a box without area, neither caption). A
    statement has none, and the search between two files whose numbers differ takes longer.

    >>> [round(submissions_for_one_label(*board), 2) for board in ((4000, 0.01), (4000, 0.001), (150, 0.02))]
    [4.71, 2.75, 2.75]
    """
    needed = first_step(items, step)
    if needed == 1:
        return 1.0
    totals = [0.0, *accumulate(rise_chances(items, step, shape))]

    def count_files(start: int, end: int) -> float:
        """Count the files of a search among places, times the probability that it comes to them."""
        if end - start < 2 or (share := totals[end] - totals[start]) < _NEVER:
            return 0.0
        middle = middle_place(totals, start, end)
        return share + count_files(start, middle) + count_files(middle, end)

    return count_files(0, len(totals) - 1)


def rise_chances(items: int, step: float, shape: tuple[int, int] | None = (2, 2)) -> list[float]:
    """Return how probably the number first rises with guess `first_step`, with the next, and so on; at the end: never.

    >>> [round(chance, 4) for chance in rise_chances(150, 0.02)[:4]]
    [0.25, 0.25, 0.1875, 0.125]
    """
    needed, right = first_step(items, step), 2 ** -label_bits(1, shape)
    last = min(items, math.ceil((needed + 12 * math.sqrt(needed)) / right))  # what lies beyond is below a millionth
    right_and_wrong = math.log(right), math.log1p(-right)
    chances = []
    for place in range(needed, last + 1):
        ways = math.lgamma(place) - math.lgamma(needed) - math.lgamma(place - needed + 1)
        chances.append(math.exp(ways + needed * right_and_wrong[0] + (place - needed) * right_and_wrong[1]))
    return [*chances, max(0.0, 1 - sum(chances))]


def middle_place(totals: Sequence[float], start: int, end: int) -> int:
    """Return the place between two others, of running totals, that parts what lies between them most evenly.

    >>> middle_place([0, 0.5, 0.7, 1], 0, 3), middle_place([0, 0.5, 0.7, 1], 1, 3)
    (1, 2)
    """
    half = (totals[start] + totals[end]) / 2
    place = bisect_left(totals, half, start + 1, end - 1)
    return place - 1 if place - 1 > start and half - totals[place - 1] < totals[place] - half else place
