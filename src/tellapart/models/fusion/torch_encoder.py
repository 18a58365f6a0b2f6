"""A fusion encoder whose halves are torch modules: inputs in fixed shapes, states, and the matching head's number."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError
from tellapart.models.fusion.family import Halves, Preparation, Tensors
from tellapart.models.huggingface.inputs import Prepared
from tellapart.models.protocols import Pixels
from tellapart.models.torch import backend
from tellapart.models.torch.dual_encoder import Inputs, TorchDual, Towers, batch_key, join_samples, stack_samples
from tellapart.models.torch.network import Network, Tensor

__all__ = ["READINGS", "TorchFusionEncoder", "TorchState"]

#: Readings of the matching head: the probability of a match; or its logit, which separates pairs of probability 1, too.
READINGS = ("itm", "itm_logit")

#: Outputs of other heads: a cosine, a log-likelihood, a number for each answer of a list, P(true) of two images, a
#: map of an image, a box.
_OTHERS = ("cosine", "likelihood", "answers", "two_images", "heat", "box")

#: Samples of one backend.forward, on a CPU and elsewhere: see `pass_size`. On a CPU four images already fill the cores.
SIZES = (4, 32)


@dataclass(frozen=True, slots=True, eq=False)
class TorchState:
    """One image's or one text's half: tensors without the batch's axis, on the model's device.

    `truncated` is whether it is of a text that was longer than the context, so that its end is lost.
    """

    tensors: Tensors
    truncated: bool = False

    @property
    def nbytes(self) -> int:
        """Memory of the tensors, in bytes."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors)

    @property
    def group(self) -> Hashable:
        """Key of the states that may share a batch: the shapes, and whether a mask hides anything (`batch_key`)."""
        boolean = backend.import_torch().bool
        return tuple((tuple(part.shape), bool(part.all()) if part.dtype == boolean else None) for part in self.tensors)


def encode_states(
    name: str,
    model: Network,
    place: backend.Runtime,
    samples: Sequence[Inputs],
    read: Callable[[dict[str, Any]], Iterable[Tensors]],
    sizes: tuple[int, int],
    *,
    cut: Sequence[bool] = (),
    collate: Callable[[Sequence[Inputs], backend.Runtime], dict[str, Any]] = join_samples,
) -> list[TorchState]:
    """Run prepared samples, each a batch of one, through a model: one state each; samples of one shape meet.

    `read` takes a batch to the tensors of each of its samples; `sizes` are those of a forward, as of `pass_size`; `cut`
    texts lost their end.
    """

    def compute(batch: Sequence[Inputs]) -> list[Tensors]:
        with backend.forward(name, model):
            # A copy: a view would keep all of its batch in memory.
            return [tuple(part.clone() for part in parts) for parts in read(collate(batch, place))]

    rows = backend.run_grouped(samples, batch_key, backend.pass_size(place.device, *sizes), compute)
    return [TorchState(*state) for state in zip(rows, cut or [False] * len(rows), strict=True)]


class TorchFusionEncoder:
    """A fusion encoder whose halves are torch modules.

    Every backend.forward has a shape that follows from the sample alone: images as the preprocessing leaves them, texts
    padded to the next multiple of eight tokens, batches filled up to a fixed size. So on a CPU no bit of a score
    depends on its neighbours; on other devices scores agree to about 1e-5 in float32.

    The reading is `itm`, the softmax of the head's logits; or `itm_logit`, the logit of that probability, which is the
    match's logit minus the other's. A head with a single output has that one number for both.
    """

    def __init__(
        self,
        name: str,
        halves: Halves,
        preparation: Preparation,
        runtime: backend.Runtime,
        *,
        reading: str = "itm",
        fingerprint: str | None = None,
    ) -> None:
        if reading not in (*READINGS, *_OTHERS):
            raise ModelError(f"{name}: a matching head has no reading {reading!r}; it has {', '.join(READINGS)}")
        self.name, self.left_out, self.notes = name, preparation.left_out, halves.notes
        self.kind: ScoreKind = "logit" if halves.match is None or reading == "itm_logit" else "probability"
        self.batch_size = backend.pass_size(runtime.device, *SIZES)
        self.parameters = backend.parameter_count(halves.module)
        self._halves, self._preparation, self._runtime, self.reading = halves, preparation, runtime, reading
        length = f"{preparation.texts.length} tokens"
        self.traits = {"context": length, "dtype": runtime.dtype}
        if fingerprint is None:
            identity = backend.weights_fingerprint(
                halves.module, type(halves).__name__, runtime.dtype, length, halves.facts, preparation.facts
            )
            fingerprint = f"tellapart:huggingface:{reading}:1:{identity}"
        self.fingerprint = fingerprint

    def prepare_image(self, pixels: Pixels) -> Prepared:
        """Preprocess one RGB image, uint8 `(height, width, 3)`, for `encode_images`; called from several threads."""
        return self._preparation.images(pixels)

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, padded to the context."""
        return self._preparation.texts.token_ids(texts)

    def input_pixels(self, pixels: Pixels) -> NDArray[np.float32]:
        """Return the first of an image's inputs, as the image's half is given it."""
        values: NDArray[np.float32] = np.asarray(next(iter(self.prepare_image(pixels).values())), np.float32)
        return values

    def encode_images(self, images: Sequence[Pixels | Prepared]) -> list[TorchState]:
        """Compute the images' halves, one state for each image, prepared or not."""
        prepared = [image if isinstance(image, Mapping) else self.prepare_image(image) for image in images]
        return self._encode(lambda inputs: self._halves.images(**inputs), list(map(_as_tensors, prepared)))

    def encode_texts(self, texts: Sequence[str]) -> list[TorchState]:
        """Compute the texts' halves, one state for each."""
        return self._encode(
            lambda inputs: self._halves.texts(inputs["input_ids"], inputs["attention_mask"]), *self.samples(texts)
        )

    def samples(self, texts: Sequence[str]) -> tuple[list[Inputs], list[bool]]:
        """Return each text's `input_ids` and bool `attention_mask`, and whether it lost its end."""
        samples, cut = self._preparation.texts.samples(texts)
        return [{**sample, "attention_mask": sample["attention_mask"].bool()} for sample in samples], cut

    def cosine(self) -> TorchDual:
        """Return the dual encoder whose vectors are the halves; a score is their cosine."""
        halves = self._halves
        towers = Towers(
            name=self.name,
            module=halves.module,
            place=self._runtime,
            image=lambda inputs: halves.images(**inputs)[0],
            text=lambda inputs: halves.texts(inputs["input_ids"], inputs["attention_mask"])[0],
            prepare=lambda pixels: _as_tensors(self.prepare_image(pixels)),
            reader=self,
            offers={"take_notes": lambda: self.notes},
            sizes=SIZES,
        )
        return TorchDual(towers, fingerprint=self.fingerprint)

    def score_states(self, images: Sequence[TorchState], texts: Sequence[TorchState]) -> NDArray[np.float32]:
        """Score image state `k` against text state `k`: float32 `(n,)`."""
        return np.array(self.outputs(images, texts, self._read_scores), np.float32)

    def outputs(
        self, images: Sequence[TorchState], texts: Sequence[TorchState], read: Callable[[Any], Any] | None = None
    ) -> list[NDArray[np.float32]]:
        """Return what is read of the head's output for image state `k` and text state `k`, by default all of it."""

        def compute(batch: Sequence[tuple[TorchState, TorchState]]) -> Any:
            columns = ([pair[side].tensors for pair in batch] for side in (0, 1))
            halves = (tuple(map(backend.import_torch().stack, zip(*rows, strict=True))) for rows in columns)
            with backend.forward(self.name, self._halves.module):
                output = self._halves.join(*halves).float()
                return (output if read is None else read(output)).cpu().numpy()

        pairs = list(zip(images, texts, strict=True))
        return backend.run_grouped(pairs, lambda pair: (pair[0].group, pair[1].group), self.batch_size, compute)

    def _read_scores(self, logits: Tensor) -> Tensor:
        """Return the scores that a head's logits, float32 `(batch, classes)`, are read as: `(batch,)`."""
        match = self._halves.match
        if match is None:
            return logits[:, 0]
        if self.reading == "itm_logit":
            return logits[:, match] - logits[:, 1 - match]
        return logits.softmax(1)[:, match]

    def _encode(
        self, half: Callable[[Inputs], Tensors], samples: Sequence[Inputs], truncated: Sequence[bool] = ()
    ) -> list[TorchState]:
        def read(inputs: Inputs) -> Iterable[Tensors]:
            return zip(*half(inputs), strict=True)

        module, place = self._halves.module, self._runtime
        return encode_states(self.name, module, place, samples, read, SIZES, cut=truncated, collate=stack_samples)


def _as_tensors(prepared: Prepared) -> Inputs:
    return {name: backend.import_torch().as_tensor(values) for name, values in prepared.items()}
