"""The training loop: steps, a log, checkpoints, and the weights that did best on the validation set.

A run is a folder. Killed anywhere, it goes on from its last checkpoint with the numbers that it would have had.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tellapart.data.pairset import PairSet
from tellapart.data.progress import Progress
from tellapart.errors import DataError, RunError
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
from tellapart.train.encoders import Inputs, Trained
from tellapart.train.losses.batch import Parts
from tellapart.train.order import Order
from tellapart.train.prepared import PreparedImages
from tellapart.train.ranks import Ranks
from tellapart.train.rows import Rows
from tellapart.train.run_files import RunFiles
from tellapart.train.schedule import rate
from tellapart.train.validation import metric_of, value_of

__all__ = ["Steps", "Training", "train"]

#: Threads that read and prepare a step's images while another step is computed.
_READERS = 2


class Steps(Protocol):
    """How one family takes a step.

    >>> sorted(name for name in vars(Steps) if not name.startswith("_"))
    ['backward', 'draw']
    """

    def draw(self, numbers: Sequence[int], step: int) -> Any:
        """Return what a step computes of this rank's rows, by the seed, the step and each row alone.

        Its `rows` are the numbers of the rows whose images it needs.
        """

    def backward(self, drawn: Any, images: Sequence[Inputs], step: int) -> Parts:
        """Take the loss of what was drawn and its images; leave gradients in the parameters, return its parts, detached."""


@dataclass(frozen=True)
class Training:
    """All that a loop needs.

    Attributes:
        config: of the run.
        trained: the model.
        rows: what is trained on.
        family: makes its steps of configuration, model, rows, accelerator and wrapped module.
        files: the run's folder.
        validation: what weights are chosen by, if there is such a set.
        ranks: that train together.

    >>> Training.__dataclass_fields__["validation"].type
    'PairSet | None'
    """

    config: TrainConfig
    trained: Trained
    rows: Rows
    family: Callable[[TrainConfig, Trained, Rows, Any, Any], Steps]
    files: RunFiles
    validation: PairSet | None
    ranks: Ranks


def train(training: Training, *, limit: int | None = None, progress: Progress | None = None) -> State:
    """Train, from the last checkpoint if there is one; leave the chosen weights in the first rank's model and in `best/`.

    Args:
        training: what to train, and on what.
        limit: stop after so many steps, as the schedule's last would: a smoke run.
        progress: told how far it is.

    Raises:
        DataError: the batch does not fit the rows or the ranks, or an image cannot be read.
        RunError: a loss is not finite, a checkpoint is damaged, or the folder cannot be written.

    >>> train.__name__
    'train'
    """
    config, trained, ranks = training.config, training.trained, training.ranks
    order = Order(training.rows, config.batch.size, config.seed, config.data.together)
    if config.batch.size % ranks.of:
        raise DataError(f"batch.size: {config.batch.size} pairs cannot be shared by {ranks.of} ranks")
    told = config.optimiser
    total = told.steps or (told.epochs or 0) * order.steps_per_epoch
    total = min(total, limit) if limit else total
    optimiser = _optimiser(trained.module, config)
    state = _begin(training, optimiser)
    trained.module.train()
    module = ranks.accelerator.prepare(trained.module)
    steps = training.family(config, trained, training.rows, ranks.accelerator, module)
    images = PreparedImages(training.rows, trained.image, keep=config.data.keep_images, threads=_READERS)

    def begun(step: int) -> tuple[Any, list[Any]]:
        drawn = steps.draw(order.batch(step, ranks.number, ranks.of), step)
        return drawn, images.read(drawn.rows)

    try:
        ahead = [begun(state.step)] if state.step < total else []
        for step in range(state.step, total):
            (drawn, reading), ahead = ahead[0], [begun(step + 1)] if step + 1 < total else []
            with ranks.together():
                read = [image.result() for image in reading]
            for group in optimiser.param_groups:
                group["lr"] = told.learning_rate * rate(step, total, told.warm_up, told.decay)
            optimiser.zero_grad(set_to_none=True)
            parts = steps.backward(drawn, read, step)
            numbers = _numbers(parts, _update(trained, optimiser, config), optimiser, trained)
            state.step = step + 1
            with ranks.together():
                if ranks.leads:
                    _kept(training, optimiser, state, numbers, last=state.step == total)
                    if progress is not None:
                        progress("steps", state.step, total)
    finally:
        images.close()
    with ranks.together():
        if ranks.leads:
            read_weights(training.files.best, trained.module)
            trained.module.eval()
    return state


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
    """Go on from the last checkpoint, if there is one, on every rank from the same."""
    ranks, files = training.ranks, training.files
    found = latest(files.checkpoints)
    name = found and found.name
    first = ranks.first(lambda: name)
    with ranks.together():
        if name != first:
            raise RunError(
                f"{files.checkpoints}: the last checkpoint is {name} here and {first} for rank 0; all machines must see one folder"
            )
        state = State() if found is None else read_checkpoint(found, training.trained.module, optimiser)
        if ranks.leads:
            files.cut_log(state.step)
    return state


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


def _kept(training: Training, optimiser: Any, state: State, numbers: dict[str, float], *, last: bool) -> None:
    """Log a step; if it is one to validate after, choose weights and write a checkpoint."""
    files, told = training.files, training.config.validation
    files.log(state.step, numbers)
    if state.step % told.every == 0 or last:
        _validate(training, state)
        write_checkpoint(files.checkpoints, training.trained.module, optimiser, state, keep=told.keep)


def _validate(training: Training, state: State) -> None:
    """Measure the validation set, and keep the weights if they are the best so far."""
    trained, pairs, best = training.trained, training.validation, training.files.best
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
        write_folder(best.parent, {best.name: weights_of(trained.module)})
