"""The dual encoder of a caller's module with `encode_image` and `encode_text`, and its preparation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError
from tellapart.models.control_tokens import refuse_known_marks
from tellapart.models.memory.adapter import Ready, to_picture
from tellapart.models.memory.mistakes import explain_mistakes, explain_prepared, read_output, refuse_steps, to_array
from tellapart.models.protocols import Pixels, Vectors
from tellapart.models.torch.backend import (
    Runtime,
    fixed_batches,
    forward,
    import_torch,
    move,
    parameter_count,
    positions_by_key,
)
from tellapart.models.vectors import dot_products, normalise

if TYPE_CHECKING:
    from torch import Tensor

    from tellapart.models.torch.network import Network

#: Samples in one forward pass, as of the families here.
_ON_CPU, _ELSEWHERE = 16, 64


class ModuleEncoder:
    """A dual encoder of a module with `encode_image` and `encode_text`, a preprocessing and a tokenizer.

    Every forward pass has a fixed number of samples of one shape, so that no vector depends on its neighbours. Texts
    are tokenised one by one; those of one length meet.

    Attributes:
        truncated: how many of the texts encoded so far the tokenizer cut, if it counts them.
    """

    kind: ScoreKind = "similarity"

    #: Scores rise with the cosine of the vectors, so that a gallery can be ranked by it.
    ranks_by_cosine = True

    def __init__(
        self,
        name: str,
        module: Network,
        preprocess: Callable[[Any], Any],
        tokenizer: Callable[..., Any],
        place: Runtime,
    ) -> None:
        refuse_steps(name, getattr(preprocess, "transforms", ()))
        self.name, self.fingerprint, self.truncated = name, "", 0
        self.parameters = parameter_count(module)
        self._module, self._preprocess, self._tokenizer, self._where = module, preprocess, tokenizer, place
        self._size = _ON_CPU if place.device == "cpu" else _ELSEWHERE
        self.batch_size = 4 * self._size
        self.traits = {"dtype": place.dtype}

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, as the tokenizer pads it."""
        return [[int(token) for token in self._tokenize_text(text).flatten()] for text in texts]

    def input_pixels(self, pixels: Pixels) -> NDArray[np.float32]:
        """Return one image as `encode_image` is given it."""
        values: NDArray[np.float32] = self.prepare_image(pixels).value.float().cpu().numpy()
        return values

    def prepare_image(self, pixels: Pixels) -> Ready:
        """Prepare one RGB image, uint8 `(height, width, 3)`: a tensor `(channels, height, width)`."""
        with explain_mistakes(f"{self.name}: preprocess fails"):
            value = self._preprocess(to_picture(pixels))
        torch = import_torch()
        if not torch.is_tensor(value):
            array = to_array(value) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else None
            if array is None or array.ndim != 3:
                raise ModelError(f"{self.name}: {explain_prepared(value)}")
            value = torch.from_numpy(array)
        if value.ndim == 4 and len(value) == 1:
            value = value[0]
        if value.ndim != 3 or not value.is_floating_point():
            raise ModelError(f"{self.name}: {explain_prepared(value)}")
        return Ready(value)

    def encode_images(self, images: Sequence[Pixels | Ready]) -> Vectors:
        """Encode RGB images, raw or prepared, to float32 `(n, dimensions)` of length one."""
        ready = [image if isinstance(image, Ready) else self.prepare_image(image) for image in images]
        return self._encode_shapes(self._module.encode_image, [tensor.value for tensor in ready])

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """Encode texts to float32 `(n, dimensions)` of length one."""
        refuse_known_marks(self.name, texts)
        tokens = [self._tokenize_text(text) for text in texts]
        return self._encode_shapes(self._module.encode_text, tokens)

    def similarity(self, images: Vectors, texts: Vectors) -> NDArray[np.float32]:
        """Score vectors of length one: the cosines, float32 `(images, texts)`."""
        return dot_products(images, texts)

    similarities = similarity

    def _tokenize_text(self, text: str) -> Tensor:
        """Return the tokens of one text, `(length,)`."""
        torch = import_torch()
        try:
            tokens = self._tokenizer([text])
        except RuntimeError as error:  # clip.tokenize, of a text that is too long
            if "too long" not in str(error):
                raise
            self.truncated += 1
            tokens = self._tokenizer([text], truncate=True)
        if hasattr(tokens, "keys"):
            raise ModelError(
                f"{self.name}: tokenizer returned a {type(tokens).__name__}, and encode_text takes a tensor: write "
                "tokenizer=lambda texts: tokenizer(texts, padding='max_length', truncation=True, "
                "return_tensors='pt')['input_ids']"
            )
        try:
            ids: Tensor = torch.as_tensor(tokens)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ModelError(
                f"{self.name}: tokenizer must take a list of texts to a tensor (n, length); it returned a "
                f"{type(tokens).__name__}"
            ) from error
        if ids.ndim < 2 or len(ids) != 1:
            raise ModelError(
                f"{self.name}: tokenizer, given 1 text, must return a tensor (1, length); it returned "
                f"{tuple(ids.shape)}"
            )
        return ids[0]

    def _encode_shapes(self, encode: Callable[[Tensor], Tensor], samples: Sequence[Tensor]) -> Vectors:
        """Encode samples, those of one shape together."""
        torch = import_torch()
        rows: dict[int, NDArray[np.float32]] = {}
        for positions in positions_by_key(tuple(sample.shape) for sample in samples).values():
            for batch, real in fixed_batches(positions, self._size):
                with forward(self.name, self._module):
                    inputs = move(torch.stack([samples[position] for position in batch]), self._where)
                    output = getattr(output := encode(inputs), "pooler_output", output)
                vectors = read_output(
                    f"{self.name}, given {len(batch)} samples,", output, (len(batch), None), "a row each"
                )
                rows |= zip(batch[:real], vectors, strict=False)
        if not rows:
            return np.zeros((0, 0), np.float32)
        return normalise(np.stack([rows[position] for position in range(len(samples))]), self.name)
