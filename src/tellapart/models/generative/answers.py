"""Models that answer prompts in words, and parsers of their answers: a pairing of captions, true or false, a box.

Each parser states its grammar. It returns None for an answer that the grammar does not cover, and callers count those
answers.

EqBen shows a chat model two images side by side and lists two captions: which belongs to which image? The question is
put in both orders of the captions, because a model that repeats the order of the list looks perfect in one of them:
LLaVA got 90 % and 0 % in the paper. No single pair gets a score: an item's pairing is right or wrong as a unit.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tellapart.data.answer_text import plain_answer, read_label
from tellapart.errors import ModelError
from tellapart.metrics.order_bias import OrderBias, order_bias
from tellapart.models.protocols import Model, Pixels
from tellapart.models.scoring.frames import list_frames

if TYPE_CHECKING:
    from tellapart.models.generative.prompts import Prompt
    from tellapart.models.generative.reader import Task
    from tellapart.models.generative.sampling import Sampling

Corners = tuple[float, float, float, float]  # x1, y1, x2, y2

#: Numbers with `;` between them, such as `1;2` or `#2 ; #1; 3`; neither `-1;2` nor `1.1;2`.
_NUMBERS = re.compile(r"(?<![\d.])(?<!\A-)(?<!\s-)\d+(?:\s*;\s*#?\s*\d+)+(?!\.?\d)")
_BARE_PAIR = re.compile(r"""[\s"']*#?\s*([12])\s*,\s*#?\s*([12])[\s"'.]*""")
_MENTION = re.compile(r"\b(?:caption|index)\s*#?\s*([12])\b|\b(left|right)\b", re.IGNORECASE)
_VERDICTS = {"true": True, "yes": True, "false": False, "no": False}
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")  # red, isn't
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
       captions and two sides, in turn, each caption next to its side, all four different, without `not` or `n't`.

    None: neither form, several pairs that differ, or one caption for both images.

    >>> [parse_pairing(answer) for answer in ("1;2", "Left: caption 2. Right: caption 1.", "Caption 1 is not left")]
    [(1, 2), (2, 1), None]

    Source: EqBen section 5.5, whose prompt asks for `A;B`.
    """
    bare = _BARE_PAIR.fullmatch(answer)
    pairs = {tuple(map(int, bare.groups()))} if bare else _read_pairs(answer)
    if pairs:
        return _as_permutation(pairs.pop()) if len(pairs) == 1 else None
    mentions = [caption or side.lower() for caption, side in _MENTION.findall(answer)]
    are_captions = [mention.isdigit() for mention in mentions]
    if are_captions not in ([True, False, True, False], [False, True, False, True]) or _holds_not(_list_words(answer)):
        return None
    captions = [int(mention) for mention in mentions if mention.isdigit()]
    caption_of = dict(zip([mention for mention in mentions if not mention.isdigit()], captions, strict=True))
    return _as_permutation((caption_of["left"], caption_of["right"])) if len(caption_of) == 2 else None


def _read_pairs(answer: str) -> set[tuple[int, ...]]:
    """Return the pairs of 1 and 2 among numbers with `;` between them; an odd number of numbers holds none."""
    pairs: set[tuple[int, ...]] = set()
    for found in _NUMBERS.findall(answer):
        numbers = [int(number) for number in re.findall(r"\d+", found)]
        if len(numbers) % 2 == 0:
            pairs |= {pair for pair in zip(numbers[::2], numbers[1::2], strict=True) if {*pair} <= {1, 2}}
    return pairs


def _as_permutation(pair: tuple[int, ...]) -> tuple[int, int] | None:
    left, right = pair
    return (left, right) if left != right else None


def _list_words(answer: str) -> list[str]:
    return _WORD.findall(answer.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'"))


def _holds_not(words: Sequence[str]) -> bool:
    return any(word == "not" or word.endswith("n't") for word in words)


def parse_verdict(answer: str) -> bool | None:
    """Read whether an answer calls a statement true: True, False or None.

    The grammar: a label alone (`read_label`), or of the words true, yes, false and no, in any case, the answer holds
    those of one meaning only, and no `not` or `n't`. Anything else is None.
    """
    if (label := read_label(answer)) is not None:
        return label
    words = _list_words(plain_answer(answer))
    verdicts = {_VERDICTS[word] for word in words if word in _VERDICTS}
    return verdicts.pop() if len(verdicts) == 1 and not _holds_not(words) else None


def parse_box(
    answer: str, unit: tuple[int, int], size: tuple[int, int], padded: tuple[int, int] | None = None
) -> Corners | None:
    """Read the first box of an answer: x1, y1, x2, y2 in pixels of the picture, clipped to it; or None.

    `size` is the picture's width and height in pixels. `padded` is that of the picture as the model saw it, if it was
    padded on all sides. `unit` is the width and height of the seen picture in the numbers that the answer uses.

    The grammar: four numbers as `[x1, y1, x2, y2]`, `(x1, y1, x2, y2)` or `(x1, y1), (x2, y2)`, left before right and
    top before bottom. The first box counts. None: there is none, or it has no area inside the picture.
    """
    matches = [match for form in _BOXES if (match := form.search(answer))]
    if not matches:
        return None
    numbers = [float(number) for number in min(matches, key=lambda match: match.start()).groups()]
    shown = padded or size
    margins = [(side - inside) // 2 for side, inside in zip(shown, size, strict=True)]
    corners = [
        min(max(number * shown[axis % 2] / unit[axis % 2] - margins[axis % 2], 0.0), float(size[axis % 2]))
        for axis, number in enumerate(numbers)
    ]
    x1, y1, x2, y2 = corners
    return (x1, y1, x2, y2) if x1 < x2 and y1 < y2 and all(map(math.isfinite, corners)) else None


#: "1;2" has four tokens or so; a sentence of the same meaning fits, too.
ANSWER_TOKENS = 48


@runtime_checkable
class Chooser(Model, Protocol):
    """A model that answers in words which of two captions belongs to which of two images."""

    def choose(self, images: Sequence[tuple[Pixels, Pixels]], captions: Sequence[tuple[str, str]]) -> list[str]:
        """Return the model's words on each pair of images (left, right) with its pair of captions (1, 2)."""


class Prompted(ABC):
    """A model that answers prompts about images in words, in this process or on a server.

    Attributes:
        tasks: the prompt of each task that the model can do.
        lacks_task: in the error on any other task, the words between the model's name and "has no task".
        sampling: how answers are drawn; None: each is the likeliest.
    """

    name: str
    prompt: Prompt
    tasks: Mapping[Task, Prompt]
    lacks_task: str
    sampling: Sampling | None = None

    @abstractmethod
    def write_answers(self, requests: Sequence[tuple[list[Pixels], str]], most: int) -> list[str]:
        """Answer each prompt about its pictures, in at most `most` tokens."""

    def answer(
        self, images: Sequence[Sequence[Pixels]], prompts: Sequence[str], *, max_new_tokens: int = 32
    ) -> list[str]:
        """Answer prompt `k` about the images `k`, likeliest or drawn (`sampling`), without blanks at the ends.

        No answer depends on the other prompts.
        """
        if len(images) != len(prompts):
            raise ModelError(
                f"{self.name}: {len(prompts)} prompts, but {len(images)} lists of images; give a list for each prompt"
            )
        frames = [[frame for image in item for frame in list_frames(image)] for item in images]
        return self.write_answers(list(zip(frames, prompts, strict=True)), max_new_tokens)

    def task_prompt(self, task: Task) -> Prompt:
        """Return this model's prompt for a task; `prompt.fill(...)` makes the text for `answer`."""
        if task not in self.tasks:
            raise ModelError(f"{self.name}{self.lacks_task} has no task {task!r}; it has {', '.join(self.tasks)}")
        return self.tasks[task]

    def expect_likeliest(self) -> None:
        """Refuse to score by a model whose answers are drawn."""
        if self.sampling is not None:
            raise ModelError(f"{self.name}: this set takes scores, and draws are of answers; leave samples= out")


class PromptedChooser(Prompted):
    """A chat model that reads both images side by side in one picture, and answers EqBen's prompt.

    Source: EqBen (Wang et al. 2023), section 5.5 and Table 7.
    """

    def show_sides(self, left: Pixels, right: Pixels) -> list[Pixels]:
        """Return the picture of both images; of two videos, one of each pair of frames."""
        return [side_by_side(*sides) for sides in zip(list_frames(left), list_frames(right), strict=True)]

    def choose(self, images: Sequence[tuple[Pixels, Pixels]], captions: Sequence[tuple[str, str]]) -> list[str]:
        """Return the free text on each pair of images (left, right) with its captions, listed as 1 and 2."""
        if len(images) != len(captions):
            raise ModelError(
                f"{self.name}: {len(images)} pairs of images and {len(captions)} of captions; give as many"
            )
        asked = [self.prompt.fill(first=first, second=second) for first, second in captions]
        return self.answer([self.show_sides(*sides) for sides in images], asked, max_new_tokens=ANSWER_TOKENS)


@dataclass(frozen=True, slots=True, eq=False)
class BothOrders:
    """A model's answers to each 2x2 item: caption 1 belongs to the left image if `in_order`, caption 2 if `swapped`."""

    in_order: tuple[str, ...]
    swapped: tuple[str, ...]

    @property
    def bias(self) -> OrderBias:
        """Right and wrong in both orders: `true_first` is `in_order`. An answer that cannot be read is wrong."""

        def list_signs(answers: Sequence[str], right: tuple[int, int]) -> NDArray[np.int_]:
            sign_of = {right: 1, right[::-1]: -1, None: 0}
            return np.array([sign_of[parse_pairing(answer)] for answer in answers])

        return order_bias(list_signs(self.in_order, (1, 2)), list_signs(self.swapped, (2, 1)))

    def measure(self) -> dict[str, NDArray[np.float64]]:
        """Return metrics by name, each with a value for every item, float64 `(item,)`, for means and intervals.

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


def side_by_side(left: Pixels, right: Pixels) -> Pixels:
    """Put two images side by side without a gap; the one of less height is enlarged to the other's (bicubic)."""
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
