"""Parsers of a model's free text: which caption belongs to which image, true or false, or a box.

Each function states its grammar. An answer that the grammar does not cover is None, never a guess, so that callers can
count those.
"""

from __future__ import annotations

import math
import re

from tellapart.data.answer_text import plain_answer, read_label

Corners = tuple[float, float, float, float]  # x1, y1, x2, y2

_PAIR = re.compile(r"(?<![\d.])#?\s*([12])\s*;\s*#?\s*([12])(?!\.?\d)")
_BARE_PAIR = re.compile(r"""[\s"']*#?\s*([12])\s*,\s*#?\s*([12])[\s"'.]*""")
_MENTION = re.compile(r"\b(?:caption|index)\s*#?\s*([12])\b|\b(left|right)\b", re.IGNORECASE)
_VERDICTS = {"true": True, "yes": True, "false": False, "no": False}
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
_NUMBER = r"\s*(-?\d+(?:\.\d+)?)\s*"
_BOXES = (
    re.compile(rf"\[{_NUMBER},{_NUMBER},{_NUMBER},{_NUMBER}\]"),
    re.compile(rf"\({_NUMBER},{_NUMBER}\)\s*,?\s*\({_NUMBER},{_NUMBER}\)"),
    re.compile(rf"\({_NUMBER},{_NUMBER},{_NUMBER},{_NUMBER}\)"),
)


def parse_pairing(answer: str) -> tuple[int, int] | None:
    """Read which caption belongs to the left image and which to the right one: (1, 2), (2, 1) or None.

    The grammar:

    1. `A;B` with A and B each 1 or 2 (blanks, and a `#` before a number, are allowed) is caption A left and caption B
       right. If the answer holds such pairs, they decide. `A,B` is the same if it is all of the answer.
    2. Otherwise the mentions of `caption 1`, `caption 2`, `left` and `right` are read in order; they must be two
       captions and two sides, in turn, each caption next to its side, all four different.

    None: neither form, several pairs that differ, or one caption for both images.

    Source: EqBen section 5.5, whose prompt asks for `A;B`.
    """
    bare = _BARE_PAIR.fullmatch(answer)
    pairs = {(int(left), int(right)) for left, right in ([bare.groups()] if bare else _PAIR.findall(answer))}
    if pairs:
        return _as_permutation(pairs.pop()) if len(pairs) == 1 else None
    mentions = [caption or side.lower() for caption, side in _MENTION.findall(answer)]
    kinds = [mention.isdigit() for mention in mentions]
    if len(mentions) != 4 or kinds[0] == kinds[1] or kinds[2:] != kinds[:2]:
        return None
    captions = [int(mention) for mention in mentions if mention.isdigit()]
    caption_of = dict(zip([mention for mention in mentions if not mention.isdigit()], captions, strict=True))
    return _as_permutation((caption_of["left"], caption_of["right"])) if len(caption_of) == 2 else None


def _as_permutation(pair: tuple[int, int]) -> tuple[int, int] | None:
    return pair if pair[0] != pair[1] else None


def parse_verdict(answer: str) -> bool | None:
    """Read whether an answer calls a statement true: True, False or None.

    The grammar: a label alone (`read_label`), or of the words true, yes, false and no, in any case, the answer holds
    those of one meaning only, and no `not` or `n't`. Anything else is None.
    """
    if (label := read_label(answer)) is not None:
        return label
    words = _WORD.findall(plain_answer(answer).lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'"))
    verdicts = {_VERDICTS[word] for word in words if word in _VERDICTS}
    if len(verdicts) != 1 or any(word == "not" or word.endswith("n't") for word in words):
        return None
    return verdicts.pop()


def parse_box(answer: str, unit: tuple[int, int], size: tuple[int, int]) -> Corners | None:
    """Read the first box of an answer: x1, y1, x2, y2 in pixels of the picture, clipped to it; or None.

    `unit` is the picture's width and height in the answer's numbers, `size` in pixels.

    The grammar: four numbers as `[x1, y1, x2, y2]`, `(x1, y1, x2, y2)` or `(x1, y1), (x2, y2)`, left before right and
    top before bottom. The first box counts. None: there is none, or it has no area inside the picture.
    """
    matches = [match for form in _BOXES if (match := form.search(answer))]
    if not matches:
        return None
    numbers = [float(number) for number in min(matches, key=lambda match: match.start()).groups()]
    corners = [
        min(max(number * size[axis % 2] / unit[axis % 2], 0.0), float(size[axis % 2]))
        for axis, number in enumerate(numbers)
    ]
    x1, y1, x2, y2 = corners
    return (x1, y1, x2, y2) if x1 < x2 and y1 < y2 and all(map(math.isfinite, corners)) else None
