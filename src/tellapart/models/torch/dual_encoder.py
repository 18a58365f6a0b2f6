"""A dual encoder of torch: two towers, which a library's loader fills in; the same object measures and trains."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError
from tellapart.models.protocols import Pixels, Vectors
from tellapart.models.torch import backend
from tellapart.models.torch.checkpoint import Checkpoint
from tellapart.models.torch.network import Network, Tensor
from tellapart.models.vectors import dot_products, normalise

__all__ = ["Inputs", "LocalFeatures", "Pictures", "TextReader", "TorchDual", "Towers", "batch_key", "stack_samples"]

#: Inputs of a tower by name: of a sample, without the batch's axis (for `join_samples`, a batch of one); of a batch,
#: stacked and on the model's device.
Inputs = Mapping[str, Any]


class TextReader(ABC):
    """A tokenizer that cuts texts to the context and pads each to a length that depends on the text alone."""

    length: int  #: of the context, in tokens, with the special ones

    @abstractmethod
    def lengths(self, texts: Sequence[str]) -> tuple[list[int], list[bool]]:
        """Return each text's padded length, in tokens, and whether it exceeds the context and loses its end."""

    @abstractmethod
    def tokens(self, texts: Sequence[str], length: int) -> dict[str, Any]:
        """Tokenise texts to tensors `(n, length)` by name; `input_ids` is one of them."""

    def samples(self, texts: Sequence[str]) -> tuple[list[Inputs], list[bool]]:
        """Return each text's inputs, and whether it lost its end."""
        lengths, cut = self.lengths(texts)
        rows: dict[int, Inputs] = {}
        for length, positions in backend.positions_by_key(lengths).items():
            tokens = self.tokens([texts[position] for position in positions], length)
            rows |= {
                position: {name: tensor[row] for name, tensor in tokens.items()}
                for row, position in enumerate(positions)
            }
        return [rows[position] for position in range(len(texts))], cut

    def batch(self, texts: Sequence[str]) -> dict[str, Any]:
        """Tokenise texts to one batch, as long as the longest needs."""
        return self.tokens(texts, max(self.lengths(texts)[0], default=self.length))

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, padded to the context."""
        ids = self.tokens(texts, self.length)["input_ids"] if texts else []
        return [[int(token) for token in row] for row in ids]

    def find_cut(self, texts: Sequence[str]) -> list[bool]:
        """Return for each text whether it is longer than the context."""
        return [bool(cut) for cut in self.lengths(texts)[1]]


class SharedTexts(Protocol):
    """A causal text tower that computes beginnings that several texts share once."""

    @property
    def shares(self) -> bool:
        """Whether the tower is one that it knows, of untouched modules."""

    def encode_shared(self, inputs: Inputs, size: int) -> Any:
        """Return features `(n, dimensions)` of texts of one padded length; None if it cannot read them."""


def stack_samples(samples: Sequence[Inputs], place: backend.Runtime) -> dict[str, Any]:
    """Stack the inputs of samples of one shape, on the device."""
    torch = backend.import_torch()
    return {name: backend.move(torch.stack([sample[name] for sample in samples]), place) for name in samples[0]}


class Pictures:
    """Pictures of one size, uint8 on the CPU; each batch of them is normalised on the device.

    `shape` takes an image of PIL to that size; `mean` and `std`, of R, G and B in units of 0..1, are subtracted and
    divided by. torchvision's step would copy these again and ask the device about zeros, a wait in every batch.
    """

    def __init__(
        self, shape: Callable[[Any], Any], mean: Sequence[float], std: Sequence[float], place: backend.Runtime
    ) -> None:
        tensor = backend.import_torch().as_tensor
        self._mean, self._std = (tensor(numbers, device=place.device).view(-1, 1, 1) for numbers in (mean, std))
        self._shape, self._place = shape, place

    def prepare(self, pixels: Pixels) -> Inputs:
        """Bring one image, uint8 `(height, width, 3)`, to the size; may be called from many threads."""
        from PIL import Image

        return {"pixels": backend.import_torch().from_numpy(np.array(self._shape(Image.fromarray(pixels))))}

    def normalise(self, inputs: Inputs) -> Any:
        """Return a batch as the tower reads it, `(n, 3, height, width)`."""
        values = inputs["pixels"].permute(0, 3, 1, 2).contiguous().to(backend.import_torch().float32)
        return values.div(255).sub_(self._mean).div_(self._std).to(self._place.torch_dtype)

    def shown(self, inputs: Inputs) -> Any:
        """Return what of one image the tower is given, `(3, height, width)`."""
        return self.normalise({"pixels": backend.move(inputs["pixels"], self._place)[None]})[0].float().cpu()


class LocalFeatures:
    """Local features, by patch and by word: the last states of two towers, projected as the pooled ones are.

    Of each tower it takes the last module that gives a state for every token, `(n, tokens, width)`, and what projects
    such states to `(n, tokens, d)`; `words` takes ids to a mask of real words. States are kept from when it is made.
    """

    def __init__(self, image: tuple[Any, Any], text: tuple[Any, Any], words: Callable[[Any], Any]) -> None:
        self._projections, self._words = (image[1], text[1]), words
        self._states: dict[int, Any] = {}
        for side, norm in enumerate((image[0], text[0])):
            norm.register_forward_hook(lambda _module, _inputs, states, side=side: self._keep_states(side, states))

    def _keep_states(self, side: int, states: Tensor) -> None:
        self._states[side] = states

    def read(self, ids: Tensor) -> tuple[Any, Any, Any]:
        """Return the towers' last outputs: patches, words as unit vectors, and which words are real.

        They are float32 `(n, patches, d)`, float32 `(m, length, d)` and bool `(m, length)`.
        """
        patches, words = (project(self._states.pop(side)).float() for side, project in enumerate(self._projections))
        return patches[:, 1:], backend.import_torch().nn.functional.normalize(words, dim=-1), self._words(ids)


@dataclass(frozen=True, slots=True, eq=False)
class Towers:
    """What makes an encoder of a library's model: the row that its loader fills in.

    Towers of a dual encoder take inputs to features `(n, dimensions)`, or `(n, queries, dimensions)`, of any length;
    those of a `StateEncoder` to the tensors of each sample.
    """

    name: str  # in results
    module: Network  # with the weights
    place: backend.Runtime  # in which it computes
    image: Callable[[Inputs], Any]
    text: Callable[[Inputs], Any]
    #: An image, uint8 `(height, width, 3)` -> its inputs, on the CPU; called from many threads.
    prepare: Callable[[Pixels], Inputs]
    reader: Any  # the tokenizer: a `TextReader`, or an object with `samples`
    facts: tuple[str, ...] = ()  # all that vectors depend on beside the weights, for the fingerprint
    family: str = ""  # with which the fingerprint begins
    provenance: str = ""  # a sentence on its files for results; empty if there is nothing to be said
    checkpoint: Checkpoint | None = None  # read for the weights, without its tensors; None of other files
    offers: Mapping[str, Any] = field(default_factory=dict)  # attributes of optional protocols (`traits`, ...)
    dimensions: int = 0  # of the vectors; 0 if it is not needed before the first
    shown: Callable[[Inputs], Any] = lambda inputs: inputs["pixel_values"]  # what of them the image tower is given
    shared: SharedTexts | None = None  # computes beginnings that texts share once; None without such a tower
    unit: bool = True  # vectors are scaled to length one, so that a score is a cosine
    #: Samples of one shape -> a batch.
    collate: Callable[[Sequence[Inputs], backend.Runtime], dict[str, Any]] = stack_samples
    sizes: tuple[int, int] = (16, 64)  # samples in one pass, on a CPU and elsewhere: part of the model's identity
    #: Writes the model to a new folder, and returns the name for `tellapart run -m`; None if it cannot be trained.
    save: Callable[[Path], str] | None = None
    #: Makes the features of patches and words, for losses that read them; None without such towers.
    local: Callable[[], LocalFeatures | None] = lambda: None

    @property
    def fingerprint(self) -> str:
        """The family, and the hash of the weights and of the facts."""
        return self.family + backend.weights_fingerprint(self.module, *self.facts)


class TorchDual:
    """A dual encoder of any library of torch; a score is the cosine of image and text.

    Samples of one shape meet in forward passes of one size (16 on a CPU, 64 elsewhere), the last one filled up. A
    text's padded length depends on the text alone. So no vector changes with the batch, the order or the neighbours,
    on one device with one number of threads: bit for bit on a CPU. There a causal text tower computes beginnings that
    several texts share once (`shares_beginnings`), which changes no bit. Of an image with several vectors (BLIP-2's
    queries) the largest cosine counts.

    Attributes:
        prepare_image: prepares an RGB image, uint8 `(height, width, 3)`, for `encode_images`; called from many threads.
        batch_size: samples that are best given at once: some forward passes, so that texts of one length meet.
        truncated: how many of the texts encoded so far were longer than the context and lost their end.
        ranks_by_cosine: scores rise with the cosine of the vectors, so that a gallery can be ranked by it.
    """

    kind: ScoreKind = "similarity"

    def __init__(self, towers: Towers, *, fingerprint: str = "") -> None:
        self.towers, self.name, self.device = towers, towers.name, towers.place.device
        self.truncated, self.parameters, self.provenance = 0, backend.parameter_count(towers.module), towers.provenance
        self.prepare_image, self.ranks_by_cosine = towers.prepare, towers.unit
        self._size = backend.pass_size(self.device, *towers.sizes)
        self.batch_size = 4 * self._size
        self.fingerprint = fingerprint or towers.fingerprint
        # Set here, not looked up when asked for: `isinstance` of a protocol sees existing attributes alone.
        reader = {name: getattr(towers.reader, name, None) for name in ("token_ids", "find_cut")}
        self.__dict__ |= {name: method for name, method in reader.items() if method} | dict(towers.offers)

    def input_pixels(self, pixels: Pixels) -> NDArray[np.float32]:
        """Return one image as the tower is given it; of a model that takes patches, `(patches, values)`."""
        return np.asarray(self.towers.shown(self.prepare_image(pixels)), np.float32)

    def encode_images(self, images: Sequence[Pixels | Inputs]) -> Vectors:
        """Encode RGB images, raw or prepared, to float32 `(n, dimensions)`, or `(n, queries * dimensions)`."""
        prepared = [self.prepare_image(image) if isinstance(image, np.ndarray) else image for image in images]
        return self._encode_samples(self.towers.image, prepared)

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """Encode texts to float32 `(n, dimensions)`; count the cut ones in `truncated`."""
        samples, cut = self.towers.reader.samples(texts)
        self.truncated += sum(cut)
        return self._encode_samples(self.towers.text, samples, self.towers.shared if self.shares_beginnings else None)

    @property
    def shares_beginnings(self) -> bool:
        """Whether texts share the states of common beginnings: on a CPU, by a causal tower of known modules."""
        shared = self.towers.shared
        return self.device == "cpu" and not backend.exact_size() and shared is not None and shared.shares

    def similarity(self, images: Vectors, texts: Vectors) -> NDArray[np.float32]:
        """Score vectors: float32 `(images, texts)`, cosines; of an image's several vectors the largest.

        Of stacks of vectors, `(items, images, ...)` and `(items, texts, ...)`, item by item: `(items, images, texts)`.
        """
        (*items, count, width), dimensions = images.shape, texts.shape[-1]
        if width == dimensions:
            return dot_products(images, texts)
        queries, rest = divmod(width, dimensions)
        if rest or not queries:
            raise ModelError(
                f"{self.name}: images are encoded to {width} dimensions and texts to {dimensions}: its towers do not "
                "meet in one space; check the sizes of its projections in config.json"
            )
        similarities = dot_products(images.reshape(*items, count * queries, dimensions), texts)
        largest: NDArray[np.float32] = similarities.reshape(*items, count, queries, texts.shape[-2]).max(axis=-2)
        return largest

    similarities = similarity

    def _encode_samples(
        self, tower: Callable[[Inputs], Any], samples: Sequence[Inputs], shared: SharedTexts | None = None
    ) -> Vectors:
        towers = self.towers

        def compute(batch: Sequence[Inputs]) -> Any:
            with backend.forward(self.name, towers.module):
                return tower(towers.collate(batch, towers.place))

        def share(group: Sequence[Inputs]) -> Any:
            with backend.forward(self.name, towers.module):
                return shared and shared.encode_shared(towers.collate(group, towers.place), self._size)

        rows = backend.run_grouped(samples, batch_key, self._size, compute, share)
        if not rows:
            return np.zeros((0, towers.dimensions), np.float32)
        # Only here, for a GPU computes one batch while the next is put together.
        features: NDArray[np.float32] = backend.import_torch().stack(rows).float().cpu().numpy()
        if not towers.unit:
            return features
        unit = normalise(features.reshape(-1, features.shape[-1]), self.name, towers.place.dtype)
        return unit.reshape(len(rows), -1)


def batch_key(sample: Inputs) -> Hashable:
    """Return the traits that all samples of a batch share: shapes and dtypes of tensors, and all other values.

    A library skips a mask that hides nothing in the batch: whether it does may not depend on the neighbours.
    """
    torch = backend.import_torch()
    return tuple(
        (name, tuple(value.shape), value.dtype, value.dtype == torch.bool and bool(value.all()))
        if torch.is_tensor(value)
        else (name, str(value))
        for name, value in sorted(sample.items())
    )


def join_samples(batch: Sequence[Inputs], place: backend.Runtime) -> dict[str, Any]:
    """Join samples, each a batch of one, on the device; constants are the same in all of them."""
    torch = backend.import_torch()
    inputs = dict(batch[0])
    for name, value in inputs.items():
        if torch.is_tensor(value):
            joined = torch.cat([features[name] for features in batch])
            inputs[name] = joined.to(place.device, place.torch_dtype if joined.is_floating_point() else None)
    return inputs
