"""TensorBoard and Weights & Biases: the log's numbers, passed on as they are written."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tellapart.errors import require
from tellapart.training.config import LogConfig

#: Called with a step and its numbers.
Tracker = Callable[[int, Mapping[str, float]], None]


@contextmanager
def open_trackers(config: LogConfig, folder: Path, name: str) -> Iterator[list[Tracker]]:
    """Give a callable for each tracker of the configuration, which writes below the run's folder; close all at the end.

    Nothing is opened before the first number, so other ranks than the first, which log nothing, open nothing.
    """
    trackers: list[Tracker] = []
    with ExitStack() as stack:
        if config.tensorboard:
            trackers.append(_open_lazily(_open_tensorboard(stack, folder)))
        if config.wandb is not None:
            trackers.append(_open_lazily(_open_wandb(stack, folder, name, config.wandb)))
        yield trackers


def _open_lazily(open_tracker: Callable[[int], Tracker]) -> Tracker:
    """Open at the first number: at its step the run begins, or goes on."""
    opened: list[Tracker] = []

    def track(step: int, numbers: Mapping[str, float]) -> None:
        if not opened:
            opened.append(open_tracker(step))
        opened[0](step, numbers)

    return track


def _open_tensorboard(stack: ExitStack, folder: Path) -> Callable[[int], Tracker]:
    writer_class = require("torch.utils.tensorboard", extra="train").SummaryWriter

    def open_tracker(first: int) -> Tracker:
        # A killed run may have written steps beyond its last checkpoint, which are taken again: they are dropped.
        writer: Any = writer_class(str(folder / "tensorboard"), purge_step=first)
        stack.callback(writer.close)

        def track(step: int, numbers: Mapping[str, float]) -> None:
            for key, value in numbers.items():
                writer.add_scalar(key, value, step)
            writer.flush()  # steps before a checkpoint are never written again

        return track

    return open_tracker


def _open_wandb(stack: ExitStack, folder: Path, name: str, project: str) -> Callable[[int], Tracker]:
    wandb = require("wandb", extra="wandb")

    def open_tracker(_first: int) -> Tracker:
        # The run's id, so that a resumed run goes on in the same place; W&B drops steps that it has.
        path = folder / "wandb-id.txt"
        if not path.exists():
            path.write_text(secrets.token_hex(8), encoding="utf-8")
        run: Any = wandb.init(project=project, name=name, dir=str(folder), id=path.read_text("utf-8"), resume="allow")
        stack.callback(run.finish)
        return lambda step, numbers: run.log(dict(numbers), step=step)

    return open_tracker
