"""Batch normalisation in training: its statistics are those of a whole batch, or they stay as the model came with them.

A layer that sees a few pairs at a time, or one rank's pairs, would normalise by other statistics than those of the
batch, and move its running means once for each piece: the numbers would depend on memory and machines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tellapart.errors import DataError
from tellapart.models.torch.backend import import_torch
from tellapart.training.config import TrainConfig
from tellapart.training.encoders.trainable import keep_still

if TYPE_CHECKING:
    from torch import nn


def settle_norms(module: nn.Module, config: TrainConfig, ranks: int) -> None:
    """Freeze the statistics of batch normalisation if the configuration asks for it, or trains low-rank updates alone.

    >>> torch, batch = import_torch(), {"size": 4, "micro": 2}
    >>> settings = {"name": "few", "model": "-", "data": {"train": ["a"]}, "loss": {"name": "itc"}, "batch": batch}
    >>> settings |= {"optimiser": {"learning_rate": 1e-3, "steps": 2}, "batch_norm": "frozen"}
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
