"""LoRA: low-rank updates of linear layers are trained, and all else is frozen; the written model has them merged.

Source: Hu et al. 2022, LoRA: Low-Rank Adaptation of Large Language Models, section 4.1; the layers are peft's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tellapart.errors import ModelError, require
from tellapart.models.torch.backend import import_torch
from tellapart.training.checkpoint import Weights
from tellapart.training.config import LoraConfig
from tellapart.training.encoders.trainable import Trainable

if TYPE_CHECKING:
    from torch import nn

__all__ = ["add_updates", "linear_layers", "merge_updates", "save_merged", "with_directions"]


def add_updates(trainable: Trainable, config: LoraConfig, seed: int) -> None:
    """Add low-rank updates to linear layers, and freeze all else but the contrastive scale.

    The updates' length is 0 at first, so the model begins unchanged.

    Args:
        trainable: the model; its linear layers are replaced in place.
        config: rank, weight, dropout, and which layers.
        seed: of the updates' directions.

    Raises:
        ModelError: unknown layer.
        MissingDependencyError: peft is not installed.
    """
    peft = require("peft", extra="train")
    names = linear_layers(trainable.module, config.targets)
    import_torch().manual_seed(seed)
    settings = peft.LoraConfig(
        r=config.rank,
        lora_alpha=config.alpha,
        lora_dropout=config.dropout,
        target_modules="|".join(map(re.escape, names)),  # a text is a pattern of full names
    )
    peft.inject_adapter_in_model(settings, trainable.module)  # which freezes everything else
    if trainable.log_scale is not None:
        trainable.log_scale.requires_grad_(True)


def save_merged(trainable: Trainable, folder: Path) -> str:
    """Write an ordinary model, which has the updates, if there are any, in its weights; return its name."""
    with merge_updates(trainable.module):
        return trainable.save(folder)


def linear_layers(module: nn.Module, ends: Sequence[str] = ()) -> list[str]:
    """Return the names of the linear layers that can have an update.

    Args:
        module: of any model. Inside torch's `MultiheadAttention` there are none: its projections are packed in one
            tensor, and its one layer is never called.
        ends: of the names, in full parts (`fc1`, `layers.0.mlp.fc1`); all layers if empty.

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
                f"lora.targets: no linear layer's name ends in {end!r}; the layers' last names are {kinds} (packed "
                "projections of MultiheadAttention are not linear layers)"
            )
    layers = [name for name in every if not ends or any(f".{name}".endswith(f".{end}") for end in ends)]
    if not layers:
        raise ModelError("lora: the model has no linear layer to update; leave out [lora]")
    return layers


@contextmanager
def merge_updates(module: nn.Module) -> Iterator[None]:
    """Replace adapted layers, within the context, by ordinary linear layers whose weights hold the updates.

    Afterwards every weight is as it was, to the bit.
    """
    adapted: list[tuple[Any, str, Any, Any]] = []
    for name, layer in list(module.named_modules()):
        if hasattr(layer, "get_delta_weight"):  # peft's
            parent, _, leaf = name.rpartition(".")
            adapted.append((module.get_submodule(parent), leaf, layer, layer.get_base_layer().weight.data))
    try:
        with import_torch().no_grad():
            for owner, leaf, layer, weight in adapted:
                base = layer.get_base_layer()
                base.weight.data = weight + sum(layer.get_delta_weight(one) for one in layer.active_adapters)
                setattr(owner, leaf, base)
        yield
    finally:
        for owner, leaf, layer, weight in adapted:
            layer.get_base_layer().weight.data = weight
            setattr(owner, leaf, layer)


def with_directions(start: Weights, trained: Weights) -> Weights:
    """Return the start's weights with the trained directions: a mean of both is then a mean of merged weights.

    An update is a product B A, and the start's B is 0: with A the same at both ends, B alone is interpolated.

    >>> import torch
    >>> start = {"fc.lora_A.default.weight": torch.ones(1), "fc.lora_B.default.weight": torch.zeros(1)}
    >>> after = {"fc.lora_A.default.weight": torch.ones(1) * 3, "fc.lora_B.default.weight": torch.ones(1)}
    >>> {name: value.item() for name, value in with_directions(start, after).items()}
    {'fc.lora_A.default.weight': 3.0, 'fc.lora_B.default.weight': 0.0}
    """
    return {name: trained[name] if ".lora_A." in name else value for name, value in start.items()}
