"""The authors' preparation of captions and images, and tables of positions for another image size.

Other libraries prepare these models' inputs in other ways, which changes their numbers. Captions are cleaned on request
alone. Arrays of images equal those of torchvision's steps bit for bit.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

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


#: ViLT: the largest ratio of the longer side to the shorter one, and the step in pixels of which both are multiples.
_LARGEST_RATIO = 1333 / 800
_STEP = 32


def shorter_side_inputs(size: int, colours: Colours) -> ImageInputs:
    """Return a function that resizes the shorter side to `size`, the longer one to at most 1333 / 800 of that: ViLT's.

    Bicubic. Sides are rounded, then cut down to multiples of 32, so the picture roughly keeps its shape. A side of a
    very narrow picture that would become 0 becomes 32.
    """
    longest = int(_LARGEST_RATIO * size)

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


def clean_like_albef(caption: str, words: int = 30) -> str:
    """Clean a caption as ALBEF's and X-VLM's data sets do: lower case, no punctuation, at most 30 words.

    >>> clean_like_albef("A man's dog -- black/white -- sits, <person> too!")
    'a mans dog black white sits person too'
    """
    caption = re.sub(r"([,.'!?\"()*#:;~])", "", caption.lower()).replace("-", " ").replace("/", " ")
    return _cut_caption(caption.replace("<person>", "person"), words)


def clean_like_blip(caption: str, words: int = 30) -> str:
    """Clean a caption as BLIP's data sets do: lower case, a blank for some punctuation, at most 30 words.

    >>> clean_like_blip("A man's dog, black/white - sits. <person> too!")
    "a man's dog, black/white - sits <person> too"
    """
    return _cut_caption(re.sub(r"([.!\"()*#:;~])", " ", caption.lower()), words)


def clean_like_ofa(caption: str, words: int = 20) -> str:
    """Clean a caption as OFA's captioning does: no punctuation, at most 20 words; letters stay as they are.

    >>> clean_like_ofa("A man's dog -- black/white.")
    'A mans dog blackwhite'
    """
    return " ".join(caption.translate(str.maketrans("", "", string.punctuation)).split()[:words])


def clean_like_ofa_matching(caption: str) -> str:
    """Clean a caption as OFA's matching does: lower case, no punctuation at the start; most other punctuation stays.

    >>> clean_like_ofa_matching("...A man's dog, black/white - sits. <person> too!")
    "a man's dog, black white sits. person too!"
    """
    caption = caption.lower().lstrip(",.!?*#:;~").replace("-", " ").replace("/", " ")
    return _cut_caption(caption.replace("<person>", "person"), None)


def _cut_caption(caption: str, words: int | None) -> str:
    """Squeeze blanks, strip the ends, and keep the first words."""
    caption = re.sub(r"\s{2,}", " ", caption).rstrip("\n").strip(" ")
    return " ".join(caption.split(" ")[:words])


def resize_grid(tensors: dict[str, Tensor], positions: str, patches: str, size: int) -> dict[str, Tensor]:
    """Resize the tensor named `positions`, `(1, 1 + side * side, width)`, to images of `size` pixels: bicubic.

    The class token's position, the first, stays. `patches` names the weight whose last axis is the patch's pixels.
    ALBEF, BLIP and METER do so.
    """
    table = tensors[positions]
    rows = table.reshape(-1, table.shape[-1])
    old, new = round((len(rows) - 1) ** 0.5), size // tensors[patches].shape[-1]
    if new == old:
        return tensors
    grid = rows[1:].float().T.reshape(1, -1, old, old)
    grid = torch.nn.functional.interpolate(grid, size=(new, new), mode="bicubic", align_corners=False)
    resized = torch.cat([rows[:1].float(), grid.flatten(2)[0].T])
    return {**tensors, positions: resized.reshape(*table.shape[:-2], *resized.shape)}


def resize_window_biases(tensors: dict[str, Tensor], window: int) -> dict[str, Tensor]:
    """Resize the tables of biases `((2 * w - 1) ** 2, heads)` of a Swin transformer to another window, by a spline.

    X-VLM does so, as BEiT does: the old offsets are set apart by growing steps, so that near the middle, where biases
    change the most, the new ones lie between few old ones.
    """
    marker = "relative_position_bias_table"
    return {
        name: _resize_table(tensor, window) if name.endswith(marker) else tensor for name, tensor in tensors.items()
    }


def _resize_table(table: Tensor, window: int) -> Tensor:
    from scipy.interpolate import RectBivariateSpline

    old, new = math.isqrt(len(table)), 2 * window - 1  # offsets on a side of the square tables
    if old == new:
        return table
    ratio = _growth_ratio(old // 2, new // 2)
    right = np.cumsum(ratio ** np.arange(old // 2))
    places = np.concatenate([-right[::-1], [0.0], right])
    wanted = np.arange(new) - new // 2
    numbers = table.double().numpy()
    heads = [RectBivariateSpline(places, places, head.reshape(old, old))(wanted, wanted) for head in numbers.T]
    return torch.tensor(np.stack([head.ravel() for head in heads], axis=1), dtype=table.dtype)


def _growth_ratio(steps: int, reach: int) -> float:
    """Return the ratio of a step to the one before it, 1.01 to 1.5, with which `steps` from 1 on add up to `reach`."""
    low, high = 1.01, 1.5
    while high - low > 1e-6:
        ratio = (low + high) / 2
        if (ratio**steps - 1) / (ratio - 1) > reach:
            high = ratio
        else:
            low = ratio
    return ratio
