"""EqBen's protocol for chat models: both images side by side, both captions listed, which belongs where?

The question is asked in both orders of the captions, because a model that repeats the order of the list looks perfect
in one of them: LLaVA got 90 % and 0 % in the paper. No pair gets a score; all of an item's pairing is right or wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tellapart.metrics.order_bias import OrderBias, order_bias
from tellapart.models.generative.answers_grammar import parse_pairing
from tellapart.models.protocols import Model, Pixels
from tellapart.models.scoring.frames import list_frames

#: "1;2" has four tokens or so; a sentence of the same meaning fits, too.
ANSWER_TOKENS = 48


@runtime_checkable
class Chooser(Model, Protocol):
    """A model that answers in words which of two captions belongs to which of two images."""

    def choose(self, images: Sequence[tuple[Pixels, Pixels]], captions: Sequence[tuple[str, str]]) -> list[str]:
        """Answer, in the model's words, for images `k` (left, right) and captions `k` (1, 2)."""


@dataclass(frozen=True, slots=True, eq=False)
class BothOrders:
    """A model's answers to each 2x2 item: with caption 1 the left image's (`in_order`), and with them `swapped`."""

    ids: tuple[str, ...]
    in_order: tuple[str, ...]
    swapped: tuple[str, ...]

    @property
    def bias(self) -> OrderBias:
        """Right and wrong in both orders, `true_first` in the items'; an answer that cannot be read is wrong."""
        read = [[parse_pairing(answer) for answer in answers] for answers in (self.in_order, self.swapped)]
        signs = [
            np.array([0 if pairing is None else 1 if pairing == right else -1 for pairing in pairings])
            for pairings, right in zip(read, ((1, 2), (2, 1)), strict=True)
        ]
        return order_bias(*signs)

    def measure(self) -> dict[str, NDArray[np.float64]]:
        """Return one value an item, each float64 `(item,)`, for means and intervals.

        - `group_score_in_order`, `group_score_swapped`: all of the pairing is right, in one order (Table 7's rows);
        - `group_score_both_orders`: right in both; chance 1/4, and 0 for a model that repeats the list;
        - `pairing_bias`: right in order less right swapped;
        - `followed_list`: share of answers that repeat the list's order, 1/2 for one that cannot be read;
        - `unparseable`: share of answers that cannot be read.
        """
        bias, both = self.bias, (self.in_order, self.swapped)
        unread = [[parse_pairing(answer) is None for answer in answers] for answers in both]
        return {
            "group_score_in_order": bias.true_first,
            "group_score_swapped": bias.true_second,
            "group_score_both_orders": bias.both,
            "pairing_bias": bias.difference,
            "followed_list": bias.chose_first,
            "unparseable": np.asarray(np.mean(unread, axis=0), np.float64),
        }


def beside_each_other(left: Pixels, right: Pixels) -> list[Pixels]:
    """Put two images, or each frame of two videos, `side_by_side` into one picture."""
    return [side_by_side(*sides) for sides in zip(list_frames(left), list_frames(right), strict=True)]


def side_by_side(left: Pixels, right: Pixels) -> Pixels:
    """Put two images into one without a gap; the lower one is enlarged to the other's height (bicubic)."""
    from PIL import Image

    height = max(left.shape[0], right.shape[0])
    sides = []
    for side in (left, right):
        size = (max(1, round(side.shape[1] * height / side.shape[0])), height)
        enlarged = Image.fromarray(side).resize(size, Image.Resampling.BICUBIC)
        sides.append(side if side.shape[0] == height else np.asarray(enlarged))
    return np.concatenate(sides, axis=1)


def pad_to_square(pixels: Pixels, colour: Sequence[int] = (127, 127, 127)) -> Pixels:
    """Pad an image to a square, the image in the middle, on middle grey or another colour."""
    height, width = pixels.shape[:2]
    side = max(height, width)
    canvas = np.full((side, side, 3), colour, np.uint8)
    top, left = (side - height) // 2, (side - width) // 2
    canvas[top : top + height, left : left + width] = pixels
    return canvas
