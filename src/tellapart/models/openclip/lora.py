"""LoRA checkpoints of open_clip's towers: their updates are merged into the weights when they are read.

Source: Hu et al. 2022, LoRA: Low-Rank Adaptation of Large Language Models, section 4.1 (W + alpha / rank * B A), under
the names that loralib's layers save: `NAME.lora_A` beside `NAME.weight`, and `NAME_lora_A` beside a packed `NAME`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tellapart.data.strict_json import load_json
from tellapart.errors import ModelError
from tellapart.models.torch.peft_adapter import ADAPTER_CONFIG

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["merge_updates"]

#: Settings of peft under which an update is another product than alpha / rank * B A, or differs by layer.
_OTHER_PRODUCTS = ("use_dora", "rank_pattern", "alpha_pattern", "fan_in_fan_out")


def merge_updates(name: str, tensors: Mapping[str, Any], checkpoint: Path) -> dict[str, Any]:
    """Return the tensors of a checkpoint with its LoRA matrices merged into their weights, and the rest as it is.

    A product is taken in float64 and rounded once, to float32: added to a weight of 16 bits, a small update would
    vanish.

    Args:
        name: of the model, for errors.
        tensors: `torch.Tensor` by name.
        checkpoint: their file; `adapter_config.json` next to it has the rank and the scale.

    Raises:
        ModelError: the scale is unknown, or that of another product; a matrix lacks its other half or its weight, or
            their shapes do not fit.
    """
    matrices = {key: tensor for key, tensor in tensors.items() if "lora_" in key.lower()}
    merged = {key: tensor for key, tensor in tensors.items() if key not in matrices}
    if not matrices:
        return merged
    where = f"{name}: {checkpoint.name}"
    rank, scale = _read_scale(where, checkpoint.with_name(ADAPTER_CONFIG), len(matrices), min(matrices))
    for key, matrix in matrices.items():
        stem, half = key[:-1], key[-1]
        pair = {"A": stem + "B", "B": stem + "A"}
        if half not in pair or pair[half] not in matrices:
            raise ModelError(f"{where} holds {key} alone; expected its weight's lora_A and lora_B")
        weight = stem.removesuffix(".lora_") + ".weight" if stem.endswith(".lora_") else stem.removesuffix("_lora_")
        if weight not in merged:
            raise ModelError(
                f"{where} holds {key} without {weight}, which it changes; save the whole state dict, the frozen "
                "weights and the LoRA matrices together"
            )
        if half == "A":
            update = _multiply_halves(where, weight, merged[weight], (matrix, matrices[pair[half]]), rank)
            merged[weight] = (merged[weight].double() + scale * update).float()
    return merged


def _read_scale(where: str, config: Path, count: int, first: str) -> tuple[int, float]:
    """Return the rank and the factor of B A."""
    if not config.is_file():
        raise ModelError(
            f"{where} holds {count} LoRA matrices, first {first}, and no tensor holds their scale, alpha / rank; write "
            f'{ADAPTER_CONFIG} beside it with its authors\' numbers, for example {{"r": 4, "lora_alpha": 1}}'
        )
    content = load_json(config, error=ModelError)
    stated: dict[str, Any] = content if isinstance(content, dict) else {}
    rank: Any = stated.get("r")
    alpha: Any = stated.get("lora_alpha")
    if not (type(rank) is int and rank >= 1 and type(alpha) in {int, float} and math.isfinite(alpha)):
        raise ModelError(
            f"{config}: expected 'r', a number of at least 1, and 'lora_alpha', a number; got {rank!r} and {alpha!r}"
        )
    if other := [key for key in _OTHER_PRODUCTS if stated.get(key)]:
        raise ModelError(
            f"{config}: {other[0]!r} is set, and only W + alpha / rank * B A is merged here; merge it by its authors' "
            "code, and name the merged state dict"
        )
    return rank, float(alpha) / (math.sqrt(rank) if stated.get("use_rslora") else rank)


def _multiply_halves(where: str, name: str, weight: Tensor, halves: tuple[Any, Any], rank: int) -> Tensor:
    """Return B A in float64, in the shape of its weight."""
    a, b = halves
    side = weight.shape[-1] if weight.ndim == 4 else 1  # of a convolution's kernel: loralib's matrices have rank * side
    rows, columns = (weight.shape[0] * side, weight[0].numel() // side)
    if turned := name.endswith("embedding.weight"):  # loralib keeps an embedding's matrices the other way round
        rows, columns = columns, rows
    if tuple(a.shape) != (rank * side, columns) or tuple(b.shape) != (rows, rank * side):
        raise ModelError(
            f"{where}: the LoRA matrices of {name} have shapes {tuple(a.shape)} and {tuple(b.shape)}; a weight of "
            f"{tuple(weight.shape)} and rank {rank} ({ADAPTER_CONFIG}) need {(rank * side, columns)} and "
            f"{(rows, rank * side)}"
        )
    update = b.double() @ a.double()
    return update.T if turned else update.reshape(weight.shape)
