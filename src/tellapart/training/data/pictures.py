"""Training pictures: read in threads, joined in pairs (CLIC), and augmented, by the seed, the step and the row alone.

torchvision's transforms are not used: they draw from torch's generator, which dropout and all reading threads share.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

from tellapart.builders.negatives.lexicon import FUNCTION_WORDS
from tellapart.errors import TellapartWarning
from tellapart.models.protocols import Pixels
from tellapart.training.config import TrainConfig
from tellapart.training.data.rows import TrainingRows
from tellapart.training.encoders import Inputs, Trainable

#: Draws of a second row, of another picture, that is as wide or high as the first; after them any shape is taken.
_TRIES = 32


@dataclass(frozen=True, slots=True)
class JoinedRows:
    """A row joined to a `second` one, by number; the second row's picture comes first if `swapped`.

    `captions` are true of the joined picture. In `false` a word of either row's caption has changed places; it is None
    if the result is true as well, or if a caption has no word that the other lacks.
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
    """Return two captions with a word of each in the other's place; None without two such words."""
    words = [dict.fromkeys(re.findall(r"[^\W\d_]+", text)) for text in (first, second)]  # runs of letters
    folded = [{word.casefold() for word in caption_words} | FUNCTION_WORDS for caption_words in words]
    of_first = [word for word in words[0] if word.casefold() not in folded[1]]
    of_second = [word for word in words[1] if word.casefold() not in folded[0]]
    if not of_first or not of_second:
        return None
    one, two = of_first[int(rng.integers(len(of_first)))], of_second[int(rng.integers(len(of_second)))]
    return re.sub(rf"\b{one}\b", two, first), re.sub(rf"\b{two}\b", one, second)


def join_pictures(first: Pixels, second: Pixels, side: int) -> Pixels:
    """Join two pictures to a square, uint8 `(side, side, 3)`; each is stretched to a half."""
    high, halves = first.shape[0] > first.shape[1], list[Pixels]()
    for pixels, part in ((first, side // 2), (second, side - side // 2)):
        size = (part, side) if high else (side, part)
        halves.append(np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC)))
    return np.concatenate(halves, axis=1 if high else 0)


class ImageLoader:
    """Reads, changes and prepares the images of rows, by many threads while another step is computed."""

    def __init__(self, rows: TrainingRows, trainable: Trainable, config: TrainConfig) -> None:
        self._rows, self._prepare, self._keep = rows, trainable.image, config.data.keep_images
        self._changes, self._seed = _AUGMENTATIONS[config.data.augment], config.seed
        black = trainable.image(np.zeros((8, 8, 3), np.uint8))
        self._side = max(max(tensor.shape) for tensor in black.values())  # pixels, of the images that the model reads
        self._prepared: dict[int, Inputs] = {}  # by the image's number: several rows show one image

    def __call__(self, number: int, other: JoinedRows | None, step: int) -> Inputs:
        """Read and prepare the image of a row for a step; it is joined to the image of `other`, if that is given."""
        image = int(self._rows.image_ids[number])
        if other is None and image in self._prepared:
            return self._prepared[image]
        pixels = self._rows.pixels(number)
        if other is not None:
            pair = pixels, self._rows.pixels(other.second)
            pixels = join_pictures(*(pair[::-1] if other.swapped else pair), self._side)
        prepared = self._prepare(self.augment(pixels, step, number))
        if self._keep and other is None:
            self._prepared[image] = prepared
        return prepared

    def augment(self, pixels: Pixels, step: int, number: int) -> Pixels:
        """Change a picture by `data.augment`; draws depend on the seed, the step's part and the row alone."""
        if not self._changes:
            return pixels
        rng = np.random.default_rng([self._seed, step, number, 2])  # the 2 keeps these draws apart from all others
        picture = Image.fromarray(pixels)
        for change in self._changes:
            picture = change(picture, rng, self._side)
        return np.asarray(picture)


_Generator = np.random.Generator

#: A change of a picture, by a generator and the side in pixels that the model reads.
_Change = Callable[[Image.Image, _Generator, int], Image.Image]


def _lighten(picture: Image.Image, more: int) -> Image.Image:
    return Image.fromarray(np.clip(np.asarray(picture, np.int16) + more, 0, 255).astype(np.uint8))


@dataclass(frozen=True, slots=True)
class _RandAugment:
    """Operations drawn with replacement, each done by its chance, all with one magnitude: a share of their ranges.

    `farthest` is the greatest move in pixels, `fill` the grey of pixels that a change of place leaves empty.
    """

    names: tuple[str, ...]
    magnitude: float
    chance: float
    farthest: float
    fill: int
    resample: Image.Resampling
    count: int = 2

    def __call__(self, picture: Image.Image, generator: _Generator, _side: int) -> Image.Image:
        for name in generator.choice(self.names, self.count):
            done, sign = generator.random() < self.chance, generator.choice([-1.0, 1.0])
            if done:
                picture = _OPERATIONS[str(name)](self, picture, sign * self.magnitude)
        return picture

    def enhance(self, enhancer: Any) -> Image.Image:
        """Mix a picture with a plain one, at 0.1 to 1.9."""
        return cast("Image.Image", enhancer.enhance(0.1 + 1.8 * self.magnitude))

    def move(self, picture: Image.Image, *matrix: float) -> Image.Image:
        """Change the place of each pixel by a matrix."""
        fill = (self.fill,) * 3
        return picture.transform(picture.size, Image.Transform.AFFINE, matrix, self.resample, fillcolor=fill)


#: Operations, by name, of an augmentation on a picture; `share` is its magnitude with a sign, for moves and turns.
_OPERATIONS: Mapping[str, Callable[[_RandAugment, Image.Image, float], Image.Image]] = {
    "auto-contrast": lambda _, picture, _share: ImageOps.autocontrast(picture),
    "equalise": lambda _, picture, _share: ImageOps.equalize(picture),
    "posterise": lambda by, picture, _: ImageOps.posterize(picture, max(1, int(4 * by.magnitude))),
    "solarise": lambda by, picture, _: ImageOps.solarize(picture, int(256 * by.magnitude)),
    "solarise-add": lambda by, picture, _: ImageOps.solarize(_lighten(picture, int(110 * by.magnitude)), 128),
    "identity": lambda _, picture, _share: picture,
    "colour": lambda by, picture, _: by.enhance(ImageEnhance.Color(picture)),
    "contrast": lambda by, picture, _: by.enhance(ImageEnhance.Contrast(picture)),
    "brightness": lambda by, picture, _: by.enhance(ImageEnhance.Brightness(picture)),
    "sharpness": lambda by, picture, _: by.enhance(ImageEnhance.Sharpness(picture)),
    "rotate": lambda by, picture, share: picture.rotate(30 * share, by.resample, fillcolor=(by.fill,) * 3),
    "shear-x": lambda by, picture, share: by.move(picture, 1, 0.3 * share, 0, 0, 1, 0),
    "shear-y": lambda by, picture, share: by.move(picture, 1, 0, 0, 0.3 * share, 1, 0),
    "move-x": lambda by, picture, share: by.move(picture, 1, 0, by.farthest * share, 0, 1, 0),
    "move-y": lambda by, picture, share: by.move(picture, 1, 0, 0, 0, 1, by.farthest * share),
}
_PLACES = ("rotate", "shear-x", "shear-y", "move-x", "move-y")

#: METER's RandAugment(2, 9), of 30. Its list of operations is taken to be that of ViLT, on whose code METER's is built:
#: the usual ones without inversion and cut-out. METER's file was not available.
_METER = _RandAugment(
    tuple(filter("identity".__ne__, _OPERATIONS)), 9 / 30, 1.0, 100.0, fill=0, resample=Image.Resampling.NEAREST
)
#: FIBER's RandomAugment(2, 7), of 10, with ten operations; ALBEF's code does each of the two by a chance of a half.
_FIBER = _RandAugment(
    ("identity", "auto-contrast", "equalise", "brightness", "sharpness", *_PLACES),
    7 / 10,
    chance=0.5,
    farthest=10.0,
    fill=128,
    resample=Image.Resampling.BILINEAR,
)


def _make_crop(smallest: float) -> _Change:
    """Cut out between a share of the area and all of it, from 3:4 to 4:3, stretched to a square."""

    def cut(picture: Image.Image, generator: _Generator, side: int) -> Image.Image:
        width, height = picture.size
        for _ in range(10):
            area = width * height * generator.uniform(smallest, 1.0)
            shape = math.exp(generator.uniform(math.log(3 / 4), math.log(4 / 3)))
            w, h = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
            if 0 < w <= width and 0 < h <= height:
                left, top = int(generator.integers(width - w + 1)), int(generator.integers(height - h + 1))
                break
        else:
            w, h = min(width, round(height * 4 / 3)), min(height, round(width * 4 / 3))
            left, top = (width - w) // 2, (height - h) // 2
        return picture.crop((left, top, left + w, top + h)).resize((side, side), Image.Resampling.BICUBIC)

    return cut


def _flip_picture(picture: Image.Image, generator: _Generator, _side: int) -> Image.Image:
    """Swap left and right in half of all draws."""
    return ImageOps.mirror(picture) if generator.random() < 0.5 else picture


#: `data.augment` -> the changes of a picture, in order.
_AUGMENTATIONS: Mapping[str, tuple[_Change, ...]] = {
    "none": (),
    "meter": (_METER,),
    "fiber": (_make_crop(0.5), _flip_picture, _FIBER),
    "open-clip": (_make_crop(0.9),),
}


def warn_of_flips(name: str, rows: TrainingRows) -> None:
    """Warn if pictures are flipped whose captions contain left or right: half of those then are false."""
    sided = [row for row in rows.rows if re.search(r"\b(left|right)\b", row.caption, re.IGNORECASE)]
    if _flip_picture in _AUGMENTATIONS[name] and sided:
        text = (
            f'data.augment = "{name}" flips half of the pictures, and {len(sided)} of {len(rows)} captions say left or '
            f'right (row of {sided[0].image.name}: "{sided[0].caption[:60]}"): flipped, they are false; take '
            '"open-clip" or "meter", which flip nothing'
        )
        warnings.warn(text, TellapartWarning, stacklevel=2)
