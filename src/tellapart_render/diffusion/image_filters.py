"""Filters of generated pairs by a dual encoder: caption-image, image-image and directional similarity.

Source: COCO-Counterfactuals, appendix B.2.2, which takes them from instruct-pix2pix with CLIP ViT-L/14. The paper lists
0.2 between each caption and its image and 0.7 between the images; the code that it runs also asks for a directional
similarity of 0.2. Thresholds belong to a scorer: another one has another scale.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from tellapart.errors import ModelError
from tellapart.models.find import find_model
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import DualEncoder, Pixels
from tellapart.models.vectors import normalise


class PictureFile(BaseModel):
    """The table `[options.picture]` of a recipe.

    Attributes:
        side: pixels of a side of the square file; 0 for the size in which the picture is drawn (BiVLC: 512).
        format: `png` keeps every pixel; `jpeg` is the format of most natural pictures.
        quality: the quality of a JPEG.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    side: int = Field(default=0, ge=0, le=4096)
    format: Literal["png", "jpeg"] = "png"
    quality: int = Field(default=95, ge=1, le=100)

    @property
    def suffix(self) -> str:
        """The ending of the file's name."""
        return ".png" if self.format == "png" else ".jpg"

    def encode(self, pixels: Pixels) -> bytes:
        """Return a picture's file, of pixels uint8 `(height, width, 3)`."""
        from PIL import Image

        image = Image.fromarray(pixels)
        if self.side and image.size != (self.side, self.side):
            image = image.resize((self.side, self.side), Image.Resampling.LANCZOS)
        stream = io.BytesIO()
        image.save(stream, "PNG" if self.format == "png" else "JPEG", quality=self.quality)
        return stream.getvalue()


STEPS = ("caption-image", "image-image", "directional")
"""The filters in their order."""


@dataclass(frozen=True, slots=True)
class PairSimilarity:
    """Cosines of a generated pair: of each image with its caption (`own`), and with the other caption (`crossed`).

    `images` is the cosine of the two images. `directional` is the cosine of the change from image 0 to 1 and the change
    from caption 0 to 1, and 0 if either changes nothing.
    """

    own: tuple[float, float]
    crossed: tuple[float, float]
    images: float
    directional: float

    def to_record(self) -> dict[str, JsonValue]:
        """Return the cosines as JSON types, to six digits."""
        return {
            name: [round(v, 6) for v in value] if isinstance(value, tuple) else round(value, 6)
            for name, value in asdict(self).items()
        }


class Keep(BaseModel):
    """The table `[options.keep]` of a recipe: which generated pairs stay.

    Attributes:
        rule: `code` asks for the directional threshold, too, as the code of the paper does (the default); `paper` does
            not.
        caption_image, image_image, directional: the thresholds; a pair exactly on one stays.
        choose: the test of captions and images: the `threshold` (the default), `argmax` (each image is nearer its
            caption than the other caption; a tie fails), or `both`.
        best: how many pairs of images of a pair of captions become items, the highest directional similarity first.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    rule: Literal["code", "paper"] = "code"
    caption_image: float = Field(default=0.2, ge=-1, le=1)
    image_image: float = Field(default=0.7, ge=-1, le=1)
    directional: float = Field(default=0.2, ge=-1, le=1)
    choose: Literal["threshold", "argmax", "both"] = "threshold"
    best: int = Field(default=1, ge=1)

    def step_failed(self, pair: PairSimilarity) -> str | None:
        """Return the first of `STEPS` that a pair does not pass, or None."""
        if self.choose != "argmax" and not min(pair.own) >= self.caption_image:
            return "caption-image"
        if self.choose != "threshold" and not all(a > b for a, b in zip(pair.own, pair.crossed, strict=True)):
            return "caption-image"
        if pair.images < self.image_image:
            return "image-image"
        return "directional" if self.rule == "code" and pair.directional < self.directional else None


def open_scorer(name: str, device: str) -> DualEncoder:
    """Open a model as a scorer of pairs."""
    model = find_model(name, ModelOptions(device=device))
    if not isinstance(model, DualEncoder):
        raise ModelError(f"scorer {model.name!r} is not a dual encoder; name one, such as open_clip:ARCH/TAG")
    return model


def unit_vectors(
    scorer: DualEncoder, images: Sequence[Pixels], texts: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Encode images and texts to vectors of length one in one space: float64 `(images, n)` and `(texts, n)`."""
    image_vectors = normalise(scorer.encode_images(images)).astype(np.float64)
    text_vectors = normalise(scorer.encode_texts(texts)).astype(np.float64)
    if text_vectors.shape[1] != image_vectors.shape[1]:
        dimensions = f"images of {image_vectors.shape[1]} and texts of {text_vectors.shape[1]} dimensions"
        raise ModelError(f"scorer {scorer.name!r} has {dimensions}; name one with both in one space")
    return image_vectors, text_vectors


def measure_pair(scorer: DualEncoder, images: tuple[Pixels, Pixels], captions: tuple[str, str]) -> PairSimilarity:
    """Measure a generated pair on vectors of length one.

    The scorer prepares images as for any benchmark. Instruct-pix2pix resizes them to 224 pixels without a crop, which
    is the same for square images.
    """
    image_vectors, text_vectors = unit_vectors(scorer, images, captions)
    cosines = (image_vectors[:, None, :] * text_vectors[None, :, :]).sum(axis=2)
    image_change, text_change = image_vectors[1] - image_vectors[0], text_vectors[1] - text_vectors[0]
    lengths = float(np.sqrt((image_change**2).sum() * (text_change**2).sum()))
    return PairSimilarity(
        (float(cosines[0, 0]), float(cosines[1, 1])),
        (float(cosines[0, 1]), float(cosines[1, 0])),
        float((image_vectors[0] * image_vectors[1]).sum()),
        float((image_change * text_change).sum()) / lengths if lengths else 0.0,
    )
