"""A compact dual encoder as a model: `compact:FOLDER`, written by `tellapart train` for one that it drew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from tellapart.catalog import import_target
from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError, first_line, quote, require
from tellapart.models.compact.config import WEIGHTS, CompactConfig, read_compact_config, read_tokenizer
from tellapart.models.compact.towers import build_encoder
from tellapart.models.control_tokens import ControlTokens
from tellapart.models.options import ModelOptions
from tellapart.models.prefix import ModelPrefix, files_below
from tellapart.models.protocols import Pixels, Vectors
from tellapart.models.torch.backend import (
    Runtime,
    fixed_batches,
    forward,
    import_torch,
    parameter_count,
    runtime,
    weights_fingerprint,
)
from tellapart.models.vectors import dot_products, normalise

if TYPE_CHECKING:
    from torch import Tensor

#: The prefix of such a model's name.
PREFIX = "compact:"

#: Names the way from pixels to the first layer; part of the fingerprint.
_VERSION = "compact-1"

#: Samples in a forward pass.
_SIZE = 16


@dataclass(frozen=True, eq=False)
class CompactParts:
    """The opened files of a folder: the configuration, the module and the tokenizer."""

    config: CompactConfig
    model: Any
    tokenizer: Any

    @cached_property
    def control(self) -> ControlTokens:
        """The tokenizer's control tokens, which a text does not have."""
        return ControlTokens(self.tokenizer)

    def encode(self, source: str, texts: Sequence[str]) -> list[Any]:
        """Return the tokenizer's encoding of each text, padded to the context; `source` names the model in an error."""
        return self.control.encode(source, texts)

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, padded to the context."""
        return [encoding.ids for encoding in self.encode(PREFIX, texts)]

    def find_cut(self, texts: Sequence[str]) -> list[bool]:
        """Return for each text whether it is longer than the context."""
        return [bool(encoding.overflowing) for encoding in self.encode(PREFIX, texts)]


def open_parts(folder: Path) -> CompactParts:
    """Open the files of a folder."""
    config = read_compact_config(folder)
    tokenizer = read_tokenizer(folder, config)
    model = build_encoder(config, tokenizer.get_vocab_size())
    try:
        model.load_state_dict(require("safetensors.torch", extra="models").load_file(folder / WEIGHTS))
    except Exception as error:  # of safetensors, of the disk, or names and shapes that are another model's
        raise ModelError(f"{folder / WEIGHTS} does not fit {folder}: {first_line(error)}") from error
    return CompactParts(config, model.eval(), tokenizer)


def resize(pixels: Pixels, config: CompactConfig) -> NDArray[np.uint8]:
    """Stretch one image, uint8 `(height, width, 3)`, to the model's square by Pillow's antialiased bicubic filter."""
    from PIL import Image

    size = (config.image_size, config.image_size)
    return np.array(Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC))


def scale_pixels(pixels: Tensor, config: CompactConfig) -> Tensor:
    """Turn uint8 `(n, size, size, 3)` into the tower's input, float32 `(n, 3, size, size)`."""
    torch = import_torch()
    values = pixels.permute(0, 3, 1, 2).to(torch.float32).div(255)
    mean, std = (torch.tensor(channels, device=values.device)[:, None, None] for channels in (config.mean, config.std))
    return (values - mean) / std


def _load_encoder(name: str, options: ModelOptions) -> CompactEncoder:
    if options.reading not in {None, "itc"}:
        raise ModelError(f"{name} has no reading {options.reading!r}; a compact dual encoder has one, 'itc'")
    place = runtime(options)
    return CompactEncoder(name, open_parts(Path(name.removeprefix(PREFIX)).expanduser()), place)


def _convert_to_onnx(name: str, folder: Path, tokenizer: Path | None) -> int:
    if tokenizer is not None:
        raise ModelError(f"{name} has its own tokenizer; leave out tokenizer {quote(str(tokenizer))}")
    return cast("int", import_target("tellapart.models.compact.onnx_export:convert_to_onnx")(name, folder))


COMPACT = ModelPrefix(
    {"compact:PATH": "a folder that `tellapart train` wrote of a model that it drew (docs/new_model.md)"},
    _load_encoder,
    lambda name: files_below(name.removeprefix(PREFIX)),
    convert=_convert_to_onnx,
    takes=frozenset({"device", "reading"}),
    model_type="compact",
)


class CompactEncoder:
    """A compact dual encoder; a score is the cosine of image and text.

    Every forward pass has one shape, so no vector changes with the batch, the order or the neighbours.

    Attributes:
        truncated: how many of the texts encoded so far were longer than the context and lost their end.
    """

    kind: ScoreKind = "similarity"
    #: Scores rise with the cosine of the vectors, so that a gallery can be ranked by it.
    ranks_by_cosine = True

    def __init__(self, name: str, parts: CompactParts, place: Runtime) -> None:
        self.name, self._parts, self._device, self.truncated = name, parts, place.device, 0
        facts = (parts.config.model_dump_json(), parts.tokenizer.to_str(), parts.control.facts)
        self.fingerprint = weights_fingerprint(parts.model, _VERSION, *facts)
        self.parameters = parameter_count(parts.model)
        parts.model.to(place.device)

    def prepare_image(self, pixels: Pixels) -> Tensor:
        """Resize one image, uint8 `(height, width, 3)`, to a `torch.uint8` tensor `(size, size, 3)`."""
        return import_torch().from_numpy(resize(pixels, self._parts.config))

    def encode_images(self, images: Sequence[Any]) -> Vectors:
        """Encode RGB images, uint8 `(height, width, 3)` or prepared, to float32 `(n, dimensions)` of length one."""
        stack = import_torch().stack

        def encode_rows(batch: list[Any]) -> Tensor:
            prepared = [self.prepare_image(image) if isinstance(image, np.ndarray) else image for image in batch]
            return self._parts.model.visual(scale_pixels(stack(prepared).to(self._device), self._parts.config))

        return self._encode_batches(encode_rows, images)

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """Encode texts to float32 `(n, dimensions)` of length one; count the cut ones in `truncated`."""
        torch = import_torch()
        encodings = self._parts.encode(self.name, texts)
        self.truncated += sum(1 for encoding in encodings if encoding.overflowing)

        def encode_rows(batch: list[Any]) -> Tensor:
            return self._parts.model.text(torch.tensor([sample.ids for sample in batch], device=self._device))

        return self._encode_batches(encode_rows, encodings)

    def similarity(self, images: Vectors, texts: Vectors) -> NDArray[np.float32]:
        """Score vectors of length one: the cosines, float32 `(images, texts)`."""
        return dot_products(images, texts)

    similarities = similarity

    def _encode_batches(self, encode_rows: Callable[[list[Any]], Any], samples: Sequence[Any]) -> Vectors:
        rows = [np.zeros((0, self._parts.config.dimensions), np.float32)]
        with forward(self.name, self._parts.model):
            for batch, real in fixed_batches(samples, _SIZE):
                rows.append(encode_rows(batch)[:real].cpu().float().numpy())  # under autocast it is none yet
        return normalise(np.concatenate(rows), self.name)
