"""Models of a fusion encoder's heads other than the match: listed answers, a sentence on two images, boxes, captions.

As for scores, each image's and text's half runs once while it is kept, and nothing depends on its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from tellapart.errors import ModelError
from tellapart.models.fusion.scoring import FusionScorer, StateModel, TorchFusionEncoder, TorchState
from tellapart.models.generative.prompts import Prompt
from tellapart.models.generative.reader import Task
from tellapart.models.protocols import Pixels, Sides
from tellapart.models.torch.backend import forward
from tellapart_native.heads.answers import Answers
from tellapart_native.heads.decoding import Writer


def heat_box(heat: NDArray[np.float32], size: tuple[int, int], candidates: Sequence[Sides] = ()) -> Sides:
    """Return the box whose sum of heat over the square root of its area is the greatest; of equal ones the first.

    With candidates (a detector's proposals) it is one of them: the map is enlarged to the image, bicubic, and summed
    over each one's pixels, as ALBEF's authors do with MAttNet's proposals. If none has any heat, the authors keep the
    box of the image before; here it is the first candidate. Without candidates it is one of all rectangles of the map's
    cells, for which nobody published numbers.

    >>> heat = np.zeros((4, 4), np.float32)
    >>> heat[1:3, 2] = 1
    >>> heat_box(heat, (80, 40))
    (40.0, 10.0, 20.0, 20.0)
    >>> heat_box(heat, (80, 40), [(0, 0, 40, 40), (42, 9, 20, 20), (0, 0, 80, 40)])
    (42.0, 9.0, 20.0, 20.0)
    """
    if not candidates:
        return _best_cells(heat, size)
    resized = torch.nn.functional.interpolate(
        torch.from_numpy(np.ascontiguousarray(heat))[None, None], (size[1], size[0]), mode="bicubic"
    )[0, 0].numpy()
    densities = []
    for x, y, width, height in candidates:
        inside = resized[max(int(y), 0) : int(y + height), max(int(x), 0) : int(x + width)]
        densities.append(inside.sum(dtype=np.float64) / max(width * height, 1e-9) ** 0.5)
    x, y, width, height = candidates[int(np.argmax(densities))]
    return float(x), float(y), float(width), float(height)


def _best_cells(heat: NDArray[np.float32], size: tuple[int, int]) -> Sides:
    """Find the best of all rectangles of cells, by the sums of those that begin in the corner (a summed-area table)."""
    rows, columns = heat.shape
    corner = np.zeros((rows + 1, columns + 1))
    corner[1:, 1:] = heat.astype(np.float64).cumsum(0).cumsum(1)
    top, bottom = np.triu_indices(rows + 1, 1)
    left, right = np.triu_indices(columns + 1, 1)
    between = corner[bottom] - corner[top]  # (pairs of rows, columns + 1)
    sums = between[:, right] - between[:, left]
    area = np.multiply.outer((bottom - top) / rows * size[1], (right - left) / columns * size[0])
    row_pair, column_pair = np.unravel_index(int(np.argmax(sums / area**0.5)), sums.shape)
    wide, high = size[0] / columns, size[1] / rows
    x, y = left[column_pair] * wide, top[row_pair] * high
    return float(x), float(y), float(right[column_pair] * wide - x), float(bottom[row_pair] * high - y)


class FusionHead(StateModel):
    """The base of models by one head: its output for an image and a text."""

    encoder: TorchFusionEncoder

    def outputs(self, images: Sequence[Pixels], texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """Return the head's output for image and text `k`."""
        self._expect_images(texts, images)
        return self.encoder.outputs(self.image_states(images), self.text_states(texts))

    def _expect_images(self, texts: Sequence[str], *images: Sequence[Any]) -> None:
        if any(len(side) != len(texts) for side in images):
            counts = " and ".join(str(len(side)) for side in images)
            raise ModelError(f"{self.name}: {len(texts)} texts with {counts} images; give an image for each text")


class FusionAnswers(FusionHead):
    """Chooses the answer with the greatest number; of equal ones that which is first in the list."""

    def choose_answers(self, images: Sequence[Pixels], questions: Sequence[str]) -> list[str]:
        """Answer question `k` about image `k`."""
        answers = cast("Answers", self.encoder.halves).answers
        return [answers[int(numbers.argmax())] for numbers in self.outputs(images, questions)]


class FusionTwoImages(FusionHead):
    """Judges a sentence about two images; each image is encoded once, whichever side it stands on."""

    def judge(self, left: Sequence[Pixels], right: Sequence[Pixels], sentences: Sequence[str]) -> NDArray[np.float32]:
        """Return P(sentence `k` is true of the images `k`): float32 `(n,)`."""
        self._expect_images(sentences, left, right)
        states = self.image_states([*left, *right])
        sides = zip(states[: len(left)], states[len(left) :], strict=True)
        both = [TorchState(first.tensors + second.tensors) for first, second in sides]
        return self.encoder.score_states(both, self.text_states(sentences))


class FusionBoxes(FusionHead):
    """Finds boxes by a head that puts out middle x, middle y, width and height as shares of the image."""

    def find_boxes(
        self, images: Sequence[Pixels], phrases: Sequence[str], candidates: Sequence[Sequence[Sides]]
    ) -> list[Sides]:
        """Return x, y, width and height in pixels of the box of phrase `k` in image `k`; candidates are not read."""
        del candidates
        boxes = []
        for image, (x, y, width, height) in zip(images, self.outputs(images, phrases), strict=True):
            rows, columns = image.shape[:2]
            left, top = (x - width / 2) * columns, (y - height / 2) * rows
            boxes.append((float(left), float(top), float(width * columns), float(height * rows)))
        return boxes


class FusionHeat(FusionHead):
    """Finds boxes by a map of where the image supports the match (weakly supervised: no box was ever seen)."""

    def find_boxes(
        self, images: Sequence[Pixels], phrases: Sequence[str], candidates: Sequence[Sequence[Sides]]
    ) -> list[Sides]:
        """Return the candidate, or the rectangle of the map's cells, that holds the most heat: see `heat_box`."""
        rows = zip(self.outputs(images, phrases), images, candidates, strict=True)
        return [heat_box(heat, (image.shape[1], image.shape[0]), boxes) for heat, image, boxes in rows]


class NativeCaptioner(StateModel):
    """A pair's score is log P(text and its end | image), in nats: a sum over its tokens, or a mean (`halves.mean`)."""

    batch_size = FusionScorer.batch_size
    log_likelihoods = StateModel.pair_numbers

    def __init__(self, encoder: TorchFusionEncoder) -> None:
        super().__init__(encoder)
        self.prepare_image = encoder.prepare_image
        self.kind = "similarity"  # a log-probability: no logit of a match, and no probability
        tokens = int(encoder.preparation.texts.tokens([""], 8)["attention_mask"].sum())
        if tokens < 2:
            raise ModelError(
                f"{self.name}: its tokenizer gives an empty text {tokens} tokens, not a beginning and an end, without "
                "which no caption has a likelihood; name the captioner's tokenizer with tokenizer=FOLDER"
            )


class NativeWriter(NativeCaptioner):
    """A captioner that also writes, by its authors' beam search, one image at a time: no caption has neighbours."""

    def __init__(self, encoder: TorchFusionEncoder) -> None:
        super().__init__(encoder)
        self.halves = cast("Writer", encoder.halves)

    def task_prompt(self, task: Task) -> Prompt:
        """Return the prompt of captions."""
        if task != "caption":
            raise ModelError(f"{self.name} writes captions, and has no task {task!r}")
        return self.halves.prompt

    def answer(
        self, images: Sequence[Sequence[Pixels]], prompts: Sequence[str], *, max_new_tokens: int = 32
    ) -> list[str]:
        """Write a caption of the image `k`."""
        if len(images) != len(prompts) or any(len(pictures) != 1 for pictures in images):
            counts = ", ".join(str(len(pictures)) for pictures in images)
            raise ModelError(f"{self.name}: {len(prompts)} prompts with {counts or 'no'} images; give one for each")
        prompt_text = self.halves.prompt.text
        other = next((prompt for prompt in prompts if prompt != prompt_text), None)
        if other is not None:
            raise ModelError(f"{self.name} writes captions, which it is asked for with {prompt_text!r}; got {other!r}")
        states = self.encoder.encode_images([picture for (picture,) in images])
        halves = [tuple(tensor[None] for tensor in state.tensors) for state in states]
        with forward(self.name, self.halves.module):
            return [self.halves.write_text(half, max_new_tokens) for half in halves]
