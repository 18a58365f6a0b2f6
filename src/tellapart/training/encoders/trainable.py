"""Models in training: their protocol, dual encoders, and changes before the first step, low-rank updates among them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from tellapart.data.scores import join_names
from tellapart.errors import DataError, ModelError, require
from tellapart.models.protocols import Model, Pixels
from tellapart.models.torch.dual_encoder import LocalFeatures, TorchDual
from tellapart.training.config import LoraConfig, TrainConfig
from tellapart.training.lazy_torch import Tensor, torch
from tellapart.training.run_files import Weights

#: Inputs of a tower by name, on the CPU; of many samples stacked along the first axis.
Inputs = Mapping[str, "Tensor"]


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """Unit vectors of images `(n, d)` and texts `(m, d)`, with the scale of cosines, and a bias of logits or None.

    If the loss reads them: `patches` `(n, p, d)` of the images, `words` `(m, w, d)` of the texts' tokens, and which
    tokens there are, bool `(m, w)`.
    """

    images: Tensor
    texts: Tensor
    scale: Tensor
    bias: Tensor | None
    patches: Tensor | None = None
    words: Tensor | None = None
    real_words: Tensor | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Trainable:
    """A model of any family with gradients; a dual encoder has `towers`, and its module returns `Encoded` as a tuple.

    `reader` is the tokenizer. `image` prepares a picture as in measuring, and `tokens` tokenises texts. `model` returns
    a model that measures with the weights as they are, and `save` writes it and returns its name.
    """

    module: torch.nn.Module
    reader: Any
    image: Callable[[Pixels], Inputs]
    tokens: Callable[[Sequence[str]], Inputs]
    model: Callable[[], Model]
    save: Callable[[Path], str]
    find_scale: Callable[[], Tensor | None]
    towers: Any = None

    @property
    def log_scale(self) -> Tensor | None:
        """The parameter whose exponential is a contrastive scale, or None."""
        return self.find_scale()

    def add_bias(self) -> None:
        """Add SigLIP's bias, -10 at first, if the model has none; it is trained, and not saved with the model."""
        if getattr(self.towers.module, "logit_bias", None) is None:
            value = torch.full((), -10.0, device=self.towers.module.logit_scale.device)
            self.module.register_parameter("logit_bias", torch.nn.Parameter(value))

    def add_local(self) -> None:
        """Let the module return vectors of patches and of words, too."""
        local = self.towers.local()
        if local is None:
            raise ModelError(
                "fsc-clip reads patches and words, and the model has none in the space of its images and texts; take "
                "a ViT of open_clip that pools by its first token (ViT-B-32), or the loss fsc-global, which reads none"
            )
        cast("Any", self.module).local = local


def train_dual(dual: TorchDual) -> Trainable:
    """Return a dual encoder with gradients: the object that measures, its module in a wrapper."""
    towers, model = dual.towers, cast("Any", dual.towers.module).requires_grad_(True)
    module, save = _dual_module()(model, towers.image, towers.text), cast("Callable[[Path], str]", towers.save)
    reader: Any = towers.reader
    measure = partial(TorchDual, towers)
    return Trainable(module, reader, towers.prepare, reader.batch, measure, save, lambda: model.logit_scale, towers)


def freeze_images(trainable: Trainable) -> None:
    """Train the text tower and the scale alone: the image tower keeps its weights, and its norms their means."""
    towers, model = {"visual", "vision_model", "visual_projection"}, cast("Any", trainable.module).model
    heads = [part for name, part in model.named_children() if name in towers]
    if not heads or trainable.towers is None:
        raise ModelError(
            'optimiser.tower = "text": the model has no separate image tower to be left as it is; take a dual '
            "encoder of open_clip, a CLIP of transformers, or compact:FOLDER, or leave tower out"
        )
    for part in heads:
        keep_still(part.requires_grad_(False))


def keep_still(part: torch.nn.Module) -> None:
    """Keep a part of a model in evaluation while the rest trains: no dropout, and norms keep their statistics."""
    part.eval()
    part.train = lambda mode=True: part  # type: ignore[method-assign]  # noqa: ARG005


def add_dropout(module: torch.nn.Module, patterns: Mapping[str, float]) -> None:
    """Have parts of a module lose a share of their output while it trains; the first pattern that matches counts."""
    drop, names = torch.nn.functional.dropout, dict(module.named_modules())
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise DataError(f"dropout: no part of the model matches {pattern!r}; {list(names)[-1]} is one")
    for name, part in names.items():
        share = next((share for pattern, share in patterns.items() if fnmatchcase(name, pattern)), 0.0)
        if share:
            part.register_forward_hook(lambda own, _, output, share=share: drop(output, share, own.training))


def picture_side(trainable: Trainable) -> int:
    """Return the side, in pixels, of the images that the model reads."""
    prepared = trainable.image(np.zeros((8, 8, 3), np.uint8))
    return max(max(tensor.shape) for tensor in prepared.values())


@cache
def _dual_module() -> type[torch.nn.Module]:
    # Made on first use, because its base class is torch's.

    class DualModule(torch.nn.Module):
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
    return cast("AbstractContextManager[Any]", torch.autocast(device, torch.bfloat16, enabled=precision == "bfloat16"))


def unit(vectors: Tensor) -> Tensor:
    """Scale rows to length one, in the same precision."""
    scaled: Tensor = vectors / vectors.norm(dim=-1, keepdim=True)
    return scaled


# Batch normalisation has the statistics of a whole batch, or those that the model came with: of pieces, or of
# one rank's pairs, they would depend on memory and machines.


def settle_norms(module: torch.nn.Module, config: TrainConfig, ranks: int) -> None:
    """Freeze batch normalisation's statistics if the configuration asks for it, or trains low-rank updates alone."""
    live = _moving_norms(module.train())
    frozen = config.batch_norm == "frozen"
    if frozen and not (live and all(layer.running_mean is not None for layer in live.values())):
        lacks = next((name for name, layer in live.items() if layer.running_mean is None), None)
        reason = "the model trains no batch normalisation" if lacks is None else f"{lacks} keeps no statistics"
        raise DataError(f'batch_norm = "frozen": {reason}; leave it out')
    for layer in live.values():
        if (frozen or config.lora is not None) and layer.running_mean is not None:
            keep_still(layer)
    cuts = [f"batch.micro = {config.batch.micro}"] if config.batch.micro is not None else []
    cuts += [f"{ranks} ranks"] if ranks > 1 else []
    if cuts and (live := _moving_norms(module)):
        raise DataError(
            f"{' and '.join(cuts)}: batch normalisation ({join_names([*live], 1)}) has statistics of the batch, and "
            "would see parts of it, which changes the numbers; leave batch.micro out and train on one rank, or set "
            'batch_norm = "frozen" to keep the statistics of the start'
        )


def _moving_norms(module: torch.nn.Module) -> dict[str, torch.nn.modules.batchnorm._NormBase]:
    """Return the layers by name whose output or statistics depend on the batch, in the mode that they are in."""
    base = torch.nn.modules.batchnorm
    return {
        name: layer
        for name, layer in module.named_modules()
        if isinstance(layer, base._NormBase)
        and (layer.training or layer.running_mean is None)
        and (layer.track_running_stats or isinstance(layer, base._BatchNorm))
    }


# LoRA: low-rank updates of linear layers are trained, and all else is frozen; the written model has them merged.
#
# Source: Hu et al. 2022, LoRA: Low-Rank Adaptation of Large Language Models, section 4.1; the layers are peft's. The
# projections of an attention that reads their weights without calling a layer (torch's `MultiheadAttention`) are
# updated where they are read: peft 0.21 adds the update of the last one twice, and rounds the frozen weights at each
# step.

#: Weights that an attention reads without a layer's call; classes, and their layers whose weights alone are read.
_READ = ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight")
_READ_LAYERS = {"MultiheadAttention": ("out_proj",), "AttentionPool2d": ("q_proj", "k_proj", "v_proj", "c_proj")}


def add_updates(trainable: Trainable, config: LoraConfig, seed: int) -> None:
    """Add low-rank updates to linear layers, and freeze all else but the contrastive scale."""
    peft = require("peft", extra="models")
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


def count_updated(module: torch.nn.Module, *, idle: bool = False) -> dict[str, int]:
    """Return how many layers have an update, by name with `*` for numbers; `idle` ones are those without a gradient."""
    layers = Counter[str]()
    for name, weight in module.named_parameters():
        if ".lora_A." in name and (not idle or weight.grad is None):
            layer = name.partition(".lora_A.")[0].replace("parametrizations.", "")
            layers[re.sub(r"\b\d+\b", "*", re.sub(r"[._]weight\.0$", "", layer))] += 1
    return dict(layers)


def describe_updated(module: torch.nn.Module) -> str:
    """Describe the layers that have an update; empty if none has."""
    counts = count_updated(module)
    listing = ", ".join(f"{name} ({count})" for name, count in counts.items())
    return listing and f"{sum(counts.values())} layers: {listing}"


def save_merged(trainable: Trainable, folder: Path) -> str:
    """Write an ordinary model, which has the updates, if there are any, in its weights; return its name."""
    with merge_updates(trainable.module):
        return trainable.save(folder)


def linear_layers(module: torch.nn.Module, ends: Sequence[str] = ()) -> list[str]:
    """Return the names of the linear layers that can have an update: those that are not frozen."""
    read = _read_weights(module)
    linear = {name: layer for name, layer in module.named_modules() if isinstance(layer, torch.nn.Linear)}
    weights = {name: layer.weight for name, layer in linear.items()}
    weights |= {name: getattr(owner, weight) for name, (owner, weight) in read.items()}
    trained = [name for name, weight in weights.items() if weight.requires_grad]
    ending = {end: [name for name in trained if f".{name}".endswith(f".{end}")] for end in ends}
    if lacks := [end for end, names in ending.items() if not names]:
        kinds = ", ".join(sorted({name.rpartition(".")[2] for name in trained})) or "none at all"
        raise ModelError(f"lora.targets: no linear layer's name ends in {lacks[0]!r}; last names are {kinds}")
    if not trained:
        raise ModelError("lora: the model has no linear layer to update; leave out [lora]")
    return [name for name in trained if not ends or any(name in names for names in ending.values())]


def _read_weights(module: torch.nn.Module) -> dict[str, tuple[torch.nn.Module, str]]:
    """Return the layers that are never called, by name: the module that has the weight, and its name there."""
    read: dict[str, tuple[torch.nn.Module, str]] = {}
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
def _update_class() -> type[torch.nn.Module]:
    # Made on first use, because its base class is torch's.

    class Update(torch.nn.Module):
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
def merge_updates(module: torch.nn.Module) -> Iterator[None]:
    """Replace adapted layers, within the context, by ordinary linear layers whose weights hold the updates."""
    parametrize = torch.nn.utils.parametrize
    adapted, read = list[tuple[Any, str, Any, Any]](), list[tuple[Any, str, Any, Any]]()
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
    """Return the start's weights with the trained directions: a mean of both is then a mean of merged weights."""
    return {name: trained[name] if ".lora_A." in name else value for name, value in start.items()}
