"""The protocol of models in training: towers with gradients, their preprocessing, and a folder to write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from tellapart.errors import DataError, ModelError
from tellapart.models.protocols import Bounded, Model, Pixels
from tellapart.models.torch.backend import import_torch
from tellapart.models.torch.dual_encoder import LocalFeatures, TorchDual

if TYPE_CHECKING:
    from torch import Tensor, nn

    from tellapart.training.config import TrainConfig


#: Inputs of a tower by name, on the CPU; of many samples stacked along the first axis.
Inputs = Mapping[str, "Tensor"]


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """The vectors of a few images and texts.

    Attributes:
        images: `(n, d)`, unit vectors.
        texts: `(m, d)`, unit vectors.
        scale: scalar that cosines are multiplied by.
        bias: scalar that is added to logits, or None.
        patches: `(n, p, d)`, unit vectors of parts of the images, if the loss reads them.
        words: `(m, w, d)`, unit vectors of the texts' tokens, if the loss reads them.
        real_words: bool `(m, w)`, which tokens there are.
    """

    images: Tensor
    texts: Tensor
    scale: Tensor
    bias: Tensor | None
    patches: Tensor | None = None
    words: Tensor | None = None
    real_words: Tensor | None = None


class Trainable(Protocol):
    """A model of any family with gradients."""

    @property
    def module(self) -> nn.Module:
        """The weights; a dual encoder's, called with inputs of images and of texts, returns `Encoded` as a tuple."""

    @property
    def log_scale(self) -> Tensor | None:
        """The parameter whose exponential is a contrastive scale, or None."""

    @property
    def reader(self) -> Bounded:
        """The tokenizer, which shows the tokens that the text tower reads of a text, and whether it cuts it."""

    def image(self, pixels: Pixels) -> Inputs:
        """Prepare one image, uint8 `(height, width, 3)`, as the model's preprocessing does."""

    def tokens(self, texts: Sequence[str]) -> Inputs:
        """Tokenise texts; `(m, length)`, cut to the context, as long as the longest needs."""

    def model(self) -> Model:
        """Return a model that measures with the weights as they are; it shares them."""

    def save(self, folder: Path) -> str:
        """Write the model to a new folder and return the name that `tellapart run -m` takes."""


class TrainableDual:
    """A dual encoder with gradients: the object that measures, its module in a wrapper."""

    def __init__(self, dual: TorchDual) -> None:
        self._towers, self.reader = dual.towers, dual.towers.reader
        model: Any = dual.towers.module
        model.requires_grad_(True)
        self.module: nn.Module = _dual_module()(model, dual.towers.image, dual.towers.text)

    @property
    def log_scale(self) -> Tensor:
        """CLIP's `logit_scale`."""
        scale: Tensor = self._towers.module.logit_scale
        return scale

    def image(self, pixels: Pixels) -> Inputs:
        """Prepare one image, uint8 `(height, width, 3)`, as in measuring."""
        return self._towers.prepare(pixels)

    def tokens(self, texts: Sequence[str]) -> Inputs:
        """Tokenise texts to tensors `(m, length)`, as long as the longest needs."""
        tokens: Inputs = self.reader.batch(texts)
        return tokens

    def model(self) -> TorchDual:
        """Return a model that measures with the weights as they are."""
        return TorchDual(self._towers)

    def save(self, folder: Path) -> str:
        """Write the model to a new folder and return the name that `tellapart run -m` takes."""
        return cast("Callable[[Path], str]", self._towers.save)(folder)

    def add_bias(self) -> None:
        """Add SigLIP's bias, -10 at first, if the model has none; it is trained, and not saved with the model."""
        if getattr(self._towers.module, "logit_bias", None) is None:
            torch = import_torch()
            value = torch.full((), -10.0, device=self.log_scale.device)
            self.module.register_parameter("logit_bias", torch.nn.Parameter(value))

    def add_local(self) -> None:
        """Let the module return vectors of patches and of words, too."""
        local = self._towers.local()
        if local is None:
            raise ModelError(
                "fsc-clip reads patches and words, and the model has none in the space of its images and texts; take "
                "a ViT of open_clip that pools by its first token (ViT-B-32), or the loss fsc-global, which reads none"
            )
        cast("Any", self.module).local = local


def freeze_images(trainable: Trainable) -> None:
    """Train the text tower and the scale alone: the image tower keeps its weights, and its norms their means."""
    towers = {"visual", "vision_model", "visual_projection"}
    model: Any = getattr(trainable.module, "model", None)
    dual = isinstance(trainable, TrainableDual)
    heads = [part for name, part in model.named_children() if name in towers] if dual else []
    if not heads:
        raise ModelError(
            'optimiser.tower = "text": the model has no separate image tower to be left as it is; take a dual '
            "encoder of open_clip, a CLIP of transformers, or compact:FOLDER, or leave tower out"
        )
    for part in heads:
        keep_still(part.requires_grad_(False))


def keep_still(part: nn.Module) -> None:
    """Keep a part of a model in evaluation while the rest trains: no dropout, and norms keep their statistics.

    >>> torch = import_torch()
    >>> layers = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.Dropout())
    >>> keep_still(layers[0])
    >>> [layer.training for layer in layers.train()]
    [False, True]
    """
    part.eval()
    part.train = lambda mode=True: part  # type: ignore[method-assign]  # noqa: ARG005


def add_dropout(module: nn.Module, patterns: Mapping[str, float]) -> None:
    """Have parts of a module lose a share of their output while it trains; the first pattern that matches counts.

    >>> torch = import_torch()
    >>> layers = torch.nn.Sequential(torch.nn.Identity()).train()
    >>> add_dropout(layers, {"0": 0.5})
    >>> sorted(set(layers(torch.ones(100)).tolist())), layers.eval()(torch.ones(1)).tolist()
    ([0.0, 2.0], [1.0])
    """
    drop, names = import_torch().nn.functional.dropout, dict(module.named_modules())
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise DataError(
                f"dropout: no part of the model has a name that matches {pattern!r}; {list(names)[-1]} is one"
            )
    for name, part in names.items():
        share = next((share for pattern, share in patterns.items() if fnmatchcase(name, pattern)), 0.0)
        if share:
            part.register_forward_hook(
                lambda own, _, output, share=share: drop(output, share, own.training),
            )


def picture_side(trainable: Trainable) -> int:
    """Return the side, in pixels, of the images that the model reads."""
    prepared = trainable.image(np.zeros((8, 8, 3), np.uint8))
    return max(max(tensor.shape) for tensor in prepared.values())


@cache
def _dual_module() -> type[nn.Module]:
    # Made on first use, because its base class is torch's.
    torch = import_torch()

    class DualModule(torch.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self, model: Any, encode_images: Any, encode_texts: Any) -> None:
            super().__init__()
            self.model, self._encode_images, self._encode_texts = model, encode_images, encode_texts
            self.register_parameter("logit_bias", None)
            self.local: LocalFeatures | None = None

        def forward(self, images: Inputs, texts: Inputs) -> tuple[Any, ...]:
            image, text = self._encode_images(images), self._encode_texts(texts)
            bias = getattr(self.model, "logit_bias", None)
            bias = self.logit_bias if bias is None else bias
            local = () if self.local is None else self.local.read(texts["input_ids"])
            return unit(image.float()), unit(text.float()), self.model.logit_scale.exp(), bias, *local

    return DualModule


def autocast(precision: str, device: str) -> AbstractContextManager[Any]:
    """Return the context in which encoders compute: torch's autocast for `bfloat16`, nothing for `float32`."""
    torch = import_torch()
    context: AbstractContextManager[Any] = torch.autocast(device, torch.bfloat16, enabled=precision == "bfloat16")
    return context


def unit(vectors: Tensor) -> Tensor:
    """Scale rows to length one, in the same precision."""
    scaled: Tensor = vectors / vectors.norm(dim=-1, keepdim=True)
    return scaled


# Batch normalisation in training: its statistics are those of a whole batch, or they stay as the model came with them.
# A layer that sees a few pairs at a time, or one rank's pairs, would normalise by other statistics than those of the
# batch, and move its running means once for each piece: the numbers would depend on memory and machines.


def settle_norms(module: nn.Module, config: TrainConfig, ranks: int) -> None:
    """Freeze the statistics of batch normalisation if the configuration asks for it, or trains low-rank updates alone.

    >>> torch, batch = import_torch(), {"size": 4, "micro": 2}
    >>> settings = {"name": "few", "model": "-", "data": {"train": ["a"]}, "loss": {"name": "itc"}, "batch": batch}
    >>> settings |= {"optimiser": {"learning_rate": 1e-3, "steps": 2}, "batch_norm": "frozen"}
    >>> from tellapart.training.config import TrainConfig
    >>> layers = torch.nn.Sequential(torch.nn.BatchNorm1d(3))
    >>> settle_norms(layers, TrainConfig(**settings), 1)
    >>> layers.train()[0].training
    False
    """
    live = _moving_norms(module.train())
    frozen = config.batch_norm == "frozen"
    if frozen and not (live and all(layer.running_mean is not None for layer in live.values())):
        lacks = next((name for name, layer in live.items() if layer.running_mean is None), None)
        reason = "the model trains no batch normalisation" if lacks is None else f"{lacks} keeps no statistics"
        raise DataError(f'batch_norm = "frozen": {reason}; leave it out')
    for layer in live.values():
        if (frozen or config.lora is not None) and layer.running_mean is not None:
            keep_still(layer)
    live = _moving_norms(module)
    cuts = [f"batch.micro = {config.batch.micro}"] if config.batch.micro is not None else []
    cuts += [f"{ranks} ranks"] if ranks > 1 else []
    if live and cuts:
        rest = f" and {len(live) - 1} more" if len(live) > 1 else ""
        raise DataError(
            f"{' and '.join(cuts)}: batch normalisation ({next(iter(live))}{rest}) has statistics of the batch, and "
            "would see parts of it, which changes the numbers; leave batch.micro out and train on one rank, or set "
            'batch_norm = "frozen" to keep the statistics of the start'
        )


def _moving_norms(module: nn.Module) -> dict[str, nn.modules.batchnorm._NormBase]:
    """Return the layers by name whose output or statistics depend on the batch, in the mode that they are in."""
    base = import_torch().nn.modules.batchnorm
    return {
        name: layer
        for name, layer in module.named_modules()
        if isinstance(layer, base._NormBase)
        and (layer.training or layer.running_mean is None)
        and (layer.track_running_stats or isinstance(layer, base._BatchNorm))
    }
