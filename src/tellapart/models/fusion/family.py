"""Declarations of fusion encoders: families, prefixes, the two halves of a network, and how they are loaded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tellapart.models.huggingface.files import config_facts, load_weights
from tellapart.models.huggingface.inputs import ImageInputs, TokenReader, check_tokenizer, text_config
from tellapart.models.options import ModelOptions, ModelPrefix
from tellapart.models.torch.backend import Runtime, import_torch
from tellapart.models.torch.network import Network, PreTrainedTokenizerBase, Tensor

__all__ = [
    "Contrast", "FromTransformers", "FusionFamily", "FusionPrefix", "Halves", "Loader", "Preparation", "Tensors",
    "TrainableParts", "pad_tokens", "read_tokens",
]  # fmt: skip


Tensors = tuple["Tensor", ...]


class Halves(ABC):
    """The two unimodal halves of one architecture and the layers that join them, on batches of one shape.

    The class's name is in fingerprints, and never changes. Masks are `torch.bool`, True on real tokens or regions.

    Attributes:
        match: index of the matching head's class "match"; None if the head has a single output.
        module: a `torch.nn.Module`.
        context: tokens that a text may have.
    """

    match: int | None = 1

    def __init__(self, module: Network) -> None:
        self.module = module
        self.context: int = text_config(module.config).max_position_embeddings

    @property
    def facts(self) -> str:
        """The configuration, as part of the fingerprint."""
        return config_facts(self.module.config)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences that results show beside the model's numbers."""
        return ()

    @abstractmethod
    def images(self, *args: Any, **inputs: Any) -> Tensors:
        """Compute the images' half of a batch, given the prepared inputs by name: tensors `(batch, ...)`."""

    def texts(self, ids: Tensor, mask: Tensor) -> Tensors:
        """Compute the texts' half of int64 and bool `(batch, tokens)`: tensors `(batch, ...)`.

        By default ids and mask are passed on, for architectures whose first layer reads text and image together.
        """
        return ids, mask

    @abstractmethod
    def join(self, images: Tensors, texts: Tensors) -> Tensor:
        """Join the halves: the matching head's logits, `(batch, classes)`."""


#: Loads a family's halves from a folder or hub id.
Loader = Callable[[str, Runtime], Halves]


@dataclass(frozen=True, slots=True)
class Contrast:
    """Unimodal vectors of images and texts, by which training chooses negatives.

    Attributes:
        heads: names of the module's projections.
        vectors: module, states of images and of texts -> vectors `(n, d)` of both, of any length.
        log_scale: module -> logarithm of the factor of their cosines: a parameter, or a number that stays.
    """

    heads: tuple[str, ...]
    vectors: Callable[[Network, Tensors, Tensors], tuple[Tensor, Tensor]]
    log_scale: Callable[[Network], Tensor | float] = lambda module: module.config.logit_scale_init_value


@dataclass(frozen=True, slots=True)
class FusionFamily:
    """A family of fusion encoders.

    Attributes:
        load: for scoring.
        load_trainable: for training; None if the family cannot be trained.
        contrast: unimodal vectors of a trainable family; None if it has none.
        takes_any_shape: images may differ in height and width; else they must come out as the image tower reads them.
        regions: of a family that reads a detector's regions in place of pixels: takes a model's name and options to
            what prepares the inputs of its halves. None of the others.
    """

    load: Loader
    load_trainable: Loader | None = None
    contrast: Contrast | None = None
    takes_any_shape: bool = False
    regions: Callable[[str, ModelOptions], Callable[[Halves], Preparation]] | None = None


@dataclass(frozen=True, slots=True)
class FromTransformers:
    """The loader of an `architecture` as halves; `unused` parts may be missing, for the matching head reads none."""

    halves: Callable[[Network], Halves]
    architecture: str
    unused: tuple[str, ...] = ()

    def __call__(self, source: str, runtime: Runtime) -> Halves:
        """Load the halves from a folder or the hub."""
        return self.halves(load_weights(self.architecture, source, runtime, unused=self.unused))


def pad_tokens(tensor: Tensor, length: int) -> Tensor:
    """Pad `(batch, tokens, ...)` with zeros (False) to `(batch, length, ...)`."""
    extra = tensor.new_zeros((tensor.shape[0], length - tensor.shape[1], *tensor.shape[2:]))
    padded: Tensor = import_torch().cat([tensor, extra], dim=1)
    return padded


def read_tokens(source: str, halves: Halves, tokenizer: PreTrainedTokenizerBase) -> TokenReader:
    """Return the reader of a model's texts by a tokenizer of transformers, cut to the shorter context of both."""
    check_tokenizer(source, halves.module.config, tokenizer)
    return TokenReader(tokenizer, min(halves.context, int(tokenizer.model_max_length)))


@dataclass(frozen=True, slots=True, eq=False)
class Preparation:
    """Preprocessing of a fusion encoder's images and texts.

    Attributes:
        images: takes RGB uint8 `(height, width, 3)` to the inputs of `Halves.images`.
        texts: the tokenizer, cut to the context.
        facts: all that the inputs depend on; the same wherever the files lie.
        left_out: work that is done before an image comes here, in words; empty if none.
    """

    images: ImageInputs
    texts: TokenReader
    facts: str
    left_out: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class TrainableParts:
    """The parts of a fusion encoder that is to be trained.

    Attributes:
        name: of its source.
        save: writes the model to a new folder and returns the name that `tellapart run -m` takes.
        others: the same model with other heads.
        read: number that the halves' head gives: `itm` or `itm_logit`.
        begun: whether training begins with a head that the source lacks.
    """

    name: str
    halves: Halves
    preparation: Preparation
    contrast: Contrast | None
    save: Callable[[Path], str]
    others: tuple[Halves, ...] = ()
    read: str = "itm"
    begun: bool = False


@dataclass(frozen=True, slots=True)
class FusionPrefix(ModelPrefix):
    """A prefix of fusion encoders in files of their authors.

    Attributes:
        open_trainable: opens the model of a name for training: on a device, with a matching head for each of the
            readings, for images of that side in pixels (None: the file's). It raises `ModelError` for a model that
            cannot be trained. None if no model of the prefix can be.
    """

    open_trainable: Callable[[str, Runtime, Sequence[str], int | None], TrainableParts] | None = None
