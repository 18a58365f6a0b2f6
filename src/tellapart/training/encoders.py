"""Open the model that training starts from, a dual or a fusion encoder; freeze, drop out and add LoRA to its parts."""

from __future__ import annotations

import hashlib
import math
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from tellapart.data.arguments import suggest_beside
from tellapart.data.scores import join_names
from tellapart.errors import DataError, ModelError, explain_failure, require
from tellapart.evaluation.distributed import RankGroup
from tellapart.models.compact.dual_encoder import PREFIX as COMPACT
from tellapart.models.compact.dual_encoder import CompactParts, is_compact, read_compact_config, read_tokenizer
from tellapart.models.find import declared_prefix, find_model
from tellapart.models.fusion.families import find_family, prepare_pixels
from tellapart.models.fusion.family import Contrast, FusionPrefix, Halves, Tensors, TrainableParts, pad_tokens
from tellapart.models.fusion.scoring import FusionScorer, TorchFusionEncoder
from tellapart.models.huggingface.dual_encoder import SCALED
from tellapart.models.huggingface.files import import_transformers, load_processor, quiet, read_config
from tellapart.models.huggingface.files import save as save_transformers
from tellapart.models.openclip.library import import_open_clip, quiet_open_clip
from tellapart.models.openclip.source import FOLDER, HUB, TAG
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import Model, Pixels
from tellapart.models.torch.backend import Runtime, runtime
from tellapart.models.torch.checkpoint import split_part
from tellapart.models.torch.dual_encoder import LocalFeatures, TorchDual
from tellapart.training.config import LoraConfig, TrainConfig
from tellapart.training.lazy_torch import Tensor, torch
from tellapart.training.losses.loss import FusionLoss
from tellapart.training.run_files import replace_folder

#: Inputs of a tower by name, on the CPU. Inputs of many samples are stacked along the first axis.
Inputs = Mapping[str, "Tensor"]


@dataclass(frozen=True, slots=True, eq=False)
class Trainable:
    """A model of any family with gradients; a dual encoder has `towers`.

    `reader` is the tokenizer. `image` prepares a picture as in measuring, and `tokens` tokenises texts. `model` returns
    a model that measures with the present weights; `save` writes it and returns its name. `log_scale` returns the
    parameter whose exponential is a contrastive scale, or None. `begun` is true if the source lacks a head, so that the
    head's weights are new.
    """

    module: torch.nn.Module
    reader: Any
    image: Callable[[Pixels], Inputs]
    tokens: Callable[[Sequence[str]], Inputs]
    model: Callable[[], Model]
    save: Callable[[Path], str]
    log_scale: Callable[[], Tensor | None]
    towers: Any = None
    begun: bool = False

    def add_local(self) -> None:
        """Make the module return vectors of patches and of words, too."""
        local = self.towers.local()
        if local is None:
            raise ModelError(
                "fsc-clip reads patches and words, and the model has none in the space of its images and texts; take "
                "a ViT of open_clip that pools by its first token (ViT-B-32), or the loss fsc-global, which reads none"
            )
        cast("Any", self.module).local = local


def hold_in_evaluation(part: torch.nn.Module) -> None:
    """Keep a part of a model in evaluation while the rest trains: no dropout, and norms keep their statistics."""
    part.eval()
    part.train = lambda mode=True: part  # type: ignore[method-assign]  # noqa: ARG005


def add_dropout(module: torch.nn.Module, patterns: Mapping[str, float]) -> None:
    """Add dropout to the output of parts of a module; the first pattern that matches a part's name gives the share."""
    parts, read = dict(module.train().named_modules()), _find_read_weights(module) if patterns else {}
    lists = (torch.nn.ModuleList, torch.nn.ModuleDict)
    for pattern, share in patterns.items():
        if not (matched := [name for name in parts if fnmatchcase(name, pattern)]):
            raise DataError(f"dropout: no part of the model matches {pattern!r}; {list(parts)[-1]} is one")
        called = (name for name in matched if name not in read and not isinstance(parts[name], lists))
        if share and not any(parts[name].training for name in called):
            raise DataError(
                f"dropout: {pattern!r} changes nothing: {matched[0]} is frozen, a list of parts, or a projection that "
                "its attention reads and never calls; name the attention or another part"
            )
    for name, part in parts.items():
        share = next((share for pattern, share in patterns.items() if fnmatchcase(name, pattern)), 0.0)
        if share:
            part.register_forward_hook(partial(_drop_output, name, share))


def _drop_output(name: str, share: float, part: torch.nn.Module, _inputs: Any, output: Any) -> Any:
    """Drop a share of a part's output. An attention returns its weights as a second output, which is not changed."""
    first, *rest = output if isinstance(output, tuple) else (output,)
    if not isinstance(first, torch.Tensor):
        raise DataError(f"dropout: {name} puts out a {type(output).__name__}, not a tensor; name the layers inside it")
    dropped = torch.nn.functional.dropout(first, share, part.training)
    return (dropped, *rest) if isinstance(output, tuple) else dropped


class DualModule(torch.nn.Module):
    """A dual encoder that puts out, by name, unit vectors of `images` `(n, d)` and `texts` `(m, d)`, and their `scale`.

    For some models and losses it adds the `bias` of logits, `patches` `(n, p, d)` of the images, `words` `(m, w, d)` of
    the texts' tokens, and `real_words`, bool `(m, w)`, false for padding.
    """

    def __init__(self, model: Any, encode_images: Any, encode_texts: Any) -> None:
        super().__init__()
        self.model, self._encode_images, self._encode_texts = model, encode_images, encode_texts
        self.register_parameter("logit_bias", None)
        self.local: LocalFeatures | None = None

    def forward(self, images: Inputs, texts: Inputs) -> dict[str, Tensor]:
        """Return the tensors by name."""
        image, text = self._encode_images(images), self._encode_texts(texts)
        scale = self.model.logit_scale.exp().reshape(())  # that of transformers' SigLIP has shape (1,)
        encoded = {"images": scale_to_unit(image.float()), "texts": scale_to_unit(text.float()), "scale": scale}
        bias: Any = getattr(self.model, "logit_bias", None)
        bias = cast("Any", self.logit_bias) if bias is None else bias
        if bias is not None:
            # A new tensor, as the scale is: its gradient reaches the parameter with that of the step's last piece.
            encoded["bias"] = (bias * torch.ones_like(bias)).reshape(())
        if self.local is not None:
            local = self.local.read(texts["input_ids"])
            encoded |= zip(("patches", "words", "real_words"), local, strict=True)
        return encoded


def scale_to_unit(vectors: Tensor) -> Tensor:
    """Return rows scaled to length one, in the same precision."""
    return cast("Tensor", vectors / vectors.norm(dim=-1, keepdim=True))


# Batch normalisation takes the statistics of a full batch, or frozen statistics. Those of a part of the batch
# (`batch.micro`, or one rank's pairs) would make the numbers depend on memory and machines.


def settle_norms(module: torch.nn.Module, config: TrainConfig, ranks: int) -> None:
    """Freeze batch normalisation's statistics if so configured, or if only low-rank updates are trained."""
    live = _moving_norms(module.train())
    frozen = config.batch_norm == "frozen"
    if frozen and not (live and all(layer.running_mean is not None for layer in live.values())):
        lacks = next((name for name, layer in live.items() if layer.running_mean is None), None)
        reason = "the model trains no batch normalisation" if lacks is None else f"{lacks} keeps no statistics"
        raise DataError(f'batch_norm = "frozen": {reason}; leave it out')
    for layer in live.values():
        if (frozen or config.lora is not None) and layer.running_mean is not None:
            hold_in_evaluation(layer)
    splits = [f"batch.micro = {config.batch.micro}"] if config.batch.micro is not None else []
    splits += [f"{ranks} ranks"] if ranks > 1 else []
    if splits and (live := _moving_norms(module)):
        raise DataError(
            f"{' and '.join(splits)}: batch normalisation ({join_names([*live], 1)}) has statistics of the batch, and "
            "would see parts of it, which changes the numbers; leave batch.micro out and train on one rank, or set "
            'batch_norm = "frozen" to keep the statistics of the start'
        )


def _moving_norms(module: torch.nn.Module) -> dict[str, torch.nn.modules.batchnorm._NormBase]:
    """Return the layers, by name, whose output or statistics depend on the batch in their present mode."""
    base = torch.nn.modules.batchnorm
    return {
        name: layer
        for name, layer in module.named_modules()
        if isinstance(layer, base._NormBase)
        and (layer.training or layer.running_mean is None)
        and (layer.track_running_stats or isinstance(layer, base._BatchNorm))
    }


def prepare_start(config: TrainConfig, trainable: Trainable, ranks: int, attempt: Any = nullcontext) -> None:
    """Apply the configuration to a model before its first step; each change is made in a context `attempt()`."""
    with attempt():
        if config.optimiser.tower == "text":  # the text tower and the scale are trained, the image tower is frozen
            towers, model = {"visual", "vision_model", "visual_projection"}, cast("Any", trainable.module).model
            parts = [part for name, part in model.named_children() if name in towers]
            if not parts or trainable.towers is None:
                raise ModelError(
                    'optimiser.tower = "text": the model has no separate image tower to freeze; take a dual '
                    "encoder of open_clip, a CLIP of transformers, or compact:FOLDER, or leave tower out"
                )
            for part in parts:
                hold_in_evaluation(part.requires_grad_(False))
    with attempt():
        if config.lora is not None:
            add_updates(trainable, config.lora, config.seed)
    with attempt():
        add_dropout(trainable.module, config.dropout)
    with attempt():
        settle_norms(trainable.module, config, ranks)


# LoRA: low-rank updates of linear layers are trained, and all else is frozen; the written model has them merged.
#
# Source: Hu et al. 2022, LoRA: Low-Rank Adaptation of Large Language Models, section 4.1; the layers are peft's. The
# projections of an attention that reads their weights without calling a layer (torch's `MultiheadAttention`) are
# updated where they are read: peft 0.21 adds the update of the last one twice, and rounds the frozen weights at each
# step.

#: Weights that an attention reads without calling a layer; class of attention -> layers of it that are never called.
_READ_WEIGHTS = ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight")
_READ_LAYERS = {"MultiheadAttention": ("out_proj",), "AttentionPool2d": ("q_proj", "k_proj", "v_proj", "c_proj")}


def add_updates(trainable: Trainable, config: LoraConfig, seed: int) -> None:
    """Add low-rank updates to linear layers, and freeze all else but the contrastive scale."""
    peft = require("peft", extra="models")
    names, read = find_linear_layers(trainable.module, config.targets), _find_read_weights(trainable.module)
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
            target_modules="|".join(map(re.escape, called)),  # peft matches full names with this pattern
        )
        peft.inject_adapter_in_model(settings, trainable.module)
    for name in names:
        if name in read:
            owner, weight_name = read[name]
            update = Update(getattr(owner, weight_name), config.rank, config.alpha / config.rank)
            torch.nn.utils.parametrize.register_parametrization(owner, weight_name, update)
    if (log_scale := trainable.log_scale()) is not None:
        log_scale.requires_grad_(True)


def count_updated(module: torch.nn.Module, *, idle: bool = False) -> dict[str, int]:
    """Count layers with an update by name, with `*` for numbers; with `idle`, only layers that have no gradient."""
    layers = Counter[str]()
    for name, weight in module.named_parameters():
        if ".lora_A." in name and (not idle or weight.grad is None):
            layer = name.partition(".lora_A.")[0].replace("parametrizations.", "")
            layers[re.sub(r"\b\d+\b", "*", re.sub(r"[._]weight\.0$", "", layer))] += 1
    return dict(layers)


def describe_updated(module: torch.nn.Module) -> str:
    """Describe the layers that have an update; empty if none has."""
    if not (counts := count_updated(module)):
        return ""
    return f"{sum(counts.values())} layers: {', '.join(f'{name} ({count})' for name, count in counts.items())}"


def save_merged(trainable: Trainable, folder: Path) -> str:
    """Write an ordinary model, with any updates merged into its weights; return its name."""
    with merge_updates(trainable.module):
        return trainable.save(folder)


def find_linear_layers(module: torch.nn.Module, ends: Sequence[str] = ()) -> list[str]:
    """Return the names of the linear layers that are not frozen; if `ends` are given, only names that end in one."""
    read = _find_read_weights(module)
    linear = {name: layer for name, layer in module.named_modules() if isinstance(layer, torch.nn.Linear)}
    weights = {name: layer.weight for name, layer in linear.items()}
    weights |= {name: getattr(owner, weight) for name, (owner, weight) in read.items()}
    trained = [name for name, weight in weights.items() if weight.requires_grad]
    ending = {end: [name for name in trained if f".{name}".endswith(f".{end}")] for end in ends}
    if unmatched := [end for end, names in ending.items() if not names]:
        last_names = ", ".join(sorted({name.rpartition(".")[2] for name in trained})) or "none at all"
        raise ModelError(f"lora.targets: no linear layer's name ends in {unmatched[0]!r}; last names are {last_names}")
    if not trained:
        raise ModelError("lora: the model has no linear layer to update; leave out [lora]")
    return [name for name in trained if not ends or any(name in names for names in ending.values())]


def _find_read_weights(module: torch.nn.Module) -> dict[str, tuple[torch.nn.Module, str]]:
    """Return layers whose weights are read without a call: name -> the module with the weight, and its name there."""
    read: dict[str, tuple[torch.nn.Module, str]] = {}
    for name, part in module.named_modules():
        prefix = f"{name}." if name else ""
        classes = {base.__name__ for base in type(part).__mro__}
        for weight in _READ_WEIGHTS:
            if getattr(part, weight, None) is not None:
                read[prefix + weight.removesuffix("_weight")] = (part, weight)
        for attention in classes & _READ_LAYERS.keys():
            read |= {prefix + layer: (part.get_submodule(layer), "weight") for layer in _READ_LAYERS[attention]}
    return read


class Update(torch.nn.Module):
    """A parametrisation of a weight: adds scale * B A, which is 0 at first."""

    def __init__(self, weight: Tensor, rank: int, scale: float) -> None:
        super().__init__()
        rows, columns = weight.shape
        self.lora_A = torch.nn.Linear(columns, rank, bias=False, device=weight.device)
        self.lora_B = torch.nn.Linear(rank, rows, bias=False, device=weight.device)
        torch.nn.init.zeros_(self.lora_B.weight)
        self.scale = scale

    def forward(self, weight: Tensor) -> Tensor:
        """Return the updated weight."""
        return weight + self.scale * (self.lora_B.weight @ self.lora_A.weight)


@contextmanager
def merge_updates(module: torch.nn.Module) -> Iterator[None]:
    """Replace adapted layers, within the context, by ordinary linear layers whose weights hold the updates."""
    parametrize = torch.nn.utils.parametrize
    with ExitStack() as undo:  # undoes in reverse order
        for name, layer in list(module.named_modules()):
            if hasattr(layer, "get_delta_weight"):  # peft's
                parent, _, leaf = name.rpartition(".")
                owner, base = module.get_submodule(parent), layer.get_base_layer()
                updates = sum(layer.get_delta_weight(adapter) for adapter in layer.active_adapters)
                undo.callback(setattr, owner, leaf, layer)
                undo.callback(setattr, base.weight, "data", base.weight.data)
                base.weight.data = (base.weight + updates).detach()
                setattr(owner, leaf, base)
                continue
            # A model may have other parametrisations, such as weight norm.
            changed = layer.parametrizations.items() if parametrize.is_parametrized(layer) else ()
            for weight, steps in [entry for entry in changed if isinstance(entry[1][0], Update)]:
                undo.callback(parametrize.register_parametrization, layer, weight, steps[0])
                original = steps.original.data.clone()
                parametrize.remove_parametrizations(layer, weight)
                undo.callback(setattr, getattr(layer, weight), "data", original)
        yield


def open_fusion(
    name: str, device: str, reading: str | None = None, *,
    contrast: bool = True, image_size: int | None = None, also: Sequence[str] = (),
) -> Trainable:  # fmt: skip
    """Open a fusion encoder to train the heads of `reading` and of the readings in `also`, and all layers below."""
    place, prefix = runtime(ModelOptions(device=device)), declared_prefix(name)
    if isinstance(prefix, FusionPrefix) and prefix.open_trainable is not None:
        readings = (reading or "itm", *also)
        parts = prefix.open_trainable(name, place, readings, image_size)
        trainable = train_fusion(parts, place, parts.read, readings)
        _freeze_unread(trainable, place.device, contrast=contrast)
        return trainable
    if also:
        raise ModelError(f"{name}: has one matching head, and a loss names {also[0]!r}; leave out its `reading`")
    if image_size is not None:
        raise ModelError(f"{name}: image_size is for models in their authors' files (meter:, fiber:); leave it out")
    source = name.removeprefix("hf:")
    family = find_family(read_config(source)["model_type"]) if _is_transformers_name(name) else None
    if family is None or family.load_trainable is None:
        raise ModelError(
            f"{name} cannot be trained by a matching loss: name a BLIP or ViLT of transformers for image-text "
            "retrieval, by hub id or folder, or METER or FIBER in its authors' file; or take a loss of dual encoders "
            "(itc, negclip, eqsim, ...)"
        )
    halves, processor = family.load_trainable(source, place), load_processor(source)
    preparation = prepare_pixels(source, family, halves, processor)
    write = partial(save_transformers, halves.module, processor)
    trainable = train_fusion(TrainableParts(source, halves, preparation, family.contrast, write), place, reading)
    for head in family.contrast.heads if family.contrast is not None and not contrast else ():
        halves.module.get_submodule(head).requires_grad_(False)
    return trainable


def _freeze_unread(trainable: Trainable, device: str, *, contrast: bool) -> None:
    """Freeze parameters that get no gradient, such as heads of other readings: ranks would wait for their gradients."""
    module = trainable.module
    image = {name: tensor.to(device) for name, tensor in trainable.image(np.zeros((8, 8, 3), np.uint8)).items()}
    tokens = {name: tensor.to(device) for name, tensor in trainable.tokens(["a"]).items()}

    def compute(fusion: Any) -> Any:
        images, texts = fusion.images([image]), fusion.texts(tokens)
        parts = [fusion.join(images, texts)]
        if contrast and fusion.scale is not None:
            vectors = fusion.vectors(images, texts)
            parts += [*vectors, torch.as_tensor(fusion.scale)]
        return sum(part.sum() for part in parts)

    module(compute).backward()
    for parameter in module.parameters():
        parameter.requires_grad_(parameter.grad is not None)
        parameter.grad = None


def train_fusion(parts: TrainableParts, place: Runtime, reading: str | None, heads: tuple[str, ...] = ()) -> Trainable:
    """Return a fusion encoder with gradients.

    Its module is called once a step, with a function of the module that computes the step (`Matcher.forward`). The
    module's `heads` are the readings of the columns that `join` returns.
    """
    network, preparation, read = parts.halves.module, parts.preparation, reading or "itm"
    network.requires_grad_(True)
    module: Any = Matcher(parts.halves, parts.contrast, parts.others)
    module.heads = heads or (read,)

    def image(pixels: Pixels) -> Inputs:
        return {key: torch.as_tensor(value) for key, value in preparation.images(pixels).items()}

    def tokens(texts: Sequence[str]) -> Inputs:
        lengths, _ = preparation.texts.lengths(texts)
        padded = preparation.texts.tokens(texts, max(lengths))
        return {name: padded[name] for name in ("input_ids", "attention_mask")}

    def model() -> FusionScorer:
        return FusionScorer(TorchFusionEncoder(parts.name, parts.halves, preparation, place, reading=read))

    def find_scale() -> Tensor | None:  # None for models of transformers, which do not save a scale
        scale = None if parts.contrast is None else parts.contrast.log_scale(network)
        return scale if isinstance(scale, torch.Tensor) and scale.requires_grad else None

    return Trainable(module, preparation.texts, image, tokens, model, parts.save, find_scale, begun=parts.begun)


class Matcher(torch.nn.Module):
    """A fusion encoder whose parts a training step calls; `model` is the module of transformers or of the authors."""

    def __init__(self, halves: Halves, contrast: Contrast | None, others: Sequence[Halves]) -> None:
        super().__init__()
        self.model, self._halves, self._contrast = halves.module, halves, contrast
        self._others = tuple(others)

    @property
    def scale(self) -> Tensor | float | None:
        """The scale of cosines, from a parameter or a fixed number; None without a contrastive head."""
        if self._contrast is None:
            return None
        # A fixed number: transformers' checkpoints of BLIP lack its temperature, whose first value is configured.
        logarithm = self._contrast.log_scale(self.model)
        return logarithm.exp() if isinstance(logarithm, torch.Tensor) else math.exp(logarithm)

    def forward(self, compute: Callable[[Any], Any]) -> Any:
        """Call a function with this module: DDP allows one forward call a step, and a step calls several parts."""
        return compute(self)

    def images(self, inputs: Sequence[Inputs]) -> Tensors:
        """Return states `(n, length, ...)` of prepared images; those of one shape are encoded together, then padded."""
        groups: dict[Any, list[int]] = {}
        for number, sample in enumerate(inputs):
            groups.setdefault(sample["pixel_values"].shape, []).append(number)
        states = [
            self._halves.images(**{name: torch.stack([inputs[n][name] for n in numbers]) for name in inputs[0]})
            for numbers in groups.values()
        ]
        length = max(group[0].shape[1] for group in states)
        order = torch.tensor([n for numbers in groups.values() for n in numbers]).argsort()  # back to that of `inputs`
        columns = zip(*[[pad_tokens(tensor, length) for tensor in group] for group in states], strict=True)
        return tuple(torch.cat(column)[order.to(column[0].device)] for column in columns)

    def texts(self, tokens: Inputs) -> Tensors:
        """Return states `(m, length, ...)` of tokenised texts."""
        return self._halves.texts(tokens["input_ids"], tokens["attention_mask"].bool())

    def vectors(self, images: Tensors, texts: Tensors) -> tuple[Any, Any]:
        """Return unit vectors of images and of texts, float32 `(n, d)`; without a contrastive head all are equal."""
        if self._contrast is None:
            return (torch.ones(len(images[0]), 1, device=images[0].device),) * 2
        image, text = self._contrast.vectors(self.model, images, texts)
        return scale_to_unit(image.float()), scale_to_unit(text.float())

    def join(self, images: Tensors, texts: Tensors) -> Tensor:
        """Return each head's logit of a match less its logit of no match, float32 `(n, heads)`."""
        if not self._others:
            heads = [(self._halves.match, self._halves.join(images, texts).float())]
        else:
            pooled = self._halves.pool_states(images, texts)  # type: ignore[attr-defined]
            all_halves: Any = (self._halves, *self._others)
            heads = [(halves.match, halves.match_head(pooled).float()) for halves in all_halves]
        # `match` is the column of a match; None if the head has a single logit.
        columns = [out[:, 0] if match is None else out[:, match] - out[:, 1 - match] for match, out in heads]
        return torch.stack(columns, dim=1)


#: The prefix of a folder that describes a model without weights.
NEW = "new:"

_OPEN_CLIP = "open_clip_config.json"
_SUFFIXES = {".json", ".txt", ".model"}


def digest_new_model(folder: Path) -> str:
    """Return the SHA-256 of the files that describe a `new:` model."""
    if not folder.is_dir():
        raise ModelError(f"{NEW}{folder} is not there{suggest_beside(folder)}")
    if not any((folder / name).is_file() for name in (_OPEN_CLIP, "config.json")):
        raise ModelError(f"{NEW}{folder}: the folder lacks {_OPEN_CLIP}, or config.json and a processor's files")
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.iterdir() if path.is_file() and path.suffix in _SUFFIXES):
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def write_new_model(folder: Path, target: Path, seed: int) -> str:
    """Draw weights for a folder's configuration, write the model to `target` unless it exists, and return its name."""
    digest_new_model(folder)  # refuses a folder that describes no model
    if not target.exists():
        torch.manual_seed(seed)
        with replace_folder(target) as draft:
            if is_compact(folder):
                from tellapart.models.compact.towers import build_encoder

                config = read_compact_config(folder)
                tokenizer = read_tokenizer(folder, config)
                CompactParts(config, build_encoder(config, tokenizer.get_vocab_size()), tokenizer).save(draft)
            else:
                (_draw_open_clip if (folder / _OPEN_CLIP).is_file() else _draw_transformers)(folder, draft)
    if is_compact(target):
        return f"{COMPACT}{target}"
    return f"local-dir:{target}" if (target / _OPEN_CLIP).is_file() else f"hf:{target}"


def _draw_open_clip(folder: Path, draft: Path) -> None:
    open_clip = import_open_clip()
    with explain_failure(f"{NEW}{folder}: open_clip cannot build it"), quiet_open_clip():
        model = open_clip.create_model(f"local-dir:{folder}", load_weights=False)
    draft.mkdir(parents=True)
    for path in folder.iterdir():
        if path.suffix in _SUFFIXES:
            shutil.copy(path, draft)
    tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    require("safetensors.torch", extra="train").save_file(tensors, draft / "open_clip_model.safetensors")


def _draw_transformers(folder: Path, draft: Path) -> None:
    library = import_transformers()
    architecture = next(iter(read_config(str(folder)).get("architectures") or ()), "")
    model_class = getattr(library, architecture, None)
    if model_class is None:
        raise ModelError(f"{NEW}{folder}: transformers lacks the architecture {architecture!r} of config.json")
    with quiet():
        model = model_class(model_class.config_class.from_pretrained(folder))
    save_transformers(model, load_processor(str(folder)), draft)


def open_start(name: str, config: TrainConfig) -> tuple[Trainable | None, str]:
    """Open the model that training starts from; return it and its fingerprint; of `new:`, None and the digest."""
    if name.startswith(NEW):
        return None, digest_new_model(Path(name.removeprefix(NEW)))
    trainable = _open_trainable(name, config)
    return trainable, trainable.model().fingerprint


def draw_start(name: str, config: TrainConfig, folder: Path, ranks: RankGroup) -> tuple[str, Trainable]:
    """Draw a `new:` model's weights on rank 0, unless the folder exists; return its name and the model on all ranks."""
    new = Path(name.removeprefix(NEW))
    ranks.first(lambda: write_new_model(new, folder, config.seed))
    with ranks.together():
        drawn = write_new_model(new, folder, config.seed)  # a rank without access to rank 0's disk draws again
        return drawn, _open_trainable(drawn, config)


def _open_trainable(name: str, config: TrainConfig) -> Trainable:
    """Open a fusion encoder or a dual one, as the loss needs it."""
    terms = config.loss_terms()
    if isinstance(terms[0].loss, FusionLoss):
        if config.compile is not None:
            fault = f"compile: {config.compile!r} is for dual encoders"
            raise DataError(f"{fault}; a fusion encoder's pairs are drawn inside the pass")
        contrast, reading = config.matching is None or config.matching.contrast, config.reading
        also = [head for head in dict.fromkeys(term.reading for term in terms) if head not in {None, reading or "itm"}]
        return open_fusion(name, config.device, reading, contrast=contrast, image_size=config.image_size, also=also)
    if config.image_size is not None:
        raise DataError(f"image_size: {config.image_size} is for fusion encoders in their authors' files; leave it out")
    if config.reading not in {None, "itc"}:
        raise DataError(f"reading: {config.reading!r} is not what loss {terms[0].name!r} trains, 'itc'; leave it out")
    if config.matching is not None:
        raise DataError(f"[matching] is of fusion encoders' losses (itm, ranking, ...), and {terms[0].name!r} is none")
    trainable = open_dual(name, config.device)
    model = trainable.towers.module
    if any(getattr(term.loss, "bias", False) for term in terms) and getattr(model, "logit_bias", None) is None:
        # SigLIP's bias starts at -10; it is trained, but not saved with a model that had none.
        value = torch.full((), -10.0, device=model.logit_scale.device)
        trainable.module.register_parameter("logit_bias", torch.nn.Parameter(value))
    if any(getattr(term.loss, "local", False) for term in terms):
        trainable.add_local()
    return trainable


def open_dual(name: str, device: str) -> Trainable:
    """Open a dual encoder to train it."""
    if isinstance(declared_prefix(name), FusionPrefix):
        raise ModelError(
            f"{name} cannot be trained by a contrastive loss alone: take a loss of matching heads (itm, ranking, "
            "eqsim-itm, ...), which adds the contrastive one if the model has towers"
        )
    if _is_transformers_name(name):
        architecture = next(iter(read_config(name.removeprefix("hf:")).get("architectures") or ()), "")
        if architecture not in SCALED:
            raise ModelError(
                f"{name}: {architecture or 'a model without an architecture'} cannot be trained by a contrastive loss "
                f"here; take one of {', '.join(SCALED)}"
            )
    elif not name.startswith((COMPACT, TAG, HUB, FOLDER)):
        raise ModelError(
            f"{name} cannot be trained: name a model of open_clip or a CLIP-like one of transformers, by hub id or "
            "folder, or compact:FOLDER"
        )
    dual = cast("TorchDual", find_model(name, ModelOptions(device=device, reading="itc")))
    towers = dual.towers
    model, save = cast("Any", towers.module).requires_grad_(True), cast("Callable[[Path], str]", towers.save)
    if towers.checkpoint is not None:
        towers.checkpoint.expect_one(dual.name)
    module, reader = DualModule(model, towers.image, towers.text), cast("Any", towers.reader)
    measure = partial(TorchDual, towers)
    return Trainable(module, reader, towers.prepare, reader.batch, measure, save, lambda: model.logit_scale, towers)


def _is_transformers_name(name: str) -> bool:
    """Return whether a name is of a model of transformers: a hub id, or a folder."""
    hub_id = "/" in name and declared_prefix(name) is None
    return name.startswith("hf:") or hub_id or (Path(name).expanduser() / "config.json").is_file()


def resolve_name(name: str, home: Path) -> str:
    """Return a model's or a set's name; its path is relative to `home`, and becomes relative to the working folder."""
    prefix, colon, path = name.partition(":")
    prefixed = prefix in {"folder", "local-dir", "hf", "new", "compact"}
    names_path = bool(colon) and (prefixed or isinstance(declared_prefix(name), FusionPrefix))
    if names_path and (home / split_part(path)[0]).exists():
        return f"{prefix}:{home / path}"
    return str(home / name) if (home / name / "config.json").is_file() else name
