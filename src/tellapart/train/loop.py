"""The training loop: steps, a log, checkpoints, and the weights that did best on the validation set.

A run is a folder. Killed anywhere, it goes on from its last checkpoint with the numbers that it would have had.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tellapart.data.pairset import PairSet
from tellapart.errors import DataError, RunError, require
from tellapart.models.protocols import Model
from tellapart.models.torch_backend import import_torch
from tellapart.train.checkpoint import (
    State,
    latest,
    read_checkpoint,
    read_weights,
    weights_of,
    write_checkpoint,
    write_folder,
)
from tellapart.train.config import TrainConfig
from tellapart.train.losses.batch import Parts
from tellapart.train.order import Order
from tellapart.train.rows import Rows
from tellapart.train.run_files import RunFiles
from tellapart.train.schedule import rate
from tellapart.train.validation import metric_of, value_of

__all__ = ["Steps", "Trained", "Training", "open_accelerator", "train"]

Progress = Callable[[str, int, int], None]
"""Called with the stage, what is done of it, and the total."""


class Trained(Protocol):
    """A model of any family as it is trained.

    >>> sorted(name for name in vars(Trained) if not name.startswith("_"))
    ['log_scale', 'model', 'module', 'save']
    """

    @property
    def module(self) -> Any:
        """All that is trained, a `torch.nn.Module`."""

    @property
    def log_scale(self) -> Any:
        """The parameter whose exponential is a contrastive scale, or None."""

    def model(self) -> Model:
        """Return a model that measures with the weights as they are; it shares them."""

    def save(self, folder: Path) -> str:
        """Write the model to a new folder and return the name that `tellapart run -m` takes."""


class Steps(Protocol):
    """How one family takes a step.

    >>> sorted(name for name in vars(Steps) if not name.startswith("_"))
    ['backward', 'close', 'draw', 'read']
    """

    def draw(self, numbers: list[int], step: int) -> Any:
        """Return what a step computes of this rank's rows: by the seed, the step and each row alone."""

    def read(self, drawn: Any) -> Any:
        """Begin to read a step's images; return what `backward` waits for."""

    def backward(self, drawn: Any, images: Any, step: int) -> Parts:
        """Take the loss, leave its gradients in the parameters, and return its parts, detached."""

    def close(self) -> None:
        """Let threads go."""


@dataclass
class Training:
    """All that a loop needs.

    Attributes:
        config: of the run.
        trained: the model.
        rows: what is trained on.
        steps: made of the accelerator and the wrapped module.
        files: the run's folder.
        validation: what weights are chosen by, if there is such a set.
        accelerator: of accelerate, which knows the device, the precision and the ranks.

    >>> Training.__dataclass_fields__["validation"].type
    'PairSet | None'
    """

    config: TrainConfig
    trained: Trained
    rows: Rows
    steps: Callable[[Any, Any], Steps]
    files: RunFiles
    validation: PairSet | None
    accelerator: Any


def train(training: Training, *, limit: int | None = None, progress: Progress | None = None) -> State:
    """Train, from the last checkpoint if there is one; leave the chosen weights in the model and in `best/`.

    Args:
        training: what to train, and on what.
        limit: stop after so many steps, as the schedule's last would: a smoke run.
        progress: told how far it is.

    Raises:
        DataError: the batch does not fit the rows or the ranks.
        RunError: a loss is not finite, or a checkpoint is damaged.
        MissingDependencyError: accelerate is not installed.

    >>> train.__name__
    'train'
    """
    config, trained = training.config, training.trained
    accelerator = training.accelerator
    order = Order(training.rows, config.batch.size, config.seed, config.data.together)
    if config.batch.size % accelerator.num_processes:
        raise DataError(f"batch.size: {config.batch.size} pairs cannot be shared by {accelerator.num_processes} ranks")
    told = config.optimiser
    total = told.steps or (told.epochs or 0) * order.steps_per_epoch
    total = min(total, limit) if limit else total
    optimiser = _optimiser(trained.module, config)
    state = _begin(training, optimiser)
    if accelerator.is_main_process:
        training.files.cut_log(state.step)
    trained.module.train()
    module = accelerator.prepare(trained.module)
    steps = training.steps(accelerator, module)
    rank, ranks = accelerator.process_index, accelerator.num_processes

    def drawn(step: int) -> tuple[Any, Any]:
        found = steps.draw(order.batch(step, rank, ranks), step)
        return found, steps.read(found)

    try:
        ahead = drawn(state.step) if state.step < total else None
        for step in range(state.step, total):
            now, ahead = ahead, drawn(step + 1) if step + 1 < total else None
            assert now is not None  # noqa: S101  (for the type checker)
            for group in optimiser.param_groups:
                group["lr"] = told.learning_rate * rate(step, total, told.warm_up, told.decay)
            optimiser.zero_grad(set_to_none=True)
            parts = steps.backward(*now, step)
            norm = _update(trained, optimiser, config)
            state.step = step + 1
            if accelerator.is_main_process:
                training.files.log(state.step, _numbers(parts, norm, optimiser, trained))
            if state.step % config.validation.every == 0 or state.step == total:
                _validate(training, state, accelerator)
                if accelerator.is_main_process:
                    write_checkpoint(
                        training.files.checkpoints, trained.module, optimiser, state, keep=config.validation.keep
                    )
                accelerator.wait_for_everyone()
            if progress is not None and accelerator.is_main_process:
                progress("steps", state.step, total)
    finally:
        steps.close()
    read_weights(training.files.best, trained.module)
    trained.module.eval()
    return state


def open_accelerator(config: TrainConfig) -> Any:
    """Return accelerate's view of this process: one of several under torchrun.

    Raises:
        RunError: the device is not to be had.
        MissingDependencyError: accelerate is not installed.

    >>> table = {"name": "a", "model": "m", "data": {"train": ["a"]}, "loss": {"name": "itc"}, "batch": {"size": 2}}
    >>> open_accelerator(TrainConfig(**table, optimiser={"learning_rate": 1.0, "steps": 1})).num_processes
    1
    """
    accelerate = require("accelerate", extra="train")
    mixed = "bf16" if config.precision == "bfloat16" else "no"
    accelerator = accelerate.Accelerator(cpu=config.device == "cpu", mixed_precision=mixed)
    if accelerator.device.type != config.device:
        raise RunError(f"device {config.device!r} is not to be had; accelerate finds {accelerator.device.type!r}")
    return accelerator


def _optimiser(module: Any, config: TrainConfig) -> Any:
    """AdamW; biases, norms and the scale, which have one axis or none, are not decayed."""
    torch = import_torch()
    told = config.optimiser
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim >= 2], "weight_decay": told.weight_decay},
        {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=told.learning_rate,
        betas=told.betas,
        eps=told.epsilon,
        foreach=False,  # one order of operations on every machine
    )


def _begin(training: Training, optimiser: Any) -> State:
    checkpoint = latest(training.files.checkpoints)
    return read_checkpoint(checkpoint, training.trained.module, optimiser) if checkpoint else State()


def _update(trained: Trained, optimiser: Any, config: TrainConfig) -> float:
    """Take the optimiser's step and keep the scale in bounds; return the gradient's norm."""
    torch = import_torch()
    limit = config.optimiser.clip_norm or float("inf")
    parameters = [parameter for parameter in trained.module.parameters() if parameter.requires_grad]
    norm = float(torch.nn.utils.clip_grad_norm_(parameters, limit, foreach=False))
    if not norm < float("inf"):
        raise RunError(
            f"the gradient's norm is {norm}: training has diverged; lower optimiser.learning_rate, set optimiser.clip_norm, or "
            f"train in float32 (precision is {config.precision!r})"
        )
    optimiser.step()
    scale, highest = trained.log_scale, config.optimiser.max_scale
    if scale is not None and highest is not None:
        with torch.no_grad():
            scale.clamp_(max=float(torch.tensor(highest).log()))
    return norm


def _numbers(parts: Parts, norm: float, optimiser: Any, trained: Trained) -> dict[str, float]:
    found = {name: float(part) for name, part in parts.items()}
    bad = next((name for name, value in found.items() if not abs(value) < float("inf")), None)
    if bad is not None:
        raise RunError(f"the loss's part {bad!r} is {found[bad]}: training has diverged; lower optimiser.learning_rate")
    found |= {"gradient_norm": norm, "learning_rate": optimiser.param_groups[0]["lr"]}
    if trained.log_scale is not None:
        found["scale"] = float(trained.log_scale.detach().exp())
    return found


def _validate(training: Training, state: State, accelerator: Any) -> None:
    """Measure the validation set on rank 0, and keep the weights if they are the best so far."""
    trained, pairs = training.trained, training.validation
    if accelerator.is_main_process:
        if pairs is None:
            state.best_step = state.step  # without such a set, the last weights are as good as any
        else:
            trained.module.eval()
            metric = metric_of(training.config, pairs.shape)
            value = value_of(metric, trained.model(), pairs)
            trained.module.train()
            state.history.append((state.step, value))
            training.files.log(state.step, {f"validation_{metric}": value})
            if state.best is None or value > state.best:
                state.best, state.best_step = value, state.step
        if state.best_step == state.step:
            write_folder(training.files.best.parent, {training.files.best.name: weights_of(trained.module)})
    accelerator.wait_for_everyone()
