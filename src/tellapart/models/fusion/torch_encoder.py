"""What all fusion encoders of torch share: inputs in fixed shapes, states, and the matching head's number."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError
from tellapart.models.huggingface.files import config_facts
from tellapart.models.huggingface.images import ImageInputs, Prepared
from tellapart.models.huggingface.tokens import TokenReader, check_tokenizer
from tellapart.models.protocols import Pixels
from tellapart.models.torch_backend import Runtime, fixed_batches, import_torch, parameter_count, weights_fingerprint
from tellapart.models.torch_forward import forward, positions_by_key

__all__ = ["READINGS", "Halves", "Preparation", "Tensors", "TorchFusionEncoder", "TorchState", "padded"]

Tensors = tuple[Any, ...]  # of torch.Tensor

#: What is read off the matching head: the probability of a match; or its logit, which orders pairs in the same way and
#: still tells them apart where the probability is rounded to 0 or 1.
READINGS = ("itm", "itm_logit")

#: Samples of one forward. Part of what a model is: see `fixed_batches`. On a CPU four images already fill the cores.
_BATCH = {"cpu": 4}
_BATCH_ELSEWHERE = 32


@runtime_checkable
class Halves(Protocol):
    """What one architecture adds: its two unimodal halves, and what joins them. All on batches of one shape.

    Masks among the tensors are `torch.bool`, True on what is real.

    Attributes:
        module: the library's model, a `torch.nn.Module`.
        match: index of the matching head's class that says that text and image match; None if the head has a
            single output.
        context: tokens that a text may have.

    >>> from types import SimpleNamespace as Of
    >>> from tellapart.models.fusion.blip import Blip
    >>> isinstance(Blip(Of(config=Of(text_config=Of(max_position_embeddings=512)))), Halves)
    True
    """

    module: Any
    context: int

    @property
    def match(self) -> int | None:
        """As above."""
        ...

    @property
    def images(self) -> Callable[..., Tensors]:
        """Computes the images' half of a batch, whose inputs it takes by name: tensors `(batch, ...)`."""
        ...

    def texts(self, ids: Any, mask: Any) -> Tensors:
        """Compute the texts' half of int64 `(batch, tokens)` and bool `(batch, tokens)`: tensors `(batch, ...)`."""
        ...

    def join(self, images: Tensors, texts: Tensors) -> Any:
        """Join the halves: the matching head's logits, `(batch, classes)`."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class TorchState:
    """One image's or one text's half: tensors without the batch's axis.

    Attributes:
        tensors: on the model's device.
        truncated: whether a text lost its end.

    >>> torch = import_torch()
    >>> TorchState((torch.zeros(2, 3), torch.ones(2, dtype=torch.bool))).nbytes
    26
    """

    tensors: Tensors
    truncated: bool = False

    @property
    def nbytes(self) -> int:
        """Memory of the tensors, in bytes."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors)

    @property
    def group(self) -> Hashable:
        """What must be equal for two states to share a batch: the shapes, and whether a mask hides anything.

        The library skips a mask that hides nothing in the whole batch, and another kernel then computes: whether
        it does may not depend on the neighbours.
        """
        torch = import_torch()
        return tuple(
            (tuple(tensor.shape), bool(tensor.all()) if tensor.dtype == torch.bool else None) for tensor in self.tensors
        )


def padded(tensor: Any, length: int) -> Any:
    """Pad `(batch, tokens, ...)` with zeros (False) to `(batch, length, ...)`.

    >>> padded(import_torch().ones(1, 2, dtype=import_torch().bool), 3).tolist()
    [[True, True, False]]
    """
    extra = tensor.new_zeros((tensor.shape[0], length - tensor.shape[1], *tensor.shape[2:]))
    return import_torch().cat([tensor, extra], dim=1)


@dataclass(frozen=True, slots=True, eq=False)
class Preparation:
    """How images and texts become a fusion encoder's inputs.

    Attributes:
        images: preprocessing of one image: RGB uint8 `(height, width, 3)` to what `Halves.images` takes.
        tokenizer: of transformers.
        facts: what the inputs depend on; the same wherever the files lie.
        left_out: what an image costs before it comes here, in words; empty if nothing.

    >>> Preparation(lambda pixels: {"pixel_values": pixels}, None, "none").left_out
    ''
    """

    images: ImageInputs
    tokenizer: Any
    facts: str
    left_out: str = ""


class TorchFusionEncoder:
    """A fusion encoder whose halves are torch modules.

    Every forward has a shape that follows from the sample alone: images as the preprocessing leaves them, texts
    padded to the next multiple of eight tokens (never beyond the context), batches filled up to a fixed size.
    So on a CPU no score depends, by a single bit, on how many pairs were asked, in which order, or beside which
    others; on other devices kernels keep no such promise, and scores agree to about 1e-5 in float32.

    Args:
        name: for people.
        halves: the architecture.
        preparation: of images and texts.
        runtime: where and how to compute.
        reading: `itm`, the softmax of the head's logits; or `itm_logit`, the logit of that probability, which is the
            match's logit minus the other's. A head with a single output has that one number for both.

    Attributes:
        batch_size: samples of one forward; 4 on a CPU, 32 elsewhere.
        left_out: what an image costs before it comes here, in words.

    Raises:
        ModelError: no such reading, or the tokenizer is not the model's.

    >>> TorchFusionEncoder("m", None, None, Runtime("cpu"), reading="itc")
    Traceback (most recent call last):
    tellapart.errors.ModelError: m: a matching head has no reading 'itc'; it has itm, itm_logit
    """

    def __init__(
        self, name: str, halves: Halves, preparation: Preparation, runtime: Runtime, *, reading: str = "itm"
    ) -> None:
        if reading not in READINGS:
            raise ModelError(f"{name}: a matching head has no reading {reading!r}; it has {', '.join(READINGS)}")
        config, tokenizer = halves.module.config, preparation.tokenizer
        check_tokenizer(name, config, tokenizer)
        self.left_out = preparation.left_out
        self.batch_size = _BATCH.get(runtime.device, _BATCH_ELSEWHERE)
        self._name, self._halves, self._runtime, self._reading = name, halves, runtime, reading
        self._image_inputs = preparation.images
        self._texts = TokenReader(tokenizer, min(halves.context, int(tokenizer.model_max_length)))
        identity = weights_fingerprint(
            halves.module,
            type(halves).__name__,
            runtime.dtype,
            f"{self._texts.length} tokens",
            config_facts(config),
            preparation.facts,
        )
        self._fingerprint = f"tellapart:huggingface:{reading}:1:{identity}"

    @property
    def name(self) -> str:
        """As given."""
        return self._name

    @property
    def fingerprint(self) -> str:
        """Changes with weights, preprocessing, tokenizer, dtype and reading."""
        return self._fingerprint

    @property
    def kind(self) -> ScoreKind:
        """A probability, or its logit if that is the reading; a logit always where the head has a single output."""
        return "logit" if self._halves.match is None or self._reading == "itm_logit" else "probability"

    @property
    def parameters(self) -> int:
        """Of the model as it was loaded."""
        return parameter_count(self._halves.module)

    def prepare_image(self, pixels: Pixels) -> Prepared:
        """Preprocess one RGB image, uint8 `(height, width, 3)`, for `encode_images`; called from several threads."""
        return self._image_inputs(pixels)

    def encode_images(self, images: Sequence[Pixels | Prepared]) -> list[TorchState]:
        """Compute the images' halves, one state for each image, prepared or not.

        Raises:
            ModelError: the model fails on what it is given.
        """
        torch = import_torch()
        prepared = [image if isinstance(image, Mapping) else self.prepare_image(image) for image in images]
        names = list(prepared[0]) if prepared else []
        inputs = [tuple(torch.as_tensor(image[name]) for name in names) for image in prepared]
        return self._halved(
            lambda tensors: self._halves.images(**dict(zip(names, tensors, strict=True))), inputs, [False] * len(inputs)
        )

    def encode_texts(self, texts: Sequence[str]) -> list[TorchState]:
        """Compute the texts' halves, one state for each.

        Raises:
            ModelError: the model fails on what it is given.
        """
        lengths, cut = self._texts.lengths(texts)
        inputs: dict[int, Tensors] = {}
        for length, positions in positions_by_key(lengths).items():
            made = self._texts.tokens([texts[k] for k in positions], length)
            inputs |= zip(positions, zip(made["input_ids"], made["attention_mask"].bool(), strict=True), strict=True)
        return self._halved(lambda tensors: self._halves.texts(*tensors), [inputs[k] for k in range(len(texts))], cut)

    def score_states(self, images: Sequence[TorchState], texts: Sequence[TorchState]) -> NDArray[np.float32]:
        """Score image state `k` against text state `k`: float32 `(n,)`.

        Raises:
            ModelError: the model fails on what it is given.
        """
        pairs = list(zip(images, texts, strict=True))
        scores = np.zeros(len(pairs), np.float32)
        for positions in positions_by_key((image.group, text.group) for image, text in pairs).values():
            for batch, real in fixed_batches(positions, self.batch_size):
                left, right = (_stacked([pairs[k][side].tensors for k in batch]) for side in (0, 1))
                with forward(self.name, self._halves.module):
                    logits = self._halves.join(left, right).float()
                scores[batch[:real]] = self._read(logits)[:real].cpu().numpy()
        return scores

    def _read(self, logits: Any) -> Any:
        """Return the numbers that a head's logits, float32 `(batch, classes)`, are read as: `(batch,)`."""
        match = self._halves.match
        if match is None:
            return logits[:, 0]
        if self._reading == "itm_logit":
            return logits[:, match] - logits[:, 1 - match]
        return logits.softmax(1)[:, match]

    def _halved(
        self, half: Callable[[Tensors], Tensors], inputs: Sequence[Tensors], truncated: Sequence[bool]
    ) -> list[TorchState]:
        states: dict[int, TorchState] = {}
        for positions in positions_by_key(TorchState(tensors).group for tensors in inputs).values():
            for batch, real in fixed_batches(positions, self.batch_size):
                with forward(self.name, self._halves.module):
                    tensors = half(tuple(map(self._placed, _stacked([inputs[k] for k in batch]))))
                for row, k in enumerate(batch[:real]):
                    # A copy: a view would keep its whole batch in memory.
                    states[k] = TorchState(tuple(tensor[row].clone() for tensor in tensors), truncated[k])
        return [states[k] for k in range(len(inputs))]

    def _placed(self, tensor: Any) -> Any:
        dtype = self._runtime.torch_dtype if tensor.is_floating_point() else tensor.dtype
        return tensor.to(device=self._runtime.device, dtype=dtype)


def _stacked(rows: Sequence[Tensors]) -> Tensors:
    return tuple(import_torch().stack(column) for column in zip(*rows, strict=True))
