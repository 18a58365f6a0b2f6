"""LoRA: low-rank updates of linear layers are trained, all else stays; the written model has them merged.

Source: Hu et al. 2022, LoRA: Low-Rank Adaptation of Large Language Models, section 4.1; the layers are peft's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tellapart.errors import ModelError, require
from tellapart.models.protocols import Model, Pixels
from tellapart.models.torch_backend import import_torch
from tellapart.train.checkpoint import Weights
from tellapart.train.config import LoraConfig
from tellapart.train.encoders import Inputs, Trained

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["Adapted", "linear_layers", "merged", "with_directions"]


class Adapted:
    """A model of any family of which low-rank updates alone are trained, and the contrastive scale where there is one.

    Args:
        trained: the model; its linear layers are replaced in place.
        told: rank, weight, dropout, and which layers.
        seed: of the updates' directions; they begin with no length, so the model begins as it is.

    Attributes:
        module: the model's, with updates.

    Raises:
        ModelError: there is no such layer.
        MissingDependencyError: peft is not installed.

    >>> Adapted.save.__name__
    'save'
    """

    def __init__(self, trained: Trained, told: LoraConfig, seed: int) -> None:
        peft = require("peft", extra="train")
        self._trained, self.module = trained, trained.module
        names = linear_layers(trained.module, told.targets)
        import_torch().manual_seed(seed)
        config = peft.LoraConfig(
            r=told.rank,
            lora_alpha=told.alpha,
            lora_dropout=told.dropout,
            target_modules="|".join(map(re.escape, names)),  # a text is a pattern of whole names
        )
        peft.inject_adapter_in_model(config, trained.module)  # which freezes everything else
        if trained.log_scale is not None:
            trained.log_scale.requires_grad_(True)

    @property
    def log_scale(self) -> Tensor | None:
        """The model's."""
        return self._trained.log_scale

    def image(self, pixels: Pixels) -> Inputs:
        """Prepare one image as the model does."""
        return self._trained.image(pixels)

    def tokens(self, texts: Sequence[str]) -> Inputs:
        """Tokenise texts as the model does."""
        return self._trained.tokens(texts)

    def model(self) -> Model:
        """Return a model that measures with the weights and the updates as they are."""
        return self._trained.model()

    def save(self, folder: Path) -> str:
        """Write an ordinary model, which has the updates in its weights."""
        with merged(self.module):
            return self._trained.save(folder)


def linear_layers(module: nn.Module, ends: Sequence[str] = ()) -> list[str]:
    """Return the names of the linear layers that an update can be put beside.

    Args:
        module: of any model. Inside torch's `MultiheadAttention` there are none: its projections are packed in one tensor,
            and the layer that it has is never called.
        ends: of the names that are wanted, whole parts of them (`fc1`, `layers.0.mlp.fc1`); all if empty.

    Raises:
        ModelError: none has such an end.

    >>> import torch
    >>> block = torch.nn.TransformerEncoderLayer(8, 2)
    >>> linear_layers(block), linear_layers(block, ["linear2"])
    (['linear1', 'linear2'], ['linear2'])
    """
    from torch import nn

    packed = tuple(f"{name}." for name, inner in module.named_modules() if isinstance(inner, nn.MultiheadAttention))
    every = [
        name for name, inner in module.named_modules() if isinstance(inner, nn.Linear) and not name.startswith(packed)
    ]
    for end in ends:
        if not any(f".{name}".endswith(f".{end}") for name in every):
            kinds = ", ".join(sorted({name.rpartition(".")[2] for name in every})) or "none at all"
            raise ModelError(
                f"lora.targets: no linear layer's name ends in {end!r}; the layers' last names are {kinds} (packed projections "
                "of MultiheadAttention are no linear layers)"
            )
    found = [name for name in every if not ends or any(f".{name}".endswith(f".{end}") for end in ends)]
    if not found:
        raise ModelError("lora: the model has no linear layer to put an update beside; leave out [lora]")
    return found


@contextmanager
def merged(module: nn.Module) -> Iterator[None]:
    """Put ordinary linear layers, whose weights hold the updates, in the place of adapted ones for a while.

    Afterwards every weight is what it was, to the bit.

    >>> import torch
    >>> with merged(torch.nn.Linear(1, 1)):  # nothing is adapted
    ...     pass
    """
    torch = import_torch()
    layer_of = require("peft.tuners.lora", extra="train").LoraLayer
    kept: list[tuple[Any, str, Any, Any]] = []
    for name, layer in list(module.named_modules()):
        if isinstance(layer, layer_of):
            parent, _, leaf = name.rpartition(".")
            base = layer.get_base_layer()
            kept.append((module.get_submodule(parent), leaf, layer, base.weight.data))
    try:
        with torch.no_grad():
            for owner, leaf, layer, weight in kept:
                base = layer.get_base_layer()
                base.weight.data = weight + sum(layer.get_delta_weight(one) for one in layer.active_adapters)
                setattr(owner, leaf, base)
        yield
    finally:
        for owner, leaf, layer, weight in kept:
            layer.get_base_layer().weight.data = weight
            setattr(owner, leaf, layer)


def with_directions(start: Weights, trained: Weights) -> Weights:
    """Return the start's weights with the trained updates' directions, so that what lies between is a mean of merged weights.

    An update is a product B A, and the start's B is 0: with A the same at both ends, B alone is interpolated.

    >>> import torch
    >>> start = {"fc.lora_A.default.weight": torch.ones(1), "fc.lora_B.default.weight": torch.zeros(1)}
    >>> after = {"fc.lora_A.default.weight": torch.ones(1) * 3, "fc.lora_B.default.weight": torch.ones(1)}
    >>> {name: value.item() for name, value in with_directions(start, after).items()}
    {'fc.lora_A.default.weight': 3.0, 'fc.lora_B.default.weight': 0.0}
    """
    return {name: trained[name] if ".lora_A." in name else value for name, value in start.items()}
