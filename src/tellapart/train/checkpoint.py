"""Checkpoints: safetensors and JSON, whole or not at all, from which a run goes on with the same numbers."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tellapart.data.scores import named
from tellapart.errors import ModelError, RunError, first_line, require

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

__all__ = [
    "State",
    "Weights",
    "latest",
    "put_weights",
    "read_checkpoint",
    "read_weights",
    "weights_of",
    "write_checkpoint",
    "write_folder",
    "written",
]

#: Tensors of a module by name: what is trained, and buffers.
Weights = dict[str, "Tensor"]

_FOLDER = "step-{:08d}"


@dataclass
class State:
    """How far a run is.

    Attributes:
        step: steps done.
        best: the highest value of the validation set so far.
        best_step: after which step it was reached.
        history: what was measured on the validation set: step and value.

    >>> State().step
    0
    """

    step: int = 0
    best: float | None = None
    best_step: int | None = None
    history: list[tuple[int, float]] = field(default_factory=list)


def weights_of(module: nn.Module) -> Weights:
    """Return what training changes: parameters with gradients, and buffers that are saved; shared ones once.

    >>> import torch
    >>> sorted(weights_of(torch.nn.BatchNorm1d(1)))
    ['bias', 'num_batches_tracked', 'running_mean', 'running_var', 'weight']
    """
    trained = {name: value for name, value in module.named_parameters() if value.requires_grad}
    kept = set(module.state_dict())
    buffers = {name: value for name, value in module.named_buffers() if name in kept}
    return {name: value.detach().cpu().contiguous().clone() for name, value in (trained | buffers).items()}


def put_weights(weights: Weights, module: nn.Module) -> None:
    """Copy weights into a module that has the same names and shapes.

    Raises:
        ModelError: it has not.

    >>> import torch
    >>> put_weights({"weight": torch.zeros(1, 1)}, torch.nn.Linear(1, 1))
    Traceback (most recent call last):
    tellapart.errors.ModelError: other weights than the model's: bias in one alone
    """
    import torch

    there = dict(module.named_parameters()) | dict(module.named_buffers())
    wanted = set(weights_of(module))
    odd = sorted(set(weights) ^ wanted)
    if odd:
        raise ModelError(f"other weights than the model's: {named(odd)} in one alone")
    if odd := [name for name in sorted(wanted) if weights[name].shape != there[name].shape]:
        raise ModelError(f"other weights than the model's: {named(odd)} of another shape")
    with torch.no_grad():
        for name, value in weights.items():
            there[name].copy_(value)


def read_weights(path: Path, module: nn.Module) -> None:
    """Copy weights of a file into a module that has the same names and shapes.

    Raises:
        RunError: it has not, or the file cannot be read.

    >>> import torch
    >>> read_weights(Path("gone.safetensors"), torch.nn.Linear(1, 1))
    Traceback (most recent call last):
    tellapart.errors.RunError: gone.safetensors: cannot be read as weights (No such file or directory: gone.safetensors); delete the checkpoint's folder to go on from the one before
    """
    found = _tensors(path)
    try:
        put_weights(found, module)
    except ModelError as error:
        raise RunError(f"{path}: holds {error}; it is another run's: train to a new folder") from error


def write_folder(folder: Path, files: Mapping[str, Weights | dict[str, Any]]) -> None:
    """Write safetensors and JSON files to a folder that gets its name when all of them are on the disk.

    Raises:
        RunError: it cannot be written.

    >>> import json, tempfile
    >>> with tempfile.TemporaryDirectory() as scratch:
    ...     write_folder(Path(scratch) / "a", {"state.json": {"step": 1}})
    ...     json.loads((Path(scratch) / "a" / "state.json").read_text())
    {'step': 1}
    """
    with written(folder) as draft:
        draft.mkdir()
        for name, content in files.items():
            if name.endswith(".json"):
                (draft / name).write_text(json.dumps(content, indent=1, allow_nan=False), encoding="utf-8")
            else:
                require("safetensors.torch", extra="train").save_file(content, draft / name)
            with (draft / name).open("rb") as file:
                os.fsync(file.fileno())


@contextmanager
def written(folder: Path) -> Iterator[Path]:
    """Give a path that is no file yet for a folder to be written to; it gets its name, and takes the old one's place, in the end.

    Raises:
        RunError: it cannot be written.

    >>> with tempfile.TemporaryDirectory() as scratch, written(Path(scratch) / "a") as draft:
    ...     draft.mkdir()
    """
    broken = require("safetensors", extra="train").SafetensorError
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
            draft = Path(scratch) / folder.name
            yield draft
            if folder.exists():  # of a run that was killed before it told anyone
                shutil.rmtree(folder)
            draft.rename(folder)
    except (OSError, broken) as error:
        raise RunError(f"{folder}: cannot be written ({error}); make room for it, and go on with --resume") from error


def write_checkpoint(folder: Path, module: nn.Module, optimiser: Optimizer, state: State, *, keep: int) -> None:
    """Write `step-N` below a folder and delete all but the last `keep`.

    Args:
        folder: of the run's checkpoints.
        module: what is trained.
        optimiser: of its parameters.
        state: how far the run is.
        keep: how many to keep.

    >>> write_checkpoint.__name__
    'write_checkpoint'
    """
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    moments = {
        f"{names[id(parameter)]}:{key}": value.detach().cpu().contiguous().clone()
        for parameter, values in optimiser.state.items()
        for key, value in values.items()
    }
    told = asdict(state)
    write_folder(
        folder / _FOLDER.format(state.step),
        {"weights.safetensors": weights_of(module), "optimiser.safetensors": moments, "state.json": told},
    )
    for old in _complete(folder)[:-keep]:
        shutil.rmtree(old)


def latest(folder: Path) -> Path | None:
    """Return the last complete checkpoint of a folder, if there is one.

    >>> latest(Path("no such folder"))
    """
    found = _complete(folder)
    return found[-1] if found else None


def read_checkpoint(checkpoint: Path, module: nn.Module, optimiser: Optimizer) -> State:
    """Put a run where it was.

    Raises:
        RunError: the checkpoint is damaged, or of another model.

    >>> import torch
    >>> module = torch.nn.Linear(1, 1)
    >>> read_checkpoint(Path("gone"), module, torch.optim.AdamW(module.parameters()))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tellapart.errors.RunError: gone/weights.safetensors: cannot be read as weights (...
    """
    read_weights(checkpoint / "weights.safetensors", module)
    moments = _tensors(checkpoint / "optimiser.safetensors")
    by_name = dict(module.named_parameters())
    for name, value in moments.items():
        parameter, _, key = name.rpartition(":")
        if parameter not in by_name:
            raise RunError(f"{checkpoint}: holds moments of {parameter!r}, which is not trained; it is another run's")
        # AdamW counts steps on the CPU; moments lie where their parameter does.
        optimiser.state[by_name[parameter]][key] = value if key == "step" else value.to(by_name[parameter].device)
    try:
        told = json.loads((checkpoint / "state.json").read_text(encoding="utf-8"))
        history = [(int(step), float(value)) for step, value in told["history"]]
        return State(told["step"], told["best"], told["best_step"], history)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{checkpoint / 'state.json'}: is damaged ({error}); delete {checkpoint} and go on") from error


def _complete(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("step-*") if (path / "state.json").is_file())


def _tensors(path: Path) -> Weights:
    try:
        found: Weights = require("safetensors.torch", extra="train").load_file(path)
    except Exception as error:  # the library raises its own bare Exception
        raise RunError(
            f"{path}: cannot be read as weights ({first_line(error)}); delete the checkpoint's folder to go on from "
            "the one before"
        ) from error
    return found
