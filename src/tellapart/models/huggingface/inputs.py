"""Images and texts as the inputs of a model of transformers: prepared one by one, and checked against the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tellapart.errors import ModelError, explain_failure, require
from tellapart.models.captions import ControlTokens
from tellapart.models.protocols import Pixels
from tellapart.models.torch.backend import bucket
from tellapart.models.torch.dual_encoder import Inputs, TextReader
from tellapart.models.torch.network import BaseImageProcessor, PreTrainedConfig, PreTrainedTokenizerBase

__all__ = [
    "ImageInputs", "TokenReader", "check_images", "check_tokenizer", "image_inputs", "leave_out_end",
    "text_config",
]  # fmt: skip


#: A function from an image to its inputs: arrays or tensors by name, on the CPU, without a batch axis.
ImageInputs = Callable[[Pixels], Inputs]

#: Outputs of an image processor that a tower reads; the rest (masks of padding that never occurs) is left out.
_INPUTS = ("pixel_values", "pixel_attention_mask", "spatial_shapes")

#: Convolutional image towers: the network was scaled for `image_size`, and reads other sizes, too.
_ANY_SIZE = {"align"}

#: The shapes of two blank pictures, wide and high.
_BLANK_SHAPES = ((48, 64, 3), (64, 48, 3))


def image_inputs(name: str, processor: BaseImageProcessor) -> ImageInputs:
    """Return a function that prepares one RGB image, uint8 `(height, width, 3)`, as tensors; any thread may call it.

    It takes the image processor alone: the options of a joint processor, of images and texts, would override its files.
    """

    def prepare_pixels(pixels: Pixels) -> Inputs:
        from PIL import Image

        # Not an array: of one with three rows the processor cannot know which axis holds the colours.
        picture = Image.fromarray(pixels)
        kind, (width, height) = type(processor).__name__, picture.size
        with explain_failure(f"{name}: {kind} fails on {width} x {height} pixels"):
            outputs = processor(picture, input_data_format="channels_last", return_tensors="pt")
        return {key: outputs[key][0] for key in _INPUTS if key in outputs}

    return prepare_pixels


def check_images(name: str, config: PreTrainedConfig, inputs: ImageInputs) -> None:
    """Check that a wide and a high picture are prepared in the one shape that the image tower reads."""
    shapes = {tuple(inputs(np.zeros(shape, np.uint8))["pixel_values"].shape) for shape in _BLANK_SHAPES}
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


class TokenReader(TextReader):
    """A tokenizer of transformers as a reader of texts.

    Texts are padded to the context if `whole`, else to the next multiple of eight tokens; `clean` goes over them first.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        length: int,
        *,
        whole: bool = False,
        clean: Callable[[str], str] | None = None,
    ) -> None:
        self.tokenizer, self.length, self.whole = tokenizer, length, whole
        self._clean, self._control = clean or str, ControlTokens(tokenizer)

    def lengths(self, texts: Sequence[str]) -> tuple[list[int], list[bool]]:
        """Return each text's padded length, in tokens, and whether it exceeds the context and loses its end."""
        cleaned = [self._clean(text) for text in ("", *texts)]
        read = self.tokenizer(cleaned, verbose=False, **self._control.split)["input_ids"]
        self._control.refuse(type(self.tokenizer).__name__, texts, read[1:], read[0])
        lengths = [len(tokens) for tokens in read[1:]]
        padded = [self.length if self.whole else bucket(max(length, 1), self.length) for length in lengths]
        return padded, [length > self.length for length in lengths]

    def tokens(self, texts: Sequence[str], length: int) -> dict[str, Any]:
        """Tokenise texts to tensors of `length` tokens, named as the tokenizer names them."""
        options = {"padding": "max_length", "truncation": True, "max_length": length, "return_tensors": "pt"}
        if not self.whole:  # then the padding is ours, and a tower that looks at all tokens must not see it
            options["return_attention_mask"] = True
        cleaned = [self._clean(text) for text in texts]
        return dict(self.tokenizer(cleaned, **options, **self._control.split, verbose=False))


def leave_out_end(tokenizer: PreTrainedTokenizerBase) -> None:
    """Have a tokenizer of BERT's kind put its first token before a text, and none at its end."""
    backend, first = getattr(tokenizer, "backend_tokenizer", None), tokenizer.cls_token
    if backend is None or first is None:
        raise ModelError(
            f"a {type(tokenizer).__name__} cannot leave out a text's last token; put a tokenizer.json of "
            "BERT beside the model's file"
        )
    processors = require("tokenizers.processors", extra="models")
    backend.post_processor = processors.TemplateProcessing(
        single=f"{first} $A", special_tokens=[(first, tokenizer.cls_token_id)]
    )


def text_config(config: PreTrainedConfig) -> PreTrainedConfig:
    """Return the text encoder's part of a configuration."""
    return getattr(config, "qformer_config", None) or getattr(config, "text_config", None) or config


def check_tokenizer(
    name: str, config: PreTrainedConfig, tokenizer: PreTrainedTokenizerBase, *, side: str | None = "right"
) -> None:
    """Refuse a tokenizer that knows tokens its model does not, or pads on another side than `side` (None: either)."""
    vocabulary_size = text_config(config).vocab_size
    if tokenizer.vocab_size > vocabulary_size:
        raise ModelError(
            f"{name}: its tokenizer knows {tokenizer.vocab_size} tokens and its text encoder {vocabulary_size}: they "
            "are not of one model; copy the tokenizer's files from the model that it was trained from"
        )
    if tokenizer.pad_token_id is None:
        raise ModelError(f"{name}: its tokenizer has no token to pad with; set pad_token in tokenizer_config.json")
    if side is not None and tokenizer.padding_side != side:
        raise ModelError(
            f"{name}: its tokenizer pads on the {tokenizer.padding_side}, which moves every token to another position; "
            f'set "padding_side": "{side}" in tokenizer_config.json'
        )
