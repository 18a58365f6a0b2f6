"""The authors' preprocessing of images, in Pillow and numpy; the numbers equal torchvision's bit for bit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tellapart.models.huggingface.inputs import ImageInputs
from tellapart.models.protocols import Pixels
from tellapart.models.torch.dual_encoder import Inputs

Colours = tuple[Sequence[float], Sequence[float]]  # mean and standard deviation of red, green and blue

CLIP_COLOURS: Colours = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
IMAGENET_COLOURS: Colours = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
HALF_COLOURS: Colours = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


def square_inputs(size: int, colours: Colours) -> ImageInputs:
    """Return a function that resizes a picture to `size` x `size` (bicubic) and normalises its colours."""

    def prepare_pixels(pixels: Pixels) -> Inputs:
        picture = Image.fromarray(pixels).resize((size, size), Image.Resampling.BICUBIC)
        return {"pixel_values": scale_colours(picture, colours)}

    return prepare_pixels


def crop_inputs(size: int, colours: Colours) -> ImageInputs:
    """Return a function that resizes the shorter side to `size` (bicubic), crops the centre and normalises the colours.

    METER resizes the alpha channel with the colours and then drops it; opaque pictures are not affected.
    """

    def prepare_pixels(pixels: Pixels) -> Inputs:
        picture = Image.fromarray(pixels)
        shorter = min(picture.size)
        width, height = (int(size * side / shorter) for side in picture.size)
        picture = picture.resize((width, height), Image.Resampling.BICUBIC)
        left, top = (round((side - size) / 2) for side in (width, height))
        picture = picture.crop((left, top, left + size, top + size)).convert("RGB")
        return {"pixel_values": scale_colours(picture, colours)}

    return prepare_pixels


#: ViLT: the largest ratio of the longer side to the shorter one; both sides are multiples of the step, in pixels.
_LONGEST = 1333 / 800
_STEP = 32


def shorter_side(size: int, colours: Colours) -> ImageInputs:
    """Return ViLT's preprocessing: resize the shorter side to `size`, the longer one to at most 1333 / 800 of that.

    Bicubic. Sides are rounded, then cut down to multiples of 32, so the picture roughly keeps its shape. A side of a
    very narrow picture that would become 0 becomes 32.
    """
    longest = int(_LONGEST * size)

    def prepare_pixels(pixels: Pixels) -> Inputs:
        shape = np.array(pixels.shape[:2], np.float64)
        sides = shape * (size / shape.min())
        if sides.max() > longest:
            sides *= longest / sides.max()
        height, width = (max(int(side + 0.5) // _STEP * _STEP, _STEP) for side in sides)
        picture = Image.fromarray(pixels).resize((width, height), Image.Resampling.BICUBIC)
        return {"pixel_values": scale_colours(picture, colours)}

    return prepare_pixels


def scale_colours(picture: Image.Image, colours: Colours) -> NDArray[np.float32]:
    """Return an RGB picture as float32 `(3, height, width)`, minus the mean, divided by the standard deviation."""
    mean, deviation = (np.array(numbers, np.float32)[:, None, None] for numbers in colours)
    shares = np.asarray(picture, np.float32).transpose(2, 0, 1) / np.float32(255)
    return (shares - mean) / deviation
