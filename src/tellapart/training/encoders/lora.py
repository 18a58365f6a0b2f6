"""LoRA: low-rank updates of linear layers are trained, and all else is frozen; the written model has them merged.

Source: Hu et al. 2022, LoRA: Low-Rank Adaptation of Large Language Models, section 4.1; the layers are peft's. The
projections of an attention that reads their weights without calling a layer (torch's `MultiheadAttention`) are updated
where they are read: peft 0.21 adds the update of the last one twice, and rounds the frozen weights at each step.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tellapart.errors import ModelError, require
from tellapart.models.torch.backend import import_torch
from tellapart.training.checkpoint import Weights
from tellapart.training.config import LoraConfig
from tellapart.training.encoders.trainable import Trainable

if TYPE_CHECKING:
    from torch import Tensor, nn

#: Weights that an attention reads without a layer's call; classes, and their layers whose weights alone are read.
_READ = ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight")
_READ_LAYERS = {"MultiheadAttention": ("out_proj",), "AttentionPool2d": ("q_proj", "k_proj", "v_proj", "c_proj")}


def add_updates(trainable: Trainable, config: LoraConfig, seed: int) -> None:
    """Add low-rank updates to linear layers, and freeze all else but the contrastive scale.

    The updates' length is 0 at first, so the model begins unchanged.
    """
    peft, torch = require("peft", extra="models"), import_torch()
    names, read = linear_layers(trainable.module, config.targets), _read_weights(trainable.module)
    called = [name for name in names if name not in read]
    if config.dropout and len(called) < len(names):
        raise ModelError(
            f"lora.dropout: {next(name for name in names if name in read)} is a projection inside an attention, whose "
            "input cannot be dropped; leave lora.dropout out, or name other layers in lora.targets"
        )
    trainable.module.requires_grad_(False)
    torch.manual_seed(seed)
    if called:
        settings = peft.LoraConfig(
            r=config.rank,
            lora_alpha=config.alpha,
            lora_dropout=config.dropout,
            target_modules="|".join(map(re.escape, called)),  # a text is a pattern of full names
        )
        peft.inject_adapter_in_model(settings, trainable.module)
    for name in names:
        if name in read:
            owner, weight = read[name]
            update = _update_class()(getattr(owner, weight), config.rank, config.alpha / config.rank)
            torch.nn.utils.parametrize.register_parametrization(owner, weight, update)
    if trainable.log_scale is not None:
        trainable.log_scale.requires_grad_(True)


def count_updated(module: nn.Module, *, idle: bool = False) -> dict[str, int]:
    """Return how many layers have an update, by name with `*` for numbers; `idle` ones are those without a gradient."""
    names = (name for name, weight in module.named_parameters() if not idle or weight.grad is None)
    names = (name.partition(".lora_A.")[0] for name in names if ".lora_A." in name)
    layers = (re.sub(r"[._]weight\.0$", "", name.replace("parametrizations.", "")) for name in names)
    return dict(Counter(re.sub(r"\b\d+\b", "*", name) for name in layers))


def describe_updated(module: nn.Module) -> str:
    """Describe the layers that have an update; empty if none has."""
    counts = count_updated(module)
    listing = ", ".join(f"{name} ({count})" for name, count in counts.items())
    return listing and f"{sum(counts.values())} layers: {listing}"


def save_merged(trainable: Trainable, folder: Path) -> str:
    """Write an ordinary model, which has the updates, if there are any, in its weights; return its name."""
    with merge_updates(trainable.module):
        return trainable.save(folder)


def linear_layers(module: nn.Module, ends: Sequence[str] = ()) -> list[str]:
    """Return the names of the linear layers that can have an update: those that are not frozen.

    >>> import torch
    >>> block = torch.nn.TransformerEncoderLayer(8, 2)
    >>> linear_layers(block)
    ['self_attn.out_proj', 'linear1', 'linear2', 'self_attn.in_proj']
    >>> linear_layers(block, ["linear2", "in_proj"])
    ['linear2', 'self_attn.in_proj']
    """
    read = _read_weights(module)
    linear = {name: layer for name, layer in module.named_modules() if isinstance(layer, import_torch().nn.Linear)}
    weights = {name: layer.weight for name, layer in linear.items()}
    weights |= {name: getattr(owner, weight) for name, (owner, weight) in read.items()}
    trained = [name for name, weight in weights.items() if weight.requires_grad]
    for end in ends:
        if not any(f".{name}".endswith(f".{end}") for name in trained):
            kinds = ", ".join(sorted({name.rpartition(".")[2] for name in trained})) or "none at all"
            raise ModelError(
                f"lora.targets: no linear layer's name ends in {end!r}; the layers' last names are {kinds}"
            )
    layers = [name for name in trained if not ends or any(f".{name}".endswith(f".{end}") for end in ends)]
    if not layers:
        raise ModelError("lora: the model has no linear layer to update; leave out [lora]")
    return layers


def _read_weights(module: nn.Module) -> dict[str, tuple[nn.Module, str]]:
    """Return the layers that are never called, by name: the module that has the weight, and its name there."""
    read: dict[str, tuple[nn.Module, str]] = {}
    for name, part in module.named_modules():
        before = f"{name}." if name else ""
        kinds = {kind.__name__ for kind in type(part).__mro__}
        for weight in _READ:
            if getattr(part, weight, None) is not None:
                read[before + weight.removesuffix("_weight")] = (part, weight)
        for kind in kinds & _READ_LAYERS.keys():
            read |= {before + layer: (part.get_submodule(layer), "weight") for layer in _READ_LAYERS[kind]}
    return read


@cache
def _update_class() -> type[nn.Module]:
    # Made on first use, because its base class is torch's.
    torch = import_torch()

    class Update(torch.nn.Module):  # type: ignore[name-defined,misc]
        """Adds scale * B A to a weight, 0 at first."""

        def __init__(self, weight: Tensor, rank: int, scale: float) -> None:
            super().__init__()
            rows, columns = weight.shape
            self.lora_A = torch.nn.Linear(columns, rank, bias=False, device=weight.device)
            self.lora_B = torch.nn.Linear(rank, rows, bias=False, device=weight.device)
            torch.nn.init.zeros_(self.lora_B.weight)
            self.scale = scale

        def forward(self, weight: Tensor) -> Tensor:
            updated: Tensor = weight + self.scale * (self.lora_B.weight @ self.lora_A.weight)
            return updated

    return Update


@contextmanager
def merge_updates(module: nn.Module) -> Iterator[None]:
    """Replace adapted layers, within the context, by ordinary linear layers whose weights hold the updates.

    Afterwards every weight is as it was, to the bit.
    """
    torch = import_torch()
    parametrize = torch.nn.utils.parametrize
    adapted: list[tuple[Any, str, Any, Any]] = []
    read: list[tuple[Any, str, Any, Any]] = []
    for name, layer in list(module.named_modules()):
        if hasattr(layer, "get_delta_weight"):  # peft's
            parent, _, leaf = name.rpartition(".")
            adapted.append((module.get_submodule(parent), leaf, layer, layer.get_base_layer().weight.data))
        elif parametrize.is_parametrized(layer):
            for weight, (update, *_) in layer.parametrizations.items():
                if isinstance(update, _update_class()):  # a model may have others, such as weight norm
                    read.append((layer, weight, update, layer.parametrizations[weight].original.data.clone()))
    try:
        with torch.no_grad():
            for owner, leaf, layer, weight in adapted:
                base = layer.get_base_layer()
                base.weight.data = weight + sum(layer.get_delta_weight(adapter) for adapter in layer.active_adapters)
                setattr(owner, leaf, base)
            for owner, name, _, _ in read:
                parametrize.remove_parametrizations(owner, name)
        yield
    finally:
        for owner, leaf, layer, weight in adapted:
            layer.get_base_layer().weight.data = weight
            setattr(owner, leaf, layer)
        for owner, name, update, weight in read:
            getattr(owner, name).data = weight
            parametrize.register_parametrization(owner, name, update)


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
