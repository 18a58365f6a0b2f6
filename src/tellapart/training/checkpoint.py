"""Checkpoints: safetensors and JSON, written atomically, from which a run goes on with the same numbers."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tellapart.data.atomic import sync_folder
from tellapart.data.rows import read_object
from tellapart.data.scores import join_names
from tellapart.errors import DataError, ModelError, RunError, first_line, require

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

__all__ = [
    "TrainingState",
    "Weights",
    "copy_weights",
    "latest_checkpoint",
    "read_checkpoint",
    "read_weights",
    "replace_folder",
    "weights_of",
    "write_checkpoint",
    "write_folder",
]

#: Tensors of a module by name: trained parameters, and buffers.
Weights = dict[str, "Tensor"]

_FOLDER = "step-{:08d}"


@dataclass
class TrainingState:
    """The progress of a run.

    Attributes:
        step: steps done.
        best: the highest value of the validation set so far.
        best_step: after which step it was reached.
        history: steps, with the validation set's values after them.
        right: the items that were right, 0 or 1, at the last measurement that was better beyond doubt.
        unmoved: measurements since then.
        stopped: whether those are as many as `validation.patience` allows.
    """

    step: int = 0
    best: float | None = None
    best_step: int | None = None
    history: list[tuple[int, float]] = field(default_factory=list)
    right: list[float] = field(default_factory=list)
    unmoved: int = 0
    stopped: bool = False


def weights_of(module: nn.Module) -> Weights:
    """Return copies of the trained tensors: parameters with gradients, and buffers that are saved; shared ones once.

    >>> import torch
    >>> sorted(weights_of(torch.nn.BatchNorm1d(1)))
    ['bias', 'num_batches_tracked', 'running_mean', 'running_var', 'weight']
    """
    trained = {name: value for name, value in module.named_parameters() if value.requires_grad}
    saved = set(module.state_dict())
    buffers = {name: value for name, value in module.named_buffers() if name in saved}
    return {name: value.detach().cpu().contiguous().clone() for name, value in (trained | buffers).items()}


def copy_weights(weights: Weights, module: nn.Module) -> None:
    """Copy weights into a module that has the same names and shapes.

    Raises:
        ModelError: it has not.
    """
    import torch

    tensors = dict(module.named_parameters()) | dict(module.named_buffers())
    expected = set(weights_of(module))
    odd = sorted(set(weights) ^ expected)
    if odd:
        raise ModelError(f"other weights than the model's: {join_names(odd)} in one alone")
    if odd := [name for name in sorted(expected) if weights[name].shape != tensors[name].shape]:
        raise ModelError(f"other weights than the model's: {join_names(odd)} of another shape")
    with torch.no_grad():
        for name, value in weights.items():
            tensors[name].copy_(value)


def read_weights(path: Path, module: nn.Module) -> None:
    """Copy weights of a file into a module that has the same names and shapes.

    Raises:
        RunError: it has not, or the file cannot be read.
    """
    weights = _read_tensors(path)
    try:
        copy_weights(weights, module)
    except ModelError as error:
        raise RunError(f"{path}: holds {error}; it is another run's: train to a new folder") from error


def write_folder(folder: Path, files: Mapping[str, Weights | dict[str, Any]]) -> None:
    """Write safetensors and JSON files to a folder that gets its name when all of them are on the disk.

    Raises:
        RunError: it cannot be written.
    """
    with replace_folder(folder) as draft:
        draft.mkdir()
        for name, content in files.items():
            if name.endswith(".json"):
                (draft / name).write_text(json.dumps(content, indent=1, allow_nan=False), encoding="utf-8")
            else:
                require("safetensors.torch", extra="train").save_file(content, draft / name)


@contextmanager
def replace_folder(folder: Path) -> Iterator[Path]:
    """Give the path of a folder to create and fill; in the end it takes the name of `folder`, in place of an old one.

    A draft that a killed run left is deleted: a run's folder has one writer.

    Raises:
        RunError: it cannot be written.
    """
    broken = require("safetensors", extra="train").SafetensorError
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        for left in folder.parent.glob(f".{folder.name}-????????"):  # as many as tempfile draws
            shutil.rmtree(left)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
            draft = Path(scratch) / folder.name
            yield draft
            sync_folder(draft, deep=True)
            if folder.exists():  # of a run that was killed before its checkpoint
                shutil.rmtree(folder)
            draft.rename(folder)
            sync_folder(folder.parent)
    except (OSError, broken) as error:
        raise RunError(
            f"{folder}: cannot be written ({error}); make room for it, and go on with resume=True"
        ) from error


def write_checkpoint(folder: Path, module: nn.Module, optimiser: Optimizer, state: TrainingState, *, keep: int) -> None:
    """Write `step-N` below the folder of the checkpoints, and delete all but the last `keep`."""
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    moments = {
        f"{names[id(parameter)]}:{key}": value.detach().cpu().contiguous().clone()
        for parameter, values in optimiser.state.items()
        for key, value in values.items()
    }
    write_folder(
        folder / _FOLDER.format(state.step),
        {"weights.safetensors": weights_of(module), "optimiser.safetensors": moments, "state.json": asdict(state)},
    )
    for old in _complete_checkpoints(folder)[:-keep]:
        shutil.rmtree(old)


def latest_checkpoint(folder: Path) -> Path | None:
    """Return the last complete checkpoint of a folder, if there is one."""
    return next(reversed(_complete_checkpoints(folder)), None)


def read_checkpoint(checkpoint: Path, module: nn.Module, optimiser: Optimizer) -> TrainingState:
    """Restore weights and moments, and return the state.

    Raises:
        RunError: the checkpoint is damaged, or of another model.
    """
    read_weights(checkpoint / "weights.safetensors", module)
    parameters = dict(module.named_parameters())
    for name, value in _read_tensors(checkpoint / "optimiser.safetensors").items():
        parameter, _, key = name.rpartition(":")
        if parameter not in parameters:
            raise RunError(f"{checkpoint}: holds moments of {parameter!r}, which is not trained; it is another run's")
        # AdamW counts steps on the CPU; moments lie on the device of their parameter.
        device = "cpu" if key == "step" else parameters[parameter].device
        optimiser.state[parameters[parameter]][key] = value.to(device)
    try:
        values = read_object(checkpoint / "state.json")
        history = [(int(step), float(value)) for step, value in values["history"]]
        return TrainingState(**{**values, "history": history})
    except (DataError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise RunError(
            f"{checkpoint / 'state.json'}: is damaged ({first_line(error)}); delete {checkpoint} and go on"
        ) from error


def _complete_checkpoints(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("step-*") if (path / "state.json").is_file())


def _read_tensors(path: Path) -> Weights:
    try:
        tensors: Weights = require("safetensors.torch", extra="train").load_file(path)
    except Exception as error:  # the library raises a bare Exception
        raise RunError(
            f"{path}: cannot be read as weights ({first_line(error)}); delete the checkpoint's folder to go on from "
            "the one before"
        ) from error
    return tensors
