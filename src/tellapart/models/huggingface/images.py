"""Preprocessing of images by a model's image processor, checked against its image tower."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tellapart.errors import ModelError, first_sentence
from tellapart.models.protocols import Pixels
from tellapart.models.torch.network import BaseImageProcessor, PreTrainedConfig

__all__ = ["ImageInputs", "Prepared", "check_images", "image_inputs"]

#: One image after preprocessing: inputs by name, arrays or tensors on the CPU, without the batch's axis.
Prepared = Mapping[str, Any]
ImageInputs = Callable[[Pixels], Prepared]

#: Outputs of an image processor that a tower reads; the rest (masks of padding that never occurs) is left out.
_INPUTS = ("pixel_values", "pixel_attention_mask", "spatial_shapes")

#: Convolutional image towers: the network was scaled for `image_size`, and reads other sizes, too.
_ANY_SIZE = {"align"}

#: A wide picture and a high one.
_BLANK = ((48, 64, 3), (64, 48, 3))


def image_inputs(name: str, processor: BaseImageProcessor) -> ImageInputs:
    """Return the preprocessing of one RGB image, uint8 `(height, width, 3)`, to tensors; any thread may call it.

    It takes the image processor, for options of the pair of processors would override the model's files.
    """

    def prepare_pixels(pixels: Pixels) -> Prepared:
        from PIL import Image

        # Not an array: of one with three rows the processor cannot know which axis holds the colours.
        picture = Image.fromarray(pixels)
        try:
            outputs = processor(picture, input_data_format="channels_last", return_tensors="pt")
        except (ValueError, TypeError, AttributeError, ZeroDivisionError) as error:
            kind, (width, height) = type(processor).__name__, picture.size
            raise ModelError(f"{name}: {kind} fails on {width} x {height} pixels: {first_sentence(error)}") from error
        return {key: outputs[key][0] for key in _INPUTS if key in outputs}

    return prepare_pixels


def check_images(name: str, config: PreTrainedConfig, inputs: ImageInputs) -> None:
    """Check that a wide and a high picture are prepared in the one shape that the image tower reads."""
    shapes = {tuple(inputs(np.zeros(shape, np.uint8))["pixel_values"].shape) for shape in _BLANK}
    if len(shapes) > 1:
        raise ModelError(
            f"{name}: its image processor makes images of several shapes ({' and '.join(map(str, sorted(shapes)))}), "
            "and its image tower reads one; let preprocessor_config.json crop them, or resize them to a height and a "
            "width"
        )
    (shape,) = shapes
    size = getattr(getattr(config, "vision_config", None) or config.image_config, "image_size", None)
    if len(shape) != 3 or size is None or config.model_type in _ANY_SIZE:
        return
    height, width = (size, size) if isinstance(size, int) else size
    if shape[1:] != (height, width):
        raise ModelError(
            f"{name}: its image processor makes {shape[1]} x {shape[2]} pixels, and its image tower reads {height} x "
            f"{width}; copy preprocessor_config.json from the model that it was trained from"
        )
