"""EqBen's protocol for chat models: both images side by side, both captions listed, which belongs where?

The question is asked in both orders of the captions, because a model that repeats the order of the list looks perfect
in one of them: LLaVA got 90 % and 0 % in the paper. The protocol gives no score of an image and a text. It measures
whether all of an item's pairing is right, which is the group score, and how much the order alone decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tellapart.data.answer_text import strip_thought
from tellapart.data.pairset import PairSet
from tellapart.data.progress import Progress
from tellapart.errors import DataError, ModelError
from tellapart.metrics.order_bias import OrderBias, order_bias
from tellapart.models.generative.answers_grammar import parse_pairing
from tellapart.models.generative.prompts import EQBEN_CHOICE
from tellapart.models.generative.reader import Reader
from tellapart.models.generative.readings import Generative
from tellapart.models.protocols import Model, Pixels
from tellapart.models.scoring.frames import list_frames

#: "1;2" has four tokens or so; a sentence of the same meaning fits, too.
ANSWER_TOKENS = 48


@runtime_checkable
class Chooser(Model, Protocol):
    """A model that answers in words which of two captions belongs to which of two images."""

    def choose(self, images: Sequence[tuple[Pixels, Pixels]], captions: Sequence[tuple[str, str]]) -> list[str]:
        """Answer, in the model's words, for images `k` (left, right) and captions `k` (1, 2)."""
        ...


class ChoiceModel(Generative):
    """A chat model that reads both images in one picture, and answers EqBen's prompt.

    The images are side by side without a gap. If the model's processor cuts a wide picture to its centre (LLaVA's
    does), the picture is first padded to a square: otherwise the outer half of either image would be lost.

    Source: EqBen (Wang et al. 2023), section 5.5 and Table 7.
    """

    def __init__(self, reader: Reader, *, dtype: str = "float32") -> None:
        super().__init__(reader, EQBEN_CHOICE, f"choice, {ANSWER_TOKENS} tokens", dtype)
        self._square = bool(getattr(reader.processor.image_processor, "do_center_crop", False))

    def choose(self, images: Sequence[tuple[Pixels, Pixels]], captions: Sequence[tuple[str, str]]) -> list[str]:
        """Answer for images `k` (left, right) and captions `k` (listed as 1 and 2): free text, one by one."""
        if len(images) != len(captions):
            raise ModelError(
                f"{self.name}: {len(images)} pairs of images and {len(captions)} of captions; give as many"
            )
        pictures = [beside_each_other(left, right) for left, right in images]
        if self._square:
            pictures = [[pad_to_square(picture) for picture in own] for own in pictures]
        prompts = [self.prompt.fill(first=first, second=second) for first, second in captions]
        return self.answer(pictures, prompts, max_new_tokens=ANSWER_TOKENS)


@dataclass(frozen=True, slots=True, eq=False)
class BothOrders:
    """A model's answers to each 2x2 item: with caption 1 the left image's (`in_order`), and with them `swapped`."""

    ids: tuple[str, ...]
    in_order: tuple[str, ...]
    swapped: tuple[str, ...]

    @property
    def bias(self) -> OrderBias:
        """Right and wrong in both orders; an answer that cannot be read is neither caption order, and wrong.

        `true_first` is the order of the items, `chose_first` the share of answers that repeat the order of the list.
        """
        return order_bias(_read_answers(self.in_order, (1, 2)), _read_answers(self.swapped, (2, 1)))

    def measure(self) -> dict[str, NDArray[np.float64]]:
        """Return one value an item, each float64 `(item,)`, for means and intervals.

        - `group_score_in_order`, `group_score_swapped`: all of the pairing is right, in one order (Table 7's rows);
        - `group_score_both_orders`: right in both; chance 1/4, and 0 for a model that repeats the list;
        - `order_bias`: right in order less right swapped;
        - `followed_list`: share of answers that repeat the list's order, 1/2 for one that cannot be read;
        - `unparseable`: share of answers that cannot be read.
        """
        bias, both = self.bias, (self.in_order, self.swapped)
        unread = [[parse_pairing(answer) is None for answer in answers] for answers in both]
        return {
            "group_score_in_order": bias.true_first,
            "group_score_swapped": bias.true_second,
            "group_score_both_orders": bias.both,
            "order_bias": bias.difference,
            "followed_list": bias.chose_first,
            "unparseable": np.asarray(np.mean(unread, axis=0), np.float64),
        }


def ask_both_orders(
    model: Chooser, pairset: PairSet, *, batch_size: int = 8, progress: Progress | None = None
) -> BothOrders:
    """Ask a model about every 2x2 item, in both orders of the captions."""
    if pairset.shape != (2, 2):
        images, texts = pairset.shape
        raise DataError(
            f"{pairset.name} has items of {images} images and {texts} texts; which caption belongs where is asked of "
            "2x2 items"
        )
    in_order: list[str] = []
    swapped: list[str] = []
    for start in range(0, len(pairset), batch_size):
        items = pairset.items[start : start + batch_size]
        pictures = [(pairset.pixels(item.images[0]), pairset.pixels(item.images[1])) for item in items]
        listed = [(item.texts[0], item.texts[1]) for item in items]
        for answers, captions in ((in_order, listed), (swapped, [(second, first) for first, second in listed])):
            batch = model.choose(pictures, captions)
            if len(batch) != len(items):
                raise ModelError(f"model {model.name!r} returned {len(batch)} answers for {len(items)} items")
            answers.extend(map(strip_thought, batch))
        if progress is not None:
            progress("items", len(in_order), len(pairset))
    return BothOrders(tuple(item.id for item in pairset.items), tuple(in_order), tuple(swapped))


def beside_each_other(left: Pixels, right: Pixels) -> list[Pixels]:
    """Put two images into one picture, and each frame of two videos: left and right, as `side_by_side`."""
    return [side_by_side(*sides) for sides in zip(list_frames(left), list_frames(right), strict=True)]


def side_by_side(left: Pixels, right: Pixels) -> Pixels:
    """Put two images into one, left and right, without a gap.

    The lower one is first enlarged to the height of the other (bicubic, its proportions kept), so that neither is
    favoured.
    """
    height = max(left.shape[0], right.shape[0])
    return np.concatenate([_enlarge_picture(left, height), _enlarge_picture(right, height)], axis=1)


def pad_to_square(pixels: Pixels, colour: Sequence[int] = (127, 127, 127)) -> Pixels:
    """Pad an image to a square, the image in the middle, on middle grey or another colour."""
    height, width = pixels.shape[:2]
    side = max(height, width)
    canvas = np.full((side, side, 3), colour, np.uint8)
    top, left = (side - height) // 2, (side - width) // 2
    canvas[top : top + height, left : left + width] = pixels
    return canvas


def _enlarge_picture(pixels: Pixels, height: int) -> Pixels:
    if pixels.shape[0] == height:
        return pixels
    from PIL import Image

    width = max(1, round(pixels.shape[1] * height / pixels.shape[0]))
    return np.asarray(Image.fromarray(pixels).resize((width, height), Image.Resampling.BICUBIC))


def _read_answers(answers: Sequence[str], right: tuple[int, int]) -> NDArray[np.int64]:
    """Return 1 for the right pairing, -1 for the other one, 0 for an answer that cannot be read."""
    pairings = [parse_pairing(answer) for answer in answers]
    return np.array([0 if pairing is None else 1 if pairing == right else -1 for pairing in pairings])
