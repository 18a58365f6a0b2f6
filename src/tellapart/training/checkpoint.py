"""Checkpoints: safetensors and JSON, written atomically, from which a run goes on with the same numbers."""

from __future__ import annotations

import hashlib
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
from tellapart.data.strict_json import read_whole
from tellapart.errors import ModelError, RunError, require
from tellapart.training.lazy_torch import Tensor, torch

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

#: Tensors of a module by name: trained parameters, and buffers.
Weights = dict[str, "Tensor"]

_FOLDER = "step-{:08d}"

#: The files of a checkpoint, and the file of their SHA-256, as `sha256sum --check` reads it.
_FILES, _SUMS = ("weights.safetensors", "optimiser.safetensors", "state.json"), "SHA256SUMS"


@dataclass
class TrainingState:
    """The progress of a run: steps done, the best value of the validation set, and the step after which it was reached.

    `history` has the values of the validation set by step. `right` are the items that were right at the last
    measurement that was better beyond doubt, and `unmoved` the measurements since then. `stopped` is whether
    `validation.patience` is over. `best_sha256` is of the file of the best weights, `run` the fingerprint of the run.
    """

    step: int = 0
    best: float | None = None
    best_step: int | None = None
    history: list[tuple[int, float]] = field(default_factory=list)
    right: list[float] = field(default_factory=list)
    unmoved: int = 0
    stopped: bool = False
    best_sha256: str | None = None
    run: str | None = None


def weights_of(module: nn.Module) -> Weights:
    """Return copies of the trained tensors: parameters with gradients, and buffers that are saved; shared ones once."""
    trained = {name: value for name, value in module.named_parameters() if value.requires_grad}
    saved = set(module.state_dict())
    buffers = {name: value for name, value in module.named_buffers() if name in saved}
    return {name: value.detach().cpu().contiguous().clone() for name, value in (trained | buffers).items()}


def copy_weights(weights: Weights, module: nn.Module) -> None:
    """Copy weights into a module that has the same names, shapes and types."""
    expected, tensors = weights_of(module), dict(module.named_parameters()) | dict(module.named_buffers())
    if odd := sorted(weights.keys() ^ expected.keys()):
        raise ModelError(f"other weights than the model's: {join_names(odd)} in one alone")
    kinds = {name: [(side[name].shape, side[name].dtype) for side in (weights, expected)] for name in weights}
    if odd := [name for name, (given, trained) in kinds.items() if given != trained]:
        raise ModelError(f"other weights than the model's: {join_names(odd)} of another shape or type")
    with torch.no_grad():
        for name, value in weights.items():
            tensors[name].copy_(value)


def read_weights(path: Path, module: nn.Module, sha256: str | None) -> None:
    """Copy weights of a file, of this SHA-256, into a module that has the same names, shapes and types."""
    if _digest(path) != sha256:
        raise RunError(
            f"{path}: holds other weights than this run's best: its SHA-256 is another; train to a new folder"
        )
    copy_weights(_read_tensors(path), module)


def write_folder(folder: Path, files: Mapping[str, Weights | dict[str, Any]]) -> dict[str, str]:
    """Write safetensors and JSON files to a folder that gets its name when all of them are on the disk.

    `SHA256SUMS` beside them has the SHA-256 of each, which is returned by name, too.
    """
    with replace_folder(folder) as draft:
        draft.mkdir()
        for name, content in files.items():
            if name.endswith(".json"):
                (draft / name).write_text(json.dumps(content, indent=1, allow_nan=False), encoding="utf-8")
            else:
                require("safetensors.torch", extra="train").save_file(content, draft / name)
        sums = {name: _digest(draft / name) for name in files}
        (draft / _SUMS).write_text("".join(f"{sha256}  {name}\n" for name, sha256 in sums.items()), encoding="utf-8")
    return sums


@contextmanager
def replace_folder(folder: Path) -> Iterator[Path]:
    """Give the path of a folder to create and fill; in the end it takes the name of `folder`, in place of an old one.

    A draft that a killed run left is deleted: a run's folder has one writer.
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
        dict(zip(_FILES, (weights_of(module), moments, asdict(state)), strict=True)),
    )
    delete_older(folder, keep)


def delete_older(folder: Path, keep: int) -> None:
    """Delete all checkpoints before the last `keep`, and what a process that was killed left of them."""
    checkpoints = _complete_checkpoints(folder)[-keep:]
    for old in folder.glob("step-*"):
        if checkpoints and old < checkpoints[0]:
            shutil.rmtree(old)


def latest_checkpoint(folder: Path) -> Path | None:
    """Return the last complete checkpoint of a folder, if there is one."""
    return next(reversed(_complete_checkpoints(folder)), None)


def read_checkpoint(checkpoint: Path, module: nn.Module, optimiser: Optimizer) -> TrainingState:
    """Restore weights and moments, and return the state; files that are not as they were written are refused."""
    sums = checkpoint / _SUMS
    lines = read_whole(sums).decode("utf-8", "replace").splitlines() if sums.is_file() else []
    if changed := [name for name in _FILES if f"{_digest(checkpoint / name)}  {name}" not in lines]:
        raise RunError(
            f"{checkpoint}: {join_names(changed)} damaged or changed after {_SUMS} was written; delete {checkpoint} "
            "and go on from the checkpoint before it"
        )
    state = TrainingState(**read_object(checkpoint / "state.json"))
    state.history = [(step, value) for step, value in state.history]  # JSON has lists
    if checkpoint.name != _FOLDER.format(state.step):
        raise RunError(f"{checkpoint}: state.json is of step {state.step}; delete {checkpoint} and go on")
    parameters = {name: value for name, value in module.named_parameters() if value.requires_grad}
    moments: dict[str, dict[str, Tensor]] = {}
    for name, value in _read_tensors(checkpoint / "optimiser.safetensors").items():
        moments.setdefault(name.rpartition(":")[0], {})[name.rpartition(":")[2]] = value
    try:
        copy_weights(_read_tensors(checkpoint / "weights.safetensors"), module)
        if odd := sorted(moments.keys() - parameters.keys()):
            raise ModelError(f"moments of {join_names(odd)}, not trained here")
    except ModelError as error:
        raise RunError(f"{checkpoint}: holds {error}; it is another run's: train to a new folder") from error
    for name, values in moments.items():
        # AdamW counts steps on the CPU; moments lie on the device of their parameter.
        optimiser.state[parameters[name]] = {
            key: value if key == "step" else value.to(parameters[name].device) for key, value in values.items()
        }
    return state


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file; nothing if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def _complete_checkpoints(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("step-*") if (path / "state.json").is_file())


def _read_tensors(path: Path) -> Weights:
    tensors: Weights = require("safetensors.torch", extra="train").load_file(path)
    return tensors
