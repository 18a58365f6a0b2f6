"""LoRA adapters in peft's folders, merged into the weights of their base model when it is loaded.

Source: Hu et al. 2022, LoRA: Low-Rank Adaptation of Large Language Models, section 4.1 (W + alpha / r * B A);
Kalajdzievski 2023 for the scale alpha / sqrt(r) (`use_rslora`). peft itself is not needed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tellapart.data.scores import join_names
from tellapart.data.strict_json import load_json
from tellapart.errors import ModelError
from tellapart.models.torch.backend import import_torch
from tellapart.models.torch.checkpoint import read_checkpoint

if TYPE_CHECKING:
    from torch import Tensor

    from tellapart.models.torch.network import Network

Value = TypeVar("Value")

#: Facts that are in no tensor: rank, scale, method.
ADAPTER_CONFIG = "adapter_config.json"

_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")

#: Weights that LLaVA's trainer saved with an adapter, and that belong to it.
_MORE_WEIGHTS = "non_lora_trainables.bin"

#: Settings that change no merged weight, or that are read here. Any other one that is set is refused: peft's next
#: version may bring one that changes the product.
_READ = frozenset({"alpha_pattern", "base_model_name_or_path", "bias", "init_lora_weights", "lora_alpha", "peft_type"})
_READ |= {"r", "rank_pattern", "target_modules", "use_rslora", "layers_to_transform", "layers_pattern"}
_READ |= {"exclude_modules", "fan_in_fan_out"}  # the kind of a layer decides how its weight lies, as peft decides
_READ |= {"auto_mapping", "eva_config", "inference_mode", "lora_dropout", "megatron_core", "peft_version"}
_READ |= {"qalora_group_size", "revision", "runtime_config", "task_type", "loftq_config"}

#: Beginnings of training that leave the base as it is. The others (PiSSA, OLoRA, LoftQ, ...) change it.
_PLAIN_STARTS = (True, False, None, "gaussian", "eva", "orthogonal")

#: The second projection of torch's MultiheadAttention, and the last version of peft known to update it twice, in
#: training as in merging (huggingface/peft, pull request 3774).
_TWICE, _TWICE_UNTIL = ".base_layer.out_proj", (0, 21, 2)

_KEY = re.compile(r"(?:base_model\.model\.)?(?P<module>.+)\.lora_(?:embedding_)?(?P<half>[AB])(?:\.weight)?")


@dataclass(frozen=True, slots=True)
class PeftAdapter:
    """A folder with `adapter_config.json` and the matrices; `settings` is the content of the first."""

    folder: Path
    settings: Mapping[str, Any]

    @property
    def base(self) -> str:
        """The model that the matrices change."""
        base = self.settings.get("base_model_name_or_path")
        if not isinstance(base, str) or not base.strip():
            raise ModelError(
                f"{self.folder / ADAPTER_CONFIG} names no base model; write it there as 'base_model_name_or_path', or "
                "for open_clip name it before the folder: open_clip:ARCH/TAG@FOLDER"
            )
        return base


def find_adapter(source: str | Path) -> PeftAdapter | None:
    """Return the adapter in a folder; None if there is none."""
    folder = Path(source).expanduser()
    if not (folder / ADAPTER_CONFIG).is_file() or not any((folder / name).is_file() for name in _WEIGHTS):
        return None
    settings = load_json(folder / ADAPTER_CONFIG, error=ModelError)
    if not isinstance(settings, dict):
        raise ModelError(f"{folder / ADAPTER_CONFIG} is not a JSON object; expected the configuration that peft saves")
    _check_settings(folder, settings)
    return PeftAdapter(folder, settings)


def merge_adapter(name: str, model: Network, adapter: PeftAdapter, *, unused: Sequence[str] = ()) -> None:
    """Add an adapter's updates to a model's weights, in place; a sum is taken in float64 and rounded once."""
    file = next(adapter.folder / each for each in _WEIGHTS if (adapter.folder / each).is_file())
    place, modules, updated = f"{name}: {file.name}", dict(model.named_modules()), set()
    left_out = tuple(f"{part}." for part in unused)
    checkpoint = read_checkpoint(file)
    if checkpoint.others:
        raise ModelError(f"{place} holds {checkpoint.part} and {checkpoint.others[0]}; leave one of them in it")
    for module, a, b in _list_pairs(place, checkpoint.tensors):
        if module.startswith(left_out) and module not in modules:
            continue
        layer = modules.get(module.replace(".base_layer", ""))
        if layer is None:
            raise ModelError(
                f"{place} changes {module}, which {type(model).__name__} does not have; its names may be those of "
                "another class or version: merge it where it was trained (merge_and_unload), and name the merged model"
            )
        weight = layer.in_proj_weight if type(layer).__name__ == "MultiheadAttention" else layer.weight
        scale = _update_scale(place, adapter.settings, module, len(a)) * _count_updates(place, adapter.settings, module)
        with import_torch().no_grad():
            weight.copy_(weight.double() + scale * _multiply_halves(f"{place}: {module}", layer, weight, (a, b)))
        updated.add(module)
    _check_targets(place, adapter.settings, modules, updated)


def _check_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Refuse another method than LoRA's plain product, and further weights."""
    place = folder / ADAPTER_CONFIG
    method = settings.get("peft_type")
    if method != "LORA":
        raise ModelError(f"{place}: 'peft_type' is {method!r}, and only 'LORA' is merged here; {_ELSEWHERE}")
    others = sorted(key for key, value in settings.items() if value and key not in _READ)
    start = settings.get("init_lora_weights", True)
    if settings.get("bias", "none") != "none":
        others.append("bias")
    if not any(start is plain or (isinstance(plain, str) and start == plain) for plain in _PLAIN_STARTS):
        others.append("init_lora_weights")
    if others:
        stated = ", ".join(f"{key!r}: {settings[key]!r}" for key in others)
        raise ModelError(f"{place} sets {stated}; only W + alpha / r * B A is merged here; {_ELSEWHERE}")
    if (folder / _MORE_WEIGHTS).is_file():
        raise ModelError(f"{folder} has weights beside its matrices, {_MORE_WEIGHTS}, not merged here; {_ELSEWHERE}")


_ELSEWHERE = "merge it with peft (merge_and_unload), and name the merged model"


def _list_pairs(place: str, tensors: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the name of a module with its matrices A and B."""
    found: dict[str, dict[str, Any]] = {}
    for key, tensor in sorted(tensors.items()):
        match = _KEY.fullmatch(key)
        if match is None:
            raise ModelError(f"{place} holds {key}, which is not a LoRA matrix; {_ELSEWHERE}")
        found.setdefault(match["module"], {})[match["half"]] = tensor
    for module, halves in found.items():
        if len(halves) < 2:
            raise ModelError(f"{place} holds lora_{min(halves)} of {module} alone; expected lora_A and lora_B")
        yield module, halves["A"], halves["B"]


def _update_scale(place: str, settings: Mapping[str, Any], module: str, rows: int) -> float:
    """Return the factor of B A: alpha / r, or alpha / sqrt(r), of the module's pattern if it has one."""
    rank: Any
    alpha: Any
    rank, alpha = (
        _of_pattern(settings.get(pattern) or {}, module, settings.get(plain))
        for pattern, plain in (("rank_pattern", "r"), ("alpha_pattern", "lora_alpha"))
    )
    if not (type(rank) is int and rank >= 1 and type(alpha) in {int, float} and math.isfinite(alpha)):
        raise ModelError(f"{place}: {ADAPTER_CONFIG} gives {module} r {rank!r} and lora_alpha {alpha!r}; need numbers")
    if rows != rank:
        raise ModelError(f"{place}: lora_A of {module} has {rows} rows, and {ADAPTER_CONFIG} has r {rank}")
    return float(alpha) / (math.sqrt(rank) if settings.get("use_rslora") else rank)


def _count_updates(place: str, settings: Mapping[str, Any], module: str) -> int:
    """Return how often the peft that trained a module added its update; older ones did not write their version."""
    if not module.endswith(_TWICE):
        return 1
    version = str(settings.get("peft_version") or "")
    if tuple(int(part) for part in re.findall(r"\d+", version)[:3]) > _TWICE_UNTIL:
        raise ModelError(
            f"{place} changes {module}, which peft up to {'.'.join(map(str, _TWICE_UNTIL))} updated twice; what peft "
            f"{version} does is not known here; {_ELSEWHERE}"
        )
    return 2


def _of_pattern(patterns: Mapping[str, Any], module: str, plain: Value) -> Value:
    """Return the value of the first pattern that the end of a module's name matches, as peft has it."""
    return next((value for key, value in patterns.items() if re.match(rf"(.*\.)?({key})$", module)), plain)


def _multiply_halves(place: str, layer: Network, weight: Tensor, halves: tuple[Any, Any]) -> Tensor:
    """Return B A in float64, as the layer's weight lies: turned for embeddings and for transformers' Conv1D."""
    a, b = (half.to(weight.device).double().flatten(1) for half in halves)
    turned = type(layer).__name__ in {"Conv1D", "Embedding"}
    rows, columns = weight.shape[::-1] if turned else (weight.shape[0], weight[0].numel())
    if a.shape[1] != columns or tuple(b.shape) != (rows, len(a)):
        raise ModelError(
            f"{place} has matrices of shapes {tuple(halves[0].shape)} and {tuple(halves[1].shape)}, which do not fit a "
            f"{type(layer).__name__} with a weight of {tuple(weight.shape)}; the base is another model"
        )
    return (b @ a).T if turned else (b @ a).reshape(weight.shape)


def _check_targets(place: str, settings: Mapping[str, Any], modules: Mapping[str, Any], updated: set[str]) -> None:
    """Refuse a file in which a layer that the configuration lists has no matrices."""
    targets, layer_options = (
        settings.get("target_modules"),
        ("layers_to_transform", "layers_pattern", "exclude_modules"),
    )
    if not isinstance(targets, list) or any(settings.get(key) not in (None, []) for key in layer_options):
        return
    names = tuple(f".{target}" for target in targets)
    listed = {name for name in modules if f".{name}".endswith(names)}
    if bare := sorted(listed - {name.replace(".base_layer", "") for name in updated}):
        raise ModelError(
            f"{place} has no matrices for {join_names(bare, 3)}, which 'target_modules' of {ADAPTER_CONFIG} lists; the "
            "file is not whole, or the base is another model"
        )
