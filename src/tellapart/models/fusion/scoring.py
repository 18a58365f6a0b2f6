"""Models that compute a state for each image and each text once, and a pair's score from its two states."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.images import pixel_hash
from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError
from tellapart.models.fusion.family import Halves, Preparation, Tensors
from tellapart.models.protocols import Pixels
from tellapart.models.store.content_hash import text_hash
from tellapart.models.torch import backend
from tellapart.models.torch.dual_encoder import Inputs, TorchDual, Towers, batch_key
from tellapart.models.torch.network import Tensor

__all__ = ["READINGS", "FusionScorer", "StateEncoder", "StateModel", "TorchFusionEncoder", "TorchState", "image_key"]

#: Readings of the matching head: the probability of a match; or its logit, which separates pairs of probability 1, too.
READINGS = ("itm", "itm_logit")

#: Readings of other heads: a cosine, a log-likelihood, a number for each answer of a list, P(true) of two images, a
#: map of an image, a box.
_OTHER_READINGS = ("cosine", "likelihood", "answers", "two_images", "heat", "box")

#: Samples of one forward pass, on a CPU and elsewhere: see `pass_size`. On a CPU four images already fill the cores.
SIZES = (4, 32)

#: Pairs that are scored together: their states are in memory even if they exceed the cache's bound.
_CHUNK = 64


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


#: A function of the states of `n` images and of `n` texts: the score of each pair.
Meet = Callable[[Sequence[TorchState], Sequence[TorchState]], Sequence[Any]]


def meet_pairs(meet: Callable[[Tensors, Tensors], float]) -> Meet:
    """Return a `Meet` that takes the tensors of one image and of one text at a time."""
    return lambda images, texts: [meet(*(state.tensors for state in pair)) for pair in zip(images, texts, strict=True)]


class StateEncoder:
    """A model with a state for each image, or film, and for each text; the states of a pair meet in a number.

    Samples of one shape meet in forward passes of one size, the last one filled up. So no state depends on its
    neighbours: bit for bit on a CPU.

    Args:
        towers: `image` and `text` take a batch to the tensors of each of its samples.
        meet: gives the numbers of pairs of states.
        kind: of the numbers.
        fingerprint: of a caller's model; by default that of the towers.
    """

    notes: tuple[str, ...] = ()  #: on its numbers, a sentence each
    left_out = ""  #: work that is done before an image comes here, in words

    def __init__(self, towers: Towers, meet: Meet, kind: ScoreKind = "similarity", *, fingerprint: str = "") -> None:
        self.towers, self.name, self.offers, self.kind, self._meet = towers, towers.name, towers.offers, kind, meet
        self.fingerprint, self.prepare_image = fingerprint or towers.fingerprint, towers.prepare
        self.parameters = backend.parameter_count(towers.module)
        self.batch_size = backend.pass_size(towers.place.device, *towers.sizes)

    def encode_images(self, images: Sequence[Pixels | Inputs]) -> list[TorchState]:
        """Encode images or films, raw or prepared: one state each."""
        prepared = [image if isinstance(image, Mapping) else self.prepare_image(image) for image in images]
        return self._encode(self.towers.image, prepared)

    def encode_texts(self, texts: Sequence[str]) -> list[TorchState]:
        """Encode texts: one state each."""
        return self._encode(self.towers.text, *self.towers.reader.samples(texts))

    def score_states(self, images: Sequence[TorchState], texts: Sequence[TorchState]) -> NDArray[np.float32]:
        """Score image state `k` against text state `k`: float32 `(n,)`."""
        with backend.forward(self.name, self.towers.module):
            return np.array(self._meet(images, texts), np.float32)

    def _encode(
        self, tower: Callable[[Inputs], Iterable[Tensors]], samples: Sequence[Inputs], cut: Sequence[bool] = ()
    ) -> list[TorchState]:
        towers = self.towers

        def compute(batch: Sequence[Inputs]) -> list[Tensors]:
            with backend.forward(self.name, towers.module):
                # A copy: a view would keep all of its batch in memory.
                return [tuple(part.clone() for part in parts) for parts in tower(towers.collate(batch, towers.place))]

        rows = backend.run_grouped(samples, batch_key, self.batch_size, compute)
        return [TorchState(*state) for state in zip(rows, cut or [False] * len(rows), strict=True)]


class TorchFusionEncoder(StateEncoder):
    """A fusion encoder of halves: their outputs are the states, and the layers that join them give the number.

    Images are as the preprocessing leaves them, texts padded to the next multiple of eight tokens. On other devices
    than a CPU scores agree to about 1e-5 in float32.

    The reading of a matching head is `itm`, the softmax of its logits; or `itm_logit`, the logit of that probability,
    which is the match's logit minus the other's. A head with a single output has that number for both. Other readings
    (`cosine`, `likelihood`, ...) are of heads with other outputs.
    """

    def __init__(
        self,
        name: str,
        halves: Halves,
        preparation: Preparation,
        runtime: backend.Runtime,
        *,
        reading: str = "itm",
        fingerprint: str = "",
    ) -> None:
        if reading not in (*READINGS, *_OTHER_READINGS):
            raise ModelError(f"{name}: a matching head has no reading {reading!r}; it has {', '.join(READINGS)}")
        self.halves, self.preparation, self.reading = halves, preparation, reading
        self.left_out, self.notes = preparation.left_out, halves.notes
        length = f"{preparation.texts.length} tokens"

        def prepare(pixels: Pixels) -> Inputs:
            inputs = preparation.images(pixels)
            return {name: backend.import_torch().as_tensor(values) for name, values in inputs.items()}

        def read_texts(texts: Sequence[str]) -> tuple[list[Inputs], list[bool]]:
            samples, cut = preparation.texts.samples(texts)
            return [{**sample, "attention_mask": sample["attention_mask"].bool()} for sample in samples], cut

        towers = Towers(
            name=name,
            module=halves.module,
            place=runtime,
            image=lambda inputs: zip(*halves.images(**inputs), strict=True),
            text=lambda inputs: zip(*halves.texts(inputs["input_ids"], inputs["attention_mask"]), strict=True),
            prepare=prepare,
            reader=SimpleNamespace(samples=read_texts, token_ids=preparation.texts.token_ids),
            family=f"tellapart:huggingface:{reading}:1:",
            facts=(type(halves).__name__, runtime.dtype, length, halves.facts, preparation.facts),
            offers={
                "traits": {"context": length, "dtype": runtime.dtype},
                "token_ids": preparation.texts.token_ids,
                # The first of an image's inputs, as the image's half is given it.
                "input_pixels": lambda pixels: np.asarray(next(iter(prepare(pixels).values())), np.float32),
            },
            sizes=SIZES,
        )
        is_logit = halves.match is None or reading == "itm_logit"
        super().__init__(towers, self._read_scores, "logit" if is_logit else "probability", fingerprint=fingerprint)

    def cosine(self) -> TorchDual:
        """Return the dual encoder whose vectors are the halves; a score is their cosine."""
        halves = self.halves
        towers = replace(
            self.towers,
            image=lambda inputs: halves.images(**inputs)[0],
            text=lambda inputs: halves.texts(inputs["input_ids"], inputs["attention_mask"])[0],
            offers={"take_notes": lambda: self.notes},
        )
        return TorchDual(towers, fingerprint=self.fingerprint)

    def outputs(
        self, images: Sequence[TorchState], texts: Sequence[TorchState], read: Callable[[Any], Any] | None = None
    ) -> list[NDArray[np.float32]]:
        """Return what is read of the head's output for image state `k` and text state `k`, by default all of it."""

        def compute(batch: Sequence[tuple[TorchState, TorchState]]) -> Any:
            columns = ([pair[side].tensors for pair in batch] for side in (0, 1))
            states = (tuple(map(backend.import_torch().stack, zip(*rows, strict=True))) for rows in columns)
            with backend.forward(self.name, self.halves.module):
                output = self.halves.join(*states).float()
                return (output if read is None else read(output)).cpu().numpy()

        pairs = list(zip(images, texts, strict=True))
        return backend.run_grouped(pairs, lambda pair: (pair[0].group, pair[1].group), self.batch_size, compute)

    def _read_scores(self, images: Sequence[TorchState], texts: Sequence[TorchState]) -> list[NDArray[np.float32]]:
        match = self.halves.match

        def read(logits: Tensor) -> Tensor:  # float32 (batch, classes) -> (batch,)
            if match is None:
                return logits[:, 0]
            if self.reading == "itm_logit":
                return logits[:, match] - logits[:, 1 - match]
            return logits.softmax(1)[:, match]

        return self.outputs(images, texts, read)


class StateModel:
    """A model of an encoder of states, which are looked up by content and kept in memory, within a bound.

    States are large (a third of a million numbers for one image of BLIP), so they are never in the store on disk.
    Whether a half was looked up or computed changes no number.

    Attributes:
        cache_bytes: bound of the states kept; `pair_numbers` holds those of the 64 pairs at work beside them.
        images_encoded, texts_encoded: how many halves were computed.
        bytes_held: memory of the states that are kept now, in bytes.
    """

    #: A sentence on its files for results: which weights were taken, if there were others.
    provenance = ""
    cache_bytes = 2**30  #: about 600 images of BLIP at 384 pixels (577 x 768 float32 each)

    def __init__(self, encoder: StateEncoder) -> None:
        self.encoder = encoder
        self.name, self.fingerprint, self.kind = encoder.name, encoder.fingerprint, encoder.kind
        self.parameters, self.images_encoded, self.texts_encoded, self.bytes_held = encoder.parameters, 0, 0, 0
        self._states = OrderedDict[str, TorchState]()  # those unused the longest come first, and are dropped first
        self._truncated: set[str] = set()

    @property
    def truncated(self) -> int:
        """How many different texts so far were longer than the context and lost their end."""
        return len(self._truncated)

    def image_states(self, images: Sequence[Pixels | Inputs]) -> list[TorchState]:
        """Return the state of each image, uint8 `(height, width, 3)` or prepared."""
        # A pair set's image comes as one array for all of its texts.
        hashes = {number: image_key(image) for number, image in {id(image): image for image in images}.items()}
        states, fresh = self._fetch([hashes[id(image)] for image in images], images, self.encoder.encode_images)
        self.images_encoded += len(fresh)
        return states

    def text_states(self, texts: Sequence[str]) -> list[TorchState]:
        """Return the state of each text."""
        states, fresh = self._fetch(list(map(text_hash, texts)), texts, self.encoder.encode_texts)
        self.texts_encoded += len(fresh)
        self._truncated.update(key for key, state in fresh.items() if state.truncated)
        return states

    def pair_numbers(self, images: Sequence[Pixels | Inputs], texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the number of image `k`, uint8 `(height, width, 3)` or prepared, and text `k`: float32 `(n,)`."""
        if len(images) != len(texts):
            raise ModelError(f"score_pairs takes as many images as texts; got {len(images)} and {len(texts)}")
        numbers = np.zeros(len(texts), np.float32)
        for start in range(0, len(texts), _CHUNK):
            chunk = slice(start, start + _CHUNK)
            states = self.image_states(images[chunk]), self.text_states(texts[chunk])
            numbers[chunk] = self.encoder.score_states(*states)
        return numbers

    def _fetch(
        self, keys: Sequence[str], samples: Sequence[Any], encode: Callable[[Sequence[Any]], Sequence[TorchState]]
    ) -> tuple[list[TorchState], dict[str, TorchState]]:
        """Return the state of every sample, and by their keys those that were computed now."""
        distinct = dict(zip(keys, samples, strict=True))
        cached = {key: self._states[key] for key in distinct if key in self._states}
        missing = [key for key in distinct if key not in cached]
        encoded = encode([distinct[key] for key in missing]) if missing else []
        if len(encoded) != len(missing):
            raise ModelError(f"the model gave {len(encoded)} states for {len(missing)} images or texts")
        fresh = dict(zip(missing, encoded, strict=True))
        self._states |= fresh
        self.bytes_held += sum(state.nbytes for state in encoded)
        for key in distinct:
            self._states.move_to_end(key)
        while self.bytes_held > self.cache_bytes:
            self.bytes_held -= self._states.popitem(last=False)[1].nbytes
        states = cached | fresh
        return [states[key] for key in keys], fresh


class FusionScorer(StateModel):
    """A model of states as a pair scorer; the store keeps the pairs' scores.

    Attributes:
        batch_size: pairs to score at once, so that few forward passes are filled up.
        prepare_image: prepares an RGB image for `score_pairs`; called from many threads.
    """

    batch_size = _CHUNK
    score_pairs = StateModel.pair_numbers

    def __init__(self, encoder: StateEncoder) -> None:
        super().__init__(encoder)
        self.prepare_image = encoder.prepare_image
        self.__dict__ |= encoder.offers

    def take_notes(self) -> tuple[str, ...]:
        """Return what a user should know of the model, a sentence each."""
        return self.encoder.notes


def image_key(image: Pixels | Inputs) -> str:
    """Return the SHA-256 of an image, or of a prepared one: names, types, shapes and bytes of its inputs."""
    if isinstance(image, np.ndarray):
        return pixel_hash(image)
    digest = hashlib.sha256()
    for name in sorted(image):
        array = np.ascontiguousarray(image[name])
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(array.data)
    return digest.hexdigest()
